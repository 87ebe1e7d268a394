use super::super::tests::harness::{Node, text};
use crate::{
    graph::calculators::{
        packet::{PacketType, Payload::Int},
        timestamp::Timestamp,
    },
    proto::mediapipe::{
        ConstantSidePacketCalculatorOptions,
        constant_side_packet_calculator_options::{
            ConstantSidePacket, constant_side_packet::Value,
        },
    },
};

fn constants(values: Vec<Option<Value>>) -> ConstantSidePacketCalculatorOptions {
    let packets = values.into_iter().map(|value| ConstantSidePacket { value });
    ConstantSidePacketCalculatorOptions {
        packet: packets.collect(),
    }
}

#[test]
fn constants_are_given_when_it_opens() {
    let values = [
        Value::IntValue(-1),
        Value::FloatValue(0.5),
        Value::BoolValue(true),
        Value::StringValue("s".to_owned()),
        Value::Uint64Value(u64::MAX),
        Value::DoubleValue(0.25),
        Value::Int64Value(i64::MIN),
    ];
    let names: Vec<String> = (0..7).map(|i| format!("PACKET:{i}:p{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let node = Node::of("ConstantSidePacketCalculator")
        .side_outputs(&names)
        .options(&constants(values.into_iter().map(Some).collect()));
    assert_eq!(
        node.contract().unwrap().side_outputs,
        [
            PacketType::Int,
            PacketType::Float,
            PacketType::Bool,
            PacketType::Text,
            PacketType::UInt,
            PacketType::Float,
            PacketType::Int
        ]
    );
    let mut run = node.start();
    assert_eq!(
        run.opened(),
        [
            "side p0 -1",
            "side p1 0.5",
            "side p2 true",
            "side p3 \"s\"",
            "side p4 18446744073709551615",
            "side p5 0.25",
            "side p6 -9223372036854775808"
        ]
    );
    run.at(0, &[]);
    assert!(run.stopped());
}

#[test]
fn constants_match_their_outputs() {
    let node = Node::of("ConstantSidePacketCalculator").side_outputs(&["PACKET:p"]);
    assert_eq!(
        node.refused(),
        "expected as many output side packets as there are in the options (0), got 1"
    );
    assert_eq!(
        node.clone().options(&constants(vec![None])).refused(),
        "packet 0: expected a value, such as int_value: 1, got none"
    );
    assert_eq!(
        node.side_outputs(&[]).refused(),
        "expected at least one output side packet PACKET, got 0"
    );
}

#[test]
fn a_default_value_stands_in() {
    let node = Node::of("DefaultSidePacketCalculator")
        .side_inputs(&["DEFAULT_VALUE:d", "OPTIONAL_VALUE:o"])
        .side_outputs(&["VALUE:v"])
        .side("d", Int(1));
    let contract = node.contract().unwrap();
    assert_eq!(
        contract.side_inputs,
        [(PacketType::Any, false), (PacketType::Any, true)]
    );
    assert_eq!(node.start().opened(), ["side v 1"]);
    assert_eq!(
        node.clone().side("o", Int(2)).start().opened(),
        ["side v 2"]
    );
    assert_eq!(
        node.clone().side_inputs(&["OPTIONAL_VALUE:o"]).refused(),
        "expected exactly one input side packet DEFAULT_VALUE, got 0"
    );
    assert_eq!(
        node.side_outputs(&[]).refused(),
        "expected exactly one output side packet VALUE, got 0"
    );
}

fn to_stream(output: &str) -> Node {
    Node::of("SidePacketToStreamCalculator")
        .side_inputs(&["s"])
        .outputs(&[output])
        .side("s", Int(5))
}

#[test]
fn side_packets_are_sent_once() {
    for (tag, time) in [
        ("AT_PRESTREAM", "Timestamp::PreStream()"),
        ("AT_POSTSTREAM", "Timestamp::PostStream()"),
        ("AT_ZERO", "0"),
    ] {
        let mut run = to_stream(&format!("{tag}:o")).start();
        assert!(run.at_time(Timestamp::MIN, &[]).is_empty());
        assert!(run.stopped());
        assert_eq!(run.close(), [format!("o 5 @{time}")]);
    }
    let node = to_stream("AT_TIMESTAMP:o").side_inputs(&["s", "TIMESTAMP:t"]);
    let mut run = node.clone().side("t", Int(77)).start();
    run.at(0, &[]);
    assert_eq!(run.close(), ["o 5 @77"]);
}

#[test]
fn side_packets_are_sent_with_ticks() {
    let node = to_stream("AT_TICK:o").inputs(&["TICK:t"]);
    assert_eq!(node.contract().unwrap().offset, Some(0));
    let mut run = node.start();
    assert_eq!(run.at(3, &[("t", text("x"))]), ["o 5 @3"]);
    assert_eq!(run.at(4, &[("t", text("x"))]), ["o 5 @4"]);
    assert!(run.close().is_empty());

    let mut run = to_stream("AT_FIRST_TICK:o").inputs(&["TICK:t"]).start();
    assert_eq!(run.at(3, &[("t", text("x"))]), ["o 5 @3", "o closed"]);
    assert!(run.at(4, &[("t", text("x"))]).is_empty());
}

#[test]
fn times_of_side_packets_are_validated() {
    let tags = "expected output streams of one tag among AT_PRESTREAM, AT_POSTSTREAM, AT_ZERO, AT_TICK, \
                AT_FIRST_TICK, AT_TIMESTAMP";
    assert_eq!(to_stream("o").refused(), tags);
    assert_eq!(to_stream("AT_ZERO:o").outputs(&[]).refused(), tags);
    let both = to_stream("AT_ZERO:o").outputs(&["AT_ZERO:o", "AT_TICK:p"]);
    assert_eq!(both.refused(), tags);
    let tick = "expected the input stream TICK together with outputs AT_TICK or AT_FIRST_TICK";
    assert_eq!(to_stream("AT_TICK:o").refused(), tick);
    assert_eq!(to_stream("AT_ZERO:o").inputs(&["TICK:t"]).refused(), tick);
    let time = "expected the side packet TIMESTAMP together with outputs AT_TIMESTAMP";
    assert_eq!(to_stream("AT_TIMESTAMP:o").refused(), time);
    let other = to_stream("AT_ZERO:o").side_inputs(&["s", "TIMESTAMP:t"]);
    assert_eq!(other.refused(), time);
    assert_eq!(
        to_stream("AT_ZERO:o").side_inputs(&["s", "t"]).refused(),
        "expected exactly 1 input side packet without tag, got 2"
    );
    let timed = to_stream("AT_TIMESTAMP:o").side_inputs(&["s", "TIMESTAMP:t"]);
    let mut run = timed.clone().side("t", Int(i64::MAX)).start();
    assert_eq!(
        run.error_at_close(),
        "INVALID_ARGUMENT: side packet TIMESTAMP: expected a time that packets may have, got \
         Timestamp::Done()"
    );
    let mut run = timed.side("t", text("x")).start();
    assert_eq!(
        run.error_at_close(),
        "INVALID_ARGUMENT: side packet TIMESTAMP: expected int64, got string"
    );
}

#[test]
fn a_single_packet_becomes_a_side_packet() {
    let node = Node::of("StreamToSidePacketCalculator")
        .inputs(&["a"])
        .side_outputs(&["s"]);
    let mut run = node.start();
    assert!(run.at(0, &[("a", Int(5))]).is_empty());
    assert_eq!(
        run.error_at(1, &[("a", Int(6))]),
        "FAILED_PRECONDITION: expected a single packet on input stream \"a\", got another one at 1"
    );
    assert_eq!(run.close(), ["side s 5"]);
    assert!(node.start().close().is_empty());
    assert_eq!(
        node.clone().inputs(&["a", "b"]).refused(),
        "expected exactly one input stream, got 2"
    );
    assert_eq!(
        node.side_outputs(&[]).refused(),
        "expected exactly one output side packet, got 0"
    );
}
