//! What files may hold, and what is said of those that hold something else.

mod pipelines;

use std::{path::Path, time::Duration};

use proptest::prelude::*;

use super::{Connection, Defaults, EntryFault, FileConfig, FileError, ModelEntry, NodeKind, parse};
use crate::{
    config::{ModelConfig, StatefulConfig, VersionPolicy, WarmupData},
    openvino::{BatchOption, PerTensor, ShapeOption},
    tensor::{Dim, images::PixelLimit},
};

fn read(text: &str) -> Result<FileConfig, FileError> {
    let defaults = Defaults {
        most_graph_runs: 1,
        graph_load: std::time::Duration::ZERO,
        hide_python_errors: false,
        most_waiting: 7,
        most_custom_runs: 5,
        custom_load: std::time::Duration::from_secs(3),
        most_image_pixels: PixelLimit(9),
        cache_dir: Some("/cache".into()),
        cpu_extension: Some("/ext.so".into()),
    };
    parse(text.as_bytes(), Path::new("/models/config.json"), &defaults)
}

/// Returns every fault of a text, one a line.
fn faults(text: &str) -> String {
    faults_of(text.as_bytes())
}

fn faults_of(content: &[u8]) -> String {
    let path = Path::new("/models/config.json");
    let error = parse(content, path, &Defaults::default()).unwrap_err();
    let lines = error.faults().iter().map(|fault| format!("{fault}\n"));
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
        ModelEntry::Refused { reason, .. } => panic!("{reason}"),
    }
}

fn refused(fields: &str) -> (EntryFault, String) {
    match one(fields) {
        ModelEntry::Model(model) => panic!("{model:?}"),
        ModelEntry::Refused { reason, place, .. } => (reason, place.path),
    }
}

