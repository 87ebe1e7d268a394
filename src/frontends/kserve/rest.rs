//! The KServe v2 handlers over REST, and calls of Triton's clients beyond the protocol: model configuration
//! and statistics, and responses for extensions that are not supported.

use std::{pin::pin, time::Instant};

use axum::{
    extract::{FromRequestParts, Path, Request, rejection::PathRejection},
    http::{HeaderMap, StatusCode, request::Parts},
    response::Response,
    routing::MethodRouter,
};
use bytes::Bytes;
use hyper::body::Body;
use serde::{Deserialize, Serialize};

use super::{REPOSITORY, SETTING, codec, json, json_reply, regions::RegionReader, unserved};
use crate::{
    error::{Error, ErrorKind, Result},
    frontends::{
        access, body, cross_origin, deadline,
        guard::{Access, RestContext, RestShared},
        idempotency::IdempotencyKey,
        kserve, priority, reply, routes, weight,
    },
    metrics::Query,
    model::ir::RtInfo,
    proto::kserve::{ModelMetadataResponse, ModelStatistics, ModelStatisticsResponse},
    request::{ApiFamily, Interface, RequestOrigin},
    task,
};

pub(super) const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Rest,
};

/// The variable parts of a path.
#[derive(Deserialize)]
pub(crate) struct PathNames {
    pub(super) model: String,
    version: Option<String>,
}

impl PathNames {
    /// Reads the version; `Ok(None)` is the default version.
    pub(super) fn version(&self, engine: &Access) -> Result<Option<i64>> {
        let version = self.version.as_deref();
        codec::version_for(
            engine,
            &self.model,
            version.map_or(Ok(None), routes::version),
        )
    }
}

/// Path of all models.
const MODELS: &str = "/v2/models/";

/// Parses the path of an inference, with the same result as the router, to which paths with percent-encoding are left.
pub(crate) fn names_of_inference(path: &str) -> Option<PathNames> {
    let of_model = path.strip_prefix(MODELS)?.strip_suffix("/infer")?;
    let (model, version) = match of_model.split_once('/') {
        Some((model, of_version)) => (model, Some(of_version.strip_prefix("versions/")?)),
        None => (of_model, None),
    };
    let is_name =
        |name: &str| !name.is_empty() && !name.bytes().any(|byte| matches!(byte, b'/' | b'%'));
    (is_name(model) && version.is_none_or(is_name)).then(|| PathNames {
        model: model.to_owned(),
        version: version.map(str::to_owned),
    })
}

impl<S: Send + Sync> FromRequestParts<S> for PathNames {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(names),
            // What is percent-encoded in the path is not UTF-8.
            Err(_) => Err(routes::unknown_path()),
        }
    }
}

pub(crate) async fn ready(context: RestContext) -> StatusCode {
    match context.engine.ready() {
        true => StatusCode::OK,
        false => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

pub(crate) async fn server_metadata(context: RestContext, headers: HeaderMap) -> Result<Response> {
    let mut metadata = super::server_metadata(&context.engine);
    // Pages of other sites may read the rest, and errors have paths.
    if cross_origin::is_of_page(&headers) {
        metadata.reload_failure = None;
    }
    reply::serialized(&metadata)
}

/// `{"ready": true}` in the body asks for what is ready only; no body asks for all.
pub(crate) async fn repository_index(context: RestContext, request: Request) -> Result<Response> {
    #[derive(Default, Deserialize)]
    struct Filter {
        #[serde(default)]
        ready: bool,
    }
    let (parts, incoming) = request.into_parts();
    let body = body::read(&parts, incoming, &context.body_limits.of_query()).await?;
    let filter: Filter = serde_json::from_slice(&body).unwrap_or_default();
    reply::serialized(&kserve::repository_index(&context.engine, filter.ready))
}

/// Serves what is to be known about a version of a model, or about its default one.
pub(in crate::frontends) fn about(
    answer: fn(&Access, &str, Option<i64>) -> Result<Response>,
) -> MethodRouter<RestShared> {
    let answer = move |context: RestContext, names: PathNames| async move {
        let version = names.version(&context.engine)?;
        answer(&context.engine, &names.model, version)
    };
    routes::get_only(answer)
}

pub(crate) fn model_ready(engine: &Access, model: &str, version: Option<i64>) -> Result<Response> {
    let version = engine.visible(model)?.part(version)?;
    let known: Result<()> = Ok(());
    version.reporter().queried(ORIGIN, Query::State, &known);
    version.ready()?;
    match version.reporter().is_stuck() {
        true => Err(Error::new(
            ErrorKind::Overloaded,
            "Model is not ready - inferences do not end, as many as are allowed",
        )),
        false => Ok(Response::default()),
    }
}

pub(crate) fn metadata(engine: &Access, model: &str, version: Option<i64>) -> Result<Response> {
    #[derive(Serialize)]
    struct Metadata<'a> {
        #[serde(flatten)]
        metadata: ModelMetadataResponse,
        #[serde(skip_serializing_if = "Option::is_none")]
        rt_info: Option<ModelInfo<'a>>,
    }
    #[derive(Serialize)]
    struct ModelInfo<'a> {
        model_info: &'a RtInfo,
    }
    let servable = engine.servable(model)?;
    let (metadata, facts) = super::model_metadata(engine, &servable, version, ORIGIN)?;
    reply::serialized(&Metadata {
        metadata,
        rt_info: facts.rt_info().map(|model_info| ModelInfo { model_info }),
    })
}

