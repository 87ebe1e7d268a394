//! Decoding of the bytes of a JPEG or PNG file to samples.

use std::{borrow::Cow, io::Cursor};

use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::PixelLimit;

/// A decoded image: rows of pixels with their channels side by side.
pub(super) struct Decoded {
    pub(super) width: usize,
    pub(super) height: usize,
    /// 1 (grey), 3 (blue, green, red) or 4 (the same and alpha).
    pub(super) channels: usize,
    samples: Samples,
}

impl Decoded {
    /// Returns a row with each sample converted.
    pub(super) fn row<T>(&self, row: usize, convert: impl Fn(u16) -> T) -> Vec<T> {
        let length = self.width * self.channels;
        let range = row * length..(row + 1) * length;
        match &self.samples {
            Samples::Bytes(bytes) => {
                let bytes = bytes[range].iter();
                bytes.map(|&byte| convert(byte.into())).collect()
            }
            Samples::Words(words) => words[range].iter().map(|&word| convert(word)).collect(),
        }
    }
}

/// The samples, as wide as the file has them.
enum Samples {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

/// Error of decoding an image.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No image.
    #[error("found no bytes")]
    Empty,
    /// The first bytes are those of another format.
    #[error("found neither JPEG nor PNG")]
    Format,
    /// The file is broken, or has something that is not read.
    #[error(transparent)]
    Broken(#[from] image::ImageError),
    /// The image is too large.
    #[error("found {width}x{height} pixels, at most {most} are decoded; see --max-image-pixels")]
    Pixels {
        /// Width of the image.
        width: u32,
        /// Height of the image.
        height: u32,
        /// The limit.
        most: u64,
    },
    /// The end is missing.
    #[error("found no end of the image: it is cut short")]
    Truncated,
    /// A JPEG goes over the image too often.
    #[error("found more than {MAX_SCANS} scans")]
    Scans,
}

/// Maximum number of times that a JPEG may go over the image. A scan can be a few bytes and cost time for
/// every pixel; programs that write JPEG make about ten.
const MAX_SCANS: usize = 500;

/// The memory of an image while it is decoded, over that of its samples: JPEG keeps the coefficients of
/// all scans, in twice the bytes of the samples, and PNG a copy of wide samples.
const WORKING: usize = 3;

/// Signature of PNG files (PNG specification, 5.2).
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Leaves out what is no part of the image: chunks of a PNG that say something of it may be packed, and
/// expand to any size.
///
/// # Errors
///
/// Fails if it is neither JPEG nor PNG, or a PNG that is too large or cut short.
pub(super) fn plain(encoded: &[u8], limit: PixelLimit) -> Result<Cow<'_, [u8]>, DecodeError> {
    if encoded.is_empty() {
        return Err(DecodeError::Empty);
    }
    match image::guess_format(encoded) {
        Ok(ImageFormat::Jpeg) => {
            check_scans(encoded)?;
            Ok(encoded.into())
        }
        Ok(ImageFormat::Png) => plain_png(encoded, limit),
        _ => Err(DecodeError::Format),
    }
}

/// Returns the places where a JPEG begins a scan (ITU-T T.81, B.1.1.3), and some that look like it.
fn scans(encoded: &[u8]) -> impl Iterator<Item = usize> {
    let pairs = encoded.windows(2).enumerate();
    pairs.filter_map(|(place, pair)| (pair == [0xff, 0xda]).then_some(place))
}

fn check_scans(encoded: &[u8]) -> Result<(), DecodeError> {
    match scans(encoded).count() {
        count if count > MAX_SCANS => Err(DecodeError::Scans),
        _ => Ok(()),
    }
}

/// Checks that the last scan of a JPEG is followed by the end of the image: decoders fill up what is missing
/// with grey. What has no scan, such as any other format, is left to its decoder.
///
/// # Errors
///
/// Fails if the end is missing.
fn check_end(encoded: &[u8]) -> Result<(), DecodeError> {
    // Without a scan it is broken in another way, of which the decoder says more.
    let is_whole = scans(encoded)
        .last()
        .is_none_or(|last| encoded[last..].windows(2).any(|pair| pair == [0xff, 0xd9]));
    is_whole.then_some(()).ok_or(DecodeError::Truncated)
}

/// Returns a PNG with the chunks that make up the image: those that every reader has to know (their names
/// begin with a capital letter), and which color is transparent (PNG specification, 5.3 and 11.3).
fn plain_png(encoded: &[u8], limit: PixelLimit) -> Result<Cow<'_, [u8]>, DecodeError> {
    let mut rest = encoded.strip_prefix(PNG).ok_or(DecodeError::Format)?;
    // The header is the first chunk: length, name, width, height.
    if let Some([_, _, _, _, b'I', b'H', b'D', b'R', sides @ ..]) = rest.first_chunk::<16>() {
        let [a, b, c, d, e, f, g, h] = *sides;
        check_pixels(
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([e, f, g, h]),
            limit,
        )?;
    }
    let mut kept = Vec::new();
    loop {
        let Some((length, after)) = rest.split_first_chunk::<4>() else {
            return Err(DecodeError::Truncated);
        };
        // Length, name, contents, checksum.
        let length = u32::from_be_bytes(*length) as usize;
        let chunk = length.checked_add(12).and_then(|size| rest.get(..size));
        let (Some(chunk), Some(name)) = (chunk, after.first_chunk::<4>()) else {
            return Err(DecodeError::Truncated);
        };
        if name[0].is_ascii_uppercase() || name == b"tRNS" {
            kept.push(chunk);
        }
        rest = &rest[chunk.len()..];
        if name == b"IEND" {
            break;
        }
    }
    let length: usize = kept.iter().map(|chunk| chunk.len()).sum();
    if PNG.len() + length + rest.len() == encoded.len() {
        return Ok(encoded.into());
    }
    let mut plain = Vec::with_capacity(PNG.len() + length);
    plain.extend_from_slice(PNG);
    for chunk in kept {
        plain.extend_from_slice(chunk);
    }
    Ok(plain.into())
}

