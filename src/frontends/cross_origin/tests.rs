use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};

use super::{AllowedHosts, check_host, is_management};
use crate::config::{Config, FlagEnvironment, Flags};

/// Returns what is allowed with these bind addresses and this flag.
fn allowed(bound: &str, hosts: Option<&str>) -> AllowedHosts {
    let flags = Flags {
        model_name: Some("m".to_owned()),
        model_path: Some("/m".into()),
        rest_port: 8000,
        rest_bind_address: Some(bound.to_owned()),
        allowed_hosts: hosts.map(str::to_owned),
        ..Flags::default()
    };
    let config = Config::from_flags(flags, &FlagEnvironment::default());
    AllowedHosts::new(&config.unwrap().settings)
}

fn check(hosts: &AllowedHosts, method: Method, path: &str, headers: &[(&str, &str)]) -> String {
    let pairs = headers.iter().map(|(name, value)| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    });
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, value);
    }
    let checked = hosts.check(&method, &path.parse::<Uri>().unwrap(), &headers);
    checked.map_or_else(|error| error.message().to_owned(), |()| "ok".to_owned())
}

#[test]
fn paths_of_management_are_known_however_they_are_written() {
    for path in [
        "/",
        "/metrics",
        "/v1/config",
        "/v1/config/reload",
        "//v1/config/reload",
        "/v1/models/m/sequences/7",
        "//v1/models/m/versions/2/sequences/7",
        "/v1/models/m/sequences",
        "//v1/models/m/versions/2/sequences",
        "/dashboard/state",
        "/v2/repository/models/m/load",
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/systemsharedmemory/region/x/register",
    ] {
        assert!(is_management(path), "{path}");
    }
    for path in [
        "/v2",
        "/v2/health/ready",
        "/v2/models/m/infer",
        "/v1/models/config",
        "/v1/models/sequences/metadata",
        "/v1/models/m/sequences/x",
        "/v1/models/sequences",
        "/v1/configuration",
        "/metricsx",
        "/v3/models",
        "*",
        "",
    ] {
        assert!(!is_management(path), "{path}");
    }
}

