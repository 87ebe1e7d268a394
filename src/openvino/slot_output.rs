//! The outputs of a slot.

use bytes::Bytes;

use super::{
    convert,
    describe::Described,
    ffi::{self, FixedTensor, GivenOutput, InferRequest, Side},
    runtime_error::OpenVinoError,
    slot_error::{SlotError, new_tensor, runtime},
    slot_input::MIN_IN_PLACE,
    strings,
};
use crate::{
    error::Error,
    tensor::{DataType, Tensor, transpose},
};

/// An output of the infer request of a slot.
pub(super) struct Output {
    dtype: DataType,
    /// The runtime's axes in the order that clients have them, if that is another one.
    axes: Option<Vec<usize>>,
    /// Shape, as the runtime has it, and tensor of an output that never changes its shape.
    fixed: Option<(Vec<usize>, OutputTensor)>,
    /// Indicates that it has no dimensions, which the C interface does not report for a tensor.
    is_scalar: bool,
}

/// The tensor of an output.
enum OutputTensor {
    /// A tensor that is copied from.
    Copied(FixedTensor),
    /// A large tensor, which is given away.
    Given(GivenOutput),
}

impl OutputTensor {
    fn tensor(&self) -> &ffi::Tensor {
        match self {
            Self::Copied(fixed) => fixed.tensor(),
            Self::Given(output) => output.tensor(),
        }
    }
}

impl Output {
    /// Describes the outputs of an infer request, which has their tensors, by the inputs as well.
    pub(super) fn of_request(
        [inputs, outputs]: [&[Described]; 2],
        request: &InferRequest,
    ) -> Result<Vec<Self>, SlotError> {
        let own = |described: &Described, shape: &[usize]| {
            // Clients see another shape than the runtime, which is asked for its own then.
            if described.axes.is_some() || is_input(described, inputs) {
                return Ok(None);
            }
            let port = described.info.port;
            let tensor = request.tensor(Side::Output, port);
            let tensor = tensor.map_err(runtime("reach an output tensor"))?;
            let size = tensor.get_byte_size();
            if size.map_err(runtime("read an output's size"))? < MIN_IN_PLACE {
                return fixed(tensor).map(Some);
            }
            let given = GivenOutput::new(port, shape, tensor);
            let given = given.map_err(runtime("reach an output tensor"))?;
            Ok(Some(OutputTensor::Given(given)))
        };
        Self::all(outputs, own)
    }

    /// Describes the outputs of infer requests that are lent tensors, and makes these.
    pub(super) fn of_lender([inputs, outputs]: [&[Described]; 2]) -> Result<Vec<Self>, SlotError> {
        let lent = |described: &Described, shape: &[usize]| {
            if shape.is_empty() || is_input(described, inputs) {
                // The C interface makes no tensor without dimensions.
                return Ok(None);
            }
            let shape = described.runtime_shape(shape);
            fixed(new_tensor(
                convert::element_type(described.info.dtype),
                &shape,
            )?)
            .map(Some)
        };
        Self::all(outputs, lent)
    }

    /// Makes an infer request write the output to the tensor that it is lent.
    pub(super) fn lend(&self, request: &mut InferRequest, port: usize) -> Result<(), SlotError> {
        let Some((_, tensor)) = &self.fixed else {
            return Ok(());
        };
        let set = request.set_tensor(Side::Output, port, tensor.tensor());
        set.map_err(runtime("set an output tensor"))
    }

    /// Reads the elements where they lie: type, shape, and bytes of an output of numbers.
    pub(super) fn read_in_place(
        &self,
        request: &InferRequest,
        port: usize,
        read: impl FnOnce(DataType, &[usize], &[u8]) -> Result<(), SlotError>,
    ) -> Result<(), SlotError> {
        let data = |tensor: &ffi::Tensor, shape: &[usize]| {
            let data = tensor.get_raw_data();
            let data = data.map_err(runtime("reach an output tensor"))?;
            read(self.dtype, shape, data)
        };
        match &self.fixed {
            Some((shape, tensor)) => data(tensor.tensor(), shape),
            None => {
                let tensor = request.tensor(Side::Output, port);
                let tensor = tensor.map_err(runtime("reach an output tensor"))?;
                let shape = tensor.get_shape();
                data(&tensor, &shape.map_err(runtime("read an output's shape"))?)
            }
        }
    }

