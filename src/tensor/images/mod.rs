//! Encoded images (JPEG and PNG) as the numbers of an image tensor.
//!
//! What comes out is what clients of the C++ server get, which decodes and resizes with OpenCV:
//! rows of pixels, their channels side by side in the order blue, green, red; samples converted to
//! the tensor's type without scaling, clamped to its range; the EXIF orientation is not applied.
//! How large an image is, is known and validated before it is decoded.

mod decode;
mod resize;

use bytes::Bytes;
use half::f16;

use self::{decode::Decoded, resize::each_row};
use super::{
    dtype::DataType,
    layout::Layout,
    shape::{Dim, PartialShape, ShapeText},
    strings::Strings,
};
use crate::{budget::Budget, error::Error};

pub use self::decode::{DecodeError, decode};

/// Maximum size of one tensor of images in bytes: 1 GiB, which is also the default for messages.
pub const MAX_BYTES: usize = 1 << 30;

/// Maximum number of pixels that an encoded image may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PixelLimit(pub u64);

impl Default for PixelLimit {
    /// 64 Mi pixels, as many as 8192 by 8192.
    fn default() -> Self {
        Self(1 << 26)
    }
}

/// The tensor that images are to fill: four axes, the last three of them height, width, channels.
#[derive(Debug, Clone, Copy)]
pub struct ImageTensor<'a> {
    /// The element type.
    pub dtype: DataType,
    /// The shape that the model allows.
    pub shape: &'a PartialShape,
    /// Meaning of each axis.
    pub layout: &'a Layout,
}

/// Error of filling a tensor with images. `index` is the place of the image in the batch.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The layout has other axes where images have theirs.
    #[error("the layout is {0}")]
    Layout(Layout),
    /// Samples are not converted to this type.
    #[error("found a tensor of {0}")]
    Type(DataType),
    /// The bytes are no image, or one that is too large.
    #[error("image {index} cannot be decoded")]
    Decode {
        /// Index of the image.
        index: usize,
        /// Cause.
        #[source]
        source: DecodeError,
    },
    /// The tensor has another number of channels.
    #[error("image {index} has {actual} channels, the tensor {expected}")]
    Channels {
        /// Index of the image.
        index: usize,
        /// The channels of the tensor, or of the first image.
        expected: Dim,
        /// The channels of the image.
        actual: usize,
    },
    /// The images differ in size, and nothing says what to resize them to.
    #[error("image {index} has another size than the first")]
    Sizes {
        /// Index of the image.
        index: usize,
    },
    /// The tensor allows another size only, and the images are not to be resized.
    #[error("the images have shape {0}")]
    Shape(String),
    /// The images need more memory than is left for requests.
    #[error(transparent)]
    Budget(#[from] Error),
    /// The images need too much memory.
    #[error("the images need more than {MAX_BYTES} bytes")]
    TooLarge,
}

/// Method of converting samples.
#[derive(Clone, Copy)]
enum Route {
    /// Samples as they are, in whole numbers.
    Bytes,
    /// Single precision, clamped to a largest value.
    Single(f32),
    /// Double precision.
    Double,
}

