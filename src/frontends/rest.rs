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
    dashboard::{self, Dashboard},
    host,
    intake::Intake,
    kserve::{rest as kserve, triton},
    metrics, reply,
    tfs::rest as tfs,
    v3,
};
use crate::{
    config::{Cors, ServerSettings},
    engine::Engine,
    error::{Error, ErrorKind},
    metrics::Metrics,
};

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(super) engine: Arc<Engine>,
    pub(super) intake: Intake,
    pub(super) metrics: Arc<Metrics>,
}

/// The paths of the HTTP port, and what holds for all of them.
#[derive(Clone)]
pub struct Rest {
    paths: Router,
    /// Headers of every answer.
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

impl Rest {
    /// Makes the HTTP side of an engine.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        intake: Intake,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let context = Context {
            engine,
            intake,
            metrics,
        };
        Self {
            paths: paths(&context, settings),
            headers: cors(&settings.cors).collect(),
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response {
        let mut response = if let Err(error) = host::check(&request) {
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
        for (name, value) in self.headers.iter() {
            response.headers_mut().insert(name.clone(), value.clone());
        }
        response
    }
}

/// Every path.
fn paths(context: &Context, settings: &ServerSettings) -> Router {
    let get_only = |route: MethodRouter<Context>| {
        route.fallback(|| async { not_allowed("GET, HEAD, OPTIONS") })
    };
    let post_only =
        |route: MethodRouter<Context>| route.fallback(|| async { not_allowed("POST, OPTIONS") });
    // The protocol's paths are more than patterns can say; it reads them itself.
    let tfs = || get(tfs::call).post(tfs::call).fallback(tfs::call);
    Router::new()
        .route("/v1/{*rest}", tfs())
        .route("//v1/{*rest}", tfs())
        .route("/metrics", get_only(get(metrics::page)))
        .route("/v2", get_only(get(kserve::server_metadata)))
        .route("/v2/health/live", get_only(get(kserve::live)))
        .route("/v2/health/ready", get_only(get(kserve::ready)))
        .route(
            "/v2/repository/index",
            post_only(post(kserve::repository_index)),
        )
        .route("/v2/models/{model}", get_only(get(kserve::metadata)))
        .route("/v2/models/{model}/", get_only(get(kserve::metadata)))
        .route(
            "/v2/models/{model}/ready",
            get_only(get(kserve::model_ready)),
        )
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
            "/v2/models/{model}/versions/{version}/ready",
            get_only(get(kserve::model_ready)),
        )
        .route(
            "/v2/models/{model}/versions/{version}/infer",
            post_only(post(kserve::infer)),
        )
        .merge(extensions(get_only, post_only))
        .merge(match settings.dashboard {
            true => dashboard::routes(Dashboard::new(settings)),
            false => Router::new(),
        })
        .fallback(|| async { reply::response(&unknown_path()) })
        .with_state(context.clone())
        .merge(v3::paths(
            Arc::clone(&context.engine),
            settings.api_key.as_deref(),
        ))
}

/// The paths that clients of Triton know besides those of the protocol.
fn extensions(
    get_only: impl Fn(MethodRouter<Context>) -> MethodRouter<Context>,
    post_only: impl Fn(MethodRouter<Context>) -> MethodRouter<Context>,
) -> Router<Context> {
    let mut router = Router::new()
        .route("/v2/models/stats", get_only(get(triton::all_statistics)))
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
    for model in [
        "/v2/models/{model}",
        "/v2/models/{model}/versions/{version}",
    ] {
        router = router
            .route(&format!("{model}/config"), get_only(get(triton::config)))
            .route(
                &format!("{model}/stats"),
                get_only(get(triton::model_statistics)),
            );
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
fn cors(cors: &Cors) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let credentials = if cors.allow_credentials { "true" } else { "" };
    [
        (
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            cors.allowed_origins.as_str(),
        ),
        (header::ACCESS_CONTROL_ALLOW_METHODS, &cors.allowed_methods),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, &cors.allowed_headers),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials),
    ]
    .into_iter()
    .filter(|(_, text)| !text.is_empty())
    .filter_map(|(name, text)| Some((name, HeaderValue::from_str(text).ok()?)))
}

/// Tells whether a path has a part `..`, in letters or percent-encoded.
fn leaves_the_tree(path: &str) -> bool {
    // Nearly no path has a percent sign.
    path.split('/').any(|part| match part.len() {
        2 => part == "..",
        4 | 6 => part.to_ascii_lowercase().replace("%2e", ".") == "..",
        _ => false,
    })
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
    use crate::config::Cors;

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
        let settings = Cors {
            allow_credentials: true,
            allowed_origins: "https://a.example".to_owned(),
            allowed_methods: String::new(),
            ..Cors::default()
        };
        let headers: Vec<_> = cors(&settings).collect();
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
