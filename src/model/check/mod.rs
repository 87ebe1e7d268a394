//! A request's tensors against what the model allows.
//!
//! Clients of model servers know the order of the checks and the texts: inputs are validated in the
//! order of their names, and the first error is the response.

mod bytes;

use std::fmt::Display;

use self::bytes::Planned;
use crate::{
    budget::Budget,
    error::{Error, Result},
    openvino::{InputData, SlotInput, Work},
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    servable::{ServableInfo, TensorInfo},
    tensor::{
        DataType, Dim, PartialShape, ShapeText, byte_size, elements, excess_rows,
        images::PixelLimit,
    },
    text::cut_chars,
};

/// Returns whether validating a request may take longer than an async worker should be held up:
/// encoded images are decoded, and strings padded.
pub fn is_slow(info: &ServableInfo, request: &InferRequest) -> bool {
    let strings = Declared::Known(DataType::String);
    let mut inputs = request.inputs.iter();
    inputs.any(|input| {
        let mut known = info.inputs.iter();
        input.datatype == strings
            && known.any(|info| info.name == input.name && bytes::is_slow(info, &input.data))
    })
}

/// Returns the names of the inputs that a request has encoded images for.
pub fn images(info: &ServableInfo, request: &InferRequest) -> Vec<String> {
    let strings = Declared::Known(DataType::String);
    let encoded = request.inputs.iter().filter(|input| {
        let mut known = info.inputs.iter();
        input.datatype == strings
            && known.any(|info| info.name == input.name && bytes::is_of_images(info))
    });
    encoded.map(|input| input.name.clone()).collect()
}

/// Validates a request; returns it as slots take it. Encoded images of more pixels than the limit are
/// not decoded; the bytes of expanded strings and images are charged to the budget.
///
/// # Errors
///
/// Fails with the first error.
pub fn check(
    info: &ServableInfo,
    request: InferRequest,
    limit: PixelLimit,
    budget: &Budget,
) -> Result<Work> {
    if request.inputs.len() != info.inputs.len() {
        return Err(Error::invalid(format!(
            "Invalid number of inputs - Expected: {}; Actual: {}; the model has: {}",
            info.inputs.len(),
            request.inputs.len(),
            listed(info.inputs.iter().map(|input| &*input.name))
        )));
    }
    if let Some(input) = request.inputs.iter().find(|input| input.data == Data::Both) {
        return Err(Error::invalid(format!(
            "Passing buffers both in ModelInferRequest::InferInputTensor::contents and in \
             ModelInferRequest::raw_input_contents is not allowed - Passing buffers both in \
             InferInputTensor contents and in raw_input_contents is not allowed. Detected buffer \
             in InferInputTensor contents for input: {}",
            input.name
        )));
    }
    if let Some((expected, actual)) = request.raw_mismatch {
        return Err(Error::invalid(format!(
            "Inputs inside buffer does not match expected format. - Expected: one element of \
             raw_input_contents for each of the {expected} inputs; Actual: {actual}"
        )));
    }
    let dialect = request.dialect;
    let mut given = request.inputs;
    let mut planned = Vec::with_capacity(info.inputs.len());
    for expected in &info.inputs {
        let Some(index) = given.iter().position(|input| input.name == expected.name) else {
            return Err(Error::invalid(format!(
                "Missing input with specific name - Required input: {}; the request has: {}",
                expected.name,
                strangers(info, &given)
            )));
        };
        planned.push(check_input(expected, given.swap_remove(index), dialect)?);
    }
    let wanted = wanted(info, &request.outputs)?;
    let inputs = planned
        .into_iter()
        .map(|input| input.finish(limit, budget))
        .collect::<Result<_>>()?;
    Ok(Work::new(inputs, wanted))
}

/// Lists the inputs of a request that a model does not have, or those that are left if it has all of them.
fn strangers(info: &ServableInfo, given: &[InputTensor]) -> String {
    let is_known = |name: &str| info.inputs.iter().any(|it| it.name == name);
    let names = || given.iter().map(|input| &*input.name);
    match names().all(is_known) {
        true => listed(names()),
        false => listed(names().filter(|name| !is_known(name))),
    }
}

/// Maximum number of names in an error.
const MAX_NAMES: usize = 8;

