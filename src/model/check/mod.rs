//! A request's tensors against what the model allows.
//!
//! Clients of model servers know the order of the checks and the texts: inputs are validated in the
//! order of their names, and the first error is the response.

mod bytes;

use ::bytes::Bytes;

use self::bytes::Planned;
use crate::{
    budget::Budget,
    error::{Error, Result},
    openvino::SlotInput,
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, ShapeText, byte_size, elements, images::PixelLimit},
};

/// Returns whether validating a request may take longer than an async worker should be held up:
/// encoded images are decoded, and strings padded.
#[must_use]
pub fn is_slow(info: &ServableInfo, request: &InferRequest) -> bool {
    let strings = Declared::Known(DataType::String);
    let mut inputs = request.inputs.iter();
    inputs.any(|input| {
        let mut known = info.inputs.iter();
        input.datatype == strings
            && known.any(|info| info.name == input.name && bytes::is_slow(info, &input.data))
    })
}

/// Validates a request; returns the inputs of a slot and the places of the wanted outputs. Encoded
/// images of more pixels than the limit are not decoded; the bytes of expanded strings and images
/// are charged to the budget.
///
/// # Errors
///
/// Fails with the first error.
pub fn check(
    info: &ServableInfo,
    request: InferRequest,
    limit: PixelLimit,
    budget: &Budget,
) -> Result<(Vec<SlotInput>, Vec<usize>)> {
    if request.inputs.len() != info.inputs.len() {
        return Err(Error::invalid(format!(
            "Invalid number of inputs - Expected: {}; Actual: {}",
            info.inputs.len(),
            request.inputs.len()
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
    if let Some(actual) = request.raw_mismatch {
        return Err(Error::invalid(format!(
            "Inputs inside buffer does not match expected format. - Expected: one element of \
             raw_input_contents for each of the {} inputs; Actual: {actual}",
            request.inputs.len()
        )));
    }
    let dialect = request.dialect;
    let mut given = request.inputs;
    let mut planned = Vec::with_capacity(info.inputs.len());
    for expected in &info.inputs {
        let Some(index) = given.iter().position(|input| input.name == expected.name) else {
            return Err(Error::invalid(format!(
                "Missing input with specific name - Required input: {}",
                expected.name
            )));
        };
        planned.push(check_input(expected, given.swap_remove(index), dialect)?);
    }
    let wanted = wanted(info, &request.outputs)?;
    let inputs = planned
        .into_iter()
        .map(|input| input.finish(limit, budget))
        .collect::<Result<_>>()?;
    Ok((inputs, wanted))
}

/// Returns the shape of the tensor that an input becomes, as far as the request alone determines
/// it: the declared shape, except where strings become rows or images.
#[must_use]
pub fn tensor_shape(expected: &TensorInfo, input: &InputTensor) -> Option<Vec<usize>> {
    let declared = lengths(expected, input).ok()?;
    if input.datatype == Declared::Known(DataType::String) {
        bytes::tensor_shape(expected, declared, &input.data)
    } else {
        Some(declared)
    }
}

fn check_input(expected: &TensorInfo, input: InputTensor, dialect: Dialect) -> Result<Planned<'_>> {
    if input.datatype == Declared::Known(DataType::String) {
        return bytes::plan(expected, input, dialect);
    }
    let shape = check_shape(expected, &input, dialect)?;
    let data = check_data(expected, &shape, input.data, dialect)?;
    Ok(Planned::Ready(SlotInput {
        port: expected.port,
        shape,
        data,
    }))
}

/// Returns the shape as declared, none of its lengths negative.
fn lengths(expected: &TensorInfo, input: &InputTensor) -> Result<Vec<usize>> {
    let lengths = input.shape.iter().map(|&length| usize::try_from(length));
    lengths.collect::<Result<_, _>>().map_err(|_| {
        Error::invalid(format!(
            "Invalid input shape - Negative or zero dimension size is not acceptable: {}; input \
             name: {}",
            ShapeText(&input.shape),
            expected.name
        ))
    })
}

fn check_shape(expected: &TensorInfo, input: &InputTensor, dialect: Dialect) -> Result<Vec<usize>> {
    let name = &expected.name;
    let actual = ShapeText(&input.shape);
    let shape = lengths(expected, input)?;
    check_type(expected, &input.datatype, dialect)?;
    let allowed = &expected.shape.0;
    if shape.len() != allowed.len() {
        return Err(Error::invalid(format!(
            "Invalid number of shape dimensions - Expected: {}; Actual: {actual}; input name: \
             {name}",
            expected.shape
        )));
    }
    let fits = |(&length, allowed): (&usize, &Dim)| allowed.allows(length);
    if shape.iter().zip(allowed).all(fits) {
        return Ok(shape);
    }
    // The batch is reported first, wherever the layout has it.
    let batch = expected.layout.axis('N', shape.len());
    Err(Error::invalid(match batch {
        Some(axis) if !allowed[axis].allows(shape[axis]) => format!(
            "Invalid input batch size - Expected: {}; Actual: {}; input name: {name}",
            allowed[axis], shape[axis]
        ),
        _ => format!(
            "Invalid input shape - Expected: {}; Actual: {actual}; input name: {name}",
            expected.shape
        ),
    }))
}

fn check_type(expected: &TensorInfo, declared: &Declared, dialect: Dialect) -> Result<()> {
    if *declared == Declared::Known(expected.dtype) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "Invalid input precision - Expected: {}; Actual: {}; input name: {}",
        expected.dtype.precision(),
        declared.text(dialect),
        expected.name
    )))
}

fn check_data(
    expected: &TensorInfo,
    shape: &[usize],
    data: Data,
    dialect: Dialect,
) -> Result<Bytes> {
    let name = &expected.name;
    match data {
        Data::Raw(bytes) => match byte_size(expected.dtype, shape) {
            Ok(Some(size)) if size == bytes.len() => Ok(bytes),
            Ok(size) => Err(Error::invalid(format!(
                "Invalid content size of tensor proto - Expected: {} bytes; Actual: {} bytes; \
                 input name: {name}",
                size.unwrap_or_default(),
                bytes.len()
            ))),
            Err(_) => Err(Error::invalid(format!(
                "Invalid content size of tensor proto - Expected: more bytes than memory can \
                 hold for shape {}; Actual: {} bytes; input name: {name}",
                ShapeText(shape),
                bytes.len()
            ))),
        },
        Data::Values { count, bytes } if elements(shape) == Some(count) => Ok(bytes),
        Data::Values { count, .. } => Err(count_error(expected, shape, count, dialect)),
        Data::Unfit(reason) => Err(unfit(expected, &reason)),
        Data::Both => unreachable!("answered before the inputs are judged one by one"),
    }
}

/// Says that there are more or fewer values than the shape has elements.
fn count_error(expected: &TensorInfo, shape: &[usize], actual: usize, dialect: Dialect) -> Error {
    let unit = match dialect {
        Dialect::KServe => " values",
        Dialect::TensorFlowServing => "",
    };
    let needed = elements(shape).map_or_else(
        || "more values than memory can hold".to_owned(),
        |count| format!("{count}{unit}"),
    );
    Error::invalid(format!(
        "Invalid number of values in tensor proto container - Expected: {needed}; Actual: \
         {actual}{unit}; input name: {}",
        expected.name
    ))
}

fn unfit(expected: &TensorInfo, reason: &str) -> Error {
    Error::invalid(format!(
        "Invalid value in tensor proto container - {reason}; input name: {}",
        expected.name
    ))
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
