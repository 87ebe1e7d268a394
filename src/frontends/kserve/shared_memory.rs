//! Registration of shared memory: the calls of Triton's extension, over gRPC and REST.
//!
//! Load generators forget the regions of earlier runs before they begin; that succeeds also if shared memory is
//! off, as there never is any.

use axum::{
    extract::{FromRequestParts, Path, Request},
    http::{StatusCode, request::Parts},
    response::Response,
};
use serde::Deserialize;

use super::unserved;
use crate::{
    error::{Error, Result},
    frontends::{
        body,
        guard::{Access, RestContext},
        reply, routes,
    },
    proto::kserve::{
        SystemSharedMemoryRegisterRequest, SystemSharedMemoryRegisterResponse,
        SystemSharedMemoryStatusResponse, SystemSharedMemoryUnregisterResponse,
        system_shared_memory_status_response::RegionStatus,
    },
};

/// Lists a region, or all of them if the name is empty.
fn regions(engine: &Access, name: &str) -> Result<Vec<RegionStatus>> {
    let Ok(memory) = engine.shared_memory() else {
        return Ok(Vec::new());
    };
    let regions = memory.status(name)?.into_iter();
    let status = regions.map(|region| RegionStatus {
        name: region.name().to_owned(),
        key: region.key().to_owned(),
        offset: region.offset(),
        byte_size: region.byte_size(),
    });
    Ok(status.collect())
}

pub(super) fn status(engine: &Access, name: &str) -> Result<SystemSharedMemoryStatusResponse> {
    let regions = regions(engine, name)?.into_iter();
    let regions = regions.map(|region| (region.name.clone(), region));
    Ok(SystemSharedMemoryStatusResponse {
        regions: regions.collect(),
    })
}

pub(super) fn register(
    engine: &Access,
    request: &SystemSharedMemoryRegisterRequest,
) -> Result<SystemSharedMemoryRegisterResponse> {
    engine.about(&request.name);
    let memory = engine.shared_memory()?;
    memory.register(
        &request.name,
        &request.key,
        request.offset,
        request.byte_size,
    )?;
    Ok(SystemSharedMemoryRegisterResponse {})
}

pub(super) fn unregister(engine: &Access, name: &str) -> SystemSharedMemoryUnregisterResponse {
    engine.about(name);
    if let Ok(memory) = engine.shared_memory() {
        memory.unregister(name);
    }
    SystemSharedMemoryUnregisterResponse {}
}

/// The name of a region in a path; empty if the path has none.
pub(crate) struct RegionName(String);

impl<S: Send + Sync> FromRequestParts<S> for RegionName {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        #[derive(Deserialize)]
        struct Names {
            #[serde(default)]
            name: String,
        }
        match Path::from_request_parts(parts, state).await {
            Ok(Path(Names { name })) => Ok(Self(name)),
            // What is percent-encoded in the path is not UTF-8.
            Err(_) => Err(routes::unknown_path()),
        }
    }
}

pub(crate) async fn get_status(
    context: RestContext,
    RegionName(name): RegionName,
) -> Result<Response> {
    reply::serialized(&regions(&context.engine, &name)?)
}

pub(crate) async fn post_register(
    context: RestContext,
    RegionName(name): RegionName,
    request: Request,
) -> Result<()> {
    #[derive(Deserialize)]
    struct Region {
        key: String,
        #[serde(default)]
        offset: u64,
        byte_size: u64,
    }
    context.engine.about(&name);
    let memory = context.engine.shared_memory()?;
    let (parts, incoming) = request.into_parts();
    let body = body::read(&parts, incoming, &context.body_limits.of_query()).await?;
    let region: Region = serde_json::from_slice(&body).map_err(|error| {
        Error::invalid(format!(
            "failed to register shared memory region '{name}': invalid args - expected JSON with key, offset, \
             and byte_size: {error}"
        ))
    })?;
    memory.register(&name, &region.key, region.offset, region.byte_size)
}

pub(crate) async fn post_unregister(context: RestContext, RegionName(name): RegionName) {
    unregister(&context.engine, &name);
}

/// Text of the error that regions of devices cannot be registered.
pub(super) const CUDA: &str =
    "CUDA shared memory; register system shared memory, or send tensors with the request";

/// The CUDA regions: there are none.
pub(crate) async fn get_cuda_status() -> Response {
    reply::json(StatusCode::OK, "[]")
}

pub(crate) async fn post_cuda_register() -> Error {
    unserved(CUDA)
}
