//! Reloads of a changed configuration file, by the watcher and on demand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Server, eventually,
    http::{get, post},
    model, repository, thread,
};

/// A private configuration file.
struct File {
    folder: TempDir,
}

impl File {
    fn new(models: &Value) -> Self {
        let file = Self {
            folder: repository::folder(),
        };
        file.write(models);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config.json")
    }

    /// Writes `model_config_list` atomically.
    fn write(&self, models: &Value) {
        let list: Vec<Value> = models
            .as_array()
            .unwrap()
            .iter()
            .map(|config| json!({ "config": config }))
            .collect();
        let next = self.folder.path().join("next.json");
        fs::write(&next, json!({ "model_config_list": list }).to_string()).unwrap();
        fs::rename(next, self.path()).unwrap();
    }

    /// Serves the file without a watcher.
    fn serve(&self) -> Server {
        self.serve_with(&["--file_system_poll_wait_seconds", "0"])
    }

    fn serve_with(&self, flags: &[&str]) -> Server {
        let server = Server::of_file(&self.path(), flags);
        server.wait_ready();
        server
    }
}

fn dummy(name: &str) -> Value {
    entry(name, &model("dummy"))
}

fn entry(name: &str, base_path: &Path) -> Value {
    json!({
        "name": name,
        "base_path": base_path,
        "plugin_config": {"INFERENCE_PRECISION_HINT": "f32"},
    })
}

fn with(mut entry: Value, key: &str, value: Value) -> Value {
    entry[key] = value;
    entry
}

/// Requests a reload; returns the status, and the text of an error.
fn reload(server: &Server) -> String {
    let answer = post(server, "/v1/config/reload", b"");
    if answer.status < 300 {
        answer.status.to_string()
    } else {
        answer.error()
    }
}

/// Returns `name version state code message` of every version.
fn config(server: &Server) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, model) in get(server, "/v1/config").json().as_object().unwrap() {
        for version in model["model_version_status"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            lines.push(format!(
                "{name} {} {} {}",
                text(&version["version"]),
                text(&version["state"]),
                text(&version["status"]["error_code"]),
            ));
        }
    }
    lines
}

fn message(server: &Server, name: &str) -> String {
    let status = get(server, &format!("/v1/models/{name}")).json();
    let message = &status["model_version_status"][0]["status"]["error_message"];
    message.as_str().unwrap().to_owned()
}

fn wait_config(server: &Server, expected: &[&str]) {
    eventually(&format!("{expected:?}"), || {
        (config(server) == expected).then_some(())
    });
}

/// Sends ones of a shape; returns the shape of the response, or the error.
fn ones(server: &Server, name: &str, shape: &[usize]) -> String {
    let count = shape.iter().product();
    let body = json!({"inputs": [
        {"name": "b", "shape": shape, "datatype": "FP32", "data": vec![1.0; count]}
    ]});
    let path = format!("/v2/models/{name}/infer");
    let answer = post(server, &path, body.to_string().as_bytes());
    if answer.status != 200 {
        return answer.error();
    }
    let output = &answer.json()["outputs"][0];
    assert!(
        output["data"]
            .as_array()
            .unwrap()
            .iter()
            .all(|value| *value == json!(2.0))
    );
    output["shape"].to_string()
}

