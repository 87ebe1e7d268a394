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
    let (bytes, is_typed) = match (&input.datatype, &input.data) {
        (Declared::Known(DataType::String), Data::Raw(bytes) | Data::Values { bytes, .. }) => {
            (bytes.clone(), false)
        }
        (Declared::Known(DataType::String), _) => {
            (values(input, DataType::String, &lengths)?, false)
        }
        // Python has no format for bfloat16.
        (Declared::Known(DataType::Bf16) | Declared::Unknown(_), Data::Raw(bytes)) => {
            (bytes.clone(), false)
        }
        (Declared::Known(DataType::Bf16) | Declared::Unknown(_), _) => {
            return Err(Error::invalid(
                "Invalid input precision - Provided datatype is invalid, custom datatypes are \
                 allowed only when raw_input_contents is used.",
            ));
        }
        (Declared::Known(dtype), Data::Raw(bytes)) => {
            let expected = size(*dtype, &lengths)?;
            if bytes.len() != expected {
                return Err(Error::invalid(format!(
                    "Invalid content size of tensor proto - Invalid Python tensor buffer size. \
                     Actual: {}; Expected: {expected}",
                    bytes.len()
                )));
            }
            (bytes.clone(), true)
        }
        (Declared::Known(dtype), _) => {
            size(*dtype, &lengths)?;
            (values(input, *dtype, &lengths)?, true)
        }
    };
    let datatype = input.datatype.text(Dialect::KServe);
    Ok(HandlerTensor::new(
        &input.name,
        datatype,
        input.shape.clone(),
        bytes,
        is_typed,
    ))
}
