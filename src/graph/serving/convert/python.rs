//! Inputs of Python nodes, of any datatype a client sends.

use super::intake::{lengths, size, values};
use crate::{
    error::{Error, Result},
    python::HandlerTensor,
    request::{Data, Declared, Dialect, InputTensor},
    tensor::DataType,
};

/// Reads an input. Elements with a Python format are checked against the shape; the bytes of all
/// others are passed on unchanged.
pub(super) fn read(input: &InputTensor) -> Result<HandlerTensor> {
    let lengths = lengths(input, 0)?;
    let known = match input.datatype {
        Declared::Known(dtype) => Some(dtype),
        Declared::Unknown(_) => None,
    };
    // Python has no format for strings and bfloat16.
    let typed = known.filter(|it| !matches!(it, DataType::String | DataType::Bf16));
    let size = typed.map(|dtype| size(dtype, &lengths)).transpose()?;
    let bytes = match (&input.data, known, size) {
        (Data::Raw(bytes), _, Some(expected)) if bytes.len() != expected => {
            let actual = bytes.len();
            return Err(Error::invalid(format!(
                "Invalid content size of tensor proto - Invalid Python tensor buffer size. \
                 Actual: {actual}; Expected: {expected}"
            )));
        }
        (Data::Raw(bytes), ..) | (Data::Values { bytes, .. }, Some(DataType::String), _) => {
            bytes.clone()
        }
        (_, None | Some(DataType::Bf16), _) => {
            return Err(Error::invalid(
                "Invalid input precision - Provided datatype is invalid, custom datatypes are \
                 allowed only when raw_input_contents is used.",
            ));
        }
        (_, Some(dtype), _) => values(input, dtype, &lengths)?,
    };
    let datatype = input.datatype.text(Dialect::KServe);
    Ok(HandlerTensor::new(
        &input.name,
        datatype,
        input.shape.clone(),
        bytes,
        typed.is_some(),
    ))
}
