//! Timestamps and side packets.

use std::sync::Arc;

use super::plan;
use crate::{
    error::ErrorKind,
    graph::{
        calculators::{
            calculator::{Calculator, Factory, Resources},
            contract::Contract,
            node::{NodeSpec, Ports},
            packet::{Packet, PacketType},
            timestamp::{TIMESTAMP, Timestamp},
        },
        check::plan::{GraphPlan, GraphPlanNode, InputHandler, SidePacketPlan},
        serving::convert::{following, side_packets, timestamp},
    },
    request::{InferRequest, Parameter},
};

fn of_parameter(value: Parameter) -> InferRequest {
    InferRequest {
        parameters: vec![
            ("other".to_owned(), Parameter::Bool(true)),
            (TIMESTAMP.to_owned(), value),
        ],
        ..InferRequest::default()
    }
}

#[test]
fn requests_may_have_a_time() {
    assert_eq!(timestamp(&InferRequest::default()).unwrap(), None);
    for value in [i64::MIN + 3, -1, 0, (1 << 53) + 1, i64::MAX - 3] {
        let read = timestamp(&of_parameter(Parameter::Int(value))).unwrap();
        assert_eq!(read.map(Timestamp::value), Some(value));
    }
    let failure = |value| {
        let error = timestamp(&of_parameter(value)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.message().to_owned()
    };
    for (value, name) in [
        (i64::MIN, "Unset"),
        (i64::MIN + 1, "Unstarted"),
        (i64::MIN + 2, "PreStream"),
        (i64::MAX - 2, "PostStream"),
        (i64::MAX - 1, "OneOverPostStream"),
        (i64::MAX, "Done"),
    ] {
        assert_eq!(
            failure(Parameter::Int(value)),
            format!("Malformed packet timestamp - Timestamp::{name}()")
        );
    }
    for value in [
        Parameter::Bool(true),
        Parameter::UInt(u64::MAX),
        Parameter::Double(1.0),
        Parameter::Text("1".to_owned()),
        Parameter::Empty,
    ] {
        assert_eq!(
            failure(value),
            "Malformed packet timestamp - Invalid timestamp format in request parameter \
             OVMS_MP_TIMESTAMP. Should be int64"
        );
    }
}

#[test]
fn times_follow_each_other_up_to_the_last() {
    assert_eq!(following(None).unwrap(), Timestamp::new(0));
    assert_eq!(
        following(Some(Timestamp::MIN)).unwrap().value(),
        i64::MIN + 4
    );
    assert_eq!(
        following(Some(Timestamp::MAX)).unwrap_err().message(),
        "Malformed packet timestamp - Timestamp::PostStream()"
    );
}

/// Returns a plan with the side packets `py`, `text` and `count` from outside, and `made` by
/// a node.
fn with_sides() -> GraphPlan {
    let side = |name: &str, from| SidePacketPlan {
        name: name.to_owned(),
        from,
        to: Vec::new(),
    };
    GraphPlan {
        sides: vec![
            side("py", None),
            side("text", None),
            side("count", None),
            side("made", Some((0, 0))),
            side("timeout", None),
        ],
        ..plan(&[])
    }
}

fn given(parameters: &[(&str, Parameter)], has_pool: bool) -> Result<Vec<String>, String> {
    let parameters = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    match side_packets(&with_sides(), &parameters, has_pool) {
        Ok(packets) => Ok(packets
            .iter()
            .map(|packet| match packet.as_ref().and_then(Packet::payload) {
                None => String::new(),
                Some(payload) => format!("{payload:?}"),
            })
            .collect()),
        Err(error) => Err(format!("{:?}: {error}", error.kind())),
    }
}

#[test]
fn parameters_are_side_packets_of_their_names() {
    let text = |text: &str| Parameter::Text(text.to_owned());
    assert_eq!(
        given(
            &[
                ("count", Parameter::Int(i64::MAX)),
                ("text", text("a")),
                ("made", text("b")),
                ("unknown", Parameter::Bool(true)),
                (TIMESTAMP, Parameter::Double(0.5)),
                ("binary_data_output", Parameter::Double(0.5)),
                ("priority", Parameter::UInt(1)),
                ("timeout", Parameter::Int(5)),
                ("triton_enable_empty_final_response", Parameter::Empty),
            ],
            false
        ),
        Ok(["anything", "\"a\"", "9223372036854775807", "", "5"]
            .map(str::to_owned)
            .to_vec())
    );
    assert_eq!(
        given(&[("count", Parameter::Bool(false))], false).unwrap()[2],
        "false"
    );
    for value in [
        Parameter::Double(1.5),
        Parameter::UInt(u64::MAX),
        Parameter::Empty,
    ] {
        for name in ["text", "unknown"] {
            assert_eq!(
                given(&[(name, value.clone())], false),
                Err(
                    "InvalidArgument: Functionality not implemented - Handling parameters of \
                     other types than: bool, string, int64 is not supported"
                        .to_owned()
                )
            );
        }
    }
}

#[test]
fn what_the_server_gives_is_its_own() {
    for has_pool in [false, true] {
        assert_eq!(
            given(&[("py", Parameter::Int(1))], has_pool),
            Err(
                "FailedPrecondition: Failed to initialize mediapipe graph - Incoming input side \
                 packet: py is special reserved name and cannot be used"
                    .to_owned()
            )
        );
        assert_eq!(given(&[], has_pool).unwrap()[0], "anything");
    }
}

#[test]
fn kept_instances_take_no_side_packets() {
    let of_protocol = [
        (TIMESTAMP, Parameter::Int(3)),
        ("binary_data_output", Parameter::Bool(true)),
        ("timeout", Parameter::Int(100)),
        ("priority", Parameter::UInt(1)),
        ("triton_enable_empty_final_response", Parameter::Bool(true)),
    ];
    assert_eq!(
        given(&of_protocol, true),
        Ok(["anything", "", "", "", ""].map(str::to_owned).to_vec())
    );
    for name in ["text", "unknown"] {
        assert_eq!(
            given(&[(name, Parameter::Int(1))], true),
            Err(
                "FailedPrecondition: Failed to initialize mediapipe graph - Input side packets \
                 are not supported for graphs with queue enabled"
                    .to_owned()
            )
        );
    }
}

fn make(_: &Arc<NodeSpec>, _: &dyn Resources) -> Box<dyn Calculator> {
    unreachable!("nothing is run")
}

static NEVER: Factory = Factory {
    name: "Never",
    about: "",
    contract: |ask| ask,
    make,
};

/// Adds a node that takes `text` and, if present, `count`.
fn with_node(mut plan: GraphPlan) -> GraphPlan {
    let spec = NodeSpec {
        name: "n".to_owned(),
        side_inputs: Ports::of(&["A:text", "B:count", "C:py", "D:made"]),
        ..NodeSpec::default()
    };
    plan.nodes.push(GraphPlanNode {
        contract: Contract {
            side_inputs: vec![
                (PacketType::Text, false),
                (PacketType::Int, true),
                (PacketType::PythonResources, false),
                (PacketType::Any, false),
            ],
            ..Contract::default()
        },
        spec: Arc::new(spec),
        factory: &NEVER,
        inputs: vec![],
        back_edges: vec![],
        outputs: vec![],
        side_inputs: vec![1, 2, 0, 3],
        side_outputs: vec![],
        handler: InputHandler::Default,
        max_in_flight: 1,
    });
    for (place, side) in [1, 2, 0, 3].into_iter().enumerate() {
        plan.sides[side].to.push((0, place));
    }
    plan
}

#[test]
fn nodes_get_side_packets_of_the_types_that_they_take() {
    let plan = with_node(with_sides());
    let give = |name: &str, value| {
        let parameters = vec![(name.to_owned(), value)];
        match side_packets(&plan, &parameters, false) {
            Ok(_) => Ok(()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
                Err(error.message().to_owned())
            }
        }
    };
    let text = || Parameter::Text("1".to_owned());
    assert_eq!(give("text", text()), Ok(()));
    assert_eq!(give("count", Parameter::Int(1)), Ok(()));
    assert_eq!(
        give("count", text()),
        Err(
            "Failed to start mediapipe graph - Side packet \"count\" of node \"n\" has the wrong \
             type. Expected: int; Actual: string"
                .to_owned()
        )
    );
}
