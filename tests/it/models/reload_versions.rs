//! Version folders that come, go, and change while the server runs; the watcher sees them.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::json;

use crate::support::{
    Server, busy, eventually,
    grpc::Grpc,
    http::{get, post},
    model,
    pipelines::Config,
    repository, thread,
};

/// Value on Linux, where the tests run.
const O_NONBLOCK: i32 = 0o4000;

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

/// Models of the shared server, each of one test, with their versions.
const MODELS: [(&str, &[(&str, &str)]); 10] = [
    ("highest", &[("1", "dummy")]),
    ("policy", &[("1", "dummy"), ("2", "dummy"), ("4", "dummy")]),
    ("failing", &[("1", "dummy"), ("2", "broken")]),
    ("replaced", &[("1", "dummy")]),
    ("garbage", &[("1", "dummy")]),
    ("vanishing", &[("1", "dummy")]),
    ("asked", &[("1", "dummy")]),
    ("flat", &[("", "dummy")]),
    ("copied", &[("1", "dummy")]),
    ("renamed", &[("1", "dummy"), ("2", "dummy")]),
];

/// The folder, with a blank in its name, and the server of the models, each in a folder of its name, and of `specific`, which is `policy` with
/// another policy. All are polled every second.
static SHARED: LazyLock<(PathBuf, Server)> = LazyLock::new(|| {
    let mut config = Config::of(&[]);
    let folder = config.beside("of models");
    for (name, versions) in MODELS {
        let root = folder.join(name);
        for (version, fixture) in versions {
            repository::copy(&model(fixture).join("1"), &root.join(version));
        }
        let entry = config.model(name, &root);
        if name == "policy" {
            entry["model_version_policy"] = json!({"all": {}});
        }
    }
    let root = folder.join("policy");
    let policy = json!({"specific": {"versions": [1, 3]}});
    config.model("specific", &root)["model_version_policy"] = policy;
    let flags = ["--file_system_poll_wait_seconds", "1"];
    (folder, config.serve_kept(&flags))
});

/// Returns the shared server.
pub(super) fn server() -> &'static Server {
    &SHARED.1
}

/// Returns the folder of a model of the shared server.
pub(super) fn root(name: &str) -> PathBuf {
    SHARED.0.join(name)
}

/// Returns `version state reason` of every version of a model.
fn index(server: &Server, name: &str) -> Vec<String> {
    let answer = post(server, "/v2/repository/index", b"{}").json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let entries = answer.as_array().unwrap().iter();
    entries
        .filter(|entry| entry["name"] == name)
        .map(|entry| {
            let [version, state, reason] =
                ["version", "state", "reason"].map(|key| text(&entry[key]));
            format!("{version} {state} {reason}").trim().to_owned()
        })
        .collect()
}

/// Waits until the index is as expected.
fn wait_index(server: &Server, name: &str, expected: &[&str]) {
    let mut last = Vec::new();
    eventually(&format!("{expected:?}"), || {
        last = index(server, name);
        (last == expected).then_some(())
    });
}

fn infer(server: &Server, model: &str) -> String {
    let answer = post(server, &format!("/v2/models/{model}/infer"), BODY);
    if answer.status == 200 {
        let json = answer.json();
        return format!("version {}", json["model_version"].as_str().unwrap());
    }
    answer.error()
}

/// Creates a version folder atomically, as a deployment should.
fn add(root: &Path, version: &str, fixture: &str) {
    let copied = root.join(format!("new {version}"));
    repository::copy(&model(fixture).join("1"), &copied);
    fs::rename(copied, root.join(version)).unwrap();
}

#[test]
fn the_highest_version_takes_over_and_the_one_before_it_is_retired() {
    let (server, root) = (server(), root("highest"));
    assert_eq!(infer(server, "highest"), "version 1");
    add(&root, "2", "dummy");
    wait_index(server, "highest", &["1 UNAVAILABLE unloaded", "2 READY"]);
    assert_eq!(infer(server, "highest"), "version 2");
    assert_eq!(
        infer(server, "highest/versions/1"),
        "404: Model with requested version is retired"
    );
    fs::remove_dir_all(root.join("2")).unwrap();
    wait_index(server, "highest", &["1 READY", "2 UNAVAILABLE unloaded"]);
    assert_eq!(infer(server, "highest"), "version 1");
}

