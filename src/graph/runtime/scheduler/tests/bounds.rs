//! Propagation of timestamps and bounds through a graph.

use super::rig::{Rig, full, int, later, node, pass, through, value};
use crate::graph::{
    calculators::{
        calculator::Emit,
        error::{AbseilCode, CalculatorStep},
        packet::Packet,
        timestamp::Timestamp,
    },
    check::plan::InputHandler,
};

/// Returns a node that sums and counts the available inputs.
fn join(name: &str, inputs: &[&str], output: &str) -> super::rig::Made {
    node(name, inputs, &[output], |job| {
        let there = job.inputs.iter().filter(|packet| !packet.is_empty());
        let sum = there.map(value).sum();
        vec![Emit::Packet(0, int(sum, job.at.value()))]
    })
}

#[test]
fn times_of_a_graph_input_increase() {
    let mut rig = Rig::new(&["in"], &["out"], vec![pass("pass", &["in"], &["out"])]);
    rig.feed("in", [0]);
    let error = rig.push("in", 7, 0).unwrap_err();
    assert_eq!(error.code, AbseilCode::InvalidArgument);
    let text = "Packet timestamp mismatch on a calculator receiving from stream \"in\". Current \
                minimum expected timestamp is 1 but received 0";
    assert!(error.message.starts_with(text), "{error}");
    let next = "a client gives a request its time with the parameter OVMS_MP_TIMESTAMP.";
    assert!(error.message.ends_with(next), "{error}");
    rig.run();
    assert!(rig.scheduler.is_finished());
    assert_eq!(rig.count("pass", CalculatorStep::Close), 1);
    assert_eq!(rig.reported("out"), [(0, 0)]);
    let reported = rig.scheduler.error().unwrap().message;
    assert!(
        reported.starts_with(&format!("CalculatorGraph::Run() failed: \n{text}")),
        "{reported}"
    );
    assert_eq!(rig.push("in", 7, 5).unwrap_err().message, reported);
}

#[test]
fn times_that_no_packet_can_have_are_refused() {
    for (at, text) in [
        (Timestamp::DONE, "illegal value: Timestamp::Done()"),
        (Timestamp::UNSET, "illegal value: Timestamp::Unset()"),
        (
            Timestamp::UNSTARTED,
            "illegal value: Timestamp::Unstarted()",
        ),
        (Timestamp::POST_STREAM, "must be the only Packet"),
    ] {
        let mut rig = Rig::new(&["in"], &["out"], vec![pass("pass", &["in"], &["out"])]);
        rig.feed("in", [0]);
        let error = rig.push("in", 1, at.value()).unwrap_err();
        assert!(error.message.contains(text), "{error}");
    }
}

#[test]
fn the_only_packet_of_a_stream_may_be_before_or_after_all_times() {
    for at in [Timestamp::PRE_STREAM, Timestamp::POST_STREAM] {
        let nodes = vec![pass("a", &["in"], &["mid"]), pass("b", &["mid"], &["out"])];
        let mut rig = Rig::new(&["in"], &["out"], nodes);
        rig.push("in", 1, at.value()).unwrap();
        rig.run();
        assert_eq!(rig.reported("out"), [(1, at.value())]);
        let error = rig.push("in", 2, 0).unwrap_err();
        assert!(
            error
                .message
                .contains("Timestamp::OneOverPostStream() but received 0"),
            "{error}"
        );
    }
}

#[test]
fn the_edges_of_time_pass_through() {
    let nodes = vec![pass("a", &["in"], &["mid"]), pass("b", &["mid"], &["out"])];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    let edges = [Timestamp::MIN.value(), Timestamp::MAX.value()];
    rig.feed("in", edges);
    rig.end();
    assert_eq!(rig.reported("out"), edges.map(|at| (at, at)));
    assert_eq!(rig.scheduler.error(), None);
}

#[test]
fn times_of_a_node_increase_too() {
    let twice = node("twice", &["in"], &["out"], |job| {
        [1, 2]
            .map(|value| Emit::Packet(0, int(value, job.at.value())))
            .into()
    });
    let mut rig = Rig::new(&["in"], &["out"], vec![twice]);
    rig.feed("in", [4]);
    assert_eq!(rig.reported("out"), [(1, 4)], "what was good is sent");
    let error = rig.scheduler.error().unwrap().message;
    assert!(
        error.contains(
            "from stream \"out\". Current minimum expected timestamp is 5 but received 4"
        )
    );
    assert!(rig.scheduler.is_finished());
}