/// The bind addresses, the flag, hosts that are allowed, and hosts that are not.
type Case = (
    &'static str,
    Option<&'static str>,
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn hosts_are_those_of_this_machine_and_the_bound_ones_unless_said_otherwise() {
    let cases: [Case; 6] = [
        (
            "127.0.0.1",
            None,
            &["localhost", "LocalHost", "localhost.", "127.0.0.1", "[::1]"],
            &[
                "10.1.2.3",
                "evil.example",
                "localhost.evil.example",
                "127.0.0.2",
                "",
            ],
        ),
        (
            "192.0.2.7,my-host",
            None,
            &["192.0.2.7", "my-host"],
            &["192.0.2.8", "my-hosts"],
        ),
        (
            "0.0.0.0",
            None,
            &["10.1.2.3", "127.0.0.2"],
            &["[2001:db8::1]", "evil.example"],
        ),
        (
            "::",
            None,
            &["10.1.2.3", "[2001:db8::1]", "[::ffff:10.1.2.3]"],
            &["evil.example"],
        ),
        (
            "0.0.0.0",
            Some("ovms.example, 192.0.2.1"),
            &["ovms.example", "192.0.2.1"],
            &["localhost", "127.0.0.1", "10.1.2.3"],
        ),
        ("127.0.0.1", Some("*"), &["evil.example", "10.1.2.3"], &[]),
    ];
    for (bound, flag, good, bad) in cases {
        let hosts = allowed(bound, flag);
        for host in good {
            assert!(hosts.contains(host), "{bound} {flag:?} {host}");
        }
        for host in bad {
            assert!(!hosts.contains(host), "{bound} {flag:?} {host}");
        }
    }
}

#[test]
fn what_sends_neither_header_is_not_looked_at() {
    let hosts = allowed("127.0.0.1", None);
    for host in ["evil.example", "", "not a host"] {
        let said = check(&hosts, Method::POST, "/v1/config/reload", &[("host", host)]);
        assert_eq!(said, "ok");
    }
    assert_eq!(check(&hosts, Method::GET, "/metrics", &[]), "ok");
}

#[test]
fn own_pages_may_and_others_may_not() {
    let hosts = allowed("0.0.0.0", Some("localhost,ovms.example"));
    let here = ("host", "localhost:8000");
    for headers in [
        &[here, ("origin", "http://localhost:8000")][..],
        &[here, ("sec-fetch-site", "same-origin")],
        &[here, ("sec-fetch-site", "none")],
        &[("host", "ovms.example"), ("origin", "https://OVMS.example")],
        &[
            ("host", "ovms.example:443"),
            ("origin", "https://ovms.example"),
        ],
        &[
            ("host", "ovms.example"),
            ("origin", "http://ovms.example:80"),
        ],
    ] {
        let said = check(&hosts, Method::POST, "/v1/config/reload", headers);
        assert_eq!(said, "ok", "{headers:?}");
    }
    let refused: Vec<String> = [
        &[here, ("origin", "https://evil.example")][..],
        &[here, ("origin", "null")],
        &[here, ("origin", "http://localhost:3000")],
        &[
            here,
            ("origin", "http://localhost:8000"),
            ("origin", "http://a"),
        ],
        &[
            ("host", "ovms.example"),
            ("origin", "https://ovms.example:8443"),
        ],
        &[here, ("sec-fetch-site", "cross-site")],
        &[here, ("sec-fetch-site", "same-site")],
        &[
            here,
            ("origin", "http://localhost:8000"),
            ("sec-fetch-site", "cross-site"),
        ],
        &[
            ("host", "evil.example:8000"),
            ("origin", "http://evil.example:8000"),
        ],
        &[("host", "evil.example"), ("sec-fetch-site", "same-origin")],
        &[("origin", "http://localhost:8000")],
    ]
    .iter()
    .map(|headers| check(&hosts, Method::POST, "/v1/config/reload", headers))
    .collect();
    insta::assert_snapshot!(refused.join("\n"), @"
    Pages of other origins may not use this path; expected the Origin of localhost:8000, found `https://evil.example`
    Pages of other origins may not use this path; expected the Origin of localhost:8000, found `null`
    Pages of other origins may not use this path; expected the Origin of localhost:8000, found `http://localhost:3000`
    Pages of other origins may not use this path; expected the Origin of localhost:8000, found `http://a`
    Pages of other origins may not use this path; expected the Origin of ovms.example, found `https://ovms.example:8443`
    Pages of other origins may not use this path; expected Sec-Fetch-Site to be same-origin or none, found `cross-site`
    Pages of other origins may not use this path; expected Sec-Fetch-Site to be same-origin or none, found `same-site`
    Pages of other origins may not use this path; expected Sec-Fetch-Site to be same-origin or none, found `cross-site`
    Host is not one that browsers may use here; expected one of --allowed-hosts, found `evil.example:8000`
    Host is not one that browsers may use here; expected one of --allowed-hosts, found `evil.example`
    Host is not one that browsers may use here; expected one of --allowed-hosts, found none
    ");
}

#[test]
fn a_link_to_the_page_may_be_followed_and_nothing_else() {
    let hosts = allowed("127.0.0.1", None);
    let linked = [
        ("host", "localhost:8000"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(check(&hosts, Method::GET, "/", &linked), "ok");
    for path in ["/?limit=5", "/dashboard", "/dashboard/servables/a%2Fb"] {
        assert_eq!(check(&hosts, Method::GET, path, &linked), "ok", "{path}");
    }
    assert_ne!(
        check(&hosts, Method::GET, "/dashboard/state", &linked),
        "ok"
    );
    assert_ne!(check(&hosts, Method::POST, "/", &linked), "ok");
    assert_ne!(check(&hosts, Method::GET, "/v1/config", &linked), "ok");
    let mut framed = linked;
    framed[3].1 = "iframe";
    assert_ne!(check(&hosts, Method::GET, "/", &framed), "ok");
    let mut elsewhere = linked;
    elsewhere[0].1 = "evil.example";
    assert_ne!(check(&hosts, Method::GET, "/", &elsewhere), "ok");
}

#[test]
fn a_long_header_is_repeated_in_part() {
    let hosts = allowed("127.0.0.1", None);
    let long = format!("http://{}", "a".repeat(4000));
    let headers = [("host", "localhost"), ("origin", long.as_str())];
    assert!(check(&hosts, Method::GET, "/metrics", &headers).len() < 400);
}

#[test]
fn one_host_is_right_and_none_for_the_old_version() {
    let check = |version, hosts: &[&str]| {
        let mut request = Request::builder().version(version);
        for host in hosts {
            request = request.header("host", *host);
        }
        check_host(&request.body(()).unwrap()).map_err(|error| error.to_string())
    };
    assert_eq!(check(Version::HTTP_11, &["a"]), Ok(()));
    assert_eq!(check(Version::HTTP_10, &[]), Ok(()));
    insta::assert_debug_snapshot!(check(Version::HTTP_11, &[]), @r#"
    Err(
        "a request needs one Host header; found 0",
    )
    "#);
    insta::assert_debug_snapshot!(check(Version::HTTP_10, &["a", "a"]), @r#"
    Err(
        "a request needs one Host header; found 2",
    )
    "#);
}
