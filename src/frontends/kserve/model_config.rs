//! `ModelConfig`: what clients of Triton ask before they send load.
//!
//! Clients compare it with the metadata. So `max_batch_size` is 0, which means that no dimension is
//! set aside for the batch, and the dimensions are those of the metadata.

use super::PLATFORM;
use crate::{
    engine::Engine,
    error::Result,
    proto::kserve::{
        DataType as Type, ModelConfig, ModelInput, ModelOutput, ModelSequenceBatching,
        ModelTransactionPolicy,
    },
    servable::TensorInfo,
    tensor::DataType,
};

/// Triton's name of the backend that runs OpenVINO models.
const BACKEND: &str = "openvino";

/// Describes a version of a model.
///
/// # Errors
///
/// Fails if there is no such model or version, or it is not loaded.
pub(super) fn of(engine: &Engine, name: &str, version: Option<i64>) -> Result<ModelConfig> {
    let servable = engine.servable(name)?;
    let facts = servable.part(version)?.loaded()?;
    let data_type = |info: &TensorInfo| {
        let known = info.decided();
        known.map_or(Type::TypeInvalid, data_type).into()
    };
    let inputs = facts.info().inputs.iter().map(|info| ModelInput {
        name: info.name.clone(),
        data_type: data_type(info),
        dims: info.shape.wire(),
    });
    let outputs = facts.info().outputs.iter().map(|info| ModelOutput {
        name: info.name.clone(),
        data_type: data_type(info),
        dims: info.shape.wire(),
    });
    Ok(ModelConfig {
        name: servable.name().to_owned(),
        platform: PLATFORM.to_owned(),
        backend: BACKEND.to_owned(),
        max_batch_size: 0,
        input: inputs.collect(),
        output: outputs.collect(),
        // By this, load generators know that requests belong to sequences. The time until an idle one goes
        // varies, so that it is unknown: 0.
        sequence_batching: facts.is_stateful().then(ModelSequenceBatching::default),
        model_transaction_policy: Some(ModelTransactionPolicy { decoupled: false }),
    })
}

const fn data_type(dtype: DataType) -> Type {
    match dtype {
        DataType::Bool => Type::TypeBool,
        DataType::U8 => Type::TypeUint8,
        DataType::U16 => Type::TypeUint16,
        DataType::U32 => Type::TypeUint32,
        DataType::U64 => Type::TypeUint64,
        DataType::I8 => Type::TypeInt8,
        DataType::I16 => Type::TypeInt16,
        DataType::I32 => Type::TypeInt32,
        DataType::I64 => Type::TypeInt64,
        DataType::F16 => Type::TypeFp16,
        DataType::Bf16 => Type::TypeBf16,
        DataType::F32 => Type::TypeFp32,
        DataType::F64 => Type::TypeFp64,
        DataType::String => Type::TypeString,
    }
}

#[cfg(test)]
mod tests {
    use super::data_type;
    use crate::tensor::DataType;

    #[test]
    fn types_have_the_names_of_the_protocol_with_a_prefix() {
        for dtype in DataType::ALL {
            let name = match dtype {
                DataType::String => "STRING",
                dtype => dtype.kserve(),
            };
            assert_eq!(data_type(dtype).as_str_name(), format!("TYPE_{name}"));
        }
    }
}
