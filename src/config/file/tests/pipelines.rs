//! What pipelines have beyond the reference.

use super::{faults, read};
use crate::config::EmptyResults;

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
        let told = |place: &str| {
            let mut warnings = config.warnings.iter().map(ToString::to_string);
            warnings.any(|warning| warning.contains(place))
        };
        assert!(!told("empty_results"));
    }
    let config = read(&file(2, r#", "empty_results": "allow""#)).unwrap();
    let warnings = config.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = warnings.filter(|w| w.contains("empty_results")).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"1:52 pipeline_config_list[0]: empty_results has no effect: no demultiply_count is -1, so that none may be empty");

    insta::assert_snapshot!(faults(&file(-1, r#", "empty_results": "keep""#)), @r#"5:76 pipeline_config_list[0].empty_results: found the text "keep"; expected one of "abort", "allow""#);
}
