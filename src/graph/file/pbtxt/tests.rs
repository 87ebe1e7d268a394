//! Syntax of graph files, and the errors reported for invalid text.

use std::{fmt::Write, time::Instant};

use proptest::prelude::*;
use prost::Message;
use prost_reflect::DynamicMessage;

use super::{MAX_ERRORS, MAX_SIZE, MESSAGES, read};
use crate::{
    diagnostic::LineIndex,
    proto::mediapipe::{
        CalculatorGraphConfig, ConstantSidePacketCalculatorOptions, GateCalculatorOptions,
        OpenVinoInferenceCalculatorOptions, PythonExecutorCalculatorOptions,
        constant_side_packet_calculator_options::constant_side_packet::Value,
    },
};

/// Parses a text that must be valid.
fn good(text: &str) -> CalculatorGraphConfig {
    match read(text) {
        Ok(document) => document.message.transcode_to().unwrap(),
        Err(errors) => panic!("{text}\n{errors:?}"),
    }
}

/// Formats the errors of a text, one per line.
fn reported(text: &str) -> String {
    let lines = LineIndex::new(text);
    let mut reported = String::new();
    for error in read(text).unwrap_err() {
        let (line, column) = lines.place(error.at);
        let node = error.node.map(|node| format!(" ({node})"));
        let hint = error.hint.map(|hint| format!(" | {hint}"));
        let (node, hint) = (node.unwrap_or_default(), hint.unwrap_or_default());
        writeln!(reported, "{line}:{column}{node} {}{hint}", error.message).unwrap();
    }
    reported
}

/// Parses the single options message of the single node of a graph.
fn options<T: Message + Default>(text: &str) -> T {
    let graph = good(text);
    T::decode(graph.node[0].node_options[0].value.as_slice()).unwrap()
}

#[test]
fn separators_and_quotes_are_free() {
    for text in [
        "input_stream: 'a' input_stream: \"b\"",
        "input_stream: 'a', input_stream: \"b\",",
        "input_stream: 'a'; input_stream: \"b\";",
        "input_stream: ['a', 'b']",
        "input_stream: [\n'a'\n,'b'] # both",
        "# first\ninput_stream # here\n: # a\n'a' input_stream: 'b'",
        "input_stream:'a'input_stream:'b'",
        "input_stream: [] input_stream: ['a'] input_stream: 'b'",
        "input_stream: '\\141' input_stream: \"\\x62\"",
        "\u{b}\u{c}\tinput_stream: 'a'\r\ninput_stream: 'b'\r\n",
    ] {
        assert_eq!(good(text).input_stream, ["a", "b"], "{text:?}");
    }
    for text in [
        "node { name: 'x' }",
        "node: { name: 'x' }",
        "node < name: 'x' >",
        "node: [{ name: 'x' }]",
        "node [{ name: 'x' }]",
        "node [ ] node [ < name: 'x' > ]",
        "node { name: 'x', };",
    ] {
        assert_eq!(good(text).node[0].name(), "x", "{text:?}");
    }
}

#[test]
fn strings_are_put_together() {
    let graph = good("node { name: 'a' \"b\"\n # c\n 'd\\n\\'\\u00e4\\U0001F600' }");
    assert_eq!(graph.node[0].name(), "abd\n'ä😀");
}

#[test]
fn types_may_be_spelled_with_spaces() {
    for url in [
        "[type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]",
        "[type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]:",
        "[ type.googleapis.com /mediapipe . PythonExecutorCalculatorOptions ] :",
        "[x-y.z/mediapipe.PythonExecutorCalculatorOptions]",
    ] {
        let text = format!("node {{ node_options: {{ {url} {{ handler_path: 'm.py' }} }} }}");
        let options: PythonExecutorCalculatorOptions = options(&text);
        assert_eq!(options.handler_path, "m.py", "{text}");
    }
}

