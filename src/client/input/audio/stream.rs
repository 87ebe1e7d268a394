//! Sounds as they come.

use std::io::{self, Chain, Cursor, Read, Take};

use super::{
    FileKind, SampleForm, SampleRest, SoundCut, SoundError, UNKNOWN_LENGTH, mixed,
    refusal::{Beginning, LENGTH_OF_RIFF, RIFF},
};

/// Tag of a format that is given further on.
const EXTENSIBLE: u16 = 0xFFFE;

/// End of the identifiers of formats that have a tag, which it follows.
const TAGGED: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71];

/// Form of the sound of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundForm {
    /// Form of the samples.
    pub samples: SampleForm,
    /// Number of channels.
    pub channels: usize,
    /// Sampling rate in Hz, if a header has it.
    pub rate: Option<u32>,
    /// Bytes of all samples as a header declares them, which whoever records may not have known.
    pub length: Option<u32>,
}

impl SoundForm {
    /// Returns the form of samples without a header.
    const fn of_kind(kind: FileKind) -> Self {
        Self {
            samples: SampleForm::of_kind(kind),
            channels: 1,
            rate: None,
            length: None,
        }
    }

    /// Returns what is left of so many bytes behind the last whole sample; `None` if nothing is, or if a header says
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

    /// Returns the bytes of all samples; `None` if only the end of the stream shows them.
    pub(super) fn known_length(&self) -> Option<u64> {
        let length = self.length.filter(|it| (1..UNKNOWN_LENGTH).contains(it));
        length.map(u64::from)
    }

    /// Reads the header of a WAV file, up to its samples.
    pub(super) fn of_header(stream: &mut impl Read) -> Result<Self, SoundError> {
        skip(stream, LENGTH_OF_RIFF as u64)?;
        let mut form = None;
        loop {
            let mut chunk = [0; 8];
            fill(stream, &mut chunk)?;
            let [_, _, _, _, length @ ..] = chunk;
            let length = u32::from_le_bytes(length);
            match &chunk[..4] {
                b"data" => {
                    let form = form.ok_or(SoundError::NoForm)?;
                    return Ok(Self {
                        length: Some(length),
                        ..form
                    });
                }
                b"fmt " if length >= 16 => {
                    let mut chunk = [0; 40];
                    let there = chunk.len().min(length as usize);
                    fill(stream, &mut chunk[..there])?;
                    form = Some(Self::of_chunk(&chunk)?);
                    skip(stream, u64::from(length).next_multiple_of(2) - there as u64)?;
                }
                // Chunks begin at even places.
                _ => skip(stream, u64::from(length).next_multiple_of(2))?,
            }
        }
    }

    /// Reads the chunk of a header that has the form of the samples.
    fn of_chunk(chunk: &[u8; 40]) -> Result<Self, SoundError> {
        let number = |at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
        let (format, bits) = match (number(0), number(18)) {
            (EXTENSIBLE, valid) => {
                let format = match chunk[26..] == TAGGED {
                    true => number(24),
                    false => EXTENSIBLE,
                };
                (format, if valid == 0 { number(14) } else { valid })
            }
            (format, _) => (format, number(14)),
        };
        let channels = number(2).max(1);
        let samples = SampleForm::of_header(format, bits, number(12) / channels)?;
        Ok(Self {
            samples,
            channels: channels.into(),
            rate: Some(u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]])),
            length: None,
        })
    }
}

/// Samples of a stream, up to its end, or to the end of the samples that a header declares.
#[derive(Debug)]
pub struct SoundStream<R> {
    form: SoundForm,
    samples: Take<Chain<Cursor<Vec<u8>>, R>>,
}

impl<R: Read> SoundStream<R> {
    /// Reads the header of a WAV file, if a stream begins with one; it is one channel of samples of a kind otherwise.
    ///
    /// # Errors
    ///
    /// Fails if the stream begins as another format does, the header says that the samples are of a form that files may
    /// not have either, or it cannot be read.
    pub fn open(mut stream: R, kind: FileKind) -> Result<Self, SoundError> {
        let (beginning, first) = Beginning::of_stream(&mut stream)?;
        let mut stream = Cursor::new(first).chain(stream);
        let form = match beginning.known()? {
            Beginning::Wav => SoundForm::of_header(&mut stream)?,
            _ => SoundForm::of_kind(kind),
        };
        let length = form.known_length().unwrap_or(u64::MAX);
        Ok(Self {
            form,
            samples: stream.take(length),
        })
    }

    /// Returns the form of the sound.
    pub const fn form(&self) -> SoundForm {
        self.form
    }

    /// Reads the next samples, `count` for each channel or what is left; none at the end. With the number of bytes that
    /// were read.
    ///
    /// # Errors
    ///
    /// Fails if the stream cannot be read.
    pub fn next(&mut self, count: usize) -> io::Result<(Vec<f32>, u64)> {
        let SoundForm {
            samples, channels, ..
        } = self.form;
        let length = (samples.length() * count * channels) as u64;
        let mut bytes = Vec::new();
        (&mut self.samples).take(length).read_to_end(&mut bytes)?;
        let heard = mixed(&samples.read(&bytes), channels);
        Ok((heard, bytes.len() as u64))
    }

    /// Returns whether something else than a chunk follows the samples that the header declares.
    ///
    /// # Errors
    ///
    /// Fails if the stream cannot be read.
    pub fn goes_on(self) -> io::Result<bool> {
        let Some(length) = self.form.known_length() else {
            return Ok(false);
        };
        let mut rest = self.samples.into_inner();
        skip(&mut rest, length % 2)?;
        let mut next = Vec::new();
        rest.take(RIFF.len() as u64).read_to_end(&mut next)?;
        Ok(is_no_chunk(&next))
    }
}

/// Returns whether bytes behind samples are the beginning of something else than a chunk, such as another file.
pub(super) fn is_no_chunk(rest: &[u8]) -> bool {
    let Some(name) = rest.first_chunk::<4>() else {
        return false;
    };
    let is_name = name.iter().all(|it| matches!(it, b' '..=b'~'));
    !is_name || name == RIFF
}

/// Fills a part of a header.
fn fill(stream: &mut impl Read, part: &mut [u8]) -> Result<(), SoundError> {
    stream.read_exact(part).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => SoundError::CutHeader,
        _ => error.into(),
    })
}

/// Passes over bytes of a stream.
fn skip(stream: &mut impl Read, length: u64) -> io::Result<()> {
    io::copy(&mut stream.take(length), &mut io::sink()).map(drop)
}
