//! Common parts of TensorFlow Serving's two wires: names of datatypes, metadata, states, and the data
//! that responses are decoded with.

use std::collections::BTreeMap;

use super::{
    error::AnswerError,
    message::{ClientResponse, ModelId, ModelMetadata, Request, TensorMetadata},
    sequence,
    status::{ModelStatus, VersionStatus},
};
use crate::{
    proto::{
        tensorflow::{DataType as TfType, TensorInfo, error::Code as TfCode},
        tensorflow_serving::{
            GetModelStatusResponse, ModelSpec, ModelVersionStatus, SignatureDefMap,
            model_spec::VersionChoice, model_version_status::State,
        },
    },
    tensor::{DataType, Tensor, TensorMap},
};

/// The one part of a model's metadata that there is.
pub(super) const SIGNATURES: &str = "signature_def";

/// The signature that models are asked by; without it, the first there is.
const SIGNATURE: &str = "serving_default";

/// One row for each type: ours and TensorFlow's.
const TYPES: [(DataType, TfType); 14] = [
    (DataType::Bool, TfType::DtBool),
    (DataType::I8, TfType::DtInt8),
    (DataType::I16, TfType::DtInt16),
    (DataType::I32, TfType::DtInt32),
    (DataType::I64, TfType::DtInt64),
    (DataType::U8, TfType::DtUint8),
    (DataType::U16, TfType::DtUint16),
    (DataType::U32, TfType::DtUint32),
    (DataType::U64, TfType::DtUint64),
    (DataType::F16, TfType::DtHalf),
    (DataType::Bf16, TfType::DtBfloat16),
    (DataType::F32, TfType::DtFloat),
    (DataType::F64, TfType::DtDouble),
    (DataType::String, TfType::DtString),
];

/// Returns TensorFlow's type.
pub(super) fn tf_type(dtype: DataType) -> TfType {
    TYPES[dtype as usize].1
}

/// Finds the type of a number of TensorFlow's; the name is what it is called if we lack it.
pub(super) fn dtype(number: i32) -> Result<DataType, String> {
    let known = TfType::try_from(number).map_err(|_| number.to_string())?;
    TYPES
        .iter()
        .find_map(|(dtype, tf_type)| (*tf_type == known).then_some(*dtype))
        .ok_or_else(|| known.as_str_name().to_owned())
}

/// Reads the number of the version that a server names.
pub(super) fn number(spec: ModelSpec) -> Option<i64> {
    match spec.version_choice? {
        VersionChoice::Version(version) => Some(version),
        VersionChoice::VersionLabel(_) => None,
    }
}

/// Reads the inputs and outputs of a model.
pub(super) fn metadata(
    model: &ModelId,
    spec: Option<ModelSpec>,
    signatures: SignatureDefMap,
) -> Result<ModelMetadata, AnswerError> {
    let mut signatures = signatures.signature_def;
    let signature = signatures
        .remove(SIGNATURE)
        .or_else(|| signatures.pop_first().map(|(_, first)| first))
        .ok_or_else(|| AnswerError::decode("found no signature of the model"))?;
    let version = spec.and_then(number).map(|version| version.to_string());
    let tensors = |tensors: BTreeMap<String, TensorInfo>| {
        let tensors = tensors.into_iter();
        tensors.map(|(name, info)| tensor(name, &info)).collect()
    };
    Ok(ModelMetadata {
        name: model.name.clone(),
        versions: version.into_iter().collect(),
        platform: String::new(),
        inputs: tensors(signature.inputs),
        outputs: tensors(signature.outputs),
    })
}

/// A type that we lack has TensorFlow's name.
fn tensor(name: String, info: &TensorInfo) -> TensorMetadata {
    let datatype = dtype(info.dtype).map_or_else(|name| name, |dtype| dtype.kserve().to_owned());
    let dims = info.tensor_shape.iter().flat_map(|shape| &shape.dim);
    let shape: Vec<_> = dims.map(|dim| dim.size).collect();
    TensorMetadata::new(name, datatype, &shape)
}

