//! Settings of traces: the flag, and the variables that OpenTelemetry knows.

use std::{path::PathBuf, time::Duration};

use hyper::{
    Uri,
    header::{HeaderName, HeaderValue},
};
use percent_encoding::percent_decode_str;

use super::{
    error::TraceError,
    sampling::Sampling,
    variables::{Setting, Variables},
};
use crate::tls::{ClientTlsNames, ClientTlsOptions};

/// Path of the collector that spans go to over HTTP, below an endpoint that is a base.
const PATH: &str = "/v1/traces";

/// Port of collectors for HTTP.
const HTTP_PORT: u16 = 4318;

/// The flag of the endpoint.
const FLAG: &str = "--otlp-endpoint";

/// Variables of the endpoint, of which the first one is no base.
const ENDPOINT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Variables of the authorities of the collector.
const CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];

/// Variables of the certificate of this server as a client.
const CLIENT_CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
];

/// Variables of its key, in the order of those of the certificate.
const CLIENT_KEY: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
];

/// Variables of the headers of an export. The exporter reads them itself, and drops what is no header.
const HEADERS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];

/// The variable of what all spans say of the server. OpenTelemetry's library would not decode it.
const ATTRIBUTES: [&str; 1] = ["OTEL_RESOURCE_ATTRIBUTES"];

/// Maximum milliseconds of a time: 49 days.
const MAX_MILLISECONDS: u64 = u32::MAX as u64;

const MILLISECONDS: &str = "a whole number of milliseconds from 1 to 4294967295";

/// Maximum number of spans that may wait; places for all of them are made at the start.
const MAX_SPANS: u64 = 1_000_000;

const SPANS: &str = "a whole number from 1 to 1000000";

const DISABLED: Setting<'_> = Setting {
    names: &["OTEL_SDK_DISABLED"],
    expected: "`true` or `false`",
    default: "false",
};

/// The protocol; the endpoint decides the default.
const PROTOCOL: Setting<'_> = Setting {
    names: &[
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ],
    expected: "`grpc` or `http/protobuf`",
    default: GRPC,
};

const GRPC: &str = "grpc";

const HTTP: &str = "http/protobuf";

const COMPRESSION: Setting<'_> = Setting {
    names: &[
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
    ],
    expected: "`gzip` or `none`",
    default: "none",
};

/// The timeout of an export. This default and those below are those of OpenTelemetry.
const TIMEOUT: Setting<'_> = Setting {
    names: &[
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        "OTEL_EXPORTER_OTLP_TIMEOUT",
    ],
    expected: MILLISECONDS,
    default: "10000",
};

/// The same for the queue; the default is the timeout above.
const EXPORT_TIMEOUT: Setting<'_> = Setting {
    names: &["OTEL_BSP_EXPORT_TIMEOUT"],
    expected: MILLISECONDS,
    default: TIMEOUT.default,
};

const SCHEDULE_DELAY: Setting<'_> = Setting {
    names: &["OTEL_BSP_SCHEDULE_DELAY"],
    expected: MILLISECONDS,
    default: "5000",
};

const MAX_QUEUE_SIZE: Setting<'_> = Setting {
    names: &["OTEL_BSP_MAX_QUEUE_SIZE"],
    expected: SPANS,
    default: "2048",
};

const MAX_EXPORT_BATCH_SIZE: Setting<'_> = Setting {
    names: &["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"],
    expected: SPANS,
    default: "512",
};

/// Settings of traces, if there are to be any.
#[derive(Debug)]
pub struct TraceSettings {
    /// Endpoint that spans go to; that of the usual collectors of this machine if not known.
    pub(super) endpoint: Option<String>,
    pub(super) protocol: TraceProtocol,
    pub(super) sampling: Sampling,
    /// The TLS to the collector, if it is reached over that.
    pub(super) tls: Option<TraceTls>,
    /// Enables the compression of exports with gzip.
    pub(super) is_compressed: bool,
    /// Timeout of an export.
    pub(super) timeout: Duration,
    /// Time between two exports.
    pub(super) delay: Duration,
    /// Maximum number of spans that wait.
    pub(super) most: usize,
    /// Maximum number of spans of an export.
    pub(super) batch: usize,
    /// Name of the service, if a variable of its own has it.
    pub(super) service: Option<String>,
    /// Attributes of the server, with their values.
    pub(super) attributes: Vec<(String, String)>,
}

