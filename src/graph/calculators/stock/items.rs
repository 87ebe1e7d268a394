//! Elements of lists: one, the first few, their number.

use super::elements::{list_of, typed};
use super::prelude::*;
use crate::proto::mediapipe::{ClipVectorSizeCalculatorOptions, GetVectorItemCalculatorOptions};

/// Calculators that take one element.
pub(super) static GET: &[Factory] = typed!(
    "Get",
    "VectorItemCalculator",
    "Takes the element of VECTOR that INDEX or the option item_index names.",
    get,
    |node, _| Box::new(Get {
        options: node.options.get().unwrap_or_default()
    }),
    ["", "Bool", "Int", "Uint64t"]
);

/// Calculators that truncate a list.
pub(super) static CLIP: &[Factory] = typed!(
    "Clip",
    "VectorSizeCalculator",
    "Passes at most so many elements of a list on, from its beginning.",
    clip,
    |node, _| {
        let options: ClipVectorSizeCalculatorOptions = node.options.get().unwrap_or_default();
        Box::new(Clip {
            most: usize::try_from(options.max_vec_size()).unwrap_or(1),
        })
    },
    ["", "Bool", "Int", "Uint64t"]
);

/// Calculators that return the size of a list.
pub(super) static SIZE: &[Factory] = typed!(
    "",
    "VectorSizeCalculator",
    "Reports in SIZE how many elements VECTOR has.",
    size,
    |_, _| Box::new(send_size),
    ["", "Bool", "Int", "Uint64t"]
);

struct Get {
    options: GetVectorItemCalculatorOptions,
}

fn get<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    let node = ask.node;
    let options: GetVectorItemCalculatorOptions = node.options.get().unwrap_or_default();
    let index = PacketType::Either(vec![PacketType::Int, PacketType::UInt]);
    let item = options.item_index();
    ask.takes("VECTOR", Count::One, &list_of(element))
        .takes("INDEX", Count::Optional, &index)
        .demand(
            options.item_index.is_some() || node.inputs.find("INDEX", 0).is_some(),
            || "expected the input stream INDEX or the option item_index".to_owned(),
        )
        .demand(item >= 0, || {
            format!("item_index: expected at least 0, got {item}")
        })
        .gives("ITEM", Count::One, element)
        .settles()
}

impl Calculator for Get {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let Some(vector) = value::tagged(context, "VECTOR") else {
            return Ok(StepOutcome::Next);
        };
        let list = value::list(vector, "VECTOR")?;
        let given = value::tagged(context, "INDEX")
            .map(|index| value::int(index, "INDEX"))
            .transpose()?;
        let Some(index) = given.or(self.options.item_index) else {
            return Ok(StepOutcome::Next);
        };
        let size = list.len();
        let outside = |least: &str| {
            let text = format!("INDEX: expected {least}, got {index} in a list of {size}");
            GraphRunError::internal(text)
        };
        let place = usize::try_from(index).map_err(|_| outside("at least 0"))?;
        match list.get(place) {
            Some(item) => context.send(0, item.clone()),
            None if self.options.output_empty_on_oob() => {}
            None => return Err(outside("less than the size")),
        }
        Ok(StepOutcome::Next)
    }
}

struct Clip {
    most: usize,
}

fn clip<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    let node = ask.node;
    let options: ClipVectorSizeCalculatorOptions = node.options.get().unwrap_or_default();
    let (list, most) = (list_of(element), options.max_vec_size());
    ask.takes(EVERY, Count::One, &list)
        .needs("", Count::Optional, &PacketType::Int)
        .demand(most >= 1, || {
            format!("max_vec_size: expected at least 1, got {most}")
        })
        .gives(EVERY, Count::One, &list)
        .settles()
}

impl Calculator for Clip {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if let Some(most) = value::side_as(context, "", value::int)? {
            let fits = usize::try_from(most).ok().filter(|most| *most > 0);
            let text = || format!("side packet: expected a size of at least 1, got {most}");
            self.most = fits.ok_or_else(|| GraphRunError::internal(text()))?;
        }
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let Some(payload) = context.inputs[0].payload() else {
            return Ok(StepOutcome::Next);
        };
        let list = value::list(payload, "input stream")?;
        if list.len() <= self.most {
            context.forward(0, 0);
        } else {
            context.send(0, Payload::List(list[..self.most].to_vec()));
        }
        Ok(StepOutcome::Next)
    }
}

fn size<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    ask.takes("VECTOR", Count::One, &list_of(element))
        .gives("SIZE", Count::One, &PacketType::Int)
        .settles()
}