fn check_pixels(width: u32, height: u32, limit: PixelLimit) -> Result<(), DecodeError> {
    if u64::from(width) * u64::from(height) > limit.0 {
        return Err(DecodeError::Pixels {
            width,
            height,
            most: limit.0,
        });
    }
    Ok(())
}

/// Decodes an image with all that the file has of it: its colors, their bits, and its transparency.
///
/// # Errors
///
/// Fails if it is broken, too large, or of a format that is not read.
pub fn decode(encoded: &[u8], limit: PixelLimit) -> Result<DynamicImage, DecodeError> {
    let encoded = match plain(encoded, limit) {
        // Its decoder says which other one it is.
        Err(DecodeError::Format) => encoded.into(),
        plain => plain?,
    };
    let header = Header::read(&encoded, limit)?;
    header.check_end()?;
    Ok(DynamicImage::from_decoder(header.decoder)?)
}

/// An image of which the header is read.
pub(super) struct Header<'a> {
    decoder: Box<dyn ImageDecoder + 'a>,
    encoded: &'a [u8],
    format: ImageFormat,
    bytes: usize,
}

impl<'a> Header<'a> {
    /// Reads what kind of image it is, and how large.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be read, or is too large.
    pub(super) fn read(encoded: &'a [u8], limit: PixelLimit) -> Result<Self, DecodeError> {
        let format = image::guess_format(encoded).map_err(|_| DecodeError::Format)?;
        let mut limits = Limits::default();
        // The widest pixel has 8 bytes; decoders need about as much again while they work.
        limits.max_alloc = Some(limit.0.saturating_mul(16).max(1 << 20));
        let mut reader = ImageReader::with_format(Cursor::new(encoded), format);
        reader.limits(limits);
        let decoder = reader.into_decoder()?;
        let (width, height) = decoder.dimensions();
        check_pixels(width, height, limit)?;
        let bytes = usize::try_from(decoder.total_bytes()).map_err(|_| DecodeError::Format)?;
        Ok(Self {
            decoder: Box::new(decoder),
            encoded,
            format,
            bytes,
        })
    }

    /// Returns how many bytes decoding it takes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.saturating_mul(WORKING)
    }

    /// Checks that the end of a JPEG is there.
    fn check_end(&self) -> Result<(), DecodeError> {
        match self.format {
            ImageFormat::Jpeg => check_end(self.encoded),
            _ => Ok(()),
        }
    }

    /// Decodes the image. Alpha is left out unless it is wanted.
    ///
    /// # Errors
    ///
    /// Fails if the image is broken, or of samples that are not read.
    pub(super) fn decode(self, keeps_alpha: bool) -> Result<Decoded, DecodeError> {
        self.check_end()?;
        let (width, height) = self.decoder.dimensions();
        let color = self.decoder.color_type();
        let mut bytes = vec![0; self.bytes];
        self.decoder.read_image(&mut bytes)?;
        samples(bytes, color, [width as usize, height as usize], keeps_alpha)
    }
}

/// Puts the samples of an image in order.
fn samples(
    bytes: Vec<u8>,
    color: ColorType,
    [width, height]: [usize; 2],
    keeps_alpha: bool,
) -> Result<Decoded, DecodeError> {
    let found = usize::from(color.channel_count());
    let channels = match (found, keeps_alpha) {
        (1 | 2, _) => 1,
        (4, true) => 4,
        _ => 3,
    };
    let samples = match color {
        ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8 => {
            Samples::Bytes(reorder(bytes, found, channels))
        }
        ColorType::L16 | ColorType::La16 | ColorType::Rgb16 | ColorType::Rgba16 => {
            // The decoder writes them as the machine has them.
            let words = bytes
                .chunks_exact(2)
                .map(|word| u16::from_ne_bytes([word[0], word[1]]))
                .collect();
            Samples::Words(reorder(words, found, channels))
        }
        _ => return Err(DecodeError::Format),
    };
    Ok(Decoded {
        width,
        height,
        channels,
        samples,
    })
}

/// Leaves out the channels beyond those that are kept, and puts blue first.
fn reorder<T: Copy>(mut samples: Vec<T>, found: usize, kept: usize) -> Vec<T> {
    if found != kept {
        let pixels = samples.len() / found;
        for pixel in 0..pixels {
            samples.copy_within(pixel * found..pixel * found + kept, pixel * kept);
        }
        samples.truncate(pixels * kept);
    }
    if kept >= 3 {
        for pixel in samples.chunks_exact_mut(kept) {
            pixel.swap(0, 2);
        }
    }
    samples
}
