//! TensorFlow Serving: the same calls over gRPC and REST.

pub mod grpc;
mod json;
mod json_reply;
pub(super) mod path;
pub mod rest;
mod status;
mod tensors;

use std::collections::BTreeMap;

use crate::{
    engine::{Engine, Servable, ServableFacts, ServableVersion, not_found},
    error::Result,
    metrics::Query,
    pipeline::TensorDirection,
    proto::tensorflow::{self, TensorShapeProto, tensor_shape_proto::Dim},
    request::RequestOrigin,
    tensor::DataType,
};

/// The name of the one signature that a model has.
const SIGNATURE: &str = "serving_default";

/// The type of a model's signatures in metadata answers.
const SIGNATURES_TYPE: &str = "type.googleapis.com/tensorflow.serving.SignatureDefMap";

/// Describes the inputs or the outputs of a servable. A pipeline may leave types open.
fn infos(facts: &ServableFacts, side: TensorDirection) -> BTreeMap<String, tensorflow::TensorInfo> {
    let tensors = match side {
        TensorDirection::Input => &facts.info().inputs,
        TensorDirection::Output => &facts.info().outputs,
    };
    let described = tensors.iter().map(|tensor| {
        let dtype = facts.dtype(side, tensor);
        let info = tensorflow::TensorInfo {
            dtype: dtype
                .map_or(tensorflow::DataType::DtInvalid, wire_type)
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
    engine: &Engine,
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

/// Returns the protocol's name of a type.
const fn wire_type(dtype: DataType) -> tensorflow::DataType {
    match dtype {
        DataType::Bool => tensorflow::DataType::DtBool,
        DataType::I8 => tensorflow::DataType::DtInt8,
        DataType::I16 => tensorflow::DataType::DtInt16,
        DataType::I32 => tensorflow::DataType::DtInt32,
        DataType::I64 => tensorflow::DataType::DtInt64,
        DataType::U8 => tensorflow::DataType::DtUint8,
        DataType::U16 => tensorflow::DataType::DtUint16,
        DataType::U32 => tensorflow::DataType::DtUint32,
        DataType::U64 => tensorflow::DataType::DtUint64,
        DataType::F16 => tensorflow::DataType::DtHalf,
        DataType::Bf16 => tensorflow::DataType::DtBfloat16,
        DataType::F32 => tensorflow::DataType::DtFloat,
        DataType::F64 => tensorflow::DataType::DtDouble,
        DataType::String => tensorflow::DataType::DtString,
    }
}

/// Finds the type of one of the protocol's numbers.
fn own_type(number: i32) -> Option<DataType> {
    DataType::ALL
        .into_iter()
        .find(|&dtype| wire_type(dtype) as i32 == number)
}
