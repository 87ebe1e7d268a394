//! `ModelConfig`: what clients of Triton ask before they send load.
//!
//! Clients compare it with the metadata. So `max_batch_size` is 0, which means that no dimension is
//! set aside for the batch, and the dimensions are those of the metadata.

use serde::{Serialize, Serializer};

use super::PLATFORM;
use crate::{
    engine::{Engine, ServableFacts},
    error::Result,
    pipeline::TensorDirection,
    proto::kserve::{self, DataType as Type},
    servable::TensorInfo,
    tensor::DataType,
};

/// Triton's name of the backend that runs OpenVINO models.
const BACKEND: &str = "openvino";

/// The configuration of a model.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    name: String,
    platform: &'static str,
    backend: &'static str,
    max_batch_size: i32,
    input: Vec<Tensor>,
    output: Vec<Tensor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_batching: Option<SequenceBatching>,
    model_transaction_policy: TransactionPolicy,
}

#[derive(Debug, Serialize)]
struct Tensor {
    name: String,
    #[serde(serialize_with = "by_name")]
    data_type: Type,
    dims: Vec<i64>,
}

/// By this, load generators know that requests belong to sequences.
#[derive(Debug, Serialize)]
struct SequenceBatching {
    /// 0: unknown, since the time until an idle sequence goes varies.
    max_sequence_idle_microseconds: u64,
}

#[derive(Debug, Serialize)]
struct TransactionPolicy {
    decoupled: bool,
}

impl Config {
    /// Describes a version of a model.
    ///
    /// # Errors
    ///
    /// Fails if there is no such model or version, or it is not loaded.
    pub(super) fn of(engine: &Engine, name: &str, version: Option<i64>) -> Result<Self> {
        let servable = engine.servable(name)?;
        let facts = servable.part(version)?.loaded()?;
        Ok(Self::new(servable.name(), &facts))
    }

    fn new(name: &str, facts: &ServableFacts) -> Self {
        let info = facts.info();
        let tensor = |side: TensorDirection, info: &TensorInfo| Tensor {
            name: info.name.clone(),
            data_type: facts.dtype(side, info).map_or(Type::TypeInvalid, data_type),
            dims: info.shape.wire(),
        };
        Self {
            name: name.to_owned(),
            platform: PLATFORM,
            backend: BACKEND,
            max_batch_size: 0,
            input: info
                .inputs
                .iter()
                .map(|it| tensor(TensorDirection::Input, it))
                .collect(),
            output: info
                .outputs
                .iter()
                .map(|it| tensor(TensorDirection::Output, it))
                .collect(),
            sequence_batching: facts.is_stateful().then_some(SequenceBatching {
                max_sequence_idle_microseconds: 0,
            }),
            model_transaction_policy: TransactionPolicy { decoupled: false },
        }
    }
}

impl From<Config> for kserve::ModelConfig {
    fn from(config: Config) -> Self {
        let input = |tensor: Tensor| kserve::ModelInput {
            name: tensor.name,
            data_type: tensor.data_type.into(),
            dims: tensor.dims,
        };
        let output = |tensor: Tensor| kserve::ModelOutput {
            name: tensor.name,
            data_type: tensor.data_type.into(),
            dims: tensor.dims,
        };
        Self {
            name: config.name,
            platform: config.platform.to_owned(),
            backend: config.backend.to_owned(),
            max_batch_size: config.max_batch_size,
            input: config.input.into_iter().map(input).collect(),
            output: config.output.into_iter().map(output).collect(),
            sequence_batching: config.sequence_batching.map(|batching| {
                kserve::ModelSequenceBatching {
                    max_sequence_idle_microseconds: batching.max_sequence_idle_microseconds,
                }
            }),
            model_transaction_policy: Some(kserve::ModelTransactionPolicy {
                decoupled: config.model_transaction_policy.decoupled,
            }),
        }
    }
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

fn by_name<S: Serializer>(data_type: &Type, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(data_type.as_str_name())
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
