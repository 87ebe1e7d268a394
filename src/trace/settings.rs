//! Settings of traces: the flag, and the variables that OpenTelemetry knows.

use std::{path::PathBuf, time::Duration};

use opentelemetry::trace::TraceId;

use crate::tls::ClientTlsOptions;

/// Path of the collector that spans go to over HTTP, below an endpoint that is a base.
const PATH: &str = "/v1/traces";

/// Port of collectors for HTTP.
const HTTP_PORT: u16 = 4318;

/// Timeout of an export unless a variable says otherwise, as OpenTelemetry has it.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Spans that may wait unless a variable says otherwise, as OpenTelemetry has it.
const MAX_WAITING: usize = 2048;

/// Settings of traces, if there are to be any.
#[derive(Debug)]
pub struct TraceSettings {
    /// The endpoint of the flag; without it the exporter reads that of the variables.
    pub(super) endpoint: Option<String>,
    pub(super) protocol: TraceProtocol,
    pub(super) sampling: Sampling,
    /// The TLS to the collector, if it is reached over that.
    pub(super) tls: Option<ClientTlsOptions>,
    /// Timeout of an export over HTTP.
    pub(super) timeout: Duration,
    /// Maximum number of spans that wait.
    pub(super) most: usize,
    /// Variables that are not as they should be, and what is done instead.
    pub(super) warnings: Vec<String>,
}

/// Protocol of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceProtocol {
    Grpc,
    /// HTTP with protobuf.
    Http,
}

