//! Sounds as the numbers that an audio model takes: WAV files, and raw samples as they come.

mod form;
mod refusal;
mod stream;

use std::{borrow::Cow, io::Cursor, sync::Arc};

use hound::{SampleFormat, WavReader};

use self::stream::is_no_chunk;
use super::{FileKind, ValueProblem, target::Target};
use crate::tensor::{DataType, PartialShape, Tensor, elements, values::Packer};

pub(super) use self::refusal::{Beginning, RIFF};
pub use self::{
    form::{SampleForm, SampleRest},
    refusal::SoundError,
    stream::{SoundForm, SoundStream},
};

/// Factor between the numbers of 16-bit samples and those from -1 to 1.
const FULL_SCALE: f32 = 32768.0;

/// Lengths from which on one is no length: programs that write to a pipe do not know it.
const UNKNOWN_LENGTH: u32 = 0x7FFF_F000;

/// Sound as numbers from -1 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sound {
    /// Samples of one channel.
    pub(super) samples: Arc<[f32]>,
    /// Sampling rate in Hz, if a file has it.
    pub(super) rate: Option<u32>,
    /// Number of channels that were mixed into one.
    pub(super) channels: usize,
    /// Samples that are not there.
    pub(super) cut: Option<SoundCut>,
    /// Bytes at the end that are no whole sample.
    pub(super) rest: Option<SampleRest>,
    /// Indicates that something other than a chunk follows the samples of the header, such as another file.
    pub(super) goes_on: bool,
}

/// Recording that is shorter than its header says, or whose header was never finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundCut {
    /// Bytes of samples that the header says; 0 if it was never finished.
    pub expected: u64,
    /// Bytes of whole samples that are there.
    pub found: u64,
}

impl SoundCut {
    /// Compares a length of a header with what is there; `None` if nothing is missing.
    fn of(header: u32, found: u64) -> Option<Self> {
        let expected = u64::from(header);
        (header < UNKNOWN_LENGTH && expected > found).then_some(Self { expected, found })
    }

    /// Returns what is wrong with the recording.
    pub(super) const fn what(&self) -> &'static str {
        match self.expected {
            0 => "was never finished",
            _ => "is truncated",
        }
    }
}

impl Sound {
    /// Makes a sound of samples without a header.
    pub(super) fn raw(samples: Vec<f32>) -> Self {
        Self {
            samples: samples.into(),
            rate: None,
            channels: 1,
            cut: None,
            rest: None,
            goes_on: false,
        }
    }

    /// Reads samples of a kind, or those of a WAV file, whose header says more than the kind does.
    pub(super) fn of_samples(bytes: &[u8], kind: FileKind) -> Result<Self, SoundError> {
        match Beginning::of(bytes).known()? {
            Beginning::Wav => of_wav(bytes),
            _ => {
                let form = SampleForm::of_kind(kind);
                Ok(Self {
                    rest: form.rest(bytes.len() as u64),
                    ..Self::raw(form.read(bytes))
                })
            }
        }
    }
}

/// Returns how far samples are from 0 at most; what is no finite number does not count.
pub(super) fn loudest(samples: &[f32]) -> f32 {
    let sizes = samples.iter().map(|sample| sample.abs());
    sizes.filter(|size| size.is_finite()).fold(0.0, f32::max)
}

