//! The OpenAPI document of servables whose names come close to one another. That it is valid, and of use to
//! generators, is in `tests/clients/test_openapi.py`.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::support::{Server, http::get, repository};

/// Returns the texts, none of which may be there twice.
fn distinct<'a>(texts: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for text in texts {
        let text = text.as_str().unwrap();
        assert!(found.insert(text), "{text} is there twice");
    }
    found
}

#[test]
fn names_that_come_close_have_tags_ids_and_schemas_of_their_own() {
    let root = repository::of(&[("1", "dummy"), ("2", "dummy")]);
    let path = root.path().to_str().unwrap();
    // The keys of `-a` and `_a` are `_a` and `_a_2`, and the first of these names is the key of a version of the latter.
    let names = ["-a_2_v1", "-a", "_a", "server", "stream_x", "x"];
    let models = names.map(|name| {
        let policy = match name {
            "_a" => json!({"all": {}}),
            _ => json!({"latest": {"num_versions": 1}}),
        };
        json!({"config": {"name": name, "base_path": path, "model_version_policy": policy}})
    });
    let folder = repository::folder();
    let file = folder.path().join("config.json");
    fs::write(&file, json!({"model_config_list": models}).to_string()).unwrap();
    let server = Server::of_file(&file, &[]);
    server.wait_ready();
    let document = get(&server, "/openapi.json").json();

    let tags = document["tags"].as_array().unwrap();
    let tags = distinct(tags.iter().map(|tag| &tag["name"]));
    let mut expected: BTreeSet<&str> = names.into();
    expected.insert("server_2");
    assert_eq!(tags, expected);
    let operations = || {
        let paths = document["paths"].as_object().unwrap().iter();
        paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().values();
            methods.map(move |operation| (path.as_str(), operation))
        })
    };
    let ids = distinct(operations().map(|(_, operation)| &operation["operationId"]));
    assert!(ids.contains("generate_stream_stream_x"), "{ids:?}");
    let inferences = || operations().filter(|(path, _)| path.ends_with("/infer"));
    let body = "/requestBody/content/application~1json/schema/$ref";
    let schemas = distinct(inferences().filter_map(|(_, operation)| operation.pointer(body)));
    assert_eq!((schemas.len(), inferences().count()), (8, 8));
    for (path, operation) in operations() {
        let is_of_server = operation["tags"] == json!(["server_2"]);
        let is_of_model = path.contains("/models/") && path != "/v2/models/stats";
        assert_eq!(is_of_server, !is_of_model, "{path}");
        // An inference may fail in more ways.
        let takes_body = operation.get("requestBody").is_some();
        let may_conflict = operation["responses"].get("409").is_some();
        assert_eq!(may_conflict, is_of_model && takes_body, "{path}");
    }
}
