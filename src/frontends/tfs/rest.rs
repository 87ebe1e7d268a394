//! The handlers of the protocol's REST side.

use std::collections::BTreeMap;

use axum::{
    extract::Request,
    http::{Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::{SIGNATURE, SIGNATURES_TYPE, infos, json, json_reply, loaded};
use crate::{
    auth::Right,
    engine::{Reload, SequenceList, SequencePlace, ServableVersion},
    error::{Error, ErrorKind, Result},
    frontends::{
        access, body,
        guard::{Access, RestContext, Rule},
        idempotency::IdempotencyKey,
        priority, reply,
        routes::{self, not_allowed, unknown_path},
        tfs, weight,
    },
    proto::{tensorflow::TensorInfo, tensorflow_serving::ModelVersionStatus},
    request::{ApiFamily, Interface, RequestOrigin},
    task,
    text::first_chars,
};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::TensorFlowServing,
    interface: Interface::Rest,
};

/// The methods of a sequence.
pub(in crate::frontends) const OF_A_SEQUENCE: &str = "GET, HEAD, PUT, DELETE, OPTIONS";

/// Number of sequences of a list, unless its query sets another one.
const USUAL_SEQUENCES: usize = 1000;

/// Maximum number of sequences of a list.
const MAX_SEQUENCES: usize = 10_000;

/// Estimated bytes of a sequence in a list, for the decision where to write it. Not measured.
const SEQUENCE_BYTES: usize = 128;

/// Returns who may use a path below `/v1`, as [`call`] reads it.
pub(in crate::frontends) fn rule(uri: &Uri) -> Rule {
    match parse(uri.path()) {
        Ok(Call::Reload | Call::Sequences(_) | Call::Sequence(..)) => Rule::With(Right::Admin),
        Ok(
            Call::Predict(_) | Call::Unserved | Call::Status(_) | Call::Metadata(_) | Call::Config,
        )
        | Err(_) => Rule::Known,
    }
}

/// Answers a request for any path below `/v1`.
pub(crate) async fn call(context: RestContext, request: Request) -> Result<Response> {
    let call = parse(request.uri().path())?;
    let posts = matches!(call, Call::Predict(_) | Call::Unserved | Call::Reload);
    let is_sequence = matches!(call, Call::Sequence(..));
    let allowed = match *request.method() {
        Method::GET | Method::HEAD => !posts,
        Method::POST => posts,
        Method::PUT | Method::DELETE => is_sequence,
        _ => false,
    };
    if !allowed {
        return Ok(not_allowed(match (posts, is_sequence) {
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
        Call::Sequences(names) => sequences(&context, &names, request).await,
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
    context.engine.runs(&names.model)?;
    let key = IdempotencyKey::of(&parts.headers);
    let body = body::read(&parts, incoming, &context.body_limits)
        .await
        .inspect_err(|_| (context.engine).refused(&names.model, names.version, ORIGIN))?;
    // Before the body is looked at, as clients of this protocol expect.
    let target = context
        .engine
        .find(&names.model, names.version, ORIGIN)
        .await?;
    let length = body.len();
    let budget = &context.body_limits.budget;
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
    let (mut request, format) = request?;
    request.trace = seen.trace();
    request.priority = priority::of_headers(&parts.headers);
    let target = target.keyed(key.text())?.unwritten();
    let response = target.infer(request).await?;
    seen.version(|| Some(response.model_version));
    let (bytes, memory) = json_reply::size(&response, format);
    let encode = move || json_reply::encode(&response, format);
    let answer = reply::written(&parts.headers, budget, bytes, memory, encode).await?;
    target.written();
    Ok(answer)
}

/// Live sequences of a model.
#[derive(Serialize)]
struct SequenceRows {
    total: usize,
    sequences: Vec<SequenceRow>,
}

/// A sequence of a list.
#[derive(Serialize)]
struct SequenceRow {
    sequence_id: u64,
    version: Option<i64>,
    steps: u64,
    idle_seconds: Option<u64>,
    place: &'static str,
}

/// Lists the live sequences of a model.
async fn sequences(context: &RestContext, names: &Names, request: Request) -> Result<Response> {
    let (parts, _) = request.into_parts();
    let seen = access::seen(&parts.extensions, Some(&names.model));
    let most = limit(parts.uri.query())?;
    let engine = &context.engine;
    let SequenceList { total, listed } =
        engine.sequences(&names.model, names.version, most).await?;
    seen.version(|| names.version);
    let bytes = listed.len() * SEQUENCE_BYTES;
    let write = move || {
        let rows = listed.into_iter().map(|listed| SequenceRow {
            sequence_id: listed.id,
            version: listed.version,
            steps: listed.steps,
            idle_seconds: listed.idle.map(|idle| idle.as_secs()),
            place: match listed.place {
                SequencePlace::Here => "here",
                SequencePlace::Store => "store",
            },
        });
        reply::serialized(&SequenceRows {
            total,
            sequences: rows.collect(),
        })
    };
    task::sized("list sequences", bytes, write).await
}

/// Reads how many sequences a list is to have.
fn limit(query: Option<&str>) -> Result<usize> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let Some((_, text)) = pairs.find(|(key, _)| key == "limit") else {
        return Ok(USUAL_SEQUENCES);
    };
    let limit = text.parse().ok();
    let limit = limit.filter(|limit| (1..=MAX_SEQUENCES).contains(limit));
    limit.ok_or_else(|| {
        let text = first_chars(&text, 20);
        Error::invalid(format!(
            "Invalid limit - expected a whole number from 1 to {MAX_SEQUENCES}, found `{text}`"
        ))
    })
}

/// Saves a sequence, restores one, or ends it.
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
        let file = body::read(&parts, incoming, &context.body_limits).await?;
        let restored = engine.restore_sequence(model, names.version, id, file);
        let version = restored.await?;
        seen.version(|| Some(version));
        return Ok(StatusCode::CREATED.into_response());
    }
    if parts.method == Method::DELETE {
        let version = engine.end_sequence(model, names.version, id).await?;
        seen.version(|| Some(version));
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let budget = &context.body_limits.budget;
    let saved = engine.save_sequence(model, names.version, id, budget);
    let (file, version) = saved.await?;
    seen.version(|| Some(version));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], file).into_response())
}