#[test]
fn models_come_change_and_go() {
    let file = File::new(&json!([dummy("first"), dummy("second")]));
    let server = file.serve();
    let both = ["first 1 AVAILABLE OK", "second 1 AVAILABLE OK"];
    assert_eq!(config(&server), both);
    assert_eq!(reload(&server), "200");

    file.write(&json!([dummy("first"), dummy("third")]));
    assert_eq!(config(&server), both, "nobody watches");
    assert_eq!(reload(&server), "201");
    wait_config(
        &server,
        &[
            "first 1 AVAILABLE OK",
            "second 1 END OK",
            "third 1 AVAILABLE OK",
        ],
    );
    assert_eq!(
        ones(&server, "second", &[1, 10]),
        "404: Model with requested version is not found"
    );
    let retired = post(
        &server,
        "/v2/models/second/versions/1/infer",
        b"{\"inputs\":[{\"name\":\"b\",\"shape\":[1,1],\"datatype\":\"FP32\",\"data\":[1]}]}",
    );
    assert_eq!(
        retired.error(),
        "404: Model with requested version is retired"
    );

    file.write(&json!([
        dummy("second"),
        with(dummy("first"), "batch_size", json!(4))
    ]));
    assert_eq!(reload(&server), "201");
    wait_config(
        &server,
        &[
            "first 1 AVAILABLE OK",
            "second 1 AVAILABLE OK",
            "third 1 END OK",
        ],
    );
    assert_eq!(ones(&server, "first", &[4, 10]), "[4,10]");
    assert_eq!(ones(&server, "second", &[1, 10]), "[1,10]");
}

#[test]
fn the_watcher_sees_another_file() {
    let file = File::new(&json!([dummy("first")]));
    let server = file.serve_with(&[]);
    file.write(&json!([dummy("second")]));
    wait_config(&server, &["first 1 END OK", "second 1 AVAILABLE OK"]);
}

