//! Python nodes, without Python.

use std::path::Path;

use super::{each_reported, sound, validate};
use crate::graph::check::plan::InputHandler;

const OPTIONS: &str = "node_options: { [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: \"m.py\" } }";
const INFO: &str = "input_stream_info: { tag_index: 'LOOPBACK:0', back_edge: true }";
const SYNC_SET: &str = "input_stream_handler { input_stream_handler: \"SyncSetInputStreamHandler\", options { \
    [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: \"LOOPBACK:0\" } } } }";
const LOOPBACK: &str = "input_stream: 'LOOPBACK:loopback' output_stream: 'LOOPBACK:loopback'";

/// Returns a graph of one Python node with additions.
fn node(text: &str) -> String {
    format!(
        "input_stream: 'OVMS_PY_TENSOR:in'\noutput_stream: 'OVMS_PY_TENSOR:out'\n\
         node {{ calculator: 'PythonExecutorCalculator' input_side_packet: 'PYTHON_NODE_RESOURCES:py'\n\
         input_stream: 'IN:in' output_stream: 'OUT:out'\n{text}\n}}"
    )
}

/// Returns a graph of one generative node.
fn generative(text: &str) -> String {
    node(&format!("name: 'py' {OPTIONS}\n{text}"))
}

#[test]
fn names_and_options() {
    let empty =
        "node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { handler_path: '' } }";
    let none = "node_options { [a/mediapipe.PythonExecutorCalculatorOptions] { } }";
    let named = node(&format!("name: 'a' {OPTIONS}"));
    let second = named[named.find("node").unwrap()..].replace("OUT:out", "OUT:more");
    let both = format!("{named}\n{second}");
    insta::assert_snapshot!(each_reported(&[
        &node("name: 'py'"),
        &node(OPTIONS),
        &node(&format!("name: '' {OPTIONS}")),
        &node(&format!("name: 'py' {empty}")),
        &node(&format!("name: 'py' {none}")),
        &node(""),
        &both,
    ]), @r#"
The Python Node is missing options definition - node `py`: the Python node has no options
  13: graph.pbtxt:3:6: node `py`: the Python node has no options; add `node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "…" } }`
The Python Node is missing name definition - node `PythonExecutorCalculator`: the Python node has no name
  13: graph.pbtxt:3:6: node `PythonExecutorCalculator`: the Python node has no name; add `name: "…"`
The Python Node is missing name definition - node `PythonExecutorCalculator`: the Python node has no name
  13: graph.pbtxt:3:6: node `PythonExecutorCalculator`: the Python node has no name; add `name: "…"`
Failed to read protobuf graph configuration file - node `py`: handler_path is empty
  13: graph.pbtxt:3:6: node `py`: handler_path is empty; name the Python file
Failed to read protobuf graph configuration file - node `py`: the required field "handler_path" of mediapipe.PythonExecutorCalculatorOptions is missing
  3: graph.pbtxt:5:27: node `py`: the required field "handler_path" of mediapipe.PythonExecutorCalculatorOptions is missing; add `handler_path: …` there
The Python Node is missing options definition - node `PythonExecutorCalculator`: the Python node has no options
  13: graph.pbtxt:3:6: node `PythonExecutorCalculator`: the Python node has no options; add `node_options: { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "…" } }`
  13: graph.pbtxt:3:6: node `PythonExecutorCalculator`: the Python node has no name; add `name: "…"`
The Python Node name is already present in nodes list - node `a_2`: two Python nodes have the name "a"
  13: graph.pbtxt:7:6: node `a_2`: two Python nodes have the name "a"; the other is at 3:6; rename one
"#);
    sound(&node(&format!("name: 'py' {OPTIONS}")));
    sound(&node(
        "name: 'py' options { [mediapipe.PythonExecutorCalculatorOptions.ext] { handler_path: 'm.py' } }",
    ));
}

#[test]
fn options_of_workers_are_those_of_all_nodes() {
    let two = |first: &str, second: &str| {
        let options = |given| OPTIONS.replace("\"m.py\"", &format!("\"m.py\"\n{given}"));
        let first = node(&format!("name: 'a' {}", options(first)));
        let second = node(&format!("name: 'b' {}", options(second)));
        let second = second[second.find("node").unwrap()..].replace("OUT:out", "OUT:more");
        format!("{first}\n{second}")
    };
    let spec = sound(&two(
        "python_workers: 2",
        "python_environment: 'env' python_workers: 2",
    ))
    .spec;
    let options = spec.workers(Path::new("/graph"), Path::new("g.pbtxt"));
    let environment = options.environment.unwrap();
    assert_eq!(options.workers, Some(2));
    assert_eq!(environment.folder, Path::new("/graph/env"));
    assert_eq!((environment.place.line, environment.place.column), (11, 21));
    insta::assert_snapshot!(each_reported(&[
        &two("python_workers: 2", "python_workers: 3"),
        &two("python_workers: 0", "python_timeout_ms: 18446744073709551615"),
        &two("python_workrs: 2", "python_memory_limit: -1"),
    ]), @r#"
The options of Python workers are invalid - node `b`: python_workers is 3 here and 2 at 6:17, and the nodes of a graph share its workers
  13: graph.pbtxt:11:17: The options of Python workers are invalid - node `b`: python_workers is 3 here and 2 at 6:17, and the nodes of a graph share its workers; give it once
The options of Python workers are invalid - node `a`: python_workers is 0; expected 1 to 256
  13: graph.pbtxt:6:17: The options of Python workers are invalid - node `a`: python_workers is 0; expected 1 to 256; change the number
  13: graph.pbtxt:11:20: The options of Python workers are invalid - node `b`: python_timeout_ms is 18446744073709551615; expected 0 to 4503599626321920; change the number
Failed to read protobuf graph configuration file - node `a`: mediapipe.PythonExecutorCalculatorOptions has no field "python_workrs"
  3: graph.pbtxt:6:1: node `a`: mediapipe.PythonExecutorCalculatorOptions has no field "python_workrs"; did you mean "python_workers"?
  3: graph.pbtxt:11:22: node `b`: python_memory_limit: -1, expected a whole number from 0 to 18446744073709551615
"#);
}

#[test]
fn a_generative_node_wakes_itself() {
    let plan = sound(&generative(&format!("{LOOPBACK} {INFO} {SYNC_SET}"))).plan;
    let node = &plan.nodes[0];
    assert_eq!(node.back_edges, [false, true]);
    assert_eq!(node.handler, InputHandler::SyncSet(vec![vec![1], vec![0]]));
    // One set is behind the other, whatever else could run at once.
    let text = generative(&format!("{LOOPBACK} {INFO} {SYNC_SET} max_in_flight: 4"));
    assert_eq!(sound(&text).plan.nodes[0].max_in_flight, 1);
}

#[test]
fn generative_nodes_that_cannot_be() {
    let info = "input_stream_info: { tag_index: 'LOOPBACK:1', back_edge: true }";
    let unmarked = "input_stream_info: { tag_index: 'LOOPBACK:0', back_edge: false }";
    let sets = SYNC_SET.replace("\"LOOPBACK:0\"", "\"LOOPBACK:1\"");
    let pool = format!(
        "# OVMS_GRAPH_QUEUE_MAX_SIZE: 2\n{}",
        generative(&format!("{LOOPBACK} {INFO} {SYNC_SET}"))
    );
    insta::assert_snapshot!(each_reported(&[
        &generative("input_stream: 'LOOPBACK:loopback'"),
        &generative("output_stream: 'LOOPBACK:loopback'"),
        &generative(&format!("input_stream: 'LOOPBACK:a' output_stream: 'LOOPBACK:b' {INFO} {SYNC_SET}")),
        &generative(&format!("{LOOPBACK} {SYNC_SET}")),
        &generative(&format!("{LOOPBACK} {unmarked} {SYNC_SET}")),
        &generative(&format!("{LOOPBACK} {info} {SYNC_SET}")),
        &generative(&format!("{LOOPBACK} {INFO} {sets}")),
        &pool,
    ]), @r#"
Failed to initialize mediapipe graph - node `py`: If LOOPBACK is used, it must be defined on both input and output of the node
  12: graph.pbtxt:6:15: node `py`: If LOOPBACK is used, it must be defined on both input and output of the node; add `output_stream: "LOOPBACK:…"` of the same name
Failed to initialize mediapipe graph - node `py`: If LOOPBACK is used, it must be defined on both input and output of the node
  12: graph.pbtxt:6:16: node `py`: If LOOPBACK is used, it must be defined on both input and output of the node; add `input_stream: "LOOPBACK:…"` of the same name
Failed to initialize mediapipe graph - node `py`: LOOPBACK must be one stream, but the input is "a" and the output "b"
  12: graph.pbtxt:6:15: node `py`: LOOPBACK must be one stream, but the input is "a" and the output "b"; give both the same name
Failed to initialize mediapipe graph - node `py`: Generator side packet cycle or calculator stream cycle detected: the input LOOPBACK:0 is not marked as a back edge
  12: graph.pbtxt:6:15: node `py`: Generator side packet cycle or calculator stream cycle detected: the input LOOPBACK:0 is not marked as a back edge; add `input_stream_info: { tag_index: "LOOPBACK:0" back_edge: true }`
Failed to initialize mediapipe graph - node `py`: Generator side packet cycle or calculator stream cycle detected: the input LOOPBACK:0 is not marked as a back edge
  12: graph.pbtxt:6:89: node `py`: Generator side packet cycle or calculator stream cycle detected: the input LOOPBACK:0 is not marked as a back edge; write `back_edge: true`
Failed to initialize mediapipe graph - node `py`: "LOOPBACK:1" is not an input stream of the node
  12: graph.pbtxt:6:89: node `py`: "LOOPBACK:1" is not an input stream of the node; it has IN:0, LOOPBACK:0
Failed to initialize mediapipe graph - node `py`: sync_set: "LOOPBACK:1" is not an input stream of the node
  12: graph.pbtxt:6:218: node `py`: sync_set: "LOOPBACK:1" is not an input stream of the node; it has IN:0, LOOPBACK:0
Failed to read protobuf graph configuration file - node `py`: PythonExecutorCalculator with LOOPBACK stream is incompatible with graph queue
  4: graph.pbtxt:7:15: node `py`: PythonExecutorCalculator with LOOPBACK stream is incompatible with graph queue; remove the line OVMS_GRAPH_QUEUE_MAX_SIZE, or set it to 0
"#);
    sound(&pool.replace(": 2", ": 0"));
}

#[test]
fn a_node_that_waits_for_itself_is_worth_a_word() {
    let checked = validate(&generative(&format!("{LOOPBACK} {INFO}"))).unwrap();
    insta::assert_snapshot!(checked.warnings[0], @r#"graph.pbtxt:6:15: node `py`: with DefaultInputStreamHandler the node waits for LOOPBACK together with other inputs, so that it gives nothing before they end; use SyncSetInputStreamHandler with `sync_set { tag_index: "LOOPBACK:0" }`"#);
}
