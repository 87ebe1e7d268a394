//! Version folders that come, go, and change while the server runs; the watcher sees them.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tempfile::TempDir;

use crate::support::{
    Server, busy, eventually,
    grpc::Grpc,
    http::{get, post},
    model, repository, thread,
};

/// Value on Linux, where the tests run.
const O_NONBLOCK: i32 = 0o4000;

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

/// Serves a repository as model `m`, polled every second.
fn serve(root: &Path, flags: &[&str]) -> Server {
    let server = Server::begin("m", root, flags);
    server.wait_ready();
    server
}

/// Returns `version state reason` of every version.
fn index(server: &Server) -> Vec<String> {
    let answer = post(server, "/v2/repository/index", b"{}").json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    answer
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let [version, state, reason] =
                ["version", "state", "reason"].map(|key| text(&entry[key]));
            format!("{version} {state} {reason}").trim().to_owned()
        })
        .collect()
}

/// Waits until the index is as expected.
fn wait_index(server: &Server, expected: &[&str]) {
    let mut last = Vec::new();
    eventually(&format!("{expected:?}"), || {
        last = index(server);
        (last == expected).then_some(())
    });
}

fn infer(server: &Server, version: &str) -> String {
    let answer = post(server, &format!("/v2/models/m{version}/infer"), BODY);
    if answer.status == 200 {
        let json = answer.json();
        return format!("version {}", json["model_version"].as_str().unwrap());
    }
    answer.error()
}

/// Creates a version folder atomically, as a deployment should.
fn add(root: &TempDir, version: &str, fixture: &str) {
    repository::copy(
        &model(fixture).join("1"),
        &root.path().join(format!("new {version}")),
    );
    fs::rename(
        root.path().join(format!("new {version}")),
        root.path().join(version),
    )
    .unwrap();
}

#[test]
fn the_highest_version_takes_over_and_the_one_before_it_is_retired() {
    let root = repository::of(&[("1", "dummy")]);
    let server = serve(root.path(), &[]);
    assert_eq!(infer(&server, ""), "version 1");
    add(&root, "2", "dummy");
    wait_index(&server, &["1 UNAVAILABLE unloaded", "2 READY"]);
    assert_eq!(infer(&server, ""), "version 2");
    assert_eq!(
        infer(&server, "/versions/1"),
        "404: Model with requested version is retired"
    );
    fs::remove_dir_all(root.path().join("2")).unwrap();
    wait_index(&server, &["1 READY", "2 UNAVAILABLE unloaded"]);
    assert_eq!(infer(&server, ""), "version 1");
}

