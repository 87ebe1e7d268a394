//! A request to packets, one input after another.

use std::sync::Arc;

use bytes::Bytes;

use super::{image, python};
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{Form, Packet, Payload, Plan, TensorKind, Timestamp},
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    tensor::{DataType, ShapeText, Tensor, byte_size, elements, strings::Strings},
};

/// The packets of a request, in the order of its inputs, each with the place of the graph's input; it
/// ends with the first fault.
pub struct Intake<'a> {
    plan: &'a Plan,
    request: &'a Arc<InferRequest>,
    at: Timestamp,
    next: usize,
}

/// Makes packets of a request as they are asked for, so that each can be sent before the next is
/// judged.
#[must_use]
pub fn packets<'a>(plan: &'a Plan, request: &'a Arc<InferRequest>, at: Timestamp) -> Intake<'a> {
    Intake {
        plan,
        request,
        at,
        next: 0,
    }
}

impl Iterator for Intake<'_> {
    type Item = Result<(usize, Packet)>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.next;
        if let [input] = &self.plan.inputs[..]
            && input.form == Form::Request
        {
            self.next = usize::MAX;
            let payload = || Payload::Request(Arc::clone(self.request));
            return (place == 0).then(|| Ok((0, Packet::new(payload(), self.at))));
        }
        let input = self.request.inputs.get(place)?;
        let made = self.packet(input);
        self.next = match made {
            Ok(_) => place + 1,
            Err(_) => usize::MAX,
        };
        Some(made)
    }
}

impl Intake<'_> {
    fn packet(&self, input: &InputTensor) -> Result<(usize, Packet)> {
        let Some(place) = self.plan.input(&input.name) else {
            return Err(Error::invalid(format!(
                "Unexpected input - {} is unexpected",
                input.name
            )));
        };
        if self.next == 0 {
            check_message(self.request)?;
        }
        let payload = match self.plan.inputs[place].form {
            Form::OvTensor => Payload::Tensor(TensorKind::OpenVino, ov_tensor(input)?),
            Form::MpTensor => Payload::Tensor(TensorKind::MediaPipe, mp_tensor(input)?),
            Form::TfTensor => Payload::Tensor(TensorKind::TensorFlow, tf_tensor(input)?),
            Form::Image => Payload::Tensor(TensorKind::Image, image::read(input)?),
            Form::Python => Payload::Python(python::read(input)?),
            // Only alone, which the check of graphs sees to.
            Form::Request | Form::Response => Payload::Request(Arc::clone(self.request)),
        };
        Ok((place, Packet::new(payload, self.at)))
    }
}

/// Judges where the elements are, for all inputs of a request.
fn check_message(request: &InferRequest) -> Result<()> {
    const BOTH: &str = "Passing buffers both in ModelInferRequest::InferInputTensor::contents and \
                        in ModelInferRequest::raw_input_contents is not allowed";
    if let Some(input) = request.inputs.iter().find(|input| input.data == Data::Both) {
        return Err(Error::invalid(format!(
            "{BOTH} - Passing buffers both in InferInputTensor contents and in raw_input_contents \
             is not allowed. Detected buffer in InferInputTensor contents for input: {}",
            input.name
        )));
    }
    if let Some(actual) = request.raw_mismatch {
        return Err(Error::invalid(format!(
            "{BOTH} - Size of raw_input_contents: {actual} is different than number of inputs: {}",
            request.inputs.len()
        )));
    }
    Ok(())
}

fn ov_tensor(input: &InputTensor) -> Result<Tensor> {
    let shape = lengths(input, 0)?;
    match input.datatype {
        Declared::Known(DataType::String) => string_tensor(input, shape),
        Declared::Known(dtype) => tensor(input, dtype, shape),
        Declared::Unknown(_) => Err(not_supported(input, "OpenVINO")),
    }
}

fn mp_tensor(input: &InputTensor) -> Result<Tensor> {
    match input.datatype {
        Declared::Known(dtype) if is_mp(dtype) => {
            let shape = lengths(input, 1)?;
            if shape.is_empty() {
                return Err(Error::invalid(format!(
                    "Invalid input shape - Expected: at least one dimension for Mediapipe tensor; \
                     Actual: (); input name: {}",
                    input.name
                )));
            }
            tensor(input, dtype, shape)
        }
        _ => Err(not_supported(input, "Mediapipe")),
    }
}

fn tf_tensor(input: &InputTensor) -> Result<Tensor> {
    match input.datatype {
        Declared::Known(dtype) if is_tf(dtype) => {
            let shape = lengths(input, 0)?;
            tensor(input, dtype, shape)
        }
        _ => Err(not_supported(input, "Tensorflow")),
    }
}

