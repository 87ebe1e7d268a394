//! Variables of a model, and their contents between two steps.

use std::ops::Range;

use crate::{
    error::Error,
    openvino::{
        convert,
        describe::Described,
        error::ModelLoadError,
        ffi,
        names::Port,
        slot_error::{SlotError, new_tensor, runtime},
    },
    tensor::{DataType, Dim, PartialShape, Tensor, byte_size},
};

/// Variables of more bytes are passed. To give an infer request another input and another output
/// takes about as long as to copy so many bytes in and out (decision 0029).
pub(super) const MAX_COPIED: usize = 64 << 10;

/// Contents of a model's variables.
pub(in crate::openvino) struct StateValues {
    /// Contents of small variables, one behind the other.
    pub(super) bytes: Box<[u8]>,
    /// Contents of the other variables.
    pub(super) passed: Box<[ffi::Tensor]>,
}

/// Variables of a model, in the order of their inputs and outputs.
pub(super) struct Variables {
    pub(super) list: Vec<Variable>,
    /// The places of the first one among inputs and among outputs.
    pub(super) first: [usize; 2],
    /// Bytes of the small ones.
    pub(super) bytes: usize,
    /// Initial contents, but for those that depend on inputs.
    pub(super) initial: Vec<Tensor>,
    /// The places of those that depend on inputs.
    pub(super) computed: Vec<usize>,
    /// Digest of the files of the model.
    pub(super) digest: String,
}

/// Variable of a model.
pub(super) struct Variable {
    pub(super) name: String,
    /// Name of its input and output.
    port: String,
    pub(super) dtype: DataType,
    pub(super) shape: PartialShape,
    pub(super) transfer: Transfer,
}

/// Way of contents to a slot and back.
pub(super) enum Transfer {
    /// Copied, to these bytes.
    Copied(Range<usize>),
    /// Passed, as a tensor that has this shape before it is written.
    Passed {
        index: usize,
        shape: Vec<usize>,
        is_fixed: bool,
    },
}

impl Variables {
    pub(super) fn add(&mut self, name: &str, described: &Described) -> Result<(), ModelLoadError> {
        let (dtype, shape) = (described.info.dtype, described.info.shape.clone());
        // The runtime, too, begins with nothing where a length is open.
        let least = |dim: &Dim| match *dim {
            Dim::Fixed(length) => length,
            Dim::Range(..) | Dim::Any => 0,
        };
        let zeros: Vec<usize> = shape.0.iter().map(least).collect();
        let size = byte_size(dtype, &zeros).ok().flatten();
        let size = size.ok_or_else(|| ModelLoadError::unfit("strings are no state"))?;
        let is_fixed = shape.fixed().is_some();
        let transfer = if is_fixed && size <= MAX_COPIED {
            let start = self.bytes;
            self.bytes += size;
            Transfer::Copied(start..self.bytes)
        } else {
            let passed = |known: &&Variable| matches!(known.transfer, Transfer::Passed { .. });
            Transfer::Passed {
                index: self.list.iter().filter(passed).count(),
                shape: zeros.clone(),
                is_fixed,
            }
        };
        let zeros = Tensor::new(dtype, zeros, vec![0; size].into());
        let unfit = |error| Error::internal("Internal error").with_source(error);
        self.initial.push(zeros.map_err(unfit)?);
        self.list.push(Variable {
            name: name.to_owned(),
            port: described.own.clone(),
            dtype,
            shape,
            transfer,
        });
        Ok(())
    }

    /// Makes contents of checked values.
    pub(super) fn values<'a>(
        &self,
        value: impl Fn(usize) -> Result<&'a Tensor, SlotError>,
    ) -> Result<StateValues, SlotError> {
        let mut bytes = vec![0; self.bytes].into_boxed_slice();
        let mut passed = Vec::new();
        for (place, variable) in self.list.iter().enumerate() {
            let value = value(place)?;
            match &variable.transfer {
                Transfer::Copied(range) => copy(value.data(), &mut bytes[range.clone()])?,
                Transfer::Passed { .. } => {
                    let element = convert::element_type(variable.dtype);
                    let mut tensor = new_tensor(element, value.shape())?;
                    copy(value.data(), reach_mut(&mut tensor)?)?;
                    passed.push(tensor);
                }
            }
        }
        let passed = passed.into();
        Ok(StateValues { bytes, passed })
    }

    /// Returns ports for all, in their order.
    pub(super) fn ports<'a>(&self) -> impl Iterator<Item = Port<'a>> {
        self.list.iter().map(|variable| port(&variable.port))
    }

    /// Returns the contents of one.
    pub(super) fn of<'a>(
        &self,
        values: &'a StateValues,
        place: usize,
    ) -> Result<&'a [u8], SlotError> {
        match &self.list[place].transfer {
            Transfer::Copied(range) => Ok(&values.bytes[range.clone()]),
            Transfer::Passed { index, .. } => {
                let contents = values.passed[*index].get_raw_data();
                contents.map_err(runtime("reach the tensor of a variable"))
            }
        }
    }

    /// Sets the contents of one.
    pub(super) fn set(
        &self,
        values: &mut StateValues,
        place: usize,
        contents: &[u8],
    ) -> Result<(), SlotError> {
        match &self.list[place].transfer {
            Transfer::Copied(range) => copy(contents, &mut values.bytes[range.clone()]),
            Transfer::Passed { index, .. } => {
                copy(contents, reach_mut(&mut values.passed[*index])?)
            }
        }
    }

    /// Checks an initial value.
    pub(super) fn check(&self, of: usize, value: &Tensor) -> Result<(), Error> {
        let variable = &self.list[of];
        if variable.dtype == value.dtype() && variable.shape.allows(value.shape()) {
            return Ok(());
        }
        Err(Error::internal(format!(
            "a variable of {} {} has an initial value of {} {}",
            variable.dtype,
            variable.shape,
            value.dtype(),
            PartialShape::of(value.shape())
        )))
    }
}

/// Makes a port of a variable.
pub(super) fn port<'a>(name: &str) -> Port<'a> {
    Port {
        own: name.to_owned(),
        public: name.to_owned(),
        shape: None,
        layout: None,
    }
}

fn reach_mut(tensor: &mut ffi::Tensor) -> Result<&mut [u8], SlotError> {
    let reach = runtime("reach the tensor of a variable");
    tensor.get_raw_data_mut().map_err(reach)
}

pub(super) fn copy(source: &[u8], target: &mut [u8]) -> Result<(), SlotError> {
    if source.len() != target.len() {
        let (actual, expected) = (source.len(), target.len());
        let text = format!("a variable has {actual} bytes where {expected} are expected");
        return Err(Error::internal(text).into());
    }
    target.copy_from_slice(source);
    Ok(())
}
