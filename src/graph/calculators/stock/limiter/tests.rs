use super::super::tests::harness::Node;
use crate::{
    graph::calculators::{
        packet::Payload::{Bool, Int},
        timestamp::Timestamp,
    },
    proto::mediapipe::FlowLimiterCalculatorOptions,
};

fn node(calculator: &str) -> Node {
    Node::of(calculator)
        .inputs(&["a", "FINISHED:f"])
        .outputs(&["x", "ALLOW:ok"])
}

fn queue(flight: i32, queue: i32) -> FlowLimiterCalculatorOptions {
    FlowLimiterCalculatorOptions {
        max_in_flight: Some(flight),
        max_in_queue: Some(queue),
        ..Default::default()
    }
}

#[test]
fn one_is_in_flight_and_the_rest_is_dropped() {
    let node = node("FlowLimiterCalculator");
    let contract = node.contract().unwrap();
    assert_eq!(contract.handler, Some("ImmediateInputStreamHandler"));
    assert!(contract.wants_bounds);
    let mut run = node.start();
    assert_eq!(run.at(0, &[("a", Int(10))]), ["x 10 @0", "ok true @0"]);
    assert_eq!(
        run.at(1, &[("a", Int(11))]),
        ["ok false @1", "x bound 2"],
        "whoever waits for the output knows that 1 will not come"
    );
    assert!(run.at(0, &[("f", Bool(true))]).is_empty());
    assert_eq!(run.at(2, &[("a", Int(12))]), ["x 12 @2", "ok true @2"]);
}

#[test]
fn the_newest_waits() {
    let mut run = node("FlowLimiterCalculator").options(&queue(1, 1)).start();
    assert_eq!(run.at(0, &[("a", Int(10))]), ["x 10 @0", "ok true @0"]);
    assert_eq!(run.at(1, &[("a", Int(11))]), Vec::<String>::new());
    assert_eq!(
        run.at(2, &[("a", Int(12))]),
        ["ok false @1", "x bound 2"],
        "the older one is dropped"
    );
    assert_eq!(
        run.at(0, &[("f", Bool(true))]),
        ["x 12 @2", "ok true @2"],
        "and the newer one goes when there is room"
    );
}

#[test]
fn a_bound_of_finished_counts_as_well() {
    let mut run = node("FlowLimiterCalculator").options(&queue(1, 1)).start();
    run.at(0, &[("a", Int(10))]);
    run.at(1, &[("a", Int(11))]);
    assert_eq!(
        run.bound(0, &[("f", Timestamp::new(1))]),
        ["x 11 @1", "ok true @1"]
    );
}

#[test]
fn the_end_of_the_input_closes_the_output() {
    let mut run = node("FlowLimiterCalculator").start();
    run.at(0, &[("a", Int(10))]);
    assert_eq!(
        run.bound(1, &[("a", Timestamp::DONE)]),
        ["x closed", "ok closed"]
    );
    assert!(run.at(0, &[("f", Bool(true))]).is_empty());
}

#[test]
fn what_takes_too_long_is_forgotten() {
    let options = FlowLimiterCalculatorOptions {
        in_flight_timeout: Some(10),
        ..Default::default()
    };
    let mut run = node("FlowLimiterCalculator").options(&options).start();
    run.at(0, &[("a", Int(10))]);
    assert_eq!(
        run.at(10, &[("a", Int(11))]),
        ["ok false @10", "x bound 11"]
    );
    assert_eq!(run.at(11, &[("a", Int(12))]), ["x 12 @11", "ok true @11"]);
}

#[test]
fn other_inputs_follow_the_first() {
    let node = Node::of("FlowLimiterCalculator")
        .inputs(&["a", "b", "FINISHED:f"])
        .outputs(&["x", "y"]);
    let mut run = node.start();
    assert_eq!(
        run.at(0, &[("b", Int(20))]),
        ["y bound 0"],
        "nothing is known of 0 yet"
    );
    assert_eq!(run.at(0, &[("a", Int(10))]), ["x 10 @0", "y 20 @0"]);
    assert_eq!(run.at(1, &[("a", Int(11))]), ["x bound 2"]);
    assert_eq!(run.at(1, &[("b", Int(21))]), ["y bound 2"], "dropped too");
    run.at(0, &[("f", Bool(true))]);
    assert_eq!(
        run.at(2, &[("a", Int(12)), ("b", Int(22))]),
        ["x 12 @2", "y 22 @2"]
    );
}

