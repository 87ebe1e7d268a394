//! BYTES and DT_STRING: the meaning of a list of strings for an input.
//!
//! The input's type and rank decide: strings as they are, rows of bytes, or encoded images. Slow
//! steps, decoding and padding, are planned here and done by [`Planned::finish`] once all inputs
//! have been validated.

use ::bytes::Bytes;

use super::{check_shape, count_error, lengths, refused, unfit_batch, unfit_shape, unranked};
use crate::{
    budget::Budget,
    error::{Error, ErrorKind, Result},
    openvino::SlotInput,
    request::{Data, Dialect, InputTensor},
    servable::TensorInfo,
    tensor::{
        DataType, Dim, PartialShape, elements,
        images::{ImageError, ImageTensor, PixelLimit},
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
        _ if is_split(expected) => Some(Treatment::Images),
        _ => None,
    }
}

/// Returns whether strings for an input are encoded images.
pub(super) fn is_of_images(expected: &TensorInfo) -> bool {
    treatment(expected) == Some(Treatment::Images)
}

/// Returns whether a request is split along the first axis: each part is then a batch of one image. With four axes
/// the second is that of the height, whatever the layout says of it.
fn is_split(expected: &TensorInfo) -> bool {
    expected.shape.0.len() == 5 && expected.layout.as_str().starts_with("N?")
}

/// Returns whether strings for an input take longer to validate than an async worker should be held up.
pub(super) fn is_slow(expected: &TensorInfo, strings: &Data) -> bool {
    /// Bytes of many short strings that are gone through at once.
    const MAX_FRAMED: usize = 1 << 16;
    /// Bytes of rows that are written at once.
    const MAX_PADDED: usize = 1 << 20;
    let length = strings.bytes().map_or(0, Bytes::len);
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
    declared: &[usize],
    data: &Data,
) -> Option<PartialShape> {
    match treatment(expected)? {
        Treatment::Native => Some(PartialShape::of(declared)),
        Treatment::Padded => {
            let strings = Strings::new(data.bytes()?.clone()).ok()?;
            Some(PartialShape::of(&strings.padded_shape().ok()?))
        }
        Treatment::Images => {
            let mut shape = expected.shape.clone();
            shape.0[0] = Dim::Fixed(*declared.first()?);
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
    match treatment {
        Treatment::Native => {
            let shape = check_shape(expected, &input, dialect)?;
            let strings = framed(expected, &input.data)?;
            if elements(&shape) != Some(strings.count()) {
                return Err(count_error(expected, &shape, strings.count(), dialect));
            }
            let input = SlotInput::new(expected.port, shape, strings.framed().clone());
            Ok(Planned::Native(input, strings.count()))
        }
        Treatment::Padded => {
            let count = check_list(expected, &input, &shape, dialect)?;
            let strings = framed(expected, &input.data)?;
            padded(expected, count, &strings)?;
            Ok(Planned::Padded(expected, strings))
        }
        Treatment::Images => {
            let count = check_list(expected, &input, &shape, dialect)?;
            check_image_tensor(expected)?;
            let strings = framed(expected, &input.data)?;
            images(expected, count, &strings, dialect)?;
            Ok(Planned::Images(expected, strings))
        }
    }
}

/// Reads the strings of an input, after what its shape alone has wrong.
fn framed(expected: &TensorInfo, data: &Data) -> Result<Strings> {
    match data {
        Data::Raw(bytes) | Data::Values { bytes, .. } => {
            Strings::new(bytes.clone()).map_err(|error| {
                let text = "Inputs inside buffer does not match expected format.";
                refused(expected, format_args!("{text} - {error}"))
            })
        }
        Data::Unfit(reason) => Err(super::unfit(expected, reason)),
        Data::Region(_) => Err(Error::internal(
            "strings in shared memory have not been read",
        )),
        Data::Unranked => Err(unranked(expected)),
        Data::Both => unreachable!("answered before the inputs are validated one by one"),
    }
}

/// Validates strings that are to become rows, of which the request declares so many.
fn padded(expected: &TensorInfo, declared: usize, strings: &Strings) -> Result<()> {
    let padded = strings.padded_shape().map_err(|error| {
        let text = "Maximum 2D array after string conversion exceeded 1GB";
        refused(expected, format_args!("{text} - {error}"))
    })?;
    check_count(expected, declared, strings)?;
    let [rows, width] = &expected.shape.0[..] else {
        unreachable!("it is treated so for its two dimensions");
    };
    let [count, longest] = padded;
    if !width.allows(longest) {
        return Err(refused(
            expected,
            format_args!(
                "Invalid input shape - Expected batch size: {rows}; got: {count}; Expected max null \
                 terminated string length: {width}; got: {longest}"
            ),
        ));
    }
    Ok(())
}

/// Validates whether an input can take images at all.
fn check_image_tensor(expected: &TensorInfo) -> Result<()> {
    let dims = &expected.shape.0;
    if is_split(expected) && !dims[1].allows(1) {
        let size = format_args!("{} in each part", dims[1]);
        return Err(unfit_batch(expected, size, "1, an image"));
    }
    let checked = image_tensor(expected).check();
    checked.map_err(|error| image_error(expected, error))
}

/// Validates images, of which the request declares so many, as far as possible without decoding them.
fn images(
    expected: &TensorInfo,
    declared: usize,
    strings: &Strings,
    dialect: Dialect,
) -> Result<()> {
    check_count(expected, declared, strings)?;
    if strings.count() == 0 {
        let size = format_args!("{}, and one image at least", expected.shape.0[0]);
        return Err(unfit_batch(expected, size, 0));
    }
    if let Some(index) = strings.iter().position(<[u8]>::is_empty) {
        let text = match dialect {
            Dialect::KServe => "Bytes contents is empty",
            Dialect::TensorFlowServing => "String val is empty",
        };
        return Err(refused(expected, format_args!("{text} - image {index}")));
    }
    Ok(())
}

/// Checks that the shape of a request is that of a list as long as the model's batch may be; returns that length.
fn check_list(
    expected: &TensorInfo,
    input: &InputTensor,
    shape: &[usize],
    dialect: Dialect,
) -> Result<usize> {
    let batch = expected.shape.0[0];
    match *shape {
        [length] if batch.allows(length) => return Ok(length),
        [length] => return Err(unfit_batch(expected, batch, length)),
        _ if input.data == Data::Unranked => return Err(unranked(expected)),
        _ => {}
    }
    let rank = shape.len();
    let binary = match dialect {
        Dialect::KServe => "",
        Dialect::TensorFlowServing => "binary ",
    };
    Err(refused(
        expected,
        format_args!(
            "Invalid number of shape dimensions - Expected number of {binary}input shape dimensions: \
             1; Actual: {rank}"
        ),
    ))
}

/// Holds the number of strings against the one that the request declares.
fn check_count(expected: &TensorInfo, declared: usize, strings: &Strings) -> Result<()> {
    if declared == strings.count() {
        return Ok(());
    }
    let declared = format_args!("{declared} as declared");
    Err(unfit_batch(expected, declared, strings.count()))
}

fn image_tensor(expected: &TensorInfo) -> ImageTensor<'_> {
    ImageTensor {
        dtype: expected.dtype,
        shape: &expected.shape,
        layout: &expected.layout,
    }
}

impl Planned<'_> {
    /// Performs the part that takes time.
    pub(super) fn finish(self, limit: PixelLimit, budget: &Budget) -> Result<SlotInput> {
        match self {
            Self::Ready(input) => Ok(input),
            Self::Native(input, count) => {
                // In the runtime each string is an object, and set by way of pointers.
                let charge = budget.charge(input.data.size() + count * NATIVE_STRING)?;
                let SlotInput { port, shape, data } = input;
                Ok(SlotInput::new(port, shape, charge.keep(data.bytes()?)))
            }
            Self::Padded(expected, strings) => {
                let failure = |error| {
                    Error::invalid("Maximum 2D array after string conversion exceeded 1GB")
                        .with_source(error)
                };
                let shape = strings.padded_shape().map_err(failure)?;
                let charge = budget.charge(shape.iter().product())?;
                let data = charge.keep(strings.pad().map_err(failure)?);
                Ok(SlotInput::new(expected.port, shape.to_vec(), data))
            }
            Self::Images(expected, strings) => {
                let (shape, data) = image_tensor(expected)
                    .fill(&strings, limit, budget)
                    .map_err(|error| image_error(expected, error))?;
                Ok(SlotInput::new(expected.port, shape, data))
            }
        }
    }
}

