//! Settings of traces that are not as they should be: what a start and a check say of them.

use crate::support::{
    Server,
    certificates::Certificates,
    cli::{self, Run},
    model,
    server::{free_ports, on},
};

type Variable<'a> = (&'a str, &'a str);

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// An endpoint with TLS that nobody listens at.
const HTTPS: Variable<'_> = (ENDPOINT, "https://127.0.0.1:9");

/// Variables with values that are not known.
const UNKNOWN: [Variable<'_>; 7] = [
    ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "abc"),
    ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue,secret-key"),
    ("OTEL_BSP_SCHEDULE_DELAY", "y"),
    ("OTEL_BSP_MAX_QUEUE_SIZE", "x"),
    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "q"),
    ("OTEL_BSP_EXPORT_TIMEOUT", "z"),
];

/// Runs a start that fails.
fn start(flags: &[&str], variables: &[Variable<'_>]) -> String {
    let mut command = cli::command();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(on(free_ports()))
        .args(flags)
        .envs(variables.iter().copied());
    cli::run(&mut command).failure()
}

/// Runs a check: `--check`, or `--check=syntax`.
fn check(depth: &str, variables: &[Variable<'_>]) -> Run {
    let mut command = cli::command();
    command
        .args(["serve", depth, "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .envs(variables.iter().copied());
    cli::run(&mut command)
}

#[test]
fn what_is_no_endpoint_is_refused() {
    insta::assert_snapshot!(start(&["--otlp-endpoint", "collector:4317"], &[]), @r"
    exit 64
    otlp_endpoint has invalid format: expected a URL such as http://collector:4317; found collector:4317
    ");
    insta::assert_snapshot!(start(&[], &[(ENDPOINT, "garbage")]), @"
    exit 1
    error: OTEL_EXPORTER_OTLP_ENDPOINT has `garbage`, expected a URL with http:// or https://, such as http://collector:4317
    hint: see --otlp-endpoint and the variables OTEL_EXPORTER_OTLP_…
    ");
    insta::assert_snapshot!(check("--check=syntax", &[(ENDPOINT, "garbage")]).failure(), @"
    exit 1
    error: the check found 1 error
      error: OTEL_EXPORTER_OTLP_ENDPOINT has `garbage`, expected a URL with http:// or https://, such as http://collector:4317
    hint: see --otlp-endpoint and the variables OTEL_EXPORTER_OTLP_…
    ");
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let cert = ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "client.pem");
    insta::assert_snapshot!(start(&[], &[HTTPS, cert]), @"
    exit 1
    error: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE is set but OTEL_EXPORTER_OTLP_CLIENT_KEY is not set: a client shows the collector a certificate with both
    hint: set OTEL_EXPORTER_OTLP_CLIENT_KEY as well, or take OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE away
    ");
    let key = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "client.key");
    insta::assert_snapshot!(check("--check=syntax", &[HTTPS, key]).failure(), @"
    exit 1
    error: the check found 1 error
      error: OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY is set but OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE is not set: a client shows the collector a certificate with both
    hint: set OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE as well, or take OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY away
    ");
}

#[test]
fn files_that_cannot_be_used_are_reported_with_their_variables() {
    let authority = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem");
    insta::assert_snapshot!(start(&["--otlp-endpoint", HTTPS.1], &[authority]), @r"
    exit 1
    error: the certificates for the collector of traces cannot be used
      caused by: cannot use OTEL_EXPORTER_OTLP_CERTIFICATE /nowhere/ca.pem
      caused by: cannot read the file
      caused by: No such file or directory (os error 2)
    hint: check the path
    ");
    let made = Certificates::new();
    made.write("client", 30);
    let path = made.text("client.pem");
    let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    for variables in [&[HTTPS][..], &[HTTPS, http]] {
        let of = |name: &str| {
            let files = [
                ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", made.text("ca.pem")),
                ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", path.clone()),
                (
                    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
                    made.text("client.key"),
                ),
            ];
            let files = files.map(|(it, path)| match it == name {
                true => (it, made.text("none")),
                false => (it, path),
            });
            let files = files.each_ref().map(|(it, path)| (*it, path.as_str()));
            let variables = [variables, &files].concat();
            // Nothing that a variable names is opened for the syntax.
            let syntax = check("--check=syntax", &variables);
            assert_eq!(syntax.code, Some(0), "{}", syntax.stderr);
            check("--check", &variables)
        };
        let good = of("");
        assert_eq!(good.code, Some(0), "{}", good.stderr);
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
        ] {
            let none = made.text("none");
            let failure = of(name).failure();
            let text = format!("cannot be used: cannot use {name} {none}: cannot read the file");
            assert!(failure.starts_with("exit 1\n"), "{failure}");
            assert!(failure.contains(&text), "{failure}");
        }
    }
}

#[test]
fn values_that_are_not_known_are_warned_of() {
    let absent = (ENDPOINT, "http://127.0.0.1:9");
    let variables = [&[absent][..], &UNKNOWN].concat();
    let text = check("--check", &variables).failure();
    insta::assert_snapshot!(text, @"
    exit 2
    warning: no errors, but 7 warnings
      warning: OTEL_EXPORTER_OTLP_COMPRESSION has `brotli`, expected `gzip` or `none`; none is used
      warning: OTEL_EXPORTER_OTLP_TRACES_TIMEOUT has `abc`, expected a whole number of milliseconds from 1 to 4294967295; 10000 is used
      warning: OTEL_BSP_EXPORT_TIMEOUT has `z`, expected a whole number of milliseconds from 1 to 4294967295; 10000 is used
      warning: OTEL_EXPORTER_OTLP_HEADERS has something else as entry 2 of 2, expected a header as `name=value`; the entry is ignored
      warning: OTEL_BSP_SCHEDULE_DELAY has `y`, expected a whole number of milliseconds from 1 to 4294967295; 5000 is used
      warning: OTEL_BSP_MAX_QUEUE_SIZE has `x`, expected a whole number from 1 to 1000000; 2048 is used
      warning: OTEL_BSP_MAX_EXPORT_BATCH_SIZE has `q`, expected a whole number from 1 to 1000000; 512 is used
    ");
    assert_eq!(check("--check=syntax", &variables).failure(), text);

    // A start says the same, and serves.
    let server = Server::start_in(&variables, "dummy", &[]);
    let log = server.log();
    let warnings: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("warning: OTEL"))
        .collect();
    assert_eq!(warnings.len(), UNKNOWN.len());
    for warning in warnings {
        assert!(log.contains(warning), "{warning}: {log}");
    }
    assert!(!log.contains("secret-key"), "{log}");
}
