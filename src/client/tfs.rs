//! Common parts of TensorFlow Serving's two wires: names of datatypes, metadata, states, and the data
//! that responses are decoded with.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{
    error::{AnswerError, ClientError},
    http::{Http, from_json},
    message::{
        ClientResponse, ModelId, ModelMetadata, ModelProperties, ModelStatus, Request,
        TensorMetadata, VersionStatus,
    },
    sequence,
};
use crate::{
    proto::{
        tensorflow::{DataType as TfType, TensorInfo, error::Code as TfCode},
        tensorflow_serving::{
            GetModelStatusResponse, ModelSpec, ModelVersionStatus, SignatureDefMap,
            model_spec::VersionChoice, model_version_status::State,
        },
    },
    tensor::{DataType, Tensor, TensorMap, tensorflow::of_tf_type},
};

/// The one part of a model's metadata that there is.
pub(super) const SIGNATURES: &str = "signature_def";

/// The signature that models are asked by; without it, the first there is.
const SIGNATURE: &str = "serving_default";

/// Path of the states of all models.
pub(super) const CONFIG: [&str; 2] = ["v1", "config"];

/// Message with the states of a model.
pub(super) const STATUS: &str = "tensorflow.serving.GetModelStatusResponse";

/// Finds the type of a number of TensorFlow's; the name is what it is called if we lack it.
pub(super) fn dtype(number: i32) -> Result<DataType, String> {
    of_tf_type(number).ok_or_else(|| match TfType::try_from(number) {
        Ok(known) => known.as_str_name().to_owned(),
        Err(_) => number.to_string(),
    })
}

/// Asks for the states of all models, which TensorFlow Serving itself does not have.
pub(super) async fn config(http: &Http) -> Result<Vec<ModelStatus>, ClientError> {
    let json = http.get(&CONFIG).await?;
    let models: BTreeMap<String, &RawValue> = http.decode(&json)?;
    let model = |(name, json): (String, &RawValue)| {
        from_json(STATUS, json.get().as_bytes()).map(|message| status(name, message))
    };
    let models = models.into_iter().map(model).collect::<Result<_, _>>();
    models.map_err(|source| http.unreadable(source))
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
        properties: ModelProperties::default(),
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

/// Makes a response of the outputs that came: those asked for, since not every server selects them, in the order
/// asked for; all are in the model's order. The id of a sequence comes last, whatever was asked for.
pub(super) fn answer(
    request: &Request,
    version: Option<i64>,
    mut came: Vec<(String, Tensor)>,
) -> ClientResponse {
    let place = |name: &str| {
        let known = request.model_outputs.iter().map(|output| &output.name);
        let mut order = request.outputs.iter().chain(known);
        order.position(|ordered| ordered == name)
    };
    if !request.outputs.is_empty() {
        came.retain(|(name, _)| request.outputs.contains(name) || name == sequence::ID);
    }
    came.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    let version = version.map(|version| version.to_string());
    ClientResponse {
        model_name: request.model.name.clone(),
        model_version: version
            .or_else(|| request.model.version.clone())
            .unwrap_or_default(),
        id: String::new(),
        outputs: TensorMap::from_iter(came),
        opaque: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ModelId, SignatureDefMap, TensorInfo, metadata, tensor};
    use crate::proto::tensorflow::SignatureDef;

    #[test]
    fn types_that_tensors_lack_have_their_own_names() {
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
