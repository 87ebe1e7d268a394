//! Contents of files, and the errors reported for invalid ones.

mod edit;
mod entries;
mod errors;
mod pipelines;

use std::{path::Path, sync::Arc, time::Duration};

use super::{Defaults, EntryError, FileConfig, FileError, ModelEntry, parse};
use crate::{
    budget::Budget,
    config::{
        flags::Flags,
        settings::{ModelConfig, StatefulConfig, VersionPolicy, WarmupData},
    },
    openvino::Batching,
    openvino::{BatchOption, PerTensor, Placement, ShapeOption, StateMode},
    tensor::{Dim, images::PixelLimit},
};

fn read(text: &str) -> Result<FileConfig, FileError> {
    let flags = Flags {
        max_queued_requests: 7,
        max_image_pixels: 9,
        cache_dir: Some("/cache".into()),
        cpu_extension: Some("/ext.so".into()),
        recovery_interval_ms: 2000,
        hide_inference_errors: true,
        ..Flags::default()
    };
    let defaults = Defaults {
        flags: Arc::new(flags),
        budget: Budget::new(11),
        batch_budget: Budget::new(7),
        placement: Placement::Measured,
    };
    parse(text.as_bytes(), Path::new("/models/config.json"), &defaults)
}

/// Returns all errors of a text, one a line.
fn errors(text: &str) -> String {
    errors_of(text.as_bytes())
}

fn errors_of(content: &[u8]) -> String {
    let path = Path::new("/models/config.json");
    let error = parse(content, path, &Defaults::default()).unwrap_err();
    let lines = error.errors().iter().map(|failure| format!("{failure}\n"));
    lines.collect()
}

