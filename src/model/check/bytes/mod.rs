//! BYTES and DT_STRING: the meaning of a list of strings for an input.
//!
//! The input's type and rank decide: strings as they are, rows of bytes, or encoded images. Slow
//! steps, decoding and padding, are planned here and done by [`Planned::finish`] once all inputs
//! have been validated.

use super::{check_shape, count_error, lengths};
use crate::{
    budget::Budget,
    error::{Error, ErrorKind, Result},
    openvino::SlotInput,
    request::{Data, Dialect, InputTensor},
    servable::TensorInfo,
    tensor::{
        DataType,
        images::{DecodeError, ImageError, ImageTensor, PixelLimit},
        strings::Strings,
    },
};

/// The memory of a string in the runtime beside its bytes: its object, and a pointer and a start while
/// it is set.
const NATIVE_STRING: usize = 64;

/// An input validated up to the steps that take time.
pub(super) enum Planned<'a> {
    /// Ready for a slot.
    Ready(SlotInput),
    /// Strings for a slot, as many as it says.
    Native(SlotInput, usize),
    /// Strings to be padded to rows.
    Padded(&'a TensorInfo, Strings),
    /// Images to be decoded.
    Images(&'a TensorInfo, Strings),
}

/// Treatment of strings by an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Native,
    Padded,
    Images,
}

/// Returns the treatment of strings by an input, if it takes any.
fn treatment(expected: &TensorInfo) -> Option<Treatment> {
    match (expected.dtype, expected.shape.0.len()) {
        (DataType::String, _) => Some(Treatment::Native),
        (DataType::U8, 2) => Some(Treatment::Padded),
        (_, 4) => Some(Treatment::Images),
        (_, 5) if is_split(expected) => Some(Treatment::Images),
        _ => None,
    }
}

/// Returns whether a request is split along the first axis: each part is then a batch of one image.
fn is_split(expected: &TensorInfo) -> bool {
    expected.layout.as_str().starts_with("N?")
}

/// Returns whether strings for an input take longer to validate than an async worker should be held up.
pub(super) fn is_slow(expected: &TensorInfo, strings: &Data) -> bool {
    /// Bytes of many short strings that are gone through at once.
    const MAX_FRAMED: usize = 1 << 16;
    /// Bytes of rows that are written at once.
    const MAX_PADDED: usize = 1 << 20;
    let length = match strings {
        Data::Raw(bytes) | Data::Values { bytes, .. } => bytes.len(),
        Data::Both | Data::Unfit(_) => return false,
    };
    match treatment(expected) {
        Some(Treatment::Images) => length > 0,
        // A string takes 4 bytes at least, and all rows have the length of the longest.
        Some(Treatment::Padded) => length.saturating_mul(length / 4) > MAX_PADDED,
        Some(Treatment::Native) | None => length > MAX_FRAMED,
    }
}

/// Returns the shape of the tensor that strings become; of images only the number is known, and the
/// rest is as the model has it now.
pub(super) fn tensor_shape(
    expected: &TensorInfo,
    declared: Vec<usize>,
    data: &Data,
) -> Option<Vec<usize>> {
    match treatment(expected)? {
        Treatment::Native => Some(declared),
        Treatment::Padded => match data {
            Data::Raw(bytes) | Data::Values { bytes, .. } => {
                let strings = Strings::new(bytes.clone()).ok()?;
                strings.padded_shape().ok().map(Vec::from)
            }
            Data::Both | Data::Unfit(_) => None,
        },
        Treatment::Images => {
            let mut shape = expected.shape.fixed()?;
            shape[0] = *declared.first()?;
            Some(shape)
        }
    }
}

