//! REST: every path, with the credentials that it takes and those that it does not.

use std::io::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Guarded, SERVER, bearer, identity, key};
use crate::support::{
    Server, eventually,
    grpc::{self, Grpc},
    http::{Answer, connect, connect_from, exchange, head, read, send},
};

const INFER: &str =
    r#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;
const GENERATE: &str = r#"{"b":[0,1,2,3,4,5,6,7,8,9]}"#;
const PREDICT: &str = r#"{"instances":[[0,1,2,3,4,5,6,7,8,9]]}"#;

/// Requirement of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Known,
    Infer,
    Metadata,
    /// One of the two.
    Either,
    Metrics,
    Admin,
    Dashboard,
}

use Needs::{Admin, Dashboard, Either, Infer, Known, Metadata, Metrics, Nothing};

/// Method, path, body, and what it needs; `MODEL` stands for a name.
const PATHS: [(&str, &str, &str, Needs); 43] = [
    ("GET", "/v2/health/live", "", Nothing),
    ("GET", "/v2/health/ready", "", Nothing),
    ("GET", "/v2", "", Known),
    ("POST", "/v2/repository/index", "", Known),
    ("GET", "/v2/models/stats", "", Known),
    ("GET", "/v1/config", "", Known),
    ("GET", "//v1/config", "", Known),
    ("GET", "/openapi.json", "", Known),
    ("GET", "/v3/models", "", Known),
    ("GET", "/v3/v1/models", "", Known),
    ("POST", "/v3/chat/completions", "", Known),
    ("GET", "/nothing/here", "", Known),
    ("POST", "/v2/models/MODEL/infer", INFER, Infer),
    ("POST", "/v2/models/MODEL/versions/1/infer", INFER, Infer),
    ("POST", "/v2/models/MODEL/generate", GENERATE, Infer),
    ("POST", "/v2/models/MODEL/generate_stream", GENERATE, Infer),
    ("POST", "/v1/models/MODEL:predict", PREDICT, Infer),
    (
        "POST",
        "//v1/models/MODEL/versions/1:predict",
        PREDICT,
        Infer,
    ),
    ("GET", "/v2/models/MODEL/ready", "", Either),
    ("GET", "/v2/models/MODEL/versions/1/ready", "", Either),
    ("GET", "/v1/models/MODEL", "", Either),
    ("GET", "/v2/models/MODEL", "", Metadata),
    ("GET", "/v2/models/MODEL/", "", Metadata),
    ("GET", "/v2/models/MODEL/config", "", Metadata),
    ("GET", "/v2/models/MODEL/stats", "", Metadata),
    ("GET", "/v1/models/MODEL/metadata", "", Metadata),
    ("GET", "/v3/models/MODEL", "", Metadata),
    ("GET", "/v3/v1/models/MODEL", "", Metadata),
    ("GET", "/metrics", "", Metrics),
    ("POST", "/v1/config/reload", "", Admin),
    ("GET", "/v1/models/MODEL/sequences/7", "", Admin),
    ("PUT", "/v1/models/MODEL/versions/1/sequences/7", "", Admin),
    ("DELETE", "/v1/models/MODEL/sequences/7", "", Admin),
    ("GET", "/v1/models/MODEL/versions/1/sequences", "", Admin),
    ("POST", "/v2/repository/models/MODEL/load", "", Admin),
    ("POST", "/v2/repository/models/MODEL/unload", "", Admin),
    ("GET", "/v2/systemsharedmemory/status", "", Admin),
    (
        "POST",
        "/v2/systemsharedmemory/region/r/register",
        "",
        Admin,
    ),
    (
        "POST",
        "/v2/cudasharedmemory/region/r/unregister",
        "",
        Admin,
    ),
    ("POST", "/v2/logging", "", Admin),
    ("GET", "/v2/models/MODEL/trace/setting", "", Admin),
    ("GET", "/dashboard/state", "", Dashboard),
    ("GET", "/docs", "", Dashboard),
];