#[test]
fn other_inputs_wait_only_so_long() {
    let node = Node::of("FlowLimiterCalculator")
        .inputs(&["a", "b", "FINISHED:f"])
        .outputs(&["x", "y"]);
    let mut run = node.start();
    for at in 0..10_000 {
        run.at(at, &[("b", Int(at))]);
    }
    assert_eq!(
        run.error_at(10_000, &[("b", Int(0))]),
        "RESOURCE_EXHAUSTED: more than 10000 packets of input stream \"b\" wait for \"a\""
    );
}

#[test]
fn a_side_packet_says_how_many() {
    for calculator in ["FlowLimiterCalculator", "RealTimeFlowLimiterCalculator"] {
        let node = node(calculator).side_inputs(&["MAX_IN_FLIGHT:n"]);
        let mut run = node.clone().side("n", Int(2)).start();
        assert!(run.at(0, &[("a", Int(1))]).contains(&"x 1 @0".to_owned()));
        assert!(run.at(1, &[("a", Int(2))]).contains(&"x 2 @1".to_owned()));
        assert!(!run.at(2, &[("a", Int(3))]).contains(&"x 3 @2".to_owned()));
        node.start();
        assert_eq!(
            node.clone().side("n", Int(0)).fails_to_open(),
            "INTERNAL: side packet MAX_IN_FLIGHT: expected at least 1, got 0"
        );
        assert_eq!(
            node.side("n", Int(1 << 40)).fails_to_open(),
            "INVALID_ARGUMENT: side packet MAX_IN_FLIGHT: expected an int from -2147483648 to \
             2147483647, got 1099511627776"
        );
    }
}

#[test]
fn ports_and_options_are_validated() {
    let node = node("FlowLimiterCalculator");
    assert_eq!(
        node.clone().inputs(&["a"]).refused(),
        "expected exactly one input stream FINISHED, got 0"
    );
    assert_eq!(
        node.clone().inputs(&["FINISHED:f"]).refused(),
        "expected at least one input stream without tag, got 0"
    );
    assert_eq!(
        node.clone().outputs(&["x", "y"]).refused(),
        "expected exactly 1 output stream without tag, got 2"
    );
    assert_eq!(
        node.clone().options(&queue(0, 0)).refused(),
        "max_in_flight: expected at least 1, got 0"
    );
    assert_eq!(
        node.options(&queue(1, -1)).refused(),
        "max_in_queue: expected at least 0, got -1"
    );
}

#[test]
fn without_a_queue_the_newest_is_dropped_too() {
    let node = node("RealTimeFlowLimiterCalculator");
    assert!(!node.contract().unwrap().wants_bounds);
    let mut run = node.start();
    assert_eq!(run.at(0, &[("a", Int(10))]), ["x 10 @0", "ok false @1"]);
    assert_eq!(run.at(1, &[("a", Int(11))]), ["x bound 2"]);
    assert_eq!(run.at(0, &[("f", Bool(true))]), ["ok true @2"]);
    assert_eq!(run.at(2, &[("a", Int(12))]), ["x 12 @2", "ok false @3"]);
    run.at(2, &[("f", Bool(true))]);
    assert_eq!(
        run.error_at(3, &[("f", Bool(true))]),
        "INTERNAL: Received a FINISHED packet, but we had none in flight."
    );
}

#[test]
fn what_passed_on_one_input_passes_on_the_others() {
    let node = Node::of("RealTimeFlowLimiterCalculator")
        .inputs(&["a", "b", "FINISHED:f"])
        .outputs(&["x", "y"]);
    let mut run = node.start();
    assert_eq!(run.at(0, &[("a", Int(10))]), ["x 10 @0"]);
    assert_eq!(run.at(1, &[("a", Int(11))]), ["x bound 2"]);
    assert_eq!(run.at(0, &[("b", Int(20))]), ["y 20 @0"], "0 is in flight");
    assert_eq!(run.at(1, &[("b", Int(21))]), ["y bound 2"]);
    run.at(0, &[("f", Bool(true))]);
    assert_eq!(run.at(2, &[("b", Int(22))]), ["y 22 @2"]);
}
