//! Plans of valid graphs.

use super::sound;
use crate::graph::{
    calculators::packet::{PacketType, TensorKind},
    check::plan::StreamSource,
};

#[test]
fn nodes_streams_and_side_packets_become_indices() {
    let checked = sound(
        "input_stream: 'OVTENSOR_B:b' input_stream: 'OVTENSOR_A:a'
         output_stream: 'y' output_stream: 'OVTENSOR:x'
         node { calculator: 'OpenVINOInferenceCalculator' input_side_packet: 'SESSION:s' input_stream: 'Q:a' input_stream: 'P:mid'
                output_stream: 'Y:y' output_stream: 'X:x' }
         node { calculator: 'PassThroughCalculator' input_stream: 'b' output_stream: 'mid' }
         node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'SESSION:s'
                node_options: { [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: 'm' } } }",
    );
    let plan = &checked.plan;
    let name = |stream: usize| plan.streams[stream].name.as_str();
    let names = |streams: &[usize]| {
        streams
            .iter()
            .map(|s| name(*s).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&plan.nodes[0].inputs), ["mid", "a"], "P, Q");
    assert_eq!(names(&plan.nodes[0].outputs), ["x", "y"], "X, Y");
    assert_eq!(plan.nodes[0].side_inputs, plan.nodes[2].side_outputs);
    assert_eq!(plan.sides[0].from, Some((2, 0)));
    assert_eq!(plan.sides[0].to, [(0, 0)]);
    let inputs: Vec<_> = plan
        .inputs
        .iter()
        .map(|input| input.port.name.as_str())
        .collect();
    assert_eq!(inputs, ["b", "a"], "in the order of the file");
    assert_eq!(plan.input("a"), Some(1));
    assert_eq!(
        plan.inputs[0].form,
        PacketType::Tensor(TensorKind::OpenVino)
    );
    let outputs: Vec<_> = plan
        .outputs
        .iter()
        .map(|output| name(output.stream))
        .collect();
    assert_eq!(outputs, ["y", "x"]);
    for (at, stream) in plan.streams.iter().enumerate() {
        match stream.from {
            StreamSource::Graph(input) => assert_eq!(plan.inputs[input].stream, at),
            StreamSource::Node(node, place) => assert_eq!(plan.nodes[node].outputs[place], at),
        }
        for (node, place) in &stream.to {
            assert_eq!(plan.nodes[*node].inputs[*place], at);
        }
        for output in &stream.outputs {
            assert_eq!(plan.outputs[*output].stream, at);
        }
    }
    assert_eq!(plan.nodes[1].spec.place, (5, 15));
    assert_eq!(checked.spec.nodes.len(), 3);
}

#[test]
fn names_are_unique() {
    let names = |nodes: &str| {
        let text = format!("input_stream: 'in' output_stream: 'in' {nodes}");
        let plan = sound(&text).plan;
        let names = plan.nodes.iter().map(|node| node.spec.name.clone());
        names.collect::<Vec<_>>()
    };
    let node = |name: &str| format!("node {{ calculator: 'MuxCalculator' {name} }}");
    let [bare, x, x_1] = [node(""), node("name: 'x'"), node("name: 'x_1'")];
    assert_eq!(names(&bare), ["MuxCalculator"]);
    assert_eq!(
        names(&[&*bare, &x, &bare, &x].concat()),
        ["MuxCalculator_1", "x_1", "MuxCalculator_2", "x_2"]
    );
    assert_eq!(names(&[&*x, &x_1, &x].concat()), ["x_2", "x_1", "x_3"]);
}

#[test]
fn forms_go_by_the_beginning_of_the_tag() {
    let forms = [
        ("in", PacketType::Tensor(TensorKind::OpenVino)),
        ("OVTENSOR1:in", PacketType::Tensor(TensorKind::OpenVino)),
        ("WHATEVER:in", PacketType::Tensor(TensorKind::OpenVino)),
        ("TENSOR_IN:in", PacketType::Tensor(TensorKind::MediaPipe)),
        ("TFTENSOR:in", PacketType::Tensor(TensorKind::TensorFlow)),
        ("IMAGE_X:in", PacketType::Tensor(TensorKind::Image)),
        ("OVMS_PY_TENSOR_TEXT:in", PacketType::Python),
        (
            "RESPONSES_NO_REQUEST:in",
            PacketType::Tensor(TensorKind::OpenVino),
        ),
    ];
    for (port, form) in forms {
        let output = port.replace("RESPONSES_NO_REQUEST", "OVTENSOR");
        let plan = sound(&format!("input_stream: '{port}' output_stream: '{output}'")).plan;
        assert_eq!(plan.inputs[0].form, form, "{port}");
    }
}