#[test]
fn the_policy_says_which_versions_are_served() {
    let (server, root) = (server(), root("policy"));
    assert_eq!(index(server, "policy"), ["1 READY", "2 READY", "4 READY"]);
    assert_eq!(infer(server, "policy/versions/1"), "version 1");
    assert_eq!(infer(server, "policy"), "version 4");
    fs::remove_dir_all(root.join("2")).unwrap();
    let expected = ["1 READY", "2 UNAVAILABLE unloaded", "4 READY"];
    wait_index(server, "policy", &expected);
    assert_eq!(index(server, "specific"), ["1 READY"]);
    assert_eq!(
        infer(server, "specific/versions/4"),
        "404: Model with requested version is not found"
    );
    add(&root, "3", "dummy");
    wait_index(server, "specific", &["1 READY", "3 READY"]);
}

#[test]
fn a_version_that_cannot_be_loaded_leaves_the_next_lower_one_and_is_tried_again() {
    let (server, root) = (server(), root("failing"));
    let [first, failed] = &index(server, "failing")[..] else {
        panic!("there are two versions");
    };
    assert_eq!(first, "1 READY");
    // The reason itself, as TensorFlow Serving's status has it.
    assert!(failed.starts_with("2 UNAVAILABLE cannot read "), "{failed}");
    assert_eq!(infer(server, "failing"), "version 1");
    // Those who send requests see no paths.
    let folder = format!("{}/", root.join("2").display());
    let reason = failed.strip_prefix("2 UNAVAILABLE ").unwrap();
    let reason = reason.replace(&folder, "");
    assert_eq!(
        infer(server, "failing/versions/2"),
        format!("404: Model with requested version is not loaded yet - {reason}")
    );
    repository::copy(&model("dummy").join("1"), &root.join("2"));
    wait_index(server, "failing", &["1 UNAVAILABLE unloaded", "2 READY"]);
    assert_eq!(infer(server, "failing"), "version 2");
}

#[test]
fn files_that_are_replaced_in_a_version_folder_are_loaded() {
    let (server, root) = (server(), root("replaced"));
    repository::copy(&model("scalar").join("1"), &root.join("1"));
    eventually("the other model", || {
        let metadata = get(server, "/v2/models/replaced").json();
        (metadata["inputs"][0]["shape"] == serde_json::json!([])).then_some(())
    });
}

#[test]
fn a_version_that_is_replaced_by_garbage_goes_on_as_it_was_and_says_why() {
    let (server, root) = (server(), root("garbage"));
    let graph = repository::graph(&root);
    let good = fs::read(&graph).unwrap();
    fs::write(&graph, "<net").unwrap();
    let reason = eventually("the failure in the index", || {
        index(server, "garbage")
            .into_iter()
            .find_map(|line| line.strip_prefix("1 READY ").map(str::to_owned))
    });
    assert!(reason.starts_with("cannot read "), "{reason}");
    assert_eq!(infer(server, "garbage"), "version 1");
    server.wait_log("cannot load version 1 of model `garbage`");
    fs::write(&graph, good).unwrap();
    wait_index(server, "garbage", &["1 READY"]);
}

#[test]
fn a_base_path_that_vanishes_leaves_what_is_loaded() {
    let (server, root) = (server(), root("vanishing"));
    let elsewhere = repository::folder();
    let away = elsewhere.path().join("away");
    fs::rename(&root, &away).unwrap();
    server.wait_log("The provided base path is invalid or doesn't exists");
    assert_eq!(infer(server, "vanishing"), "version 1");
    fs::rename(&away, &root).unwrap();
    wait_index(server, "vanishing", &["1 READY"]);
}