#[test]
fn every_field_of_a_model_is_read() {
    let model = model(
        r#""base_path": "sub/m", "batch_size": 0, "shape": {"a": "(1:8,3)", "b": "(-1)"},
           "layout": {"a": "NC"}, "model_version_policy": {"specific": {"versions": [1, 3]}},
           "nireq": 4, "target_device": "AUTO", "allow_cache": true,
           "plugin_config": {"NUM_STREAMS": 2, "A": true, "B": 1.5, "C": "x"},
           "stateful": true, "idle_sequence_cleanup": false, "low_latency_transformation": true,
           "max_sequence_number": 4294967295,
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
    let load = &model.load;
    assert_eq!((load.nireq, load.device.as_str()), (4, "AUTO"));
    assert_eq!(load.most_waiting, 7);
    assert_eq!(load.most_image_pixels, PixelLimit(9));
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
    2:48 model_config_list[0].config.batch_size: batch_size is left out of account, since shape is set
    3:48 model_config_list[1].config.batch_size: batch_size is left out of account: found `many`; expected a number, -1, auto or a range such as 1:8
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

#[test]
fn an_entry_is_refused_by_itself_with_its_place() {
    let shown = |fields| {
        let (reason, path) = refused(fields);
        format!("{path}: {reason}")
    };
    let list = [
        r#""shape": "[1,2]""#,
        r#""shape": {"a": "(1)", "b": "(1"}"#,
        r#""layout": "NCX""#,
        r#""layout": {"a": "NC:"}"#,
        r#""max_sequence_number": 500"#,
        r#""stateful": false, "idle_sequence_cleanup": true"#,
        r#""low_latency_transformation": false"#,
        r#""stateful": true, "max_sequence_number": 4294967296"#,
        r#""stateful": true, "shape": "auto""#,
        r#""stateful": true, "batch_size": "auto""#,
        r#""allow_cache": true, "custom_loader_options": {"loader_name": "x"}"#,
        r#""custom_loader_options": {"loader_name": "x", "any": "thing"}"#,
    ];
    let list: Vec<String> = list.map(shown).into();
    insta::assert_snapshot!(list.join("\n"), @"
    model_config_list[0].config.shape: The provided shape is in wrong format - found `[1,2]`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
    model_config_list[0].config.shape.b: The provided shape is in wrong format - found `(1`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
    model_config_list[0].config.layout: The provided layout is in wrong format - found `NCX`; expected letters N, C, H, W, D (each once), `?`, and `...` (once)
    model_config_list[0].config.layout.a: The provided layout is in wrong format - found `NC:`; expected letters N, C, H, W, D (each once), `?`, and `...` (once)
    model_config_list[0].config.max_sequence_number: Stateful model config parameter used for non stateful model - max_sequence_number
    model_config_list[0].config.idle_sequence_cleanup: Stateful model config parameter used for non stateful model - idle_sequence_cleanup
    model_config_list[0].config.low_latency_transformation: Stateful model config parameter used for non stateful model - low_latency_transformation
    model_config_list[0].config.max_sequence_number: Sequence max number parameter too high - 4294967296; at most 4294967295
    model_config_list[0].config: Dynamic shape and dynamic batch size are not supported for stateful models
    model_config_list[0].config: Dynamic shape and dynamic batch size are not supported for stateful models
    model_config_list[0].config.custom_loader_options: allow_cache is set to true with custom loader usage
    model_config_list[0].config.custom_loader_options: models of custom loaders are not served by this release
    ");
    // The others are served.
    let text = r#"{"model_config_list": [
        {"config": {"name": "a"}}, {"config": {"name": "a"}}, {"config": {"name": "b"}}],
        "pipeline_config_list": [
            {"name": "b", "inputs": [], "nodes": [], "outputs": []},
            {"name": "c", "inputs": [], "nodes": [], "outputs": []}],
        "mediapipe_config_list": [{"name": "c"}, {"name": "d"}]}"#;
    let config = read(text).unwrap();
    let models: Vec<String> = config
        .models
        .iter()
        .map(|entry| match entry {
            ModelEntry::Model(model) => model.name.clone(),
            ModelEntry::Refused { reason, place, .. } => format!("{place}: {reason}"),
        })
        .collect();
    let refused: Vec<String> = config
        .refused
        .iter()
        .map(|entry| format!("{} {}: {}", entry.name, entry.place, entry.reason))
        .collect();
    insta::assert_snapshot!([models, refused].concat().join("\n"), @"
    a
    2:56 model_config_list[1].config.name: Given model name is already occupied
    b
    b 4:13 pipeline_config_list[0]: Pipeline has the same name as model
    c 6:35 mediapipe_config_list[0]: Given mediapipe graph name is already occupied
    ");
    assert_eq!((config.pipelines.len(), config.graphs.len()), (1, 1));
    assert_eq!(config.graphs[0].base_path, Path::new("/models/d"));
    assert_eq!(
        config.graphs[0].graph_path,
        Path::new("/models/d/graph.pbtxt")
    );
}

#[test]
fn a_folder_with_a_graph_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().display();
    let fields = format!(r#""base_path": "{base}""#);
    let graph = |fields: &str| {
        let text = format!(r#"{{"model_config_list": [{{"config": {{"name": "m", {fields}}}}}]}}"#);
        let mut config = read(&text).unwrap();
        assert!(config.models.is_empty(), "{:?}", config.models);
        let graph = config.graphs.remove(0);
        let below = |path: &Path| {
            path.strip_prefix(folder.path())
                .unwrap()
                .display()
                .to_string()
        };
        [
            below(&graph.base_path),
            below(&graph.graph_path),
            below(&graph.subconfig),
        ]
    };
    assert!(matches!(one(&fields), ModelEntry::Model(_)));
    let one_below = folder.path().join("1");
    std::fs::create_dir(&one_below).unwrap();
    std::fs::write(one_below.join("graph.pbtxt"), "").unwrap();
    assert_eq!(graph(&fields), ["1", "1/graph.pbtxt", "1/subconfig.json"]);
    std::fs::write(one_below.join("config.json"), "").unwrap();
    assert_eq!(graph(&fields), ["1", "1/graph.pbtxt", "1/config.json"]);
    std::fs::write(one_below.join("subconfig.json"), "").unwrap();
    assert_eq!(graph(&fields), ["1", "1/graph.pbtxt", "1/subconfig.json"]);
    std::fs::remove_dir_all(&one_below).unwrap();
    std::fs::write(folder.path().join("mine.pbtxt"), "").unwrap();
    assert!(matches!(one(&fields), ModelEntry::Model(_)));
    let named = format!(r#"{fields}, "graph_path": "mine.pbtxt", "subconfig": "mine.json""#);
    assert_eq!(graph(&named), ["", "mine.pbtxt", "mine.json"]);
    std::fs::write(folder.path().join("graph.pbtxt"), "").unwrap();
    assert_eq!(graph(&fields), ["", "graph.pbtxt", "subconfig.json"]);
    // What only models have is left out of account, also where it makes no sense.
    let strange = format!(r#"{fields}, "shape": "[]", "nireq": 2"#);
    assert_eq!(graph(&strange), ["", "graph.pbtxt", "subconfig.json"]);
}

#[test]
fn graphs_share_the_names_of_models_and_pipelines() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("graph.pbtxt"), "").unwrap();
    let base = folder.path().display();
    let text = format!(
        r#"{{"model_config_list": [{{"config": {{"name": "m"}}}},
        {{"config": {{"name": "g", "base_path": "{base}"}}}},
        {{"config": {{"name": "m", "base_path": "{base}"}}}},
        {{"config": {{"name": "g", "nireq": 1}}}}],
        "mediapipe_config_list": [{{"name": "m"}}, {{"name": "g"}}, {{"name": "h"}}]}}"#
    );
    let config = read(&text).unwrap();
    let graphs: Vec<&str> = config
        .graphs
        .iter()
        .map(|graph| graph.name.as_str())
        .collect();
    assert_eq!(graphs, ["g", "h"]);
    let refused: Vec<String> = config
        .refused
        .iter()
        .map(|entry| format!("{} {}: {}", entry.name, entry.place.path, entry.reason))
        .collect();
    insta::assert_snapshot!(refused.join("\n"), @"
    m model_config_list[2].config: Given mediapipe graph name is already occupied
    m mediapipe_config_list[0]: Given mediapipe graph name is already occupied
    ");
    let models = config.models.iter();
    assert_eq!(
        models
            .filter(|entry| matches!(entry, ModelEntry::Model(_)))
            .count(),
        1
    );
    let warnings: Vec<&str> = config.warnings.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(
        warnings,
        ["Duplicated mediapipe names: g defined in config file. Only first graph will be loaded."]
    );
}

#[test]
fn of_two_pipelines_with_one_name_the_first_counts() {
    let config = read(
        r#"{"model_config_list": [], "pipeline_config_list": [
        {"name": "p", "inputs": ["first"], "nodes": [], "outputs": []},
        {"name": "p", "inputs": ["second"], "nodes": [], "outputs": []}]}"#,
    )
    .unwrap();
    assert_eq!(config.pipelines.len(), 1);
    assert_eq!(config.pipelines[0].inputs, ["first"]);
    assert!(config.refused.is_empty());
    let warning = config.warnings.last().unwrap().to_string();
    assert_eq!(
        warning,
        "3:9 pipeline_config_list[1]: Duplicated pipeline names - `p` is listed above; this one \
         is left out"
    );
}

