//! TensorFlow Serving: the same calls over gRPC and REST.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub mod grpc;
mod json;
mod json_reply;
pub mod rest;
mod tensors;

use std::collections::BTreeMap;

use crate::{
    engine::{Servable, ServableFacts, ServableVersion, not_found},
    error::Result,
    frontends::guard::Access,
    metrics::Query,
    model::{self, VersionErrorCode},
    proto::{
        tensorflow::{self, TensorShapeProto, error, tensor_shape_proto::Dim},
        tensorflow_serving::{ModelVersionStatus, StatusProto, model_version_status::State},
    },
    request::RequestOrigin,
    servable::TensorInfo,
    tensor::tensorflow::tf_type,
};

/// The name of the one signature that a model has.
const SIGNATURE: &str = "serving_default";

/// The type of a model's signatures in metadata answers.
const SIGNATURES_TYPE: &str = "type.googleapis.com/tensorflow.serving.SignatureDefMap";

/// Describes the inputs or the outputs of a servable. A pipeline may leave types open.
fn infos(tensors: &[TensorInfo]) -> BTreeMap<String, tensorflow::TensorInfo> {
    let described = tensors.iter().map(|tensor| {
        let dtype = tensor.decided();
        let info = tensorflow::TensorInfo {
            dtype: dtype
                .map_or(tensorflow::DataType::DtInvalid, tf_type)
                .into(),
            tensor_shape: Some(shape(tensor.shape.wire())),
            name: tensor.name.clone(),
        };
        (tensor.name.clone(), info)
    });
    described.collect()
}

/// Makes a shape of its lengths.
fn shape(lengths: impl IntoIterator<Item = i64>) -> TensorShapeProto {
    let dims = lengths.into_iter().map(|size| Dim {
        size,
        name: String::new(),
    });
    TensorShapeProto {
        dim: dims.collect(),
        unknown_rank: false,
    }
}

/// Finds what a metadata call is about: a version and what is loaded of it.
fn loaded(
    engine: &Access,
    name: &str,
    version: Option<i64>,
    origin: RequestOrigin,
) -> Result<(ServableVersion, ServableFacts)> {
    let servable = engine.servable(name)?;
    // This protocol has no words for what is known of those.
    if matches!(servable, Servable::Graph(_)) {
        return Err(not_found());
    }
    let part = servable.part(version)?;
    let facts = part.loaded();
    part.reporter().queried(origin, Query::Metadata, &facts);
    Ok((part, facts?))
}

/// Finds the versions that a status call is about: one, or all, the lowest first.
fn asked_versions(
    engine: &Access,
    name: &str,
    version: Option<i64>,
    origin: RequestOrigin,
) -> Result<Vec<ServableVersion>> {
    let servable = engine.visible(name)?;
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
fn version_status(version: &ServableVersion) -> ModelVersionStatus {
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
