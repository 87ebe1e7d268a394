//! Tests of when each handler is ready, and of the packets it takes.

use super::{Input, Look, Policy};
use crate::graph::{
    calculators::{
        packet::{Packet, Payload},
        timestamp::Timestamp,
    },
    check::plan::InputHandler,
};

/// Test node with inputs and a handler.
struct Bench {
    policy: Policy,
    inputs: Vec<Input>,
}

fn at(time: i64) -> Timestamp {
    Timestamp::new(time)
}

impl Bench {
    fn new(handler: &InputHandler, inputs: usize) -> Self {
        Self::with(handler, inputs, false)
    }

    fn with(handler: &InputHandler, inputs: usize, wants_bounds: bool) -> Self {
        Self {
            policy: Policy::new(handler, inputs, wants_bounds),
            inputs: (0..inputs).map(|_| Input::new()).collect(),
        }
    }

    /// Puts packets, with their timestamps as values, into an input.
    fn put(&mut self, place: usize, times: &[i64]) -> &mut Self {
        for time in times {
            self.inputs[place].push(Packet::new(Payload::Int(*time), at(*time)));
        }
        self
    }

    fn raise(&mut self, place: usize, bound: i64) -> &mut Self {
        self.inputs[place].raise(at(bound));
        self
    }

    fn close(&mut self, place: usize) -> &mut Self {
        self.inputs[place].raise(Timestamp::DONE);
        self
    }

    fn look(&mut self) -> Look {
        let look = self.policy.look(&mut self.inputs);
        assert_eq!(
            look,
            self.policy.look(&mut self.inputs),
            "looking is harmless"
        );
        look
    }

    /// Takes the ready packets: their timestamp and values.
    fn take(&mut self) -> (i64, Vec<Option<i64>>) {
        let Look::At(at) = self.look() else {
            panic!("not ready")
        };
        let packets = self.policy.take(at, &mut self.inputs);
        let values = packets.iter().map(|packet| match packet.payload() {
            Some(Payload::Int(value)) => Some(*value),
            _ => None,
        });
        (at.value(), values.collect())
    }
}

#[test]
fn default_waits_until_all_are_settled() {
    let mut bench = Bench::new(&InputHandler::Default, 2);
    assert_eq!(bench.look(), Look::Wait);
    assert_eq!(bench.put(0, &[1, 3]).look(), Look::Wait);
    assert_eq!(bench.raise(1, 1).look(), Look::Wait, "1 may still come");
    assert_eq!(bench.raise(1, 2).take(), (1, vec![Some(1), None]));
    assert_eq!(bench.look(), Look::Wait);
    assert_eq!(bench.put(1, &[3]).take(), (3, vec![Some(3), Some(3)]));
    bench.put(0, &[5]).close(1);
    assert_eq!(bench.take(), (5, vec![Some(5), None]));
    assert_eq!(bench.look(), Look::Wait);
    assert_eq!(bench.close(0).look(), Look::Done);
}

#[test]
fn default_reports_bounds_if_it_is_asked_to() {
    let mut bench = Bench::with(&InputHandler::Default, 2, true);
    assert_eq!(bench.look(), Look::Wait);
    bench.raise(0, 5);
    assert_eq!(bench.look(), Look::Wait, "the other may have anything");
    bench.raise(1, 8);
    assert_eq!(bench.take(), (4, vec![None, None]));
    assert_eq!(bench.look(), Look::Wait, "4 was sent");
    bench.put(1, &[9]);
    assert_eq!(bench.look(), Look::Wait);
    bench.raise(0, 9);
    assert_eq!(bench.take(), (8, vec![None, None]));
    bench.close(0);
    assert_eq!(bench.take(), (9, vec![None, Some(9)]));
    assert_eq!(bench.close(1).look(), Look::Done);
}

#[test]
fn packets_before_and_after_all_times_are_the_only_ones() {
    let mut bench = Bench::new(&InputHandler::Default, 1);
    let only = [Timestamp::PRE_STREAM.value()];
    assert_eq!(bench.put(0, &only).take().0, only[0]);
    assert_eq!(bench.look(), Look::Done, "nothing can follow");
    let mut bench = Bench::with(&InputHandler::Default, 1, true);
    let last = [Timestamp::MAX.value(), Timestamp::POST_STREAM.value()];
    bench.put(0, &last[1..]);
    assert_eq!(bench.take().0, last[1]);
    assert_eq!(bench.look(), Look::Done);
}

