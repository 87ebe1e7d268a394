//! States of sequences as files.
//!
//! A file is a safetensors one, with a tensor for each variable of the model. Its metadata says of what
//! model it is, and has a checksum over everything else in the file.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::loaded::Loaded;
use crate::{
    error::{Error, ErrorKind, Result},
    openvino::{SavedVariables, SequenceState},
    tensor::{DataType, Tensor, TensorMap},
};

/// The format of the files; another number for one that older servers cannot read.
const FORMAT: &str = "1";

/// Maximum size in bytes of a header, which takes some times as many once it is read.
const MAX_HEADER_LEN: u64 = 1 << 20;

/// Key of the checksum.
const CHECKSUM: &str = "ovms_checksum";

/// Each datatype as the files have it.
const TYPES: [(DataType, Dtype); 13] = [
    (DataType::Bool, Dtype::BOOL),
    (DataType::I8, Dtype::I8),
    (DataType::I16, Dtype::I16),
    (DataType::I32, Dtype::I32),
    (DataType::I64, Dtype::I64),
    (DataType::U8, Dtype::U8),
    (DataType::U16, Dtype::U16),
    (DataType::U32, Dtype::U32),
    (DataType::U64, Dtype::U64),
    (DataType::F16, Dtype::F16),
    (DataType::Bf16, Dtype::BF16),
    (DataType::F32, Dtype::F32),
    (DataType::F64, Dtype::F64),
];

/// The state of a sequence, and of what model it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The model's name.
    pub model: String,
    /// Its version.
    pub version: i64,
    /// The digest of its files.
    pub digest: String,
    /// The id of the sequence.
    pub sequence: u64,
    /// The contents of the variables.
    pub tensors: TensorMap,
}

impl Snapshot {
    /// Copies the state of a sequence.
    ///
    /// # Errors
    ///
    /// Fails if it is of another instance of the model.
    pub fn new(
        (model, version): (&str, i64),
        sequence: u64,
        variables: &SavedVariables,
        state: &SequenceState,
    ) -> Result<Self> {
        Ok(Self {
            model: model.to_owned(),
            version,
            digest: variables.digest().to_owned(),
            sequence,
            tensors: variables.save(state)?,
        })
    }

