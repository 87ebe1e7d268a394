//! The published schema of the configuration file and the parser agree.

use std::path::Path;

use ovms::config::{Defaults, parse};
use serde_json::Value;

/// Valid contents of a model's `config` beside its name.
const MODEL_VALID: &[&str] = &[
    r#""base_path": "x""#,
    r#""base_path": """#,
    r#""batch_size": 0"#,
    r#""batch_size": "auto""#,
    r#""batch_size": "nonsense""#,
    r#""shape": "(1,2)""#,
    r#""shape": {"a": "auto"}"#,
    r#""shape": "nonsense refuses the entry, not the file""#,
    r#""layout": "NCHW""#,
    r#""layout": {"a": "NHWC:NCHW"}"#,
    r#""mean": 1.5, "scale": -2"#,
    r#""mean": [1, 2.5], "scale": "(1,2)""#,
    r#""mean": "nonsense refuses the entry, not the file""#,
    r#""color_format": "RGB:BGR", "precision": "fp32:uint8""#,
    r#""cache_dir": "c""#,
    r#""model_version_policy": {"all": {}}"#,
    r#""model_version_policy": {"latest": {}}"#,
    r#""model_version_policy": {"latest": {"num_versions": 2}}"#,
    r#""model_version_policy": {"specific": {"versions": []}}"#,
    r#""model_version_policy": {"specific": {"versions": [1, 9223372036854775807]}}"#,
    r#""nireq": 0"#,
    r#""nireq": 4294967295"#,
    r#""dynamic_batching": "off""#,
    r#""dynamic_batching": "auto""#,
    r#""dynamic_batching": {"max_batch": 2}"#,
    r#""dynamic_batching": {"max_batch": 1024, "max_delay_us": 1000000}"#,
    r#""dynamic_batching": {"max_batch": "auto", "max_bytes": 0}"#,
    r#""dynamic_batching": {"max_batch": 8, "max_bytes": "512M"}"#,
    r#""target_device": "GPU""#,
    r#""plugin_config": {}"#,
    r#""plugin_config": {"a": "b", "c": true, "d": 1, "e": 1.5}"#,
    r#""stateful": true"#,
    r#""idle_sequence_cleanup": true"#,
    r#""low_latency_transformation": false"#,
    r#""state_mode": "tensors""#,
    r#""state_mode": "requests""#,
    r#""sequence_batch": 1"#,
    r#""max_sequence_number": 4294967296"#,
    r#""allow_cache": true"#,
    r#""custom_loader_options": {"loader_name": "l", "x": "y"}"#,
    r#""graph_path": "g", "subconfig": "s""#,
    r#""warmup": {}"#,
    r#""warmup": []"#,
    r#""warmup": {"count": 1000000, "data": "zeros", "dynamic_length": 1}"#,
    r#""warmup": [{"data": "random"}, {"data": {"a": "a.npy"}}, {"data": {}}]"#,
];

