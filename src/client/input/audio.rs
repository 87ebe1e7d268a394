//! Sounds as the numbers that an audio model takes: WAV files, and raw samples as they come.

use std::{
    borrow::Cow,
    io::{self, BufRead, Cursor, Read},
    sync::Arc,
};

use hound::{SampleFormat, WavReader};

use super::{FileKind, ValueProblem, target::Target};
use crate::tensor::{DataType, PartialShape, Tensor, elements, values::Packer};

/// Factor between the numbers of 16-bit samples and those from -1 to 1.
const FULL_SCALE: f32 = 32768.0;

/// First bytes of a WAV file.
pub(super) const RIFF: &[u8] = b"RIFF";

/// Formats of samples in the header of a WAV file: whole numbers, those of floating point, and one that is told further on.
const WHOLE: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xFFFE;

/// Lengths from which on one is no length: programs that write to a pipe do not know it.
const UNKNOWN_LENGTH: u32 = 0x7FFF_F000;

/// Sound as numbers from -1 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sound {
    /// Samples of one channel.
    pub(super) samples: Arc<[f32]>,
    /// Sampling rate in Hz, if a file tells it.
    pub(super) rate: Option<u32>,
    /// Number of channels that were mixed into one.
    pub(super) channels: usize,
    /// Samples that are not there.
    pub(super) cut: Option<SoundCut>,
    /// Bytes at the end that are no whole sample.
    pub(super) rest: Option<SampleRest>,
}