/// Reads the states of a model.
pub(super) fn status(name: String, message: GetModelStatusResponse) -> ModelStatus {
    let versions = message.model_version_status.into_iter();
    ModelStatus {
        name,
        versions: versions.map(version_status).collect(),
    }
}

/// Reads the state of a version; a message that only repeats the code is left out.
fn version_status(status: ModelVersionStatus) -> VersionStatus {
    let state = State::try_from(status.state);
    let outcome = status.status.unwrap_or_default();
    let code = match TfCode::try_from(outcome.error_code) {
        Ok(code) => code.as_str_name().to_owned(),
        Err(_) => outcome.error_code.to_string(),
    };
    VersionStatus {
        version: status.version.to_string(),
        state: state.map_or_else(|it| it.0.to_string(), |it| it.as_str_name().to_owned()),
        message: match outcome.error_message == code {
            true => String::new(),
            false => outcome.error_message,
        },
        code: Some(code),
    }
}

/// Data known of a response before it arrives.
#[derive(Debug)]
pub(super) struct Asked {
    model: ModelId,
    /// The outputs asked for; empty for all.
    wanted: Vec<String>,
    /// The model's outputs.
    pub(super) known: Vec<TensorMetadata>,
}

impl Asked {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            model: request.model.clone(),
            wanted: request.outputs.clone(),
            known: request.model_outputs.clone(),
        }
    }

    /// Makes an answer of the outputs that came: those asked for, since not every server selects
    /// them, in the order asked for; all are in the model's order. The id of a sequence comes
    /// last, whatever was asked for.
    pub(super) fn answer(
        &self,
        version: Option<i64>,
        mut came: Vec<(String, Tensor)>,
    ) -> ClientResponse {
        let place = |name: &str| {
            let known = self.known.iter().map(|output| &output.name);
            let mut order = self.wanted.iter().chain(known);
            order.position(|ordered| ordered == name)
        };
        if !self.wanted.is_empty() {
            came.retain(|(name, _)| self.wanted.contains(name) || name == sequence::ID);
        }
        came.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        let version = version.map(|version| version.to_string());
        ClientResponse {
            model_name: self.model.name.clone(),
            model_version: version
                .or_else(|| self.model.version.clone())
                .unwrap_or_default(),
            id: String::new(),
            outputs: TensorMap::from_iter(came),
            opaque: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ModelId, SignatureDefMap, TYPES, TensorInfo, dtype, metadata, tensor, tf_type};
    use crate::proto::tensorflow::SignatureDef;

    #[test]
    fn the_table_stands_in_the_order_of_the_types() {
        for (index, (ours, theirs)) in TYPES.into_iter().enumerate() {
            assert_eq!(ours as usize, index);
            assert_eq!(tf_type(ours), theirs);
            assert_eq!(dtype(theirs.into()), Ok(ours));
        }
        for (dtype, expected) in [(1, "FP32"), (0, "DT_INVALID"), (8, "8")] {
            let info = TensorInfo {
                dtype,
                ..TensorInfo::default()
            };
            assert_eq!(tensor(String::new(), &info).datatype, expected);
        }
    }

    #[test]
    fn the_usual_signature_is_chosen_or_the_first() {
        let choose = |names: &[&str]| {
            let signature = |name: &&str| {
                let mut signature = SignatureDef::default();
                let input = ((*name).to_owned(), TensorInfo::default());
                signature.inputs.extend([input]);
                ((*name).to_owned(), signature)
            };
            let signature_def = names.iter().map(signature).collect();
            let signatures = SignatureDefMap { signature_def };
            let read = metadata(&ModelId::default(), None, signatures);
            read.map(|metadata| metadata.inputs[0].name.clone())
        };
        assert_eq!(
            choose(&["a", "serving_default"]).unwrap(),
            "serving_default"
        );
        assert_eq!(choose(&["b", "a"]).unwrap(), "a");
        assert!(choose(&[]).is_err());
    }
}
