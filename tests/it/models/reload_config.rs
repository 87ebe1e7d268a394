//! Reloads of a changed configuration file where the clock or other clients matter; the rest is in the sheet
//! `reload_config`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Server, eventually,
    http::{get, post},
    model, repository,
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

/// Returns `name version state code message` of every version of models whose names begin with a text.
fn config(server: &Server, of: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let all = get(server, "/v1/config").json();
    let models = all.as_object().unwrap().iter();
    for (name, model) in models.filter(|(name, _)| name.starts_with(of)) {
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

fn wait_config(server: &Server, of: &str, expected: &[&str]) {
    eventually(&format!("{expected:?}"), || {
        (config(server, of) == expected).then_some(())
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
fn the_watcher_passes_over_garbage_and_sees_the_same_file_and_another() {
    let file = File::new(&json!([dummy("first")]));
    let server = file.serve_with(&["--metrics_enable"]);
    let good = fs::read_to_string(file.path()).unwrap();
    let spoil = || fs::write(file.path(), "{\"model_config_list\": [").unwrap();
    let is_reported = || get(&server, "/v2").text().contains("reload_failure");
    spoil();
    server.wait_log("the configuration file");
    assert_eq!(config(&server, ""), ["first 1 AVAILABLE OK"]);
    fs::write(file.path(), good).unwrap();
    server.wait_log("the configuration can be read again");
    assert!(!is_reported());
    let metrics = get(&server, "/metrics").text();
    assert!(
        metrics.contains(r#"ovms_reloads{result="success"} 1"#),
        "{metrics}"
    );
    spoil();
    eventually("the error is reported", || is_reported().then_some(()));
    assert_eq!(config(&server, ""), ["first 1 AVAILABLE OK"]);
    file.write(&json!([dummy("second")]));
    wait_config(&server, "", &["first 1 END OK", "second 1 AVAILABLE OK"]);
    server.signal("TERM");
    server.wait_log(" stopped");
    // Another file is read, which says so itself.
    let log = server.log();
    assert_eq!(log.matches("can be read again").count(), 1, "{log}");
}

#[test]
fn a_file_is_read_again_when_it_is_asked_for() {
    let file = File::new(&json!([dummy("first")]));
    let server = file.serve();
    a_model_that_cannot_be_loaded_is_logged_once(&file, &server);
    files_that_are_overwritten_in_place_take_nobody_down(&file, &server);
    another_base_path_takes_over_once_a_version_of_it_is_loaded(&file, &server);
    many_requests_for_one_shape_have_the_model_loaded_once(&file, &server);
    another_monitoring_counts_at_the_next_start(&file, &server);
    // The log has all that was written before.
    server.signal("TERM");
    server.wait_log(" stopped");
    let log = server.log();
    let errors = log.lines().filter(|line| line.contains(" ERROR "));
    let errors = errors.filter(|line| line.contains("second"));
    assert_eq!(errors.count(), 1, "{log}");
}

fn a_model_that_cannot_be_loaded_is_logged_once(file: &File, server: &Server) {
    file.write(&json!([dummy("first"), entry("second", &model("none"))]));
    let answer = reload(server);
    assert!(answer.starts_with("400: "), "{answer}");
}

fn files_that_are_overwritten_in_place_take_nobody_down(file: &File, server: &Server) {
    let root = repository::of(&[("1", "classifier")]);
    file.write(&json!([entry("overwritten", root.path())]));
    assert_eq!(reload(server), "201");
    // In place, as `cp` does: whoever had the file mapped would be killed.
    let weights = root.path().join("1/model.bin");
    fs::write(&weights, b"").unwrap();
    let zeros = vec![0.0; 3 * 224 * 224];
    let body = json!({"inputs": [
        {"name": "image", "shape": [1, 3, 224, 224], "datatype": "FP32", "data": zeros}
    ]});
    let answer = post(
        server,
        "/v2/models/overwritten/infer",
        body.to_string().as_bytes(),
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(reload(server).starts_with("500: "));
    assert_eq!(
        config(server, "overwritten"),
        ["overwritten 1 AVAILABLE UNKNOWN"]
    );
}

#[test]
fn one_model_of_the_flags_is_reloaded_too() {
    let root = repository::of(&[("1", "dummy")]);
    let server = Server::begin("m", root.path(), &["--file_system_poll_wait_seconds", "0"]);
    server.wait_ready();
    assert_eq!(reload(&server), "200");
    fs::write(root.path().join("1/NOTES.md"), "").unwrap();
    assert_eq!(reload(&server), "200");
    // Another file of the same size and time, as of an image whose files all have one time.
    let (graph, other) = (repository::graph(root.path()), root.path().join("other"));
    fs::copy(&graph, &other).unwrap();
    let time = graph.metadata().unwrap().modified().unwrap();
    let opened = fs::File::options().write(true).open(&other).unwrap();
    opened.set_modified(time).unwrap();
    fs::rename(other, graph).unwrap();
    assert_eq!(reload(&server), "201");
    assert_eq!(reload(&server), "200");
    repository::copy(&model("dummy").join("1"), &root.path().join("2"));
    assert_eq!(reload(&server), "201");
    wait_config(&server, "", &["m 1 END OK", "m 2 AVAILABLE OK"]);
    repository::copy(&model("broken").join("1"), &root.path().join("3"));
    assert!(reload(&server).starts_with("500: Reloading models versions failed. "));
    assert_eq!(
        config(&server, ""),
        ["m 1 END OK", "m 2 AVAILABLE OK", "m 3 LOADING UNKNOWN"]
    );
}

fn another_base_path_takes_over_once_a_version_of_it_is_loaded(file: &File, server: &Server) {
    let [old, new] = ["1", "5"].map(|number| repository::of(&[(number, "dummy")]));
    let graph = new.path().join("5").join("model.xml");
    let good = fs::read(&graph).unwrap();
    fs::write(&graph, "<net").unwrap();
    file.write(&json!([entry("m", old.path())]));
    assert_eq!(reload(server), "201");
    file.write(&json!([entry("m", new.path())]));
    assert!(reload(server).starts_with("500: "));
    let kept = ["m 1 AVAILABLE UNKNOWN", "m 5 LOADING UNKNOWN"];
    assert_eq!(config(server, "m"), kept);
    assert_eq!(ones(server, "m", &[1, 10]), "[1,10]");
    // The way back.
    file.write(&json!([entry("m", old.path())]));
    assert_eq!(reload(server), "201");
    assert_eq!(config(server, "m"), ["m 1 AVAILABLE OK", "m 5 END OK"]);
    file.write(&json!([entry("m", new.path())]));
    assert!(reload(server).starts_with("500: "));
    assert_eq!(config(server, "m"), kept);
    fs::write(&graph, good).unwrap();
    assert_eq!(reload(server), "201");
    wait_config(server, "m", &["m 1 END OK", "m 5 AVAILABLE OK"]);
}

fn many_requests_for_one_shape_have_the_model_loaded_once(file: &File, server: &Server) {
    file.write(&json!([with(dummy("shapes"), "shape", json!("auto"))]));
    assert_eq!(reload(server), "201");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ones(server, "shapes", &[6, 10]), "[6,10]"));
        }
    });
    let again = "loading again for the shapes of a request";
    let loads = || server.log().matches(again).count();
    eventually("every load in the log", || (loads() >= 1).then_some(()));
    assert_eq!(loads(), 1, "{}", server.log());
}

fn another_monitoring_counts_at_the_next_start(file: &File, server: &Server) {
    file.write(&json!([dummy("dummy")]));
    assert_eq!(reload(server), "201");
    let mut config: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
    config["monitoring"] = json!({ "metrics": { "enable": true } });
    fs::write(file.path(), config.to_string()).unwrap();
    assert_eq!(post(server, "/v1/config/reload", b"").status, 201);
    let logged = "monitoring has changed, which takes effect at the next start";
    server.wait_log(logged);
    assert_eq!(get(server, "/metrics").status, 404);
    // The same again is nothing new.
    config["model_config_list"] = json!([]);
    fs::write(file.path(), config.to_string()).unwrap();
    post(server, "/v1/config/reload", b"");
    assert_eq!(server.log().matches(logged).count(), 1);
}

#[test]
fn a_model_whose_files_cannot_be_read_to_their_end_holds_up_no_other() {
    let hangs = repository::folder();
    let folder = hangs.path().join("1");
    fs::create_dir(&folder).unwrap();
    fs::copy(model("dummy").join("1/model.xml"), folder.join("model.xml")).unwrap();
    // Who reads it waits for somebody that writes.
    let weights = folder.join("model.bin");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &weights,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let good = |name: &str| json!({"name": name, "base_path": model("dummy")});
    let far = json!({"name": "far", "base_path": hangs.path()});
    let file = File::new(&json!([good("a")]));
    let server = file.serve_with(&["--file_system_poll_wait_seconds", "1"]);
    let serves = |name: &str| {
        let path = format!("/v2/models/{name}/ready");
        eventually(name, || (get(&server, &path).status == 200).then_some(()));
    };
    file.write(&json!([good("a"), far]));
    server.wait_log("others go on beside models that take long: far");
    file.write(&json!([good("a"), far, good("b")]));
    serves("b");
    file.write(&json!([good("a"), far, good("b"), good("c")]));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| post(&server, "/v1/config/reload", b""));
        serves("c");
        // Who has asked is answered once all is done, with what is there by then.
        assert!(!asked.is_finished());
        let writer = fs::File::options().write(true).open(&weights).unwrap();
        fs::remove_file(&weights).unwrap();
        fs::copy(model("dummy").join("1/model.bin"), &weights).unwrap();
        drop(writer);
        let answer = asked.join().unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        serves("far");
    });
    file.write(&json!([good("a")]));
    eventually("it is gone", || {
        (get(&server, "/v2/models/far").status == 404).then_some(())
    });
    serves("a");
}