#[test]
fn immediate_takes_what_is_there() {
    let mut bench = Bench::new(&InputHandler::Immediate, 3);
    bench.put(0, &[5]).put(1, &[3, 5]);
    assert_eq!(bench.take(), (3, vec![None, Some(3), None]));
    assert_eq!(bench.take(), (5, vec![Some(5), Some(5), None]));
    assert_eq!(bench.look(), Look::Wait);
    bench.put(2, &[1]);
    assert_eq!(
        bench.take(),
        (1, vec![None, None, Some(1)]),
        "later, but earlier"
    );
    assert_eq!(bench.close(0).close(1).look(), Look::Wait);
    assert_eq!(bench.close(2).look(), Look::Done);
}

#[test]
fn immediate_reports_bounds_of_any_input_and_of_its_end_once() {
    let mut bench = Bench::with(&InputHandler::Immediate, 2, true);
    assert_eq!(bench.look(), Look::Wait);
    bench.raise(0, 7);
    assert_eq!(bench.take(), (6, vec![None, None]));
    assert_eq!(bench.look(), Look::Wait);
    bench.put(0, &[9]);
    assert_eq!(bench.take(), (9, vec![Some(9), None]));
    bench.close(0);
    assert_eq!(bench.take().0, Timestamp::POST_STREAM.value());
    assert_eq!(bench.look(), Look::Wait);
    bench.put(1, &[2]);
    assert_eq!(bench.take(), (2, vec![None, Some(2)]));
    bench.close(1);
    assert_eq!(bench.take().0, Timestamp::POST_STREAM.value());
    assert_eq!(bench.look(), Look::Done);
}

#[test]
fn sync_sets_are_apart() {
    let mut bench = Bench::new(&InputHandler::SyncSet(vec![vec![1], vec![0, 2]]), 3);
    bench.put(0, &[4]);
    assert_eq!(bench.look(), Look::Wait, "2 is in its set");
    bench.put(1, &[4, 6]);
    assert_eq!(bench.take(), (4, vec![None, Some(4), None]));
    bench.put(2, &[5]);
    assert_eq!(
        bench.take(),
        (4, vec![Some(4), None, None]),
        "the lowest time"
    );
    bench.close(0).close(2);
    assert_eq!(bench.take(), (5, vec![None, None, Some(5)]));
    assert_eq!(bench.take(), (6, vec![None, Some(6), None]));
    assert_eq!(
        bench.look(),
        Look::Wait,
        "one set is done, the other is not"
    );
    assert_eq!(bench.close(1).look(), Look::Done);
}

#[test]
fn of_sets_for_the_same_time_the_first_is_taken() {
    let mut bench = Bench::new(&InputHandler::SyncSet(vec![vec![1], vec![0]]), 2);
    bench.put(0, &[4]).put(1, &[4]);
    assert_eq!(bench.take(), (4, vec![None, Some(4)]));
    assert_eq!(bench.take(), (4, vec![Some(4), None]));
}

#[test]
fn a_barrier_takes_one_of_each_whatever_the_times() {
    let mut bench = Bench::new(&InputHandler::Barrier, 2);
    bench.put(0, &[7, 3]);
    assert_eq!(bench.look(), Look::Wait);
    bench.put(1, &[9]);
    assert_eq!(bench.take(), (7, vec![Some(7), Some(9)]));
    assert_eq!(bench.look(), Look::Wait);
    assert_eq!(bench.close(1).look(), Look::Done, "3 will have no company");
}

#[test]
fn early_close_ends_with_any_input() {
    let mut bench = Bench::new(&InputHandler::EarlyClose, 2);
    bench.put(0, &[1, 2]).put(1, &[1]).close(1);
    assert_eq!(bench.take(), (1, vec![Some(1), Some(1)]));
    assert_eq!(bench.look(), Look::Done, "though 2 waits");
}