    /// Makes a state of it.
    ///
    /// # Errors
    ///
    /// Fails if it is of another model.
    pub fn restore(
        &self,
        (model, version): (&str, i64),
        variables: &SavedVariables,
    ) -> Result<SequenceState> {
        let expected = [
            ("model", &*self.model, model),
            ("version", &self.version.to_string(), &version.to_string()),
            (
                "digest of the model's files",
                &self.digest,
                variables.digest(),
            ),
        ];
        for (what, found, expected) in expected {
            if found != expected {
                return Err(refused(format!("{what} is {found}; expected {expected}")));
            }
        }
        let restored = variables.restore(&self.tensors);
        restored.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => refused(error.message()),
            _ => error,
        })
    }

    /// Writes it as a file.
    ///
    /// # Errors
    ///
    /// Fails if a tensor has no form there.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let failed =
            |text: String| Error::internal("Internal error").with_source(Error::internal(text));
        let mut metadata: BTreeMap<String, String> = [
            ("ovms_state_format", FORMAT.to_owned()),
            ("model", self.model.clone()),
            ("version", self.version.to_string()),
            ("digest", self.digest.clone()),
            ("sequence_id", self.sequence.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let mut views = BTreeMap::new();
        for (name, tensor) in &self.tensors {
            let known = TYPES.iter().find(|known| known.0 == tensor.dtype());
            let dtype = known
                .ok_or_else(|| failed("strings are no state".to_owned()))?
                .1;
            let view = TensorView::new(dtype, tensor.shape().to_vec(), tensor.data());
            views.insert(
                name.as_str(),
                view.map_err(|error| failed(error.to_string()))?,
            );
        }
        metadata.insert(CHECKSUM.to_owned(), checksum(&metadata, &views));
        let metadata = HashMap::from_iter(metadata);
        let written = safetensors::serialize(views, Some(metadata));
        written.map_err(|error| failed(error.to_string()))
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Fails if it is none, of another format, or not as it was written.
    pub fn decode(file: &Bytes) -> Result<Self> {
        let unreadable = |error| refused(format!("no complete safetensors file: {error}"));
        let length = file.first_chunk().map(|length| u64::from_le_bytes(*length));
        if length.is_some_and(|length| length > MAX_HEADER_LEN) {
            return Err(refused(format!(
                "no safetensors file with a header of at most {MAX_HEADER_LEN} bytes"
            )));
        }
        let read = SafeTensors::deserialize(file).map_err(unreadable)?;
        let (_, header) = SafeTensors::read_metadata(file).map_err(unreadable)?;
        let metadata = header.metadata().iter().flatten();
        let mut metadata: BTreeMap<_, _> = metadata
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let format = metadata.get("ovms_state_format").cloned();
        if format.as_deref() != Some(FORMAT) {
            let found = format.unwrap_or_else(|| "missing".to_owned());
            return Err(refused(format!(
                "ovms_state_format is {found}; expected {FORMAT}"
            )));
        }
        let found = metadata.remove(CHECKSUM).unwrap_or_default();
        let views: BTreeMap<&str, _> = read.iter().collect();
        let actual = checksum(&metadata, &views);
        if found != actual {
            return Err(refused(format!(
                "checksum is {found}; expected {actual}: the file has changed"
            )));
        }
        let mut tensors = TensorMap::default();
        for (name, view) in views {
            let known = TYPES.iter().find(|known| known.1 == view.dtype());
            let dtype = known
                .ok_or_else(|| {
                    refused(format!(
                        "variable `{name}` is {}, which no variable is",
                        view.dtype()
                    ))
                })?
                .0;
            let tensor = Tensor::new(dtype, view.shape().to_vec(), file.slice_ref(view.data()));
            let tensor = tensor.map_err(|error| refused(error.to_string()))?;
            tensors.push((name.to_owned(), tensor));
        }
        let mut take = |key: &str| {
            metadata
                .remove(key)
                .ok_or_else(|| refused(format!("{key} is missing in its metadata")))
        };
        let number =
            |key: &str, text: String| refused(format!("{key} is {text}; expected a whole number"));
        let (version, sequence) = (take("version")?, take("sequence_id")?);
        Ok(Self {
            model: take("model")?,
            version: version.parse().map_err(|_| number("version", version))?,
            digest: take("digest")?,
            sequence: sequence
                .parse()
                .map_err(|_| number("sequence_id", sequence))?,
            tensors,
        })
    }
}

impl Loaded {
    /// Returns the variables, to save and restore states of sequences.
    ///
    /// # Errors
    ///
    /// Fails if states are no tensors.
    pub fn variables(&self) -> Result<&SavedVariables> {
        self.variables.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::FailedPrecondition,
                "State of the sequence cannot be saved or restored - state_mode of the model is \
                 requests",
            )
        })
    }
}

fn refused(text: impl std::fmt::Display) -> Error {
    Error::invalid(format!("State of the sequence cannot be restored - {text}"))
}

/// Computes the checksum of everything else in a file.
fn checksum(metadata: &BTreeMap<String, String>, views: &BTreeMap<&str, TensorView<'_>>) -> String {
    let mut context = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_le_bytes());
        context.update(bytes);
    };
    for (key, value) in metadata {
        add(key.as_bytes());
        add(value.as_bytes());
    }
    for (name, view) in views {
        add(name.as_bytes());
        add(format!("{} {:?}", view.dtype(), view.shape()).as_bytes());
        add(view.data());
    }
    let digest = context.finish();
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

#[cfg(test)]
mod tests;
