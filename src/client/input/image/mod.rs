//! PNG and JPEG images as the numbers that a vision model takes.

use std::{io::Cursor, str::FromStr};

use bytes::Bytes;
use image::{
    ColorType, DynamicImage, GrayImage, ImageDecoder, ImageReader, Luma, imageops::FilterType,
    metadata::Orientation,
};
use strum::{IntoStaticStr, VariantArray};

use super::{ValueProblem, content::EncodedImage};
use crate::tensor::{
    DataType, Dim, PartialShape, ShapeText, Tensor, TensorError,
    images::{DecodeError, MAX_BYTES, PixelLimit, decode},
    values::Packer,
};

/// Options for converting images to tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImageOptions {
    /// Order of the dimensions; taken from the model's shape if left out.
    pub layout: Option<ImageLayout>,
    /// Order of the dimensions if the model's shape does not determine it.
    pub usual_layout: Option<ImageLayout>,
    /// Subtracted from each value: one number, or one for each channel; empty for none.
    pub mean: Vec<f64>,
    /// Divisor of each value after that: one number, or one for each channel.
    pub scale: Vec<f64>,
    /// Puts blue first among the channels, not red; means and scales follow that order.
    pub is_bgr: bool,
}

/// Order of the dimensions of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "UPPERCASE")]
pub enum ImageLayout {
    /// Batch, channels, height, width.
    Nchw,
    /// Batch, height, width, channels.
    Nhwc,
    /// Channels, height, width.
    Chw,
    /// Height, width, channels.
    Hwc,
}

/// Part of an image that no tensor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageLoss {
    /// Lower half of channels of 16 bits.
    Bits,
    /// Transparency.
    Transparency,
}