/// Maximum number of characters of such a name.
const MAX_NAME_LEN: usize = 64;

/// Lists names as an error has them.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.peekable();
    let first = names.by_ref().take(MAX_NAMES);
    let mut listed: Vec<String> = first.map(|name| cut_chars(name, MAX_NAME_LEN)).collect();
    if names.peek().is_some() {
        listed.push("…".to_owned());
    }
    listed.join(", ")
}

/// Returns the shape of the tensor that an input becomes, as far as the request alone determines
/// it: the declared shape, except where strings become rows or images. Lengths of images, which nobody knows before
/// they are decoded, are those that the model allows.
pub fn tensor_shape(expected: &TensorInfo, input: &InputTensor) -> Option<PartialShape> {
    let declared = lengths(expected, input).ok()?;
    if input.datatype == Declared::Known(DataType::String) {
        bytes::tensor_shape(expected, &declared, &input.data)
    } else {
        Some(PartialShape::of(&declared))
    }
}

fn check_input(expected: &TensorInfo, input: InputTensor, dialect: Dialect) -> Result<Planned<'_>> {
    if input.datatype == Declared::Known(DataType::String) {
        return bytes::plan(expected, input, dialect);
    }
    let shape = check_shape(expected, &input, dialect)?;
    let data = check_data(expected, &shape, input.data, dialect)?;
    Ok(Planned::Ready(SlotInput::new(expected.port, shape, data)))
}

/// Returns the shape as declared, none of its lengths negative.
fn lengths(expected: &TensorInfo, input: &InputTensor) -> Result<Vec<usize>> {
    let lengths = input.shape.iter().map(|&length| usize::try_from(length));
    lengths.collect::<Result<_, _>>().map_err(|_| {
        let shape = ShapeText(&input.shape);
        let text = "Invalid input shape - Negative or zero dimension size is not acceptable";
        refused(expected, format_args!("{text}: {shape}"))
    })
}

/// Makes the error of an input.
fn refused(expected: &TensorInfo, text: impl Display) -> Error {
    Error::invalid(format!("{text}; input name: {}", expected.name))
}

fn check_shape(expected: &TensorInfo, input: &InputTensor, dialect: Dialect) -> Result<Vec<usize>> {
    let actual = ShapeText(&input.shape);
    let shape = lengths(expected, input)?;
    if input.datatype != Declared::Known(expected.dtype) {
        let (precision, actual) = (expected.dtype.precision(), input.datatype.text(dialect));
        return Err(refused(
            expected,
            format_args!("Invalid input precision - Expected: {precision}; Actual: {actual}"),
        ));
    }
    let allowed = &expected.shape.0;
    if shape.len() != allowed.len() {
        if input.data == Data::Unranked {
            return Err(unranked(expected));
        }
        let text = "Invalid number of shape dimensions";
        let error = refused(
            expected,
            format_args!("{text} - Expected: {}; Actual: {actual}", expected.shape),
        );
        // Rows of one value are easily taken for values.
        let is_short = shape.len() == 1
            && dialect == Dialect::TensorFlowServing
            && matches!(allowed[..], [_, Dim::Fixed(1)]);
        return Err(match is_short {
            true => error.with_more(" - each row is a list, such as [[1.0], [2.0]]"),
            false => error,
        });
    }
    if expected.shape.allows(&shape) {
        if shape.contains(&0) {
            check_empty(expected, &shape)?;
        }
        return Ok(shape);
    }
    // The batch is reported first, wherever the layout has it.
    let batch = expected.layout.axis('N', shape.len());
    Err(match batch {
        Some(axis) if !allowed[axis].allows(shape[axis]) => {
            unfit_batch(expected, allowed[axis], shape[axis])
        }
        _ => unfit_shape(expected, actual),
    })
}

/// Validates the other lengths of a shape without elements, which no amount of data bounds.
fn check_empty(expected: &TensorInfo, shape: &[usize]) -> Result<()> {
    /// The length that OpenVINO takes for any length, and no tensor can have.
    const ANY_LENGTH: usize = usize::MAX >> 1;
    if let Some(excess) = excess_rows(shape) {
        return Err(refused(expected, excess));
    }
    if shape.contains(&ANY_LENGTH) {
        let (text, actual) = ("Invalid input shape", ShapeText(shape));
        return Err(refused(
            expected,
            format_args!("{text} - Expected: lengths below {ANY_LENGTH}; Actual: {actual}"),
        ));
    }
    Ok(())
}

