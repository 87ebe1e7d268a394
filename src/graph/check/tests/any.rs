//! Any file contents are checked and reported.

use proptest::prelude::*;

use super::validate;
use crate::graph::check::plan::StreamSource;

/// Parts of graph files that are valid by themselves.
fn graphs() -> impl Strategy<Value = String> {
    let port = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "A:a",
        "A:1:b",
        "B:c",
        "LOOPBACK:l",
        "bad name",
        "OVMS_PY_TENSOR:a",
        "REQUEST:a",
        "",
        "TFLITE_TENSOR:b",
    ]);
    let kind = prop::sample::select(vec![
        "input_stream",
        "output_stream",
        "input_side_packet",
        "output_side_packet",
    ]);
    let ports = prop::collection::vec((kind, port), 0..6).prop_map(|ports| {
        let ports = ports.iter();
        ports
            .map(|(kind, port)| format!("{kind}: '{port}' "))
            .collect::<String>()
    });
    let calculator = prop::sample::select(vec![
        "PassThroughCalculator",
        "PythonExecutorCalculator",
        "MuxCalculator",
        "CountingSourceCalculator",
        "Nobody",
    ]);
    let extra = prop::sample::select(vec![
        "",
        "input_stream_info { tag_index: 'A' back_edge: true }",
        "name: 'n'",
        "executor: 'x'",
        "input_stream_info { tag_index: ':0' back_edge: true }",
        "max_in_flight: -1",
        "input_stream_handler { input_stream_handler: 'SyncSetInputStreamHandler' }",
        "input_stream_handler { input_stream_handler: 'MuxInputStreamHandler' }",
        "node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { handler_path: 'm' } }",
    ]);
    let node = (calculator, ports.clone(), extra);
    let nodes = prop::collection::vec(node, 0..5);
    (ports, nodes).prop_map(|(ports, nodes)| {
        let nodes = nodes.into_iter().map(|(calculator, ports, extra)| {
            format!("node {{ calculator: '{calculator}' {ports} {extra} }}\n")
        });
        format!("{ports}\n{}", nodes.collect::<String>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn graphs_are_whole_or_reported(text in graphs()) {
        match validate(&text) {
            Ok(checked) => {
                let plan = checked.plan;
                prop_assert_eq!(plan.nodes.len(), checked.spec.nodes.len());
                for node in &plan.nodes {
                    prop_assert_eq!(node.inputs.len(), node.spec.inputs.len());
                    prop_assert_eq!(node.back_edges.len(), node.spec.inputs.len());
                    prop_assert_eq!(node.outputs.len(), node.spec.outputs.len());
                    prop_assert_eq!(node.side_inputs.len(), node.spec.side_inputs.len());
                    prop_assert_eq!(node.side_outputs.len(), node.spec.side_outputs.len());
                }
                for stream in &plan.streams {
                    if let StreamSource::Node(node, _) = stream.from {
                        prop_assert!(node < plan.nodes.len());
                    }
                }
                prop_assert!(!plan.inputs.is_empty() && !plan.outputs.is_empty());
            }
            Err(errors) => {
                prop_assert!(!errors.errors.is_empty());
                prop_assert!(errors.errors.is_sorted_by_key(|error| error.rule.unwrap().number));
                prop_assert!(errors.errors.iter().all(|error| error.place.is_some()));
            }
        }
    }
}
