//! A slot: one OpenVINO infer request with its input tensors.
//!
//! Input bytes are copied once, from the request into the slot's tensor; output bytes once, out
//! of the runtime's tensor. A slot is used by one request at a time; [`super::pool`] sees to it.

use bytes::Bytes;
use openvino::{CompiledModel, ElementType, InferRequest, InferenceError};

use super::{
    convert,
    describe::Described,
    fault::Fault,
    strings::{self, StringsError},
};
use crate::tensor::{DataType, Tensor, transpose};

/// An input as [`Slot::infer`] takes it: checked shape, and exactly as many bytes as it needs.
#[derive(Debug, Clone)]
pub struct SlotInput {
    /// The place among the model's own inputs.
    pub port: usize,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements; strings as [`crate::tensor::strings`] has them.
    pub data: Bytes,
}

/// Why an inference failed.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The runtime refused or failed.
    #[error("OpenVINO failed to {step}")]
    Runtime {
        /// What was being done.
        step: &'static str,
        /// What the runtime said.
        #[source]
        source: Fault,
    },
    /// There is no such input or output; the request was checked against another model.
    #[error("the model has no input or output {0}")]
    Port(usize),
    /// The bytes given are not as many as the tensor has; a check before this one was skipped.
    #[error("input {port} has {actual} bytes and the tensor {expected}")]
    Size {
        /// The place among the model's own inputs.
        port: usize,
        /// Bytes of the tensor.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
    /// Strings do not get into a tensor or out of it.
    #[error(transparent)]
    Strings(#[from] StringsError),
    /// The model gives strings, and this runtime's cannot be read.
    #[error(
        "output `{0}` is of strings, which this build of OpenVINO keeps in a form that cannot be \
         read; strings can be read from the builds for Linux with 64 bits, such as the wheel"
    )]
    StringOutput(String),
}

/// One infer request.
pub(super) struct Slot {
    request: InferRequest,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

/// The tensor that a request's bytes are copied into, made again when the shape changes.
struct Input {
    dtype: DataType,
    shape: Vec<usize>,
    tensor: Option<openvino::Tensor>,
}

struct Output {
    dtype: DataType,
    /// The runtime's axes in the order that clients have them, if that is another one.
    axes: Option<Vec<usize>>,
    /// Shape and tensor of an output that never changes its shape.
    fixed: Option<(Vec<usize>, openvino::Tensor)>,
}

impl Slot {
    /// Makes an infer request; inputs and outputs are in the model's own order.
    pub(super) fn new(
        model: &mut CompiledModel,
        inputs: &[Described],
        outputs: &[Described],
    ) -> Result<Self, SlotError> {
        let request = model
            .create_infer_request()
            .map_err(runtime("create an infer request"))?;
        let inputs = inputs
            .iter()
            .map(|Described { info, own, .. }| {
                let tensor = match info.shape.fixed() {
                    // The C interface makes no tensor without dimensions; the request has one.
                    Some(shape) if shape.is_empty() && info.dtype != DataType::String => Some(
                        request
                            .get_tensor(own)
                            .map_err(runtime("reach an input tensor"))?,
                    ),
                    _ => None,
                };
                Ok(Input {
                    dtype: info.dtype,
                    shape: Vec::new(),
                    tensor,
                })
            })
            .collect::<Result<_, SlotError>>()?;
        let outputs = outputs
            .iter()
            .map(|Described { info, axes, .. }| {
                if info.dtype == DataType::String && !strings::is_known() {
                    return Err(SlotError::StringOutput(info.name.clone()));
                }
                let fixed = match info.shape.fixed() {
                    // Clients see another shape than the runtime, which is asked for its own then.
                    _ if axes.is_some() => None,
                    Some(shape) if info.dtype != DataType::String => {
                        let tensor = request
                            .get_output_tensor_by_index(info.port)
                            .map_err(runtime("reach an output tensor"))?;
                        Some((shape, tensor))
                    }
                    _ => None,
                };
                Ok(Output {
                    dtype: info.dtype,
                    axes: axes.clone(),
                    fixed,
                })
            })
            .collect::<Result<_, SlotError>>()?;
        Ok(Self {
            request,
            inputs,
            outputs,
        })
    }

    /// Runs one inference on the calling thread and returns the wanted outputs, by port, in the
    /// order asked for.
    pub(super) fn infer(
        &mut self,
        inputs: &[SlotInput],
        wanted: &[usize],
    ) -> Result<Vec<Tensor>, SlotError> {
        for input in inputs {
            self.write(input)?;
        }
        self.request.infer().map_err(runtime("infer"))?;
        wanted.iter().map(|&port| self.read(port)).collect()
    }

    fn write(&mut self, given: &SlotInput) -> Result<(), SlotError> {
        let input = self
            .inputs
            .get_mut(given.port)
            .ok_or(SlotError::Port(given.port))?;
        let tensor = match &mut input.tensor {
            Some(tensor) if input.shape == given.shape => tensor,
            slot => {
                let tensor = new_tensor(convert::element_type(input.dtype), &given.shape)?;
                self.request
                    .set_input_tensor_by_index(given.port, &tensor)
                    .map_err(runtime("set an input tensor"))?;
                input.shape.clone_from(&given.shape);
                slot.insert(tensor)
            }
        };
        if input.dtype == DataType::String {
            return Ok(strings::write(tensor, &given.data)?);
        }
        if given.data.is_empty() {
            // The runtime may have no memory at all for a tensor without elements.
            return Ok(());
        }
        let target = tensor
            .get_raw_data_mut()
            .map_err(runtime("reach an input tensor"))?;
        if target.len() != given.data.len() {
            return Err(SlotError::Size {
                port: given.port,
                expected: target.len(),
                actual: given.data.len(),
            });
        }
        target.copy_from_slice(&given.data);
        Ok(())
    }

    fn read(&self, port: usize) -> Result<Tensor, SlotError> {
        let output = self.outputs.get(port).ok_or(SlotError::Port(port))?;
        if let Some((shape, tensor)) = &output.fixed {
            return copy_out(output.dtype, shape.clone(), None, tensor);
        }
        let tensor = self
            .request
            .get_output_tensor_by_index(port)
            .map_err(runtime("reach an output tensor"))?;
        let shape = tensor
            .get_shape()
            .map_err(runtime("read an output's shape"))?;
        let axes = output.axes.as_deref();
        copy_out(output.dtype, convert::dims(&shape), axes, &tensor)
    }
}

fn new_tensor(element: ElementType, shape: &[usize]) -> Result<openvino::Tensor, SlotError> {
    let shape = convert::shape(shape).map_err(runtime("make a shape"))?;
    openvino::Tensor::new(element, &shape).map_err(runtime("make an input tensor"))
}

fn copy_out(
    dtype: DataType,
    mut shape: Vec<usize>,
    axes: Option<&[usize]>,
    tensor: &openvino::Tensor,
) -> Result<Tensor, SlotError> {
    let size = tensor
        .get_byte_size()
        .map_err(runtime("read an output's size"))?;
    let data = if dtype == DataType::String {
        strings::read(tensor)?
    } else if size == 0 {
        // The runtime may have no memory at all for a tensor without elements.
        Bytes::new()
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
    Tensor::new(dtype, shape, data).map_err(|error| SlotError::Runtime {
        step: "shape an output",
        source: Fault::new(&error.to_string()),
    })
}

/// Names the step at which the runtime failed.
fn runtime(step: &'static str) -> impl Fn(InferenceError) -> SlotError {
    move |error| SlotError::Runtime {
        step,
        source: error.into(),
    }
}
