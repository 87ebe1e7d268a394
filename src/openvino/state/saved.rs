//! States outside of the runtime: tensors by the names of the variables.

use std::{fs::File, io, sync::Arc};

use bytes::Bytes;
use ring::digest::{Context, SHA256};

use super::{
    Kept, SequenceState,
    variables::{Transfer, Variables},
};
use crate::{
    error::{Error, Result},
    openvino::{
        error::ModelLoadError,
        model_file::{self, Load},
        slot_error::{SlotError, runtime},
    },
    tensor::{PartialShape, Tensor, TensorMap, named},
};

/// The variables of a loaded model, to save and restore states.
#[derive(Clone)]
pub struct SavedVariables(pub(super) Arc<Variables>);

impl SavedVariables {
    /// Returns the digest of the files of the model, in hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Returns the bytes of a state.
    pub fn size(&self, state: &SequenceState) -> usize {
        let Some(Kept::Values(values)) = &state.kept else {
            return 0;
        };
        let passed = values.passed.iter();
        let passed = passed.map(|tensor| tensor.get_byte_size().unwrap_or(0));
        values.bytes.len() + passed.sum::<usize>()
    }

    /// Copies a state out.
    ///
    /// # Errors
    ///
    /// Fails if it is of another instance of the model, or the runtime fails.
    pub fn save(&self, state: &SequenceState) -> Result<TensorMap> {
        let copied = || -> Result<_, SlotError> {
            let Some(Kept::Values(values)) = &state.kept else {
                return Err(Error::internal("the sequence has no state yet").into());
            };
            let mut tensors = TensorMap::default();
            for (place, variable) in self.0.list.iter().enumerate() {
                let data = self.0.of(values, place)?;
                let shape = match (&variable.transfer, variable.shape.fixed()) {
                    (Transfer::Passed { index, .. }, None) => {
                        let shape = values.passed[*index].get_shape();
                        shape.map_err(runtime("reach the tensor of a variable"))?
                    }
                    (_, shape) => shape.unwrap_or_default(),
                };
                let tensor = Tensor::new(variable.dtype, shape, Bytes::copy_from_slice(data));
                let unfit = |error| Error::internal("Internal error").with_source(error);
                tensors.push((variable.name.to_string(), tensor.map_err(unfit)?));
            }
            Ok(tensors)
        };
        copied().map_err(internal)
    }

    /// Makes a state of tensors.
    ///
    /// # Errors
    ///
    /// Fails if they are not those of the variables, or the runtime fails.
    pub fn restore(&self, tensors: &TensorMap) -> Result<SequenceState> {
        let list = &self.0.list;
        let mut found = Vec::new();
        for variable in list {
            let (name, dtype, shape) = (&variable.name, variable.dtype, &variable.shape);
            let Some(tensor) = named(tensors, name) else {
                return Err(Error::invalid(format!(
                    "variable `{name}` is missing; expected {dtype} {shape}"
                )));
            };
            if tensor.dtype() != dtype || !shape.allows(tensor.shape()) {
                return Err(Error::invalid(format!(
                    "variable `{name}` is {} {}; expected {dtype} {shape}",
                    tensor.dtype(),
                    PartialShape::of(tensor.shape()),
                )));
            }
            found.push(tensor);
        }
        let is_known = |name: &str| list.iter().any(|variable| variable.name == name);
        if let Some((name, _)) = tensors.iter().find(|(name, _)| !is_known(name)) {
            return Err(Error::invalid(format!(
                "the model has no variable `{name}`"
            )));
        }
        let values = self.0.values(|place| Ok(found[place]));
        values.map(SequenceState::of).map_err(internal)
    }
}

fn internal(error: SlotError) -> Error {
    Error::internal("Internal error").with_source(error)
}

/// Computes the digest of the files of a model.
pub(super) fn digest(load: &Load<'_>) -> Result<String, ModelLoadError> {
    /// Feeds what is read to a digest.
    struct Sink(Context);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(Context::new(&SHA256));
    let own = load.model.with_extension("bin");
    let weights = load
        .weights
        .map(Into::into)
        .or(own.is_file().then_some(own));
    for path in model_file::files(load.model).chain(weights) {
        let read = File::open(&path).and_then(|mut file| io::copy(&mut file, &mut sink));
        let size = read.map_err(|source| ModelLoadError::Unreadable { path, source })?;
        sink.0.update(&size.to_le_bytes());
    }
    let digest = sink.0.finish();
    Ok(digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
