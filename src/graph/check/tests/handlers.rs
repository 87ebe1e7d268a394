//! Input stream handlers.

use super::{check, each_reported, sound, validate, with};
use crate::graph::{calculators, check::plan::InputHandler};

/// Returns a graph of one node with a handler and inputs A, B and one untagged.
fn node(handler: &str) -> String {
    format!(
        "input_stream: 'a' input_stream: 'b' input_stream: 'c' output_stream: 'x'
         node {{ name: 'n' calculator: 'PassThroughCalculator' input_stream: 'A:a' input_stream: 'B:b' input_stream: 'c'
           output_stream: 'A:x' output_stream: 'B:y' output_stream: 'z' {handler} }}"
    )
}

fn own(name: &str, options: &str) -> String {
    node(&format!(
        "input_stream_handler {{ input_stream_handler: '{name}' options {{ {options} }} }}"
    ))
}

fn handler(text: &str) -> InputHandler {
    sound(text).plan.nodes[0].handler.clone()
}

#[test]
fn each_handler_has_its_options() {
    for (name, options, expected) in [
        ("DefaultInputStreamHandler", "", InputHandler::Default),
        ("ImmediateInputStreamHandler", "", InputHandler::Immediate),
        ("BarrierInputStreamHandler", "", InputHandler::Barrier),
        ("EarlyCloseInputStreamHandler", "", InputHandler::EarlyClose),
        ("MuxInputStreamHandler", "", InputHandler::Mux),
        // The untagged input is the first: tags are sorted.
        (
            "SyncSetInputStreamHandler",
            "",
            InputHandler::SyncSet(vec![vec![0, 1, 2]]),
        ),
        (
            "SyncSetInputStreamHandler",
            "[mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: 'B' tag_index: ':0' } }",
            InputHandler::SyncSet(vec![vec![0, 2], vec![1]]),
        ),
        (
            "FixedSizeInputStreamHandler",
            "",
            InputHandler::FixedSize {
                trigger: 2,
                target: 1,
                fixed_min: false,
            },
        ),
        (
            "FixedSizeInputStreamHandler",
            "[mediapipe.FixedSizeInputStreamHandlerOptions.ext] { trigger_queue_size: 9 target_queue_size: 3 fixed_min_size: true }",
            InputHandler::FixedSize {
                trigger: 9,
                target: 3,
                fixed_min: true,
            },
        ),
        (
            "TimestampAlignInputStreamHandler",
            "[mediapipe.TimestampAlignInputStreamHandlerOptions.ext] { timestamp_base_tag_index: 'B:0' }",
            InputHandler::TimestampAlign(2),
        ),
    ] {
        assert_eq!(handler(&own(name, options)), expected, "{name} {options}");
    }
    assert_eq!(
        handler(&node("input_stream_handler {}")),
        InputHandler::Default
    );
}

#[test]
fn node_calculator_and_graph_have_their_say_in_this_order() {
    let graph = "input_stream_handler { input_stream_handler: 'BarrierInputStreamHandler' }";
    assert_eq!(handler(&with(graph, "")), InputHandler::Barrier);
    let own = "input_stream_handler { input_stream_handler: 'ImmediateInputStreamHandler' }";
    assert_eq!(handler(&with(graph, own)), InputHandler::Immediate);
    let mux = |own: &str| {
        format!(
            "input_stream: 'a' input_stream: 'b' output_stream: 'a' {graph} \
             node {{ calculator: 'MuxCalculator' input_stream: 'A:a' input_stream: 'B:b' {own} }}"
        )
    };
    assert_eq!(handler(&mux("")), InputHandler::Mux);
    assert_eq!(handler(&mux(own)), InputHandler::Immediate);
}

