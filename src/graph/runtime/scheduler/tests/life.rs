//! Opening and closing of nodes.

use std::sync::Arc;

use super::rig::{Made, Rig, full, int, later, node, pass, plan, through, value};
use crate::graph::{
    calculators::{
        calculator::Emit,
        error::{AbseilCode, CalculatorStep},
        packet::{Packet, Payload},
        timestamp::Timestamp,
    },
    check::plan::InputHandler,
    runtime::scheduler::Scheduler,
};

/// Returns a node without streams that sets a side packet.
fn giver(name: &str, step: Option<CalculatorStep>, side: &str) -> Made {
    full(name, &[], &[], move |job| {
        let given = Emit::Side(0, Packet::side(Payload::Int(7)));
        later(
            if step == Some(job.ticket.step) {
                vec![given]
            } else {
                Vec::new()
            },
            false,
        )
    })
    .sides(&[], &[side])
}

/// Returns a node that adds its side packet to each packet.
fn adder(name: &str, side: &str) -> Made {
    node(name, &["in"], &["out"], |job| {
        let sum = value(&job.inputs[0]) + value(&job.side[0]);
        vec![Emit::Packet(0, int(sum, job.at.value()))]
    })
    .sides(&[side], &[])
}

#[test]
fn those_that_give_side_packets_are_opened_first() {
    let nodes = vec![
        adder("add", "S:seven"),
        giver("give", Some(CalculatorStep::Open), "S:seven"),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.feed("in", [1]);
    assert_eq!(rig.calls[0], ("give".to_owned(), CalculatorStep::Open));
    assert_eq!(rig.calls[1], ("add".to_owned(), CalculatorStep::Open));
    assert_eq!(
        rig.count("give", CalculatorStep::Process),
        0,
        "it has no streams"
    );
    assert_eq!(rig.count("give", CalculatorStep::Close), 1);
    rig.end();
    assert_eq!(rig.reported("out"), [(8, 1)]);
}

#[test]
fn a_side_packet_that_comes_at_the_end_opens_who_waited_for_it() {
    let last = full("last", &["in"], &[], |job| {
        let given = Emit::Side(0, Packet::side(Payload::Int(7)));
        later(
            if job.ticket.step == CalculatorStep::Close {
                vec![given]
            } else {
                Vec::new()
            },
            false,
        )
    })
    .sides(&[], &["S:seven"]);
    let mut rig = Rig::new(&["in"], &["out"], vec![adder("add", "S:seven"), last]);
    rig.feed("in", 0..150);
    assert_eq!(rig.reported("out"), []);
    rig.end();
    let expected: Vec<(i64, i64)> = (0..150).map(|at| (at + 7, at)).collect();
    assert_eq!(rig.reported("out"), expected);
}

#[test]
fn a_side_packet_that_is_missing_is_named() {
    let make = |made: Made| Arc::new(plan(&["in"], &["out"], vec![made]).0);
    let plan = make(adder("add", "S:seven"));
    let error = Scheduler::new(Arc::clone(&plan), Vec::new()).unwrap_err();
    assert_eq!(error.code, AbseilCode::FailedPrecondition);
    assert_eq!(
        error.message,
        "Side packet \"seven\" is required but was not provided."
    );
    let side = vec![Some(Packet::side(Payload::Int(1)))];
    let mut scheduler = Scheduler::new(plan, side).unwrap();
    assert_eq!(value(&scheduler.next_job().unwrap().side[0]), 1);
    let plan = make(adder("add", "S:seven").optional());
    let mut scheduler = Scheduler::new(plan, Vec::new()).unwrap();
    assert!(scheduler.next_job().unwrap().side[0].is_empty());
}

#[test]
fn a_node_that_breaks_its_word_about_a_side_packet_fails_who_needs_it() {
    let nodes = vec![adder("add", "S:seven"), giver("give", None, "S:seven")];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.run();
    let error = rig.scheduler.error().unwrap().message;
    assert!(
        error.ends_with("Side packet \"seven\" is required but was not provided."),
        "{error}"
    );
    assert!(rig.scheduler.is_finished());
    assert_eq!(rig.count("add", CalculatorStep::Open), 0);
    assert_eq!(
        rig.count("add", CalculatorStep::Close),
        0,
        "it was never opened"
    );
    let nodes = vec![
        adder("add", "S:seven").optional(),
        giver("give", None, "S:seven"),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.feed("in", [1]);
    assert_eq!(rig.reported("out"), [(0, 1)], "it can do without");
}

#[test]
fn a_side_packet_is_given_once() {
    let twice = full("twice", &["in"], &[], |job| {
        let given = Emit::Side(0, Packet::side(Payload::Int(7)));
        later(
            if job.ticket.step == CalculatorStep::Process {
                vec![given]
            } else {
                Vec::new()
            },
            false,
        )
    })
    .sides(&[], &["S:seven"]);
    let mut rig = Rig::new(&["in"], &[], vec![twice]);
    rig.feed("in", [1]);
    assert_eq!(rig.scheduler.error(), None);
    rig.feed("in", [2]);
    let error = rig.scheduler.error().unwrap().message;
    assert!(
        error.ends_with("Output side packet \"seven\" was already set."),
        "{error}"
    );
}

#[test]
fn packets_wait_until_a_node_is_open() {
    let nodes = vec![pass("a", &["in"], &["mid"]), pass("b", &["mid"], &["out"])];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.push("in", 1, 1).unwrap();
    let (first, second) = (
        rig.scheduler.next_job().unwrap(),
        rig.scheduler.next_job().unwrap(),
    );
    assert_eq!(
        (first.ticket.step, second.ticket.step),
        (CalculatorStep::Open, CalculatorStep::Open)
    );
    assert_eq!(
        (first.at, first.inputs.len(), first.bounds.len()),
        (Timestamp::UNSTARTED, 0, 0)
    );
    assert!(rig.scheduler.next_job().is_none());
    let (ticket, outcome) = rig.call(first);
    rig.scheduler.done(ticket, outcome);
    let job = rig.scheduler.next_job().unwrap();
    assert_eq!(
        (job.ticket.node, job.ticket.step, job.at),
        (0, CalculatorStep::Process, Timestamp::new(1))
    );
    let (ticket, outcome) = rig.call(job);
    rig.scheduler.done(ticket, outcome);
    assert!(rig.scheduler.next_job().is_none(), "b is not open");
    assert_eq!(rig.scheduler.running, 1);
    let (ticket, outcome) = rig.call(second);
    rig.scheduler.done(ticket, outcome);
    rig.end();
    assert_eq!(rig.reported("out"), [(1, 1)]);
}

/// Returns a source of this many numbers.
fn source(name: &str, count: i64, output: &str) -> Made {
    let mut next = 0;
    full(name, &[], &[output], move |job| {
        if job.ticket.step != CalculatorStep::Process {
            return later(Vec::new(), false);
        }
        assert_eq!(
            job.at.value(),
            Timestamp::MIN.value() + next,
            "called {next} times before"
        );
        next += 1;
        later(vec![Emit::Packet(0, int(next, next))], next == count)
    })
}

#[test]
fn sources_run_until_they_stop() {
    let nodes = vec![source("count", 3, "mid"), pass("pass", &["mid"], &["out"])];
    let mut rig = Rig::new(&[], &["out"], nodes);
    rig.run();
    assert!(rig.scheduler.is_finished());
    assert_eq!(rig.reported("out"), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(rig.count("count", CalculatorStep::Process), 3);
    assert_eq!(rig.count("count", CalculatorStep::Close), 1);
}

#[test]
fn sources_take_turns_and_wait_for_who_is_slow() {
    let nodes = vec![
        source("a", 500, "a"),
        source("b", 500, "b"),
        // Takes one at a time, and both only together.
        node("both", &["a", "b"], &["out"], through_first).offset(0),
    ];
    let mut rig = Rig::tuned(&[], &["out"], nodes, |plan| plan.max_queue = Some(2));
    rig.run();
    assert!(rig.scheduler.is_finished());
    assert_eq!(rig.reported("out").len(), 500);
}

fn through_first(job: &crate::graph::runtime::scheduler::GraphJob) -> Vec<Emit> {
    through(job).into_iter().take(1).collect()
}

#[test]
fn a_node_that_stops_is_closed_and_the_others_go_on() {
    let once = full("once", &["in"], &["one"], |job| {
        let emits = if job.ticket.step == CalculatorStep::Process {
            through(job)
        } else {
            Vec::new()
        };
        later(emits, job.ticket.step == CalculatorStep::Process)
    });
    let nodes = vec![once, pass("pass", &["in"], &["all"])];
    let mut rig = Rig::new(&["in"], &["one", "all"], nodes);
    rig.feed("in", 0..300);
    assert_eq!(rig.reported("one"), [(0, 0)]);
    assert_eq!(
        rig.reported("all").len(),
        300,
        "nobody waits for the one that stopped"
    );
    assert_eq!(rig.count("once", CalculatorStep::Close), 1);
    rig.end();
    assert_eq!(rig.scheduler.error(), None);
}

#[test]
fn a_node_closes_early_if_its_handler_says_so() {
    let nodes = vec![
        node("first", &["a", "b"], &["out"], through_first).handler(InputHandler::EarlyClose),
        pass("after", &["out"], &["end"]),
    ];
    let mut rig = Rig::new(&["a", "b"], &["end"], nodes);
    rig.push("a", 1, 1).unwrap();
    rig.push("b", 1, 1).unwrap();
    rig.scheduler.close_input(1);
    rig.run();
    assert_eq!(rig.reported("end"), [(1, 1)]);
    assert_eq!(rig.count("after", CalculatorStep::Close), 1);
    for at in 2..500 {
        assert!(
            rig.scheduler.accepts(0),
            "nobody listens, and nothing piles up"
        );
        rig.push("a", at, at).unwrap();
    }
    rig.end();
}

#[test]
fn results_of_several_at_once_come_in_order() {
    let mut rig = Rig::new(
        &["in"],
        &["out"],
        vec![pass("wide", &["in"], &["out"]).in_flight(3)],
    );
    rig.run();
    for at in 0..5 {
        rig.push("in", at, at).unwrap();
    }
    let mut held = Vec::new();
    while let Some(job) = rig.scheduler.next_job() {
        held.push(rig.call(job));
    }
    assert_eq!((held.len(), rig.scheduler.running), (3, 3));
    let (ticket, outcome) = held.pop().unwrap();
    rig.scheduler.done(ticket, outcome);
    rig.take();
    assert_eq!(rig.reported("out"), [], "0 is still in flight");
    assert!(
        rig.scheduler
            .next_job()
            .is_some_and(|job| job.at == Timestamp::new(3))
    );
    for (ticket, outcome) in held {
        rig.scheduler.done(ticket, outcome);
    }
    rig.take();
    assert_eq!(rig.reported("out"), [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn what_was_begun_after_a_stop_is_not_reported() {
    let stop = full("stop", &["in"], &["out"], |job| {
        let emits = if job.ticket.step == CalculatorStep::Process {
            through(job)
        } else {
            Vec::new()
        };
        later(emits, job.at == Timestamp::new(1))
    });
    let mut rig = Rig::new(&["in"], &["out"], vec![stop.in_flight(4)]);
    rig.run();
    for at in 0..4 {
        rig.push("in", at, at).unwrap();
    }
    let mut held = Vec::new();
    while let Some(job) = rig.scheduler.next_job() {
        held.push(rig.call(job));
    }
    assert_eq!(held.len(), 4);
    while let Some((ticket, outcome)) = held.pop() {
        rig.scheduler.done(ticket, outcome);
        assert_eq!(
            rig.scheduler.next_job().is_some(),
            held.is_empty(),
            "closed when all have ended"
        );
    }
    rig.take();
    assert_eq!(rig.reported("out"), [(0, 0), (1, 1)]);
}

#[test]
fn a_node_emits_in_its_order_over_all_outputs() {
    let swap = node("swap", &["in"], &["x", "y"], |job| {
        [1, 0]
            .map(|place| Emit::Packet(place, job.inputs[0].clone()))
            .into()
    });
    let mut rig = Rig::new(&["in"], &["x", "y"], vec![swap]);
    rig.feed("in", [1, 2]);
    let names: Vec<&str> = rig
        .reported
        .iter()
        .map(|(name, ..)| name.as_str())
        .collect();
    assert_eq!(names, ["y", "x", "y", "x"]);
}

#[test]
fn an_input_may_be_an_output_and_a_graph_may_have_no_nodes() {
    let mut rig = Rig::new(&["in"], &["in"], Vec::new());
    rig.feed("in", [1]);
    assert!(!rig.scheduler.is_finished());
    rig.end();
    assert_eq!(rig.reported("in"), [(1, 1)]);
}

#[test]
fn inputs_that_are_missing_at_the_end_are_empty() {
    let count = node("count", &["a", "b"], &["out"], |job| {
        let there = job.inputs.iter().filter(|packet| !packet.is_empty());
        let there = i64::try_from(there.count()).unwrap();
        vec![Emit::Packet(0, int(there, job.at.value()))]
    });
    let mut rig = Rig::new(&["a", "b"], &["out"], vec![count]);
    rig.feed("a", [0]);
    assert_eq!(rig.reported("out"), []);
    assert!(!rig.scheduler.is_finished());
    rig.end();
    assert_eq!(rig.reported("out"), [(1, 0)]);
    let error = rig.push("a", 1, 1).unwrap_err();
    assert_eq!(error.message, "Packet sent to closed stream \"a\".");
    assert_eq!(rig.scheduler.error(), None);
}