impl ImageLoss {
    /// Returns what a server that decodes an image changes of it or loses; nothing of what is no image.
    pub(super) fn all_in(file: &Bytes) -> Vec<Self> {
        let reader = ImageReader::new(Cursor::new(file)).with_guessed_format();
        let decoder = reader.ok().and_then(|reader| reader.into_decoder().ok());
        let color = decoder.map(|decoder| decoder.color_type());
        // Only a look at the pixels shows whether there is transparency.
        match color {
            None | Some(ColorType::L8 | ColorType::Rgb8) => Vec::new(),
            Some(_) => match decode(file, PixelLimit::default()) {
                Ok(image) => Self::all_of(&image).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// Returns what is lost of an image.
    fn all_of(image: &DynamicImage) -> impl Iterator<Item = Self> {
        let is_wide = matches!(
            image.color(),
            ColorType::L16 | ColorType::La16 | ColorType::Rgb16 | ColorType::Rgba16
        );
        let is_clear = match image {
            DynamicImage::ImageLumaA8(image) => image.pixels().any(|it| it[1] < u8::MAX),
            DynamicImage::ImageRgba8(image) => image.pixels().any(|it| it[3] < u8::MAX),
            DynamicImage::ImageLumaA16(image) => image.pixels().any(|it| it[1] < u16::MAX),
            DynamicImage::ImageRgba16(image) => image.pixels().any(|it| it[3] < u16::MAX),
            _ => false,
        };
        let all = [(is_wide, Self::Bits), (is_clear, Self::Transparency)];
        all.into_iter()
            .filter_map(|(is_lost, loss)| is_lost.then_some(loss))
    }
}

/// Losses of images, with the names of their files.
pub(super) type ImageLosses = Vec<(String, ImageLoss)>;

/// Scale below which one is no divisor of values up to 255, but a factor.
const LEAST_SCALE: f64 = 0.01;

impl ImageOptions {
    /// Returns whether anything is to be done to the pixels that was asked for.
    pub(super) fn is_any_given(&self) -> bool {
        let is_prepared = !self.mean.is_empty() || !self.scale.is_empty();
        is_prepared || self.is_bgr || self.layout.is_some()
    }

    /// Returns whether scales look like factors, as 1/255, where values are divided by them.
    pub(super) fn is_factor(&self) -> bool {
        let is_factor = |scale: &f64| *scale > 0.0 && *scale < LEAST_SCALE;
        !self.scale.is_empty() && self.scale.iter().all(is_factor)
    }

    /// Returns whether means and scales look like those of values from 0 to 1, where pixels are 0 to 255.
    pub(super) fn is_of_unit(&self) -> bool {
        let is_given = !self.mean.is_empty() && !self.scale.is_empty();
        let is_small = |scale: &f64| (0.0..1.0).contains(scale);
        is_given && self.mean.iter().all(|mean| *mean <= 1.0) && self.scale.iter().all(is_small)
    }

    /// Returns whether values are divided, so that they have fractions.
    pub(super) fn scales(&self) -> bool {
        self.scale.iter().any(|scale| *scale != 1.0)
    }

    /// Makes the tensor: decodes, turns as the camera was held, resizes to the lengths that the
    /// shape fixes, and lays out.
    ///
    /// Values are 0 to 255 less the mean, divided by the scale. A type of whole numbers takes the
    /// nearest that it has. What is lost by that is added to the losses.
    pub(super) fn tensor(
        &self,
        file: &EncodedImage,
        dtype: DataType,
        wanted: Option<&PartialShape>,
        losses: &mut ImageLosses,
    ) -> Result<Tensor, ValueProblem> {
        match wanted.and_then(part) {
            Some(part) => {
                let image = self.one_of(1, file, dtype, Some(&part), losses)?;
                Ok(stacked(dtype, &[image])?)
            }
            None => self.one_of(1, file, dtype, wanted, losses),
        }
    }

    /// Makes the tensor of one of so many images.
    fn one_of(
        &self,
        count: usize,
        file: &EncodedImage,
        dtype: DataType,
        wanted: Option<&PartialShape>,
        losses: &mut ImageLosses,
    ) -> Result<Tensor, ValueProblem> {
        let layout = self.layout(wanted)?;
        let length = |axis: char| match wanted?.0[layout.name().find(axis)?] {
            Dim::Fixed(length) => Some(length),
            Dim::Range(..) | Dim::Any => None,
        };
        let channels = length('C').unwrap_or(3);
        if let (false, Some(shape)) = (matches!(channels, 1 | 3), wanted) {
            let text = format!(
                "layout {layout} finds {channels} channels in shape {shape}, expected 1 or 3"
            );
            return Err(ValueProblem::Layout(text));
        }
        let means = per_channel(&self.mean, "mean", 0.0, channels)?;
        let scales = per_channel(&self.scale, "scale", 1.0, channels)?;
        let is_divisor = |scale: &f64| scale.is_finite() && *scale != 0.0;
        let unfit = |found: &f64, what: &str, wanted: &str| {
            let text = format!("found {found} as a {what}, expected a number to {wanted}");
            Err(ValueProblem::Misfit(text))
        };
        if let Some(scale) = scales.iter().find(|scale| !is_divisor(scale)) {
            return unfit(scale, "scale", "divide by");
        }
        if let Some(mean) = means.iter().find(|mean| !mean.is_finite()) {
            return unfit(mean, "mean", "subtract");
        }
        // Pixels stay as they are in the file, whatever EXIF says, as with a server that decodes it.
        let image = decode(&file.bytes, PixelLimit::default());
        let image = image.map_err(|source| undecoded(file, source))?;
        let height = length('H').unwrap_or(image.height() as usize);
        let width = length('W').unwrap_or(image.width() as usize);
        let shape = layout.shape(channels, height, width);
        check_bytes(count, &shape, dtype)?;
        let lost = ImageLoss::all_of(&image);
        losses.extend(lost.map(|loss| (file.name.clone(), loss)));
        let pixels = pixels(image, channels, height, width)?;

        let mut packer = Packer::new(dtype, pixels.len());
        let mut push = |row: usize, column: usize, channel: usize| {
            let source = match self.is_bgr {
                true => channels - 1 - channel,
                false => channel,
            };
            let pixel = pixels[(row * width + column) * channels + source];
            push_value(
                &mut packer,
                (f64::from(pixel) - means[channel]) / scales[channel],
            )
        };
        if layout.is_planar() {
            for channel in 0..channels {
                for row in 0..height {
                    (0..width).try_for_each(|column| push(row, column, channel))?;
                }
            }
        } else {
            for row in 0..height {
                for column in 0..width {
                    (0..channels).try_for_each(|channel| push(row, column, channel))?;
                }
            }
        }
        Ok(Tensor::new(dtype, shape, packer.finish())?)
    }

    /// Makes the tensor of several images, one behind the other along the batch, or along the dimension that a
    /// demultiplexer splits.
    pub(super) fn batch(
        &self,
        files: &[EncodedImage],
        dtype: DataType,
        wanted: Option<&PartialShape>,
        losses: &mut ImageLosses,
    ) -> Result<Tensor, ValueProblem> {
        if let Some(part) = wanted.and_then(part) {
            let images = self.tensors(files, dtype, Some(&part), losses)?;
            return Ok(stacked(dtype, &images)?);
        }
        let layout = self.layout(wanted)?;
        let has_batch = layout.name().starts_with('N');
        if let (false, Some(shape)) = (has_batch, wanted) {
            let count = files.len();
            let text = format!("found {count} images, shape {shape} takes one");
            return Err(ValueProblem::Batch(text));
        }
        let images = self.tensors(files, dtype, wanted, losses)?;
        let shape = images.first().map(|image| image.shape().to_vec());
        let mut shape = shape.unwrap_or_default();
        if let Some(place) = images.iter().position(|image| image.shape() != shape) {
            let (one, other) = (ShapeText(&shape), ShapeText(images[place].shape()));
            let (first, file) = (&files[0].name, &files[place].name);
            let text = format!(
                "found images of shapes {one} ({first}) and {other} ({file}), expected one size"
            );
            return Err(ValueProblem::Batch(text));
        }
        match has_batch {
            true => shape[0] = images.len(),
            false => shape.insert(0, images.len()),
        }
        let parts: Vec<&[u8]> = images.iter().map(|image| &**image.data()).collect();
        Ok(Tensor::new(dtype, shape, parts.concat().into())?)
    }

    /// Makes a tensor of each image.
    fn tensors(
        &self,
        files: &[EncodedImage],
        dtype: DataType,
        wanted: Option<&PartialShape>,
        losses: &mut ImageLosses,
    ) -> Result<Vec<Tensor>, ValueProblem> {
        let mut images = Vec::new();
        for (file, number) in files.iter().zip(1..) {
            let image = self.one_of(files.len(), file, dtype, wanted, losses);
            let image = image.map_err(|problem| match problem {
                ValueProblem::Image { file, source, .. } => ValueProblem::Image {
                    file,
                    place: Some(Box::new((number, files.len()))),
                    source,
                },
                problem => problem,
            })?;
            images.push(image);
        }
        Ok(images)
    }

    /// Returns the layout that a shape shows, or the usual one if that has as many dimensions.
    fn layout_of(&self, shape: &PartialShape) -> Option<ImageLayout> {
        let usual = self.usual_layout;
        let usual = usual.filter(|layout| layout.name().len() == shape.0.len());
        ImageLayout::of_shape(shape).or(usual)
    }

    fn layout(&self, wanted: Option<&PartialShape>) -> Result<ImageLayout, ValueProblem> {
        match (self.layout, wanted) {
            (Some(layout), Some(shape)) if layout.name().len() != shape.0.len() => Err(
                ValueProblem::Layout(format!("layout {layout} does not fit shape {shape}")),
            ),
            (Some(layout), _) => Ok(layout),
            (None, Some(shape)) if !matches!(shape.0.len(), 3 | 4) => {
                Err(ValueProblem::NotOfImages(shape.clone()))
            }
            (None, Some(shape)) => self.layout_of(shape).ok_or_else(|| {
                let text = format!("cannot tell the layout of an image from shape {shape}");
                ValueProblem::Layout(text)
            }),
            // What images are elsewhere.
            (None, None) => Ok(ImageLayout::Hwc),
        }
    }
}

impl ImageLayout {
    /// Returns the layout of a shape that has 1 or 3 at one of the two places of channels.
    pub fn of_shape(shape: &PartialShape) -> Option<Self> {
        let is_channels = |dim: Dim| matches!(dim, Dim::Fixed(1 | 3));
        let (first, last, planar, interleaved) = match shape.0.as_slice() {
            [_, first, _, last] => (*first, *last, Self::Nchw, Self::Nhwc),
            [first, _, last] => (*first, *last, Self::Chw, Self::Hwc),
            _ => return None,
        };
        match (is_channels(first), is_channels(last)) {
            (true, false) => Some(planar),
            (false, true) => Some(interleaved),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        self.into()
    }

    fn is_planar(self) -> bool {
        self.name().ends_with('W')
    }

    fn shape(self, channels: usize, height: usize, width: usize) -> Vec<usize> {
        let length = |axis| match axis {
            'C' => channels,
            'H' => height,
            'W' => width,
            _ => 1,
        };
        self.name().chars().map(length).collect()
    }
}

impl FromStr for ImageLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut layouts = Self::VARIANTS.iter().copied();
        layouts
            .find(|layout| layout.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("found `{text}`, expected NCHW, NHWC, CHW or HWC"))
    }
}

/// Returns the shape of one part of an input that a demultiplexer splits: images with their batch have four dimensions.
fn part(wanted: &PartialShape) -> Option<PartialShape> {
    let (_, part) = wanted.0.split_first().filter(|(_, part)| part.len() == 4)?;
    Some(PartialShape(part.to_vec()))
}

/// Puts tensors of one shape behind each other along a new first dimension.
fn stacked(dtype: DataType, tensors: &[Tensor]) -> Result<Tensor, TensorError> {
    let shape = tensors.first().map_or(&[][..], Tensor::shape);
    let shape = [&[tensors.len()], shape].concat();
    let parts: Vec<&[u8]> = tensors.iter().map(|tensor| &**tensor.data()).collect();
    Tensor::new(dtype, shape, parts.concat().into())
}

/// Makes the error of an image that is not decoded.
fn undecoded(file: &EncodedImage, source: DecodeError) -> ValueProblem {
    let file = file.name.clone();
    match source {
        DecodeError::Pixels {
            width,
            height,
            most,
        } => ValueProblem::Pixels {
            file,
            width,
            height,
            most,
        },
        source => ValueProblem::Image {
            file,
            place: None,
            source,
        },
    }
}

/// Refuses images whose tensor is larger than that of a server may be.
fn check_bytes(count: usize, shape: &[usize], dtype: DataType) -> Result<(), ValueProblem> {
    let elements = shape.iter().copied().chain(dtype.size());
    let bytes = elements.fold(count, usize::saturating_mul);
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let (images, verb) = match count {
        1 => ("an image".to_owned(), "needs"),
        count => (format!("{count} images"), "need"),
    };
    Err(ValueProblem::Batch(format!(
        "{images} of shape {} {verb} {} MiB, expected {} MiB at most",
        ShapeText(shape),
        bytes >> 20,
        MAX_BYTES >> 20
    )))
}

/// Returns whether the EXIF data of an image say that its pixels are to be turned or mirrored.
pub(super) fn is_turned(file: &Bytes) -> bool {
    let reader = ImageReader::new(Cursor::new(file)).with_guessed_format();
    let decoder = reader.ok().and_then(|reader| reader.into_decoder().ok());
    let orientation = decoder.and_then(|mut decoder| decoder.orientation().ok());
    orientation.is_some_and(|orientation| orientation != Orientation::NoTransforms)
}

/// Returns the values row by row, the channels of a pixel side by side.
fn pixels(
    image: DynamicImage,
    channels: usize,
    height: usize,
    width: usize,
) -> Result<Vec<u8>, ValueProblem> {
    let image = if channels == 1 {
        DynamicImage::ImageLuma8(grey(image))
    } else {
        DynamicImage::ImageRgb8(image.into_rgb8())
    };
    let too_large = || {
        let shape = ShapeText(&[height, width]).to_string();
        TensorError::Overflow(shape)
    };
    let rows = u32::try_from(height).map_err(|_| too_large())?;
    let columns = u32::try_from(width).map_err(|_| too_large())?;
    if (image.height(), image.width()) == (rows, columns) {
        return Ok(image.into_bytes());
    }
    let resized = image.resize_exact(columns, rows, FilterType::Triangle);
    Ok(resized.into_bytes())
}

/// Returns the grey of each pixel: that of colors as OpenCV and Pillow weigh them, 0.299 of red, 0.587 of green, and
/// 0.114 of blue.
fn grey(image: DynamicImage) -> GrayImage {
    if !image.color().has_color() {
        return image.into_luma8();
    }
    let colors = image.into_rgb8();
    let weighed = |x, y| {
        let [red, green, blue] = colors.get_pixel(x, y).0.map(u32::from);
        let value = (299 * red + 587 * green + 114 * blue + 500) / 1000;
        Luma([u8::try_from(value).unwrap_or(u8::MAX)])
    };
    GrayImage::from_fn(colors.width(), colors.height(), weighed)
}

fn per_channel(
    given: &[f64],
    what: &'static str,
    default: f64,
    channels: usize,
) -> Result<Vec<f64>, ValueProblem> {
    match given {
        [] => Ok(vec![default; channels]),
        [one] => Ok(vec![*one; channels]),
        several if several.len() == channels => Ok(several.to_vec()),
        several => {
            let given = several.len();
            let text = format!("found {given} values of {what} for {channels} channels");
            Err(ValueProblem::Misfit(text))
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounded, and clamped to the type"
)]
fn push_value(packer: &mut Packer, value: f64) -> Result<(), ValueProblem> {
    if packer.dtype().is_float() {
        packer.push_f64(value)?;
        return Ok(());
    }
    let (least, most) = match packer.dtype() {
        DataType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DataType::U8 => (0, i64::from(u8::MAX)),
        DataType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::U16 => (0, i64::from(u16::MAX)),
        DataType::U32 => (0, i64::from(u32::MAX)),
        DataType::U64 => (0, i64::MAX),
        DataType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    packer.push_i64((value.round() as i64).clamp(least, most))?;
    Ok(())
}

#[cfg(test)]
mod tests;
