//! The states of versions, as gRPC and REST tell them.

use serde::Serialize;

use crate::{
    engine::{Engine, ServableVersion},
    error::Result,
    metrics::Query,
    model::{self, VersionErrorCode},
    proto::{
        tensorflow::error,
        tensorflow_serving::{ModelVersionStatus, StatusProto, model_version_status::State},
    },
    request::RequestOrigin,
};

/// Finds the versions that a status call is about: one, or all, the lowest first.
pub(super) fn versions(
    engine: &Engine,
    name: &str,
    version: Option<i64>,
    origin: RequestOrigin,
) -> Result<Vec<ServableVersion>> {
    let servable = engine.servable(name)?;
    let versions = match version {
        Some(number) => vec![servable.part(Some(number))?],
        None => servable.parts(),
    };
    // The figure is the model's; any of its versions counts it.
    if let Some(version) = versions.first() {
        version
            .reporter()
            .queried(origin, Query::State, &Ok::<(), ()>(()));
    }
    Ok(versions)
}

/// Makes the message of a version.
pub(super) fn message(version: &ServableVersion) -> ModelVersionStatus {
    let status = version.status();
    let code = code(status.code);
    ModelVersionStatus {
        version: version.number(),
        state: state(status.state).into(),
        status: Some(StatusProto {
            error_code: code.into(),
            error_message: status
                .failure
                .as_deref()
                .unwrap_or(status.code.name())
                .to_owned(),
        }),
    }
}

const fn state(state: model::VersionState) -> State {
    match state {
        model::VersionState::Start => State::Start,
        model::VersionState::Loading => State::Loading,
        model::VersionState::Available => State::Available,
        model::VersionState::Unloading => State::Unloading,
        model::VersionState::End => State::End,
    }
}

const fn code(code: VersionErrorCode) -> error::Code {
    match code {
        VersionErrorCode::Ok => error::Code::Ok,
        VersionErrorCode::Unknown => error::Code::Unknown,
        VersionErrorCode::FailedPrecondition => error::Code::FailedPrecondition,
    }
}

/// The states of a model's versions in JSON.
#[derive(Debug, Serialize)]
pub(super) struct Statuses {
    model_version_status: Vec<VersionStatus>,
}

#[derive(Debug, Serialize)]
struct VersionStatus {
    version: String,
    state: &'static str,
    status: Outcome,
}

#[derive(Debug, Serialize)]
struct Outcome {
    error_code: &'static str,
    error_message: String,
}

impl Statuses {
    /// Makes the JSON form of versions.
    pub(super) fn of(versions: &[ServableVersion]) -> Self {
        Self {
            model_version_status: versions
                .iter()
                .map(|version| {
                    let message = message(version);
                    let state = message.state();
                    let status = message.status.unwrap_or_default();
                    VersionStatus {
                        version: message.version.to_string(),
                        state: state.as_str_name(),
                        status: Outcome {
                            error_code: status.error_code().as_str_name(),
                            error_message: status.error_message,
                        },
                    }
                })
                .collect(),
        }
    }
}
