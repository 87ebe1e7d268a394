//! The HTTP side: every path in one table.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    handler::Handler,
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, any, get, post},
};
use hyper::body::Incoming;
use tower::Service as _;

use super::{
    body::BodyLimits,
    cross_origin::{self, AllowedHosts},
    dashboard::{self, Dashboard},
    kserve::{
        generate::{generate, generate_stream},
        rest::{self as kserve, about},
        shared_memory,
    },
    openapi,
    tfs::rest as tfs,
    v3,
};
use crate::{
    budget::Budget,
    config::{Flags, ServerSettings},
    engine::Engine,
    error::{Error, ErrorKind, Result},
    metrics::Metrics,
};

/// A model's path, without and with a version.
const MODEL: [&str; 2] = [
    "/v2/models/{model}",
    "/v2/models/{model}/versions/{version}",
];

/// Shared state of the handlers.
#[derive(Clone)]
pub(crate) struct RestContext {
    pub(super) engine: Arc<Engine>,
    pub(super) intake: BodyLimits,
    pub(super) metrics: Arc<Metrics>,
}

/// The paths of the HTTP port, and what holds for all of them.
#[derive(Clone)]
pub struct Rest {
    paths: Router,
    rules: Arc<Rules>,
    budget: Budget,
}

/// Rules for all paths.
struct Rules {
    /// Headers of every answer that pages of other origins may read.
    headers: Vec<(HeaderName, HeaderValue)>,
    hosts: AllowedHosts,
    port: HttpPort,
}

/// The port that the paths are those of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpPort {
    /// Everything.
    Rest,
    /// Probes, figures, states, and reloads.
    Management,
}

impl Rest {
    /// Makes what a port serves of an engine: the management port the same as the REST port, without inference.
    pub fn new(
        port: HttpPort,
        engine: Arc<Engine>,
        intake: BodyLimits,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let budget = intake.budget.clone();
        let v3 = v3::paths(Arc::clone(&engine), settings.api_key.as_deref());
        let context = RestContext {
            engine,
            intake,
            metrics,
        };
        let own = probes(settings, port).fallback(|| async { unknown_path() });
        Self {
            paths: match port {
                HttpPort::Rest => own.merge(apis()).with_state(context).merge(v3),
                HttpPort::Management => own.merge(management_paths()).with_state(context),
            },
            rules: Arc::new(Rules {
                headers: cors(&settings.flags).collect(),
                hosts: AllowedHosts::new(settings),
                port,
            }),
            budget,
        }
    }

    /// Returns what the bytes of all connections are charged to.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response {
        let rules = &self.rules;
        let is_open =
            rules.port == HttpPort::Rest && !cross_origin::is_management(request.uri().path());
        let checked = cross_origin::check_host(&request).and_then(|()| match is_open {
            true => Ok(()),
            false => (rules.hosts).check(request.method(), request.uri(), request.headers()),
        });
        let mut response = if let Err(error) = checked {
            error.into_response()
        } else if request.method() == Method::OPTIONS {
            Response::default()
        } else if leaves_the_tree(request.uri().path()) {
            Error::invalid("The provided base path is invalid or doesn't exists").into_response()
        } else {
            let Ok(response) = self.paths.clone().call(request).await as Result<_, Infallible>;
            response
        };
        if is_open {
            for (name, value) in &rules.headers {
                response.headers_mut().insert(name.clone(), value.clone());
            }
        }
        response
    }
}

/// The paths of both protocols, and those that clients of Triton know besides.
fn apis() -> Router<RestContext> {
    // The protocol's paths are more than patterns can say; it reads them itself.
    let tfs = || get(tfs::call).post(tfs::call).fallback(tfs::call);
    let mut router = Router::new()
        .route("/v1/{*rest}", tfs())
        .route("//v1/{*rest}", tfs());
    for model in MODEL {
        router = router
            .route(model, about(kserve::metadata))
            .route(&format!("{model}/"), about(kserve::metadata))
            .route(&format!("{model}/infer"), post_only(kserve::infer))
            .route(&format!("{model}/generate"), post_only(generate))
            .route(
                &format!("{model}/generate_stream"),
                post_only(generate_stream),
            )
            .route(&format!("{model}/config"), about(kserve::config));
    }
    for change in ["load", "unload"] {
        let path = format!("/v2/repository/models/{{model}}/{change}");
        router = router.route(&path, post_only(kserve::no_repository));
    }
    for region in ["", "/region/{name}"] {
        let system = format!("/v2/systemsharedmemory{region}");
        let cuda = format!("/v2/cudasharedmemory{region}");
        router = router
            .route(
                &format!("{system}/status"),
                get_only(shared_memory::get_status),
            )
            .route(
                &format!("{system}/unregister"),
                post_only(shared_memory::post_unregister),
            )
            .route(
                &format!("{cuda}/status"),
                get_only(shared_memory::get_cuda_status),
            )
            .route(&format!("{cuda}/unregister"), post_only(|| async {}));
    }
    let (system, cuda) = ("/v2/systemsharedmemory", "/v2/cudasharedmemory");
    let register = post_only(shared_memory::post_register);
    router
        .route(&format!("{system}/region/{{name}}/register"), register)
        .route(
            &format!("{cuda}/region/{{name}}/register"),
            post_only(shared_memory::post_cuda_register),
        )
        .route("/v2/logging", any(kserve::no_setting))
        .route("/v2/trace/setting", any(kserve::no_setting))
        .route("/v2/models/{model}/trace/setting", any(kserve::no_setting))
}