#[test]
fn what_cannot_be() {
    let sets = |sets: &str| {
        let options = format!("[mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ {sets} }}");
        own("SyncSetInputStreamHandler", &options)
    };
    let fixed = "[mediapipe.FixedSizeInputStreamHandlerOptions.ext] { target_queue_size: 0 }";
    let batch = "[mediapipe.DefaultInputStreamHandlerOptions.ext] { batch_size: 0 }";
    let align =
        "[mediapipe.TimestampAlignInputStreamHandlerOptions.ext] { timestamp_base_tag_index: 'D' }";
    insta::assert_snapshot!(each_reported(&[
        &own("ImediateInputStreamHandler", ""),
        &own("Zebra", ""),
        &sets("sync_set {}"),
        &sets("sync_set { tag_index: 'C' }"),
        &sets("sync_set { tag_index: 'A' } sync_set { tag_index: 'A:0' }"),
        &sets("sync_set { tag_index: '' }"),
        &own("FixedSizeInputStreamHandler", fixed),
        &own("DefaultInputStreamHandler", batch),
        &own("TimestampAlignInputStreamHandler", ""),
        &own("TimestampAlignInputStreamHandler", align),
        &with("", "input_stream_handler { input_stream_handler: 'MuxInputStreamHandler' }"),
        "input_stream_handler { input_stream_handler: 'Zebra' } input_stream: 'a' output_stream: 'a'
         node { name: 'x' calculator: 'PassThroughCalculator' input_stream: 'a' output_stream: 'b' }
         node { name: 'y' calculator: 'PassThroughCalculator' input_stream: 'a' output_stream: 'c' }",
    ]), @r#"
Failed to initialize mediapipe graph - node `n`: the input stream handler "ImediateInputStreamHandler" is not known
  12: graph.pbtxt:3:118: node `n`: the input stream handler "ImediateInputStreamHandler" is not known; did you mean ImmediateInputStreamHandler?
Failed to initialize mediapipe graph - node `n`: the input stream handler "Zebra" is not known
  12: graph.pbtxt:3:118: node `n`: the input stream handler "Zebra" is not known; there are DefaultInputStreamHandler, ImmediateInputStreamHandler, SyncSetInputStreamHandler, BarrierInputStreamHandler, EarlyCloseInputStreamHandler, MuxInputStreamHandler, FixedSizeInputStreamHandler, TimestampAlignInputStreamHandler
Failed to initialize mediapipe graph - node `n`: a sync_set names no input
  12: graph.pbtxt:3:156: node `n`: a sync_set names no input; it has :0, A:0, B:0
Failed to initialize mediapipe graph - node `n`: sync_set: "C" is not an input stream of the node
  12: graph.pbtxt:3:156: node `n`: sync_set: "C" is not an input stream of the node; it has :0, A:0, B:0
Failed to initialize mediapipe graph - node `n`: "A:0" stands twice in sync sets, and an input can be in one only
  12: graph.pbtxt:3:156: node `n`: "A:0" stands twice in sync sets, and an input can be in one only
Failed to initialize mediapipe graph - node `n`: sync_set: "" is not like TAG, TAG:index or :index
  12: graph.pbtxt:3:156: node `n`: sync_set: "" is not like TAG, TAG:index or :index
Failed to initialize mediapipe graph - node `n`: target_queue_size is 0
  12: graph.pbtxt:3:158: node `n`: target_queue_size is 0; write a number above 0
Failed to initialize mediapipe graph - node `n`: batch_size is 0
  12: graph.pbtxt:3:156: node `n`: batch_size is 0; write a number above 0
Failed to initialize mediapipe graph - node `n`: TimestampAlignInputStreamHandler needs timestamp_base_tag_index
  12: graph.pbtxt:3:118: node `n`: TimestampAlignInputStreamHandler needs timestamp_base_tag_index; it has :0, A:0, B:0
Failed to initialize mediapipe graph - node `n`: timestamp_base_tag_index: "D" is not an input stream of the node
  12: graph.pbtxt:3:163: node `n`: timestamp_base_tag_index: "D" is not an input stream of the node; it has :0, A:0, B:0
Failed to initialize mediapipe graph - node `PassThroughCalculator`: MuxInputStreamHandler needs an input that says which of the others is taken, and one of those, but there is only one input
  12: graph.pbtxt:4:46: node `PassThroughCalculator`: MuxInputStreamHandler needs an input that says which of the others is taken, and one of those, but there is only one input
Failed to initialize mediapipe graph - the input stream handler "Zebra" is not known
  12: graph.pbtxt:1:46: the input stream handler "Zebra" is not known; there are DefaultInputStreamHandler, ImmediateInputStreamHandler, SyncSetInputStreamHandler, BarrierInputStreamHandler, EarlyCloseInputStreamHandler, MuxInputStreamHandler, FixedSizeInputStreamHandler, TimestampAlignInputStreamHandler
"#);
}

#[test]
fn what_was_hardly_meant() {
    let fixed = "[mediapipe.FixedSizeInputStreamHandlerOptions.ext] { target_queue_size: 5 }";
    let mut warnings = Vec::new();
    for text in [
        own("FixedSizeInputStreamHandler", fixed),
        own("ImmediateInputStreamHandler", fixed),
    ] {
        let checked = validate(&text).unwrap();
        warnings.extend(checked.warnings.iter().map(ToString::to_string));
    }
    insta::assert_snapshot!(warnings.join("\n"), @"
graph.pbtxt:3:158: node `n`: target_queue_size 5 is above trigger_queue_size 2: nothing is dropped
graph.pbtxt:3:158: node `n`: ImmediateInputStreamHandler does not look at mediapipe.FixedSizeInputStreamHandlerOptions
");
}

#[test]
fn queues_that_drop_are_not_emptied_by_calls_ahead() {
    let in_flight = |handler: &str| {
        let text = format!(
            "input_stream: 'OVMS_PY_TENSOR:in' output_stream: 'OVMS_PY_TENSOR:out'
             node {{ name: 'p' calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py'
                    input_stream: 'IN:in' output_stream: 'OUT:out' {handler}
                    node_options {{ [a/mediapipe.PythonExecutorCalculatorOptions] {{ handler_path: 'm.py' }} }} }}"
        );
        let checked = check(&text, "graph.pbtxt", calculators::all()).unwrap();
        checked.plan.nodes[0].max_in_flight
    };
    let fixed = "input_stream_handler { input_stream_handler: 'FixedSizeInputStreamHandler' }";
    assert!(in_flight("") > 1);
    assert_eq!(in_flight(fixed), 1);
    assert_eq!(in_flight(&format!("{fixed} max_in_flight: 3")), 3);
}
