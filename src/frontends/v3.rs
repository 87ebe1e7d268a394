//! Part of the generative API, `/v3`: the list of servables.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Extension,
    extract::{Path, Request, rejection::PathRejection},
    http::{HeaderMap, Method, header},
    response::Response,
    routing::{any, get},
};
use serde::Serialize;

use super::{
    guard::{Paths, RestContext, Rule},
    reply, routes,
};
use crate::{
    engine::Servable,
    error::{Error, ErrorKind, Result},
};

#[derive(Clone)]
struct Facts {
    /// Start time of the server, which is reported as the time of every model.
    since: u64,
    /// API key that clients must send.
    key: Option<Arc<str>>,
}

impl Facts {
    /// Checks the key of a call that acts. Clients without one learn nothing of what there is.
    fn check_key(&self, request: &Request) -> Result<()> {
        match self.key.as_deref() {
            Some(key) if request.method() == Method::POST && !has_key(request.headers(), key) => {
                Err(Error::new(
                    ErrorKind::Unauthorized,
                    "Unauthorized request due to invalid or missing api-key",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Adds the paths below `/v3`.
pub(super) fn routes(paths: Paths, key: Option<&str>) -> Paths {
    let facts = Facts {
        since: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .as_secs(),
        key: key.map(Into::into),
    };
    let rule = Rule::Known;
    paths
        .route("/v3/models", rule, get(list).fallback(unsupported))
        .route("/v3/v1/models", rule, get(list).fallback(unsupported))
        // Names of models often have a slash.
        .route("/v3/models/{*name}", rule, get(one).fallback(unsupported))
        .route(
            "/v3/v1/models/{*name}",
            rule,
            get(one).fallback(unsupported),
        )
        .route("/v3", rule, any(other))
        .route("/v3/{*rest}", rule, any(other))
        .with(facts)
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl<'a> Entry<'a> {
    fn new(model: &'a Servable, created: u64) -> Self {
        Self {
            id: model.name(),
            object: "model",
            created,
            owned_by: "OVMS",
        }
    }
}

async fn list(context: RestContext, Extension(facts): Extension<Facts>) -> Result<Response> {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: Vec<Entry<'a>>,
    }
    let models = context.engine.servables();
    reply::serialized(&List {
        object: "list",
        data: models
            .iter()
            .filter(|model| serves(model))
            .map(|model| Entry::new(model, facts.since))
            .collect(),
    })
}

async fn one(
    context: RestContext,
    Extension(facts): Extension<Facts>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response> {
    let model = name
        .ok()
        .and_then(|Path(name)| context.engine.servable(&name).ok())
        .filter(serves)
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "Model not found"))?;
    reply::serialized(&Entry::new(&model, facts.since))
}

fn serves(servable: &Servable) -> bool {
    !servable.available().is_empty()
}

/// Response to unknown paths.
async fn other(Extension(facts): Extension<Facts>, request: Request) -> Error {
    match facts.check_key(&request) {
        Err(refused) => refused,
        Ok(()) => routes::unknown_path(),
    }
}

/// Response to other methods of paths that are only read.
async fn unsupported(Extension(facts): Extension<Facts>, request: Request) -> Result<Response> {
    facts.check_key(&request)?;
    Ok(routes::not_allowed("GET, HEAD, OPTIONS"))
}

/// Returns whether a client has sent the key, in constant time.
fn has_key(headers: &HeaderMap, key: &str) -> bool {
    let sent = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    let differs = sent
        .iter()
        .zip(key.as_bytes())
        .fold(0, |differs, (sent, known)| differs | (sent ^ known));
    sent.len() == key.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::has_key;

    #[test]
    fn only_the_whole_key_opens() {
        let opens = |sent: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", sent.parse().unwrap());
            has_key(&headers, "secret")
        };
        assert!(opens("Bearer secret"));
        for wrong in [
            "secret",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secrets",
            "Bearer Secret",
        ] {
            assert!(!opens(wrong), "{wrong}");
        }
        assert!(!has_key(&HeaderMap::new(), "secret"));
    }
}