impl ImageTensor<'_> {
    /// Validates whether the tensor can take images at all.
    ///
    /// # Errors
    ///
    /// Fails if its layout or type is none for images.
    pub fn check(&self) -> Result<(), ImageError> {
        if !takes_images(self.layout, self.shape.0.len()) {
            return Err(ImageError::Layout(self.layout.clone()));
        }
        self.route().map(drop)
    }

    fn route(&self) -> Result<Route, ImageError> {
        Ok(match self.dtype {
            DataType::U8 => Route::Bytes,
            DataType::I8 => Route::Single(i8::MAX.into()),
            DataType::I16 => Route::Single(i16::MAX.into()),
            DataType::U16 | DataType::F16 | DataType::F32 => Route::Single(u16::MAX.into()),
            DataType::I32 | DataType::F64 => Route::Double,
            dtype => return Err(ImageError::Type(dtype)),
        })
    }

    /// Returns whether images of another size are resized: the shape says to what, and nothing says
    /// that the axes are others.
    fn resizes(&self) -> bool {
        !self.shape.0.contains(&Dim::Any)
            && match self.layout.as_str() {
                "NHWC" | "N?HWC" | "N..." | "..." => true,
                // Of five axes the second is that of parts; of four it is the height, of which this says that it is none.
                "N?..." => self.shape.0.len() == 5,
                _ => false,
            }
    }

    /// Decodes the images and fills the tensor; takes time and memory in proportion to their
    /// pixels, and charges the memory before it takes it.
    ///
    /// # Errors
    ///
    /// Fails with the first image that does not fit.
    pub fn fill(
        &self,
        images: &Strings,
        limit: PixelLimit,
        budget: &Budget,
    ) -> Result<(Vec<usize>, Bytes), ImageError> {
        self.check()?;
        let route = self.route()?;
        let &[.., rows, columns, channels] = self.shape.0.as_slice() else {
            return Err(ImageError::Layout(self.layout.clone()));
        };
        let resizes = self.resizes();
        let keeps_alpha = channels.allows(4) && !channels.allows(3);
        // Size and channels of the first image, which the later ones of a batch must have.
        let mut first: Option<([usize; 2], usize)> = None;
        let mut target = [0; 3];
        let mut data = Vec::new();
        let mut charge = budget.empty();
        for (index, encoded) in images.iter().enumerate() {
            let broken = |source| ImageError::Decode { index, source };
            // It may be copied.
            let _copy = budget.charge(encoded.len())?;
            let encoded = decode::plain(encoded, limit).map_err(broken)?;
            let image = decode::Header::read(&encoded, limit).map_err(broken)?;
            // Known before it is decoded, and charged while it is.
            let _decoding = budget.charge(image.memory())?;
            let image = image.decode(keeps_alpha).map_err(broken)?;
            let size = [image.height, image.width];
            if !resizes && first.is_some_and(|(first, _)| first != size) {
                return Err(ImageError::Sizes { index });
            }
            let expected = match (channels, first) {
                (Dim::Any, Some((_, channels))) => Dim::Fixed(channels),
                _ => channels,
            };
            if !expected.allows(image.channels) {
                return Err(ImageError::Channels {
                    index,
                    expected,
                    actual: image.channels,
                });
            }
            if first.is_none() {
                target = [
                    nearest(rows, image.height),
                    nearest(columns, image.width),
                    image.channels,
                ];
                let total = total_bytes(self.dtype, images.count(), target)?;
                charge.add(total)?;
                data.reserve_exact(total);
                first = Some((size, image.channels));
            }
            if !resizes && size != target[..2] {
                let shape = self.tensor_shape(images.count(), [size[0], size[1], image.channels]);
                return Err(ImageError::Shape(ShapeText(&shape).to_string()));
            }
            self.append(&mut data, &image, [target[0], target[1]], route);
        }
        let shape = self.tensor_shape(images.count(), target);
        Ok((shape, charge.keep(data.into())))
    }

    fn tensor_shape(&self, count: usize, size: [usize; 3]) -> Vec<usize> {
        let mut shape = vec![1; self.shape.0.len()];
        shape[0] = count;
        let rest = shape.len() - size.len();
        shape[rest..].copy_from_slice(&size);
        shape
    }

    /// Converts, resizes and appends one image, row by row.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the samples are from 0 to the largest of the type"
    )]
    fn append(&self, data: &mut Vec<u8>, image: &Decoded, to: [usize; 2], route: Route) {
        let from = [image.height, image.width, image.channels];
        match route {
            Route::Bytes => {
                let clamp = |sample| u8::try_from(sample).unwrap_or(u8::MAX);
                let line = |row| image.row(row, clamp);
                each_row(from, to, line, |row| data.extend_from_slice(row));
            }
            Route::Single(most) => {
                let line = |row| image.row(row, |sample| f32::from(sample).min(most));
                each_row(from, to, line, |row| self.append_singles(data, row));
            }
            Route::Double => {
                let line = |row| image.row(row, f64::from);
                let is_whole = self.dtype == DataType::I32;
                each_row(from, to, line, |row| {
                    if is_whole {
                        put(data, row, |s| (s.round_ties_even() as i32).to_le_bytes());
                    } else {
                        put(data, row, f64::to_le_bytes);
                    }
                });
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the samples are from 0 to the largest of the type"
    )]
    fn append_singles(&self, data: &mut Vec<u8>, samples: &[f32]) {
        let whole = f32::round_ties_even;
        match self.dtype {
            DataType::F32 => put(data, samples, f32::to_le_bytes),
            DataType::F16 => put(data, samples, |s| {
                f16::from_f32(s.min(f16::MAX.to_f32())).to_le_bytes()
            }),
            DataType::I8 => put(data, samples, |s| (whole(s) as i8).to_le_bytes()),
            DataType::I16 => put(data, samples, |s| (whole(s) as i16).to_le_bytes()),
            _ => put(data, samples, |s| (whole(s) as u16).to_le_bytes()),
        }
    }
}

fn put<T: Copy, const N: usize>(data: &mut Vec<u8>, samples: &[T], bytes: impl Fn(T) -> [u8; N]) {
    for &sample in samples {
        data.extend_from_slice(&bytes(sample));
    }
}

/// Returns the allowed length that is nearest to a length.
fn nearest(allowed: Dim, length: usize) -> usize {
    match allowed {
        Dim::Fixed(fixed) => fixed,
        Dim::Range(low, high) => length.max(low).min(high),
        Dim::Any => length,
    }
}

fn total_bytes(dtype: DataType, count: usize, size: [usize; 3]) -> Result<usize, ImageError> {
    size.into_iter()
        .chain([dtype.size().unwrap_or(1)])
        .try_fold(count, usize::checked_mul)
        .filter(|&total| total <= MAX_BYTES)
        .ok_or(ImageError::TooLarge)
}

/// Returns whether a tensor of so many axes has, or may have, N first and H, W, C last.
fn takes_images(layout: &Layout, rank: usize) -> bool {
    if rank < 4 || !layout.fits(rank) {
        return false;
    }
    let places = [('N', 0), ('H', rank - 3), ('W', rank - 2), ('C', rank - 1)];
    let is_theirs = |axis| places.iter().any(|&(_, place)| place == axis);
    places
        .iter()
        .all(|&(letter, place)| layout.axis(letter, rank).is_none_or(|axis| axis == place))
        && layout.axis('D', rank).is_none_or(|axis| !is_theirs(axis))
}

#[cfg(test)]
mod tests;
