//! The HTTP side: every path in one table.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    response::Response,
    routing::{MethodRouter, any, get, post},
};
use hyper::body::Incoming;
use tower::Service as _;

use super::{
    cross_origin::{self, AllowedHosts},
    dashboard::{self, Dashboard},
    host,
    intake::BodyLimits,
    kserve::{rest as kserve, triton},
    metrics, reply,
    tfs::rest as tfs,
    v3,
};
use crate::{
    budget::Budget,
    config::{Flags, ServerSettings},
    engine::Engine,
    error::{Error, ErrorKind},
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
    port: Port,
}

/// The port that the paths are those of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// Everything.
    Rest,
    /// Probes, figures, states, and reloads.
    Management,
}

impl Rest {
    /// Makes the HTTP side of an engine.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        intake: BodyLimits,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let budget = intake.budget().clone();
        let context = RestContext {
            engine,
            intake,
            metrics,
        };
        Self {
            budget,
            paths: paths(&context, settings),
            rules: Rules::new(settings, Port::Rest),
        }
    }

    /// Makes what an engine's management port serves: the same as on the REST port, without inference.
    #[must_use]
    pub fn management(
        engine: Arc<Engine>,
        intake: BodyLimits,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let budget = intake.budget().clone();
        let context = RestContext {
            engine,
            intake,
            metrics,
        };
        Self {
            budget,
            paths: management_paths(settings).with_state(context),
            rules: Rules::new(settings, Port::Management),
        }
    }

    /// Returns what the bytes of all connections are charged to.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response {
        let rules = &self.rules;
        let is_open =
            rules.port == Port::Rest && !cross_origin::is_management(request.uri().path());
        let checked = host::check(&request).and_then(|()| match is_open {
            true => Ok(()),
            false => (rules.hosts).check(request.method(), request.uri(), request.headers()),
        });
        let mut response = if let Err(error) = checked {
            reply::response(&error)
        } else if request.method() == Method::OPTIONS {
            Response::default()
        } else if leaves_the_tree(request.uri().path()) {
            reply::response(&Error::invalid(
                "The provided base path is invalid or doesn't exists",
            ))
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

impl Rules {
    fn new(settings: &ServerSettings, port: Port) -> Arc<Self> {
        Arc::new(Self {
            headers: cors(&settings.flags).collect(),
            hosts: AllowedHosts::new(settings),
            port,
        })
    }
}

/// Every path.
fn paths(context: &RestContext, settings: &ServerSettings) -> Router {
    // The protocol's paths are more than patterns can say; it reads them itself.
    let tfs = || get(tfs::call).post(tfs::call).fallback(tfs::call);
    Router::new()
        .route("/v1/{*rest}", tfs())
        .route("//v1/{*rest}", tfs())
        .merge(probes(settings, Port::Rest))
        .route("/v2/models/{model}", get_only(get(kserve::metadata)))
        .route("/v2/models/{model}/", get_only(get(kserve::metadata)))
        .route("/v2/models/{model}/infer", post_only(post(kserve::infer)))
        .route(
            "/v2/models/{model}/versions/{version}",
            get_only(get(kserve::metadata)),
        )
        .route(
            "/v2/models/{model}/versions/{version}/",
            get_only(get(kserve::metadata)),
        )
        .route(
            "/v2/models/{model}/versions/{version}/infer",
            post_only(post(kserve::infer)),
        )
        .merge(extensions())
        .fallback(|| async { reply::response(&unknown_path()) })
        .with_state(context.clone())
        .merge(v3::paths(
            Arc::clone(&context.engine),
            settings.api_key.as_deref(),
        ))
}

/// The paths of the management port.
fn management_paths(settings: &ServerSettings) -> Router<RestContext> {
    Router::new()
        .merge(probes(settings, Port::Management))
        .route("/v1/config", get_only(get(tfs::call)))
        .route("/v1/config/reload", post_only(post(tfs::call)))
        .route("/v1/models/{*rest}", get_only(get(tfs::call)))
        .fallback(|| async { reply::response(&unknown_path()) })
}

/// The paths that tell how the server does and what it serves.
fn probes(settings: &ServerSettings, port: Port) -> Router<RestContext> {
    let mut router = Router::new()
        .route("/metrics", get_only(get(metrics::page)))
        .route("/v2", get_only(get(kserve::server_metadata)))
        .route("/v2/health/live", get_only(get(kserve::live)))
        .route("/v2/health/ready", get_only(get(kserve::ready)))
        .route(
            "/v2/repository/index",
            post_only(post(kserve::repository_index)),
        )
        .route("/v2/models/stats", get_only(get(triton::all_statistics)))
        .merge(match settings.flags.no_dashboard {
            true => Router::new(),
            false => dashboard::routes(Dashboard::new(settings, port)),
        });
    for model in MODEL {
        router = router
            .route(
                &format!("{model}/ready"),
                get_only(get(kserve::model_ready)),
            )
            .route(
                &format!("{model}/stats"),
                get_only(get(triton::model_statistics)),
            );
    }
    router
}

/// The paths that clients of Triton know besides those of the protocol.
fn extensions() -> Router<RestContext> {
    let mut router = Router::new()
        .route(
            "/v2/repository/models/{model}/load",
            post_only(post(triton::no_repository)),
        )
        .route(
            "/v2/repository/models/{model}/unload",
            post_only(post(triton::no_repository)),
        )
        .route("/v2/logging", any(triton::no_setting))
        .route("/v2/trace/setting", any(triton::no_setting))
        .route("/v2/models/{model}/trace/setting", any(triton::no_setting));
    for model in MODEL {
        router = router.route(&format!("{model}/config"), get_only(get(triton::config)));
    }
    for memory in ["/v2/systemsharedmemory", "/v2/cudasharedmemory"] {
        let region = format!("{memory}/region/{{name}}");
        for place in [memory, &region] {
            router = router
                .route(
                    &format!("{place}/status"),
                    get_only(get(triton::shared_memory)),
                )
                .route(
                    &format!("{place}/unregister"),
                    post_only(post(triton::forget_shared_memory)),
                );
        }
        router = router.route(
            &format!("{region}/register"),
            post_only(post(triton::no_shared_memory)),
        );
    }
    router
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

fn get_only(route: MethodRouter<RestContext>) -> MethodRouter<RestContext> {
    route.fallback(|| async { not_allowed("GET, HEAD, OPTIONS") })
}

fn post_only(route: MethodRouter<RestContext>) -> MethodRouter<RestContext> {
    route.fallback(|| async { not_allowed("POST, OPTIONS") })
}

pub(super) fn not_allowed(allow: &'static str) -> Response {
    let mut response = reply::response(&Error::new(
        ErrorKind::MethodNotAllowed,
        "Unsupported method",
    ));
    debug_assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    response
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