fn ask(server: &Server, name: &str, method: &str, path: &str, body: &str) -> Answer {
    let bearer = bearer(name);
    let headers = [("authorization", &*bearer)];
    send(server, method, path, &headers, body.as_bytes())
}

fn with_metrics(lines: &str) -> Guarded {
    Guarded::start(lines, &["--metrics_enable", "--shared_memory", "/ovms_"])
}

/// A request with its tensor in a region.
const IN_A_REGION: &str = r#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32",
    "parameters":{"shared_memory_region":"r","shared_memory_byte_size":40}}]}"#;

#[test]
fn denials_are_counted_by_their_reason() {
    let guarded = with_metrics("max_failures_per_minute = 2");
    let server = &guarded.server;
    // It goes on when its address has to wait.
    let mut scraper = connect(server);
    let request = head(
        "GET",
        "/metrics",
        0,
        &[("authorization", &bearer("scraper"))],
    );
    let mut counts = || {
        let page = exchange(&mut scraper, &request, b"").text();
        let lines = page.lines();
        let lines = lines.filter(|line| line.starts_with("ovms_requests_denied{"));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(counts(), @r#"
    ovms_requests_denied{reason="credentials"} 0
    ovms_requests_denied{reason="failures"} 0
    ovms_requests_denied{reason="right"} 0
    ovms_requests_denied{reason="servable"} 0
    "#);
    let path = "/v2/models/secret";
    assert_eq!(send(server, "GET", path, &[], b"").status, 401);
    assert_eq!(ask(server, "user", "GET", path, "").status, 404);
    assert_eq!(
        ask(server, "user", "POST", "/v2/models/secret/infer", "{}").status,
        404
    );
    assert_eq!(
        ask(server, "user", "POST", "/v1/config/reload", "").status,
        403
    );
    assert_eq!(ask(server, "root", "GET", path, "").status, 200);
    // There is no model of this name that it lacks the right to.
    let path_of_all = "/v2/models/stats";
    assert_eq!(ask(server, "user", "GET", path_of_all, "").status, 200);
    let infer = "/v2/models/dummy/infer";
    assert_eq!(ask(server, "user", "POST", infer, IN_A_REGION).status, 403);
    for status in [401, 401, 429] {
        assert_eq!(ask(server, "wrong", "GET", path, "").status, status);
    }
    let refused = Grpc::connect(server).refused(grpc::dummy());
    assert!(refused.starts_with("Unauthenticated"), "{refused}");
    insta::assert_snapshot!(counts(), @r#"
    ovms_requests_denied{reason="credentials"} 4
    ovms_requests_denied{reason="failures"} 1
    ovms_requests_denied{reason="right"} 2
    ovms_requests_denied{reason="servable"} 2
    "#);
}

#[test]
fn tensors_in_regions_need_the_right_to_register_them() {
    let path = "/v2/models/dummy/infer";
    let error = |name| ask(&SERVER, name, "POST", path, IN_A_REGION).error();
    insta::assert_snapshot!(error("user"), @"403: Forbidden request - shared memory needs the right `admin`; send tensors with the request");
    insta::assert_snapshot!(error("root"), @"404: Unable to find shared memory region: 'r' - register it first");
}

#[test]
fn pages_of_the_server_may_send_the_password_of_a_browser() {
    let basic = format!("Basic {}", STANDARD.encode(format!("x:{}", key("root"))));
    let status = |site: Option<&str>| {
        let mut headers = vec![("authorization", &*basic)];
        headers.extend(site.map(|site| ("sec-fetch-site", site)));
        send(
            &SERVER,
            "POST",
            "/v2/models/dummy/infer",
            &headers,
            INFER.as_bytes(),
        )
        .status
    };
    assert_eq!(status(Some("same-origin")), 200);
    for site in [None, Some("cross-site"), Some("same-site"), Some("none")] {
        assert_eq!(status(site), 401, "{site:?}");
    }
}

#[test]
fn every_path_asks_for_an_identity() {
    let wrong: [&[(&str, &str)]; 5] = [
        &[],
        &[("authorization", "Bearer ovms_wrong")],
        &[("authorization", "Bearer a.b.c")],
        &[("x-api-key", "ovms_wrong")],
        &[("authorization", "Negotiate x")],
    ];
    for (method, path, body, needs) in PATHS {
        for headers in wrong {
            let path = path.replace("MODEL", "dummy");
            let answer = send(&SERVER, method, &path, headers, body.as_bytes());
            if needs == Nothing {
                assert_eq!(answer.status, 200, "{path}");
                continue;
            }
            let error = answer.error();
            assert!(
                error.starts_with("401: Unauthorized request - "),
                "{path}: {error}"
            );
            let challenge = answer.header("www-authenticate").unwrap();
            let of_pages = needs == Dashboard;
            assert_eq!(
                challenge.starts_with("Basic"),
                of_pages,
                "{path}: {challenge}"
            );
        }
    }
    // Methods that a path does not have are no way around it.
    for (method, path) in [
        ("DELETE", "/v2/models/dummy"),
        ("GET", "/v1/config/reload"),
        ("PATCH", "/metrics"),
    ] {
        let answer = send(&SERVER, method, path, &[], b"");
        assert_eq!(answer.status, 401, "{method} {path}");
    }
    let twice = [("x-api-key", &*key("root")), ("x-api-key", &*key("none"))];
    let answer = send(&SERVER, "GET", "/v2", &twice, b"");
    assert!(
        answer.error().contains("there are several credentials"),
        "{}",
        answer.error()
    );
}

#[test]
fn each_right_opens_its_paths_alone() {
    for (name, rights) in [
        ("none", &[][..]),
        ("runner", &[Infer, Either]),
        ("reader", &[Metadata, Either]),
        ("user", &[Infer, Metadata, Either]),
        ("scraper", &[Metrics]),
        ("viewer", &[Metadata, Either, Dashboard]),
        (
            "root",
            &[Infer, Metadata, Either, Metrics, Admin, Dashboard],
        ),
    ] {
        for (method, path, body, needs) in PATHS {
            let path = path.replace("MODEL", "dummy");
            let answer = ask(&SERVER, name, method, &path, body);
            let status = answer.status;
            let what = format!("{name}: {method} {path}: {status}");
            if rights.contains(&needs) || matches!(needs, Nothing | Known) {
                assert!(!matches!(status, 401 | 403), "{what}");
                let is_there = !matches!(needs, Known | Admin);
                assert!(!is_there || status == 200, "{what}");
            } else if matches!(needs, Infer | Metadata | Either) {
                assert_eq!(status, 404, "{what}");
            } else {
                let right = format!("{needs:?}").to_lowercase();
                let expected =
                    format!("403: Forbidden request - its identity lacks the right `{right}`");
                assert_eq!(answer.error(), expected, "{what}");
            }
        }
    }
}

#[test]
fn what_one_may_not_see_is_as_if_it_were_not_there() {
    let steady = |answer: &Answer, name: &str| {
        let mut headers = answer.headers.clone();
        headers.retain(|(name, _)| name != "date" && name != "content-length");
        let text = String::from_utf8_lossy(&answer.body).replace(name, "NAME");
        (answer.status, headers, text)
    };
    for (method, path, body, _) in PATHS.iter().filter(|(_, path, ..)| path.contains("MODEL")) {
        for body in [body, "{", ""] {
            for version in ["", "/versions/1", "/versions/9", "/versions/x"] {
                let path = path
                    .replace("/versions/1", "")
                    .replace("MODEL", &format!("MODEL{version}"));
                let ask = |name: &str| {
                    let answer = ask(&SERVER, "user", method, &path.replace("MODEL", name), body);
                    steady(&answer, name)
                };
                assert_eq!(ask("secret"), ask("absent"), "{method} {path} {body}");
            }
        }
    }
    for (method, path, ..) in PATHS {
        let path = path.replace("MODEL", "dummy");
        let text = String::from_utf8(ask(&SERVER, "user", method, &path, "").body).unwrap();
        assert!(!text.contains("secret"), "{path}: {text}");
    }
    // The same lists with all of it, for those who may.
    for path in [
        "/v1/config",
        "/openapi.json",
        "/v3/models",
        "/v2/models/stats",
        "/dashboard/state",
        "/docs",
    ] {
        let answer = ask(&SERVER, "root", "GET", path, "");
        assert!(
            answer.text().contains("secret"),
            "{path}: {}",
            answer.text()
        );
        if path != "/v2/models/stats" {
            continue;
        }
        let own = ask(&SERVER, "user", "GET", path, "").json();
        assert_eq!(own["model_stats"].as_array().unwrap().len(), 1, "{own}");
    }
    let state = ask(&SERVER, "viewer", "GET", "/dashboard/state", "").json();
    assert_eq!(state["totals"]["servables"], 1, "{state}");
    let index = ask(&SERVER, "none", "POST", "/v2/repository/index", "").json();
    assert_eq!(index, serde_json::json!([]));
}

#[test]
fn a_browser_gives_its_key_as_a_password() {
    let ask = |path: &str, key: &str| {
        let basic = format!("Basic {}", STANDARD.encode(format!("anyone:{key}")));
        let headers = [("authorization", &*basic), ("accept", "text/html")];
        send(&SERVER, "GET", path, &headers, b"").status
    };
    for path in [
        "/",
        "/dashboard/state",
        "/docs",
        "/dashboard/servable?name=dummy",
    ] {
        assert_eq!(ask(path, &key("viewer")), 200, "{path}");
        assert_eq!(ask(path, &key("user")), 403, "{path}");
        assert_eq!(ask(path, "wrong"), 401, "{path}");
    }
    assert_eq!(ask("/dashboard/servable?name=secret", &key("viewer")), 404);
    // Other paths could be asked by other pages of the browser.
    assert_eq!(ask("/v2/models/dummy", &key("viewer")), 401);
}

#[test]
fn nothing_of_a_body_is_read_before_its_sender_is_known() {
    for (name, status) in [("wrong", 401), ("scraper", 404), ("none", 404)] {
        let mut stream = connect(&SERVER);
        let header = [("authorization", &*bearer(name))];
        let head = head("POST", "/v2/models/dummy/infer", 1 << 20, &header);
        // The body never comes.
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(read(&mut stream).status, status, "{name}");
    }
}

#[test]
fn a_connection_is_of_nobody_in_particular() {
    let mut stream = connect(&SERVER);
    let mut ask = |name: &str| {
        let header = [("authorization", &*bearer(name))];
        exchange(&mut stream, &head("GET", "/metrics", 0, &header), b"").status
    };
    for (name, status) in [
        ("scraper", 200),
        ("none", 403),
        ("scraper", 200),
        ("wrong", 401),
        ("scraper", 200),
    ] {
        assert_eq!(ask(name), status, "{name}");
    }
}

#[test]
fn health_can_be_closed() {
    let guarded = with_metrics("open_health = false");
    let server = &guarded.server;
    for path in ["/v2/health/live", "/v2/health/ready"] {
        assert_eq!(send(server, "GET", path, &[], b"").status, 401, "{path}");
        assert_eq!(ask(server, "none", "GET", path, "").status, 200, "{path}");
    }
}

#[test]
fn an_address_that_guesses_has_to_wait() {
    let guarded = with_metrics("max_failures_per_minute = 3");
    let server = &guarded.server;
    // What shows nothing guesses nothing, and a key that is known stays so.
    for _ in 0..5 {
        assert_eq!(send(server, "GET", "/v2", &[], b"").status, 401);
        assert_eq!(ask(server, "none", "GET", "/v2", "").status, 200);
    }
    let mut known = connect(server);
    let header = [("authorization", &*bearer("none"))];
    let head = head("GET", "/v2", 0, &header);
    assert_eq!(exchange(&mut known, &head, b"").status, 200);
    for _ in 0..3 {
        assert_eq!(ask(server, "wrong", "GET", "/v2", "").status, 401);
    }
    for name in ["wrong", "none"] {
        let answer = ask(server, name, "GET", "/v2", "");
        assert_eq!(answer.status, 429, "{}", answer.text());
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    assert_eq!(exchange(&mut known, &head, b"").status, 200);
    assert_eq!(
        send(server, "GET", "/v2/health/ready", &[], b"").status,
        200
    );
    server.wait_log("3 credentials of 127.0.0.1 were refused in a minute");
}

#[test]
fn a_right_key_counts_however_many_addresses_guess() {
    let guarded = with_metrics("max_failures_per_minute = 1");
    let server = &guarded.server;
    let port = server.rest_port;
    let header = [("authorization", &*bearer("wrong"))];
    let head = head("GET", "/v2", 0, &header);
    let guess = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let mut stream = connect_from([127, 1, high, low], port);
        exchange(&mut stream, &head, b"").status
    };
    // As many as have a place, and two of those that share one.
    for number in 0..4097 {
        assert_eq!(guess(number), 401, "{number}");
    }
    assert_eq!(guess(4098), 429);
    assert_eq!(ask(server, "none", "GET", "/v2", "").status, 200);
}

#[test]
fn guesses_of_others_keep_nobody_out_who_is_known_when_the_rules_change() {
    let rules = |name: &str, servable: &str| {
        let rights = format!("metadata = [\"{servable}\"]");
        format!("max_failures_per_minute = 3\n{}", identity(name, &rights))
    };
    let poll = ["--file_system_poll_wait_seconds", "1"];
    let guarded = Guarded::with(&rules("known", "dummy"), &poll);
    let server = &guarded.server;
    let mut known = connect(server);
    let header = [("authorization", &*bearer("known"))];
    let head = head("GET", "/v2/models/secret", 0, &header);
    let mut status = || exchange(&mut known, &head, b"").status;
    assert_eq!(status(), 404);
    for _ in 0..3 {
        assert_eq!(ask(server, "wrong", "GET", "/v2", "").status, 401);
    }
    assert_eq!(ask(server, "known", "GET", "/v2", "").status, 429);
    let mut wait_for = |next: u16, before: u16| {
        eventually("the next rules", || {
            let status = status();
            assert!([next, before].contains(&status), "{status}");
            (status == next).then_some(())
        });
    };
    guarded.rewrite(&rules("known", "secret"));
    wait_for(200, 404);
    // One that is no longer known has one answer that says so.
    guarded.rewrite(&rules("other", "secret"));
    wait_for(401, 200);
    assert_eq!(status(), 429);
}

#[test]
fn a_failed_reload_is_reported_to_those_who_run_the_server() {
    let guarded = with_metrics("");
    let server = &guarded.server;
    std::fs::write(guarded.path("config.json"), "{").unwrap();
    let reload = ask(server, "root", "POST", "/v1/config/reload", "");
    assert_eq!(reload.status, 412);
    let failure = |name: &str| {
        let metadata = ask(server, name, "GET", "/v2", "").json();
        assert_eq!(metadata["name"], "OpenVINO Model Server");
        metadata["reload_failure"]["reason"]
            .as_str()
            .map(str::to_owned)
    };
    for name in ["root", "viewer"] {
        let reason = failure(name).unwrap();
        let begins = "cannot read the configuration: The file is not valid json";
        assert!(reason.starts_with(begins), "{reason}");
    }
    for name in ["runner", "reader", "user", "scraper"] {
        assert_eq!(failure(name), None, "{name}");
    }
}
