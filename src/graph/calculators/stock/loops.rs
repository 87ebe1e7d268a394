//! Loops: the elements of a list become packets with a timestamp each, and then a list again.

use super::elements::{list_of, typed};
use super::prelude::*;

/// Calculators that begin a loop.
pub(super) static BEGIN: &[Factory] = typed!(
    "BeginLoop",
    "Calculator",
    "Sends each element of the list ITERABLE as ITEM, at times counted from 0, with copies of CLONE.",
    begin,
    |node, _| {
        let find = |tag| Output::new(node.outputs.find(tag, 0).unwrap_or_default());
        let copies = node.outputs.tagged("CLONE").map(Output::new);
        Box::new(Begin {
            item: find("ITEM"),
            batch_end: find("BATCH_END"),
            clones: node.inputs.tagged("CLONE").zip(copies).collect(),
            next: Timestamp::new(0),
        })
    },
    [
        "Boolean",
        "ImageFrame",
        "Int",
        "Int64",
        "Integer",
        "Uint64t"
    ]
);

/// Calculators that end a loop.
pub(super) static END: &[Factory] = typed!(
    "EndLoop",
    "Calculator",
    "Collects ITEMs, and sends them as the list ITERABLE at the time that BATCH_END gives.",
    end,
    |_, _| Box::new(End::default()),
    [
        "Boolean",
        "ImageFrame",
        "Int",
        "Int64",
        "Integers",
        "Uint64t"
    ]
);

struct Begin {
    item: Output,
    batch_end: Output,
    /// Copied inputs, with their outputs.
    clones: Vec<(usize, Output)>,
    /// Timestamp of the next element.
    next: Timestamp,
}

fn begin<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    ask.takes("ITERABLE", Count::One, &list_of(element))
        .takes("CLONE", Count::Any, &PacketType::Any)
        .takes("TICK", Count::Optional, &PacketType::Any)
        .gives("ITEM", Count::One, element)
        .gives_same("CLONE", "CLONE")
        .gives("BATCH_END", Count::One, &PacketType::Time)
        .wants_bounds()
}

impl Calculator for Begin {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let inputs = context.inputs;
        let items = match value::tagged(context, "ITERABLE") {
            Some(payload) => value::list(payload, "ITERABLE")?,
            None => &[],
        };
        for item in items {
            let at = self.next;
            self.item.send(context, Packet::new(item.clone(), at));
            for (input, output) in &mut self.clones {
                let packet = &inputs[*input];
                if !packet.is_empty() {
                    output.send(context, packet.moved(at));
                }
            }
            self.next = at.next_allowed();
        }
        if items.is_empty() {
            // Even an empty list takes a timestamp, at which it ends.
            self.next = self.next.next_allowed();
        }
        let next = self.next;
        self.item.raise(context, next);
        for (_, output) in &mut self.clones {
            output.raise(context, next);
        }
        let time = Payload::Time(context.at);
        let last = Packet::new(time, next.settled());
        self.batch_end.send(context, last);
        Ok(StepOutcome::Next)
    }
}

#[derive(Default)]
struct End {
    items: Vec<Payload>,
}

fn end<'a>(ask: Ask<'a>, element: &PacketType) -> Ask<'a> {
    ask.takes("ITEM", Count::One, element)
        .takes("BATCH_END", Count::One, &PacketType::Time)
        .gives("ITERABLE", Count::One, &list_of(element))
}