fn statuses(engine: &Access, names: &Names) -> Result<Response> {
    let versions = tfs::asked_versions(engine, &names.model, names.version, ORIGIN)?;
    reply::serialized(&Statuses::of(&versions))
}

/// The states of everything, by name.
fn config(engine: &Access, status: StatusCode) -> Result<Response> {
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
        let model_version_status = versions.iter().map(tfs::version_status).collect();
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

fn metadata(engine: &Access, names: &Names) -> Result<Response> {
    let (part, facts) = loaded(engine, &names.model, names.version, ORIGIN)?;
    let signature = Signature {
        inputs: infos(&facts.info().inputs),
        outputs: infos(&facts.info().outputs),
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

/// Call that a path stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Inference.
    Predict(Names),
    /// A call of the protocol that is not served.
    Unserved,
    /// States of versions.
    Status(Names),
    /// Inputs and outputs.
    Metadata(Names),
    /// The live sequences.
    Sequences(Names),
    /// A sequence.
    Sequence(Names, u64),
    /// The states of everything.
    Config,
    /// Reads the configuration again.
    Reload,
}

/// The model that a path names, and its version: `None` for the default one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) model: String,
    pub(super) version: Option<i64>,
}

/// Reads a path; one character before it is passed over, as clients that add a slash expect.
///
/// # Errors
///
/// Fails if it is none of the protocol's.
pub(super) fn parse(path: &str) -> Result<Call> {
    let mut shortened = path.chars();
    shortened.next();
    let below = path
        .strip_prefix("/v1/")
        .or_else(|| shortened.as_str().strip_prefix("/v1/"))
        .ok_or_else(unknown_path)?;
    match below {
        "config" => return Ok(Call::Config),
        "config/reload" => return Ok(Call::Reload),
        _ => {}
    }
    let below = below.strip_prefix("models/").ok_or_else(unknown_path)?;
    let (names, action) = match below.split_once(':') {
        Some((names, action)) => (names, Some(action)),
        None => (below, None),
    };
    let (names, metadata) = match names.strip_suffix("/metadata") {
        Some(names) if action.is_none() => (names, true),
        _ => (names, false),
    };
    let (names, sequence) = match names.split_once("/sequences/") {
        Some((names, id)) if action.is_none() && !metadata => (names, Some(sequence_id(id)?)),
        _ => (names, None),
    };
    let (names, lists) = match names.strip_suffix("/sequences") {
        Some(names) if action.is_none() && !metadata && sequence.is_none() => (names, true),
        _ => (names, false),
    };
    let parts: Vec<&str> = names.split('/').collect();
    let (model, version) = match parts[..] {
        [model] => (model, None),
        [model, "versions", version] => (model, routes::version(version)?),
        // Versions have no labels; clients that send one get the default version.
        [model, "labels", label] if action.is_some() && !label.is_empty() => (model, None),
        _ => return Err(unknown_path()),
    };
    if model.is_empty() {
        return Err(unknown_path());
    }
    let names = Names {
        model: percent_decode_str(model)
            .decode_utf8()
            .map_err(|_| unknown_path())?
            .into_owned(),
        version,
    };
    match action {
        Some("predict") => Ok(Call::Predict(names)),
        Some("classify" | "regress") => Ok(Call::Unserved),
        Some(_) => Err(unknown_path()),
        None if metadata => Ok(Call::Metadata(names)),
        None if lists => Ok(Call::Sequences(names)),
        None => Ok(match sequence {
            Some(id) => Call::Sequence(names, id),
            None => Call::Status(names),
        }),
    }
}

/// Returns whether a path is that of a sequence.
pub(in crate::frontends) fn is_sequence(path: &str) -> bool {
    // Nearly no path has this part.
    path.contains("/sequences/") && matches!(parse(path), Ok(Call::Sequence(..)))
}

/// Returns whether a path is that of a sequence, or of their list.
pub(in crate::frontends) fn is_about_sequences(path: &str) -> bool {
    path.contains("/sequences")
        && matches!(parse(path), Ok(Call::Sequence(..) | Call::Sequences(_)))
}

/// Reads the id of a sequence, which is never 0.
fn sequence_id(id: &str) -> Result<u64> {
    let digits = id.bytes().all(|byte| byte.is_ascii_digit());
    let id = id.parse().ok().filter(|&id| digits && id > 0);
    id.ok_or_else(unknown_path)
}

#[cfg(test)]
mod tests {
    use super::{Call, MAX_SEQUENCES, Names, USUAL_SEQUENCES, limit, parse};
    use crate::frontends::routes::NO_NUMBER;

    fn names(model: &str, version: Option<i64>) -> Names {
        Names {
            model: model.to_owned(),
            version,
        }
    }

    #[test]
    fn every_form_is_read() {
        for (path, call) in [
            ("/v1/models/m:predict", Call::Predict(names("m", None))),
            ("//v1/models/m:predict", Call::Predict(names("m", None))),
            (
                "/v1/models/m/versions/2:predict",
                Call::Predict(names("m", Some(2))),
            ),
            (
                "/v1/models/m/versions/0:predict",
                Call::Predict(names("m", None)),
            ),
            (
                "/v1/models/m/labels/stable:predict",
                Call::Predict(names("m", None)),
            ),
            ("/v1/models/m:classify", Call::Unserved),
            ("/v1/models/m/versions/1:regress", Call::Unserved),
            ("/v1/models/m", Call::Status(names("m", None))),
            ("/v1/models/a%20b%2Fc", Call::Status(names("a b/c", None))),
            (
                "/v1/models/m/versions/007",
                Call::Status(names("m", Some(7))),
            ),
            ("/v1/models/m/metadata", Call::Metadata(names("m", None))),
            (
                "/v1/models/m/versions/1/metadata",
                Call::Metadata(names("m", Some(1))),
            ),
            ("/v1/models/metadata", Call::Status(names("metadata", None))),
            (
                "/v1/models/m/sequences/7",
                Call::Sequence(names("m", None), 7),
            ),
            ("/v1/models/m/sequences", Call::Sequences(names("m", None))),
            (
                "//v1/models/m/versions/2/sequences",
                Call::Sequences(names("m", Some(2))),
            ),
            (
                "/v1/models/sequences/sequences",
                Call::Sequences(names("sequences", None)),
            ),
            (
                "//v1/models/m/versions/2/sequences/18446744073709551615",
                Call::Sequence(names("m", Some(2)), u64::MAX),
            ),
            (
                "/v1/models/m/versions/9223372036854775808:predict",
                Call::Predict(names("m", Some(NO_NUMBER))),
            ),
            ("/v1/config", Call::Config),
            ("/v1/config/reload", Call::Reload),
        ] {
            assert_eq!(parse(path).unwrap(), call, "{path}");
        }
    }

    #[test]
    fn lists_have_a_limit() {
        for (query, expected) in [
            (None, USUAL_SEQUENCES),
            (Some(""), USUAL_SEQUENCES),
            (Some("x=1&limit=7"), 7),
            (Some("limit=10000"), MAX_SEQUENCES),
        ] {
            assert_eq!(limit(query).unwrap(), expected, "{query:?}");
        }
        for query in ["limit=", "limit=0", "limit=10001", "limit=-1", "limit=a"] {
            limit(Some(query)).unwrap_err();
        }
        let error = limit(Some("limit=many")).unwrap_err();
        insta::assert_snapshot!(
            error.message(),
            @"Invalid limit - expected a whole number from 1 to 10000, found `many`"
        );
    }

    #[test]
    fn other_paths_are_none() {
        for path in [
            "/v1",
            "/v1/",
            "/v1/models",
            "/v1/models/",
            "/v1/models/:predict",
            "/v1/models/m/",
            "/v1/models/m:predict/",
            "/v1/models/m:infer",
            "/v1/models/m:predict:predict",
            "/v1/models/m/metadata:predict",
            "/v1/models/m/labels/stable",
            "/v1/models/m/labels/:predict",
            "/v1/models/m/versions/",
            "/v1/models/m/versions/x",
            "/v1/models/m/versions/-1",
            "/v1/models/m/versions/1/x",
            "/v1/models/m/metadata/",
            "/v1/models/m/sequences/",
            "/v1/models/m/sequences/sequences",
            "/v1/models/m/sequences/7/sequences",
            "/v1/models/m/sequences:predict",
            "/v1/models/m/sequences/metadata",
            "/v1/models//sequences",
            "/v1/models/m/labels/stable/sequences",
            "/v1/models/m/sequences/0",
            "/v1/models/m/sequences/+1",
            "/v1/models/m/sequences/x",
            "/v1/models/m/sequences/18446744073709551616",
            "/v1/models/m/sequences/7/metadata",
            "/v1/models/m/sequences/7:predict",
            "/v1/models/m/labels/stable/sequences/7",
            "/v1/models/%ff",
            "/v1/config/",
            "/v1/config/reload/",
            "///v1/config",
            "/v2/config",
            "",
        ] {
            assert_eq!(
                parse(path).unwrap_err().to_string(),
                "Invalid request URL",
                "{path}"
            );
        }
    }
}
