//! `/metrics`: the page of figures.

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

use super::rest::{self, RestContext};

/// Content type of the Prometheus text format.
const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(super) async fn page(State(context): State<RestContext>) -> Response {
    let (status, text) = match context.metrics.page() {
        Some(page) => (StatusCode::OK, page),
        None => (
            StatusCode::NOT_FOUND,
            rest::unknown_path().message().to_owned(),
        ),
    };
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}