impl Calculator for End {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        self.items.extend(value::tagged(context, "ITEM").cloned());
        match value::tagged(context, "BATCH_END") {
            None => {}
            Some(Payload::Time(at)) if self.items.is_empty() => {
                context.emit(Emit::Bound(0, at.next_allowed()));
            }
            Some(Payload::Time(at)) => {
                let items = Payload::List(std::mem::take(&mut self.items));
                context.send_packet(0, Packet::new(items, *at));
            }
            Some(other) => return Err(value::unlike("a timestamp", other, "BATCH_END")),
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::harness::{Node, list, text};
    use crate::graph::calculators::{
        packet::{
            PacketType,
            Payload::{Int, Time},
        },
        timestamp::Timestamp,
    };

    fn begin() -> Node {
        Node::of("BeginLoopIntCalculator")
            .inputs(&["ITERABLE:a", "CLONE:0:c", "CLONE:1:d"])
            .outputs(&["ITEM:i", "CLONE:0:x", "CLONE:1:y", "BATCH_END:e"])
    }

    #[test]
    fn elements_have_times_that_run_on() {
        let contract = begin().contract().unwrap();
        assert!(contract.wants_bounds);
        assert_eq!(contract.offset, None);
        assert_eq!(
            contract.outputs,
            [
                PacketType::Time,
                PacketType::SameAsInput(0),
                PacketType::SameAsInput(1),
                PacketType::Int
            ]
        );
        let mut run = begin().start();
        assert_eq!(
            run.at(50, &[("a", list(&[7, 8])), ("c", text("c"))]),
            [
                "i 7 @0",
                "x \"c\" @0",
                "i 8 @1",
                "x \"c\" @1",
                "y bound 2",
                "e 50 @1"
            ]
        );
        assert_eq!(
            run.at(60, &[("a", list(&[9])), ("d", Int(1))]),
            ["i 9 @2", "y 1 @2", "x bound 3", "e 60 @2"]
        );
    }

    #[test]
    fn an_empty_list_takes_a_time() {
        let mut run = begin().start();
        let nothing = ["i bound 1", "x bound 1", "y bound 1", "e 50 @0"];
        assert_eq!(run.at(50, &[("a", list(&[]))]), nothing);
        assert_eq!(
            run.bound(60, &[("a", Timestamp::new(61))]),
            ["i bound 2", "x bound 2", "y bound 2", "e 60 @1"],
            "a bound does as well"
        );
        assert_eq!(
            run.error_at(70, &[("a", Int(1))]),
            "INVALID_ARGUMENT: ITERABLE: expected a list, got int"
        );
    }

    #[test]
    fn the_end_gathers() {
        let node = Node::of("EndLoopIntegersCalculator")
            .inputs(&["ITEM:i", "BATCH_END:e"])
            .outputs(&["ITERABLE:o"]);
        let contract = node.contract().unwrap();
        assert_eq!(
            contract.outputs,
            [PacketType::List(Box::new(PacketType::Int))]
        );
        let mut run = node.start();
        let time = |at| Time(Timestamp::new(at));
        assert!(run.at(0, &[("i", Int(1))]).is_empty());
        assert_eq!(
            run.at(1, &[("i", Int(2)), ("e", time(50))]),
            ["o [1, 2] @50"]
        );
        assert_eq!(run.at(2, &[("e", time(60))]), ["o bound 61"]);
        assert_eq!(run.at(3, &[("i", Int(3)), ("e", time(70))]), ["o [3] @70"]);
        assert_eq!(
            run.error_at(4, &[("e", Int(80))]),
            "INVALID_ARGUMENT: BATCH_END: expected a timestamp, got int"
        );
    }

    #[test]
    fn ports_are_validated() {
        assert_eq!(
            begin().inputs(&["CLONE:c"]).refused(),
            "expected exactly one input stream ITERABLE, got 0"
        );
        assert_eq!(
            begin().inputs(&["ITERABLE:a"]).refused(),
            "expected exactly 0 output streams CLONE, got 2"
        );
        let no_end = begin().outputs(&["ITEM:i", "CLONE:0:x", "CLONE:1:y"]);
        assert_eq!(
            no_end.refused(),
            "expected exactly one output stream BATCH_END, got 0"
        );
        let end = Node::of("EndLoopTensorCalculator").outputs(&["ITERABLE:o"]);
        assert_eq!(
            end.clone().inputs(&["ITEM:i"]).refused(),
            "expected exactly one input stream BATCH_END, got 0"
        );
        assert_eq!(
            end.clone().inputs(&["BATCH_END:e"]).refused(),
            "expected exactly one input stream ITEM, got 0"
        );
        let end = end.inputs(&["ITEM:i", "BATCH_END:e"]).outputs(&[]);
        assert_eq!(
            end.refused(),
            "expected exactly one output stream ITERABLE, got 0"
        );
    }
}
