//! KServe v2: the same calls over gRPC and REST.

mod codec;
mod contents;
pub mod grpc;
mod index;
mod json;
mod json_reply;
mod model_config;
pub mod rest;
mod statistics;
pub(in crate::frontends) mod stream;
pub(in crate::frontends) mod triton;

use crate::{
    engine::{Engine, Servable, ServableFacts},
    error::{Error, ErrorKind, Result},
    pipeline::TensorDirection,
    servable::TensorInfo,
    tensor::DataType,
};

/// The platform that metadata calls answer.
const PLATFORM: &str = "OpenVINO";

/// Datatype in metadata for a tensor of a pipeline that no node determines.
const OPEN_TYPE: &str = "UNDEFINED";

/// Datatype in metadata for tensors of graphs.
const GRAPH_TYPE: &str = "INVALID";

/// Returns what metadata calls say of the type of a tensor.
fn type_name(facts: &ServableFacts, side: TensorDirection, info: &TensorInfo) -> &'static str {
    let open = if facts.is_graph() {
        GRAPH_TYPE
    } else {
        OPEN_TYPE
    };
    facts.dtype(side, info).map_or(open, DataType::kserve)
}

/// Makes the inputs and the outputs of metadata responses, each with the name of its type.
fn tensors<'a, T>(
    facts: &'a ServableFacts,
    make: impl Fn(&'a TensorInfo, &'static str) -> T,
) -> (Vec<T>, Vec<T>) {
    let all = |side, infos: &'a [TensorInfo]| {
        let made = infos.iter().map(|it| make(it, type_name(facts, side, it)));
        made.collect()
    };
    let info = facts.info();
    (
        all(TensorDirection::Input, &info.inputs),
        all(TensorDirection::Output, &info.outputs),
    )
}

/// Reads a version of a gRPC request: empty or `0` is the default version.
fn grpc_version(text: &str) -> Result<Option<i64>> {
    match text {
        "" => Ok(None),
        text => match text.parse::<i64>() {
            Ok(0) => Ok(None),
            Ok(number) if !text.starts_with('+') => Ok(Some(number)),
            _ => Err(Error::invalid("invalid model version format in request")),
        },
    }
}

/// Returns the version of a call that was read; graphs do not heed any, so that theirs may be anything.
fn version_for(engine: &Engine, name: &str, read: Result<Option<i64>>) -> Result<Option<i64>> {
    read.or_else(|error| match engine.servable(name) {
        Ok(Servable::Graph(_)) => Ok(None),
        _ => Err(error),
    })
}

/// Reads a version of a REST path; `Ok(None)` is the default version.
fn rest_version(text: Option<&str>) -> Result<Option<i64>> {
    let Some(text) = text else {
        return Ok(None);
    };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(super::rest::unknown_path());
    }
    match text.parse::<i64>() {
        Ok(0) => Ok(None),
        Ok(number) => Ok(Some(number)),
        // All digits and no i64: a number that no version has.
        Err(_) => Err(Error::new(
            ErrorKind::NotFound,
            "Model with requested version is not found",
        )),
    }
}