const MODEL_INVALID: &[&str] = &[
    r#""base_path": 1"#,
    r#""base_path": null"#,
    r#""batch_size": -1"#,
    r#""batch_size": 1.5"#,
    r#""batch_size": true"#,
    r#""shape": [1, 2]"#,
    r#""shape": {"a": [1, 2]}"#,
    r#""layout": 1"#,
    r#""layout": {"a": 1}"#,
    r#""mean": true"#,
    r#""scale": ["1"]"#,
    r#""color_format": 1"#,
    r#""precision": ["fp32"]"#,
    r#""cache_dir": 1"#,
    r#""model_version_policy": "all""#,
    r#""model_version_policy": {}"#,
    r#""model_version_policy": {"newest": {}}"#,
    r#""model_version_policy": {"all": {}, "latest": {}}"#,
    r#""model_version_policy": {"all": {"x": 1}}"#,
    r#""model_version_policy": {"latest": {"num_versions": 0}}"#,
    r#""model_version_policy": {"latest": {"n": 1}}"#,
    r#""model_version_policy": {"specific": {}}"#,
    r#""model_version_policy": {"specific": {"versions": [0]}}"#,
    r#""model_version_policy": {"specific": {"versions": [1, "2"]}}"#,
    r#""nireq": -1"#,
    r#""nireq": "1""#,
    r#""dynamic_batching": "on""#,
    r#""dynamic_batching": 8"#,
    r#""dynamic_batching": {}"#,
    r#""dynamic_batching": {"max_batch": 1}"#,
    r#""dynamic_batching": {"max_batch": 1025}"#,
    r#""dynamic_batching": {"max_batch": 8, "max_delay_us": -1}"#,
    r#""dynamic_batching": {"max_batch": 8, "delay": 1}"#,
    r#""dynamic_batching": {"max_batch": "off"}"#,
    r#""dynamic_batching": {"max_batch": "auto", "max_delay_us": 1}"#,
    r#""dynamic_batching": {"max_batch": 8, "max_bytes": -1}"#,
    r#""dynamic_batching": {"max_batch": 8, "max_bytes": "1X"}"#,
    r#""dynamic_batching": {"max_batch": 8, "max_bytes": true}"#,
    r#""dynamic_batching": {"max_bytes": 1}"#,
    r#""target_device": 1"#,
    r#""plugin_config": []"#,
    r#""plugin_config": {"a": {}}"#,
    r#""plugin_config": {"a": null}"#,
    r#""stateful": "yes""#,
    r#""idle_sequence_cleanup": 1"#,
    r#""low_latency_transformation": null"#,
    r#""state_mode": "files""#,
    r#""state_mode": 1"#,
    r#""sequence_batch": 0"#,
    r#""max_sequence_number": -1"#,
    r#""max_sequence_number": "1""#,
    r#""allow_cache": 1"#,
    r#""custom_loader_options": {}"#,
    r#""custom_loader_options": {"loader_name": "l", "x": 1}"#,
    r#""graph_path": 1"#,
    r#""subconfig": 1"#,
    r#""warmup": 1"#,
    r#""warmup": {"count": 0}"#,
    r#""warmup": {"count": 1000001}"#,
    r#""warmup": {"data": "ones"}"#,
    r#""warmup": {"data": {"a": ""}}"#,
    r#""warmup": {"data": {"a": 1}}"#,
    r#""warmup": [{"dynamic_length": 0}]"#,
    r#""warmup": {"times": 1}"#,
    r#""unknown": 1"#,
];

/// Valid contents of a file beside its models.
const ROOT_VALID: &[&str] = &[
    r#""$schema": "config.schema.json""#,
    r#""pipeline_config_list": []"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": []}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": ["a"], "nodes": [
        {"name": "n", "type": "DL model", "model_name": "m", "version": 1, "demultiply_count": -1,
         "inputs": [{"a": {"node_name": "request", "data_item": "a"}}],
         "outputs": [{"data_item": "b", "alias": "c"}]},
        {"name": "o", "type": "custom", "library_name": "l", "params": {"x": "y"},
         "gather_from_node": "n", "inputs": [], "outputs": []}],
      "outputs": [{"o": {"node_name": "n", "data_item": "c"}}], "demultiply_count": 10000}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "empty_results": "allow"}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "empty_results": "abort"}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "custom", "library_name": "l", "outputs": [], "inputs": [
            {"a": {"node_name": "request", "data_item": "a", "convert": true}}]}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "python_workers": 256,
        "python_environment": "e", "python_timeout_ms": 0, "python_memory_limit": 1073741824}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_workers": 1, "python_environment": "",
        "python_timeout_ms": 1, "python_memory_limit": 0}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_memory_limit": "2G"}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_memory_limit": "1048576"}]"#,
    r#""custom_node_library_config_list": [{"name": "l", "base_path": "l.so"}]"#,
    r#""mediapipe_config_list": [{"name": "g"}]"#,
    r#""mediapipe_config_list": [{"name": "g", "base_path": "", "graph_path": "", "subconfig": ""}]"#,
    r#""custom_loader_config_list": [{"config": {"loader_name": "l", "library_path": "l.so"}}]"#,
    r#""monitoring": {"metrics": {"enable": false}}"#,
    r#""monitoring": {"metrics": {"enable": true, "metrics_list": ["a"]}}"#,
];

