//! The handlers of the protocol's REST side.

use std::collections::BTreeMap;

use axum::{
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::{
    SIGNATURE, SIGNATURES_TYPE, infos, json, json_reply, loaded,
    path::{self, Call, Names},
    status,
};
use crate::{
    engine::{Engine, Reload, ServableVersion},
    error::{Error, ErrorKind, Result},
    frontends::{
        access, body,
        reply::{self, JSON_GROWTH},
        rest::{RestContext, not_allowed},
        weight,
    },
    pipeline::TensorDirection,
    proto::{tensorflow::TensorInfo, tensorflow_serving::ModelVersionStatus},
    request::{ApiFamily, Interface, RequestOrigin},
    task,
};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::TensorFlowServing,
    interface: Interface::Rest,
};

/// The methods of a sequence.
pub(in crate::frontends) const OF_A_SEQUENCE: &str = "GET, HEAD, PUT, OPTIONS";

/// Answers a request for any path below `/v1`.
pub(crate) async fn call(State(context): State<RestContext>, request: Request) -> Result<Response> {
    let call = path::parse(request.uri().path())?;
    let posts = matches!(call, Call::Predict(_) | Call::Unserved | Call::Reload);
    let puts = matches!(call, Call::Sequence(..));
    let allowed = match *request.method() {
        Method::GET | Method::HEAD => !posts,
        Method::POST => posts,
        Method::PUT => puts,
        _ => false,
    };
    if !allowed {
        return Ok(not_allowed(match (posts, puts) {
            (true, _) => "POST, OPTIONS",
            (_, true) => OF_A_SEQUENCE,
            _ => "GET, HEAD, OPTIONS",
        }));
    }
    let engine = &context.engine;
    match call {
        Call::Predict(names) => predict(&context, &names, request).await,
        Call::Unserved => Err(Error::new(
            ErrorKind::NotFound,
            "Requested REST resource not found",
        )),
        Call::Status(names) => statuses(engine, &names),
        Call::Metadata(names) => metadata(engine, &names),
        Call::Sequence(names, id) => sequence(&context, &names, id, request).await,
        Call::Config => config(engine, StatusCode::OK),
        Call::Reload => match engine.reload().await? {
            Reload::Changed => config(engine, StatusCode::CREATED),
            Reload::Unchanged => config(engine, StatusCode::OK),
        },
    }
}

async fn predict(context: &RestContext, names: &Names, request: Request) -> Result<Response> {
    let (parts, incoming) = request.into_parts();
    let seen = access::seen(&parts.extensions, Some(&names.model));
    let body = body::read(&parts, incoming, &context.intake).await?;
    // Before the body is looked at, as clients of this protocol expect.
    let target = context
        .engine
        .find(&names.model, names.version, ORIGIN)
        .await?;
    let length = body.len();
    let budget = &context.intake.budget;
    let decoded = budget.charge(weight::of_json(&body))?;
    let of_values = budget.clone();
    let decode = move || {
        // A sequence may run on an instance with other inputs than the newest one's.
        let elsewhere = target
            .is_one_of_several()
            .then(|| target.elsewhere(json::sequence_id(&body)?))
            .flatten();
        let info = elsewhere
            .as_ref()
            .map_or(target.info(), |loaded| &loaded.info);
        let kind = if target.takes_named_only() {
            json::Kind::Named
        } else if target.is_stateful() {
            json::Kind::Stateful
        } else {
            json::Kind::Plain
        };
        let request = json::decode(&body, info, kind).and_then(|(request, format)| {
            drop(decoded);
            Ok((request.charged(&of_values)?, format))
        });
        (target, request)
    };
    let (target, request) = task::sized("decode JSON", length, decode).await;
    let (request, format) = request?;
    let response = target.infer(request).await?;
    seen.version(|| Some(response.model_version));
    let outputs = response.outputs.iter();
    let bytes = outputs.map(|(_, tensor)| tensor.data().len()).sum();
    let encode = move || json_reply::encode(&response, format);
    reply::written(&parts.headers, budget, bytes, JSON_GROWTH, encode).await
}

/// Saves a sequence, or restores one.
async fn sequence(
    context: &RestContext,
    names: &Names,
    id: u64,
    request: Request,
) -> Result<Response> {
    let (parts, incoming) = request.into_parts();
    let seen = access::seen(&parts.extensions, Some(&names.model));
    let (engine, model) = (&context.engine, &names.model);
    if parts.method == Method::PUT {
        let file = body::read(&parts, incoming, &context.intake).await?;
        let restored = engine.restore_sequence(model, names.version, id, file);
        let version = restored.await?;
        seen.version(|| Some(version));
        return Ok(StatusCode::CREATED.into_response());
    }
    let budget = &context.intake.budget;
    let saved = engine.save_sequence(model, names.version, id, budget);
    let (file, version) = saved.await?;
    seen.version(|| Some(version));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], file).into_response())
}

fn statuses(engine: &Engine, names: &Names) -> Result<Response> {
    let versions = status::versions(engine, &names.model, names.version, ORIGIN)?;
    reply::serialized(&Statuses::of(&versions))
}

/// The states of everything, by name.
fn config(engine: &Engine, status: StatusCode) -> Result<Response> {
    let servables = engine.servables();
    let models: BTreeMap<_, _> = (servables.iter())
        .map(|servable| (servable.name(), Statuses::of(&servable.parts())))
        .collect();
    let mut response = reply::serialized(&models)?;
    *response.status_mut() = status;
    Ok(response)
}

/// The states of a model's versions.
#[derive(Serialize)]
struct Statuses {
    model_version_status: Vec<ModelVersionStatus>,
}

impl Statuses {
    fn of(versions: &[ServableVersion]) -> Self {
        let model_version_status = versions.iter().map(status::message).collect();
        Self {
            model_version_status,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    model_spec: ModelSpec<'a>,
    metadata: Fields,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelSpec<'a> {
    name: &'a str,
    signature_name: &'static str,
    version: String,
}

#[derive(Serialize)]
struct Fields {
    signature_def: Signatures,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signatures {
    #[serde(rename = "@type")]
    kind: &'static str,
    signature_def: BTreeMap<&'static str, Signature>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signature {
    inputs: BTreeMap<String, TensorInfo>,
    outputs: BTreeMap<String, TensorInfo>,
    method_name: &'static str,
    defaults: BTreeMap<&'static str, ()>,
}

fn metadata(engine: &Engine, names: &Names) -> Result<Response> {
    let (part, facts) = loaded(engine, &names.model, names.version, ORIGIN)?;
    let signature = Signature {
        inputs: infos(&facts, TensorDirection::Input),
        outputs: infos(&facts, TensorDirection::Output),
        method_name: "",
        defaults: BTreeMap::new(),
    };
    let metadata = Metadata {
        model_spec: ModelSpec {
            name: part.name(),
            signature_name: "",
            version: part.number().to_string(),
        },
        metadata: Fields {
            signature_def: Signatures {
                kind: SIGNATURES_TYPE,
                signature_def: [(SIGNATURE, signature)].into(),
            },
        },
    };
    reply::serialized(&metadata)
}
