//! The audit log, and identities in the access log.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::Value;
use tonic::{Code, Request};

use super::{Guarded, bearer, key};
use crate::support::{
    Server, cli, eventually,
    grpc::{Grpc, dummy},
    http::send,
    model,
    wire::{self, Call},
};

/// Waits until a file has so many lines, and returns them.
fn lines(path: &Path, count: usize) -> Vec<Value> {
    eventually(&format!("{count} lines"), || {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<&str> = text.lines().collect();
        let is_whole = text.ends_with('\n') && lines.len() >= count;
        is_whole.then(|| {
            lines
                .iter()
                .map(|it| serde_json::from_str(it).unwrap())
                .collect()
        })
    })
}

fn ask(guarded: &Guarded, name: &str, method: &str, path: &str) -> u16 {
    let header = [("authorization", &*bearer(name))];
    send(&guarded.server, method, path, &header, b"{}").status
}

#[test]
fn requests_and_acts_of_an_administrator_have_their_lines_with_who_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [access, path] = ["access", "audit"].map(|name| folder.path().join(name));
    let flags = [
        "--access_log",
        access.to_str().unwrap(),
        "--audit_log",
        path.to_str().unwrap(),
        "--log_format",
        "json",
        "--shared_memory",
        "/ovms_",
    ];
    let guarded = Guarded::start("", &flags);
    ask(&guarded, "user", "GET", "/v2");
    ask(&guarded, "none", "GET", "/metrics");
    ask(&guarded, "wrong", "GET", "/v2");
    let grpc = Grpc::connect(&guarded.server);
    let mut request = Request::new(dummy());
    let metadata = request.metadata_mut();
    metadata.insert("x-api-key", key("root").parse().unwrap());
    grpc.infer(request).unwrap();
    let written = lines(&access, 4);
    let names = written.iter().map(|line| line["identity"].as_str());
    let expected = [Some("user"), Some("none"), None, Some("root")];
    assert_eq!(names.collect::<Vec<_>>(), expected);

    assert_eq!(ask(&guarded, "root", "POST", "/v1/config/reload"), 200);
    assert_eq!(ask(&guarded, "user", "POST", "/v1/config/reload"), 403);
    assert_eq!(
        ask(&guarded, "root", "PUT", "/v1/models/dummy/sequences/7"),
        412
    );
    let unregister = |name: &str| {
        let message = ovms::proto::kserve::SystemSharedMemoryUnregisterRequest {
            name: "a region".to_owned(),
        };
        let mut request = Request::new(message);
        let key = key(name).parse().unwrap();
        request.metadata_mut().insert("x-api-key", key);
        let mut client = grpc.client.clone();
        grpc.wait(async move { client.system_shared_memory_unregister(request).await })
    };
    unregister("root").unwrap();
    unregister("none").unwrap_err();
    // What is no act, and what nobody has sent.
    assert_eq!(ask(&guarded, "root", "GET", "/v2"), 200);
    assert_eq!(ask(&guarded, "wrong", "POST", "/v1/config/reload"), 401);
    let written = lines(&path, 5);
    let steady = written.iter().map(|line| {
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(
            line["peer"].as_str().unwrap().starts_with("127.0.0.1:"),
            "{line}"
        );
        let members = line.as_object().unwrap().iter();
        let members = members.filter(|(name, _)| !["timestamp", "peer"].contains(&name.as_str()));
        serde_json::to_string(&members.collect::<BTreeMap<_, _>>()).unwrap()
    });
    insta::assert_snapshot!(steady.collect::<Vec<_>>().join("\n"), @r#"
    {"action":"POST /v1/config/reload","identity":"root","protocol":"HTTP","result":"done","status":200}
    {"action":"POST /v1/config/reload","identity":"user","protocol":"HTTP","result":"denied","status":403}
    {"action":"PUT /v1/models/dummy/sequences/7","identity":"root","protocol":"HTTP","result":"failed","status":412}
    {"action":"/inference.GRPCInferenceService/SystemSharedMemoryUnregister","identity":"root","protocol":"gRPC","result":"done","status":0,"target":"a region"}
    {"action":"/inference.GRPCInferenceService/SystemSharedMemoryUnregister","identity":"none","protocol":"gRPC","result":"denied","status":7}
    "#);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The file may be moved away at any time.
    fs::rename(&path, folder.path().join("audit.1")).unwrap();
    ask(&guarded, "root", "POST", "/v1/config/reload");
    assert_eq!(lines(&path, 1).len(), 1);
    assert_eq!(lines(&folder.path().join("audit.1"), 5).len(), 5);
}

