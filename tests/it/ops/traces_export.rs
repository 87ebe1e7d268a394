//! The way of spans to a collector: protocols, variables, sampling, collectors that are not there, and what logs and
//! metrics have of traces.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use super::{BODY, INFER};
use crate::support::{
    Server,
    certificates::Certificates,
    collector::{Collector, hex},
    eventually,
    grpc::{Grpc, dummy},
    http::{get, post, send},
    server::free_ports,
};

fn serve(flags: &[&str], variables: &[(&str, &str)]) -> Server {
    let variables = [&[("OTEL_BSP_SCHEDULE_DELAY", "20")], variables].concat();
    Server::start_in(&variables, "dummy", flags)
}

#[test]
fn spans_go_over_http_as_the_variables_say() {
    let collector = Collector::http();
    let url = format!("{}/", collector.url());
    let server = serve(
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment=test%2C%20really,service.name=other",
            ),
            ("OTEL_SERVICE_NAME", "shapes"),
        ],
    );
    assert_eq!(post(&server, INFER, BODY).status, 200);
    let spans = collector.trace_named("POST /v2/models/{model}/infer");
    assert_eq!(spans.len(), 3);
    let (headers, resource) = collector.first();
    assert_eq!(headers["x-tenant"], "blue");
    assert_eq!(resource["service.name"], "shapes");
    assert_eq!(resource["deployment.environment"], "test, really");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_stop_sends_what_waits_with_headers_and_compressed() {
    let collector = Collector::grpc();
    let mut server = serve(
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.url()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
            ("OTEL_TRACES_SAMPLER", "always_on"),
        ],
    );
    // This sampler takes what its client leaves out as well.
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let answer = send(&server, "POST", INFER, &[("traceparent", parent)], BODY);
    assert!(answer.header("traceparent").is_some());
    server.signal("TERM");
    assert!(server.wait().success());
    assert_eq!(collector.spans().len(), 3);
    let (headers, _) = collector.first();
    assert_eq!(headers["x-tenant"], "blue");
    assert_eq!(headers["grpc-encoding"], "gzip");
}

#[test]
fn spans_go_over_tls_with_a_certificate_of_the_server() {
    let certificates = Certificates::new();
    certificates.write("server", 30);
    certificates.write("client", 30);
    // The flag takes precedence over the variable.
    let other = Collector::http();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", other.url()),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            certificates.text("ca.pem"),
        ),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            certificates.text("client.pem"),
        ),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
            certificates.text("client.key"),
        ),
    ];
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, &value[..]));
    for (collector, protocol) in [
        (Collector::grpc_tls(&certificates), "grpc"),
        (Collector::http_tls(&certificates), "http/protobuf"),
    ] {
        let protocol = ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        let variables = [&variables[..], &[protocol]].concat();
        let server = serve(&["--otlp-endpoint", &collector.https()], &variables);
        post(&server, INFER, BODY);
        collector.trace_named("POST /v2/models/{model}/infer");
        assert_eq!(collector.first().1["service.name"], "ovms");
        assert!(other.spans().is_empty());
    }
}

#[test]
fn sampling_follows_the_client_and_then_the_ratio() {
    let collector = Collector::grpc();
    let server = serve(
        &["--otlp-endpoint", &collector.url()],
        &[
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0"),
        ],
    );
    let ask = |flags: &str| {
        let parent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        let answer = send(&server, "POST", INFER, &[("traceparent", &parent)], BODY);
        answer.header("traceparent").is_some()
    };
    assert!(!ask("00"));
    assert_eq!(post(&server, INFER, BODY).header("traceparent"), None);
    assert!(ask("01"));
    let spans = collector.trace_of("0af7651916cd43dd8448eb211c80319c");
    assert_eq!(collector.spans().len(), spans.len());

    for variable in [
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_SDK_DISABLED", "true"),
    ] {
        let server = serve(&["--otlp-endpoint", &collector.url()], &[variable]);
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let answer = send(&server, "POST", INFER, &[("traceparent", parent)], BODY);
        assert_eq!(answer.header("traceparent"), None, "{variable:?}");
    }
}

/// A collector that is not there, and one that never answers, hold nothing up.
#[test]
fn a_dead_collector_does_no_harm() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let absent = format!("http://127.0.0.1:{}", free_ports().0);
    for protocol in ["grpc", "http/protobuf"] {
        for url in [&silent, &absent] {
            let mut server = serve(
                &["--otlp-endpoint", url, "--otlp-flush-seconds", "1"],
                &[
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                    ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
                    ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
                    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
                ],
            );
            let grpc = Grpc::connect(&server);
            let begun = Instant::now();
            for _ in 0..100 {
                grpc.answered(dummy());
            }
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(5), "{protocol} {url}: {took:?}");
            server.wait_log("spans wait for the collector");
            server.wait_log("the collector does not accept spans");
            drop(grpc);
            let begun = Instant::now();
            server.signal("TERM");
            assert!(server.wait().success());
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(8), "{protocol} {url}: {took:?}");
        }
    }
}

#[test]
fn the_access_log_and_open_metrics_have_traces_and_probes_have_none() {
    let collector = Collector::grpc();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let flags = [
        "--otlp-endpoint",
        &collector.url(),
        "--access_log",
        file.to_str().unwrap(),
        "--metrics_enable",
    ];
    let server = serve(&flags, &[]);
    let answer = post(&server, INFER, BODY);
    let parent = answer.header("traceparent").unwrap();
    let (trace, span) = (&parent[3..35], &parent[36..52]);
    get(&server, "/v2/health/live");
    let lines = eventually("two lines", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        (text.lines().count() == 2 && text.ends_with('\n')).then_some(text)
    });
    let (first, second) = lines.split_once('\n').unwrap();
    assert!(first.ends_with(&format!(" trace_id={trace}")), "{lines}");
    assert!(!second.contains("trace_id"), "{lines}");

    let accept = "application/openmetrics-text; version=1.0.0, text/plain";
    let page = send(&server, "GET", "/metrics", &[("accept", accept)], b"");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(page.header("content-type"), Some(content_type));
    let page = page.text();
    let exemplar = format!(r#" # {{trace_id="{trace}",span_id="{span}"}} "#);
    let line = page.lines().find(|line| line.contains(&exemplar));
    let line = line.unwrap_or_else(|| panic!("{page}"));
    assert!(
        line.starts_with(
            r#"ovms_request_time_us_bucket{interface="REST",name="dummy",version="1",le=""#
        ),
        "{line}"
    );
    assert!(page.ends_with("# EOF\n"), "{page}");
    assert!(
        page.contains("# TYPE ovms_requests_success unknown\n"),
        "{page}"
    );
    // Others get the page as ever.
    let page = get(&server, "/metrics").text();
    assert!(
        !page.contains("trace_id") && !page.contains("EOF"),
        "{page}"
    );
    assert!(
        page.contains("# TYPE ovms_requests_success counter\n"),
        "{page}"
    );
    let spans = collector.trace_of(trace);
    assert!(spans.iter().any(|it| hex(&it.span_id) == span));

    for path in ["/v2/health/live", "/v2/models/dummy/ready", "/metrics", "/"] {
        assert_eq!(get(&server, path).header("traceparent"), None, "{path}");
    }
    Grpc::connect(&server).round_trip();
    get(&server, "/v2/models/dummy");
    collector.trace_named("GET /v2/models/{model}");
    assert_eq!(collector.spans().len(), spans.len() + 1);
}