fn send_size(context: &mut CalculatorContext<'_>) -> StepResult {
    if let Some(vector) = value::tagged(context, "VECTOR") {
        let size = value::list(vector, "VECTOR")?.len();
        context.send(0, Payload::Int(i64::try_from(size).unwrap_or(i64::MAX)));
    }
    Ok(StepOutcome::Next)
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, list};
    use crate::{
        graph::calculators::packet::{
            PacketType,
            Payload::{Int, UInt},
        },
        proto::mediapipe::{ClipVectorSizeCalculatorOptions, GetVectorItemCalculatorOptions},
    };

    fn item(index: Option<i32>, empty: bool) -> GetVectorItemCalculatorOptions {
        GetVectorItemCalculatorOptions {
            item_index: index,
            output_empty_on_oob: Some(empty),
        }
    }

    #[test]
    fn an_element_by_its_index() {
        let node = Node::of("GetIntVectorItemCalculator")
            .inputs(&["VECTOR:v", "INDEX:i"])
            .outputs(&["ITEM:o"]);
        assert_eq!(node.contract().unwrap().outputs, [PacketType::Int]);
        let mut run = node.start();
        let vector = || ("v", list(&[5, 6]));
        assert_eq!(run.at(0, &[vector(), ("i", Int(1))]), ["o 6 @0"]);
        assert_eq!(run.at(1, &[vector(), ("i", UInt(0))]), ["o 5 @1"]);
        assert!(run.at(2, &[vector()]).is_empty());
        assert!(run.at(3, &[("i", Int(0))]).is_empty());
        assert_eq!(
            run.error_at(4, &[vector(), ("i", Int(2))]),
            "INTERNAL: INDEX: expected less than the size, got 2 in a list of 2"
        );
        assert_eq!(
            run.error_at(5, &[vector(), ("i", Int(-1))]),
            "INTERNAL: INDEX: expected at least 0, got -1 in a list of 2"
        );
    }

    #[test]
    fn an_element_by_the_option() {
        let node = Node::of("GetVectorItemCalculator")
            .inputs(&["VECTOR:v"])
            .outputs(&["ITEM:o"]);
        assert_eq!(
            node.refused(),
            "expected the input stream INDEX or the option item_index"
        );
        assert_eq!(
            node.clone().options(&item(Some(-1), false)).refused(),
            "item_index: expected at least 0, got -1"
        );
        let mut run = node.clone().options(&item(Some(1), true)).start();
        assert_eq!(run.at(0, &[("v", list(&[5, 6]))]), ["o 6 @0"]);
        assert!(run.at(1, &[("v", list(&[5]))]).is_empty());
        let other = node
            .inputs(&["VECTOR:v", "INDEX:i"])
            .options(&item(Some(0), false));
        assert_eq!(
            other.start().at(0, &[("v", list(&[5, 6])), ("i", Int(1))]),
            ["o 6 @0"],
            "the stream takes precedence over the option"
        );
    }

    #[test]
    fn lists_are_clipped() {
        let node = Node::of("ClipIntVectorSizeCalculator")
            .inputs(&["v"])
            .outputs(&["o"]);
        assert_eq!(node.start().at(0, &[("v", list(&[5, 6]))]), ["o [5] @0"]);
        let options = |size| ClipVectorSizeCalculatorOptions {
            max_vec_size: Some(size),
        };
        let two = node.clone().options(&options(2));
        let mut run = two.start();
        assert_eq!(run.at(0, &[("v", list(&[5, 6, 7]))]), ["o [5, 6] @0"]);
        assert_eq!(run.at(1, &[("v", list(&[5]))]), ["o [5] @1"]);
        assert_eq!(
            run.error_at(2, &[("v", Int(1))]),
            "INVALID_ARGUMENT: input stream: expected a list, got int"
        );
        let by_side = two.side_inputs(&["n"]);
        let mut run = by_side.clone().side("n", Int(1)).start();
        assert_eq!(run.at(0, &[("v", list(&[5, 6, 7]))]), ["o [5] @0"]);
        assert_eq!(
            by_side.side("n", Int(0)).fails_to_open(),
            "INTERNAL: side packet: expected a size of at least 1, got 0"
        );
        assert_eq!(
            node.options(&options(0)).refused(),
            "max_vec_size: expected at least 1, got 0"
        );
    }

    #[test]
    fn lists_are_counted() {
        let node = Node::of("IntVectorSizeCalculator")
            .inputs(&["VECTOR:v"])
            .outputs(&["SIZE:n"]);
        let mut run = node.start();
        assert_eq!(run.at(0, &[("v", list(&[5, 6]))]), ["n 2 @0"]);
        assert_eq!(run.at(1, &[("v", list(&[]))]), ["n 0 @1"]);
        assert_eq!(
            run.error_at(2, &[("v", Int(1))]),
            "INVALID_ARGUMENT: VECTOR: expected a list, got int"
        );
        assert_eq!(
            node.inputs(&["v"]).refused(),
            "expected exactly one input stream VECTOR, got 0"
        );
    }
}