#[test]
fn options_have_maps_enums_and_choices() {
    let infer: OpenVinoInferenceCalculatorOptions = options(
        "node { node_options { [a/mediapipe.OpenVINOInferenceCalculatorOptions] {
           tag_to_input_tensor_names { key: 'A' value: 'a' }
           tag_to_input_tensor_names: [ { key: 'B', value: 'b' }, { key: 'A' value: 'c' } ]
           input_order_list: ['x', 'y']
         } } }",
    );
    let names: Vec<_> = infer.tag_to_input_tensor_names.iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(infer.tag_to_input_tensor_names["A"], "c");
    assert_eq!(infer.input_order_list, ["x", "y"]);
    let gate: GateCalculatorOptions = options(
        "node { node_options { [a/mediapipe.GateCalculatorOptions] { allow: t \
         initial_gate_state: GATE_ALLOW } } }",
    );
    assert!(gate.allow());
    assert_eq!(gate.initial_gate_state, Some(2));
    let constants: ConstantSidePacketCalculatorOptions = options(
        "node { node_options { [a/mediapipe.ConstantSidePacketCalculatorOptions] {
           packet { int_value: -0x10 } packet { float_value: -1.5e1f } packet { bool_value: 0 }
           packet { uint64_value: 18446744073709551615 } packet { double_value: inf }
           packet { int64_value: -9223372036854775808 } packet { int_value: 017 }
         } } }",
    );
    let values: Vec<_> = constants
        .packet
        .iter()
        .map(|packet| packet.value.clone())
        .collect();
    assert_eq!(
        values,
        [
            Some(Value::IntValue(-16)),
            Some(Value::FloatValue(-15.0)),
            Some(Value::BoolValue(false)),
            Some(Value::Uint64Value(u64::MAX)),
            Some(Value::DoubleValue(f64::INFINITY)),
            Some(Value::Int64Value(i64::MIN)),
            Some(Value::IntValue(15)),
        ]
    );
}

#[test]
fn every_option_is_found_by_its_extension() {
    let extensions = MESSAGES.all_extensions();
    let mut count = 0;
    for extension in extensions.filter(|known| known.full_name().starts_with("mediapipe.")) {
        count += 1;
        let name = extension.full_name();
        let options = MESSAGES
            .get_message_by_name(name.strip_suffix(".ext").unwrap())
            .unwrap();
        let required: String = options
            .fields()
            .filter(|field| field.cardinality() == prost_reflect::Cardinality::Required)
            .map(|field| format!("{}: 'x' ", field.name()))
            .collect();
        let options = match extension.containing_message().name() {
            "CalculatorOptions" => format!("options {{ [{name}] {{ {required}}} }}"),
            _ => format!("input_stream_handler {{ options {{ [{name}]: {{ {required}}} }} }}"),
        };
        good(&format!("node {{ {options} }}"));
    }
    assert_eq!(count, 27, "the options of the protos");
}