pub(crate) async fn infer<B>(
    context: RestContext,
    names: PathNames,
    request: Request<B>,
) -> Result<Response>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + 'static,
{
    let (parts, incoming) = request.into_parts();
    let seen = access::seen(&parts.extensions, Some(&names.model));
    context.engine.runs(&names.model)?;
    let version = names.version(&context.engine)?;
    // A request that is refused before its target is looked up counts as a failed one all the same.
    let refused = |_: &Error| context.engine.refused(&names.model, version, ORIGIN);
    let body = body::read(&parts, incoming, &context.body_limits)
        .await
        .inspect_err(refused)?;
    let received = Instant::now();
    let key = IdempotencyKey::of(&parts.headers);
    // The body is parsed before the model is looked up, as clients of this protocol expect.
    let json_length = parts.headers.get(json::JSON_LENGTH);
    let json_length = json_length.map(|length| length.as_bytes().to_vec());
    let json_bytes = json::length(&body, json_length.as_deref());
    let budget = &context.body_limits.budget;
    let decoded = budget
        .charge(weight::of_json(&body[..json_bytes]))
        .inspect_err(refused)?;
    let decode = {
        let budget = budget.clone();
        let memory = context.engine.shared_memory();
        move || {
            let regions = RegionReader::new(memory.as_deref().map_err(Clone::clone), &budget);
            let (request, wishes) = json::decode(&body, json_length.as_deref(), regions)?;
            drop((body, decoded));
            Ok::<_, Error>((request.charged(&budget)?, wishes))
        }
    };
    let (mut request, wishes) = task::sized("decode JSON", json_bytes, decode)
        .await
        .inspect_err(refused)?;
    request.trace = seen.trace();
    request.priority = priority::of_headers(&parts.headers);
    let has_id = !request.id.is_empty();
    let limit = deadline::of_parameters(&request.parameters);
    // It has some kilobytes, which are made in their place.
    let call = pin!(async {
        let target = context.engine.find(&names.model, version, ORIGIN).await?;
        let target = target.since(received).keyed(key.text())?.unwritten();
        let response = target.infer(request).await?;
        Ok::<_, Error>((target, response))
    });
    let (target, response) = deadline::within(limit, call).await?;
    seen.version(|| Some(response.model_version));
    let (bytes, memory) = json_reply::size(&response, &wishes);
    let encode = move || json_reply::encode(response, has_id, &wishes);
    let answer = reply::written(&parts.headers, budget, bytes, memory, encode).await?;
    target.written();
    Ok(answer)
}

pub(crate) async fn no_repository(
    context: RestContext,
    model: Result<Path<String>, PathRejection>,
) -> Error {
    if let Ok(Path(model)) = model {
        context.engine.about(&model);
    }
    unserved(REPOSITORY)
}

pub(crate) async fn no_setting() -> Error {
    unserved(SETTING)
}

pub(crate) fn config(engine: &Access, model: &str, version: Option<i64>) -> Result<Response> {
    reply::serialized(&kserve::model_config(engine, model, version)?)
}

pub(crate) fn statistics(engine: &Access, model: &str, version: Option<i64>) -> Result<Response> {
    statistics_response(kserve::statistics(engine, Some(model), version)?)
}

/// The statistics of all models, unless there is a model whose metadata has this path.
pub(crate) async fn all_statistics(context: RestContext) -> Result<Response> {
    let (engine, model) = (&context.engine, "stats");
    // One that the sender has no right to is not asked for.
    let mut known = engine.servables().into_iter();
    match known.any(|servable| servable.name() == model) {
        true => metadata(engine, model, None),
        false => statistics_response(kserve::statistics(engine, None, None)?),
    }
}

fn statistics_response(found: ModelStatisticsResponse) -> Result<Response> {
    #[derive(Serialize)]
    struct Answer {
        model_stats: Vec<Entry>,
    }
    #[derive(Serialize)]
    struct Entry {
        #[serde(flatten)]
        statistics: ModelStatistics,
        /// Statistics of models with several responses to a request: there are none.
        response_stats: Empty,
        /// Memory usage; always empty, since the runtime does not report it.
        memory_usage: [u8; 0],
    }
    #[derive(Serialize)]
    struct Empty {}
    let entries = found.model_stats.into_iter().map(|statistics| Entry {
        statistics,
        response_stats: Empty {},
        memory_usage: [],
    });
    reply::serialized(&Answer {
        model_stats: entries.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::names_of_inference;

    #[test]
    fn names_are_those_that_the_router_finds() {
        let names = |path| {
            let names = names_of_inference(path)?;
            Some((names.model, names.version.unwrap_or_default()))
        };
        let found = |model: &str, version: &str| Some((model.to_owned(), version.to_owned()));
        for (path, expected) in [
            ("/v2/models/m/infer", found("m", "")),
            ("/v2/models/m/versions/7/infer", found("m", "7")),
            ("/v2/models/versions/infer", found("versions", "")),
            ("/v2/models/infer/infer", found("infer", "")),
            ("/v2/models/m/versions/x/infer", found("m", "x")),
            // What the router refuses, or decodes.
            ("/v2/models//infer", None),
            ("/v2/models/infer", None),
            ("/v2/models/m/infer/", None),
            ("/v2/models/m/versions/infer", None),
            ("/v2/models/m/versions//infer", None),
            ("/v2/models/m/versions/7/8/infer", None),
            ("/v2/models/a/b/infer", None),
            ("/v2/models/a%20b/infer", None),
            ("/v2/models/m/versions/%37/infer", None),
            ("/V2/models/m/infer", None),
        ] {
            assert_eq!(names(path), expected, "{path}");
        }
    }
}