/// Reads a file with one model of these fields beside its name.
fn one(fields: &str) -> ModelEntry {
    let text = format!(r#"{{"model_config_list": [{{"config": {{"name": "m", {fields}}}}}]}}"#);
    read(&text)
        .unwrap_or_else(|error| panic!("{error}"))
        .models
        .remove(0)
}

fn model(fields: &str) -> ModelConfig {
    match one(fields) {
        ModelEntry::Model(model) => *model,
        ModelEntry::Refused(refused) => panic!("{}", refused.reason),
    }
}

fn refused(fields: &str) -> (EntryError, String) {
    match one(fields) {
        ModelEntry::Model(model) => panic!("{model:?}"),
        ModelEntry::Refused(refused) => (refused.reason, refused.place.path),
    }
}

#[test]
fn every_field_of_a_model_is_read() {
    let model = model(
        r#""base_path": "sub/m", "batch_size": 0, "shape": {"a": "(1:8,3)", "b": "(-1)"},
           "layout": {"a": "NC"}, "model_version_policy": {"specific": {"versions": [1, 3]}},
           "nireq": 4, "inference_timeout_ms": 250, "target_device": "AUTO", "allow_cache": true,
           "plugin_config": {"NUM_STREAMS": 2, "A": true, "B": 1.5, "C": "x"},
           "stateful": true, "idle_sequence_cleanup": false, "low_latency_transformation": true,
           "state_mode": "requests", "sequence_batch": 6, "max_sequence_number": 4294967295,
           "drain_sequences_seconds": 30, "graph_path": "", "subconfig": "",
           "warmup": {"count": 3, "data": {"a": "a.npy"}, "dynamic_length": 2}"#,
    );
    assert_eq!(model.base_path, "/models/sub/m");
    assert_eq!(model.policy, VersionPolicy::Specific(vec![1, 3]));
    assert_eq!(
        model.stateful,
        Some(StatefulConfig {
            idle_sequence_cleanup: false,
            low_latency_transformation: true,
            max_sequence_number: u32::MAX,
            drain: Duration::from_secs(30),
        })
    );
    assert!(model.allow_cache);
    assert!(model.load.low_latency);
    assert_eq!(model.load.state_mode, StateMode::Requests);
    let batching = Batching::UpTo {
        rows: 6,
        delay: Duration::ZERO,
    };
    assert_eq!(model.load.batching, batching);
    let load = &model.load;
    assert_eq!((load.nireq, load.device.as_str()), (4, "AUTO"));
    assert_eq!(load.max_waiting, 7);
    assert_eq!(load.inference_timeout, Some(Duration::from_millis(250)));
    assert_eq!(load.recovery_interval, Duration::from_secs(2));
    assert!(load.hide_errors);
    assert_eq!(load.max_image_pixels, PixelLimit(9));
    assert_eq!(load.budget.max(), 11);
    assert_eq!(load.cpu_extension.as_deref(), Some(Path::new("/ext.so")));
    assert_eq!(load.cache_dir.as_deref(), Some(Path::new("/cache")));
    let pairs: Vec<String> = load
        .properties
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(pairs, ["NUM_STREAMS=2", "A=YES", "B=1.5", "C=x"]);
    let PerTensor::Named(shapes) = &load.shapes else {
        panic!("{:?}", load.shapes);
    };
    assert_eq!(shapes.len(), 2);
    let warmup = &model.warmup[0];
    assert_eq!((warmup.count, warmup.dynamic_length), (3, 2));
    assert_eq!(
        warmup.data,
        WarmupData::Files(vec![("a".to_owned(), "/models/a.npy".into())])
    );
}

#[test]
fn more_infer_requests_than_there_can_be_are_an_error_of_the_load() {
    assert_eq!(model(r#""nireq": 5000000000"#).load.nireq, u32::MAX);
}

#[test]
fn what_is_not_said_has_its_default() {
    let model = model(r#""base_path": """#);
    assert_eq!(model.base_path, "/models");
    assert_eq!(model.policy, VersionPolicy::Latest(1));
    assert_eq!((model.stateful, model.warmup), (None, vec![]));
    assert_eq!(model.load.device, "CPU");
    assert_eq!(model.load.shapes, PerTensor::Unset);
    assert!(!model.load.properties.is_empty(), "low latency");
}

#[test]
fn paths_are_relative_to_the_file_and_addresses_stay() {
    for (given, resolved) in [
        ("/abs/m", "/abs/m"),
        ("m", "/models/m"),
        ("./m", "/models/./m"),
        ("s3://bucket/m", "s3://bucket/m"),
        ("gs://b", "gs://b"),
        ("az://b", "az://b"),
        ("azfs://b", "azfs://b"),
    ] {
        assert_eq!(
            model(&format!(r#""base_path": "{given}""#)).base_path,
            resolved
        );
    }
    let through_parent = Path::new("/usr/bin/../config.json");
    let text = br#"{"model_config_list": [{"config": {"name": "m", "base_path": "m"}}]}"#;
    let config = parse(text, through_parent, &Defaults::default()).unwrap();
    let ModelEntry::Model(model) = &config.models[0] else {
        panic!("{config:?}");
    };
    assert_eq!(
        model.base_path, "/usr/m",
        "a path with `..` would be refused later"
    );
}

#[test]
fn shapes_go_before_a_batch_size_and_nonsense_for_one_is_dropped() {
    let sized = model(r#""batch_size": "1:8""#);
    assert_eq!(sized.load.batch, Some(BatchOption::Dim(Dim::Range(1, 8))));
    assert_eq!(model(r#""batch_size": 0"#).load.batch, None);
    let text = r#"{"model_config_list": [
        {"config": {"name": "a", "batch_size": 4, "shape": "auto"}},
        {"config": {"name": "b", "batch_size": "many"}}]}"#;
    let config = read(text).unwrap();
    for entry in &config.models {
        assert!(matches!(entry, ModelEntry::Model(model) if model.load.batch.is_none()));
    }
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    2:48 model_config_list[0].config.batch_size: batch_size is ignored because shape is set
    3:48 model_config_list[1].config.batch_size: batch_size is ignored: found `many`; expected a number, -1, auto or a range such as 1:8
    ");
}

#[test]
fn what_each_request_may_change_is_not_cached_unless_allowed() {
    let cached = |fields| model(fields).load.cache_dir.is_some();
    assert!(cached(r#""shape": "(1,2)""#));
    assert!(!cached(r#""shape": "auto""#));
    assert!(!cached(r#""shape": {"a": "(1)", "b": "auto"}"#));
    assert!(!cached(r#""batch_size": "auto""#));
    assert!(cached(r#""batch_size": "auto", "allow_cache": true"#));
    assert_eq!(
        model(r#""shape": "auto""#).load.shapes,
        PerTensor::Anonymous(ShapeOption::Auto)
    );
}