/// Validates an input that is declared as strings.
pub(super) fn plan(
    expected: &TensorInfo,
    input: InputTensor,
    dialect: Dialect,
) -> Result<Planned<'_>> {
    let shape = lengths(expected, &input)?;
    let name = &expected.name;
    let Some(treatment) = treatment(expected) else {
        return Err(Error::new(
            ErrorKind::Unimplemented,
            format!(
                "Functionality not implemented - BYTES for a tensor of {} with shape {}: strings \
                 are taken by tensors of strings and by those of UINT8 with two dimensions, images \
                 by those with four, and with five where a request is split; input name: {name}",
                expected.dtype, expected.shape
            ),
        ));
    };
    let strings = match &input.data {
        Data::Raw(bytes) | Data::Values { bytes, .. } => {
            Strings::new(bytes.clone()).map_err(|error| {
                Error::invalid(format!(
                    "Inputs inside buffer does not match expected format. - {error}; input name: \
                     {name}"
                ))
            })?
        }
        Data::Unfit(reason) => return Err(super::unfit(expected, reason)),
        Data::Both => unreachable!("answered before the inputs are judged one by one"),
    };
    match treatment {
        Treatment::Native => {
            let shape = check_shape(expected, &input, dialect)?;
            if crate::tensor::elements(&shape) != Some(strings.count()) {
                return Err(count_error(expected, &shape, strings.count(), dialect));
            }
            let input = SlotInput {
                port: expected.port,
                shape,
                data: strings.framed().clone(),
            };
            Ok(Planned::Native(input, strings.count()))
        }
        Treatment::Padded => {
            padded(expected, &shape, &strings, dialect)?;
            Ok(Planned::Padded(expected, strings))
        }
        Treatment::Images => {
            images(expected, &shape, &strings, dialect)?;
            Ok(Planned::Images(expected, strings))
        }
    }
}

/// Validates strings that are to become rows.
fn padded(
    expected: &TensorInfo,
    shape: &[usize],
    strings: &Strings,
    dialect: Dialect,
) -> Result<()> {
    let name = &expected.name;
    is_list(expected, shape, dialect)?;
    let padded = strings.padded_shape().map_err(|error| {
        Error::invalid(format!(
            "Maximum 2D array after string conversion exceeded 1GB - {error}; input name: {name}"
        ))
    })?;
    check_batch(expected, shape[0], strings)?;
    let [rows, width] = &expected.shape.0[..] else {
        unreachable!("it is treated so for its two dimensions");
    };
    if !width.allows(padded[1]) {
        return Err(Error::invalid(format!(
            "Invalid input shape - Expected batch size: {rows}; got: {}; Expected max null \
             terminated string length: {width}; got: {}; input name: {name}",
            padded[0], padded[1]
        )));
    }
    Ok(())
}

/// Validates images, as far as possible without decoding them.
fn images(
    expected: &TensorInfo,
    shape: &[usize],
    strings: &Strings,
    dialect: Dialect,
) -> Result<()> {
    let name = &expected.name;
    is_list(expected, shape, dialect)?;
    check_batch(expected, shape[0], strings)?;
    if is_split(expected) && !expected.shape.0[1].allows(1) {
        return Err(Error::invalid(format!(
            "Invalid input batch size - Expected: {} in each part; Actual: 1, an image; input name: \
             {name}",
            expected.shape.0[1]
        )));
    }
    image_tensor(expected)
        .check()
        .map_err(|error| image_error(expected, error))?;
    if strings.count() == 0 {
        return Err(Error::invalid(format!(
            "Invalid input batch size - Expected: {}, and one image at least; Actual: 0; input \
             name: {name}",
            expected.shape.0[0]
        )));
    }
    if let Some(index) = strings.iter().position(<[u8]>::is_empty) {
        let text = match dialect {
            Dialect::KServe => "Bytes contents is empty",
            Dialect::TensorFlowServing => "String val is empty",
        };
        return Err(Error::invalid(format!(
            "{text} - image {index}; input name: {name}"
        )));
    }
    Ok(())
}

/// Sees to it that the shape of a request is that of a list.
fn is_list(expected: &TensorInfo, shape: &[usize], dialect: Dialect) -> Result<()> {
    if shape.len() == 1 {
        return Ok(());
    }
    let binary = match dialect {
        Dialect::KServe => "",
        Dialect::TensorFlowServing => "binary ",
    };
    Err(Error::invalid(format!(
        "Invalid number of shape dimensions - Expected number of {binary}input shape dimensions: \
         1; Actual: {}; input name: {}",
        shape.len(),
        expected.name
    )))
}

