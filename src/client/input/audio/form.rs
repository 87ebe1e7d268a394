//! Numbers that samples are.

use super::{FULL_SCALE, FileKind, SoundError};

/// Formats of samples in the header of a WAV file: whole numbers, and those of floating point.
const WHOLE: u16 = 1;
const FLOAT: u16 = 3;

/// Bytes at the end of samples without a header that are no whole sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRest {
    /// Number of bytes.
    pub bytes: usize,
    /// Number of bytes of a sample.
    pub sample: usize,
}

/// Number that a sample is in a stream, little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleForm {
    /// Unsigned integer of 8 bits; 128 is silence.
    U8,
    /// Integer of 16 bits.
    I16,
    /// Integer of 24 bits.
    I24,
    /// Integer of 24 bits, and a byte without meaning.
    I24In4,
    /// Integer of 32 bits.
    I32,
    /// FP32.
    F32,
}

impl SampleForm {
    /// Returns the form of samples without a header.
    pub(in crate::client::input) const fn of_kind(kind: FileKind) -> Self {
        match kind {
            FileKind::Float32 => Self::F32,
            _ => Self::I16,
        }
    }

    /// Returns the form that a header has, of those that files may have as well.
    pub(super) fn of_header(format: u16, bits: u16, length: u16) -> Result<Self, SoundError> {
        Ok(match (format, bits, length) {
            (WHOLE, 8, 1) => Self::U8,
            (WHOLE, 16, 2) => Self::I16,
            (WHOLE, 24, 3) => Self::I24,
            (WHOLE, 24, 4) => Self::I24In4,
            (WHOLE, 32, 4) => Self::I32,
            (FLOAT, 32, 4) => Self::F32,
            _ => {
                let name = match format {
                    2 | 0x11 => "ADPCM, ",
                    6 => "A-law, ",
                    7 => "\u{b5}-law, ",
                    0x50 | 0x55 => "MP3, ",
                    0xFFFE => "a form without a number of its own, ",
                    _ => "",
                };
                let found = format!("{name}{bits} bits in format {format}");
                return Err(SoundError::Form { found });
            }
        })
    }

    /// Returns the number of bytes of a sample.
    pub const fn length(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I16 => 2,
            Self::I24 => 3,
            Self::I24In4 | Self::I32 | Self::F32 => 4,
        }
    }

    /// Returns what is left of so many bytes behind the last whole sample; `None` if nothing is.
    pub(super) fn rest(self, bytes: u64) -> Option<SampleRest> {
        let sample = self.length();
        #[expect(clippy::cast_possible_truncation, reason = "less than a sample")]
        let bytes = (bytes % sample as u64) as usize;
        (bytes > 0).then_some(SampleRest { bytes, sample })
    }

    /// Reads samples. Bytes at the end that are none are left out.
    pub(in crate::client::input) fn read(self, bytes: &[u8]) -> Vec<f32> {
        let high = |it: &[u8]| i32::from_le_bytes([0, it[0], it[1], it[2]]) >> 8;
        #[expect(
            clippy::cast_precision_loss,
            reason = "samples of more bits than that are rounded"
        )]
        let sample = |it: &[u8]| match self {
            Self::U8 => (f32::from(it[0]) - 128.0) / 128.0,
            Self::I16 => f32::from(i16::from_le_bytes([it[0], it[1]])) / FULL_SCALE,
            Self::I24 | Self::I24In4 => high(it) as f32 / 2_f32.powi(23),
            Self::I32 => i32::from_le_bytes([it[0], it[1], it[2], it[3]]) as f32 / 2_f32.powi(31),
            Self::F32 => f32::from_le_bytes([it[0], it[1], it[2], it[3]]),
        };
        bytes.chunks_exact(self.length()).map(sample).collect()
    }
}
