//! Rules 3 to 11, status texts and log lines.

use super::{each_reported, number, reported, sound, validate, with};
use crate::graph::file::{PoolSize, rules};

#[test]
fn empty_files_and_texts_that_are_none() {
    insta::assert_snapshot!(each_reported(&["", " \n", "node {", "# nothing\n", "input: 'a'"]), @r#"
Failed to read protobuf graph configuration file - the file has nothing in it
  3: graph.pbtxt:1:1: the file has nothing in it; write at least an input_stream, an output_stream and a node
Failed to read protobuf graph configuration file - the file has nothing in it
  3: graph.pbtxt:1:1: the file has nothing in it; write at least an input_stream, an output_stream and a node
Failed to read protobuf graph configuration file - found the end of the text, expected the name of a field or `}`
  3: graph.pbtxt:1:7: found the end of the text, expected the name of a field or `}`; `node` at 1:1 is not closed
Internal server error - a graph having less than one input or output is disallowed: no input_stream and output_stream
  7: graph.pbtxt:1:1: a graph having less than one input or output is disallowed: no input_stream and output_stream; these lines stand outside of the nodes, such as `input_stream: "OVTENSOR:in"`
Failed to read protobuf graph configuration file - mediapipe.CalculatorGraphConfig has no field "input"
  3: graph.pbtxt:1:1: mediapipe.CalculatorGraphConfig has no field "input"; did you mean "input_stream"?
"#);
}

#[test]
fn pools() {
    for (value, size) in [
        ("0", PoolSize::Off),
        ("3", PoolSize::Fixed(3)),
        ("AUTO", PoolSize::Auto),
    ] {
        let text = with(&format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: {value}"), "");
        assert_eq!(sound(&text).plan.pool, size);
    }
    insta::assert_snapshot!(reported(&with("#OVMS_GRAPH_QUEUE_MAX_SIZE: -1", "")), @r#"
Failed to read protobuf graph configuration file - Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value: "-1"
  4: graph.pbtxt:2:29: Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value: "-1"; write a number from 0 on, or AUTO
"#);
    let twice = "# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n# OVMS_GRAPH_QUEUE_MAX_SIZE: 2";
    let warnings = validate(&with(twice, "")).unwrap().warnings;
    insta::assert_snapshot!(warnings[0], @"graph.pbtxt:3:30: OVMS_GRAPH_QUEUE_MAX_SIZE is set again, and the first one counts");
    insta::assert_snapshot!(
        reported("node { \n# OVMS_GRAPH_QUEUE_MAX_SIZE: x\n"), @r#"
Failed to read protobuf graph configuration file - found the end of the text, expected the name of a field or `}`
  3: graph.pbtxt:3:1: found the end of the text, expected the name of a field or `}`; `node` at 1:1 is not closed
  4: graph.pbtxt:2:30: Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value: "x"; write a number from 0 on, or AUTO
"#);
}

#[test]
fn names_of_inputs_and_outputs() {
    insta::assert_snapshot!(each_reported(&[
        "input_stream: 'A:in'\ninput_stream: 'B:in'\noutput_stream: 'in'",
        "input_stream: 'in'\noutput_stream: 'A:in'\noutput_stream: 'B:in'",
        "input_stream: 'in'",
        "output_stream: 'in'",
        "num_threads: 1",
    ]), @r#"
Mediapipe unexpected input stream packets name - two inputs of the graph have the name "in"
  5: graph.pbtxt:2:15: two inputs of the graph have the name "in"; the other is at 1:15; rename one
Mediapipe unexpected output stream packets name - two outputs of the graph have the name "in"
  6: graph.pbtxt:3:16: two outputs of the graph have the name "in"; the other is at 2:16; rename one
Internal server error - a graph having less than one input or output is disallowed: no output_stream
  7: graph.pbtxt:1:1: a graph having less than one input or output is disallowed: no output_stream; these lines stand outside of the nodes, such as `input_stream: "OVTENSOR:in"`
Internal server error - a graph having less than one input or output is disallowed: no input_stream
  7: graph.pbtxt:1:1: a graph having less than one input or output is disallowed: no input_stream; these lines stand outside of the nodes, such as `input_stream: "OVTENSOR:in"`
  12: graph.pbtxt:1:16: Output stream "in" of the graph does not have a corresponding output stream of a node
Internal server error - a graph having less than one input or output is disallowed: no input_stream and output_stream
  7: graph.pbtxt:1:1: a graph having less than one input or output is disallowed: no input_stream and output_stream; these lines stand outside of the nodes, such as `input_stream: "OVTENSOR:in"`
"#);
}

#[test]
fn forms_of_inputs_and_outputs() {
    insta::assert_snapshot!(each_reported(&[
        "input_stream: 'TFLITE_TENSOR1:in' output_stream: 'in'",
        "input_stream: 'in' output_stream: 'TFLITE_TENSOR:in'",
        "input_stream: 'REQUEST:in' output_stream: 'out' node { calculator: 'EchoCalculator' input_stream: 'in' output_stream: 'out' }",
        "input_stream: 'in' output_stream: 'RESPONSE:out' node { calculator: 'EchoCalculator' input_stream: 'in' output_stream: 'out' }",
        "input_stream: 'REQUEST:in' output_stream: 'RESPONSE:out' output_stream: 'RESPONSE_2:more'
         node { calculator: 'EchoCalculator' input_stream: 'in' output_stream: 'A:out' output_stream: 'B:more' }",
        "input_stream: 'REQUEST:in' input_stream: 'REQUEST_2:on' output_stream: 'RESPONSE:out'
         node { calculator: 'EchoCalculator' input_stream: 'A:in' input_stream: 'B:on' output_stream: 'out' }",
    ]), @r#"
Functionality not implemented - the input "TFLITE_TENSOR1:in" of the graph has the tag prefix TFLITE_TENSOR, which is not supported there
  8: graph.pbtxt:1:15: the input "TFLITE_TENSOR1:in" of the graph has the tag prefix TFLITE_TENSOR, which is not supported there; use OVTENSOR, and convert within the graph
Functionality not implemented - the output "TFLITE_TENSOR:in" of the graph has the tag prefix TFLITE_TENSOR, which is not supported there
  8: graph.pbtxt:1:35: the output "TFLITE_TENSOR:in" of the graph has the tag prefix TFLITE_TENSOR, which is not supported there; use OVTENSOR, and convert within the graph
Mediapipe KFS pass through graph is missing RESPONSE: string in the output name - the input "REQUEST:in" takes whole requests, but no output has the tag RESPONSE
  9: graph.pbtxt:1:15: the input "REQUEST:in" takes whole requests, but no output has the tag RESPONSE; tag the output RESPONSE:…
Mediapipe KFS pass through graph is missing REQUEST: string in the input name - the output "RESPONSE:out" gives whole responses, but no input has the tag REQUEST
  10: graph.pbtxt:1:35: the output "RESPONSE:out" gives whole responses, but no input has the tag REQUEST; tag the input REQUEST:…
Mediapipe unexpected output stream packets count - a graph of whole requests has one output, this one has 2
  11: graph.pbtxt:1:73: a graph of whole requests has one output, this one has 2
Mediapipe unexpected input stream packets count - a graph of whole requests has one input, this one has 2
  11: graph.pbtxt:1:42: a graph of whole requests has one input, this one has 2
"#);
    sound(
        "input_stream: 'REQUEST_X:in' output_stream: 'RESPONSE:out' node { calculator: 'EchoCalculator' \
         input_stream: 'in' output_stream: 'out' }",
    );
}

#[test]
fn the_lowest_rule_decides() {
    let errors = validate(
        "# OVMS_GRAPH_QUEUE_MAX_SIZE: no
         node { calculator: 'Unknown' input_stream: 'x' }
         node { name: 'p' calculator: 'PythonExecutorCalculator' input_stream: 'in' output_stream: 'y' }
         output_stream: 'y' output_stream: 'T:y' input_stream: 'in'",
    )
    .unwrap_err();
    let numbers: Vec<u8> = errors.errors.iter().map(number).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert_eq!(numbers, [4, 6, 12, 12, 13]);
    assert_eq!(errors.rule(), Some(rules::POOL));
    assert_eq!(
        rules::status(&errors),
        "Failed to read protobuf graph configuration file - Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value: \"no\""
    );
}

#[test]
fn logs_say_what_readers_look_for() {
    let mut lines = Vec::new();
    for text in [
        "",
        "node {",
        "# OVMS_GRAPH_QUEUE_MAX_SIZE: -4\ninput_stream: 'in' output_stream: 'in'",
        "input_stream: 'A:in' input_stream: 'B:in' output_stream: 'in'",
        "input_stream: 'in' output_stream: 'A:in' output_stream: 'B:in'",
        "input_stream: 'in'",
        "input_stream: 'in' output_stream: 'in' node { calculator: 'X' }",
        "input_stream: 'in' output_stream: 'in' node { calculator: 'PythonExecutorCalculator' }",
    ] {
        let errors = validate(text).unwrap_err().errors;
        lines.extend(errors.iter().map(|error| error.log("g")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
Trying to parse empty mediapipe graph definition: g failed: graph.pbtxt:1:1: the file has nothing in it; write at least an input_stream, an output_stream and a node
Trying to parse mediapipe graph definition: g failed: graph.pbtxt:1:7: found the end of the text, expected the name of a field or `}`; `node` at 1:1 is not closed
graph.pbtxt:1:30: Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value: "-4"; write a number from 0 on, or AUTO
Creating Mediapipe graph inputs name failed for: in: graph.pbtxt:1:36: two inputs of the graph have the name "in"; the other is at 1:15; rename one
Creating Mediapipe graph outputs name failed for: in: graph.pbtxt:1:57: two outputs of the graph have the name "in"; the other is at 1:35; rename one
Mediapipe graph: g having less than one input or output is disallowed: graph.pbtxt:1:1: a graph having less than one input or output is disallowed: no output_stream; these lines stand outside of the nodes, such as `input_stream: "OVTENSOR:in"`
Mediapipe graph: g initialization failed with message: graph.pbtxt:1:59: node `X`: Unable to find Calculator "X"
Python node missing options in graph: g: graph.pbtxt:1:45: node `PythonExecutorCalculator`: the Python node has no options; add `node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "…" } }`
Python node name is missing in graph: g: graph.pbtxt:1:45: node `PythonExecutorCalculator`: the Python node has no name; add `name: "…"`
"#);
}

#[test]
fn many_errors_of_a_rule_hide_no_other_rule() {
    let nodes = "node { calculator: 'X' }\n".repeat(1_000);
    let errors = validate(&format!("{nodes}input_stream: 'in'")).unwrap_err();
    assert_eq!(errors.rule(), Some(rules::NO_PORTS));
    assert_eq!(errors.errors.len(), 101);
}
