//! Errors that concern a file as a whole.

use std::path::Path;

use proptest::prelude::*;

use super::{
    super::{Defaults, ModelEntry, parse},
    errors, errors_of, read,
};

#[test]
fn all_errors_of_a_file_are_reported_with_their_places() {
    insta::assert_snapshot!(errors(r#"{
    "model_config_list": [
        {"config": {
            "name": "a",
            "nireq": "4",
            "nriq": 4,
            "batch_size": true,
            "stateful": 1,
            "plugin_config": {"A": {}, "B": null},
            "model_version_policy": {"specific": {"versions": [1, 0, "2"]}},
            "shape": {"x": 1}
        }},
        {"config": {"base_path": "/m"}, "name": "x"},
        {"config": {"name": "", "warmup": [{"count": 0}, {"data": "ones"}]}},
        7
    ],
    "models": [],
    "pipeline_config_list": [
        {"name": "p", "inputs": [1], "outputs": [{}], "demultiply_count": 10001, "nodes": [
            {"name": "n", "type": "DL model", "library_name": "l", "inputs": [
                {"a": {"node_name": "request"}, "b": {}}], "outputs": [{"data_item": "x"}]},
            {"name": "n", "type": "model", "inputs": [], "outputs": {}, "version": 0}
        ]}
    ],
    "custom_node_library_config_list": [{"name": "l", "base_path": "/l", "params": {}}],
    "mediapipe_config_list": {},
    "custom_loader_config_list": [{"config": {"loader_name": "l"}}],
    "monitoring": {"metrics": {"enable": "yes", "list": []}}
}"#), @r#"
    5:22 model_config_list[0].config.nireq: found the text "4"; expected a whole number from 0
    6:13 model_config_list[0].config.nriq: found the unknown key `nriq`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, dynamic_batching, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, state_mode, sequence_batch, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup (did you mean `nireq`?)
    7:27 model_config_list[0].config.batch_size: found true; expected a whole number from 0, or a text such as auto or 1:8
    8:25 model_config_list[0].config.stateful: found 1; expected true or false
    9:36 model_config_list[0].config.plugin_config.A: found an object; expected a text, a number, true or false
    9:45 model_config_list[0].config.plugin_config.B: found null; expected a text, a number, true or false
    10:67 model_config_list[0].config.model_version_policy.specific.versions[1]: found 0; expected a whole number from 1
    10:70 model_config_list[0].config.model_version_policy.specific.versions[2]: found the text "2"; expected a whole number from 1
    11:28 model_config_list[0].config.shape.x: found 1; expected a text
    13:20 model_config_list[1].config.name: found nothing; expected the key `name`
    13:41 model_config_list[1].name: found the unknown key `name`; expected `config`
    14:29 model_config_list[2].config.name: found the text ""; expected a text that is not empty
    14:54 model_config_list[2].config.warmup[0].count: found 0; expected a whole number from 1 to 1000000
    14:67 model_config_list[2].config.warmup[1].data: found the text "ones"; expected "zeros", "random", or an object of .npy files by input name
    15:9 model_config_list[3]: found 7; expected an object with config
    17:5 models: found the unknown key `models`; expected one of model_config_list, pipeline_config_list, custom_node_library_config_list, mediapipe_config_list, custom_loader_config_list, monitoring (did you mean `model_config_list`?)
    19:34 pipeline_config_list[0].inputs[0]: found 1; expected a text
    19:50 pipeline_config_list[0].outputs[0]: found an object; expected an object of exactly one key
    19:75 pipeline_config_list[0].demultiply_count: found 10001; expected a whole number from -1 to 10000
    20:13 pipeline_config_list[0].nodes[0]: found an object; expected the key `model_name` in a node of type "DL model"
    20:63 pipeline_config_list[0].nodes[0].library_name: found the text "l"; expected no `library_name` in a node of type "DL model"
    21:17 pipeline_config_list[0].nodes[0].inputs[0]: found an object; expected an object of exactly one key
    21:72 pipeline_config_list[0].nodes[0].outputs[0].alias: found nothing; expected the key `alias`
    22:35 pipeline_config_list[0].nodes[1].type: found the text "model"; expected one of "DL model", "custom"
    22:69 pipeline_config_list[0].nodes[1].outputs: found an object; expected a list of outputs
    22:84 pipeline_config_list[0].nodes[1].version: found 0; expected a whole number from 1
    25:74 custom_node_library_config_list[0].params: found the unknown key `params`; expected one of name, base_path
    26:30 mediapipe_config_list: found an object; expected a list of graphs
    27:46 custom_loader_config_list[0].config.library_path: found nothing; expected the key `library_path`
    28:42 monitoring.metrics.enable: found the text "yes"; expected true or false
    28:49 monitoring.metrics.list: found the unknown key `list`; expected one of enable, metrics_list
    "#);
    insta::assert_snapshot!(errors("{}"), @"1:1 model_config_list: found nothing; expected the key `model_config_list`");
    insta::assert_snapshot!(errors("[]"), @"1:1: found a list; expected an object with model_config_list, pipeline_config_list, custom_node_library_config_list, mediapipe_config_list, custom_loader_config_list, monitoring");
    insta::assert_snapshot!(
        errors(r#"{"model_config_list": [{"config": {"name": "m", "nireq": 99999999999999999999999,
            "custom_loader_options": {"a": 1}, "a b": 1}}]}"#),
        @r#"
    1:58 model_config_list[0].config.nireq: found 99999999999999999999999; expected a whole number from 0
    2:38 model_config_list[0].config.custom_loader_options: found an object; expected an object with the key `loader_name`
    2:44 model_config_list[0].config.custom_loader_options.a: found 1; expected a text
    2:48 model_config_list[0].config["a b"]: found the unknown key `a b`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, dynamic_batching, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, state_mode, sequence_batch, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup
    "#
    );
}