/// Returns the message of a load or unload of a model (`model_name`, field 2) with so many bytes of another field.
fn of_model(name: &str, more: usize) -> Vec<u8> {
    let field = |tag: u32, bytes: &[u8]| {
        let mut field = Vec::new();
        prost::encoding::bytes::encode(tag, &bytes.to_vec(), &mut field);
        field
    };
    [field(2, name.as_bytes()), field(3, &vec![0; more])].concat()
}

#[test]
fn without_identities_the_peer_is_all_that_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let server = Server::start_with("dummy", &["--audit_log", path.to_str().unwrap()]);
    assert_eq!(
        send(&server, "POST", "/v1/config/reload", &[], b"").status,
        200
    );
    assert_eq!(
        send(&server, "GET", "/v2/models/dummy", &[], b"").status,
        200
    );
    let line = &lines(&path, 1)[0];
    assert!(line.get("identity").is_none(), "{line}");
    assert_eq!(line["action"], "POST /v1/config/reload");
    assert_eq!(
        (&line["result"], &line["status"]),
        (&"done".into(), &200.into())
    );
    // A refused load names its model.
    for change in ["load", "unload"] {
        let path = format!("/v2/repository/models/a%20b/{change}");
        assert_eq!(send(&server, "POST", &path, &[], b"{}").status, 501);
    }
    let calls = [
        ("RepositoryModelLoad", of_model("resnet", 1000)),
        ("RepositoryModelUnload", of_model("resnet", 0)),
        // Neither a model, nor a message, nor a short one.
        ("RepositoryModelLoad", of_model("", 0)),
        ("RepositoryModelLoad", vec![0xff; 20]),
        ("RepositoryModelLoad", of_model("resnet", 1 << 20)),
        ("LogSettings", of_model("resnet", 0)),
    ];
    for (method, message) in calls {
        let path = format!("/inference.GRPCInferenceService/{method}");
        let answer = wire::send(&server, &[Call::of(&path, message)]).remove(0);
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    }
    let written = &lines(&path, 9)[1..];
    let targets: Vec<_> = written.iter().map(|it| it["target"].as_str()).collect();
    let (named, none) = (Some("resnet"), None);
    let all = [
        Some("a b"),
        Some("a b"),
        named,
        named,
        none,
        none,
        none,
        none,
    ];
    assert_eq!(targets, all, "{written:?}");
    assert!(written.iter().all(|it| it["result"] == "failed"));
}

#[test]
fn a_check_looks_at_the_places_of_logs() {
    let folder = tempfile::tempdir().unwrap();
    let check = |flag: &str, path: &Path| {
        cli::run(
            cli::command()
                .args([
                    "serve",
                    "--check=syntax",
                    "--rest-port=1",
                    "--model-name=dummy",
                    "--model-path",
                ])
                .arg(model("dummy"))
                .arg(format!("--{flag}={}", path.display())),
        )
    };
    for (flag, what) in [
        ("log-path", "log file"),
        ("access-log", "access log"),
        ("audit-log", "audit log"),
    ] {
        let refused = check(flag, Path::new("/nonexistent/log"));
        let expected = format!("cannot open {what} /nonexistent/log: ");
        assert_eq!(refused.code, Some(1), "{flag}");
        let said = format!("{}{}", refused.text(), refused.failure());
        assert!(said.contains(&expected), "{said}");
        let new = folder.path().join(flag);
        assert_eq!(check(flag, &new).code, Some(0), "{flag}");
        assert!(!new.exists(), "a check makes no file");
    }
}
