//! Conversion of a request to packets, one input after another.

use std::sync::Arc;

use bytes::Bytes;

use super::{image, python};
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{
        packet::{Packet, Payload, TensorKind},
        plan::{GraphPlan, PacketForm},
        timestamp::Timestamp,
    },
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    tensor::{DataType, ShapeText, Tensor, byte_size, elements, strings::Strings},
};

/// Iterator over the packets of a request, in the order of its inputs, each with the index of the
/// graph's input; ends with the first error.
pub struct RequestPackets<'a> {
    plan: &'a GraphPlan,
    request: &'a Arc<InferRequest>,
    at: Timestamp,
    next: usize,
}

/// Converts a request to packets lazily, so that each packet can be sent before the next input is
/// validated.
#[must_use]
pub fn packets<'a>(
    plan: &'a GraphPlan,
    request: &'a Arc<InferRequest>,
    at: Timestamp,
) -> RequestPackets<'a> {
    RequestPackets {
        plan,
        request,
        at,
        next: 0,
    }
}

impl Iterator for RequestPackets<'_> {
    type Item = Result<(usize, Packet)>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.next;
        if let [input] = &self.plan.inputs[..]
            && input.form == PacketForm::Request
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

impl RequestPackets<'_> {
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
            PacketForm::OvTensor => Payload::Tensor(TensorKind::OpenVino, ov_tensor(input)?),
            PacketForm::MpTensor => Payload::Tensor(TensorKind::MediaPipe, mp_tensor(input)?),
            PacketForm::TfTensor => Payload::Tensor(TensorKind::TensorFlow, tf_tensor(input)?),
            PacketForm::Image => Payload::Tensor(TensorKind::Image, image::read(input)?),
            PacketForm::Python => Payload::Python(python::read(input)?),
            // Only as the sole input, which the check of graphs ensures.
            PacketForm::Request | PacketForm::Response => {
                Payload::Request(Arc::clone(self.request))
            }
        };
        Ok((place, Packet::new(payload, self.at)))
    }
}

/// Checks the data fields of all inputs of a request.
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

/// Returns whether MediaPipe's tensors support an element type.
pub(in crate::graph) const fn is_mp(dtype: DataType) -> bool {
    use DataType::{Bool, F16, F32, I8, I32, U8};
    matches!(dtype, F32 | F16 | I32 | I8 | U8 | Bool)
}

/// Returns whether TensorFlow's tensors support an element type.
pub(in crate::graph) const fn is_tf(dtype: DataType) -> bool {
    !matches!(dtype, DataType::Bf16 | DataType::String)
}

fn not_supported(input: &InputTensor, whose: &str) -> Error {
    Error::invalid(format!(
        "Invalid input precision - Not supported precision for {whose} tensor deserialization: {}",
        input.datatype.text(Dialect::KServe)
    ))
}

/// Returns the declared shape if no dimension is below the minimum.
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

/// Builds a tensor of numbers.
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

/// Builds a tensor of strings.
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
        return Err(count_error(input, expected, strings.count()));
    }
    Tensor::new(DataType::String, shape, strings.framed().clone())
        .map_err(|error| Error::internal(error.to_string()))
}

/// Returns the size in bytes of a tensor of the type and shape.
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

/// Returns values sent one by one, if their number matches the shape.
pub(super) fn values(input: &InputTensor, dtype: DataType, shape: &[usize]) -> Result<Bytes> {
    match &input.data {
        Data::Values { count, bytes } => match elements(shape) {
            Some(expected) if expected == *count => Ok(bytes.clone()),
            Some(expected) => Err(count_error(input, expected, *count)),
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

fn count_error(input: &InputTensor, expected: usize, actual: usize) -> Error {
    Error::invalid(format!(
        "Invalid number of values in tensor proto container - Expected: {expected} values; \
         Actual: {actual} values; input name: {}",
        input.name
    ))
}
