//! Common parts of TensorFlow Serving's two wires: names of datatypes, states, and the data that
//! responses are decoded with.

use super::{
    error::AnswerError,
    message::{ClientResponse, ModelId, Request, TensorMetadata},
    sequence,
    status::VersionStatus,
};
use crate::{
    proto::tensorflow::DataType as TfType,
    tensor::{DataType, Tensor, TensorMap},
};

/// The signature that models are asked by.
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

/// Writes a type's KServe name, or TensorFlow's if we lack the type.
pub(super) fn datatype(dtype: Result<DataType, String>) -> String {
    match dtype {
        Ok(dtype) => dtype.kserve().to_owned(),
        Err(name) => name,
    }
}

/// Chooses the signature of a model: the usual one, or the first there is.
pub(super) fn signature<T>(
    signatures: impl IntoIterator<Item = (String, T)>,
) -> Result<T, AnswerError> {
    let mut chosen = None;
    for (name, signature) in signatures {
        if name == SIGNATURE {
            return Ok(signature);
        }
        chosen = chosen.or(Some(signature));
    }
    chosen.ok_or_else(|| AnswerError::Decode("found no signature of the model".into()))
}

/// Makes the state of a version; a message that only repeats the code is left out.
pub(super) fn version_status(
    version: String,
    state: String,
    code: String,
    message: String,
) -> VersionStatus {
    let tells_more = message != code;
    VersionStatus {
        version,
        state,
        code: Some(code),
        message: if tells_more { message } else { String::new() },
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
    use super::{TYPES, datatype, dtype, signature, tf_type};
    use crate::tensor::DataType;

    #[test]
    fn the_table_stands_in_the_order_of_the_types() {
        for (index, (ours, theirs)) in TYPES.into_iter().enumerate() {
            assert_eq!(ours as usize, index);
            assert_eq!(tf_type(ours), theirs);
            assert_eq!(dtype(theirs.into()), Ok(ours));
        }
        assert_eq!(datatype(dtype(1)), DataType::F32.kserve());
        assert_eq!(datatype(dtype(0)), "DT_INVALID");
        assert_eq!(datatype(dtype(8)), "8");
    }

    #[test]
    fn the_usual_signature_is_chosen_or_the_first() {
        let choose = |names: &[&str]| {
            signature(
                names
                    .iter()
                    .map(|name| ((*name).to_owned(), (*name).to_owned())),
            )
        };
        assert_eq!(
            choose(&["a", "serving_default"]).unwrap(),
            "serving_default"
        );
        assert_eq!(choose(&["b", "a"]).unwrap(), "b");
        assert!(choose(&[]).is_err());
    }
}
