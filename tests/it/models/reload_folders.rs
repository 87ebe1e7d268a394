//! Folders that are no versions, and the log messages of them and of retried loads.

use std::fs;

use super::reload_versions::{root, server};
use crate::support::{
    Server, cli, eventually,
    http::{get, post},
    model,
    pipelines::Config,
    repository,
};

/// Serves a repository as model `m` with more flags.
fn serve(root: &std::path::Path, flags: &[&str]) -> Server {
    let server = Server::begin("m", root, flags);
    server.wait_ready();
    server
}

/// Returns `version state` of every version of a model.
fn index(server: &Server, name: &str) -> Vec<String> {
    let answer = post(server, "/v2/repository/index", b"{}").json();
    let entries = answer.as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    entries
        .filter(|entry| entry["name"] == name)
        .map(|entry| format!("{} {}", text(&entry["version"]), text(&entry["state"])))
        .collect()
}

/// Waits until the index of a model of the shared server is as expected.
fn wait_index(name: &str, expected: &[&str]) {
    eventually(&format!("{expected:?}"), || {
        (index(server(), name) == expected).then_some(())
    });
}

/// Makes the server poll all folders, and waits until it has.
fn look(server: &Server) {
    post(server, "/v1/config/reload", b"");
}

/// Returns the number of lines of the log that contain a text.
fn count(server: &Server, text: &str) -> usize {
    server.log().matches(text).count()
}

#[test]
fn a_version_is_loaded_once_its_folder_is_renamed_into_place() {
    let root = root("copied");
    let copied = root.join("3.tmp");
    repository::copy(&model("dummy").join("1"), &copied);
    let line = server().wait_log("3.tmp");
    assert!(
        line.contains("must be named by the number alone: `3`"),
        "{line}"
    );
    look(server());
    look(server());
    assert_eq!(index(server(), "copied"), ["1 READY"]);
    fs::rename(copied, root.join("3")).unwrap();
    wait_index("copied", &["1 UNAVAILABLE", "3 READY"]);
}

#[test]
fn a_version_whose_folder_is_renamed_away_is_served_no_longer() {
    let root = root("renamed");
    assert_eq!(index(server(), "renamed"), ["2 READY"]);
    fs::rename(root.join("2"), root.join("2.bak")).unwrap();
    wait_index("renamed", &["1 READY", "2 UNAVAILABLE"]);
    fs::rename(root.join("2.bak"), root.join("2")).unwrap();
    wait_index("renamed", &["1 UNAVAILABLE", "2 READY"]);
}

#[test]
fn of_two_folders_of_a_number_the_plain_one_is_served_and_others_are_reported_of_once() {
    let (root, others) = (
        repository::of(&[("007", "scalar")]),
        repository::of(&[("1", "dummy")]),
    );
    let old = others.path().join("old");
    for name in ["old", ".git", "..data"] {
        fs::create_dir(others.path().join(name)).unwrap();
    }
    let mut config = Config::of(&[]);
    config.model("m", root.path());
    config.model("others", others.path());
    let server = config.serve();
    assert_eq!(index(&server, "m"), ["7 READY"]);
    repository::copy(&model("dummy").join("1"), &root.path().join("7"));
    look(&server);
    let line = server.wait_log("ignoring another folder of version 7; the one named `7` is served");
    assert!(line.ends_with("/007"), "{line}");
    let metadata = get(&server, "/v2/models/m").json();
    assert_eq!(metadata["inputs"][0]["name"], "b");

    // For as long as they stay.
    look(&server);
    fs::remove_dir(&old).unwrap();
    look(&server);
    fs::create_dir(&old).unwrap();
    look(&server);
    look(&server);
    fs::create_dir(others.path().join("last")).unwrap();
    look(&server);
    server.wait_log("/last");
    // Before it was taken away, and after.
    assert_eq!(count(&server, "/old"), 2);
    assert_eq!(count(&server, "ignoring"), 4);
}

#[test]
fn a_load_that_is_tried_again_is_reported_of_only_with_its_outcome() {
    let root = repository::of(&[("1", "dummy"), ("2", "broken")]);
    let cache = root.path().join("cache");
    fs::write(&cache, "no folder").unwrap();
    let flags = ["--log_level=DEBUG", "--cache_dir", cache.to_str().unwrap()];
    let server = serve(root.path(), &flags);
    let counts = || {
        let texts = [
            "INFO loading model=\"m\" version=2",
            "ERROR cannot load version 2 of model `m`",
            "cannot use the cache folder",
        ];
        texts.map(|text| count(&server, text))
    };
    let again = "DEBUG loading again model=\"m\" version=2";
    eventually("two tries more", || {
        (count(&server, again) >= 2).then_some(())
    });
    assert_eq!(counts(), [1, 1, 1]);
    // A reload on demand logs them again, and so does a change of other files.
    look(&server);
    eventually("the answer", || (counts() == [2, 2, 1]).then_some(()));
    fs::write(root.path().join("2/labels.txt"), "a").unwrap();
    eventually("the outcome", || (counts() == [3, 3, 1]).then_some(()));
}

#[test]
fn labels_are_followed_and_reported_where_they_do_not_fit() {
    let root = repository::of(&[("1", "classifier")]);
    let write = |labels: &str| fs::write(root.path().join("labels.txt"), labels).unwrap();
    write("a\nb\n");
    let warning = "labels.txt: found 2 lines, expected ";
    let mut check = cli::command();
    check.args([
        "serve",
        "--check",
        "--port",
        "1",
        "--model-name",
        "m",
        "--model-path",
    ]);
    let checked = cli::run(check.arg(root.path()));
    let text = &checked.stderr;
    assert_eq!(checked.code, Some(2), "{text}");
    assert!(
        text.contains("model `m`, version 1: labels do not fit: "),
        "{text}"
    );
    assert!(text.contains(warning), "{text}");
    let server = serve(root.path(), &[]);
    server.wait_log(warning);
    let labels = || get(&server, "/v2/models/m").json()["properties"]["labels"].clone();
    let label = |text: &str| eventually("the labels", || (labels() == text).then_some(()));
    label("a\nb");
    let url = format!("http://127.0.0.1:{}", server.rest_port);
    let ranked =
        cli::run(cli::command().args(["infer", "m", "--zeros", "--top", "1", "--url", &url]));
    insta::assert_snapshot!(ranked.stderr, @r"
    error: model `m` has 2 labels, output `scores` has 10 scores
    hint: correct `labels.txt` next to the model on the server, or give other labels with --labels FILE
    ");
    assert_eq!((ranked.code, ranked.stdout.len()), (Some(1), 0));
    write("c\nd\ne\n");
    label("c\nd\ne");
    fs::remove_file(root.path().join("labels.txt")).unwrap();
    eventually("no labels", || labels().is_null().then_some(()));
}
