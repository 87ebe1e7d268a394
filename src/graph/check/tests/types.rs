//! Types of both ends of streams and side packets.

use std::fmt::Write;

use super::{check, each_reported, sound};
use crate::graph::calculators::{
    self,
    packet::{PacketType, TensorKind},
};

#[test]
fn both_ends_agree() {
    insta::assert_snapshot!(each_reported(&[
        "input_stream: 'in' output_stream: 'OVMS_PY_TENSOR:out'
         node { name: 'p' calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py' input_stream: 'IN:in' output_stream: 'OUT:out'
           node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { handler_path: 'm.py' } } }",
        "input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'out'
         node { name: 'p' calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py' input_stream: 'IN:in' output_stream: 'OUT:mid'
           node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { handler_path: 'm.py' } } }
         node { calculator: 'PassThroughCalculator' input_stream: 'mid' output_stream: 'mid2' }
         node { name: 'm' calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:s' input_stream: 'mid2' output_stream: 'out' }
         node { name: 's' calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'SESSION:s' }",
        "input_stream: 'in' output_stream: 'out' node { calculator: 'CountingSourceCalculator' output_stream: 'out' }",
        "input_stream: 'in' output_stream: 'IMAGE:in'",
        "input_stream: 'in' output_stream: 'in'
         node { name: 'c' calculator: 'CountingSourceCalculator' input_side_packet: 'MAX:s' output_stream: 'n' }
         node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'SESSION:s' }",
        "input_stream: 'in' output_stream: 'in'
         node { name: 'm' calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:py' input_stream: 'in' output_stream: 'out' }",
    ]), @r#"
Failed to initialize mediapipe graph - node `p`: the input "IN:in" takes Python tensor, but the input of the graph sends OpenVINO tensor
  12: graph.pbtxt:2:126: node `p`: the input "IN:in" takes Python tensor, but the input of the graph sends OpenVINO tensor; tag the input of the graph OVMS_PY_TENSOR:in
Failed to initialize mediapipe graph - node `m`: the input "mid2" takes OpenVINO tensor, but node "PassThroughCalculator" sends Python tensor
  12: graph.pbtxt:5:114: node `m`: the input "mid2" takes OpenVINO tensor, but node "PassThroughCalculator" sends Python tensor; put a PyTensorOvTensorConverterCalculator between them
Failed to initialize mediapipe graph - the output "out" of the graph takes OpenVINO tensor, but gets int
  12: graph.pbtxt:1:35: the output "out" of the graph takes OpenVINO tensor, but gets int; clients cannot be sent int
Failed to initialize mediapipe graph - the output "IMAGE:in" of the graph takes image, but gets OpenVINO tensor
  12: graph.pbtxt:1:35: the output "IMAGE:in" of the graph takes image, but gets OpenVINO tensor; tag it OVTENSOR:in
Failed to initialize mediapipe graph - node `c`: the side packet "MAX:s" takes int, but is session
  12: graph.pbtxt:2:85: node `c`: the side packet "MAX:s" takes int, but is session
Failed to initialize mediapipe graph - node `m`: the side packet "SESSION:py" takes session, but is Python node resources
  12: graph.pbtxt:2:88: node `m`: the side packet "SESSION:py" takes session, but is Python node resources
"#);
}

#[test]
fn parameters_of_requests_are_no_tensors() {
    let graph = |side: &str, node: &str| {
        format!(
            "input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'OVMS_PY_TENSOR:out'
             node {{ name: 'v' calculator: 'SidePacketToStreamCalculator' input_side_packet: '{side}' output_stream: 'AT_ZERO:value' }}
             node {{ name: 'p' calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py' input_stream: 'IN:in' input_stream: 'VALUE:value' output_stream: 'OUT:out'
               node_options {{ [a/mediapipe.PythonExecutorCalculatorOptions] {{ handler_path: 'm.py' }} }} }} {node}"
        )
    };
    let reported = |text: String| {
        let text = text.lines().map(str::trim_start).collect::<Vec<_>>();
        match check(&text.join("\n"), "graph.pbtxt", calculators::all()) {
            Ok(_) => String::new(),
            Err(found) => found.errors[0].to_string(),
        }
    };
    insta::assert_snapshot!(
        reported(graph("count", "")),
        @r#"graph.pbtxt:3:139: node `p`: the input "VALUE:value" takes Python tensor, but node "v" sends string or int or bool; a request parameter is no tensor: have clients send it as an input of the graph"#
    );
    // What a stream gave as a side packet may be anything.
    let of_stream = "node { calculator: 'StreamToSidePacketCalculator' input_stream: 'in' output_side_packet: 'x' }";
    assert_eq!(reported(graph("x", of_stream)), "");
    // That a side packet is no session is reported at a request, as by the C++ server.
    let session = "input_stream: 'OVTENSOR:x' output_stream: 'OVTENSOR:y'
        node { calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:s' input_stream: 'OVTENSOR:x' output_stream: 'OVTENSOR:y' }";
    assert_eq!(reported(session.to_owned()), "");
}

#[test]
fn streams_carry_what_is_known() {
    let plan = sound(
        "input_stream: 'TFTENSOR:in' output_stream: 'TFTENSOR:last'
         node { calculator: 'PassThroughCalculator' input_stream: 'b' output_stream: 'last' }
         node { calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'b' }
         node { calculator: 'PassThroughCalculator' input_stream: 'x' output_stream: 'x' input_stream_info { tag_index: ':0' back_edge: true } }",
    )
    .plan;
    let carries = |name: &str| {
        let mut streams = plan.streams.iter();
        streams
            .find(|stream| stream.name == name)
            .unwrap()
            .carries
            .clone()
    };
    let tensor = PacketType::Tensor(TensorKind::TensorFlow);
    assert_eq!(carries("in"), tensor);
    assert_eq!(
        carries("last"),
        tensor,
        "through both nodes, whatever their order"
    );
    assert_eq!(
        carries("x"),
        PacketType::Any,
        "whatever comes back to itself"
    );
}

#[test]
fn long_chains_are_followed() {
    let mut text = String::from("input_stream: 's0' output_stream: 's20000'\n");
    for node in (0..20_000).rev() {
        write!(
            text,
            "node {{ calculator: 'PassThroughCalculator' input_stream: 's{node}' output_stream: 's{}' }}",
            node + 1
        )
        .unwrap();
    }
    let plan = sound(&text).plan;
    assert_eq!(plan.nodes.len(), 20_000);
    let tensor = PacketType::Tensor(TensorKind::OpenVino);
    assert!(plan.streams.iter().all(|stream| stream.carries == tensor));
}