#[test]
fn garbage_changes_nothing_and_a_whole_file_is_picked_up() {
    let file = File::new(&json!([dummy("first")]));
    let server = file.serve_with(&[]);
    let whole = fs::read(file.path()).unwrap();
    fs::write(file.path(), &whole[..whole.len() / 2]).unwrap();
    server.wait_log("the configuration file");
    assert!(reload(&server).starts_with("412: Reloading config file failed. "));
    assert_eq!(config(&server), ["first 1 AVAILABLE OK"]);
    assert_eq!(ones(&server, "first", &[1, 10]), "[1,10]");
    fs::write(file.path(), r#"{"model_config_list": [{"config": {}}]}"#).unwrap();
    assert!(reload(&server).starts_with("412: Reloading config file failed. "));
    fs::remove_file(file.path()).unwrap();
    assert!(reload(&server).starts_with("500: Config file not found or cannot open. "));
    assert_eq!(ones(&server, "first", &[1, 10]), "[1,10]");
    file.write(&json!([dummy("first"), dummy("second")]));
    wait_config(&server, &["first 1 AVAILABLE OK", "second 1 AVAILABLE OK"]);
}

#[test]
fn a_running_model_that_cannot_be_reloaded_goes_on_as_it_was() {
    let good = || entry("m", &model("classifier"));
    let file = File::new(&json!([good(), dummy("other")]));
    let server = file.serve();
    let shape = || get(&server, "/v2/models/m").json()["inputs"][0]["shape"].clone();
    let before = shape();
    file.write(&json!([
        with(good(), "shape", json!("(1,2,3)")),
        dummy("other")
    ]));
    assert!(reload(&server).starts_with("412: Reloading config file failed. "));
    assert_eq!(
        config(&server),
        ["m 1 AVAILABLE UNKNOWN", "other 1 AVAILABLE OK"]
    );
    let reason = message(&server, "m");
    assert!(
        reason.contains("Model could not be reshaped with requested shape"),
        "{reason}"
    );
    assert_eq!(shape(), before);
    assert_eq!(get(&server, "/v2/models/m/ready").status, 200);
    // Still wrong, and the file is as before.
    assert!(reload(&server).starts_with("412: Reloading models versions failed. "));
    // Nothing is loaded for the way back: what serves is what is wanted.
    file.write(&json!([good(), dummy("other")]));
    assert_eq!(reload(&server), "201");
    assert_eq!(
        config(&server),
        ["m 1 AVAILABLE OK", "other 1 AVAILABLE OK"]
    );
}

#[test]
fn an_entry_that_is_refused_leaves_what_runs_and_the_others() {
    let file = File::new(&json!([dummy("m"), dummy("other")]));
    let server = file.serve();
    file.write(&json!([
        with(dummy("m"), "max_sequence_number", json!(5)),
        dummy("other"),
        dummy("new")
    ]));
    assert!(reload(&server).starts_with("500: Reloading config file failed. "));
    assert_eq!(
        config(&server),
        [
            "m 1 AVAILABLE UNKNOWN",
            "new 1 AVAILABLE OK",
            "other 1 AVAILABLE OK"
        ]
    );
    assert_eq!(
        message(&server, "m"),
        "Stateful model config parameter used for non stateful model - max_sequence_number"
    );
    file.write(&json!([dummy("m"), dummy("other"), dummy("new")]));
    assert_eq!(reload(&server), "201");
    assert_eq!(message(&server, "m"), "OK");
}

#[test]
fn of_two_entries_with_one_name_the_first_is_served() {
    let file = File::new(&json!([dummy("m"), entry("m", &model("scalar"))]));
    let server = file.serve();
    assert_eq!(config(&server), ["m 1 AVAILABLE OK"]);
    assert_eq!(ones(&server, "m", &[1, 10]), "[1,10]");
    server.wait_log("Given model name is already occupied");
    assert!(reload(&server).starts_with("500: Reloading config file failed. "));
}

#[test]
fn a_model_does_not_become_stateful_while_it_runs() {
    let file = File::new(&json!([dummy("m")]));
    let server = file.serve();
    file.write(&json!([with(dummy("m"), "stateful", json!(true))]));
    assert!(reload(&server).starts_with("500: Reloading config file failed. "));
    server.wait_log("Model type cannot be changed after it is loaded");
    assert_eq!(ones(&server, "m", &[1, 10]), "[1,10]");
}

#[test]
fn what_never_served_may_become_stateless() {
    let stateful = with(dummy("m"), "stateful", json!(true));
    let file = File::new(&json!([
        dummy("other"),
        with(stateful, "target_device", json!("BATCH:CPU(4)"))
    ]));
    let server = file.serve();
    server.wait_log("Stateful models are supported only on CPU");
    file.write(&json!([dummy("other"), dummy("m")]));
    reload(&server);
    assert_eq!(ones(&server, "m", &[1, 10]), "[1,10]");
}

#[test]
fn models_that_fail_at_the_start_leave_the_others() {
    let empty = repository::folder();
    let file = File::new(&json!([
        dummy("good"),
        entry("broken", &model("broken")),
        entry("missing", Path::new("/no/such/folder")),
        entry("empty", empty.path()),
    ]));
    let server = file.serve();
    assert_eq!(
        config(&server),
        ["broken 1 LOADING UNKNOWN", "good 1 AVAILABLE OK"]
    );
    let all = get(&server, "/v1/config").json();
    for name in ["empty", "missing"] {
        assert_eq!(all[name], json!({"model_version_status": []}), "{name}");
        assert_eq!(
            ones(&server, name, &[1, 10]),
            "404: Model with requested version is not found"
        );
    }
}

#[test]
fn a_path_that_does_not_exist_is_reported_by_its_code() {
    let file = File::new(&json!([dummy("m")]));
    let server = file.serve();
    file.write(&json!([
        dummy("m"),
        entry("n", Path::new("/no/such/folder"))
    ]));
    assert!(reload(&server).starts_with("400: Reloading config file failed. "));
    assert_eq!(message(&server, "m"), "OK");
    // A model that runs goes on from where it was, and says why.
    file.write(&json!([entry("m", Path::new("/no/such/folder"))]));
    assert!(reload(&server).starts_with("400: "));
    let reason = message(&server, "m");
    assert!(
        reason.starts_with("The provided base path is invalid or doesn't exists"),
        "{reason}"
    );
    assert_eq!(ones(&server, "m", &[1, 10]), "[1,10]");
    file.write(&json!([dummy("m")]));
    assert_eq!(reload(&server), "201");
    assert_eq!(message(&server, "m"), "OK");
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let root = repository::of(&[("1", "dummy")]);
    let pipe = root.path().join("1/mapping_config.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let file = File::new(&json!([entry("m", root.path()), dummy("other")]));
    let server = file.serve();
    assert_eq!(
        config(&server),
        ["m 1 LOADING UNKNOWN", "other 1 AVAILABLE OK"]
    );
    fs::remove_file(&pipe).unwrap();
    assert_eq!(reload(&server), "201");
    assert_eq!(
        config(&server),
        ["m 1 AVAILABLE OK", "other 1 AVAILABLE OK"]
    );
}

#[test]
fn files_that_are_overwritten_in_place_take_nobody_down() {
    let root = repository::of(&[("1", "classifier")]);
    let file = File::new(&json!([entry("m", root.path())]));
    let server = file.serve();
    // In place, as `cp` does: whoever had the file mapped would be killed.
    let weights = root.path().join("1/model.bin");
    fs::write(&weights, b"").unwrap();
    let zeros = vec![0.0; 3 * 224 * 224];
    let body = json!({"inputs": [
        {"name": "image", "shape": [1, 3, 224, 224], "datatype": "FP32", "data": zeros}
    ]});
    let answer = post(&server, "/v2/models/m/infer", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(reload(&server).starts_with("500: "));
    assert_eq!(config(&server), ["m 1 AVAILABLE UNKNOWN"]);
}

#[test]
fn relative_paths_are_those_of_the_file() {
    let file = File::new(&json!([entry("m", Path::new("models/m"))]));
    let folder = file.folder.path().join("models/m/1");
    repository::copy(&model("dummy").join("1"), &folder);
    let server = file.serve();
    assert_eq!(ones(&server, "m", &[1, 10]), "[1,10]");
}

#[test]
fn one_model_of_the_flags_is_reloaded_too() {
    let root = repository::of(&[("1", "dummy")]);
    let server = Server::begin("m", root.path(), &["--file_system_poll_wait_seconds", "0"]);
    server.wait_ready();
    assert_eq!(reload(&server), "200");
    repository::copy(&model("dummy").join("1"), &root.path().join("2"));
    assert_eq!(reload(&server), "201");
    wait_config(&server, &["m 1 END OK", "m 2 AVAILABLE OK"]);
    repository::copy(&model("broken").join("1"), &root.path().join("3"));
    assert!(reload(&server).starts_with("500: Reloading models versions failed. "));
    assert_eq!(
        config(&server),
        ["m 1 END OK", "m 2 AVAILABLE OK", "m 3 LOADING UNKNOWN"]
    );
}

#[test]
fn auto_shapes_follow_the_request() {
    let file = File::new(&json!([with(dummy("m"), "shape", json!("auto"))]));
    let server = file.serve();
    for shape in [[1, 10], [3, 10], [1, 10]] {
        assert_eq!(
            ones(&server, "m", &shape),
            format!("[{},{}]", shape[0], shape[1])
        );
    }
    let again = "loading again for the shapes of a request";
    let loads = || server.log().matches(again).count();
    eventually("every load in the log", || (loads() >= 2).then_some(()));
    assert_eq!(loads(), 2, "{}", server.log());
    // Lengths beside a zero need no data, so they are not followed.
    assert_eq!(
        ones(&server, "m", &[0, 1_000_000_000]),
        "400: Invalid input batch size - Expected: 1; Actual: 0; input name: b"
    );
    let metadata = get(&server, "/v2/models/m").json();
    assert_eq!(metadata["inputs"][0]["shape"], json!([1, 10]));
    // What does not fit itself loads nothing.
    let body = br#"{"inputs":[{"name":"b","shape":[7,10],"datatype":"FP32","data":[1]}]}"#;
    assert_eq!(
        post(&server, "/v2/models/m/infer", body).error(),
        "400: Invalid number of values in tensor proto container - Expected: 70 values; Actual: \
         1 values; input name: b"
    );
    assert_eq!(config(&server), ["m 1 AVAILABLE OK"]);
}

#[test]
fn an_auto_batch_follows_the_request_and_other_dimensions_do_not() {
    let file = File::new(&json!([with(dummy("m"), "batch_size", json!("auto"))]));
    let server = file.serve();
    assert_eq!(ones(&server, "m", &[5, 10]), "[5,10]");
    assert_eq!(
        ones(&server, "m", &[5, 11]),
        "400: Invalid input shape - Expected: (5,10); Actual: (5,11); input name: b"
    );
    assert_eq!(
        ones(&server, "m", &[6, 11]),
        "400: Invalid input shape - Expected: (6,10); Actual: (6,11); input name: b"
    );
}

#[test]
fn many_requests_for_one_shape_have_the_model_loaded_once() {
    let file = File::new(&json!([with(dummy("m"), "shape", json!("auto"))]));
    let server = std::sync::Arc::new(file.serve());
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let server = std::sync::Arc::clone(&server);
            thread(move || ones(&server, "m", &[6, 10]))
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), "[6,10]");
    }
    let again = "loading again for the shapes of a request";
    let loads = || server.log().matches(again).count();
    eventually("every load in the log", || (loads() >= 1).then_some(()));
    assert_eq!(loads(), 1, "{}", server.log());
}

