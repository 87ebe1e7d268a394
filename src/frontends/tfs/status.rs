//! The states of versions, as gRPC and REST tell them.

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