/// Tells whether MediaPipe's tensors have such elements.
pub(in crate::graph) const fn is_mp(dtype: DataType) -> bool {
    use DataType::{Bool, F16, F32, I8, I32, U8};
    matches!(dtype, F32 | F16 | I32 | I8 | U8 | Bool)
}

/// Tells whether TensorFlow's tensors have such elements.
pub(in crate::graph) const fn is_tf(dtype: DataType) -> bool {
    !matches!(dtype, DataType::Bf16 | DataType::String)
}

fn not_supported(input: &InputTensor, whose: &str) -> Error {
    Error::invalid(format!(
        "Invalid input precision - Not supported precision for {whose} tensor deserialization: {}",
        input.datatype.text(Dialect::KServe)
    ))
}

/// Returns the shape as declared, if no length is below the least.
pub(super) fn lengths(input: &InputTensor, least: usize) -> Result<Vec<usize>> {
    let length = |&length: &i64| usize::try_from(length).ok().filter(|&l| l >= least);
    let shape: Option<_> = input.shape.iter().map(length).collect();
    shape.ok_or_else(|| {
        Error::invalid(format!(
            "Invalid input shape - Negative dimension size is not acceptable: {}; input name: {}",
            ShapeText(&input.shape),
            input.name
        ))
    })
}

/// Makes a tensor of numbers.
fn tensor(input: &InputTensor, dtype: DataType, shape: Vec<usize>) -> Result<Tensor> {
    let size = size(dtype, &shape)?;
    let bytes = match &input.data {
        Data::Raw(bytes) if bytes.len() == size => bytes.clone(),
        Data::Raw(bytes) => {
            return Err(Error::invalid(format!(
                "Invalid content size of tensor proto - Expected: {size} bytes; Actual: {} bytes; \
                 input name: {}",
                bytes.len(),
                input.name
            )));
        }
        _ => values(input, dtype, &shape)?,
    };
    Tensor::new(dtype, shape, bytes).map_err(|error| Error::internal(error.to_string()))
}

/// Makes a tensor of strings.
fn string_tensor(input: &InputTensor, shape: Vec<usize>) -> Result<Tensor> {
    let framed = match &input.data {
        Data::Raw(bytes) | Data::Values { bytes, .. } => bytes.clone(),
        Data::Unfit(_) | Data::Both => values(input, DataType::String, &shape)?,
    };
    let strings = Strings::new(framed).map_err(|error| {
        Error::invalid(format!(
            "Inputs inside buffer does not match expected format. - {error}; input name: {}",
            input.name
        ))
    })?;
    let expected = elements(&shape).ok_or_else(too_large)?;
    if strings.count() != expected {
        return Err(count_fault(input, expected, strings.count()));
    }
    Tensor::new(DataType::String, shape, strings.framed().clone())
        .map_err(|error| Error::internal(error.to_string()))
}

/// Returns the bytes that type and shape need.
pub(super) fn size(dtype: DataType, shape: &[usize]) -> Result<usize> {
    let size = byte_size(dtype, shape).map_err(|_| too_large())?;
    size.ok_or_else(too_large)
}

fn too_large() -> Error {
    Error::invalid(
        "Invalid content size of tensor proto - Provided shape and datatype declare too large \
         buffer.",
    )
}

/// Returns values that came one by one, if there are as many as the shape has elements.
pub(super) fn values(input: &InputTensor, dtype: DataType, shape: &[usize]) -> Result<Bytes> {
    match &input.data {
        Data::Values { count, bytes } => match elements(shape) {
            Some(expected) if expected == *count => Ok(bytes.clone()),
            Some(expected) => Err(count_fault(input, expected, *count)),
            None => Err(too_large()),
        },
        Data::Unfit(reason) if matches!(dtype, DataType::F16 | DataType::Bf16) => Err(Error::new(
            ErrorKind::Unimplemented,
            format!(
                "Functionality not implemented - {reason}; input name: {}",
                input.name
            ),
        )),
        Data::Unfit(reason) => Err(Error::invalid(format!(
            "Invalid value in tensor proto container - {reason}; input name: {}",
            input.name
        ))),
        Data::Raw(_) | Data::Both => Err(Error::internal("values asked of an input without any")),
    }
}

fn count_fault(input: &InputTensor, expected: usize, actual: usize) -> Error {
    Error::invalid(format!(
        "Invalid number of values in tensor proto container - Expected: {expected} values; \
         Actual: {actual} values; input name: {}",
        input.name
    ))
}