/// Bytes at the end of samples without a header that are no whole sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRest {
    /// Number of bytes.
    pub bytes: usize,
    /// Number of bytes of a sample.
    pub sample: usize,
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
    fn of(told: u32, found: u64) -> Option<Self> {
        let expected = u64::from(told);
        (told < UNKNOWN_LENGTH && expected > found).then_some(Self { expected, found })
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
        }
    }

    /// Reads raw samples of a kind.
    pub(super) fn of_raw(bytes: &[u8], kind: FileKind) -> Self {
        let form = SampleForm::of_kind(kind);
        Self {
            rest: form.rest(bytes.len() as u64),
            ..Self::raw(form.read(bytes))
        }
    }
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
pub(super) fn of_wav(file: &[u8]) -> Result<Sound, hound::Error> {
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
    })
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
    pub(super) const fn of_kind(kind: FileKind) -> Self {
        match kind {
            FileKind::Float32 => Self::F32,
            _ => Self::I16,
        }
    }

    /// Returns the form that a header tells, of those that files may have as well.
    fn of_header(format: u16, bits: u16, length: u16) -> Option<Self> {
        Some(match (format, bits, length) {
            (WHOLE, 8, 1) => Self::U8,
            (WHOLE, 16, 2) => Self::I16,
            (WHOLE, 24, 3) => Self::I24,
            (WHOLE, 24, 4) => Self::I24In4,
            (WHOLE, 32, 4) => Self::I32,
            (FLOAT, 32, 4) => Self::F32,
            _ => return None,
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
    fn rest(self, bytes: u64) -> Option<SampleRest> {
        let sample = self.length();
        #[expect(clippy::cast_possible_truncation, reason = "less than a sample")]
        let bytes = (bytes % sample as u64) as usize;
        (bytes > 0).then_some(SampleRest { bytes, sample })
    }

    /// Reads samples. Bytes at the end that are none are left out.
    pub(super) fn read(self, bytes: &[u8]) -> Vec<f32> {
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

/// Form of the sound of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundForm {
    /// Form of the samples.
    pub samples: SampleForm,
    /// Number of channels.
    pub channels: usize,
    /// Sampling rate in Hz, if a header tells it.
    pub rate: Option<u32>,
    /// Bytes of all samples as a header tells them, which whoever records may not have known.
    pub length: Option<u32>,
}

impl SoundForm {
    /// Returns what is left of so many bytes behind the last whole sample; `None` if nothing is, or if a header tells
    /// where the first one begins.
    pub fn rest(&self, bytes: u64) -> Option<SampleRest> {
        self.length
            .map_or_else(|| self.samples.rest(bytes), |_| None)
    }

    /// Compares the length of the header with the samples that were there; `None` if none are missing.
    pub fn cut(&self, samples: u64) -> Option<SoundCut> {
        let frame = self.samples.length() * self.channels;
        let found = samples.saturating_mul(frame as u64);
        match self.length? {
            0 if found > 0 => Some(SoundCut { expected: 0, found }),
            length => SoundCut::of(length, found),
        }
    }
}

/// Passes over the header of a WAV file at the beginning of a stream of samples, and returns what it says; one
/// channel of samples of a kind without a header. The stream is read to its end, whatever its length in the header is.
///
/// # Errors
///
/// Fails if the header says that the samples are of a form that files may not have either, or cannot be read.
pub fn skip_wav_header(stream: &mut impl BufRead, kind: FileKind) -> io::Result<SoundForm> {
    let mut form = SoundForm {
        samples: SampleForm::of_kind(kind),
        channels: 1,
        rate: None,
        length: None,
    };
    if !stream.fill_buf()?.starts_with(RIFF) {
        return Ok(form);
    }
    skip(stream, 12)?;
    loop {
        let mut chunk = [0; 8];
        stream.read_exact(&mut chunk)?;
        let [a, b, c, d] = [chunk[4], chunk[5], chunk[6], chunk[7]];
        let length = u32::from_le_bytes([a, b, c, d]);
        match &chunk[..4] {
            b"data" => {
                form.length = Some(length);
                return Ok(form);
            }
            b"fmt " if length >= 16 => {
                let mut format = [0; 40];
                let there = format.len().min(length as usize);
                stream.read_exact(&mut format[..there])?;
                let number = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
                let (format_id, bits) = match (number(0), number(18)) {
                    (EXTENSIBLE, 0) => (number(24), number(14)),
                    (EXTENSIBLE, valid) => (number(24), valid),
                    (format_id, _) => (format_id, number(14)),
                };
                let channels = number(2).max(1);
                let samples = SampleForm::of_header(format_id, bits, number(12) / channels);
                form.samples = samples.ok_or_else(|| {
                    io::Error::other(format!(
                        "found samples of {bits} bits in format {format_id}, expected 8, 16, 24 or 32 bits in \
                         format {WHOLE} (whole numbers), or FP32 (format {FLOAT})"
                    ))
                })?;
                form.channels = channels.into();
                let [a, b, c, d] = [format[4], format[5], format[6], format[7]];
                form.rate = Some(u32::from_le_bytes([a, b, c, d]));
                skip(stream, u64::from(length).next_multiple_of(2) - there as u64)?;
            }
            // Chunks begin at even places.
            _ => skip(stream, u64::from(length).next_multiple_of(2))?,
        }
    }
}

/// Passes over bytes of a stream.
fn skip(stream: &mut impl Read, length: u64) -> io::Result<()> {
    io::copy(&mut stream.take(length), &mut io::sink()).map(drop)
}

/// Reads the next samples of a stream, `count` for each channel or what is left; none at the end. With the number of
/// bytes that were read.
///
/// # Errors
///
/// Fails if the stream cannot be read.
pub fn next_samples(
    stream: &mut impl Read,
    count: usize,
    form: SoundForm,
) -> io::Result<(Vec<f32>, u64)> {
    let length = (form.samples.length() * count * form.channels) as u64;
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes)?;
    let samples = mixed(&form.samples.read(&bytes), form.channels);
    Ok((samples, bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use hound::{SampleFormat, WavSpec, WavWriter};

    use super::{
        FileKind, SampleForm, SampleRest, Sound, SoundCut, next_samples, of_wav, skip_wav_header,
    };

    fn wav(channels: u16, samples: &[i16]) -> Vec<u8> {
        let spec = WavSpec {
            channels,
            sample_rate: 16_000,
            bits_per_sample: 16,
            sample_format: SampleFormat::Int,
        };
        let mut file = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut file, spec).unwrap();
        for sample in samples {
            writer.write_sample(*sample).unwrap();
        }
        writer.finalize().unwrap();
        file.into_inner()
    }

    #[test]
    fn samples_are_from_minus_one_to_one_and_channels_are_mixed() {
        let mono = [0, 16384, -32768];
        let read = |file: &[u8]| {
            let sound = of_wav(file).unwrap();
            (sound.samples.to_vec(), sound.rate)
        };
        assert_eq!(read(&wav(1, &mono)), (vec![0.0, 0.5, -1.0], Some(16_000)));
        let stereo = [0, 16384, -32768, 0];
        assert_eq!(read(&wav(2, &stereo)).0, [0.25, -0.5]);
        let raw: Vec<u8> = mono
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        assert_eq!(SampleForm::I16.read(&raw), [0.0, 0.5, -1.0]);
        assert!(of_wav(b"RIFFxxxxWAVE").is_err());
        // As programs write it to a pipe, with half a sample at the end.
        let mut piped = wav(1, &mono);
        let at = piped.len() - 2 * mono.len() - 4;
        piped[at..at + 4].copy_from_slice(&[0xFF; 4]);
        piped.push(1);
        assert_eq!(read(&piped).0, [0.0, 0.5, -1.0]);
        assert_eq!(of_wav(&piped).unwrap().cut, None);
        // One that was cut short within a sample.
        let cut = wav(1, &[0, 16384, -32768, 8192]);
        assert_eq!(of_wav(&cut).unwrap().cut, None);
        let cut = of_wav(&cut[..cut.len() - 3]).unwrap();
        assert_eq!(*cut.samples, [0.0, 0.5]);
        let missing = SoundCut {
            expected: 8,
            found: 4,
        };
        assert_eq!(cut.cut, Some(missing));
    }

    #[test]
    fn chunks_of_an_odd_length_are_passed_over() {
        let samples = [0, 16384, -32768];
        let mut file = wav(1, &samples);
        let data = file.len() - 6 - 8;
        file.splice(data..data, *b"LIST\x0b\0\0\0INFOISFTabc\0");
        // Before the form of the samples, and behind the samples.
        file.splice(12..12, *b"note\x01\0\0\0a\0");
        file.extend(*b"LIST\x03\0\0\0abc\0");
        let sound = of_wav(&file).unwrap();
        assert_eq!(*sound.samples, [0.0, 0.5, -1.0]);
        assert_eq!((sound.rate, sound.cut), (Some(16_000), None));
        let sound = of_wav(&file[..file.len() - 13]).unwrap();
        assert_eq!(*sound.samples, [0.0, 0.5]);
        let missing = SoundCut {
            expected: 6,
            found: 4,
        };
        assert_eq!(sound.cut, Some(missing));
    }

    #[test]
    fn a_recording_that_was_not_finished_is_read_to_its_end() {
        let mut file = wav(1, &[0, 16384, -32768]);
        let at = file.len() - 6 - 4;
        file[at..at + 4].copy_from_slice(&[0; 4]);
        // Half a sample at the end is none.
        file.push(1);
        let sound = of_wav(&file).unwrap();
        assert_eq!(*sound.samples, [0.0, 0.5, -1.0]);
        let unfinished = SoundCut {
            expected: 0,
            found: 6,
        };
        assert_eq!(sound.cut, Some(unfinished));
        // One without samples may have something else behind them.
        let mut empty = wav(1, &[]);
        empty.extend(*b"LIST\x03\0\0\0abc\0");
        let sound = of_wav(&empty).unwrap();
        assert_eq!((sound.samples.len(), sound.cut), (0, None));
    }

    #[test]
    fn a_stream_may_have_less_than_its_header_tells() {
        let whole = wav(2, &[0, 16384, -32768, 8192]);
        let cut = |stream: &[u8]| {
            let mut stream = stream;
            let form = skip_wav_header(&mut stream, FileKind::Pcm16).unwrap();
            let samples = next_samples(&mut stream, 9, form).unwrap().0;
            form.cut(samples.len() as u64)
        };
        assert_eq!(cut(&whole), None);
        let missing = SoundCut {
            expected: 8,
            found: 4,
        };
        assert_eq!(cut(&whole[..whole.len() - 1]), Some(missing));
        // Whoever records into a pipe does not know the length.
        let mut piped = whole.clone();
        let at = piped.len() - 12;
        piped[at..at + 4].copy_from_slice(&0x7FFF_FFFF_u32.to_le_bytes());
        assert_eq!(cut(&piped), None);
        // Nor does one that has not come to its end.
        piped[at..at + 4].copy_from_slice(&[0; 4]);
        let unfinished = SoundCut {
            expected: 0,
            found: 8,
        };
        assert_eq!(cut(&piped), Some(unfinished));
        assert_eq!(cut(&wav(1, &[])), None);
        assert_eq!(cut(&[0, 1]), None);
    }

    #[test]
    fn bytes_behind_the_last_sample_are_found() {
        let rest = |bytes, sample| Some(SampleRest { bytes, sample });
        for (kind, length, expected) in [
            (FileKind::Pcm16, 4, None),
            (FileKind::Pcm16, 5, rest(1, 2)),
            (FileKind::Float32, 7, rest(3, 4)),
        ] {
            let bytes = vec![0; length];
            assert_eq!(Sound::of_raw(&bytes, kind).rest, expected);
            let mut stream = &bytes[..];
            let form = skip_wav_header(&mut stream, kind).unwrap();
            let (_, read) = next_samples(&mut stream, 9, form).unwrap();
            assert_eq!((read, form.rest(read)), (length as u64, expected));
        }
        // Behind a header the first sample is where it should be.
        let file = wav(1, &[0, 1]);
        let mut stream = &file[..];
        let form = skip_wav_header(&mut stream, FileKind::Pcm16).unwrap();
        assert_eq!(form.rest(3), None);
    }

    #[test]
    fn a_stream_may_begin_with_a_header() {
        let samples = [0, 16384, -32768, 8192, 0];
        let raw: Vec<u8> = samples
            .iter()
            .flat_map(|it: &i16| it.to_le_bytes())
            .collect();
        for (stream, rate) in [(raw, None), (wav(1, &samples), Some(16000))] {
            let mut stream = &stream[..];
            let form = skip_wav_header(&mut stream, FileKind::Pcm16).unwrap();
            assert_eq!((form.channels, form.rate), (1, rate));
            assert_eq!(next_samples(&mut stream, 2, form).unwrap().0, [0.0, 0.5]);
            assert_eq!(next_samples(&mut stream, 2, form).unwrap().0, [-1.0, 0.25]);
            assert_eq!(next_samples(&mut stream, 2, form).unwrap().0, [0.0]);
            assert_eq!(next_samples(&mut stream, 2, form).unwrap().0, [0.0; 0]);
        }
    }

    #[test]
    fn a_stream_of_floats_is_read_as_it_is() {
        let samples = [0.0_f32, 0.5, -1.0, 2.0];
        let raw: Vec<u8> = samples.iter().flat_map(|it| it.to_le_bytes()).collect();
        let spec = WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: 32,
            sample_format: SampleFormat::Float,
        };
        let mut file = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut file, spec).unwrap();
        for sample in samples {
            writer.write_sample(sample).unwrap();
        }
        writer.finalize().unwrap();
        // Two bytes behind the last sample are none.
        for (stream, rate) in [
            ([&raw[..], &[1, 2]].concat(), None),
            (file.into_inner(), Some(16_000)),
        ] {
            let mut stream = &stream[..];
            let form = skip_wav_header(&mut stream, FileKind::Float32).unwrap();
            assert_eq!((form.channels, form.rate), (1, rate));
            assert_eq!(
                next_samples(&mut stream, 3, form).unwrap().0,
                [0.0, 0.5, -1.0]
            );
            assert_eq!(next_samples(&mut stream, 3, form).unwrap().0, [2.0]);
            assert_eq!(next_samples(&mut stream, 3, form).unwrap().0, [0.0; 0]);
        }
    }

    #[test]
    fn a_stream_has_the_samples_that_its_header_tells() {
        for (bits, sample_format) in [
            (8, SampleFormat::Int),
            (16, SampleFormat::Int),
            (24, SampleFormat::Int),
            (32, SampleFormat::Int),
            (32, SampleFormat::Float),
        ] {
            let spec = WavSpec {
                channels: 1,
                sample_rate: 16_000,
                bits_per_sample: bits,
                sample_format,
            };
            let mut file = Cursor::new(Vec::new());
            let mut writer = WavWriter::new(&mut file, spec).unwrap();
            let whole = [0, 1 << (bits - 2), i32::MIN >> (32 - bits), 1 << (bits - 3)];
            for (sample, whole) in [0.0_f32, 0.5, -1.0, 0.25].into_iter().zip(whole) {
                match sample_format {
                    SampleFormat::Float => writer.write_sample(sample).unwrap(),
                    SampleFormat::Int => writer.write_sample(whole).unwrap(),
                }
            }
            writer.finalize().unwrap();
            let mut file = file.into_inner();
            assert_eq!(*of_wav(&file).unwrap().samples, [0.0, 0.5, -1.0, 0.25]);
            // A chunk of an odd length, and the byte behind it.
            let at = file.windows(4).position(|it| it == b"data").unwrap();
            file.splice(at..at, *b"note\x03\0\0\0abc\0");
            for kind in [FileKind::Pcm16, FileKind::Float32] {
                let mut stream = &file[..];
                let form = skip_wav_header(&mut stream, kind).unwrap();
                let samples = next_samples(&mut stream, 9, form).unwrap().0;
                assert_eq!(samples, [0.0, 0.5, -1.0, 0.25], "{bits} {sample_format:?}");
                assert_eq!(form.cut(4), None);
            }
        }
        // As telephones have them.
        let mut logarithmic = wav(1, &[0]);
        logarithmic[20] = 7;
        let error = skip_wav_header(&mut &logarithmic[..], FileKind::Pcm16).unwrap_err();
        assert_eq!(
            error.to_string(),
            "found samples of 16 bits in format 7, expected 8, 16, 24 or 32 bits in format 1 (whole numbers), or \
             FP32 (format 3)"
        );
    }
}