/// Returns the error of a request that does not say how many dimensions its tensor has.
fn unranked(expected: &TensorInfo) -> Error {
    let text = "Invalid number of shape dimensions";
    refused(
        expected,
        format_args!("{text} - Expected: a shape; Actual: unknown_rank"),
    )
}

/// Returns the error of a batch of another size.
fn unfit_batch(expected: &TensorInfo, size: impl Display, actual: impl Display) -> Error {
    refused(
        expected,
        format_args!("Invalid input batch size - Expected: {size}; Actual: {actual}"),
    )
}

/// Returns the error of a shape that does not fit.
fn unfit_shape(expected: &TensorInfo, actual: impl Display) -> Error {
    let shape = &expected.shape;
    refused(
        expected,
        format_args!("Invalid input shape - Expected: {shape}; Actual: {actual}"),
    )
}

fn check_data(
    expected: &TensorInfo,
    shape: &[usize],
    data: Data,
    dialect: Dialect,
) -> Result<InputData> {
    let data = match data {
        Data::Raw(bytes) => InputData::Bytes(bytes),
        Data::Region(part) => InputData::Region(part),
        Data::Values { count, bytes } if elements(shape) == Some(count) => return Ok(bytes.into()),
        Data::Values { count, .. } => return Err(count_error(expected, shape, count, dialect)),
        Data::Unfit(reason) => return Err(unfit(expected, &reason)),
        // A scalar, whose shape is as empty.
        Data::Unranked => return Err(unranked(expected)),
        Data::Both => unreachable!("answered before the inputs are validated one by one"),
    };
    let actual = data.size();
    let needed = match byte_size(expected.dtype, shape) {
        Ok(Some(size)) if size == actual => return Ok(data),
        Ok(size) => format!("{} bytes", size.unwrap_or_default()),
        Err(_) => format!(
            "more bytes than memory can hold for shape {}",
            ShapeText(shape)
        ),
    };
    Err(refused(
        expected,
        format_args!(
            "Invalid content size of tensor proto - Expected: {needed}; Actual: {actual} bytes"
        ),
    ))
}

/// Returns the error of more or fewer values than the shape has elements.
fn count_error(expected: &TensorInfo, shape: &[usize], actual: usize, dialect: Dialect) -> Error {
    let unit = match dialect {
        Dialect::KServe => " values",
        Dialect::TensorFlowServing => "",
    };
    let needed = elements(shape).map_or_else(
        || "more values than memory can hold".to_owned(),
        |count| format!("{count}{unit}"),
    );
    let text = "Invalid number of values in tensor proto container";
    refused(
        expected,
        format_args!("{text} - Expected: {needed}; Actual: {actual}{unit}"),
    )
}

fn unfit(expected: &TensorInfo, reason: &str) -> Error {
    refused(
        expected,
        format_args!("Invalid value in tensor proto container - {reason}"),
    )
}

/// Returns the places of the outputs that are asked for, in that order; all by name if none is.
fn wanted(info: &ServableInfo, asked: &[String]) -> Result<Vec<usize>> {
    if asked.is_empty() {
        return Ok(info.outputs.iter().map(|output| output.port).collect());
    }
    asked
        .iter()
        .enumerate()
        .map(|(index, name)| {
            // Each would be a copy of its own: a small request could ask for any amount.
            if asked[..index].contains(name) {
                return Err(Error::invalid(format!(
                    "Invalid output name - Requested output: {name} is listed twice"
                )));
            }
            info.outputs
                .iter()
                .find(|output| output.name == *name)
                .map(|output| output.port)
                .ok_or_else(|| {
                    let known: Vec<&str> = info.outputs.iter().map(|o| o.name.as_str()).collect();
                    Error::invalid(format!(
                        "Invalid output name - Requested output: {name}; the model has: {}",
                        known.join(", ")
                    ))
                })
        })
        .collect()
}

#[cfg(test)]
mod tests;
