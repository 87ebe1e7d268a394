//! Splitting and concatenation of lists.

use super::elements::{list_of, typed};
use super::prelude::*;
use crate::proto::mediapipe::{ConcatenateVectorCalculatorOptions, SplitVectorCalculatorOptions};

/// Calculators that split a list.
pub(super) static SPLIT: &[Factory] = typed!(
    "Split",
    "VectorCalculator",
    "Takes a list apart: an output for each of the ranges of the options.",
    split,
    |node, _| {
        let options: SplitVectorCalculatorOptions = node.options.get().unwrap_or_default();
        let ranges = ranges(&options).unwrap_or_default();
        Box::new(Split {
            longest: ranges.iter().map(|(_, end)| *end).max().unwrap_or(0),
            ranges,
            elements: options.element_only(),
            combine: options.combine_outputs(),
        })
    },
    ["Bool", "ImageFrame", "Int", "Uint64t"]
);

/// Calculators that concatenate lists.
pub(super) static CONCATENATE: &[Factory] = typed!(
    "Concatenate",
    "VectorCalculator",
    "Puts lists and elements together to one list, in the order of the inputs.",
    concatenate,
    |node, _| {
        let options: ConcatenateVectorCalculatorOptions = node.options.get().unwrap_or_default();
        Box::new(Concatenate {
            only_all: options.only_emit_if_all_present(),
        })
    },
    ["Bool", "Int32", "Int64", "UInt64"]
);

/// Ranges of elements, from `.0` to before `.1`.
type Ranges = Vec<(usize, usize)>;

struct Split {
    ranges: Ranges,
    longest: usize,
    elements: bool,
    combine: bool,
}

fn split<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    let node = ask.node;
    let options: SplitVectorCalculatorOptions = node.options.get().unwrap_or_default();
    let (ranges, error) = match ranges(&options) {
        Ok(ranges) => (ranges, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let outputs = node.outputs.len();
    let (combine, elements) = (options.combine_outputs(), options.element_only());
    let expected = if combine { 1 } else { ranges.len() };
    let single = ranges.iter().find(|(begin, end)| end - begin != 1);
    let list = list_of(element);
    let gives = if elements && !combine { element } else { &list };
    ask.demand(error.is_none(), || error.unwrap_or_default())
        .takes(EVERY, Count::One, &list)
        .demand(!ranges.is_empty(), || {
            "ranges: expected at least one range with begin and end, got none".to_owned()
        })
        .demand(!(combine && elements), || {
            "expected at most one of element_only and combine_outputs, got both".to_owned()
        })
        .demand(!elements || single.is_none(), || {
            let (begin, end) = single.copied().unwrap_or_default();
            format!(
                "ranges: expected ranges of one element with element_only, got {begin} to {end}"
            )
        })
        .demand(!combine || !overlap(&ranges), || {
            "ranges: expected ranges that do not overlap with combine_outputs".to_owned()
        })
        .demand(outputs == expected, || {
            format!("expected as many output streams as ranges ({expected}), got {outputs}")
        })
        .gives(EVERY, Count::Some, gives)
        .settles()
}

fn ranges(options: &SplitVectorCalculatorOptions) -> Result<Ranges, String> {
    let ranges = options.ranges.iter().map(|range| {
        let (begin, end) = (range.begin(), range.end());
        match (usize::try_from(begin), usize::try_from(end)) {
            (Ok(begin), Ok(end)) if begin < end => Ok((begin, end)),
            _ => Err(format!(
                "ranges: expected a begin of at least 0 and an end above it, got {begin} to {end}"
            )),
        }
    });
    ranges.collect()
}

fn overlap(ranges: &[(usize, usize)]) -> bool {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

impl Calculator for Split {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let Some(payload) = context.inputs[0].payload() else {
            return Ok(StepOutcome::Next);
        };
        let list = value::list(payload, "input stream")?;
        let (size, least) = (list.len(), self.longest);
        if size < least {
            return Err(GraphRunError::internal(format!(
                "expected a list of at least {least} elements, as the ranges say, got {size}"
            )));
        }
        let part = |(begin, end): &(usize, usize)| &list[*begin..*end];
        if self.combine {
            let all = self.ranges.iter().flat_map(part).cloned().collect();
            context.send(0, Payload::List(all));
            return Ok(StepOutcome::Next);
        }
        for (output, range) in self.ranges.iter().enumerate() {
            if self.elements {
                context.send(output, list[range.0].clone());
            } else {
                context.send(output, Payload::List(part(range).to_vec()));
            }
        }
        Ok(StepOutcome::Next)
    }
}

struct Concatenate {
    only_all: bool,
}

fn concatenate<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    let list = list_of(element);
    let either = PacketType::Either(vec![list.clone(), element.clone()]);
    ask.takes(EVERY, Count::Some, &either)
        .gives(EVERY, Count::One, &list)
        .settles()
}