const ROOT_INVALID: &[&str] = &[
    r#""$schema": 1"#,
    r#""custom_loader_config_list": [{"$schema": "s", "config": {"loader_name": "l", "library_path": "l"}}]"#,
    r#""unknown": 1"#,
    r#""pipeline_config_list": {}"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": []}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [1], "nodes": [], "outputs": []}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [{}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "demultiply_count": 10001}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "demultiply_count": -2}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "other", "model_name": "m", "inputs": [], "outputs": []}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "DL model", "inputs": [], "outputs": []}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "DL model", "model_name": "m", "library_name": "l", "inputs": [], "outputs": []}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "custom", "model_name": "m", "inputs": [], "outputs": []}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "DL model", "model_name": "m", "version": 0, "inputs": [], "outputs": []}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "DL model", "model_name": "m", "inputs": [], "outputs": [{"data_item": "x"}]}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "DL model", "model_name": "m", "outputs": [], "inputs": [
            {"a": {"node_name": "n", "data_item": "x"}, "b": {"node_name": "n", "data_item": "x"}}]}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "custom", "library_name": "l", "params": {"x": 1}, "inputs": [], "outputs": []}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "empty_results": "keep"}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "empty_results": true}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "custom", "library_name": "l", "inputs": [], "outputs": [], "empty_results": "allow"}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "outputs": [], "nodes": [
        {"name": "n", "type": "custom", "library_name": "l", "outputs": [], "inputs": [
            {"a": {"node_name": "request", "data_item": "a", "convert": "true"}}]}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": ["a"], "nodes": [],
        "outputs": [{"o": {"node_name": "request", "data_item": "a", "convert": true}}]}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "python_workers": 257}]"#,
    r#""pipeline_config_list": [{"name": "p", "inputs": [], "nodes": [], "outputs": [], "python_timeout_ms": -1}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_workers": 0}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_memory_limit": "1X"}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_memory_limit": -1}]"#,
    r#""mediapipe_config_list": [{"name": "g", "python_memory_limit": true}]"#,
    r#""custom_node_library_config_list": [{"name": "l"}]"#,
    r#""custom_node_library_config_list": [{"name": "l", "base_path": "x", "y": 1}]"#,
    r#""mediapipe_config_list": [{}]"#,
    r#""mediapipe_config_list": [{"name": "g", "x": 1}]"#,
    r#""custom_loader_config_list": [{"loader_name": "l"}]"#,
    r#""custom_loader_config_list": [{"config": {"loader_name": "l"}}]"#,
    r#""monitoring": {}"#,
    r#""monitoring": {"metrics": {}}"#,
    r#""monitoring": {"metrics": {"enable": 1}}"#,
    r#""monitoring": {"metrics": {"enable": true, "metrics_list": [1]}}"#,
    r#""monitoring": {"metrics": {"enable": true}, "x": 1}"#,
];

const WHOLE_INVALID: &[&str] = &[
    "[]",
    "1",
    "null",
    "{}",
    r#"{"model_config_list": {}}"#,
    r#"{"model_config_list": [1]}"#,
    r#"{"model_config_list": [{}]}"#,
    r#"{"model_config_list": [{"config": {}}]}"#,
    r#"{"model_config_list": [{"config": {"name": ""}}]}"#,
    r#"{"model_config_list": [{"config": {"name": 1}}]}"#,
    r#"{"model_config_list": [{"config": {"name": "m"}, "x": 1}]}"#,
];

#[test]
fn schema_and_parser_agree_on_every_key() {
    let path = Path::new(env!("WORKSPACE_ROOT")).join("docs/config.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let draft = &schema["$schema"];
    assert_eq!(draft, "https://json-schema.org/draft/2020-12/schema");
    let schema = jsonschema::validator_for(&schema).unwrap();

    let model = |fields: &&str| {
        format!(r#"{{"model_config_list": [{{"config": {{"name": "m", {fields}}}}}]}}"#)
    };
    let root = |fields: &&str| format!(r#"{{"model_config_list": [], {fields}}}"#);
    let valid = MODEL_VALID
        .iter()
        .map(model)
        .chain(ROOT_VALID.iter().map(root));
    let invalid = MODEL_INVALID
        .iter()
        .map(model)
        .chain(ROOT_INVALID.iter().map(root))
        .chain(WHOLE_INVALID.iter().map(|&text| text.to_owned()));
    let cases = valid
        .map(|text| (text, true))
        .chain(invalid.map(|text| (text, false)));
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let by_schema = schema.is_valid(&serde_json::from_str(&text).unwrap());
        let path = Path::new("/models/config.json");
        let by_parser = parse(text.as_bytes(), path, &Defaults::default()).is_ok();
        if (by_schema, by_parser) != (expected, expected) {
            wrong.push(format!(
                "expected {expected}, schema {by_schema}, parser {by_parser}: {text}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // An error of its entry alone.
    let text = model(&r#""nireq": 4294967296"#);
    assert!(!schema.is_valid(&serde_json::from_str(&text).unwrap()));
    let path = Path::new("/models/config.json");
    assert!(parse(text.as_bytes(), path, &Defaults::default()).is_ok());
}
