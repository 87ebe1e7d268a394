//! Pipeline features beyond the reference.

use super::{errors, read};
use crate::config::file::EmptyResults;

/// Writes a file of one pipeline with a demultiplexer.
fn file(count: i32, fields: &str) -> String {
    format!(
        r#"{{"model_config_list": [], "pipeline_config_list": [{{"name": "p", "inputs": ["i"],
"nodes": [{{"name": "d", "type": "custom", "library_name": "l", "demultiply_count": {count},
"inputs": [{{"a": {{"node_name": "request", "data_item": "i"}}}}],
"outputs": [{{"data_item": "z", "alias": "z"}}]}}],
"outputs": [{{"o": {{"node_name": "d", "data_item": "z"}}}}]{fields}}}]}}"#
    )
}

#[test]
fn nothing_is_an_error_unless_it_is_allowed() {
    for (fields, expected) in [
        ("", EmptyResults::Abort),
        (r#", "empty_results": "abort""#, EmptyResults::Abort),
        (r#", "empty_results": "allow""#, EmptyResults::Allow),
    ] {
        let config = read(&file(-1, fields)).unwrap();
        assert_eq!(config.pipelines[0].empty_results, expected);
        let reported = |place: &str| {
            let mut warnings = config.warnings.iter().map(ToString::to_string);
            warnings.any(|warning| warning.contains(place))
        };
        assert!(!reported("empty_results"));
    }
    let config = read(&file(2, r#", "empty_results": "allow""#)).unwrap();
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = warnings.filter(|w| w.contains("empty_results")).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"1:52 pipeline_config_list[0]: empty_results has no effect: no demultiply_count is -1, so that none may be empty");

    insta::assert_snapshot!(errors(&file(-1, r#", "empty_results": "keep""#)), @r#"5:76 pipeline_config_list[0].empty_results: found the text "keep"; expected one of "abort", "allow""#);
}

#[test]
fn inputs_of_nodes_convert_if_asked() {
    let with = |from: &str, to: &str| file(-1, "").replace(from, to);
    let source = r#""data_item": "i"}"#;
    for (value, expected) in [("true", true), ("false", false)] {
        let text = with(
            source,
            &format!(r#""data_item": "i", "convert": {value}}}"#),
        );
        let pipeline = read(&text).unwrap().pipelines.remove(0);
        assert_eq!(pipeline.nodes[0].inputs[0].convert, expected);
        assert!(!pipeline.outputs[0].convert);
    }
    let text = with(source, r#""data_item": "i", "convert": 1}"#);
    insta::assert_snapshot!(errors(&text), @"3:72 pipeline_config_list[0].nodes[0].inputs[0].a.convert: found 1; expected true or false");
    let text = with(
        r#""data_item": "z"}}]"#,
        r#""data_item": "z", "convert": true}}]"#,
    );
    insta::assert_snapshot!(errors(&text), @"5:67 pipeline_config_list[0].outputs[0].o.convert: found true; expected no `convert` in an output of the pipeline: no input says what to convert to; it goes to the inputs of nodes");
}
