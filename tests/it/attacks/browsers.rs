//! Cross-site requests from a browser on the same machine or network: they must not manage the server.

use std::io::Write as _;

use super::{WITH_METRICS, small};
use crate::support::{
    Server,
    http::{Answer, connect, read},
};

/// Sends a request like a browser.
fn browse(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let mut stream = connect(server);
    let head = format!(
        "{method} {path} HTTP/1.1\r\n{}Connection: close\r\nContent-Length: 0\r\n\r\n",
        lines.concat()
    );
    stream.write_all(head.as_bytes()).unwrap();
    read(&mut stream)
}

/// Every management path, with its method.
const PATHS: [(&str, &str); 13] = [
    ("GET", "/"),
    ("GET", "/dashboard"),
    ("GET", "/dashboard/servables/dummy"),
    ("GET", "/dashboard/history"),
    ("GET", "/metrics"),
    ("GET", "/v1/config"),
    ("POST", "/v1/config/reload"),
    ("POST", "//v1/config/reload"),
    ("GET", "/dashboard/state"),
    ("GET", "/dashboard/servable?name=dummy"),
    ("GET", "/dashboard/drawing?name=dummy"),
    ("POST", "/v2/repository/index"),
    ("OPTIONS", "/v1/config/reload"),
];

fn refused(answer: &Answer) -> bool {
    answer.status == 403 && no_cors(answer)
}

fn no_cors(answer: &Answer) -> bool {
    !answer
        .headers
        .iter()
        .any(|(name, _)| name.starts_with("access-control-"))
}

#[test]
fn pages_of_other_origins_manage_nothing() {
    let server = Server::start_with("dummy", &["--metrics_enable", "--allow_credentials"]);
    let host = format!("localhost:{}", server.rest_port);
    let of_sequences = [
        ("GET", "/v1/models/dummy/sequences/1"),
        ("PUT", "//v1/models/dummy/versions/1/sequences/1"),
    ];
    for (method, path) in PATHS.into_iter().chain(of_sequences) {
        for foreign in [
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
            // Another program of this machine.
            ("Origin", "http://localhost:1"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Site", "same-site"),
        ] {
            let headers = [("Host", host.as_str()), ("Accept", "text/html"), foreign];
            let answer = browse(&server, method, path, &headers);
            assert!(refused(&answer), "{method} {path} {foreign:?}: {answer:?}");
        }
    }
    let headers = [("Host", host.as_str()), ("Origin", "https://evil.example")];
    let answer = browse(&server, "POST", "/v1/config/reload", &headers);
    let text = answer.error().replace(&host, "<host>");
    insta::assert_snapshot!(text, @"403: Pages of other origins may not use this path; expected the Origin of <host>, found `https://evil.example`");
}

#[test]
fn a_name_that_was_made_to_point_here_manages_nothing() {
    let server = &*WITH_METRICS;
    let host = format!("evil.example:{}", server.rest_port);
    let origin = format!("http://{host}");
    for (method, path) in PATHS {
        // To the browser it is the page's own origin.
        for own in [
            ("Origin", origin.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
            ("Sec-Fetch-Site", "none"),
        ] {
            let headers = [("Host", host.as_str()), ("Accept", "text/html"), own];
            let answer = browse(server, method, path, &headers);
            assert!(refused(&answer), "{method} {path} {own:?}: {answer:?}");
        }
    }
    let headers = [("Host", host.as_str()), ("Origin", origin.as_str())];
    let answer = browse(server, "POST", "/v1/config/reload", &headers);
    let text = answer.error().replace(&host, "<host>");
    insta::assert_snapshot!(text, @"403: Host is not one that browsers may use here; expected one of --allowed-hosts, found `<host>`");
}

#[test]
fn own_pages_and_programs_are_served_as_ever() {
    let server = &*WITH_METRICS;
    let host = format!("localhost:{}", server.rest_port);
    let origin = format!("http://{host}");
    let own = [
        ("Host", host.as_str()),
        ("Origin", origin.as_str()),
        ("Sec-Fetch-Site", "same-origin"),
        ("Accept", "text/html"),
    ];
    // Orchestrators and scrapers: whatever name they know the server by.
    let program = [("Host", "ovms.svc.cluster.local"), ("Accept", "text/html")];
    for headers in [&own[..], &program] {
        for (method, path) in PATHS {
            let answer = browse(server, method, path, headers);
            // A model has no drawing.
            let expected = if path.starts_with("/dashboard/drawing") {
                404
            } else {
                200
            };
            assert_eq!(answer.status, expected, "{method} {path} {headers:?}");
            assert!(no_cors(&answer), "{method} {path}: {answer:?}");
        }
    }
    // A link somewhere else to the page.
    let link = [
        ("Host", host.as_str()),
        ("Accept", "text/html"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    for path in ["/", "/dashboard", "/dashboard/servables/dummy"] {
        assert_eq!(browse(server, "GET", path, &link).status, 200, "{path}");
    }
    assert_eq!(browse(server, "GET", "/v1/config", &link).status, 403);
}

#[test]
fn inference_and_health_are_for_pages_of_all_origins() {
    let server = Server::shared("dummy");
    let foreign = [("Host", "evil.example"), ("Origin", "https://app.example")];
    for path in ["/v2/health/ready", "/v2/models/dummy", "/v1/models/dummy"] {
        let answer = browse(server, "GET", path, &foreign);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[test]
fn hosts_that_are_named_are_those_that_browsers_may_use() {
    let server = small();
    let status = |host: &str, origin: &str| {
        let headers = [("Host", host), ("Origin", origin)];
        browse(&server, "POST", "/v1/config/reload", &headers).status
    };
    assert_eq!(status("ovms.example", "https://ovms.example"), 200);
    assert_eq!(status("localhost", "http://localhost"), 403);
    assert_eq!(status("evil.example", "https://ovms.example"), 403);
}