/// Continuation of the refusal of images of another size, where any number of them is taken.
const OPEN_BATCH: &str =
    " - images are resized where no dimension is -1: with a batch size such as 1:8";

/// Help for images of another size sent to an input with another open dimension before the batch, as a dynamic
/// demultiplexer splits.
const OPEN_PARTS: &str =
    " - images are resized where no dimension is -1: with a demultiply_count that is a number";

/// Help for images sent to an input whose last dimension is no number of channels.
const CHANNELS_LAST: &str =
    ", which has its channels last; --layout NHWC:NCHW serves a model that has them first";

fn image_error(expected: &TensorInfo, error: ImageError) -> Error {
    let refused = match &error {
        // Not an error of this request.
        ImageError::Budget(error) => return Error::new(error.kind(), error.message()),
        ImageError::Layout(layout) => refused(
            expected,
            format_args!(
                "Received binary image input but resource not configured to accept NHWC layout - \
                 Expected: N...HWC; Actual: {layout}"
            ),
        ),
        ImageError::Type(_) => refused(
            expected,
            format_args!(
                "Invalid input precision - Expected: {}; Actual: encoded images, which become FP32, \
                 FP64, FP16, I16, U8, I8, U16 or I32",
                expected.dtype.precision()
            ),
        ),
        ImageError::Decode { index, source } => refused(
            expected,
            format_args!("Image parsing failed - image {index}: {source}"),
        ),
        ImageError::Channels {
            index,
            expected: channels,
            actual,
        } => {
            // Gray, colors, and colors with an opacity have fewer.
            let help = match channels {
                Dim::Fixed(5..) => CHANNELS_LAST,
                _ => "",
            };
            refused(
                expected,
                format_args!(
                    "Invalid number of channels in binary input - Expected: {channels}; Actual: {actual} \
                     in image {index}{help}"
                ),
            )
        }
        ImageError::Sizes { index } => refused(
            expected,
            format_args!(
                "Binary input images for this endpoint are required to have the same resolution - \
                 image {index} has another than the first"
            ),
        ),
        ImageError::Shape(actual) => {
            let unfit = unfit_shape(expected, actual);
            match expected.shape.0.as_slice() {
                [Dim::Any, batch, Dim::Fixed(_), Dim::Fixed(_), _] if *batch != Dim::Any => {
                    unfit.with_more(OPEN_PARTS)
                }
                [batch @ .., Dim::Fixed(_), Dim::Fixed(_), _] if batch.contains(&Dim::Any) => {
                    unfit.with_more(OPEN_BATCH)
                }
                _ => unfit,
            }
        }
        ImageError::TooLarge => refused(expected, format_args!("Image parsing failed - {error}")),
    };
    refused.with_source(error)
}

#[cfg(test)]
mod tests;
