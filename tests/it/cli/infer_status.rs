//! `ovms infer --status` and `--metadata`: state and metadata of models, and errors.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{
    Server,
    cli::{self, ovms},
    infer::{
        APIS, GRPC, REST, TFS_GRPC, TFS_REST, at, command, failures, infer, json as json_of,
        redacted,
    },
    repository,
    server::free_ports,
};

/// Replaces the version of the server, which is part of some notes.
fn without_version(text: &str) -> String {
    text.replace(env!("CARGO_PKG_VERSION"), "<version>")
}

#[test]
fn the_states_of_a_model_are_a_table() {
    let server = Server::shared("dummy");
    for api in APIS {
        let run = infer(server, api, &["dummy", "--status"]);
        assert_eq!(run.failure(), "exit 0\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.text(), @"
            model  version  state
            dummy        1  READY
            ");
        }
        let of_version = infer(server, api, &["dummy", "--status", "--model-version=1"]);
        assert_eq!(of_version.text(), run.text());
    }
}

#[test]
fn the_states_of_all_models_are_a_table() {
    let server = Server::shared("dummy");
    for api in APIS {
        let run = infer(server, api, &["--status"]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(without_version(&run.failure()), @"
            exit 0
            OpenVINO Model Server <version> is ready.
            ");
            insta::assert_snapshot!(run.text(), @"
            model  version  state
            dummy        1  READY
            ");
        }
    }
}

#[test]
fn the_states_are_one_object() {
    let server = Server::shared("dummy");
    for api in APIS {
        let version = json!({
            "version": "1",
            "state": "READY",
            "ready": true,
            "error_code": null,
            "reason": "",
        });
        let models = json!([{ "name": "dummy", "versions": [version] }]);
        let one = json_of(server, api, &["dummy", "--status"]);
        assert_eq!(one, json!({ "api": api, "server": null, "models": models }));
        let all = json_of(server, api, &["--status"]);
        assert_eq!(all["models"], models);
        assert_eq!(all["server"]["ready"], true);
        assert!(all["server"]["name"].is_string(), "{all}");
    }
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

/// The reason is the server's text.
#[test]
fn a_version_that_failed_is_reported_with_its_reason() {
    let root = repository::of(&[("1", "dummy"), ("2", "dummy")]);
    std::fs::write(root.path().join("2/model.xml"), "<no model>").unwrap();
    let policy = r#"--model_version_policy={"all":{}}"#;
    let server = Server::begin("dummy", root.path(), &[policy]);
    server.wait_ready();
    for (api, well, failed) in [
        (GRPC, "READY", "UNAVAILABLE"),
        (REST, "READY", "UNAVAILABLE"),
        (TFS_GRPC, "AVAILABLE", "LOADING"),
        (TFS_REST, "AVAILABLE", "LOADING"),
    ] {
        let run = infer(&server, api, &["dummy", "--status"]);
        let text = run.text();
        let rows: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], ["model", "version", "state", "reason"], "{text}");
        assert_eq!(rows[1], ["dummy", "1", well, "-"], "{text}");
        assert_eq!(rows[2][..3], ["dummy", "2", failed], "{text}");
        assert_ne!(rows[2][3], "-", "{text}");
        let reported = json_of(&server, api, &["dummy", "--status"]);
        let versions = &reported["models"][0]["versions"];
        assert_eq!(versions[0]["ready"], true, "{reported}");
        assert_eq!(versions[1]["ready"], false, "{reported}");
        // Asked for alone, as well.
        let one = json_of(&server, api, &["dummy", "--status", "--model-version=2"]);
        assert_eq!(one["models"][0]["versions"], json!([versions[1]]));
    }
}

#[test]
fn the_metadata_of_a_model_is_a_table_for_inputs_and_one_for_outputs() {
    let server = Server::shared("two_outputs");
    for api in APIS {
        let run = infer(server, api, &["two_outputs", "--metadata"]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.failure(), @"
            exit 0
            Model `two_outputs`, version 1, platform OpenVINO.
            ");
            insta::assert_snapshot!(run.text(), @"
            input  datatype  shape
            x      FP32      (-1,4)

            output  datatype  shape
            total   FP32      (-1)
            twice   FP32      (-1,4)
            ");
        }
    }
}

#[test]
fn the_metadata_of_all_models_is_a_row_for_each_tensor() {
    let server = Server::shared("two_outputs");
    for api in APIS {
        let run = infer(server, api, &["--metadata"]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(without_version(&run.failure()), @"
            exit 0
            OpenVINO Model Server <version> is ready.
            ");
            insta::assert_snapshot!(run.text(), @"
            model        tensor  name   datatype  shape
            two_outputs  input   x      FP32      (-1,4)
            two_outputs  output  total  FP32      (-1)
            two_outputs  output  twice  FP32      (-1,4)
            ");
        }
    }
}

#[test]
fn the_metadata_is_one_object() {
    let server = Server::shared("dummy");
    let tensor = |name: &str| json!([{ "name": name, "datatype": "FP32", "shape": [1, 10] }]);
    for api in APIS {
        let models = json!([{
            "name": "dummy",
            "versions": ["1"],
            "platform": "OpenVINO",
            "inputs": tensor("b"),
            "outputs": tensor("a"),
            "error": null,
        }]);
        let one = json_of(server, api, &["dummy", "--metadata"]);
        assert_eq!(one, json!({ "api": api, "server": null, "models": models }));
        let all = json_of(server, api, &["--metadata"]);
        assert_eq!(all["models"], models);
        assert_ne!(all["server"], Value::Null);
    }
}

#[test]
fn dimensions_that_may_vary_are_reported() {
    let server = Server::shared("passthrough_f32");
    for api in APIS {
        let reported = json_of(server, api, &["passthrough_f32", "--metadata"]);
        let shape = reported["models"][0]["inputs"][0]["shape"]
            .as_array()
            .unwrap();
        assert!(shape.contains(&json!(-1)), "{reported}");
    }
}

#[test]
fn what_the_server_does_not_have_is_reported_with_the_nearest_name() {
    let server = Server::shared("dummy");
    let commands: [&[&str]; 4] = [
        &["dumy", "--status"],
        &["dumy", "--metadata"],
        &["dummy", "--status", "--model-version=7"],
        &["dummy", "--metadata", "--model-version=7"],
    ];
    insta::assert_snapshot!(failures(server, GRPC, &commands), @"
    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states
    ");
    insta::assert_snapshot!(failures(server, REST, &commands), @"
    exit 1
    error: the server refused the request: 404 Not Found: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states
    ");
}

#[test]
fn no_server_is_reported() {
    let _redacted = redacted();
    let (port, _) = free_ports();
    for api in [GRPC, REST, TFS_GRPC, TFS_REST] {
        for flags in [
            &["--status"][..],
            &["--metadata"],
            &["dummy", "--status"],
            &["dummy", "--metadata"],
        ] {
            let run = cli::run(at(port, api).args(flags));
            assert_eq!(run.text(), "");
            insta::allow_duplicates! {
                insta::assert_snapshot!(run.failure(), @"
                exit 69
                error: no server answers at <address>
                  caused by: Connection refused (os error 111)
                hint: is `ovms serve` running? `--url` names another address
                ");
            }
        }
    }
}

#[test]
fn another_protocol_is_reported() {
    let server = Server::shared("dummy");
    for (api, port) in [(GRPC, server.rest_port), (REST, server.port)] {
        for flags in [&["--status"][..], &["dummy", "--metadata"]] {
            let run = cli::run(at(port, api).args(flags));
            assert_eq!(run.code, Some(69), "{}", run.stderr);
            let other = if api == GRPC { REST } else { GRPC };
            let hint = format!("hint: it speaks `--api {other}`");
            assert!(run.stderr.contains(&hint), "{}", run.stderr);
        }
    }
}

#[test]
fn flags_of_requests_are_refused() {
    let texts: Vec<_> = [
        &["infer", "--status", "--zeros"][..],
        &["infer", "--status", "--metadata"],
        &["infer", "--status", "--model-version=1"],
        &["infer", "--status", "--output=npy"],
        &["infer", "--metadata", "--output=raw"],
    ]
    .iter()
    .map(|args| ovms(*args).failure())
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 64
    error parsing options: the argument '--status' cannot be used with '--zeros'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--status' cannot be used with '--metadata'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: the following required arguments were not provided:
      <MODEL>

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error: the status has no form as `--output npy` or `--output raw`
    hint: use `--output table` or `--output json`

    exit 64
    error: the metadata has no form as `--output npy` or `--output raw`
    hint: use `--output table` or `--output json`
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
