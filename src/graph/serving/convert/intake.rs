//! Conversion of a request to packets, one input after another.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use super::{image, python};
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{
        calculators::{
            packet::{Packet, PacketType, Payload, TensorKind},
            timestamp::Timestamp,
        },
        check::plan::GraphPlan,
    },
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    tensor::{DataType, ShapeText, Tensor, byte_size, elements, excess_rows, strings::Strings},
};

/// Converts a request to packets lazily, in the order of its inputs, each with the index of the
/// graph's input, so that each packet can be sent before the next input is validated. Nothing is to
/// be taken after an error.
pub(in crate::graph::serving) fn packets<'a>(
    plan: &'a GraphPlan,
    request: &'a Arc<InferRequest>,
    at: Timestamp,
) -> impl Iterator<Item = Result<(usize, Packet)>> {
    let whole = move || Payload::Request(Arc::clone(request));
    let is_whole = matches!(&plan.inputs[..], [input] if input.form == PacketType::Request);
    let inputs: &[InputTensor] = if is_whole { &[] } else { &request.inputs };
    let parts = inputs.iter().enumerate().map(move |(index, input)| {
        let Some(place) = plan.input(&input.name) else {
            return Err(Error::invalid(format!(
                "Unexpected input - {} is unexpected",
                input.name
            )));
        };
        if index == 0 {
            check_message(request)?;
        }
        let payload = match plan.inputs[place].form {
            PacketType::Tensor(kind) => Payload::Tensor(kind, read_tensor(kind, input)?),
            PacketType::Python => Payload::Python(python::read(input)?),
            // Only as the sole input, which the check of graphs ensures.
            _ => whole(),
        };
        Ok((place, Packet::new(payload, at)))
    });
    let first = is_whole.then(|| Ok((0, Packet::new(whole(), at))));
    first.into_iter().chain(parts)
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
    if let Some((expected, actual)) = request.raw_mismatch {
        return Err(Error::invalid(format!(
            "{BOTH} - Size of raw_input_contents: {actual} is different than number of inputs: {expected}"
        )));
    }
    Ok(())
}

fn read_tensor(kind: TensorKind, input: &InputTensor) -> Result<Tensor> {
    match kind {
        TensorKind::Image => image::read(input),
        TensorKind::MediaPipe => {
            let dtype = supported(input, "Mediapipe", kind)?;
            let shape = lengths(input, 1)?;
            if shape.is_empty() {
                let text = "Expected: at least one dimension for Mediapipe tensor; Actual: ()";
                return Err(invalid(input, format_args!("Invalid input shape - {text}")));
            }
            tensor(input, dtype, shape)
        }
        TensorKind::TensorFlow => {
            let dtype = supported(input, "Tensorflow", kind)?;
            tensor(input, dtype, lengths(input, 0)?)
        }
        // Clients do not send tensors of TensorFlow Lite.
        TensorKind::OpenVino | TensorKind::TfLite => {
            let shape = lengths(input, 0)?;
            match supported(input, "OpenVINO", TensorKind::OpenVino)? {
                DataType::String => string_tensor(input, shape),
                dtype => tensor(input, dtype, shape),
            }
        }
    }
}

/// Returns the datatype of an input, if a framework supports it.
fn supported(input: &InputTensor, whose: &str, kind: TensorKind) -> Result<DataType> {
    match input.datatype {
        Declared::Known(dtype) if kind.supports(dtype) => Ok(dtype),
        _ => Err(Error::invalid(format!(
            "Invalid input precision - Not supported precision for {whose} tensor deserialization: {}",
            input.datatype.text(Dialect::KServe)
        ))),
    }
}

/// Returns the declared shape if no dimension is below the minimum.
pub(super) fn lengths(input: &InputTensor, least: usize) -> Result<Vec<usize>> {
    let length = |&length: &i64| usize::try_from(length).ok().filter(|&l| l >= least);
    let shape: Option<_> = input.shape.iter().map(length).collect();
    shape.ok_or_else(|| {
        let text = "Invalid input shape - Negative dimension size is not acceptable";
        invalid(input, format_args!("{text}: {}", ShapeText(&input.shape)))
    })
}