/// Holds the number of strings against the request's shape and the model's batch size.
fn check_batch(expected: &TensorInfo, declared: usize, strings: &Strings) -> Result<()> {
    let name = &expected.name;
    if declared != strings.count() {
        return Err(Error::invalid(format!(
            "Invalid input batch size - Expected: {declared} as declared; Actual: {}; input name: \
             {name}",
            strings.count()
        )));
    }
    let batch = expected.shape.0[0];
    if !batch.allows(declared) {
        return Err(Error::invalid(format!(
            "Invalid input batch size - Expected: {batch}; Actual: {declared}; input name: {name}"
        )));
    }
    Ok(())
}

fn image_tensor(expected: &TensorInfo) -> ImageTensor<'_> {
    ImageTensor {
        dtype: expected.dtype,
        shape: &expected.shape,
        layout: &expected.layout,
    }
}

impl Planned<'_> {
    /// Does what takes time.
    pub(super) fn finish(self, limit: PixelLimit, budget: &Budget) -> Result<SlotInput> {
        match self {
            Self::Ready(input) => Ok(input),
            Self::Native(input, count) => {
                // In the runtime each string is an object, and set by way of pointers.
                let charge = budget.charge(input.data.len() + count * NATIVE_STRING)?;
                Ok(SlotInput {
                    data: charge.keep(input.data),
                    ..input
                })
            }
            Self::Padded(expected, strings) => {
                let failure = |error| {
                    Error::invalid("Maximum 2D array after string conversion exceeded 1GB")
                        .with_source(error)
                };
                let shape = strings.padded_shape().map_err(failure)?;
                let charge = budget.charge(shape.iter().product())?;
                Ok(SlotInput {
                    port: expected.port,
                    shape: shape.to_vec(),
                    data: charge.keep(strings.pad().map_err(failure)?),
                })
            }
            Self::Images(expected, strings) => {
                let (shape, data) = image_tensor(expected)
                    .fill(&strings, limit, budget)
                    .map_err(|error| image_error(expected, error))?;
                Ok(SlotInput {
                    port: expected.port,
                    shape,
                    data,
                })
            }
        }
    }
}

fn image_error(expected: &TensorInfo, error: ImageError) -> Error {
    let name = &expected.name;
    let text = match &error {
        // Not an error of this request.
        ImageError::Budget(error) => return Error::new(error.kind(), error.message()),
        ImageError::Layout(layout) => format!(
            "Received binary image input but resource not configured to accept NHWC layout - \
             Expected: N...HWC; Actual: {layout}; input name: {name}"
        ),
        ImageError::Type(_) => format!(
            "Invalid input precision - Expected: {}; Actual: encoded images, which become FP32, \
             FP64, FP16, I16, U8, I8, U16 or I32; input name: {name}",
            expected.dtype.precision()
        ),
        ImageError::Decode { index, source } => {
            let reason = match source {
                DecodeError::Broken(error) => error.to_string(),
                source => source.to_string(),
            };
            format!("Image parsing failed - image {index}: {reason}; input name: {name}")
        }
        ImageError::Channels {
            index,
            expected,
            actual,
        } => format!(
            "Invalid number of channels in binary input - Expected: {expected}; Actual: {actual} \
             in image {index}; input name: {name}"
        ),
        ImageError::Sizes { index } => format!(
            "Binary input images for this endpoint are required to have the same resolution - \
             image {index} has another than the first; input name: {name}"
        ),
        ImageError::Shape(actual) => format!(
            "Invalid input shape - Expected: {}; Actual: {actual}; input name: {name}",
            expected.shape
        ),
        ImageError::TooLarge => {
            format!("Image parsing failed - {error}; input name: {name}")
        }
    };
    Error::invalid(text).with_source(error)
}

#[cfg(test)]
mod tests;