impl TraceSettings {
    /// Reads the variables beside the endpoint of the flag. `None` if nothing asks for traces, or
    /// `OTEL_SDK_DISABLED` forbids them.
    pub fn of(flag: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let variable = |name: &str| {
            let value = variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let mut warnings = Vec::new();
        let exporter = variable("OTEL_TRACES_EXPORTER");
        let of_traces = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let of_all = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
        let endpoint = flag.map(str::to_owned).or(of_traces).or(of_all);
        if flag.is_none() {
            match exporter.as_deref() {
                Some("otlp") => {}
                Some("none") => return None,
                Some(other) => {
                    // Whoever names it has not asked for another one.
                    tracing::warn!(
                        "OTEL_TRACES_EXPORTER has `{other}`, expected `otlp` or `none`; there are no traces"
                    );
                    return None;
                }
                None => drop(endpoint.as_ref()?),
            }
        }
        let protocol = protocol(endpoint.as_deref(), &variable, &mut warnings);
        let sampling = Sampling::read(&variable, &mut warnings);
        let timeout = variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_TIMEOUT"))
            .and_then(|text| text.parse().ok())
            .map_or(EXPORT_TIMEOUT, Duration::from_millis);
        let most = variable("OTEL_BSP_MAX_QUEUE_SIZE").and_then(|text| text.parse().ok());
        let file = |name: &str| {
            let of_traces = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
            let of_all = || variable(&format!("OTEL_EXPORTER_OTLP_{name}"));
            of_traces.or_else(of_all).map(PathBuf::from)
        };
        let tls = ClientTlsOptions {
            cacert: file("CERTIFICATE"),
            cert: file("CLIENT_CERTIFICATE"),
            key: file("CLIENT_KEY"),
            insecure: false,
        };
        let is_tls = endpoint.is_some_and(|endpoint| endpoint.starts_with("https://"));
        Some(Self {
            endpoint: flag.map(|flag| match protocol {
                TraceProtocol::Grpc => flag.to_owned(),
                TraceProtocol::Http if flag.ends_with(PATH) => flag.to_owned(),
                TraceProtocol::Http => format!("{}{PATH}", flag.trim_end_matches('/')),
            }),
            protocol,
            sampling,
            tls: is_tls.then_some(tls),
            timeout,
            most: most.filter(|&most| most > 0).unwrap_or(MAX_WAITING),
            warnings,
        })
    }
}

/// Chooses the protocol: by the variables, else by the usual ports and paths of collectors.
fn protocol(
    endpoint: Option<&str>,
    variable: &impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> TraceProtocol {
    for name in [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ] {
        match variable(name).as_deref() {
            Some("grpc") => return TraceProtocol::Grpc,
            Some("http/protobuf") => return TraceProtocol::Http,
            Some(other) => warnings.push(format!(
                "{name} has `{other}`, expected `grpc` or `http/protobuf`; it is passed over"
            )),
            None => {}
        }
    }
    let uri = endpoint.and_then(|endpoint| endpoint.parse::<hyper::Uri>().ok());
    match uri {
        Some(uri) if uri.port_u16() == Some(HTTP_PORT) || uri.path().ends_with(PATH) => {
            TraceProtocol::Http
        }
        _ => TraceProtocol::Grpc,
    }
}

/// Decides which requests have spans.
#[derive(Debug)]
pub(super) struct Sampling {
    /// Whether a request whose client says it has the decision of its client.
    pub(super) follows_parent: bool,
    /// Traces whose random number is below are sampled, out of [`RANDOM`].
    below: u64,
}

/// Count of the random numbers that ids of traces have in their last bytes, as OpenTelemetry's samplers read them.
const RANDOM: u64 = 1 << 63;

impl Sampling {
    fn read(variable: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<String>) -> Self {
        let named = variable("OTEL_TRACES_SAMPLER");
        let named = named.as_deref().unwrap_or("parentbased_always_on");
        let (follows_parent, name) = match named.strip_prefix("parentbased_") {
            Some(name) => (true, name),
            None => (false, named),
        };
        let below = match name {
            "always_on" => RANDOM,
            "always_off" => 0,
            "traceidratio" => {
                let text = variable("OTEL_TRACES_SAMPLER_ARG");
                let ratio = text.as_deref().map_or(Some(1.0), |text| {
                    let ratio = text.parse::<f64>().ok();
                    ratio.filter(|ratio| (0.0..=1.0).contains(ratio))
                });
                share(ratio.unwrap_or_else(|| {
                    warnings.push(format!(
                        "OTEL_TRACES_SAMPLER_ARG has `{}`, expected a number from 0 to 1; 1 is used",
                        text.unwrap_or_default()
                    ));
                    1.0
                }))
            }
            _ => {
                warnings.push(format!(
                    "OTEL_TRACES_SAMPLER has `{named}`, expected always_on, always_off, or traceidratio, also \
                     with parentbased_ before it; parentbased_always_on is used"
                ));
                return Self {
                    follows_parent: true,
                    below: RANDOM,
                };
            }
        };
        Self {
            follows_parent,
            below,
        }
    }

    /// Decides by the id of a trace.
    pub(super) fn takes(&self, trace: TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace.to_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.below
    }
}

/// Returns below which number the ids of a share of all traces are.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share is from 0 to 1"
)]
fn share(ratio: f64) -> u64 {
    (ratio * RANDOM as f64) as u64
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceId;

    use super::{TraceProtocol, TraceSettings};

    fn of(flag: Option<&str>, variables: &[(&str, &str)]) -> Option<TraceSettings> {
        TraceSettings::of(flag, |name| {
            let mut known = variables.iter().filter(|(known, _)| *known == name);
            known.next().map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_off_until_something_asks_for_them() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
        assert!(of(None, &[]).is_none());
        assert!(of(None, &[("OTEL_TRACES_SAMPLER", "always_on")]).is_none());
        assert!(of(Some("http://c:4317"), &[]).is_some());
        assert!(of(None, &[endpoint]).is_some());
        assert!(of(None, &[("OTEL_TRACES_EXPORTER", "otlp")]).is_some());
        assert!(of(None, &[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).is_none());
        assert!(of(None, &[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")]).is_none());
        let disabled = ("OTEL_SDK_DISABLED", "TRUE");
        assert!(of(Some("http://c:4317"), &[disabled]).is_none());
        assert!(of(Some("http://c"), &[("OTEL_SDK_DISABLED", "")]).is_some());
    }

    #[test]
    fn the_protocol_is_that_of_the_variables_or_of_the_port() {
        let chosen = |flag: &str, variables: &[(&str, &str)]| {
            let settings = of(Some(flag), variables).unwrap();
            (settings.protocol, settings.endpoint.unwrap())
        };
        let (grpc, http) = (TraceProtocol::Grpc, TraceProtocol::Http);
        let named = |value| ("OTEL_EXPORTER_OTLP_PROTOCOL", value);
        for (flag, variables, expected) in [
            ("http://c:4317", &[][..], (grpc, "http://c:4317")),
            ("http://c:4318", &[], (http, "http://c:4318/v1/traces")),
            ("http://c/v1/traces", &[], (http, "http://c/v1/traces")),
            (
                "http://c:4317/",
                &[named("http/protobuf")],
                (http, "http://c:4317/v1/traces"),
            ),
            ("http://c:4318", &[named("grpc")], (grpc, "http://c:4318")),
            (
                "http://c:1",
                &[
                    named("grpc"),
                    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
                ],
                (http, "http://c:1/v1/traces"),
            ),
        ] {
            let (protocol, endpoint) = chosen(flag, variables);
            assert_eq!((protocol, endpoint.as_str()), expected);
        }
        let other = of(Some("http://c:4317"), &[named("http/json")]).unwrap();
        assert_eq!(other.protocol, grpc);
        assert!(other.warnings[0].contains("`http/json`"), "{other:?}");
    }

    #[test]
    fn samplers_are_those_of_the_variables() {
        let sampling = |sampler: &str, argument: &str| {
            let variables = [
                ("OTEL_TRACES_SAMPLER", sampler),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ];
            let settings = of(Some("http://c:4317"), &variables).unwrap();
            (settings.sampling, settings.warnings.len())
        };
        let low = TraceId::from(1_u128);
        let high = TraceId::from(u128::MAX);
        for (sampler, argument, follows, takes, warnings) in [
            ("", "", true, [true, true], 0),
            ("always_on", "", false, [true, true], 0),
            ("parentbased_always_off", "", true, [false, false], 0),
            ("traceidratio", "0.5", false, [true, false], 0),
            ("parentbased_traceidratio", "0", true, [false, false], 0),
            ("parentbased_traceidratio", "1.5", true, [true, true], 1),
            ("parentbased_traceidratio", "x", true, [true, true], 1),
            ("xray", "", true, [true, true], 1),
        ] {
            let (sampling, told) = sampling(sampler, argument);
            let taken = [sampling.takes(low), sampling.takes(high)];
            assert_eq!(
                (sampling.follows_parent, taken, told),
                (follows, takes, warnings),
                "{sampler} {argument}"
            );
        }
    }

    #[test]
    fn shares_are_those_of_other_services() {
        use opentelemetry::trace::SpanKind;
        use opentelemetry_sdk::trace::{
            IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision, ShouldSample as _,
        };
        let ids = RandomIdGenerator::default();
        for ratio in [0.0, 1e-9, 0.01, 0.5, 0.99, 1.0] {
            let text = ratio.to_string();
            let variables = [
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", text.as_str()),
            ];
            let settings = of(Some("http://c:4317"), &variables).unwrap();
            let theirs = Sampler::TraceIdRatioBased(ratio);
            for _ in 0..1000 {
                let id = ids.new_trace_id();
                let result = theirs.should_sample(None, id, "", &SpanKind::Server, &[], &[]);
                let sampled = result.decision == SamplingDecision::RecordAndSample;
                assert_eq!(settings.sampling.takes(id), sampled, "{ratio} {id}");
            }
        }
    }

    #[test]
    fn spans_that_wait_are_bounded_as_the_variable_says() {
        let most = |size| {
            of(Some("http://c"), &[("OTEL_BSP_MAX_QUEUE_SIZE", size)])
                .unwrap()
                .most
        };
        assert_eq!(
            (most("7"), most(""), most("0"), most("x")),
            (7, 2048, 2048, 2048)
        );
    }
}
