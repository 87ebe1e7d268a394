//! Answers as bytes: the outputs as a message of KServe's protocol has them.

use bytes::Bytes;
use prost::Message;

use crate::{
    error::{Error, Result},
    proto::kserve::{ModelInferResponse, model_infer_response::InferOutputTensor},
    tensor::{DataType, Tensor, TensorMap},
};

/// Encodes outputs.
pub(super) fn encode(outputs: &TensorMap) -> Bytes {
    let described = outputs.iter().map(|(name, tensor)| InferOutputTensor {
        name: name.clone(),
        datatype: tensor.dtype().to_string(),
        shape: tensor
            .shape()
            .iter()
            .map(|&length| i64::try_from(length).unwrap_or(i64::MAX))
            .collect(),
        ..InferOutputTensor::default()
    });
    let message = ModelInferResponse {
        outputs: described.collect(),
        raw_output_contents: outputs
            .iter()
            .map(|(_, tensor)| tensor.data().clone())
            .collect(),
        ..ModelInferResponse::default()
    };
    message.encode_to_vec().into()
}

/// Decodes outputs.
///
/// # Errors
///
/// Fails if they are none.
pub(super) fn decode(bytes: Bytes) -> Result<TensorMap> {
    let damaged =
        |why: &str| Error::internal("Sequence store is damaged").with_source(Error::internal(why));
    let message = ModelInferResponse::decode(bytes).map_err(|_| damaged("no answer"))?;
    let described = message.outputs.into_iter().zip(message.raw_output_contents);
    described
        .map(|(output, data)| {
            let dtype = DataType::from_kserve(&output.datatype)
                .ok_or_else(|| damaged("another datatype"))?;
            let shape = output
                .shape
                .iter()
                .map(|&length| usize::try_from(length).unwrap_or(0))
                .collect();
            let tensor = Tensor::new(dtype, shape, data).map_err(|_| damaged("another length"))?;
            Ok((output.name, tensor))
        })
        .collect()
}