#[test]
fn pipelines_and_their_like_are_kept_for_later() {
    let config = read(
        r#"{
        "model_config_list": [],
        "custom_node_library_config_list": [
            {"name": "lib", "base_path": "libcustom.so"}
        ],
        "pipeline_config_list": [
            {
                "name": "p",
                "inputs": ["in"],
                "demultiply_count": 0,
                "nodes": [
                    {
                        "name": "first",
                        "model_name": "m",
                        "type": "DL model",
                        "version": 2,
                        "inputs": [
                            {"input": {"node_name": "request",  # reference to pipeline input
                                       "data_item": "in"}}  // input name from the request
                        ],
                        "outputs": [  # mapping the model output name to node output name
                            {"data_item": "out", "alias": "mine"},
                        ]
                    },
                    {
                        "name": "second",
                        "library_name": "lib",
                        "type": "custom",
                        "params": {
                            "param1": "value1",
                            "param2": "value2",
                        },
                        "gather_from_node": "first",
                        "demultiply_count": -1,
                        "inputs": [{"x": {"node_name": "first", "data_item": "mine"}}],
                        "outputs": []
                    }
                ],
                "outputs": [      # pipeline outputs
                    {"label": {"node_name": "second", "data_item": "y"}}
                ]
            }
        ],
        "mediapipe_config_list": [{"name": "g", "base_path": "/g", "graph_path": "a.pbtxt"}],
        "custom_loader_config_list": [
            {"config": {"loader_name": "l", "library_path": "l.so", "loader_config_file": "f"}}
        ],
        "monitoring": {"metrics": {"enable": true, "metrics_list": [" ovms_streams "]}},
    }"#,
    )
    .unwrap();
    let pipeline = &config.pipelines[0];
    assert_eq!(pipeline.demultiply_count, Some(-1), "as 0 is read");
    assert_eq!(
        pipeline.nodes[0].kind,
        NodeKind::Model {
            model_name: "m".to_owned(),
            version: Some(2)
        }
    );
    assert_eq!(
        pipeline.nodes[0].inputs,
        [Connection {
            name: "input".to_owned(),
            node_name: "request".to_owned(),
            data_item: "in".to_owned(),
            convert: false,
            place: pipeline.nodes[0].inputs[0].place.clone(),
        }]
    );
    let places = [
        &pipeline.places.own,
        pipeline.places.of("demultiply_count"),
        pipeline.nodes[1].places.of("gather_from_node"),
        pipeline.nodes[1].places.of("version"),
        &pipeline.nodes[0].inputs[0].place,
        &pipeline.nodes[0].outputs[0].place,
        &pipeline.outputs[0].place,
    ];
    insta::assert_snapshot!(places.map(ToString::to_string).join("\n"), @"
    7:13 pipeline_config_list[0]
    10:37 pipeline_config_list[0].demultiply_count
    33:45 pipeline_config_list[0].nodes[1].gather_from_node
    25:21 pipeline_config_list[0].nodes[1]
    18:29 pipeline_config_list[0].nodes[0].inputs[0]
    22:29 pipeline_config_list[0].nodes[0].outputs[0]
    40:21 pipeline_config_list[0].outputs[0]
    ");
    assert_eq!(pipeline.nodes[1].gather_from_node.as_deref(), Some("first"));
    assert_eq!(pipeline.outputs[0].node_name, "second");
    assert_eq!(
        config.custom_node_libraries[0].base_path,
        Path::new("/models/libcustom.so")
    );
    assert_eq!(config.graphs[0].graph_path, Path::new("/g/a.pbtxt"));
    assert_eq!(config.graphs[0].subconfig, Path::new("/g/subconfig.json"));
    assert_eq!(
        config.custom_loaders[0].library_path,
        Path::new("/models/l.so")
    );
    let monitoring = config.monitoring.unwrap();
    assert!(monitoring.enable);
    assert_eq!(monitoring.families.unwrap(), ["ovms_streams"]);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    10:37 pipeline_config_list[0].demultiply_count: a demultiply_count of 0 is read as -1, which is how it is written now
    46:13 custom_loader_config_list[0]: the custom loader `l` is not opened: this release has no custom loaders
    ");
}