#[test]
fn nothing_is_sent_to_a_closed_stream_or_to_none() {
    for (emit, text) in [
        (
            Emit::Packet(0, int(0, 9)),
            "Packet sent to closed stream \"out\".",
        ),
        (
            Emit::Packet(3, int(0, 9)),
            "node \"bad\" has 1 outputs of this kind, and sent to number 3",
        ),
    ] {
        let bad = node("bad", &["in"], &["out"], move |_| {
            vec![Emit::Close(0), emit.clone()]
        });
        let mut rig = Rig::new(&["in"], &["out"], vec![bad]);
        rig.feed("in", [4]);
        let error = rig.scheduler.error().unwrap().message;
        assert!(error.ends_with(text), "{error}");
    }
}

#[test]
fn an_offset_settles_what_was_dropped() {
    let drop = |name: &str| node(name, &["in"], &["dropped"], |_| Vec::new());
    let nodes = |drop| vec![drop, join("join", &["in", "dropped"], "out")];
    let mut rig = Rig::new(&["in"], &["out"], nodes(drop("gate").offset(0)));
    rig.feed("in", [1, 2]);
    assert_eq!(rig.reported("out"), [(1, 1), (2, 2)]);
    let mut rig = Rig::new(&["in"], &["out"], nodes(drop("gate")));
    rig.feed("in", [1, 2]);
    assert_eq!(rig.reported("out"), [], "without, who knows?");
    rig.end();
    assert_eq!(rig.reported("out"), [(1, 1), (2, 2)]);
}

#[test]
fn offsets_move_bounds_also_where_nothing_is_processed() {
    for (offset, settled) in [(0, 9), (3, 12), (-4, 5)] {
        let nodes = vec![
            node("shift", &["a"], &["shifted"], |_| Vec::new()).offset(offset),
            pass("on", &["shifted"], &["far"]),
            join("join", &["b", "far"], "out"),
        ];
        let mut rig = Rig::new(&["a", "b"], &["out"], nodes);
        rig.feed("b", 0..20);
        assert_eq!(rig.reported("out"), []);
        rig.scheduler.bound(0, Timestamp::new(10));
        rig.run();
        let expected: Vec<(i64, i64)> = (0..=settled).map(|at| (at, at)).collect();
        assert_eq!(rig.reported("out"), expected);
        rig.scheduler.bound(0, Timestamp::new(3));
        rig.run();
        assert_eq!(rig.reported("out"), expected, "bounds do not fall");
        rig.end();
        assert_eq!(rig.reported("out").len(), 20);
    }
}

#[test]
fn bounds_closes_and_empty_packets_settle() {
    for emit in [
        Emit::Bound(0, Timestamp::new(6)),
        Emit::Close(0),
        Emit::Packet(0, Packet::empty(Timestamp::new(5))),
    ] {
        let say = node("say", &["in"], &["said"], move |_| vec![emit.clone()]);
        let nodes = vec![say, join("join", &["in", "said"], "out")];
        let mut rig = Rig::new(&["in"], &["out"], nodes);
        rig.feed("in", [5]);
        assert_eq!(rig.reported("out"), [(5, 5)]);
    }
}

#[test]
fn sets_and_single_inputs_do_not_wait_for_each_other_to_be_settled() {
    let sets = || InputHandler::SyncSet(vec![vec![0], vec![1]]);
    for handler in [sets(), InputHandler::Immediate] {
        let made = pass("pass", &["a", "b"], &["x", "y"]).handler(handler);
        let nodes = vec![made, join("join", &["x", "y"], "out")];
        let mut rig = Rig::new(&["a", "b"], &["y", "out"], nodes);
        rig.feed("a", [5]);
        assert_eq!(rig.reported("out"), [(5, 5)]);
        // Unless they wait already.
        rig.push("a", 6, 6).unwrap();
        rig.feed("b", [6]);
        assert_eq!(rig.reported("out"), [(5, 5), (12, 6)]);
        rig.feed("b", [7]);
        rig.feed("a", [7]);
        assert_eq!(rig.reported("y"), [(6, 6), (7, 7)]);
        let error = rig.scheduler.error().unwrap().message;
        let text = "from stream \"x\". Current minimum expected timestamp is 8 but received 7";
        assert!(error.contains(text), "{error}");
    }
    // Without an offset nothing is known of the others.
    for handler in [sets(), InputHandler::Immediate] {
        let made = node("pass", &["a", "b"], &["x", "y"], through).handler(handler);
        let mut rig = Rig::new(&["a", "b"], &["x", "y"], vec![made]);
        rig.feed("a", [5]);
        rig.feed("b", [3]);
        rig.end();
        assert_eq!(
            (rig.reported("x"), rig.reported("y")),
            (vec![(5, 5)], vec![(3, 3)])
        );
        assert_eq!(rig.scheduler.error(), None);
    }
}

