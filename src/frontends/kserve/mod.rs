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

use self::triton::EXTENSIONS;
use super::{SERVER_NAME, SERVER_VERSION};
use crate::{
    engine::{Servable, ServableFacts},
    error::Result,
    metrics::Query,
    proto::kserve::{
        ModelMetadataResponse, ServerMetadataResponse, model_metadata_response::TensorMetadata,
    },
    request::RequestOrigin,
    servable::TensorInfo,
    tensor::DataType,
};

/// The platform that metadata calls answer.
const PLATFORM: &str = "OpenVINO";

/// Datatype in metadata for a tensor of a pipeline that no node determines.
const OPEN_TYPE: &str = "UNDEFINED";

/// Datatype in metadata for tensors of graphs.
const GRAPH_TYPE: &str = "INVALID";

/// Describes the server.
fn server_metadata() -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: SERVER_NAME.to_owned(),
        version: SERVER_VERSION.to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    }
}

/// Describes a version of a servable; returns also what is loaded of it.
fn model_metadata(
    servable: &Servable,
    version: Option<i64>,
    origin: RequestOrigin,
) -> Result<(ModelMetadataResponse, ServableFacts)> {
    let part = servable.part(version)?;
    let facts = part.loaded();
    part.reporter().queried(origin, Query::Metadata, &facts);
    let facts = facts?;
    let open = match facts.is_graph() {
        true => GRAPH_TYPE,
        false => OPEN_TYPE,
    };
    let tensors = |infos: &[TensorInfo]| {
        let tensors = infos.iter().map(|info| TensorMetadata {
            name: info.name.clone(),
            datatype: info.decided().map_or(open, DataType::kserve).to_owned(),
            shape: info.shape.wire(),
        });
        tensors.collect()
    };
    let info = facts.info();
    let available = servable.available().into_iter();
    let metadata = ModelMetadataResponse {
        name: servable.name().to_owned(),
        versions: available.map(|number| number.to_string()).collect(),
        platform: PLATFORM.to_owned(),
        inputs: tensors(&info.inputs),
        outputs: tensors(&info.outputs),
    };
    Ok((metadata, facts))
}
