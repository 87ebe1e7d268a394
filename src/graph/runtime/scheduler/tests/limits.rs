//! Limits of queues and of concurrent steps.

use super::rig::{Made, Rig, int, node, pass, value};
use crate::graph::{
    calculators::{
        calculator::Emit,
        error::{AbseilCode, CalculatorStep},
    },
    check::plan::InputHandler,
};

fn join(inputs: &[&str], output: &str) -> Made {
    node("join", inputs, &[output], |job| {
        let sum = job.inputs.iter().map(|packet| value(packet).max(0)).sum();
        vec![Emit::Packet(0, int(sum, job.at.value()))]
    })
}

#[test]
fn an_input_waits_while_a_queue_is_full() {
    let nodes = vec![pass("pass", &["in"], &["out"])];
    let mut rig = Rig::tuned(&["in"], &["out"], nodes, |plan| plan.max_queue = Some(2));
    rig.run();
    rig.push("in", 0, 0).unwrap();
    let job = rig.scheduler.next_job().unwrap();
    for at in [1, 2] {
        assert!(rig.scheduler.accepts(0));
        rig.push("in", at, at).unwrap();
    }
    assert!(!rig.scheduler.accepts(0) && rig.scheduler.next_job().is_none());
    assert!(!rig.scheduler.accepts(0), "the node is at work");
    let (ticket, outcome) = rig.call(job);
    rig.scheduler.done(ticket, outcome);
    assert!(rig.scheduler.next_job().is_some() && rig.scheduler.accepts(0));
}

#[test]
fn limits_are_raised_when_all_wait_for_each_other() {
    let nodes = vec![pass("pass", &["a"], &["far"]), join(&["far", "b"], "out")];
    let mut rig = Rig::tuned(&["a", "b"], &["out"], nodes, |plan| {
        plan.max_queue = Some(3);
    });
    rig.run();
    for at in 0..500 {
        assert!(rig.scheduler.accepts(0), "at {at}");
        rig.push("a", 1, at).unwrap();
        rig.run();
    }
    for at in 0..500 {
        rig.push("b", 2, at).unwrap();
    }
    rig.end();
    let expected: Vec<(i64, i64)> = (0..500).map(|at| (3, at)).collect();
    assert_eq!(rig.reported("out"), expected);
}

#[test]
fn a_deadlock_is_a_error_if_the_graph_says_so() {
    let nodes = vec![join(&["a", "b"], "out")];
    let mut rig = Rig::tuned(&["a", "b"], &["out"], nodes, |plan| {
        plan.max_queue = Some(3);
        plan.report_deadlock = true;
    });
    rig.feed("a", [0, 1]);
    rig.feed("b", [0, 1]);
    rig.feed("a", [2, 3]);
    assert_eq!(rig.scheduler.error(), None);
    rig.feed("a", [4]);
    let error = rig.scheduler.error().unwrap();
    assert_eq!(error.code, AbseilCode::Unavailable);
    assert!(
        error
            .message
            .contains("Detected a deadlock due to input throttling for: \"a\""),
        "{error}"
    );
    assert!(rig.scheduler.is_finished() && rig.scheduler.accepts(0));
}

#[test]
fn limits_are_not_raised_forever() {
    let mut rig = Rig::new(&["a", "b"], &["out"], vec![join(&["a", "b"], "out")]);
    rig.run();
    let mut pushed = 0;
    while rig.push("a", 0, pushed).is_ok() {
        pushed += 1;
        rig.run();
        assert!(rig.scheduler.accepts(0) && pushed < 100_000);
    }
    assert_eq!(pushed, 65_536);
    assert_eq!(
        rig.scheduler.error().unwrap().code,
        AbseilCode::ResourceExhausted
    );
}

#[test]
fn without_a_limit_any_number_waits() {
    let nodes = vec![join(&["a", "b"], "out")];
    let mut rig = Rig::tuned(&["a", "b"], &["out"], nodes, |plan| plan.max_queue = None);
    rig.feed("a", 0..70_000);
    assert!(rig.scheduler.accepts(0));
    rig.end();
    assert_eq!(rig.reported("out").len(), 70_000);
}

#[test]
fn nodes_wait_for_the_slow_one_after_them() {
    let nodes = vec![
        node("many", &["in"], &["mid"], |job| {
            let at = job.at.value() * 10;
            (at..at + 10)
                .map(|at| Emit::Packet(0, int(at, at)))
                .collect()
        }),
        pass("slow", &["mid"], &["out"]),
    ];
    let mut rig = Rig::tuned(&["in"], &["out"], nodes, |plan| plan.max_queue = Some(5));
    rig.run();
    for at in 0..5 {
        rig.push("in", at, at).unwrap();
    }
    // The slow node takes one packet and does not end; the first runs until its queue is full.
    let mut held = None;
    while let Some(job) = rig.scheduler.next_job() {
        let is_slow = rig.plan.nodes[job.ticket.node].spec.name == "slow";
        let (ticket, outcome) = rig.call(job);
        if is_slow {
            held = Some((ticket, outcome));
        } else {
            rig.scheduler.done(ticket, outcome);
        }
    }
    assert_eq!(
        rig.count("many", CalculatorStep::Process),
        1,
        "ten are more than five"
    );
    assert!(rig.scheduler.accepts(0), "the input of the graph has room");
    let (ticket, outcome) = held.unwrap();
    rig.scheduler.done(ticket, outcome);
    rig.end();
    assert_eq!(rig.reported("out").len(), 50);
}

#[test]
fn nodes_wait_for_who_takes_the_outputs() {
    let nodes = vec![pass("pass", &["in"], &["out"])];
    let mut rig = Rig::new(&["in"], &["out", "in"], nodes);
    rig.run();
    rig.scheduler.backlog = 4;
    for at in 0..3 {
        rig.push("in", at, at).unwrap();
    }
    assert!(rig.scheduler.accepts(0));
    let job = rig.scheduler.next_job().unwrap();
    let (ticket, outcome) = rig.call(job);
    rig.scheduler.done(ticket, outcome);
    assert!(rig.scheduler.next_job().is_none(), "four wait");
    assert!(!rig.scheduler.accepts(0), "the input is an output");
    assert!(!rig.scheduler.is_idle(), "there is more to do");
    assert!(rig.scheduler.take_output().is_some());
    assert!(rig.scheduler.accepts(0));
    assert!(rig.scheduler.next_job().is_some());
}

#[test]
fn back_edges_hold_nobody_up() {
    // Of each packet five come around ten times, all of them in flight at once.
    let mut clock = 1_000;
    let mut send = move |place: usize, value: i64| {
        clock += 1;
        Emit::Packet(place, int(value, clock))
    };
    let nodes = vec![
        node(
            "turn",
            &["BACK:around", "IN:in"],
            &["around", "out"],
            move |job| {
                if job.inputs[0].is_empty() {
                    return (0..5).map(|_| send(0, 1)).collect();
                }
                let turns = value(&job.inputs[0]);
                vec![send(usize::from(turns == 10), turns + 1)]
            },
        )
        .back("around")
        .handler(InputHandler::Immediate),
    ];
    let mut rig = Rig::tuned(&["in"], &["out"], nodes, |plan| {
        plan.max_queue = Some(1);
        plan.report_deadlock = true;
    });
    for at in 0..50 {
        rig.push("in", 0, at).unwrap();
        rig.run();
    }
    rig.end();
    assert_eq!(rig.scheduler.error(), None);
    assert_eq!(rig.reported("out").len(), 250);
}