#[test]
fn what_does_not_run_is_read_all_the_same() {
    good(
        "packet_factory { packet_factory: 'x' options {} } packet_generator { packet_generator: 'x' }
         num_threads: 4 status_handler { status_handler: 'x' } max_queue_size: -1
         output_stream_handler { output_stream_handler: 'InOrderOutputStreamHandler' }
         executor { name: 'x' type: 'ThreadPoolExecutor' options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
         input_side_packet: 'x' output_side_packet: 'y' profiler_config { trace_enabled: true }
         package: 'p' type: 'T' report_deadlock: true options {} graph_options { [x/mediapipe.GateCalculatorOptions] {} }
         node { source_layer: 1 buffer_size_hint: 2 option_value: 'OPTIONS/x:y' external_input: 'x' max_in_flight: 3
                profiler_config {} executor: 'x' output_stream_handler {} }",
    );
}

#[test]
fn text_that_is_none_is_reported_with_its_place() {
    insta::assert_snapshot!([
        "input_stream 'a'",
        "input_stream: \n  ",
        "node {\n  name: \"x\"\n  calculator: 'Y'\n",
        "node {\n  name: \"x\"\n  calculator: 'Y\n}",
        "node { calculator: 'C' input_stream: }",
        "node { name: 'n' } }",
        "}",
        "input_stream: 'a' , , output_stream: 'b'",
        "input_stream: ['a' 'b'",
        "input_stream: ['a', ]",
        "node { node_options { [type.googleapis.com/] {} } }",
        "node { node_options { [] {} } }",
        "node { name: 'n' options { [mediapipe.X.ext { } } }",
        "input_stream: \"a\" @",
        "name: -",
        "näme: 'x'",
        "{ }",
    ]
    .map(reported)
    .concat(), @"
1:14 found `'a'`, expected `:` or `{` after `input_stream`
2:3 found the end of the text, expected a value for `input_stream`
4:1 (x) found the end of the text, expected the name of a field or `}` | `node` at 1:1 is not closed
3:15 (x) the string that begins here does not end in its line: expected '
1:38 (C) found `}`, expected a value for `input_stream`
1:20 found `}`, expected the name of a field | there is a brace too many here or above
1:1 found `}`, expected the name of a field | there is a brace too many here or above
1:21 found `,`, expected the name of a field
1:23 found the end of the text, expected `,` or `]`
1:21 found `]`, expected a value for `input_stream`
1:44 found `]`, expected the name of an extension or `type.googleapis.com/` and that of a type, and `]`
1:24 found `]`, expected the name of an extension or `type.googleapis.com/` and that of a type, and `]`
1:45 (n) found `{`, expected the name of an extension or `type.googleapis.com/` and that of a type, and `]`
1:19 '@' means nothing here
1:8 found the end of the text, expected a number
1:2 'ä' means nothing here
1:1 found `{`, expected the name of a field
");
}

#[test]
fn all_that_has_no_meaning_is_reported() {
    insta::assert_snapshot!(reported(
        "inptu_stream: 'a'
zebra: 1
input_stream: 5
input_stream: { }
max_queue_size: 'x'
num_threads: 99999999999
report_deadlock: maybe
node: 'x'
node {
  name: 'one'
  name: 'two'
  input_straem: 'a'
  calculator: [ 'a' ]
  max_in_flight: 1.5
  input_stream_info { tag_index: 'A' back_edge: 2 }
  options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { } }
  options { }
}
node {
  calculator: 'Py'
  options { [mediapipe.PythonExecutorCalculatorOption.ext] { } handler_path: 'x' }
  node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { } }
  node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOption] { } }
  node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { initial_gate_state: GATE_ALOW } }
  node_options { [a/mediapipe.GateCalculatorOptions] { } [a/mediapipe.GateCalculatorOptions] { } }
  input_stream_handler { [a/mediapipe.GateCalculatorOptions] { } }
  node_options { [a/mediapipe.ConstantSidePacketCalculatorOptions] { packet { int_value: 1 bool_value: true } } }
  name: 'bad \\q escape'
  executor: '\\xff'
}
"), @r#"
1:1 mediapipe.CalculatorGraphConfig has no field "inptu_stream" | did you mean "input_stream"?
2:1 mediapipe.CalculatorGraphConfig has no field "zebra" | it has node, packet_factory, packet_generator, num_threads, status_handler, input_stream, max_queue_size, input_stream_handler, output_stream_handler, executor, output_stream, input_side_packet, output_side_packet, profiler_config, package, type, report_deadlock, options, graph_options
3:15 input_stream: 5, expected a string in quotes
4:15 input_stream: expected one value, not fields in braces
5:17 max_queue_size: 'x', expected a whole number
6:14 num_threads: 99999999999, expected a whole number from -2147483648 to 2147483647
7:18 report_deadlock: maybe, expected `true` or `false`
8:7 node: 'x', expected fields in braces, `{ … }`
11:3 (one) "name" is set twice
12:3 (one) mediapipe.CalculatorGraphConfig.Node has no field "input_straem" | did you mean "input_stream"?
13:15 (one) calculator: expected one value, not a list
14:18 (one) max_in_flight: 1.5, expected a whole number
15:49 (one) back_edge: 2, expected `true` or `false`
16:13 (one) [mediapipe.SyncSetInputStreamHandlerOptions.ext] is an option of mediapipe.MediaPipeOptions | mediapipe.CalculatorOptions does not take it
17:3 (one) "options" is set twice
21:13 (Py) mediapipe.CalculatorOptions has no extension "mediapipe.PythonExecutorCalculatorOption.ext" | did you mean [mediapipe.PythonExecutorCalculatorOptions.ext]?
21:64 (Py) mediapipe.CalculatorOptions has no field "handler_path" | options stand in an extension: `[mediapipe.….ext] { … }`
22:18 (Py) the required field "handler_path" of mediapipe.PythonExecutorCalculatorOptions is missing | add `handler_path: …` there
23:18 (Py) the type "mediapipe.PythonExecutorCalculatorOption" is not known | did you mean [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]?
24:94 (Py) initial_gate_state: GATE_ALOW, expected one of GATE_UNINITIALIZED, GATE_ALLOW, GATE_DISALLOW | did you mean GATE_ALLOW?
25:58 (Py) one `{ … }` takes one type, found a second | write each type into a `node_options` of its own
26:26 (Py) mediapipe.InputStreamHandlerConfig takes no type in brackets, found [a/mediapipe.GateCalculatorOptions] | types belong into `node_options: { … }`
27:92 (Py) "bool_value" and "int_value" cannot both be set
28:9 (Py) name: 'bad \q escape', expected a string without the unknown escape `\q` | write `\\` for a backslash
29:13 (Py) executor: '\xff', expected a string in UTF-8
"#);
}

#[test]
fn many_errors_are_reported_in_part() {
    let text = "zebra: 1\n".repeat(10_000);
    assert_eq!(read(&text).unwrap_err().len(), MAX_ERRORS);
}

#[test]
fn depth_is_bounded() {
    for text in [
        "node {".repeat(1_000_000),
        "node <".repeat(1_000_000),
        "node_options { [a/mediapipe.CalculatorGraphConfig] { node { ".repeat(200_000),
        format!("input_stream: {}", "[".repeat(1_000_000)),
    ] {
        let errors = read(&text).unwrap_err();
        assert_eq!(errors.len(), 1);
    }
    let deep = |levels: usize| {
        let open = "node{node_options{[a/mediapipe.CalculatorGraphConfig]{".repeat(levels);
        format!("{open}{}", "}}}".repeat(levels))
    };
    good(&deep(33));
    assert!(reported(&deep(34)).contains("deeper than 100 levels"));
}

