//! A request's tensors against what the model allows.
//!
//! The order of the checks and the texts are those that clients of model servers know: inputs are
//! judged in the order of their names, and the first fault is the answer.

use bytes::Bytes;

use crate::{
    error::{Error, ErrorKind, Result},
    openvino::SlotInput,
    request::{Data, Declared, InferRequest, InputTensor},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, ShapeText, byte_size, elements},
};

/// Judges a request; returns what a slot takes and the places of the wanted outputs.
///
/// # Errors
///
/// Fails with the first fault.
pub fn check(info: &ServableInfo, request: InferRequest) -> Result<(Vec<SlotInput>, Vec<usize>)> {
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
    let mut given = request.inputs;
    let mut inputs = Vec::with_capacity(info.inputs.len());
    for expected in &info.inputs {
        let Some(index) = given.iter().position(|input| input.name == expected.name) else {
            return Err(Error::invalid(format!(
                "Missing input with specific name - Required input: {}",
                expected.name
            )));
        };
        inputs.push(check_input(expected, given.swap_remove(index))?);
    }
    Ok((inputs, wanted(info, &request.outputs)?))
}

fn check_input(expected: &TensorInfo, input: InputTensor) -> Result<SlotInput> {
    let shape = check_shape(expected, &input)?;
    let data = check_data(expected, &shape, input.data)?;
    Ok(SlotInput {
        port: expected.port,
        shape,
        data,
    })
}

fn check_shape(expected: &TensorInfo, input: &InputTensor) -> Result<Vec<usize>> {
    let name = &expected.name;
    let actual = ShapeText(&input.shape);
    let mut shape = Vec::with_capacity(input.shape.len());
    for &length in &input.shape {
        let Ok(length) = usize::try_from(length) else {
            return Err(Error::invalid(format!(
                "Invalid input shape - Negative or zero dimension size is not acceptable: \
                 {actual}; input name: {name}"
            )));
        };
        shape.push(length);
    }
    check_type(expected, &input.datatype)?;
    let allowed = &expected.shape.0;
    if shape.len() != allowed.len() {
        return Err(Error::invalid(format!(
            "Invalid number of shape dimensions - Expected: {}; Actual: {actual}; input name: \
             {name}",
            expected.shape
        )));
    }
    for (index, (&length, allowed)) in shape.iter().zip(allowed).enumerate() {
        if allowed.allows(length) {
            continue;
        }
        return Err(Error::invalid(if index == 0 {
            format!(
                "Invalid input batch size - Expected: {allowed}; Actual: {length}; input name: \
                 {name}"
            )
        } else {
            format!(
                "Invalid input shape - Expected: {}; Actual: {actual}; input name: {name}",
                expected.shape
            )
        }));
    }
    Ok(shape)
}

fn check_type(expected: &TensorInfo, declared: &Declared) -> Result<()> {
    let unserved = |what: &str| {
        Err(Error::new(
            ErrorKind::Unimplemented,
            format!(
                "Functionality not implemented - {what}; input name: {}",
                expected.name
            ),
        ))
    };
    match declared {
        Declared::Known(DataType::String) if expected.dtype == DataType::String => {
            unserved("inference with string tensors")
        }
        Declared::Known(DataType::String) => {
            unserved("BYTES as an encoded image or a list of strings")
        }
        Declared::Known(dtype) if *dtype == expected.dtype => Ok(()),
        declared => Err(Error::invalid(format!(
            "Invalid input precision - Expected: {}; Actual: {}; input name: {}",
            expected.dtype.precision(),
            declared.text(),
            expected.name
        ))),
    }
}

fn check_data(expected: &TensorInfo, shape: &[usize], data: Data) -> Result<Bytes> {
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
        Data::Values { count, bytes } => match elements(shape) {
            Some(expected) if expected == count => Ok(bytes),
            expected => {
                let expected = expected.map_or_else(
                    || "more values than memory can hold".to_owned(),
                    |count| format!("{count} values"),
                );
                Err(Error::invalid(format!(
                    "Invalid number of values in tensor proto container - Expected: {expected}; \
                     Actual: {count} values; input name: {name}"
                )))
            }
        },
        Data::Unfit(reason) => Err(Error::invalid(format!(
            "Invalid value in tensor proto container - {reason}; input name: {name}"
        ))),
        Data::Both => unreachable!("answered before the inputs are judged one by one"),
    }
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