#[test]
fn all_faults_of_a_file_are_told_with_their_places() {
    insta::assert_snapshot!(faults(r#"{
    "model_config_list": [
        {"config": {
            "name": "a",
            "nireq": "4",
            "nriq": 4,
            "batch_size": true,
            "stateful": 1,
            "plugin_config": {"A": {}, "B": null},
            "model_version_policy": {"specific": {"versions": [1, 0, "2"]}},
            "shape": {"x": 1}, "shape": "auto"
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
    5:22 model_config_list[0].config.nireq: found the text "4"; expected a whole number from 0 to 4294967295
    6:13 model_config_list[0].config.nriq: found the unknown key `nriq`; expected one of name, base_path, batch_size, shape, layout, model_version_policy, nireq, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, max_sequence_number, drain_sequences_seconds, allow_cache, custom_loader_options, graph_path, subconfig, warmup (did you mean `nireq`?)
    7:27 model_config_list[0].config.batch_size: found true; expected a whole number from 0, or a text such as auto or 1:8
    8:25 model_config_list[0].config.stateful: found 1; expected true or false
    9:36 model_config_list[0].config.plugin_config.A: found an object; expected a text, a number, true or false
    9:45 model_config_list[0].config.plugin_config.B: found null; expected a text, a number, true or false
    10:67 model_config_list[0].config.model_version_policy.specific.versions[1]: found 0; expected a whole number from 1
    10:70 model_config_list[0].config.model_version_policy.specific.versions[2]: found the text "2"; expected a whole number from 1
    11:28 model_config_list[0].config.shape.x: found 1; expected a text
    11:32 model_config_list[0].config.shape: found the key `shape` again; expected each key once
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
    insta::assert_snapshot!(faults("{}"), @"1:1 model_config_list: found nothing; expected the key `model_config_list`");
    insta::assert_snapshot!(faults("[]"), @"1:1: found a list; expected an object with model_config_list, pipeline_config_list, custom_node_library_config_list, mediapipe_config_list, custom_loader_config_list, monitoring");
    insta::assert_snapshot!(
        faults(r#"{"model_config_list": [{"config": {"name": "m", "nireq": 99999999999999999999999,
            "custom_loader_options": {"a": 1}, "a b": 1}}]}"#),
        @r#"
    1:58 model_config_list[0].config.nireq: found 99999999999999999999999; expected a whole number from 0 to 4294967295
    2:38 model_config_list[0].config.custom_loader_options: found an object; expected an object with the key `loader_name`
    2:44 model_config_list[0].config.custom_loader_options.a: found 1; expected a text
    2:48 model_config_list[0].config["a b"]: found the unknown key `a b`; expected one of name, base_path, batch_size, shape, layout, model_version_policy, nireq, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, max_sequence_number, drain_sequences_seconds, allow_cache, custom_loader_options, graph_path, subconfig, warmup
    "#
    );
}

#[test]
fn what_is_no_json_is_told_with_its_place() {
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
    .map(|text| faults(text))
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
    1:4: found `/* no */` (comments are not allowed); expected JSON
    1:9: found `/` (unexpected token); expected JSON
    1:4: found `,` (unexpected comma); expected JSON
    1:2: found `,` (unexpected comma); expected JSON
    1:65: found lists and objects in one another without end; expected at most 64 in one another
    "#);
    insta::assert_snapshot!(faults_of(b"{\"a\":\n \"\xFF\"}"), @"2:3: found the byte 0xFF; expected text in UTF-8");
    insta::assert_snapshot!(faults_of(b"\xFF\xFE{\0}\0"), @"1:1: found text in UTF-16; expected text in UTF-8");
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
fn very_many_faults_are_counted_but_not_all_told() {
    let text = format!("{{\"model_config_list\": [{}]}}", "1,".repeat(100_000));
    let error = read(&text).unwrap_err();
    assert_eq!(error.faults().len(), 100);
    assert!(error.to_string().starts_with(
        "The file is not valid json - the configuration file /models/config.json has 100000 \
         faults: 1:24 model_config_list[0]: found 1; expected an object with config; "
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
            prop_assert!(!error.faults().is_empty());
        }
        let _ = super::add_model(Some(text.as_bytes()), "a", "/a");
        let _ = super::remove_model(text.as_bytes(), "a");
    }
}