#[test]
fn large_files_are_read_in_time() {
    let mut text = String::from("input_stream: 'a' output_stream: 'b'\n");
    let mut index = 0;
    while text.len() < 5 << 20 {
        writeln!(
            text,
            "node {{ name: 'n{index}' calculator: 'C' input_stream: 's{index}' }}"
        )
        .unwrap();
        index += 1;
    }
    let begun = Instant::now();
    assert_eq!(good(&text).node.len(), index);
    assert!(begun.elapsed().as_secs() < 300, "{:?}", begun.elapsed());
    let one_string = format!("input_stream: '{}'", "x".repeat(5 << 20));
    assert_eq!(good(&one_string).input_stream[0].len(), 5 << 20);
    let comment = format!("#{}\ninput_stream: 'a'", "x".repeat(5 << 20));
    good(&comment);
    let too_long = " ".repeat(MAX_SIZE + 1);
    assert!(reported(&too_long).contains("more than 16777216"));
}

/// Words of graph files, so that random texts are sometimes nearly valid.
fn words() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "node",
        "name",
        "input_stream",
        "node_options",
        "options",
        "calculator",
        "{",
        "}",
        "<",
        ">",
        "[",
        "]",
        ":",
        ",",
        ";",
        "'a'",
        "\"b\"",
        "-",
        "1",
        "0x1f",
        "1.5",
        "true",
        "inf",
        "#",
        "\n",
        "[type.googleapis.com/mediapipe.GateCalculatorOptions]",
        "allow",
        "max_queue_size",
        "[mediapipe.GateCalculatorOptions.ext]",
        "executor",
        "'\\x41\\101'",
        "tag_index",
        "/",
        ".",
        "input_stream_info",
        "back_edge",
        "initial_gate_state",
        "GATE_ALLOW",
        "type_url",
        "value",
        "[type.googleapis.com/mediapipe.ConstantSidePacketCalculatorOptions]",
        "packet",
        "double_value",
        "int64_value",
        "input_stream_handler",
    ]);
    let glue = prop::sample::select(vec![" ", "", "\n"]);
    prop::collection::vec((known, glue), 0..40).prop_map(|words| {
        words
            .into_iter()
            .map(|(word, glue)| format!("{word}{glue}"))
            .collect()
    })
}

/// Parses a text with the protobuf library.
fn by_library(text: &str) -> Option<DynamicMessage> {
    let graph = MESSAGES.get_message_by_name("mediapipe.CalculatorGraphConfig");
    DynamicMessage::parse_text_format(graph.unwrap(), text).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_is_fatal(text in "\\PC*|[{}\\[\\]<>:;,'\"#\\\\a-z0-9./_\n -]{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn texts_mean_what_the_library_says(text in words()) {
        let ours = read(&text).ok().map(|document| document.message);
        // The library neither checks required fields nor rejects line breaks in strings.
        if let (Some(ours), Some(theirs)) = (&ours, by_library(&text)) {
            prop_assert_eq!(ours.encode_to_vec(), theirs.encode_to_vec(), "{}", text);
        }
        if let Some(ours) = ours {
            prop_assert!(by_library(&text).is_some(), "only we read {text:?} as {ours:?}");
        }
    }

    #[test]
    fn what_is_written_is_read(graph in graphs()) {
        let mut message = DynamicMessage::new(
            MESSAGES.get_message_by_name("mediapipe.CalculatorGraphConfig").unwrap(),
        );
        message.transcode_from(&graph).unwrap();
        for pretty in [true, false] {
            let format = prost_reflect::text_format::FormatOptions::new().pretty(pretty);
            let text = message.to_text_format_with_options(&format);
            prop_assert_eq!(&good(&text), &graph, "{}", text);
        }
    }
}

/// Graphs with arbitrary names.
fn graphs() -> impl Strategy<Value = CalculatorGraphConfig> {
    use crate::proto::mediapipe::calculator_graph_config::Node;
    let name = "\\PC{0,8}|[\\x00-\\x7f]{0,4}";
    let node = (
        name,
        prop::collection::vec(name, 0..3),
        any::<Option<i32>>(),
    );
    let node = node.prop_map(|(name, input_stream, max_in_flight)| Node {
        name: Some(name),
        input_stream,
        max_in_flight,
        ..Node::default()
    });
    (prop::collection::vec(node, 0..4), any::<Option<bool>>()).prop_map(
        |(node, report_deadlock)| CalculatorGraphConfig {
            node,
            report_deadlock,
            ..CalculatorGraphConfig::default()
        },
    )
}
