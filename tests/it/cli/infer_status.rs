//! `ovms infer --status` and `--metadata`: state and metadata of models, and errors.

use std::process::Stdio;

use crate::support::{
    Server,
    infer::{APIS, GRPC, REST, command, infer, json as json_of},
    repository,
};

/// Replaces the version of the server, which is part of some notes.
fn without_version(text: &str) -> String {
    text.replace(env!("CARGO_PKG_VERSION"), "<version>")
}

/// A version that does not load is listed with its reason, and is no failure of the question.
#[test]
fn a_version_that_is_loading_is_reported() {
    let root = repository::endless();
    let server = Server::begin("slow", root.path(), &["--loading_wait_seconds=0"]);
    server.wait_log("loading");
    for api in APIS {
        let run = infer(&server, api, &["slow", "--status"]);
        assert_eq!(run.failure(), "exit 0\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.text(), @"
            model  version  state
            slow         1  LOADING
            ");
        }
        let all = infer(&server, api, &["--metadata"]);
        assert_eq!(all.code, Some(0));
        insta::allow_duplicates! {
            insta::assert_snapshot!(all.text(), @"
            model  tensor  name  datatype  shape
            slow   -       -     -         -
            ");
        }
        let all = json_of(&server, api, &["--metadata"]);
        assert_eq!(all["server"]["ready"], false);
        assert!(all["models"][0]["error"].is_string(), "{all}");
    }
    insta::assert_snapshot!(without_version(&infer(&server, GRPC, &["--metadata"]).failure()), @"
    exit 0
    OpenVINO Model Server <version> is not ready.
    Model `slow` has no metadata: NOT_FOUND: Model with requested version is not found
    ");
    insta::assert_snapshot!(without_version(&infer(&server, REST, &["--metadata"]).failure()), @"
    exit 0
    OpenVINO Model Server <version> is not ready.
    Model `slow` has no metadata: 404 Not Found: Model with requested version is not found
    ");
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let server = Server::start("dummy");
    for flags in [["--status"], ["--metadata"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = command(&server, GRPC)
            .arg("dummy")
            .args(flags)
            .stdout(writer)
            .stderr(Stdio::null())
            .spawn();
        assert!(child.unwrap().wait().unwrap().success(), "{flags:?}");
    }
}