#[test]
fn mux_takes_the_one_that_control_names() {
    let mut bench = Bench::new(&InputHandler::Mux, 3);
    let choose = |bench: &mut Bench, place: i64, time: i64| {
        bench.inputs[2].push(Packet::new(Payload::Int(place), at(time)));
    };
    choose(&mut bench, 1, 5);
    bench.put(0, &[5, 6]);
    assert_eq!(bench.look(), Look::Wait, "1 is named, and may still have 5");
    bench.put(1, &[4, 5]);
    assert_eq!(bench.take(), (5, vec![None, Some(5), Some(1)]));
    choose(&mut bench, 0, 6);
    assert_eq!(
        bench.take(),
        (6, vec![Some(6), None, Some(0)]),
        "5 was dropped"
    );
    choose(&mut bench, 1, 7);
    bench.raise(1, 8);
    assert_eq!(
        bench.take(),
        (7, vec![None, None, Some(1)]),
        "settled without"
    );
    choose(&mut bench, 2, 8);
    assert_eq!(
        bench.take(),
        (8, vec![None, None, Some(2)]),
        "the node will check it"
    );
    bench.put(0, &[9]);
    assert_eq!(bench.look(), Look::Wait);
    assert_eq!(bench.close(2).look(), Look::Done);
}

#[test]
fn fixed_size_drops_the_oldest_when_all_queues_have_grown() {
    let rule = |fixed_min| InputHandler::FixedSize {
        trigger: 3,
        target: 1,
        fixed_min,
    };
    let mut bench = Bench::new(&rule(false), 1);
    bench.put(0, &[1, 2]);
    assert_eq!(bench.take(), (1, vec![Some(1)]), "not so many yet");
    bench.put(0, &[3, 4]);
    assert_eq!(bench.take(), (4, vec![Some(4)]));

    let mut bench = Bench::new(&rule(false), 2);
    bench.put(0, &[1, 2, 3, 4]).put(1, &[1, 2]);
    assert_eq!(
        bench.take(),
        (1, vec![Some(1), Some(1)]),
        "one queue is short"
    );
    bench.put(1, &[3, 4]);
    assert_eq!(bench.take(), (4, vec![Some(4), Some(4)]));

    let mut bench = Bench::new(&rule(true), 2);
    bench.put(0, &[1, 2, 3, 4]).put(1, &[1, 2, 3]);
    assert_eq!(bench.take(), (3, vec![Some(3), Some(3)]), "each keeps one");
}

#[test]
fn aligned_times_meet_at_the_first_of_the_base() {
    let mut bench = Bench::new(&InputHandler::TimestampAlign(0), 2);
    bench.put(1, &[1_000]);
    assert_eq!(bench.look(), Look::Wait, "the base says when");
    bench.put(0, &[10]);
    assert_eq!(bench.take(), (10, vec![Some(10), Some(1_000)]));
    bench.put(0, &[20]);
    assert_eq!(bench.look(), Look::Wait, "1010 may still come");
    bench.put(1, &[1_005]);
    assert_eq!(bench.take(), (15, vec![None, Some(1_005)]));
    bench.raise(1, 1_011);
    assert_eq!(bench.take(), (20, vec![Some(20), None]));
    assert_eq!(bench.close(0).close(1).look(), Look::Done);
}

#[test]
fn the_base_goes_alone_until_all_are_there() {
    let mut bench = Bench::new(&InputHandler::TimestampAlign(1), 2);
    bench.put(1, &[1, 2]);
    assert_eq!(bench.take(), (1, vec![None, Some(1)]));
    bench.put(0, &[50]);
    assert_eq!(bench.take(), (2, vec![Some(50), Some(2)]));
    let mut bench = Bench::new(&InputHandler::TimestampAlign(1), 2);
    assert_eq!(bench.put(0, &[5]).close(1).look(), Look::Done);
}

#[test]
fn times_below_the_bound_are_taken_with_empty_packets() {
    let mut input = Input::new();
    input.push(Packet::new(Payload::Int(1), at(1)));
    input.push(Packet::new(Payload::Int(2), at(2)));
    assert_eq!(input.time(), at(1));
    assert!(input.take(at(2)).payload().is_some(), "1 is dropped");
    assert_eq!(input.time(), at(3));
    assert!(input.take(at(2)).is_empty());
    assert!(!input.raise(at(3)) && input.raise(at(4)));
    input.push(Packet::new(Payload::Int(4), at(4)));
    assert!(!input.raise(at(9)), "nobody can notice before 4 is taken");
    input.close();
    assert!(input.is_done() && !input.raise(Timestamp::DONE));
}
