//! The way of spans to a collector: protocols, variables, sampling, collectors that are not there, and what logs and
//! metrics have of traces.

use std::{
    fs,
    net::TcpListener,
    time::{Duration, Instant},
};

use crate::support::{
    Server,
    certificates::Certificates,
    collector::{Collector, hex},
    eventually,
    grpc::{Grpc, dummy},
    http::{get, post, send},
    server::free_ports,
};

const INFER: &str = "/v2/models/dummy/infer";

const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

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
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
            ("OTEL_SERVICE_NAME", "shapes"),
        ],
    );
    assert_eq!(post(&server, INFER, BODY).status, 200);
    let spans = collector.trace_named("POST /v2/models/{model}/infer");
    assert_eq!(spans.len(), 3);
    let (headers, resource) = collector.first();
    assert_eq!(headers["x-tenant"], "blue");
    assert_eq!(resource["service.name"], "shapes");
    assert_eq!(resource["deployment.environment"], "test");
    assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));

    // The flag takes precedence over the variable.
    let other = Collector::http();
    let server = serve(
        &["--otlp-endpoint", &other.url()],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &url),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ],
    );
    post(&server, INFER, BODY);
    other.trace_named("POST /v2/models/{model}/infer");
    assert_eq!(other.first().1["service.name"], "ovms");
    assert_eq!(collector.spans().len(), 3);
}

#[test]
fn headers_go_over_grpc_as_well_and_spans_may_be_compressed() {
    let collector = Collector::grpc();
    let server = serve(
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &collector.url()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ],
    );
    post(&server, INFER, BODY);
    collector.trace_named("POST /v2/models/{model}/infer");
    let (headers, _) = collector.first();
    assert_eq!(headers["x-tenant"], "blue");
    assert_eq!(headers["grpc-encoding"], "gzip");
}

#[test]
fn spans_go_over_tls_with_a_certificate_of_the_server() {
    let certificates = Certificates::new();
    certificates.write("server", 30);
    certificates.write("client", 30);
    let variables = [
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

    for (variables, traced) in [
        (&[("OTEL_TRACES_SAMPLER", "always_off")][..], false),
        (&[("OTEL_SDK_DISABLED", "true")], false),
        (&[("OTEL_TRACES_SAMPLER", "always_on")], true),
    ] {
        let server = serve(&["--otlp-endpoint", &collector.url()], variables);
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let answer = send(&server, "POST", INFER, &[("traceparent", parent)], BODY);
        assert_eq!(
            answer.header("traceparent").is_some(),
            traced,
            "{variables:?}"
        );
    }
}

#[test]
fn a_stop_sends_what_waits() {
    let collector = Collector::grpc();
    let mut server = serve(
        &["--otlp-endpoint", &collector.url()],
        &[("OTEL_BSP_SCHEDULE_DELAY", "600000")],
    );
    post(&server, INFER, BODY);
    server.signal("TERM");
    assert!(server.wait().success());
    assert_eq!(collector.spans().len(), 3);
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
fn lines_of_the_access_log_have_the_trace() {
    let collector = Collector::grpc();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let server = serve(
        &[
            "--otlp-endpoint",
            &collector.url(),
            "--access_log",
            file.to_str().unwrap(),
        ],
        &[],
    );
    let answer = post(&server, INFER, BODY);
    let trace = answer.header("traceparent").unwrap()[3..35].to_owned();
    get(&server, "/v2/health/live");
    let lines = eventually("two lines", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        (text.lines().count() == 2 && text.ends_with('\n')).then_some(text)
    });
    let (first, second) = lines.split_once('\n').unwrap();
    assert!(first.ends_with(&format!(" trace_id={trace}")), "{lines}");
    assert!(!second.contains("trace_id"), "{lines}");
}

#[test]
fn open_metrics_has_exemplars() {
    let collector = Collector::grpc();
    let server = serve(
        &["--otlp-endpoint", &collector.url(), "--metrics_enable"],
        &[],
    );
    let answer = post(&server, INFER, BODY);
    let parent = answer.header("traceparent").unwrap().to_owned();
    let accept = "application/openmetrics-text; version=1.0.0, text/plain";
    let page = send(&server, "GET", "/metrics", &[("accept", accept)], b"");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(page.header("content-type"), Some(content_type));
    let page = page.text();
    let (trace, span) = (&parent[3..35], &parent[36..52]);
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
}
