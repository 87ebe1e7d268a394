//! Calls of Triton's clients beyond the protocol: the REST side of model configuration and statistics,
//! and responses for extensions that are not supported.
//!
//! Load generators forget shared memory of earlier runs before they begin; that succeeds, as there
//! never is any. To register some fails, as does what would change the server.

use axum::{
    extract::State,
    http::{self, StatusCode},
    response::Response,
};
use bytes::Bytes;
use serde::Serialize;
use tonic::Status;

use super::{
    model_config,
    rest::{PathNames, metadata},
    statistics,
};
use crate::{
    error::{Error, ErrorKind, Result},
    frontends::{
        reply,
        rest::RestContext,
        unary::{self, UnaryBody},
    },
    proto::kserve::{ModelStatistics, ModelStatisticsResponse},
};

/// The extensions that clients may look for in the metadata of the server.
pub(super) const EXTENSIONS: [&str; 4] = [
    "binary_tensor_data",
    "model_configuration",
    "parameters",
    "statistics",
];

/// The gRPC calls that are known and not served, and what to do instead.
const UNSERVED: [(&str, &str); 6] = [
    ("RepositoryModelLoad", REPOSITORY),
    ("RepositoryModelUnload", REPOSITORY),
    ("SystemSharedMemoryRegister", SHARED_MEMORY),
    ("CudaSharedMemoryRegister", SHARED_MEMORY),
    ("TraceSetting", SETTING),
    ("LogSettings", SETTING),
];

const REPOSITORY: &str = "models are loaded and unloaded by the server's configuration";
const SHARED_MEMORY: &str = "shared memory; send tensors with the request";
const SETTING: &str = "settings are those of the server's command line";

fn unserved(reason: &str) -> Error {
    Error::new(
        ErrorKind::Unimplemented,
        format!("Functionality not implemented - {reason}"),
    )
}

/// The gRPC calls about shared memory that succeed: there is none, so nothing to list or forget.
const SHARED_MEMORY_CALLS: [&str; 4] = [
    "SystemSharedMemoryStatus",
    "SystemSharedMemoryUnregister",
    "CudaSharedMemoryStatus",
    "CudaSharedMemoryUnregister",
];

/// Answers the gRPC calls of Triton that do nothing here, whatever is in their messages.
pub(in crate::frontends) fn answer_call(method: &str) -> Option<http::Response<UnaryBody>> {
    if SHARED_MEMORY_CALLS.contains(&method) {
        // Their answers are messages without content: a flag and a length of zero.
        return Some(unary::success(Bytes::from_static(&[0; unary::PREFIX])));
    }
    let (_, reason) = UNSERVED.iter().find(|(name, _)| *name == method)?;
    Some(Status::from(unserved(reason)).into_http())
}

pub(crate) async fn no_repository() -> Error {
    unserved(REPOSITORY)
}

pub(crate) async fn no_shared_memory() -> Error {
    unserved(SHARED_MEMORY)
}

pub(crate) async fn no_setting() -> Error {
    unserved(SETTING)
}

/// The regions that are registered.
pub(crate) async fn shared_memory() -> Response {
    reply::json(StatusCode::OK, "[]")
}

pub(crate) async fn config(
    State(context): State<RestContext>,
    names: PathNames,
) -> Result<Response> {
    let version = names.version(&context.engine)?;
    reply::serialized(&model_config::of(&context.engine, &names.model, version)?)
}

pub(crate) async fn model_statistics(
    State(context): State<RestContext>,
    names: PathNames,
) -> Result<Response> {
    let version = names.version(&context.engine)?;
    let found = statistics::of(&context.engine, Some(&names.model), version)?;
    statistics_response(found)
}

/// The statistics of all models, unless there is a model whose metadata has this path.
pub(crate) async fn all_statistics(State(context): State<RestContext>) -> Result<Response> {
    let names = PathNames {
        model: "stats".to_owned(),
        version: None,
    };
    if context.engine.servable(&names.model).is_ok() {
        return metadata(State(context), names).await;
    }
    statistics_response(statistics::of(&context.engine, None, None)?)
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
        /// Of models with several responses to a request: there are none.
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
