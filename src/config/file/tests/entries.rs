//! Entries refused by themselves, and names used by two entries.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use super::{
    super::{Connection, Defaults, ModelEntry, NodeKind, parse},
    one, read, refused,
};

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
        r#""state_mode": "requests""#,
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
    model_config_list[0].config.state_mode: Stateful model config parameter used for non stateful model - state_mode
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
            ModelEntry::Refused(refused) => format!("{}: {}", refused.place, refused.reason),
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
fn a_base_path_below_a_folder_that_is_not_utf_8_is_refused() {
    let text = r#"{"model_config_list": [
        {"config": {"name": "a", "base_path": "a"}}, {"config": {"name": "b", "base_path": "/b"}}],
        "mediapipe_config_list": [{"name": "c"}]}"#;
    let path = Path::new(OsStr::from_bytes(b"/m/\xff/config.json"));
    let config = parse(text.as_bytes(), path, &Defaults::default()).unwrap();
    let [ModelEntry::Refused(refused), ModelEntry::Model(absolute)] = &config.models[..] else {
        panic!("{:?}", config.models);
    };
    insta::assert_snapshot!(refused.reason, @r#"base_path is relative to the folder of the file, which is not UTF-8 - "/m/\xFF"; rename the folder"#);
    assert_eq!(absolute.base_path, "/b");
    assert_eq!(config.graphs[0].base_path, path.with_file_name("c"));
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
    // What only models have is ignored, also where it makes no sense.
    let strange = format!(r#"{fields}, "shape": "[]", "nireq": 2"#);
    assert_eq!(graph(&strange), ["", "graph.pbtxt", "subconfig.json"]);
}

#[test]
fn a_graph_file_of_a_model_that_is_not_there_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().display().to_string();
    let warnings = |fields: &str| {
        let text = format!(r#"{{"model_config_list": [{{"config": {{"name": "m", {fields}}}}}]}}"#);
        let config = parse(
            text.as_bytes(),
            &folder.path().join("config.json"),
            &Defaults::default(),
        );
        let warnings = config.unwrap().warnings;
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        warnings.join("\n").replace(&base, "FOLDER")
    };
    let typo = r#""base_path": "g", "graph_path": "grph.pbtxt""#;
    insta::assert_snapshot!(warnings(typo), @"1:81 model_config_list[0].config.graph_path: there is no graph file FOLDER/g/grph.pbtxt; the entry is taken for that of a model");
    std::fs::create_dir_all(folder.path().join("m")).unwrap();
    std::fs::create_dir_all(folder.path().join("g/1")).unwrap();
    for name in ["1/graph.pbtxt", "config.pbtxt"] {
        std::fs::write(folder.path().join("g").join(name), "").unwrap();
    }
    insta::assert_snapshot!(warnings(typo), @"1:81 model_config_list[0].config.graph_path: there is no graph file FOLDER/g/grph.pbtxt; FOLDER/g/1/graph.pbtxt is served");
    for name in ["g/a.pbtxt", "g/graph.pbtxt", "m/graph.pbtxt"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    insta::assert_snapshot!(warnings(typo), @"1:81 model_config_list[0].config.graph_path: there is no graph file FOLDER/g/grph.pbtxt; did you mean `graph.pbtxt`?");
    insta::assert_snapshot!(warnings(r#""base_path": "g", "graph_path": "z""#), @"1:81 model_config_list[0].config.graph_path: there is no graph file FOLDER/g/z; did you mean `a.pbtxt`?");
    insta::assert_snapshot!(warnings(r#""graph_path": "gaph.pbtxt""#), @"1:63 model_config_list[0].config.graph_path: there is no graph file FOLDER/m/gaph.pbtxt; did you mean `graph.pbtxt`?");
    // What is there, and nothing, are no mistakes.
    for given in ["graph.pbtxt", "a.pbtxt", ""] {
        let fields = format!(r#""base_path": "g", "graph_path": "{given}""#);
        assert_eq!(warnings(&fields), "");
    }
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
    let warnings = config.warnings.iter().map(|it| it.message.to_string());
    let warnings: Vec<String> = warnings.collect();
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
fn of_several_libraries_with_one_name_the_last_counts() {
    let text = r#"{"model_config_list": [], "custom_node_library_config_list": [
        {"name": "a", "base_path": "1.so"},
        {"name": "b", "base_path": "2.so"},
        {"name": "a", "base_path": "3.so"},
        {"name": "a", "base_path": "4.so"}]}"#;
    let config = read(text).unwrap();
    let libraries = config.custom_node_libraries.iter();
    let libraries: Vec<String> = libraries
        .zip(&config.library_places)
        .map(|(it, place)| format!("{}: {} at {place}", it.name, it.base_path.display()))
        .collect();
    insta::assert_snapshot!(libraries.join("\n"), @"
    a: /models/4.so at 5:36 custom_node_library_config_list[3].base_path
    b: /models/2.so at 3:36 custom_node_library_config_list[1].base_path
    ");
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"4:9 custom_node_library_config_list[2]: the library `a` is listed more than once; the last one is used");
}

#[test]
fn of_a_key_that_is_given_twice_the_last_value_counts() {
    let config = read(
        r#"{"model_config_list": [{}], "model_config_list": [
    {"config": {"name": "m", "nireq": "none", "nireq": 2,
                "shape": {"x": "(1)", "x": "(2)", "y": "(3)"},
                "layout": {"x": "N", "x": "C"},
                "plugin_config": {"A": [], "A": "2"},
                "model_version_policy": {"all": {"a": 1}, "all": {}}}}],
    "pipeline_config_list": [{"name": "p", "inputs": ["i"], "inputs": ["j"], "outputs": [], "nodes": [
        {"name": "n", "type": "custom", "library_name": "l", "params": {"a": "1", "a": "2"}, "inputs": [
            {"i": 1, "i": {"node_name": "request", "data_item": "i"}}], "outputs": []}]}]}"#,
    )
    .unwrap();
    let [ModelEntry::Model(model)] = &config.models[..] else {
        panic!("{:?}", config.models);
    };
    assert_eq!(model.load.nireq, 2);
    assert!(model.load.properties.contains(&("A".into(), "2".into())));
    insta::assert_snapshot!(format!("{:?}", model.load.shapes), @r#"Named([("x", Dims(PartialShape([Fixed(2)]))), ("y", Dims(PartialShape([Fixed(3)])))])"#);
    let pipeline = &config.pipelines[0];
    assert_eq!(pipeline.inputs, ["j"]);
    insta::assert_snapshot!(format!("{:?}", pipeline.nodes[0].kind), @r#"Custom { library_name: "l", params: [("a", "2")] }"#);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    1:29 model_config_list: the key `model_config_list` is here again; its last value counts
    2:47 model_config_list[0].config.nireq: the key `nireq` is here again; its last value counts
    3:39 model_config_list[0].config.shape.x: the key `x` is here again; its last value counts
    4:38 model_config_list[0].config.layout.x: the key `x` is here again; its last value counts
    5:44 model_config_list[0].config.plugin_config.A: the key `A` is here again; its last value counts
    6:59 model_config_list[0].config.model_version_policy.all: the key `all` is here again; its last value counts
    7:61 pipeline_config_list[0].inputs: the key `inputs` is here again; its last value counts
    8:83 pipeline_config_list[0].nodes[0].params.a: the key `a` is here again; its last value counts
    9:22 pipeline_config_list[0].nodes[0].inputs[0].i: the key `i` is here again; its last value counts
    ");
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
    let monitoring = config.monitoring.unwrap();
    assert!(monitoring.enable);
    assert_eq!(monitoring.families.unwrap(), ["ovms_streams"]);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(warnings.join("\n"), @"
    10:37 pipeline_config_list[0].demultiply_count: a demultiply_count of 0 is read as -1, which is how it is written now
    46:13 custom_loader_config_list[0]: the custom loader `l` is not opened: this release has no custom loaders
    ");
}