#[test]
fn the_policy_says_which_versions_are_served() {
    let root = repository::of(&[("1", "dummy"), ("2", "dummy"), ("4", "dummy")]);
    let all = serve(root.path(), &["--model_version_policy", r#"{"all":{}}"#]);
    assert_eq!(index(&all), ["1 READY", "2 READY", "4 READY"]);
    assert_eq!(infer(&all, "/versions/1"), "version 1");
    assert_eq!(infer(&all, ""), "version 4");
    fs::remove_dir_all(root.path().join("2")).unwrap();
    wait_index(&all, &["1 READY", "2 UNAVAILABLE unloaded", "4 READY"]);
    let specific = serve(
        root.path(),
        &[
            "--model_version_policy",
            r#"{"specific":{"versions":[1,3]}}"#,
        ],
    );
    assert_eq!(index(&specific), ["1 READY"]);
    assert_eq!(
        infer(&specific, "/versions/4"),
        "404: Model with requested version is not found"
    );
    add(&root, "3", "dummy");
    wait_index(&specific, &["1 READY", "3 READY"]);
}

#[test]
fn a_version_that_cannot_be_loaded_leaves_the_next_lower_one_and_is_tried_again() {
    let root = repository::of(&[("1", "dummy"), ("2", "broken")]);
    let server = serve(root.path(), &[]);
    let [first, failed] = &index(&server)[..] else {
        panic!("there are two versions");
    };
    assert_eq!(first, "1 READY");
    // The reason itself, as TensorFlow Serving's status has it.
    assert!(failed.starts_with("2 UNAVAILABLE cannot read "), "{failed}");
    assert_eq!(infer(&server, ""), "version 1");
    // Those who send requests see no paths.
    let folder = format!("{}/", root.path().join("2").display());
    let reason = failed.strip_prefix("2 UNAVAILABLE ").unwrap();
    let reason = reason.replace(&folder, "");
    assert_eq!(
        infer(&server, "/versions/2"),
        format!("404: Model with requested version is not loaded yet - {reason}")
    );
    repository::copy(&model("dummy").join("1"), &root.path().join("2"));
    wait_index(&server, &["1 UNAVAILABLE unloaded", "2 READY"]);
    assert_eq!(infer(&server, ""), "version 2");
}

#[test]
fn files_that_are_replaced_in_a_version_folder_are_loaded() {
    let root = repository::of(&[("1", "dummy")]);
    let server = serve(root.path(), &[]);
    repository::copy(&model("scalar").join("1"), &root.path().join("1"));
    eventually("the other model", || {
        let metadata = get(&server, "/v2/models/m").json();
        (metadata["inputs"][0]["shape"] == serde_json::json!([])).then_some(())
    });
}

#[test]
fn a_version_that_is_replaced_by_garbage_goes_on_as_it_was_and_says_why() {
    let root = repository::of(&[("1", "dummy")]);
    let server = serve(root.path(), &[]);
    let graph = repository::graph(root.path());
    let good = fs::read(&graph).unwrap();
    fs::write(&graph, "<net").unwrap();
    let reason = eventually("the failure in the index", || {
        index(&server)
            .into_iter()
            .find_map(|line| line.strip_prefix("1 READY ").map(str::to_owned))
    });
    assert!(reason.starts_with("cannot read "), "{reason}");
    assert_eq!(infer(&server, ""), "version 1");
    server.wait_log("cannot load version 1 of model `m`");
    fs::write(&graph, good).unwrap();
    wait_index(&server, &["1 READY"]);
}

#[test]
fn a_base_path_that_vanishes_leaves_what_is_loaded() {
    let root = repository::of(&[("1", "dummy")]);
    let server = serve(root.path(), &[]);
    let elsewhere = repository::folder();
    let away = elsewhere.path().join("away");
    fs::rename(root.path(), &away).unwrap();
    server.wait_log("The provided base path is invalid or doesn't exists");
    assert_eq!(infer(&server, ""), "version 1");
    fs::rename(&away, root.path()).unwrap();
    wait_index(&server, &["1 READY"]);
}

#[test]
fn a_request_in_flight_finishes_on_the_version_that_it_found() {
    // Longer than the watcher takes on a machine that is busy itself.
    const STEPS: i64 = 3 * busy::SECONDS;
    let root = repository::of(&[("1", "busy"), ("2", "busy")]);
    let server = Server::begin("busy", root.path(), &["--nireq", "1"]);
    server.wait_ready();
    let client = Grpc::connect(&server);
    let call = busy::running(&server, &client, STEPS);
    fs::remove_dir_all(root.path().join("2")).unwrap();
    wait_index(&server, &["1 READY", "2 UNAVAILABLE unloaded"]);
    assert!(!call.is_answered(), "the request is still in flight");
    let answer = call.wait();
    assert_eq!(answer.as_ref().unwrap().model_version, "2");
    busy::check(STEPS, &answer);
}

#[test]
fn a_reload_waits_for_the_requests_of_a_retired_version_as_long_as_it_is_to() {
    // Longer than its default wait.
    const STEPS: i64 = 3 * busy::SECONDS;
    for (seconds, state) in [("0", "UNLOADING"), ("600", "END")] {
        let root = repository::of(&[("1", "busy"), ("2", "busy")]);
        let wait = ["--reload_wait_seconds", seconds];
        let quiet = ["--file_system_poll_wait_seconds", "0"];
        let flags = [wait, quiet, ["--nireq", "1"]].concat();
        let server = Server::begin("busy", root.path(), &flags);
        server.wait_ready();
        let client = Grpc::connect(&server);
        let call = busy::running(&server, &client, STEPS);
        fs::remove_dir_all(root.path().join("2")).unwrap();
        let answer = post(&server, "/v1/config/reload", b"");
        assert_eq!(answer.status, 201, "{}", answer.text());
        let versions = &answer.json()["busy"]["model_version_status"];
        let versions = versions.as_array().unwrap();
        let retired = versions.iter().find(|it| it["version"] == "2").unwrap();
        assert_eq!(retired["state"], state, "{seconds} s: {retired}");
        busy::check(STEPS, &call.wait());
    }
}

#[test]
fn there_is_no_moment_without_service() {
    let root = repository::of(&[("1", "dummy")]);
    let server = Arc::new(serve(root.path(), &[]));
    let stop = Arc::new(AtomicBool::new(false));
    let client = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        thread(move || {
            let mut answers = 0;
            while !stop.load(Ordering::Relaxed) {
                let answer = infer(&server, "");
                assert!(answer.starts_with("version "), "{answer}");
                answers += 1;
            }
            answers
        })
    };
    for version in 2..6 {
        add(&root, &version.to_string(), "dummy");
        let ready = format!("{version} READY");
        eventually(&ready, || index(&server).contains(&ready).then_some(()));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(client.join().unwrap() > 0);
}

#[test]
fn a_version_folder_that_vanishes_while_it_loads_harms_nobody() {
    let root = repository::endless();
    add(&root, "2", "dummy");
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
        index(&server).contains(&"2 READY".to_owned()).then_some(())
    });
    assert_eq!(infer(&server, ""), "version 2");
}