/// Protocol of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceProtocol {
    Grpc,
    /// HTTP with protobuf.
    Http,
}

/// TLS to a collector: its files, and the variables that name them.
#[derive(Debug, Clone)]
pub(super) struct TraceTls {
    pub(super) options: ClientTlsOptions,
    pub(super) names: ClientTlsNames,
}

impl TraceSettings {
    /// Reads the variables beside the endpoint of the flag, and adds warnings of those whose values are not known.
    /// `None` if nothing asks for traces, or `OTEL_SDK_DISABLED` forbids them.
    ///
    /// # Errors
    ///
    /// Fails if the endpoint is no URL, or a certificate for it is without its key.
    pub fn of(
        flag: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, TraceError> {
        let mut variables = Variables::new(variable, warnings);
        let is_disabled = variables.setting(&DISABLED, |text| {
            text.to_ascii_lowercase().parse::<bool>().ok()
        });
        if is_disabled {
            return Ok(None);
        }
        let endpoint = match flag {
            Some(flag) => Some((FLAG, flag.to_owned())),
            None => variables.first(&ENDPOINT),
        };
        if flag.is_none() {
            match variables.get("OTEL_TRACES_EXPORTER").as_deref() {
                Some("otlp") => {}
                Some("none") => return Ok(None),
                Some(other) => {
                    // Whoever names it has not asked for another one.
                    variables.warn(format!(
                        "OTEL_TRACES_EXPORTER has `{other}`, expected `otlp` or `none`; there are no traces"
                    ));
                    return Ok(None);
                }
                None if endpoint.is_none() => return Ok(None),
                None => {}
            }
        }
        let uri = match &endpoint {
            Some((name, value)) => {
                Some(collector_url(value).ok_or_else(|| TraceError::Endpoint {
                    name,
                    value: value.clone(),
                })?)
            }
            None => None,
        };
        let protocol = protocol(uri.as_ref(), &mut variables);
        let is_tls = uri.is_some_and(|uri| uri.scheme_str() == Some("https"));
        let is_compressed = variables.setting(&COMPRESSION, |text| {
            let is_gzip = text.eq_ignore_ascii_case("gzip");
            (is_gzip || text.eq_ignore_ascii_case("none")).then_some(is_gzip)
        });
        let timeout = variables.setting(&TIMEOUT, milliseconds);
        let of_processor = Setting {
            default: &timeout.as_millis().to_string(),
            ..EXPORT_TIMEOUT
        };
        // Nothing in OpenTelemetry's library heeds it, so that it bounds the export itself.
        let timeout = timeout.min(variables.setting(&of_processor, milliseconds));
        variables.list(&HEADERS, "a header", is_header);
        Ok(Some(Self {
            endpoint: endpoint.map(|(name, url)| match protocol {
                TraceProtocol::Http if name != ENDPOINT[0] && !url.ends_with(PATH) => {
                    format!("{}{PATH}", url.trim_end_matches('/'))
                }
                _ => url,
            }),
            protocol,
            sampling: Sampling::read(&mut variables),
            tls: is_tls.then(|| tls(&variables)).transpose()?,
            is_compressed,
            timeout,
            delay: variables.setting(&SCHEDULE_DELAY, milliseconds),
            most: variables.setting(&MAX_QUEUE_SIZE, spans),
            batch: variables.setting(&MAX_EXPORT_BATCH_SIZE, spans),
            service: variables.get("OTEL_SERVICE_NAME"),
            attributes: attributes(&mut variables),
        }))
    }
}

/// Reads the URL of a collector; `None` if it is none, or its scheme is not http or https.
pub(crate) fn collector_url(text: &str) -> Option<Uri> {
    let uri = text.parse::<Uri>().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    (is_http && has_host).then_some(uri)
}

/// Chooses the protocol: by the variables, else by the usual ports and paths of collectors.
fn protocol<V: Fn(&str) -> Option<String>>(
    endpoint: Option<&Uri>,
    variables: &mut Variables<'_, V>,
) -> TraceProtocol {
    let is_http = |uri: &Uri| uri.port_u16() == Some(HTTP_PORT) || uri.path().ends_with(PATH);
    let setting = Setting {
        default: if endpoint.is_some_and(is_http) {
            HTTP
        } else {
            GRPC
        },
        ..PROTOCOL
    };
    variables.setting(&setting, |text| match text {
        GRPC => Some(TraceProtocol::Grpc),
        HTTP => Some(TraceProtocol::Http),
        _ => None,
    })
}

/// Reads which files the TLS to the collector has.
fn tls<V: Fn(&str) -> Option<String>>(
    variables: &Variables<'_, V>,
) -> Result<TraceTls, TraceError> {
    let [cacert, cert, key] =
        [CERTIFICATE, CLIENT_CERTIFICATE, CLIENT_KEY].map(|names| variables.first(&names));
    let without = |set: &'static str, own: [&str; 2], others: [&'static str; 2]| TraceError::Pair {
        set,
        missing: others[usize::from(set == own[1])],
    };
    match (&cert, &key) {
        (Some((set, _)), None) => return Err(without(set, CLIENT_CERTIFICATE, CLIENT_KEY)),
        (None, Some((set, _))) => return Err(without(set, CLIENT_KEY, CLIENT_CERTIFICATE)),
        _ => {}
    }
    let name = |found: Option<&(&'static str, String)>| found.map_or("", |(name, _)| *name);
    let names = ClientTlsNames {
        cacert: name(cacert.as_ref()),
        cert: name(cert.as_ref()),
        key: name(key.as_ref()),
    };
    let [cacert, cert, key] =
        [cacert, cert, key].map(|found| found.map(|(_, path)| PathBuf::from(path)));
    let options = ClientTlsOptions {
        cacert,
        cert,
        key,
        insecure: false,
    };
    Ok(TraceTls { options, names })
}

/// Reads the attributes of the server. Those that cannot be read are passed over with a warning.
fn attributes<V: Fn(&str) -> Option<String>>(
    variables: &mut Variables<'_, V>,
) -> Vec<(String, String)> {
    variables.list(&ATTRIBUTES, "an attribute", |name, value| {
        attribute(name, value).is_some()
    });
    let list = variables.get(ATTRIBUTES[0]).unwrap_or_default();
    let pairs = list
        .split_terminator(',')
        .filter_map(|it| it.split_once('='));
    pairs
        .filter_map(|(name, value)| attribute(name.trim(), value.trim()))
        .collect()
}

/// Decodes an attribute, which may be encoded as in URLs; `None` if what comes of it is not UTF-8.
fn attribute(name: &str, value: &str) -> Option<(String, String)> {
    let decoded = |text| {
        let decoded = percent_decode_str(text).decode_utf8().ok()?;
        Some(decoded.into_owned())
    };
    decoded(name).zip(decoded(value))
}

fn milliseconds(text: &str) -> Option<Duration> {
    let number = text.parse::<u64>().ok();
    let number = number.filter(|number| (1..=MAX_MILLISECONDS).contains(number));
    number.map(Duration::from_millis)
}

fn spans(text: &str) -> Option<usize> {
    let number = text.parse::<u64>().ok();
    let number = number.filter(|number| (1..=MAX_SPANS).contains(number))?;
    usize::try_from(number).ok()
}

/// Returns whether the exporter sends a header of the variables, whose values may be encoded as in URLs.
fn is_header(name: &str, value: &str) -> bool {
    let decoded = percent_decode_str(value).decode_utf8();
    let decoded = decoded.as_deref().unwrap_or(value);
    let is_name = HeaderName::try_from(name).is_ok();
    is_name && !value.is_empty() && HeaderValue::from_str(decoded).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{TraceError, TraceProtocol, TraceSettings};
    use crate::error;

    type Variable<'a> = (&'a str, &'a str);

    /// Reads variables; returns the warnings as well.
    fn read(
        flag: Option<&str>,
        variables: &[Variable<'_>],
    ) -> (Result<Option<TraceSettings>, TraceError>, Vec<String>) {
        let mut warnings = Vec::new();
        let variable = |name: &str| {
            let mut known = variables.iter().filter(|(known, _)| *known == name);
            known.next().map(|(_, value)| (*value).to_owned())
        };
        let read = TraceSettings::of(flag, variable, &mut warnings);
        (read, warnings)
    }

    fn of(flag: Option<&str>, variables: &[Variable<'_>]) -> Option<TraceSettings> {
        read(flag, variables).0.unwrap()
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
        // Where there are none, nothing is wrong with where they would go.
        let wrong = ("OTEL_EXPORTER_OTLP_ENDPOINT", "garbage");
        assert!(of(None, &[wrong, disabled]).is_none());
        assert!(of(None, &[wrong, ("OTEL_TRACES_EXPORTER", "none")]).is_none());
        assert!(of(Some("http://c"), &[wrong]).is_some());
    }

    #[test]
    fn the_protocol_is_that_of_the_variables_or_of_the_port() {
        let chosen = |flag: &str, variables: &[Variable<'_>]| {
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
        let (other, warnings) = read(Some("http://c:4317"), &[named("http/json")]);
        assert_eq!(other.unwrap().unwrap().protocol, grpc);
        assert!(warnings[0].contains("`http/json`"), "{warnings:?}");
    }

    #[test]
    fn the_endpoint_of_a_variable_is_a_base_unless_it_is_of_traces() {
        let endpoint = |name, url| of(None, &[(name, url)]).unwrap().endpoint.unwrap();
        let (all, traces) = (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        );
        for (name, url, expected) in [
            (all, "http://c:4317", "http://c:4317"),
            (all, " http://c:4318/ ", "http://c:4318/v1/traces"),
            (traces, "http://c:4318", "http://c:4318"),
        ] {
            assert_eq!(endpoint(name, url), expected);
        }
        let both = [(all, "garbage"), (traces, "http://c:4317")];
        assert!(of(None, &both).is_some());
    }

    #[test]
    fn an_endpoint_that_is_no_url_is_refused() {
        for name in [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ] {
            for value in [
                "garbage",
                "collector:4317",
                "ftp://c:21",
                "http://",
                "http://a b",
            ] {
                let error = read(None, &[(name, value)]).0.unwrap_err();
                let text = format!("{name} has `{value}`, expected a URL with http:// or https://");
                assert!(error.to_string().starts_with(&text), "{error}");
            }
        }
    }

    #[test]
    fn a_certificate_has_its_key() {
        let both = |traces: &str| {
            ["CERTIFICATE", "KEY"].map(|what| format!("OTEL_EXPORTER_OTLP_{traces}CLIENT_{what}"))
        };
        for traces in ["", "TRACES_"] {
            let [cert, key] = &both(traces);
            for (set, missing) in [(cert, key), (key, cert)] {
                let set = (set.as_str(), "a.pem");
                let (read, _) = read(Some("https://c:4317"), &[set]);
                let text = format!("{} is set but {missing} is not set", set.0);
                let error = read.unwrap_err();
                assert!(error.to_string().starts_with(&text), "{error}");
                assert!(error.hint().contains(missing.as_str()), "{error:?}");
                // Without TLS there is nobody to show it to.
                assert!(of(Some("http://c:4317"), &[set]).unwrap().tls.is_none());
            }
        }
        let [[cert, _], [_, key]] = [both("TRACES_"), both("")];
        let mixed = [(cert.as_str(), "a.pem"), (key.as_str(), "a.key")];
        let tls = of(Some("HTTPS://c:4317"), &mixed).unwrap().tls.unwrap();
        assert_eq!((tls.names.cert, tls.names.key), (&*cert, &*key));
    }

    #[test]
    fn values_that_are_not_known_are_passed_over_with_a_warning() {
        let taken = |variables: &[Variable<'_>]| {
            let (settings, warnings) = read(Some("http://c:4317"), variables);
            let settings = settings.unwrap_or_else(|error| panic!("{}", error::chain(&error)));
            (settings.unwrap(), warnings.join("\n"))
        };
        let (settings, warnings) = taken(&[
            ("OTEL_SDK_DISABLED", "yes"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "abc"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "-1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,nonsense,c d=e,f=,g=%0A,"),
            ("OTEL_RESOURCE_ATTRIBUTES", "nonsense,a=%ff,b=100%"),
            ("OTEL_TRACES_SAMPLER", "xray"),
            ("OTEL_BSP_SCHEDULE_DELAY", "y"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "1000001"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
        ]);
        insta::assert_snapshot!(warnings, @r"
        OTEL_SDK_DISABLED has `yes`, expected `true` or `false`; false is used
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL has `http/json`, expected `grpc` or `http/protobuf`; grpc is used
        OTEL_EXPORTER_OTLP_COMPRESSION has `brotli`, expected `gzip` or `none`; none is used
        OTEL_EXPORTER_OTLP_TIMEOUT has `abc`, expected a whole number of milliseconds from 1 to 4294967295; 10000 is used
        OTEL_BSP_EXPORT_TIMEOUT has `-1`, expected a whole number of milliseconds from 1 to 4294967295; 10000 is used
        OTEL_EXPORTER_OTLP_HEADERS has something else as entry 2 of 5, expected a header as `name=value`; the entry is ignored
        OTEL_EXPORTER_OTLP_HEADERS has something else as entry 3 of 5, expected a header as `name=value`; the entry is ignored
        OTEL_EXPORTER_OTLP_HEADERS has something else as entry 4 of 5, expected a header as `name=value`; the entry is ignored
        OTEL_EXPORTER_OTLP_HEADERS has something else as entry 5 of 5, expected a header as `name=value`; the entry is ignored
        OTEL_TRACES_SAMPLER has `xray`, expected always_on, always_off, or traceidratio, also with parentbased_ before it; parentbased_always_on is used
        OTEL_BSP_SCHEDULE_DELAY has `y`, expected a whole number of milliseconds from 1 to 4294967295; 5000 is used
        OTEL_BSP_MAX_QUEUE_SIZE has `1000001`, expected a whole number from 1 to 1000000; 2048 is used
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE has `0`, expected a whole number from 1 to 1000000; 512 is used
        OTEL_RESOURCE_ATTRIBUTES has something else as entry 1 of 3, expected an attribute as `name=value`; the entry is ignored
        OTEL_RESOURCE_ATTRIBUTES has something else as entry 2 of 3, expected an attribute as `name=value`; the entry is ignored
        ");
        assert_eq!(settings.attributes, [("b".into(), "100%".into())]);
        let numbers = |it: &TraceSettings| {
            let times = [it.timeout, it.delay].map(|time| time.as_millis());
            (times, [it.most, it.batch], it.is_compressed)
        };
        assert_eq!(numbers(&settings), ([10_000, 5000], [2048, 512], false));

        let (settings, warnings) = taken(&[
            ("OTEL_SDK_DISABLED", "False"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", " GZIP "),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "200"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, c = Basic%20d=,"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "a=b, team%2Cs = red%2C%20blue%3d,",
            ),
            ("OTEL_BSP_SCHEDULE_DELAY", "20"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3"),
        ]);
        assert_eq!(warnings, "");
        assert_eq!(numbers(&settings), ([200, 20], [7, 3], true));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let attributes = [pair("a", "b"), pair("team,s", "red, blue=")];
        assert_eq!(settings.attributes, attributes);
    }

    #[test]
    fn the_variable_for_all_signals_is_used_where_that_of_traces_is_not_known() {
        let (settings, warnings) = read(
            Some("http://c:4317"),
            &[
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "abc"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
                ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
            ],
        );
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.timeout.as_millis(), 500);
        assert!(!settings.is_compressed);
        let expected = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT has `abc`, expected a whole number of milliseconds from 1 to 4294967295; 500 is used";
        assert_eq!(warnings, [expected]);
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
