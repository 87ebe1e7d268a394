//! Paths that lead elsewhere than they seem to: out of what is served, around the rules of another path, or by way of
//! another protocol.

use std::io::{Read as _, Write as _};

use super::WITH_METRICS;
use crate::support::{
    grpc::{Grpc, dummy},
    http::{Answer, SPELLINGS, connect, get, send},
    wire::{self, Call},
};

/// Asserts that an answer has no contents of files, and no settings of the server.
fn check_empty(what: &str, answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.body);
    for contents in [
        "root:",
        "<net",
        "model_config_list",
        "model_version_status",
        "__metadata__",
    ] {
        assert!(!text.contains(contents), "{what}: {text}");
    }
}

#[test]
fn no_path_leads_to_a_file() {
    let server = &*WITH_METRICS;
    let ups = [
        "..",
        "%2e%2e",
        ".%2E",
        "..%2f..",
        "%2e%2e%2f%2e%2e",
        "..%5c..",
        "..;",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "....//..",
        "..%00",
    ];
    let roots = [
        "/",
        "/v2/",
        "/v2/models/",
        "/v2/models/dummy/",
        "/v2/models/dummy/versions/",
        "/v1/models/",
        "/v1/models/dummy/versions/",
        "/v1/models/dummy/sequences/",
        "/v3/models/",
        "/docs/",
        "/dashboard/",
        "/v2/systemsharedmemory/region/",
    ];
    for root in roots {
        for up in ups {
            for path in [
                format!("{root}{up}/{up}/{up}/etc/passwd"),
                format!("{root}{up}%2f{up}%2fetc%2fpasswd"),
                format!("{root}{up}"),
            ] {
                for method in ["GET", "POST", "PUT"] {
                    let answer = send(server, method, &path, &[], b"");
                    let what = format!("{method} {path}");
                    assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
                    check_empty(&what, &answer);
                }
            }
        }
    }
    // Names of models are looked up, and are no paths, on any other way either.
    let grpc = Grpc::connect(server);
    for name in [
        "../dummy",
        "/etc/passwd",
        "dummy/../dummy",
        "./dummy",
        "DUMMY",
        "dummy ",
        "dummy\0",
    ] {
        let mut request = dummy();
        request.model_name = name.to_owned();
        assert_eq!(
            grpc.refused(request),
            "NotFound: Model with requested name is not found",
            "{name:?}"
        );
    }
    for version in ["../1", "1/", "01x", "+1", " 1", "1\0"] {
        let mut request = dummy();
        request.model_version = version.to_owned();
        let refused = grpc.refused(request);
        assert!(
            refused.starts_with("InvalidArgument: "),
            "{version:?}: {refused}"
        );
    }
}

#[test]
fn no_spelling_of_a_path_goes_around_the_rules_for_browsers() {
    let server = &*WITH_METRICS;
    let foreign = ("Origin", "https://evil.example");
    for path in SPELLINGS {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "reload"] {
            let answer = send(server, method, path, &[foreign], b"");
            assert!(
                [400, 403, 404, 405].contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
            check_empty(path, &answer);
        }
    }
    // What proxies and frameworks heed, and this server does not.
    for header in [
        ("X-Forwarded-Host", "localhost"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("Forwarded", "host=localhost;for=127.0.0.1"),
        ("X-Original-URL", "/v2/health/live"),
        ("X-Rewrite-URL", "/v2/health/live"),
        ("X-HTTP-Method-Override", "OPTIONS"),
        ("X-Host", "localhost"),
    ] {
        let headers = [foreign, header];
        let answer = send(server, "POST", "/v1/config/reload", &headers, b"");
        assert_eq!(answer.status, 403, "{header:?}");
    }
}

#[test]
fn headers_choose_no_other_path_or_method() {
    let server = &*WITH_METRICS;
    for header in [
        ("X-HTTP-Method-Override", "POST"),
        ("X-HTTP-Method", "POST"),
        ("X-Method-Override", "POST"),
    ] {
        let reload = send(server, "GET", "/v1/config/reload", &[header], b"");
        assert_eq!(reload.status, 405, "{header:?}");
        let infer = send(server, "GET", "/v2/models/dummy/infer", &[header], b"");
        assert_eq!(infer.status, 405, "{header:?}");
    }
    for header in ["X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix"] {
        let answer = send(server, "GET", "/nowhere", &[(header, "/v1/config")], b"");
        assert_eq!(answer.status, 404, "{header}");
        check_empty(header, &answer);
    }
    // A target with a host is the path behind it, and the same rules hold.
    assert_eq!(get(server, "http://test/v1/config").status, 200);
    assert_eq!(get(server, "http://test/nowhere").status, 404);
    assert_eq!(send(server, "CONNECT", "test:80", &[], b"").status, 404);
}

#[test]
fn each_port_speaks_its_own_protocol_and_no_other() {
    let server = &*WITH_METRICS;
    // What asks for another protocol gets an answer of this one.
    let upgrade = [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
    ];
    assert_eq!(send(server, "GET", "/v2", &upgrade, b"").status, 200);
    let mut stream = connect(server);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
        "{answer}"
    );
    // Calls of gRPC on the port of REST.
    for path in [
        "/inference.GRPCInferenceService/ModelInfer",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        let grpc = [("Content-Type", "application/grpc")];
        let answer = send(server, "POST", path, &grpc, &[0; 5]);
        assert_eq!(answer.status, 404, "{path}");
    }
    // Paths of REST on the port of gRPC, however they are written.
    let paths = SPELLINGS.iter().filter(|path| path.starts_with('/'));
    let others = [
        "/v2/models/dummy/infer",
        "/",
        "/inference.grpcinferenceservice/ModelInfer",
        "/inference.GRPCInferenceService/ModelInfer/",
        "//inference.GRPCInferenceService/ModelInfer",
        "/inference.GRPCInferenceService/modelinfer",
        "/inference.GRPCInferenceService/Model%49nfer",
        "/inference.GRPCInferenceService/../inference.GRPCInferenceService/ModelInfer",
    ];
    let paths: Vec<&&str> = paths.chain(&others).collect();
    let calls: Vec<Call> = paths
        .iter()
        .map(|path| Call::of(path, Vec::new()))
        .collect();
    for (answer, path) in wire::send(server, &calls).into_iter().zip(paths) {
        let status = answer.expect_err(path);
        assert_eq!(
            status.code(),
            tonic::Code::Unimplemented,
            "{path}: {status:?}"
        );
    }
    Grpc::connect(server).check_serves();
}
