//! The KServe v2 handlers over REST.

use axum::{
    extract::{FromRequestParts, Path, Request, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::Response,
};
use serde::{Deserialize, Serialize};

use std::time::Instant;

use super::{
    PLATFORM, grpc::available_versions, index, json, json_reply, rest_version, tensors,
    triton::EXTENSIONS, version_for,
};
use crate::{
    engine::Engine,
    error::{Error, ErrorKind, Result},
    frontends::{
        SERVER_NAME, SERVER_VERSION, access, body, deadline, gzip, reply,
        rest::{self, RestContext},
        weight,
    },
    metrics::Query,
    model::rt_info::RtInfo,
    request::{ApiFamily, Interface, RequestOrigin},
    task,
};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Rest,
};

/// The variable parts of a path.
#[derive(Deserialize)]
pub(crate) struct PathNames {
    pub(super) model: String,
    pub(super) version: Option<String>,
}

impl PathNames {
    /// Names a model without a version.
    pub(super) fn of(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            version: None,
        }
    }

    /// Reads the version; `Ok(None)` is the default version.
    pub(super) fn version(&self, engine: &Engine) -> Result<Option<i64>> {
        version_for(engine, &self.model, rest_version(self.version.as_deref()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathNames {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(names),
            // What is percent-encoded in the path is not UTF-8.
            Err(_) => Err(reply::response(&rest::unknown_path())),
        }
    }
}

pub(crate) async fn live() -> Response {
    Response::default()
}

pub(crate) async fn ready(State(context): State<RestContext>) -> Response {
    let mut response = Response::default();
    if !context.engine.ready() {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    response
}

pub(crate) async fn server_metadata() -> Response {
    #[derive(Serialize)]
    struct Metadata {
        name: &'static str,
        version: &'static str,
        extensions: [&'static str; 4],
    }
    reply::serialized(&Metadata {
        name: SERVER_NAME,
        version: SERVER_VERSION,
        extensions: EXTENSIONS,
    })
}

/// `{"ready": true}` in the body asks for what is ready only; no body asks for all.
pub(crate) async fn repository_index(
    State(context): State<RestContext>,
    request: Request,
) -> Response {
    #[derive(Default, Deserialize)]
    struct Filter {
        #[serde(default)]
        ready: bool,
    }
    let (parts, incoming) = request.into_parts();
    match body::read(&parts, incoming, &context.intake).await {
        Ok(body) => {
            let filter: Filter = serde_json::from_slice(&body).unwrap_or_default();
            reply::serialized(&index::entries(&context.engine, filter.ready))
        }
        Err(error) => reply::response(&error),
    }
}

pub(crate) async fn model_ready(State(context): State<RestContext>, names: PathNames) -> Response {
    let ready = || -> Result<()> {
        let version = names.version(&context.engine)?;
        let version = context.engine.servable(&names.model)?.part(version)?;
        let known: Result<()> = Ok(());
        version.reporter().queried(ORIGIN, Query::State, &known);
        version.loaded()?;
        match version.reporter().is_stuck() {
            true => Err(Error::new(
                ErrorKind::Overloaded,
                "Model is not ready - inferences do not end, as many as are allowed",
            )),
            false => Ok(()),
        }
    };
    match ready() {
        Ok(()) => Response::default(),
        Err(error) => reply::response(&error),
    }
}

pub(crate) async fn metadata(State(context): State<RestContext>, names: PathNames) -> Response {
    #[derive(Serialize)]
    struct Metadata<'a> {
        name: &'a str,
        versions: Vec<String>,
        platform: &'static str,
        inputs: Vec<TensorMetadata<'a>>,
        outputs: Vec<TensorMetadata<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rt_info: Option<ModelInfo<'a>>,
    }
    #[derive(Serialize)]
    struct ModelInfo<'a> {
        model_info: &'a RtInfo,
    }
    let write = || -> Result<Response> {
        let version = names.version(&context.engine)?;
        let servable = context.engine.servable(&names.model)?;
        let part = servable.part(version)?;
        let facts = part.loaded();
        part.reporter().queried(ORIGIN, Query::Metadata, &facts);
        let facts = facts?;
        let (inputs, outputs) = tensors(&facts, |info, datatype| TensorMetadata {
            name: &info.name,
            datatype,
            shape: info.shape.wire(),
        });
        Ok(reply::serialized(&Metadata {
            name: servable.name(),
            versions: available_versions(&servable),
            platform: PLATFORM,
            inputs,
            outputs,
            rt_info: facts.rt_info().map(|model_info| ModelInfo { model_info }),
        }))
    };
    write().unwrap_or_else(|error| reply::response(&error))
}

#[derive(Serialize)]
struct TensorMetadata<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: Vec<i64>,
}

pub(crate) async fn infer(
    State(context): State<RestContext>,
    names: PathNames,
    request: Request,
) -> Response {
    run(&context, &names, request)
        .await
        .unwrap_or_else(|error| reply::response(&error))
}

async fn run(context: &RestContext, names: &PathNames, request: Request) -> Result<Response> {
    let (parts, incoming) = request.into_parts();
    let seen = access::seen(&parts.extensions, Some(&names.model));
    let version = names.version(&context.engine)?;
    // A request that is refused before its target is looked up counts as a failed one all the same.
    let refused = |_: &Error| context.engine.refused(&names.model, version, ORIGIN);
    let body = body::read(&parts, incoming, &context.intake)
        .await
        .inspect_err(refused)?;
    let received = Instant::now();
    // The body is parsed before the model is looked up, as clients of this protocol expect.
    let json_length = json_length(&parts.headers);
    let json_bytes = json::length(&body, json_length.as_deref());
    let budget = context.intake.budget();
    let decoded = budget
        .charge(weight::of_json(&body[..json_bytes]))
        .inspect_err(refused)?;
    let decode = {
        let budget = budget.clone();
        move || {
            let (request, wishes) = json::decode(&body, json_length.as_deref())?;
            drop(decoded);
            Ok::<_, Error>((request.charged(&budget)?, wishes))
        }
    };
    let (request, wishes) = task::sized("decode JSON", json_bytes, decode)
        .await
        .inspect_err(refused)?;
    let has_id = !request.id.is_empty();
    let limit = deadline::of_parameters(&request.parameters);
    let response = deadline::within(limit, async {
        let target = context.engine.find(&names.model, version, ORIGIN).await?;
        target.since(received).infer(request).await
    })
    .await?;
    seen.version(|| Some(response.model_version));
    let loose = response.loose.iter().map(|tensor| tensor.data.len());
    let output_bytes = response
        .outputs
        .iter()
        .map(|(_, tensor)| tensor.data().len())
        .chain(loose)
        .sum::<usize>();
    let compress = gzip::wished(&parts.headers);
    let charge = budget.charge(output_bytes * reply::growth(wishes.reads_binary))?;
    let encode = move || {
        let reply = json_reply::encode(response, has_id, &wishes)?;
        let reply = if compress { gzip::pack(reply) } else { reply };
        reply.into_response(charge)
    };
    task::sized("encode", output_bytes, encode).await
}

/// Returns the header that says how much of a body is JSON.
fn json_length(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(json::JSON_LENGTH)?;
    Some(value.as_bytes().to_vec())
}
