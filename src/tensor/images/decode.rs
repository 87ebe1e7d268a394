//! From the bytes of a JPEG or PNG file to samples.

use std::io::Cursor;

use image::{ColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::PixelLimit;

/// A decoded picture: rows of pixels with their channels side by side.
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

/// Why bytes are not decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// There are none.
    #[error("found no bytes")]
    Empty,
    /// The first bytes are those of another format.
    #[error("found neither JPEG nor PNG")]
    Format,
    /// The file is broken, or has something that is not read.
    #[error(transparent)]
    Broken(#[from] image::ImageError),
    /// The picture is too large.
    #[error("found {width}x{height} pixels, at most {most} are decoded; see --max_image_pixels")]
    Pixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The limit.
        most: u64,
    },
    /// A JPEG goes over the picture too often.
    #[error("found more than {MOST_SCANS} scans")]
    Scans,
}

/// The most times that a JPEG may go over the picture. A scan can be a few bytes and cost time for
/// every pixel; programs that write JPEG make about ten.
const MOST_SCANS: usize = 500;

/// Decodes a picture. Alpha is left out unless it is wanted.
pub(super) fn decode(
    encoded: &[u8],
    limit: PixelLimit,
    keeps_alpha: bool,
) -> Result<Decoded, DecodeError> {
    if encoded.is_empty() {
        return Err(DecodeError::Empty);
    }
    let Ok(format @ (ImageFormat::Jpeg | ImageFormat::Png)) = image::guess_format(encoded) else {
        return Err(DecodeError::Format);
    };
    if format == ImageFormat::Jpeg {
        let marks = encoded.windows(2).filter(|pair| *pair == [0xff, 0xda]);
        if marks.count() > MOST_SCANS {
            return Err(DecodeError::Scans);
        }
    }
    let mut limits = Limits::default();
    // The widest pixel has 8 bytes; decoders need about as much again while they work.
    limits.max_alloc = Some(limit.0.saturating_mul(16).max(1 << 20));
    let mut reader = ImageReader::with_format(Cursor::new(encoded), format);
    reader.limits(limits);
    let decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > limit.0 {
        return Err(DecodeError::Pixels {
            width,
            height,
            most: limit.0,
        });
    }
    let color = decoder.color_type();
    let length = usize::try_from(decoder.total_bytes()).map_err(|_| DecodeError::Format)?;
    let mut bytes = vec![0; length];
    decoder.read_image(&mut bytes)?;

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
        width: width as usize,
        height: height as usize,
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