/// The paths of the management port alone.
fn management_paths() -> Router<RestContext> {
    let refuse = |uri: Uri| async move {
        not_allowed(match tfs::is_sequence(uri.path()) {
            true => tfs::OF_A_SEQUENCE,
            false => "GET, HEAD, OPTIONS",
        })
    };
    let of_models = get(tfs::call).put(tfs::call).fallback(refuse);
    Router::new()
        .route("/v1/config", get_only(tfs::call))
        .route("/v1/config/reload", post_only(tfs::call))
        .route("/v1/models/{*rest}", of_models)
}

/// The paths of both ports: how the server does, and what it serves.
fn probes(settings: &ServerSettings, port: HttpPort) -> Router<RestContext> {
    let index = post_only(kserve::repository_index);
    let mut router = Router::new()
        .route("/metrics", get_only(metrics_page))
        .route("/v2", get_only(kserve::server_metadata))
        .route("/v2/health/live", get_only(|| async {}))
        .route("/v2/health/ready", get_only(kserve::ready))
        .route("/v2/repository/index", index)
        .route("/v2/models/stats", get_only(kserve::all_statistics));
    for model in MODEL {
        router = router
            .route(&format!("{model}/ready"), about(kserve::model_ready))
            .route(&format!("{model}/stats"), about(kserve::statistics));
    }
    match settings.flags.no_dashboard {
        true => router,
        false => router
            .merge(dashboard::routes(Dashboard::new(settings, port)))
            .merge(openapi::routes()),
    }
}

/// The page of figures, in the Prometheus text format.
async fn metrics_page(State(context): State<RestContext>) -> impl IntoResponse {
    let (status, text) = match context.metrics.page(context.engine.requests_pending()) {
        Some(page) => (StatusCode::OK, page),
        None => {
            let path = unknown_path();
            let why = "metrics are off; --metrics-enable turns them on";
            (StatusCode::NOT_FOUND, format!("{} - {why}", path.message()))
        }
    };
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    (status, [(header::CONTENT_TYPE, content_type)], text)
}

/// The headers that let pages of other origins call. They are checked with the flags.
fn cors(flags: &Flags) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let credentials = if flags.allow_credentials { "true" } else { "" };
    [
        (
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            flags.allowed_origins.as_str(),
        ),
        (header::ACCESS_CONTROL_ALLOW_METHODS, &flags.allowed_methods),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, &flags.allowed_headers),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials),
    ]
    .into_iter()
    .filter(|(_, text)| !text.is_empty())
    .filter_map(|(name, text)| Some((name, HeaderValue::from_str(text).ok()?)))
}

/// Returns whether a path has a part `..`, in letters or percent-encoded.
fn leaves_the_tree(path: &str) -> bool {
    // Nearly no path has a percent sign.
    path.split('/').any(|part| match part.len() {
        2 => part == "..",
        4 | 6 => part.to_ascii_lowercase().replace("%2e", ".") == "..",
        _ => false,
    })
}

pub(super) fn get_only<T: 'static>(handler: impl Handler<T, RestContext>) -> Route {
    get(handler).fallback(|| async { not_allowed("GET, HEAD, OPTIONS") })
}

fn post_only<T: 'static>(handler: impl Handler<T, RestContext>) -> Route {
    post(handler).fallback(|| async { not_allowed("POST, OPTIONS") })
}

type Route = MethodRouter<RestContext>;

pub(super) fn not_allowed(allow: &'static str) -> Response {
    let error = Error::new(ErrorKind::MethodNotAllowed, "Unsupported method");
    ([(header::ALLOW, allow)], error).into_response()
}

/// Reads a version of a path; `Ok(None)` is the default version.
pub(super) fn version(text: &str) -> Result<Option<i64>> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unknown_path());
    }
    match text.parse::<i64>() {
        Ok(0) => Ok(None),
        Ok(number) => Ok(Some(number)),
        // All digits and no i64: a number that no version has.
        Err(_) => Err(Error::new(
            ErrorKind::NotFound,
            "Model with requested version is not found",
        )),
    }
}

/// The answer for a path that is not in the table.
pub(super) fn unknown_path() -> Error {
    Error::new(ErrorKind::NotFound, "Invalid request URL")
}

#[cfg(test)]
mod tests {
    use super::{cors, leaves_the_tree};
    use crate::config::Flags;

    #[test]
    fn two_dots_are_found_however_they_are_written() {
        for path in ["/..", "/a/../b", "/%2e%2E", "/.%2e/x", "/a/%2E."] {
            assert!(leaves_the_tree(path), "{path}");
        }
        for path in [
            "/",
            "/...",
            "/a..b",
            "/%2e",
            "/%2e%2e%2e",
            "/v2/abcd/abcdef",
        ] {
            assert!(!leaves_the_tree(path), "{path}");
        }
    }

    #[test]
    fn an_empty_text_leaves_its_header_out() {
        let flags = Flags {
            allow_credentials: true,
            allowed_origins: "https://a.example".to_owned(),
            allowed_methods: String::new(),
            ..Flags::default()
        };
        let headers: Vec<_> = cors(&flags).collect();
        insta::assert_debug_snapshot!(headers, @r#"
        [
            (
                "access-control-allow-origin",
                "https://a.example",
            ),
            (
                "access-control-allow-headers",
                "*",
            ),
            (
                "access-control-allow-credentials",
                "true",
            ),
        ]
        "#);
    }
}