impl Calculator for Concatenate {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let mut all = Vec::new();
        for packet in context.inputs {
            match packet.payload() {
                None if self.only_all => return Ok(StepOutcome::Next),
                None => {}
                Some(Payload::List(list)) => all.extend(list.iter().cloned()),
                Some(element) => all.push(element.clone()),
            }
        }
        context.send(0, Payload::List(all));
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, list};
    use crate::{
        graph::calculators::packet::{PacketType, Payload::Int},
        proto::mediapipe::{
            ConcatenateVectorCalculatorOptions, SplitVectorCalculatorOptions,
            split_vector_calculator_options::Range,
        },
    };

    fn ranges(ranges: &[(i32, i32)]) -> SplitVectorCalculatorOptions {
        let range = |(begin, end): &(i32, i32)| Range {
            begin: Some(*begin),
            end: Some(*end),
        };
        SplitVectorCalculatorOptions {
            ranges: ranges.iter().map(range).collect(),
            ..Default::default()
        }
    }

    fn split(outputs: &[&str]) -> Node {
        Node::of("SplitIntVectorCalculator")
            .inputs(&["a"])
            .outputs(outputs)
    }

    #[test]
    fn a_list_is_taken_apart() {
        let node = split(&["x", "y"]).options(&ranges(&[(0, 2), (1, 3)]));
        let list_of_ints = PacketType::List(Box::new(PacketType::Int));
        assert_eq!(
            node.contract().unwrap().outputs,
            [list_of_ints.clone(), list_of_ints]
        );
        let mut run = node.start();
        assert_eq!(
            run.at(0, &[("a", list(&[5, 6, 7, 8]))]),
            ["x [5, 6] @0", "y [6, 7] @0"]
        );
        assert_eq!(
            run.error_at(1, &[("a", list(&[5, 6]))]),
            "INTERNAL: expected a list of at least 3 elements, as the ranges say, got 2"
        );
        assert_eq!(
            run.error_at(2, &[("a", Int(1))]),
            "INVALID_ARGUMENT: input stream: expected a list, got int"
        );
    }

    #[test]
    fn single_elements_can_be_had() {
        let mut options = ranges(&[(1, 2), (0, 1)]);
        options.element_only = Some(true);
        let node = split(&["x", "y"]).options(&options);
        assert_eq!(
            node.contract().unwrap().outputs,
            [PacketType::Int, PacketType::Int]
        );
        assert_eq!(
            node.start().at(0, &[("a", list(&[5, 6]))]),
            ["x 6 @0", "y 5 @0"]
        );
        options.ranges[0].end = Some(3);
        assert_eq!(
            node.options(&options).refused(),
            "ranges: expected ranges of one element with element_only, got 1 to 3"
        );
    }

    #[test]
    fn ranges_can_be_put_together() {
        let mut options = ranges(&[(2, 3), (0, 1)]);
        options.combine_outputs = Some(true);
        let node = split(&["x"]).options(&options);
        assert_eq!(
            node.start().at(0, &[("a", list(&[5, 6, 7]))]),
            ["x [7, 5] @0"]
        );
        let mut both = options.clone();
        both.element_only = Some(true);
        assert_eq!(
            node.clone().options(&both).refused(),
            "expected at most one of element_only and combine_outputs, got both"
        );
        options.ranges[1].end = Some(3);
        assert_eq!(
            node.options(&options).refused(),
            "ranges: expected ranges that do not overlap with combine_outputs"
        );
    }

    #[test]
    fn ranges_are_validated() {
        let node = split(&["x"]);
        assert_eq!(
            node.refused(),
            "ranges: expected at least one range with begin and end, got none"
        );
        for (begin, end) in [(-1, 1), (2, 2), (3, 1)] {
            let node = node.clone().options(&ranges(&[(begin, end)]));
            assert_eq!(
                node.refused(),
                format!(
                    "ranges: expected a begin of at least 0 and an end above it, got {begin} to {end}"
                )
            );
        }
        assert_eq!(
            node.clone().options(&ranges(&[(0, 1), (1, 2)])).refused(),
            "expected as many output streams as ranges (2), got 1"
        );
        assert_eq!(
            node.options(&ranges(&[(0, 1)]))
                .inputs(&["a", "b"])
                .refused(),
            "expected exactly one input stream, got 2"
        );
    }

    #[test]
    fn lists_and_elements_are_put_together() {
        let node = Node::of("ConcatenateInt32VectorCalculator")
            .inputs(&["a", "b", "c"])
            .outputs(&["o"]);
        let mut run = node.start();
        assert_eq!(
            run.at(0, &[("a", list(&[1, 2])), ("b", Int(3)), ("c", list(&[]))]),
            ["o [1, 2, 3] @0"]
        );
        assert_eq!(run.at(1, &[("c", list(&[4]))]), ["o [4] @1"]);
        let options = ConcatenateVectorCalculatorOptions {
            only_emit_if_all_present: Some(true),
        };
        let mut run = node.clone().options(&options).start();
        assert!(run.at(0, &[("a", Int(1)), ("b", Int(2))]).is_empty());
        assert_eq!(
            run.at(1, &[("a", Int(1)), ("b", Int(2)), ("c", Int(3))]),
            ["o [1, 2, 3] @1"]
        );
        assert_eq!(
            node.clone().inputs(&[]).refused(),
            "expected at least one input stream, got 0"
        );
        assert_eq!(
            node.outputs(&["o", "p"]).refused(),
            "expected exactly one output stream, got 2"
        );
    }
}