#[test]
fn a_version_serves_after_its_warm_up() {
    let good = with(
        dummy("good"),
        "warmup",
        json!({"count": 2, "data": "random"}),
    );
    let bad = with(
        dummy("bad"),
        "warmup",
        json!({"count": 1, "data": {"b": "missing.npy"}}),
    );
    let unknown = with(
        dummy("unknown"),
        "warmup",
        json!({"count": 1, "data": {"c": "missing.npy"}}),
    );
    let file = File::new(&json!([good, bad, unknown]));
    let server = file.serve();
    assert_eq!(
        config(&server),
        [
            "bad 1 LOADING UNKNOWN",
            "good 1 AVAILABLE OK",
            "unknown 1 LOADING UNKNOWN"
        ]
    );
    server.wait_log("warm-up: cannot read");
    server.wait_log("warm-up: the model has no input `c`; it has: b");
}

#[test]
fn a_reload_answers_with_the_errors() {
    let file = File::new(&json!([dummy("m")]));
    let server = file.serve();
    file.write(&json!([
        dummy("m"),
        entry("n", Path::new("/no/such/folder")),
        with(dummy("device"), "target_device", json!("CUP")),
    ]));
    let said = reload(&server);
    for part in [
        "Reloading config file failed. ",
        "cannot load model `n`: ",
        "/no/such/folder",
        "version 1 of model `device`: cannot use device `CUP`",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let status = get(&server, "/v1/models/device").text();
    assert!(status.contains("cannot use device `CUP`"), "{status}");
}

#[test]
fn a_retired_version_has_ended_when_the_reload_answers() {
    let root = repository::folder();
    for version in ["1", "2"] {
        repository::copy(&model("dummy").join("1"), &root.path().join(version));
    }
    let serving = |versions: &[i64]| {
        let policy = json!({"specific": {"versions": versions}});
        with(entry("m", root.path()), "model_version_policy", policy)
    };
    let file = File::new(&json!([serving(&[1, 2])]));
    let server = file.serve();
    file.write(&json!([serving(&[2])]));
    let answer = post(&server, "/v1/config/reload", b"");
    assert_eq!(answer.status, 201);
    assert_eq!(
        config(&server),
        ["m 1 END OK", "m 2 AVAILABLE OK"],
        "asked at once"
    );
    let said = answer.text();
    assert!(
        said.contains("\"END\"") && !said.contains("UNLOADING"),
        "{said}"
    );
}
