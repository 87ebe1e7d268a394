//! Rule 12: streams, tags, side packets, executors and numbers.

use super::{each_reported, reported, sound, validate, with};

/// Returns a graph around nodes.
fn around(nodes: &str) -> String {
    format!("input_stream: 'in'\noutput_stream: 'in'\n{nodes}")
}

/// Formats the errors of each list of nodes.
fn nodes_reported(nodes: &[&str]) -> String {
    nodes.iter().map(|nodes| reported(&around(nodes))).collect()
}

#[test]
fn calculators() {
    insta::assert_snapshot!(nodes_reported(&[
        "node { name: 'n' calculator: 'PassTroughCalculator' input_stream: 'in' output_stream: 'o' }",
        "node { calculator: 'Zebra' }",
        "node { name: 'n' }",
        "node { calculator: 'HttpLLMCalculator' }",
        "node { calculator: 'PassThroughCalculator' input_stream: 'in' }",
    ]), @r#"
Failed to initialize mediapipe graph - node `n`: Unable to find Calculator "PassTroughCalculator"
  12: graph.pbtxt:3:30: node `n`: Unable to find Calculator "PassTroughCalculator"; did you mean PassThroughCalculator?
Failed to initialize mediapipe graph - node `Zebra`: Unable to find Calculator "Zebra"
  12: graph.pbtxt:3:20: node `Zebra`: Unable to find Calculator "Zebra"
Failed to initialize mediapipe graph - node `n`: Unable to find Calculator ""
  12: graph.pbtxt:3:6: node `n`: Unable to find Calculator ""; add `calculator: "…"`
Failed to initialize mediapipe graph - node `HttpLLMCalculator`: Unable to find Calculator "HttpLLMCalculator"
  12: graph.pbtxt:3:20: node `HttpLLMCalculator`: Unable to find Calculator "HttpLLMCalculator"; graphs for large language models are absent from this server on purpose; docs/moving.md lists what is
Failed to initialize mediapipe graph - node `PassThroughCalculator`: as many outputs as inputs are needed
  12: graph.pbtxt:3:6: node `PassThroughCalculator`: as many outputs as inputs are needed
"#);
}

#[test]
fn spelling() {
    insta::assert_snapshot!(each_reported(&[
        "input_stream: 'In' output_stream: 'ovtensor:In' output_stream: 'A:b:c:d'",
        "input_stream: 'A:in' input_stream: 'A:0:on' output_stream: 'in'",
        "input_stream: 'in' output_stream: 'A:in' output_stream: 'A:2:in2'",
        "input_stream: 'in' output_stream: 'in' input_side_packet: 'X' output_side_packet: 'a b'",
    ]), @r#"
Failed to initialize mediapipe graph - input_stream "In": the name "In" is not like [a-z_][a-z0-9_]*
  12: graph.pbtxt:1:15: input_stream "In": the name "In" is not like [a-z_][a-z0-9_]*; write in
  12: graph.pbtxt:1:35: output_stream "ovtensor:In": the tag "ovtensor" is not like [A-Z_][A-Z0-9_]*; write OVTENSOR
  12: graph.pbtxt:1:64: output_stream "A:b:c:d": the text "A:b:c:d" is not like name, TAG:name or TAG:index:name
Failed to initialize mediapipe graph - input_stream has the tag A:0 twice: "A:in" and "A:0:on"
  12: graph.pbtxt:1:36: input_stream has the tag A:0 twice: "A:in" and "A:0:on"; the other is at 1:15; number them, A:0:… and A:1:…, or give one another tag
Failed to initialize mediapipe graph - output_stream "A:2:in2" has the index 2, but there is no A:1
  12: graph.pbtxt:1:57: output_stream "A:2:in2" has the index 2, but there is no A:1; indexes of a tag count up from 0
  12: graph.pbtxt:1:57: Output stream "in2" of the graph does not have a corresponding output stream of a node; did you mean "in"?
Failed to initialize mediapipe graph - input_side_packet "X": the name "X" is not like [a-z_][a-z0-9_]*
  12: graph.pbtxt:1:59: input_side_packet "X": the name "X" is not like [a-z_][a-z0-9_]*; write x
  12: graph.pbtxt:1:83: output_side_packet "a b": the name "a b" is not like [a-z_][a-z0-9_]*
"#);
    insta::assert_snapshot!(nodes_reported(&[
        "node { calculator: 'PassThroughCalculator' input_stream: 'A:in' input_stream: 'A:in' output_stream: 'o' }",
        "node { calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'o:p' }
         node { calculator: 'PassThroughCalculator' input_stream: 'p' output_stream: 'q' }",
        "node { calculator: 'PassThroughCalculator' input_stream: 'A:1:in' output_stream: 'B:01:o' }",
        "node { calculator: 'PassThroughCalculator' input_side_packet: 'S:S' output_side_packet: 'S:0:s' output_side_packet: 'S:s2' }",
        "node { calculator: 'PassThroughCalculator' input_stream: '' }",
    ]), @r#"
Failed to initialize mediapipe graph - node `PassThroughCalculator`: input_stream has the tag A:0 twice: "A:in" and "A:in"
  12: graph.pbtxt:3:79: node `PassThroughCalculator`: input_stream has the tag A:0 twice: "A:in" and "A:in"; the other is at 3:58; number them, A:0:… and A:1:…, or give one another tag
Failed to initialize mediapipe graph - node `PassThroughCalculator_1`: output_stream "o:p": the tag "o" is not like [A-Z_][A-Z0-9_]*
  12: graph.pbtxt:3:78: node `PassThroughCalculator_1`: output_stream "o:p": the tag "o" is not like [A-Z_][A-Z0-9_]*; write O
Failed to initialize mediapipe graph - node `PassThroughCalculator`: input_stream "A:1:in" has the index 1, but there is no A:0
  12: graph.pbtxt:3:58: node `PassThroughCalculator`: input_stream "A:1:in" has the index 1, but there is no A:0; indexes of a tag count up from 0
  12: graph.pbtxt:3:82: node `PassThroughCalculator`: output_stream "B:01:o": the index "01" is not like 0|[1-9][0-9]*
Failed to initialize mediapipe graph - node `PassThroughCalculator`: input_side_packet "S:S": the name "S" is not like [a-z_][a-z0-9_]*
  12: graph.pbtxt:3:63: node `PassThroughCalculator`: input_side_packet "S:S": the name "S" is not like [a-z_][a-z0-9_]*; write s
  12: graph.pbtxt:3:117: node `PassThroughCalculator`: output_side_packet has the tag S:0 twice: "S:0:s" and "S:s2"; the other is at 3:89; number them, S:0:… and S:1:…, or give one another tag
Failed to initialize mediapipe graph - node `PassThroughCalculator`: input_stream "": the name "" is not like [a-z_][a-z0-9_]*
  12: graph.pbtxt:3:58: node `PassThroughCalculator`: input_stream "": the name "" is not like [a-z_][a-z0-9_]*
"#);
}

#[test]
fn producers_and_consumers() {
    insta::assert_snapshot!(nodes_reported(&[
        "node { calculator: 'PassThroughCalculator' input_stream: 'inn' output_stream: 'o' }",
        "node { calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'in' }",
        "node { calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'o' }
         node { name: 'b' calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'o' }",
        "output_stream: 'T:zebra'",
        "node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 's' }
         node { name: 'b' calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 's' }",
        "input_side_packet: 's' node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 's' }",
        "output_side_packet: 'sess' node { calculator: 'OpenVINOModelServerSessionCalculator' output_side_packet: 'S:sessn' }",
    ]), @r#"
Failed to initialize mediapipe graph - node `PassThroughCalculator`: Input stream "inn" does not have a corresponding output stream
  12: graph.pbtxt:3:58: node `PassThroughCalculator`: Input stream "inn" does not have a corresponding output stream; did you mean "in"?
Failed to initialize mediapipe graph - node `PassThroughCalculator`: the stream "in" is produced twice
  12: graph.pbtxt:3:78: node `PassThroughCalculator`: the stream "in" is produced twice; the other producer is at 1:15; rename one
Failed to initialize mediapipe graph - node `b`: the stream "o" is produced twice
  12: graph.pbtxt:4:97: node `b`: the stream "o" is produced twice; the other producer is at 3:78; rename one
Failed to initialize mediapipe graph - Output stream "zebra" of the graph does not have a corresponding output stream of a node
  12: graph.pbtxt:3:16: Output stream "zebra" of the graph does not have a corresponding output stream of a node
Failed to initialize mediapipe graph - node `b`: the side packet "s" is produced twice
  12: graph.pbtxt:4:98: node `b`: the side packet "s" is produced twice; the other producer is at 3:79; rename one
Failed to initialize mediapipe graph - the side packet "s" is produced twice
  12: graph.pbtxt:3:20: the side packet "s" is produced twice; a node produces it at 3:102
Failed to initialize mediapipe graph - the side packet "sess" of the graph is produced by no node
  12: graph.pbtxt:3:21: the side packet "sess" of the graph is produced by no node; did you mean "sessn"?
"#);
}

#[test]
fn circles() {
    insta::assert_snapshot!(nodes_reported(&[
        "node { name: 'a' calculator: 'PassThroughCalculator' input_stream: 'X:in' input_stream: 'Y:c' output_stream: 'X:b' output_stream: 'Y:d' }
         node { name: 'b' calculator: 'PassThroughCalculator' input_stream: 'b' output_stream: 'c' }
         node { name: 'behind' calculator: 'PassThroughCalculator' input_stream: 'c' output_stream: 'e' }",
        "node { name: 'self' calculator: 'PassThroughCalculator' input_stream: 'x' output_stream: 'x' }",
        "node { name: 'a' calculator: 'PassThroughCalculator' input_side_packet: 'x' output_side_packet: 'y' }
         node { name: 'b' calculator: 'PassThroughCalculator' input_side_packet: 'y' output_side_packet: 'x' }",
    ]), @r#"
Failed to initialize mediapipe graph - node `a`: Generator side packet cycle or calculator stream cycle detected: `a`, `b`
  12: graph.pbtxt:3:6: node `a`: Generator side packet cycle or calculator stream cycle detected: `a`, `b`; mark the input that closes the circle, such as `input_stream_info: { tag_index: "Y:0" back_edge: true }`
Failed to initialize mediapipe graph - node `self`: Generator side packet cycle or calculator stream cycle detected: `self`
  12: graph.pbtxt:3:6: node `self`: Generator side packet cycle or calculator stream cycle detected: `self`; mark the input that closes the circle, such as `input_stream_info: { tag_index: ":0" back_edge: true }`
Failed to initialize mediapipe graph - node `a`: Generator side packet cycle or calculator stream cycle detected: `a`, `b`
  12: graph.pbtxt:3:6: node `a`: Generator side packet cycle or calculator stream cycle detected: `a`, `b`
"#);
    let marked = "node { name: 'a' calculator: 'PassThroughCalculator' input_stream: 'X:in' input_stream: 'Y:c' \
         output_stream: 'X:b' output_stream: 'Y:d' input_stream_info { tag_index: 'Y' back_edge: true } } \
         node { calculator: 'PassThroughCalculator' input_stream: 'b' output_stream: 'c' }";
    let plan = sound(&around(marked)).plan;
    assert_eq!(plan.nodes[0].back_edges, [false, true]);
}

#[test]
fn what_is_said_of_inputs() {
    insta::assert_snapshot!(nodes_reported(&[
        "node { name: 'a' calculator: 'PassThroughCalculator' input_stream: 'A:in' output_stream: 'o'
           input_stream_info { tag_index: 'B:0' back_edge: true }
           input_stream_info { tag_index: 'a' }
           input_stream_info { tag_index: 'A' } input_stream_info { tag_index: 'A:0' } }",
        "node { name: 'a' calculator: 'PassThroughCalculator' input_stream: 'A:nowhere' output_stream: 'o'
           input_stream_info { tag_index: 'A' back_edge: true } }",
    ]), @r#"
Failed to initialize mediapipe graph - node `a`: "B:0" is not an input stream of the node
  12: graph.pbtxt:4:30: node `a`: "B:0" is not an input stream of the node; it has A:0
  12: graph.pbtxt:5:30: node `a`: input_stream_info: "a" is not like TAG, TAG:index or :index; it has A:0
  12: graph.pbtxt:6:67: node `a`: input_stream_info has "A:0" twice
Failed to initialize mediapipe graph - node `a`: Input stream "nowhere" does not have a corresponding output stream
  12: graph.pbtxt:3:68: node `a`: Input stream "nowhere" does not have a corresponding output stream; name it as an input_stream of the graph, or as the output_stream of a node
"#);
    let text = around(
        "node { calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'o' \
         input_stream_info { tag_index: ':0' back_edge: true } }",
    );
    insta::assert_snapshot!(validate(&text).unwrap().warnings[0], @r#"graph.pbtxt:3:58: node `PassThroughCalculator`: the input "in" is marked as a back edge, but comes from an input of the graph"#);
}

#[test]
fn executors_and_numbers() {
    insta::assert_snapshot!(each_reported(&[
        &with("executor { name: 'default' } executor { name: '__x' } executor { name: 'a' type: 'ThreadPool' } executor { name: 'a' }", ""),
        &with("executor { name: 'abc' }", "executor: 'abd'"),
        &with("", "executor: 'abd'"),
        &with("", "executor: 'gpu'"),
        &with("max_queue_size: -2", "max_in_flight: -1"),
    ]), @r#"
Failed to initialize mediapipe graph - "default" is a reserved executor name
  12: graph.pbtxt:2:10: "default" is a reserved executor name; give it another name
  12: graph.pbtxt:2:39: "__x" is a reserved executor name; give it another name
  12: graph.pbtxt:2:64: the executor type "ThreadPool" is not known; did you mean ThreadPoolExecutor?
  12: graph.pbtxt:2:106: two executors have the name "a"
Failed to initialize mediapipe graph - node `PassThroughCalculator`: the executor "abd" is not declared in an ExecutorConfig
  12: graph.pbtxt:4:11: node `PassThroughCalculator`: the executor "abd" is not declared in an ExecutorConfig; did you mean "abc"?
Failed to initialize mediapipe graph - node `PassThroughCalculator`: the executor "abd" is not declared in an ExecutorConfig
  12: graph.pbtxt:4:11: node `PassThroughCalculator`: the executor "abd" is not declared in an ExecutorConfig; add `executor { name: "abd" }` to the graph
Failed to initialize mediapipe graph - node `PassThroughCalculator`: "gpu" is a reserved executor name
  12: graph.pbtxt:4:11: node `PassThroughCalculator`: "gpu" is a reserved executor name; leave it out for the default executor
Failed to initialize mediapipe graph - max_queue_size is -2
  12: graph.pbtxt:2:17: max_queue_size is -2; write a positive number, or -1 for no limit
  12: graph.pbtxt:4:16: node `PassThroughCalculator`: max_in_flight is -1; write how many times the node may run at once, 1 or more
"#);
    for (text, expected) in [
        ("", Some(100)),
        ("max_queue_size: 0", Some(100)),
        ("max_queue_size: 7", Some(7)),
        ("max_queue_size: -1", None),
    ] {
        assert_eq!(sound(&with(text, "")).plan.max_queue, expected);
    }
    let plan = sound(&with(
        "executor { name: 'a' type: 'ThreadPoolExecutor' } executor { type: 'ApplicationThreadExecutor' } report_deadlock: true",
        "executor: 'a' max_in_flight: 4",
    ))
    .plan;
    assert!(plan.report_deadlock);
    assert_eq!(plan.nodes[0].max_in_flight, 4);
}

#[test]
fn options_twice() {
    let gate = "[a/mediapipe.GateCalculatorOptions] { allow: true }";
    insta::assert_snapshot!(reported(&with("", &format!("node_options {{ {gate} }} node_options {{ {gate} }}"))), @"
Failed to initialize mediapipe graph - node `PassThroughCalculator`: node_options has mediapipe.GateCalculatorOptions twice, and a node takes each type once
  12: graph.pbtxt:4:83: node `PassThroughCalculator`: node_options has mediapipe.GateCalculatorOptions twice, and a node takes each type once; put all fields into one of them
");
    let text = with(
        "",
        &format!(
            "node_options {{ {gate} }} options {{ [mediapipe.GateCalculatorOptions.ext] {{ }} }}"
        ),
    );
    let checked = validate(&text).unwrap();
    insta::assert_snapshot!(checked.warnings[0], @"graph.pbtxt:4:78: node `PassThroughCalculator`: mediapipe.GateCalculatorOptions stands in node_options as well, which counts");
    let options = &checked.plan.nodes[0].spec.options;
    let options: crate::proto::mediapipe::GateCalculatorOptions = options.get().unwrap();
    assert_eq!(options.allow, Some(true), "those of node_options");
}

#[test]
fn options_as_bytes() {
    let options = |text: &str| with("", &format!("node_options {{ {text} }}"));
    sound(&options(
        "type_url: 'a/mediapipe.GateCalculatorOptions' value: '\\020\\001'",
    ));
    insta::assert_snapshot!(each_reported(&[
        &options("type_url: 'a/mediapipe.Zebra' value: ''"),
        &options("type_url: 'a/mediapipe.GateCalculatorOptions' value: '\\377'"),
        &options("type_url: 'a/mediapipe.PythonExecutorCalculatorOptions'"),
        &options("handler_path: 'x'"),
    ]), @r#"
Failed to read protobuf graph configuration file - node `PassThroughCalculator`: the type "mediapipe.Zebra" is not known
  3: graph.pbtxt:4:14: node `PassThroughCalculator`: the type "mediapipe.Zebra" is not known
Failed to read protobuf graph configuration file - node `PassThroughCalculator`: "value" holds no mediapipe.GateCalculatorOptions
  3: graph.pbtxt:4:14: node `PassThroughCalculator`: "value" holds no mediapipe.GateCalculatorOptions
Failed to read protobuf graph configuration file - node `PassThroughCalculator`: the required field "handler_path" of mediapipe.PythonExecutorCalculatorOptions is missing
  3: graph.pbtxt:4:14: node `PassThroughCalculator`: the required field "handler_path" of mediapipe.PythonExecutorCalculatorOptions is missing
Failed to read protobuf graph configuration file - node `PassThroughCalculator`: google.protobuf.Any has no field "handler_path"
  3: graph.pbtxt:4:16: node `PassThroughCalculator`: google.protobuf.Any has no field "handler_path"; name the type of the options: `[type.googleapis.com/mediapipe.…] { … }`
"#);
}

#[test]
fn requests_give_no_side_packets_to_pooled_graphs() {
    let pooled = |size: &str, side: &str| {
        let node = format!(
            "node {{ calculator: 'PassThroughCalculator' input_stream: 'in' output_stream: 'o' input_side_packet: '{side}' }}"
        );
        format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: {size}\n{}", around(&node))
    };
    sound(&pooled("0", "count"));
    sound(&pooled("2", "py"));
    insta::assert_snapshot!(reported(&pooled("2", "count")), @r#"
Failed to initialize mediapipe graph - node `PassThroughCalculator`: Side packet "count" is required but was not provided. No node produces it, and with OVMS_GRAPH_QUEUE_MAX_SIZE no request gives it
  12: graph.pbtxt:4:101: node `PassThroughCalculator`: Side packet "count" is required but was not provided. No node produces it, and with OVMS_GRAPH_QUEUE_MAX_SIZE no request gives it; produce it in a node, or leave out OVMS_GRAPH_QUEUE_MAX_SIZE
"#);
}