#[test]
fn the_highest_time_of_one_set_leaves_others_what_is_after_all_times() {
    let made = pass("pass", &["a", "b"], &["x", "y"]).handler(InputHandler::Immediate);
    let nodes = vec![made, node("join", &["x", "y"], &[], |_| Vec::new())];
    let mut rig = Rig::new(&["a", "b"], &["y"], nodes);
    rig.feed("a", [Timestamp::MAX.value()]);
    assert_eq!(rig.count("join", CalculatorStep::Process), 1);
    let last = Timestamp::POST_STREAM.value();
    rig.push("b", 1, last).unwrap();
    rig.end();
    assert_eq!(rig.reported("y"), [(1, last)]);
    assert_eq!(rig.count("join", CalculatorStep::Process), 2);
    assert_eq!(rig.scheduler.error(), None);
}

#[test]
fn barriers_care_for_no_times() {
    let nodes = vec![
        node("back", &["in"], &["falling"], |job| {
            vec![Emit::Packet(0, int(job.at.value(), 100 - job.at.value()))]
        }),
        node("pair", &["in", "falling"], &["out"], |job| {
            let sum = job.inputs.iter().map(value).sum();
            vec![Emit::Packet(0, int(sum, job.inputs[0].at().value()))]
        })
        .handler(InputHandler::Barrier),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.feed("in", [1, 2, 3]);
    assert_eq!(rig.reported("out"), [(2, 1), (4, 2), (6, 3)]);
    rig.end();
    assert_eq!(rig.scheduler.error(), None);
}

#[test]
fn nodes_that_ask_for_bounds_get_them() {
    let reported = node("seen", &["a", "b"], &["out"], |job| {
        let at = job.at.value();
        assert!(job.bounds.iter().all(|bound| *bound > job.at));
        vec![Emit::Packet(0, int(job.bounds[0].value(), at))]
    });
    let mut rig = Rig::new(&["a", "b"], &["out"], vec![reported.wants_bounds()]);
    rig.scheduler.bound(0, Timestamp::new(8));
    rig.run();
    assert_eq!(rig.reported("out"), []);
    rig.scheduler.bound(1, Timestamp::new(5));
    rig.run();
    rig.feed("b", [6]);
    rig.end();
    assert_eq!(rig.reported("out"), [(8, 4), (8, 6)]);
}

#[test]
fn bounds_wait_for_what_is_still_in_flight() {
    let nodes = vec![
        node("slow", &["in"], &["slowly"], |_| Vec::new())
            .offset(0)
            .in_flight(2),
        join("join", &["in", "slowly"], "out"),
    ];
    let mut rig = Rig::new(&["in"], &["out"], nodes);
    rig.run();
    for at in [1, 2] {
        rig.push("in", at, at).unwrap();
    }
    let mut held: Vec<_> = (0..2)
        .map(|_| {
            let job = rig.scheduler.next_job().unwrap();
            rig.call(job)
        })
        .collect();
    assert!(rig.scheduler.next_job().is_none());
    let (ticket, outcome) = held.pop().unwrap();
    rig.scheduler.done(ticket, outcome);
    assert!(rig.scheduler.next_job().is_none(), "1 is not settled");
    let (ticket, outcome) = held.pop().unwrap();
    rig.scheduler.done(ticket, outcome);
    rig.run();
    assert_eq!(rig.reported("out"), [(1, 1), (2, 2)]);
}

#[test]
fn packets_may_be_sent_when_nodes_open_and_close() {
    let edge = full("edge", &["in"], &["mid"], |job| {
        later(
            match job.ticket.step {
                CalculatorStep::Open => vec![Emit::Packet(0, int(-1, 0))],
                CalculatorStep::Process => through(job),
                CalculatorStep::Close => vec![Emit::Packet(0, int(-2, 10))],
            },
            false,
        )
    });
    let mut rig = Rig::new(
        &["in"],
        &["out"],
        vec![pass("on", &["mid"], &["out"]), edge],
    );
    rig.feed("in", [5]);
    rig.end();
    assert_eq!(rig.reported("out"), [(-1, 0), (5, 5), (-2, 10)]);
}
