//! The HTTP side: every path in one table.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::Response,
    routing::{MethodRouter, get, post},
};

use super::{kserve::rest as kserve, reply};
use crate::{
    config::Limits,
    engine::Engine,
    error::{Error, ErrorKind},
};

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(super) engine: Arc<Engine>,
    pub(super) limits: Limits,
}

/// Makes the router of an engine.
pub fn router(engine: Arc<Engine>, limits: &Limits) -> Router {
    let context = Context {
        engine,
        limits: limits.clone(),
    };
    let get_only = |route: MethodRouter<Context>| {
        route.fallback(|| async { not_allowed("GET, HEAD, OPTIONS") })
    };
    let post_only =
        |route: MethodRouter<Context>| route.fallback(|| async { not_allowed("POST, OPTIONS") });
    Router::new()
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
        .fallback(|| async { reply::response(&unknown_path()) })
        .layer(middleware::from_fn(before))
        .with_state(context)
}

/// What holds for every path: `OPTIONS` is answered, `..` is not followed.
async fn before(request: Request, next: Next) -> Response {
    if request.method() == Method::OPTIONS {
        return Response::default();
    }
    if request.uri().path().split('/').any(|part| part == "..") {
        return reply::response(&Error::invalid(
            "The provided base path is invalid or doesn't exists",
        ));
    }
    next.run(request).await
}

fn not_allowed(allow: &'static str) -> Response {
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
