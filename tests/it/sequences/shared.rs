//! The server that most tests of this folder share. Each has a model of its own there if it counts sequences, fills
//! a model, or leaves ids to the server.

use std::{fs, sync::LazyLock};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::state_modes::FIXTURES;
use crate::support::{
    Server, busy, model, repository,
    sequence::{Client, entry, serve_file, write},
};

/// Models of running totals without further settings, by the test that has them.
const TOTALS: &str = "chosen closed ctrl_c_ends ctrl_c_leaves ctrl_c_shows errors_ids errors_rules keys listed \
    no_input params params_json params_listed params_other params_start saved_unwritten";

static SHARED: LazyLock<Server> = LazyLock::new(|| {
    let folder = repository::folder();
    let mut models: Vec<Value> = FIXTURES.iter().map(|it| entry(it.0, it.0)).collect();
    models.extend(
        TOTALS
            .split_whitespace()
            .map(|name| entry(name, "running_total")),
    );
    let most = |count: u32| json!({"max_sequence_number": count});
    let nireq = |count: u32| json!({"nireq": count});
    let requests = || json!({"state_mode": "requests"});
    let unrolled = |shape: &str| json!({"low_latency_transformation": true, "shape": shape});
    let versions = folder.path().join("versions");
    for version in ["1", "2"] {
        repository::copy(&model("running_total").join("1"), &versions.join(version));
    }
    let twice = folder.path().join("twice");
    read_twice(&twice);
    let settings = [
        ("counted", "running_total", most(2)),
        ("errors_bad", "running_total", most(1)),
        ("errors_full", "running_total", most(8)),
        ("fails_one", "running_fail", nireq(1)),
        (
            "in_flight",
            "running_busy",
            json!({"plugin_config": busy::PLUGIN_CONFIG.parse::<Value>().unwrap()}),
        ),
        ("last", "running_last", nireq(1)),
        ("listed_requests", "running_total", requests()),
        (
            "listed_versions",
            "running_total",
            json!({"base_path": versions, "model_version_policy": {"all": {}}}),
        ),
        ("lstm_ti", "lstm_ti", unrolled("(1,1,8)")),
        ("order_one", "running_total", nireq(1)),
        ("order_two", "running_total", nireq(2)),
        ("params_once", "running_total", most(1)),
        ("rules", "running_total", most(2)),
        ("rules_requests", "running_total", requests()),
        ("saved_between", "running_total", most(1000)),
        ("saved_requests", "running_total", requests()),
        ("twice", "running_from", json!({"base_path": twice})),
        ("unrolled", "running_loop", unrolled("(1,1,4)")),
        ("vad_one", "vad_stateful", nireq(1)),
        ("vad_two", "vad_stateful", nireq(2)),
    ];
    models.extend(settings.map(|(name, fixture, settings)| with(entry(name, fixture), settings)));
    serve_kept(folder, &models, &["--metrics_enable"])
});

/// Makes a model that reads its variable twice, of which the runtime makes nothing.
fn read_twice(root: &std::path::Path) {
    repository::copy(&model("running_from").join("1"), &root.join("1"));
    let file = repository::graph(root);
    let text = fs::read_to_string(&file).unwrap();
    let begin = text.find("<layer id=\"2\"").unwrap();
    let end = begin + text[begin..].find("</layer>").unwrap() + "</layer>".len();
    let again = text[begin..end].replace("id=\"2\"", "id=\"99\"");
    fs::write(&file, format!("{}{again}{}", &text[..end], &text[end..])).unwrap();
}

/// Sets the keys of an entry.
pub(super) fn with(mut entry: Value, settings: Value) -> Value {
    let Value::Object(settings) = settings else {
        panic!("{settings}");
    };
    for (key, value) in settings {
        entry[key] = value;
    }
    entry
}

/// Serves models until this process ends, with a folder that has the configuration file too.
pub(super) fn serve_kept(folder: TempDir, models: &[Value], flags: &[&str]) -> Server {
    let path = folder.path().join("config.json");
    write(&path, models);
    serve_file(&path, flags).kept(Some(folder))
}

pub(super) fn server() -> &'static Server {
    &SHARED
}

/// Returns clients of the server.
pub(super) fn connect() -> Client<'static> {
    Client::connect(&SHARED)
}

/// Returns the line about a model that contains a text, which a server has written until it was ready.
pub(super) fn line(server: &Server, model: &str, text: &str) -> String {
    let mut lines = server.log_of(model).into_iter();
    let found = lines.find(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("`{text}` of {model}:\n{}", server.log()))
}
