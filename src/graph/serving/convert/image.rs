//! Images: height, width and channels in one of the formats of MediaPipe.

use super::intake::{lengths, size};
use crate::{
    error::{Error, Result},
    request::{Data, Declared, InputTensor},
    tensor::{DataType, Tensor},
};

/// Reads an image. Its elements become those of its format: 8 and 16 bits are unsigned.
pub(super) fn read(input: &InputTensor) -> Result<Tensor> {
    let Data::Raw(bytes) = &input.data else {
        return Err(Error::invalid(format!(
            "Mediapipe execution failed. MP status - Data should be located in \
             raw_input_contents if graph input tag is IMAGE; input name: {}",
            input.name
        )));
    };
    let rank = input.shape.len();
    if rank != 3 {
        return Err(Error::invalid(format!(
            "Invalid input shape - Invalid Mediapipe Image input shape size. Expected: 3; Actual: \
             {rank}"
        )));
    }
    let names = ["height", "width", "number of channels"];
    let mut lengths_by_name = names.iter().zip(&input.shape);
    if let Some((name, length)) = lengths_by_name.find(|(_, length)| **length <= 0) {
        return Err(Error::invalid(format!(
            "Invalid input shape - Invalid Mediapipe Image input {name}. Expected greater than 0; \
             Actual: {length}; Expected layout - HWC."
        )));
    }
    let shape = lengths(input, 1)?;
    let Declared::Known(sent) = input.datatype else {
        return Err(no_format());
    };
    let (dtype, channels): (_, &[usize]) = match sent {
        DataType::U8 | DataType::I8 => (DataType::U8, &[1, 3, 4]),
        DataType::U16 | DataType::I16 | DataType::F16 => (DataType::U16, &[1, 3, 4]),
        DataType::F32 => (DataType::F32, &[1, 2, 4]),
        _ => return Err(no_format()),
    };
    let expected = size(dtype, &shape)?;
    if bytes.len() != expected {
        let actual = bytes.len();
        return Err(Error::invalid(format!(
            "Invalid content size of tensor proto - Invalid Mediapipe Image input buffer size. \
             Actual: {actual}; Expected: {expected}"
        )));
    }
    if !channels.contains(&shape[2]) {
        return Err(no_format());
    }
    Tensor::new(dtype, shape, bytes.clone()).map_err(|error| Error::internal(error.to_string()))
}

fn no_format() -> Error {
    Error::invalid(
        "Inputs inside buffer does not match expected format. - Invalid KFS request datatype, \
         conversion to Mediapipe ImageFrame format failed.",
    )
}

/// Returns the datatype of an image in a response.
pub(super) const fn datatype(dtype: DataType) -> DataType {
    match dtype {
        DataType::I8 => DataType::U8,
        DataType::I16 | DataType::F16 => DataType::U16,
        other => other,
    }
}