/// Builds a tensor of numbers.
fn tensor(input: &InputTensor, dtype: DataType, shape: Vec<usize>) -> Result<Tensor> {
    let size = size(dtype, &shape)?;
    let bytes = match &input.data {
        Data::Raw(bytes) if bytes.len() == size => bytes.clone(),
        Data::Raw(bytes) => {
            let (text, actual) = ("Invalid content size of tensor proto", bytes.len());
            let text = format_args!("{text} - Expected: {size} bytes; Actual: {actual} bytes");
            return Err(invalid(input, text));
        }
        _ => values(input, dtype, &shape)?,
    };
    Tensor::new(dtype, shape, bytes).map_err(|error| Error::internal(error.to_string()))
}

/// Builds a tensor of strings.
fn string_tensor(input: &InputTensor, shape: Vec<usize>) -> Result<Tensor> {
    let framed = match &input.data {
        Data::Raw(bytes) | Data::Values { bytes, .. } => bytes.clone(),
        Data::Region(_) | Data::Unfit(_) | Data::Unranked | Data::Both => {
            values(input, DataType::String, &shape)?
        }
    };
    let strings = Strings::new(framed).map_err(|error| {
        let text = "Inputs inside buffer does not match expected format.";
        invalid(input, format_args!("{text} - {error}"))
    })?;
    let expected = elements(&shape).ok_or_else(|| too_large(&shape))?;
    if strings.count() != expected {
        return Err(count_error(input, expected, strings.count()));
    }
    Tensor::new(DataType::String, shape, strings.framed().clone())
        .map_err(|error| Error::internal(error.to_string()))
}

/// Returns the size in bytes of a tensor of the type and shape.
pub(super) fn size(dtype: DataType, shape: &[usize]) -> Result<usize> {
    let size = byte_size(dtype, shape).map_err(|_| too_large(shape))?;
    size.ok_or_else(|| too_large(shape))
}

fn too_large(shape: &[usize]) -> Error {
    let text = "Invalid content size of tensor proto - Provided shape and datatype declare too large \
                buffer.";
    Error::invalid(excess_rows(shape).unwrap_or_else(|| text.to_owned()))
}

/// Returns values sent one by one, if their number matches the shape.
pub(super) fn values(input: &InputTensor, dtype: DataType, shape: &[usize]) -> Result<Bytes> {
    match &input.data {
        Data::Values { count, bytes } => match elements(shape) {
            Some(expected) if expected == *count => Ok(bytes.clone()),
            Some(expected) => Err(count_error(input, expected, *count)),
            None => Err(too_large(shape)),
        },
        Data::Unfit(reason) if matches!(dtype, DataType::F16 | DataType::Bf16) => Err(Error::new(
            ErrorKind::Unimplemented,
            format!(
                "Functionality not implemented - {reason}; input name: {}",
                input.name
            ),
        )),
        Data::Unfit(reason) => {
            let text = format_args!("Invalid value in tensor proto container - {reason}");
            Err(invalid(input, text))
        }
        // Graphs are not served to those whose shapes may have no rank.
        Data::Raw(_) | Data::Region(_) | Data::Unranked | Data::Both => {
            Err(Error::internal("values asked of an input without any"))
        }
    }
}

fn count_error(input: &InputTensor, expected: usize, actual: usize) -> Error {
    let text = "Invalid number of values in tensor proto container";
    let text = format_args!("{text} - Expected: {expected} values; Actual: {actual} values");
    invalid(input, text)
}

/// Creates the error of an input, with its name.
fn invalid(input: &InputTensor, text: impl fmt::Display) -> Error {
    Error::invalid(format!("{text}; input name: {}", input.name))
}