    /// Describes the outputs; `fixed` gives the tensor of one that never changes its shape.
    fn all(
        outputs: &[Described],
        fixed: impl Fn(&Described, &[usize]) -> Result<Option<OutputTensor>, SlotError>,
    ) -> Result<Vec<Self>, SlotError> {
        let one = |described: &Described| {
            let Described { info, axes, .. } = described;
            if info.dtype == DataType::String && !strings::is_known() {
                return Err(SlotError::Other(Error::internal(format!(
                    "output `{}` is of strings, which this build of OpenVINO keeps in a form that \
                     cannot be read; strings can be read from the builds for Linux with 64 bits, \
                     such as the wheel",
                    info.name
                ))));
            }
            let shape = info.shape.fixed();
            let is_scalar = shape.as_ref().is_some_and(Vec::is_empty);
            let fixed = match shape {
                Some(shape) if info.dtype != DataType::String => fixed(described, &shape)?
                    .map(|tensor| (described.runtime_shape(&shape), tensor)),
                _ => None,
            };
            Ok(Self {
                dtype: info.dtype,
                axes: axes.clone(),
                fixed,
                is_scalar,
            })
        };
        outputs.iter().map(one).collect()
    }

    /// Returns whether its tensor is given away.
    pub(super) fn is_given(&self) -> bool {
        matches!(self.fixed, Some((_, OutputTensor::Given(_))))
    }

    /// Takes the elements out of the tensor, which is given away if it is large.
    pub(super) fn take(
        &mut self,
        request: &mut InferRequest,
        port: usize,
    ) -> Result<Tensor, SlotError> {
        let Some((shape, OutputTensor::Given(output))) = &mut self.fixed else {
            return self.read(request, port);
        };
        let data = output.give(request);
        let data = data.map_err(runtime("set an output tensor"))?;
        shaped(self.dtype, shape.clone(), data)
    }

    /// Copies the elements out of the tensor.
    pub(super) fn read(&self, request: &InferRequest, port: usize) -> Result<Tensor, SlotError> {
        let axes = self.axes.as_deref();
        match &self.fixed {
            // Of numbers, which have the shape that clients see, unless the tensor is lent.
            Some((shape, OutputTensor::Copied(tensor))) if axes.is_none() => {
                let data = Bytes::copy_from_slice(tensor.bytes());
                return shaped(self.dtype, shape.clone(), data);
            }
            Some((shape, tensor)) => {
                return copy_out(self.dtype, shape.clone(), axes, tensor.tensor());
            }
            None => {}
        }
        let tensor = request
            .tensor(Side::Output, port)
            .map_err(runtime("reach an output tensor"))?;
        let shape = match self.is_scalar {
            true => Vec::new(),
            false => {
                let shape = tensor.get_shape();
                shape.map_err(runtime("read an output's shape"))?
            }
        };
        copy_out(self.dtype, shape, axes, &tensor)
    }
}

/// Returns whether an output is an input as it is, by the name of its tensor: the runtime has one tensor for both, which
/// is another one whenever either is set.
fn is_input(output: &Described, inputs: &[Described]) -> bool {
    inputs.iter().any(|input| input.own == output.own)
}

fn copy_out(
    dtype: DataType,
    mut shape: Vec<usize>,
    axes: Option<&[usize]>,
    tensor: &ffi::Tensor,
) -> Result<Tensor, SlotError> {
    let data = if dtype == DataType::String {
        strings::read(tensor)?
    } else {
        let source = tensor
            .get_raw_data()
            .map_err(runtime("reach an output tensor"))?;
        match (axes, dtype.size()) {
            (Some(axes), Some(width)) => transpose(source, &shape, axes, width).into(),
            _ => Bytes::copy_from_slice(source),
        }
    };
    if let Some(axes) = axes {
        shape = axes.iter().map(|&axis| shape[axis]).collect();
    }
    shaped(dtype, shape, data)
}

/// Asks where the memory of a tensor is.
fn fixed(tensor: ffi::Tensor) -> Result<OutputTensor, SlotError> {
    let tensor = FixedTensor::new(tensor);
    let tensor = tensor.map_err(runtime("reach an output tensor"))?;
    Ok(OutputTensor::Copied(tensor))
}

fn shaped(dtype: DataType, shape: Vec<usize>, data: Bytes) -> Result<Tensor, SlotError> {
    Tensor::new(dtype, shape, data).map_err(|error| SlotError::Runtime {
        step: "shape an output",
        source: OpenVinoError::new(&error.to_string()),
    })
}
