//! Inputs for Python nodes, of any datatype that a client thinks of.

use super::intake::{lengths, size, values};
use crate::{
    error::{Error, Result},
    python::Tensor,
    request::{Data, Declared, Dialect, InputTensor},
    tensor::DataType,
};

/// Reads an input. Elements that Python has a format for are checked against the shape; of anything else
/// the bytes are handed on as they were sent.
pub(super) fn read(input: &InputTensor) -> Result<Tensor> {
    let lengths = lengths(input, 0)?;
    let (bytes, format) = match (&input.datatype, &input.data) {
        (Declared::Known(DataType::String), Data::Raw(bytes) | Data::Values { bytes, .. }) => {
            (bytes.clone(), None)
        }
        (Declared::Known(DataType::String), _) => {
            (values(input, DataType::String, &lengths)?, None)
        }
        // Python has no format for these halves.
        (Declared::Known(DataType::Bf16) | Declared::Unknown(_), Data::Raw(bytes)) => {
            (bytes.clone(), None)
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
            (bytes.clone(), Some(*dtype))
        }
        (Declared::Known(dtype), _) => {
            size(*dtype, &lengths)?;
            (values(input, *dtype, &lengths)?, Some(*dtype))
        }
    };
    let datatype = input.datatype.text(Dialect::KServe);
    Ok(Tensor::new(
        &input.name,
        datatype,
        input.shape.clone(),
        bytes,
        format,
    ))
}