#[test]
fn names_have_no_zero_characters() {
    let text = r#"{
        "model_config_list": [{"config": {"name": "a\u0000b", "base_path": "/m"}}],
        "mediapipe_config_list": [{"name": "\u0000"}],
        "pipeline_config_list": [{"name": "p\u0000", "inputs": [], "nodes": [], "outputs": []}]
    }"#;
    insta::assert_snapshot!(errors(text).replace('\0', "NUL"), @r#"
    2:51 model_config_list[0].config.name: found the text "aNULb"; expected a text without the character U+0000
    3:44 mediapipe_config_list[0].name: found the text "NUL"; expected a text without the character U+0000
    4:43 pipeline_config_list[0].name: found the text "pNUL"; expected a text without the character U+0000
    "#);
}

#[test]
fn what_is_no_json_is_reported_with_its_place() {
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let list: Vec<String> = [
        "",
        "  # only a comment",
        "{\n  \"model_config_list\": [\n",
        "{\n  \"model_config_list\": [} ]}",
        "{\"a\": 1 \"b\": 2}",
        "{'a': 1}",
        "{a: 1}",
        "{\"a\": 01}",
        "{\"a\": 1.}",
        "{\"a\": 0x10}",
        "{\"a\": NaN}",
        "{\"a\": tru}",
        "{\"a\": \"b}\n",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\\ud800\"}",
        "{} {}",
        "{} /* no */",
        "{\"a\": 1 / 2}",
        "[1,,2]",
        "[,]",
        &deep,
    ]
    .iter()
    .map(|text| errors(text))
    .collect();
    insta::assert_snapshot!(list.concat(), @r#"
    1:1: found an empty file; expected a JSON object
    1:1: found an empty file; expected a JSON object
    2:24: found `[` (unterminated array); expected JSON
    2:25: found `}` (unexpected close brace); expected JSON
    1:8: found `"b": 2}` (expected comma); expected JSON
    1:2: found `'` (single-quoted strings are not allowed); expected JSON
    1:2: found `a` (expected string for object property); expected JSON
    1:8: found `1}` (expected comma); expected JSON
    1:7: found `1.` (leading or trailing decimal points on numbers are not allowed); expected JSON
    1:7: found `0` (hexadecimal numbers are not allowed); expected JSON
    1:7: found `NaN` (unexpected token); expected JSON
    1:7: found `tru` (unexpected token); expected JSON
    1:7: found a string that does not end on its line, or has a control character; expected a closing quote, or an escape such as \n
    1:8: found `\x` (invalid escape); expected JSON
    1:8: found `\ud800"` (invalid unicode escape sequence. 'd800 (unpaired high surrogate)' is not a valid UTF8 character); expected JSON
    1:4: found `{` (text cannot contain more than one JSON value); expected JSON
    1:4: found `/* no */` (another form of comment); expected JSON, in which comments begin with # or // and end with the line
    1:9: found `/` (unexpected token); expected JSON
    1:4: found `,` (unexpected comma); expected JSON
    1:2: found `,` (unexpected comma); expected JSON
    1:65: found lists and objects in one another without end; expected at most 64 in one another
    "#);
    insta::assert_snapshot!(errors_of(b"{\"a\":\n \"\xFF\"}"), @"2:3: found the byte 0xFF; expected text in UTF-8");
    insta::assert_snapshot!(errors_of(b"\xFF\xFE{\0}\0"), @"1:1: found text in UTF-16; expected text in UTF-8");
}

#[test]
fn comments_and_last_commas_are_accepted_and_strings_left_alone() {
    let config = read(
        "\u{feff}# models ä\r\n{\"model_config_list\": [ // one, [\n {\"config\": {\"name\": \
         \"a#//\\\"b\",}},\n]} # \"",
    )
    .unwrap();
    assert!(matches!(&config.models[0], ModelEntry::Model(model) if model.name == "a#//\"b"));
}

#[test]
fn very_many_warnings_are_counted_but_not_all_reported() {
    let again = ", \"model_config_list\": []".repeat(100_000);
    let config = read(&format!("{{\"model_config_list\": []{again}}}")).unwrap();
    assert_eq!(config.warnings.len(), 100);
    let last = config.warnings.last().unwrap().to_string();
    assert!(last.ends_with("(and 99900 more warnings)"), "{last}");
}

#[test]
fn very_many_errors_are_counted_but_not_all_reported() {
    let text = format!("{{\"model_config_list\": [{}]}}", "1,".repeat(100_000));
    let error = read(&text).unwrap_err();
    assert_eq!(error.errors().len(), 100);
    assert!(error.to_string().starts_with(
        "The file is not valid json for a configuration - the configuration file /models/config.json has 100000 \
         errors: 1:24 model_config_list[0]: found 1; expected an object with config; "
    ));
}

/// Texts that look like configuration files.
fn nearly_files() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\""),
        Just("\\"),
        Just("#"),
        Just("//"),
        Just("\n"),
        Just(" "),
        Just("-"),
        Just("1"),
        Just("1e999"),
        Just("true"),
        Just("null"),
        Just("\"model_config_list\""),
        Just("\"config\""),
        Just("\"name\""),
        Just("\"shape\""),
        Just("\"auto\""),
        Just("ä"),
        Just("\u{2028}"),
        Just("\"\\ud83d\\ude00\""),
        Just("\0"),
    ];
    proptest::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&content, Path::new("config.json"), &Defaults::default());
    }

    #[test]
    fn no_text_makes_it_panic(text in nearly_files()) {
        let path = Path::new("/config.json");
        let parsed = parse(text.as_bytes(), path, &Defaults::default());
        if let Err(error) = parsed {
            prop_assert!(!error.to_string().is_empty());
            prop_assert!(!error.errors().is_empty());
        }
        let _ = crate::config::add_model(Some(text.as_bytes()), ("a", "/a"), &[]);
        let _ = crate::config::model_settings(text.as_bytes(), "a");
        let _ = crate::config::remove_model(text.as_bytes(), "a");
    }
}

#[test]
fn keys_of_others_have_their_names_here() {
    let text = r#"{"model_config_list": [{"config": {"name": "m", "base_path": "/m",
        "instance_group": [], "dynamic_batching": {"preferred_batch_size": [4]}, "sequence_batching": {}, "python_workers": 2}}]}"#;
    let errors = errors(text);
    let hints: Vec<&str> = errors
        .lines()
        .filter_map(|line| line.rsplit_once(" (").map(|(_, hint)| hint))
        .collect();
    insta::assert_snapshot!(hints.join("\n"), @"
    what Triton names `instance_group` is `nireq` here)
    what Triton names `preferred_batch_size` is `max_batch` here)
    what Triton names `sequence_batching` is `stateful` here)
    `python_workers` of a graph is in its entry of `mediapipe_config_list`, or beside `handler_path` in the graph)
    ");
}