#[test]
fn a_folder_without_versions_serves_its_model_until_another_version_is_loaded() {
    let (server, root) = (server(), root("flat"));
    let wait = |start: &str| {
        eventually(start, || {
            let found = index(server, "flat");
            found[0].starts_with(start).then_some(())
        });
        assert_eq!(infer(server, "flat"), "version 1");
    };
    wait("1 READY");
    // Its files come later.
    fs::create_dir(root.join("2")).unwrap();
    wait("1 READY version 2: File not found or cannot open - no model in ");
    fs::remove_dir(root.join("2")).unwrap();
    wait_index(server, "flat", &["1 READY", "2 UNAVAILABLE unloaded"]);
    // A weights file that is just being replaced.
    fs::rename(root.join("model.bin"), root.join("away")).unwrap();
    wait("1 READY there is no version in ");
    fs::rename(root.join("away"), root.join("model.bin")).unwrap();
    wait_index(server, "flat", &["1 READY", "2 UNAVAILABLE unloaded"]);
    add(&root, "2", "dummy");
    wait_index(server, "flat", &["1 UNAVAILABLE unloaded", "2 READY"]);
}

#[test]
fn requests_in_flight_finish_on_a_retired_version_and_a_reload_waits_for_them_as_long_as_it_is_to()
{
    // One lasts longer than the default wait.
    for (seconds, state, steps) in [
        ("0", "UNLOADING", busy::SECONDS),
        ("600", "END", 3 * busy::SECONDS),
    ] {
        let root = repository::of(&[("1", "busy"), ("2", "busy")]);
        let wait = ["--reload_wait_seconds", seconds];
        let quiet = ["--file_system_poll_wait_seconds", "0"];
        let flags = [wait, quiet, ["--nireq", "1"]].concat();
        let server = Server::begin("busy", root.path(), &flags);
        server.wait_ready();
        let client = Grpc::connect(&server);
        let call = busy::running(&server, &client, steps);
        fs::remove_dir_all(root.path().join("2")).unwrap();
        let answer = post(&server, "/v1/config/reload", b"");
        assert_eq!(answer.status, 201, "{}", answer.text());
        let versions = &answer.json()["busy"]["model_version_status"];
        let versions = versions.as_array().unwrap();
        let retired = versions.iter().find(|it| it["version"] == "2").unwrap();
        assert_eq!(retired["state"], state, "{seconds} s: {retired}");
        if seconds == "0" {
            wait_index(&server, "busy", &["1 READY", "2 UNAVAILABLE unloaded"]);
            assert!(!call.is_answered(), "the request is still in flight");
        }
        let answer = call.wait();
        assert_eq!(answer.as_ref().unwrap().model_version, "2");
        busy::check(steps, &answer);
    }
}

#[test]
fn there_is_no_moment_without_service() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let (server, root) = (server(), root("asked"));
    let client = thread(move || {
        let mut answers = 0;
        while !STOP.load(Ordering::Relaxed) {
            let answer = infer(server, "asked");
            assert!(answer.starts_with("version "), "{answer}");
            answers += 1;
        }
        answers
    });
    for version in 2..6 {
        add(&root, &version.to_string(), "dummy");
        let ready = format!("{version} READY");
        eventually(&ready, || {
            index(server, "asked").contains(&ready).then_some(())
        });
    }
    STOP.store(true, Ordering::Relaxed);
    assert!(client.join().unwrap() > 0);
}

#[test]
fn a_version_folder_that_vanishes_while_it_loads_harms_nobody() {
    let root = repository::endless();
    add(root.path(), "2", "dummy");
    let server = Server::begin(
        "m",
        root.path(),
        &["--model_version_policy", r#"{"all":{}}"#],
    );
    // The load waits for a writer of the pipe; one that comes and goes makes it fail.
    let graph = repository::graph(root.path());
    let writer = eventually("the load reads", || {
        let mut options = fs::OpenOptions::new();
        // Without a reader, this fails at once.
        options.write(true).custom_flags(O_NONBLOCK);
        options.open(&graph).ok()
    });
    fs::remove_dir_all(root.path().join("1")).unwrap();
    drop(writer);
    server.wait_ready();
    eventually("version 2 alone", || {
        index(&server, "m")
            .contains(&"2 READY".to_owned())
            .then_some(())
    });
    assert_eq!(infer(&server, "m"), "version 2");
}
