//! The handlers of the protocol's REST side.

use std::collections::BTreeMap;

use axum::{
    extract::{Request, State},
    http::{Method, StatusCode},
    response::Response,
};
use serde::Serialize;

use super::{
    SIGNATURE, SIGNATURES_TYPE, json, json_reply, loaded,
    path::{self, Call, Names},
    status::{self, Statuses},
    wire_type_of,
};
use crate::{
    engine::{Engine, Reload, ServableFacts},
    error::{Error, ErrorKind, Result},
    frontends::{
        access, body, gzip, reply,
        rest::{RestContext, not_allowed},
        weight,
    },
    pipeline::TensorDirection,
    request::{ApiFamily, Interface, RequestOrigin},
    task,
};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::TensorFlowServing,
    interface: Interface::Rest,
};

/// Answers a request for any path below `/v1`.
pub(crate) async fn call(State(context): State<RestContext>, request: Request) -> Response {
    let call = match path::parse(request.uri().path()) {
        Ok(call) => call,
        Err(error) => return reply::response(&error),
    };
    let posts = matches!(call, Call::Predict(_) | Call::Unserved | Call::Reload);
    let allowed = match *request.method() {
        Method::GET | Method::HEAD => !posts,
        Method::POST => posts,
        _ => false,
    };
    if !allowed {
        return not_allowed(if posts {
            "POST, OPTIONS"
        } else {
            "GET, HEAD, OPTIONS"
        });
    }
    let engine = &context.engine;
    let answer = match call {
        Call::Predict(names) => predict(&context, &names, request).await,
        Call::Unserved => Err(Error::new(
            ErrorKind::NotFound,
            "Requested REST resource not found",
        )),
        Call::Status(names) => statuses(engine, &names),
        Call::Metadata(names) => metadata(engine, &names),
        Call::Config => config(engine, StatusCode::OK),
        Call::Reload => match engine.reload().await {
            Ok(Reload::Changed) => config(engine, StatusCode::CREATED),
            Ok(Reload::Unchanged) => config(engine, StatusCode::OK),
            Err(error) => Err(error),
        },
    };
    answer.unwrap_or_else(|error| reply::response(&error))
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
    let budget = context.intake.budget();
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
    let output_bytes = response
        .outputs
        .iter()
        .map(|(_, tensor)| tensor.data().len())
        .sum::<usize>();
    let compress = gzip::wished(&parts.headers);
    let charge = budget.charge(output_bytes * reply::growth(false))?;
    let encode = move || {
        let reply = json_reply::encode(&response, format)?;
        let reply = if compress { gzip::pack(reply) } else { reply };
        reply.into_response(charge)
    };
    task::sized("encode", output_bytes, encode).await
}

fn statuses(engine: &Engine, names: &Names) -> Result<Response> {
    let versions = status::versions(engine, &names.model, names.version, ORIGIN)?;
    answer(StatusCode::OK, &Statuses::of(&versions))
}

/// The states of everything, by name.
fn config(engine: &Engine, status: StatusCode) -> Result<Response> {
    let models: BTreeMap<_, _> = engine
        .servables()
        .iter()
        .map(|servable| (servable.name().to_owned(), Statuses::of(&servable.parts())))
        .collect();
    answer(status, &models)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    model_spec: ModelSpec<'a>,
    metadata: Fields<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelSpec<'a> {
    name: &'a str,
    signature_name: &'static str,
    version: String,
}

#[derive(Serialize)]
struct Fields<'a> {
    signature_def: Signatures<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signatures<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    signature_def: BTreeMap<&'static str, Signature<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signature<'a> {
    inputs: BTreeMap<&'a str, Info<'a>>,
    outputs: BTreeMap<&'a str, Info<'a>>,
    method_name: &'static str,
    defaults: BTreeMap<&'static str, ()>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    dtype: &'static str,
    tensor_shape: Shape,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    dim: Vec<Dim>,
    unknown_rank: bool,
}

#[derive(Serialize)]
struct Dim {
    size: String,
    name: &'static str,
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
    answer(StatusCode::OK, &metadata)
}

fn infos(facts: &ServableFacts, side: TensorDirection) -> BTreeMap<&str, Info<'_>> {
    let tensors = match side {
        TensorDirection::Input => &facts.info().inputs,
        TensorDirection::Output => &facts.info().outputs,
    };
    tensors
        .iter()
        .map(|tensor| {
            let dim = tensor
                .shape
                .wire()
                .iter()
                .map(|size| Dim {
                    size: size.to_string(),
                    name: "",
                })
                .collect();
            let info = Info {
                dtype: wire_type_of(facts, side, tensor).as_str_name(),
                tensor_shape: Shape {
                    dim,
                    unknown_rank: false,
                },
                name: &tensor.name,
            };
            (tensor.name.as_str(), info)
        })
        .collect()
}

fn answer(status: StatusCode, value: &impl Serialize) -> Result<Response> {
    serde_json::to_vec(value)
        .map(|body| reply::json(status, body))
        .map_err(|error| Error::internal("Internal server error").with_source(error))
}