/// Gives the samples of a file that came through a pipe, or was cut short, their length, in whole frames; and leaves out
/// the chunks before them where one has an odd length, whose last byte the reader of files takes for the next one.
fn measured(file: &[u8]) -> (Cow<'_, [u8]>, Option<SoundCut>) {
    let number = |at: usize| {
        let bytes = file.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (mut at, mut frame) = (RIFF.len() + 8, 1);
    let mut kept = file.get(..at).unwrap_or_default().to_vec();
    let mut is_odd = false;
    while let (Some(id), Some(length)) = (file.get(at..at + 4), number(at + 4)) {
        let begin = at + 8;
        if id == b"data" {
            let rest = file.len() - begin;
            let is_unfinished = length == 0 && rest >= frame && !are_chunks(&file[begin..]);
            let is_whole = length < UNKNOWN_LENGTH && length as usize <= rest && !is_unfinished;
            if is_whole && !is_odd {
                break;
            }
            let whole = rest - rest % frame;
            let cut = match is_unfinished {
                true => Some(SoundCut {
                    expected: 0,
                    found: whole as u64,
                }),
                false => SoundCut::of(length, whole as u64),
            };
            let there = u32::try_from(whole).unwrap_or(u32::MAX);
            kept.extend(id);
            kept.extend(if is_whole { length } else { there }.to_le_bytes());
            kept.extend(&file[begin..]);
            return (Cow::Owned(kept), cut);
        }
        is_odd |= length % 2 == 1;
        if id == b"fmt " {
            let end = begin.saturating_add(length as usize).min(file.len());
            kept.extend(&file[at..end]);
            let size = file.get(begin + 12..begin + 14);
            frame = size.map_or(1, |it| {
                usize::from(u16::from_le_bytes([it[0], it[1]])).max(1)
            });
        }
        // Chunks begin at even places.
        at = begin.saturating_add(length as usize).next_multiple_of(2);
    }
    (Cow::Borrowed(file), None)
}

/// Returns whether bytes are chunks up to their end, as those behind a sound without samples.
fn are_chunks(mut rest: &[u8]) -> bool {
    while let Some(([a, b, c, d, length @ ..], after)) = rest.split_first_chunk::<8>() {
        let is_name = [a, b, c, d].iter().all(|it| matches!(it, b' '..=b'~'));
        let length = u32::from_le_bytes(*length) as usize;
        let Some(next) = after.get(length..).filter(|_| is_name) else {
            return false;
        };
        // The byte that makes a length even may be missing at the end.
        rest = next.get(length % 2..).unwrap_or_default();
    }
    rest.is_empty()
}

/// Reads the samples of a WAV file as numbers from -1 to 1; the mean of its channels if it has several.
///
/// With the sampling rate, at which they stay.
pub(super) fn of_wav(file: &[u8]) -> Result<Sound, SoundError> {
    if Beginning::of(file).known()? != Beginning::Wav {
        return Err(SoundError::NoHeader);
    }
    let mut rest = file;
    let length = SoundForm::of_header(&mut rest)?.known_length();
    let behind = length.and_then(|length| {
        let end = length.next_multiple_of(2).try_into().ok()?;
        rest.get::<std::ops::RangeFrom<usize>>(end..)
    });
    let goes_on = behind.is_some_and(is_no_chunk);
    let (file, cut) = measured(file);
    let mut reader = WavReader::new(Cursor::new(&*file))?;
    let spec = reader.spec();
    let samples: Vec<f32> = match spec.sample_format {
        SampleFormat::Float => reader.samples::<f32>().collect::<Result<_, _>>()?,
        SampleFormat::Int => {
            let full = 2_f32.powi(i32::from(spec.bits_per_sample) - 1);
            #[expect(
                clippy::cast_precision_loss,
                reason = "samples of more bits than that are rounded"
            )]
            let scaled = reader
                .samples::<i32>()
                .map(|sample| Ok(sample? as f32 / full));
            scaled.collect::<Result<_, hound::Error>>()?
        }
    };
    Ok(Sound {
        samples: mixed(&samples, spec.channels.into()).into(),
        rate: Some(spec.sample_rate),
        channels: spec.channels.into(),
        cut,
        rest: None,
        goes_on,
    })
}

/// Returns the mean of the channels.
fn mixed(samples: &[f32], channels: usize) -> Vec<f32> {
    if channels <= 1 {
        return samples.to_vec();
    }
    #[expect(clippy::cast_precision_loss, reason = "channels are few")]
    let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
    samples.chunks_exact(channels).map(mean).collect()
}

impl Target<'_> {
    /// Makes the tensor of all samples.
    pub(super) fn samples(&self, samples: &[f32]) -> Result<Tensor, ValueProblem> {
        let dtype = self.dtype().unwrap_or(DataType::F32);
        let data = packed(samples, samples.len(), dtype)?;
        let tensor = self.finish(dtype, &[samples.len()], data);
        tensor.map_err(|problem| match problem {
            ValueProblem::Misfit(text) => ValueProblem::Sound(text),
            problem => problem,
        })
    }

    /// Returns the number of samples that the model takes at once.
    pub(super) fn samples_at_once(&self) -> Result<usize, ValueProblem> {
        let shape = self.wanted().as_ref().and_then(PartialShape::fixed);
        let count = shape.and_then(|shape| elements(&shape));
        count
            .filter(|count| *count > 0)
            .ok_or(ValueProblem::StepLength)
    }

    /// Makes the tensor of all steps, and the shape of one. The last step is filled with zeros.
    ///
    /// With their number, too.
    pub(super) fn steps_of(
        &self,
        samples: &[f32],
    ) -> Result<(Tensor, PartialShape, usize), ValueProblem> {
        let each = self.samples_at_once()?;
        let step = self.wanted().ok_or(ValueProblem::StepLength)?;
        let dtype = self.dtype().unwrap_or(DataType::F32);
        let count = samples.len().div_ceil(each);
        let mut shape = step.fixed().unwrap_or_default();
        shape.insert(0, count);
        let data = packed(samples, count * each, dtype)?;
        let zeros = count * each - samples.len();
        Ok((Tensor::new(dtype, shape, data)?, step, zeros))
    }
}

/// Packs samples, and zeros up to the length. Whole numbers are those of 16 bits.
fn packed(samples: &[f32], length: usize, dtype: DataType) -> Result<bytes::Bytes, ValueProblem> {
    let mut packer = Packer::new(dtype, length);
    let zeros = std::iter::repeat_n(0.0, length.saturating_sub(samples.len()));
    for sample in samples.iter().copied().chain(zeros) {
        if dtype.is_float() {
            packer.push_f64(sample.into())?;
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "clamped to 16 bits")]
            let whole = (sample * FULL_SCALE)
                .round()
                .clamp(-FULL_SCALE, FULL_SCALE - 1.0) as i64;
            packer.push_i64(whole)?;
        }
    }
    Ok(packer.finish())
}

#[cfg(test)]
mod tests;
