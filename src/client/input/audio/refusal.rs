//! Sounds that are not read, by what they begin with or what their headers say.

use std::io::{self, Read};

/// Error of reading a sound.
#[derive(Debug, thiserror::Error)]
pub enum SoundError {
    /// The first bytes are those of another format.
    #[error("found the beginning of {0}, expected a WAV file, or samples without a header")]
    Foreign(&'static str),
    /// The first bytes are those of a file that has no sound.
    #[error("found the beginning of {0}, expected a sound")]
    NoSound(&'static str),
    /// A file of a name that ends in `.wav` begins otherwise.
    #[error("found no header of a WAV file at its beginning")]
    NoHeader,
    /// The end comes before the samples.
    #[error("found its end within the header, before the samples")]
    CutHeader,
    /// The header does not say what the samples are.
    #[error("found no form of the samples in its header")]
    NoForm,
    /// Samples of a form that is not read.
    #[error(
        "found samples of {found}, expected 8, 16, 24 or 32 bits in format 1 (whole numbers), or FP32 (format 3)"
    )]
    Form {
        /// The form as the header has it.
        found: String,
    },
    /// The bytes cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file is broken in another way.
    #[error(transparent)]
    Broken(#[from] hound::Error),
}

/// First bytes of a WAV file.
pub(in crate::client::input) const RIFF: &[u8] = b"RIFF";

/// Bytes that give the kind of a RIFF file, and their place.
const WAVE: &[u8] = b"WAVE";
const PLACE_OF_KIND: usize = 8;

/// Length of the beginning of a WAV file, up to its chunks.
pub(super) const LENGTH_OF_RIFF: usize = 12;

/// Bytes by which files without a sound are known.
const NO_SOUNDS: [(&[u8], &str); 4] = [
    (b"\x93NUMPY", "a NumPy file"),
    (b"PK\x03\x04", "an archive"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
];

/// Bytes by which other formats of sounds are known, with their place.
const OTHERS: [(usize, &[u8], &str); 14] = [
    (0, b"fLaC", "a FLAC file"),
    (0, b"OggS", "an Ogg file (Vorbis or Opus)"),
    (0, b"ID3", "an MP3 file"),
    (
        0,
        b"RF64",
        "an RF64 file, as WAV files of more than 4 GiB are",
    ),
    (
        0,
        b"BW64",
        "a BW64 file, as WAV files of more than 4 GiB are",
    ),
    (
        0,
        b"RIFX",
        "a RIFX file, which has the greater byte of a number first",
    ),
    (0, b"riff\x2e\x91\xcf\x11", "a Wave64 file"),
    (0, b"FORM", "an AIFF file"),
    (0, b"caff", "a CAF file"),
    (0, b".snd", "an AU file"),
    (0, b"wvpk", "a WavPack file"),
    (0, b"#!AMR", "an AMR file"),
    (0, b"\x1a\x45\xdf\xa3", "a Matroska or WebM file"),
    (4, b"ftyp", "an MP4 or M4A file"),
];

/// Beginning of a sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client::input) enum Beginning {
    /// A WAV file.
    Wav,
    /// Another format.
    Other(&'static str),
    /// A file that has no sound.
    NoSound(&'static str),
    /// Samples, or anything else.
    Unknown,
}

impl Beginning {
    /// Recognizes the first bytes of a sound; `None` if more of them are needed.
    fn of_first(bytes: &[u8]) -> Option<Self> {
        if bytes.len() >= LENGTH_OF_RIFF && bytes.starts_with(RIFF) {
            return Some(match bytes[PLACE_OF_KIND..].starts_with(WAVE) {
                true => Self::Wav,
                false => Self::Other("a RIFF file of another kind than WAV"),
            });
        }
        // Boxes of MP4 begin with their length, which is small.
        let is_box = bytes.iter().take(2).all(|byte| *byte == 0);
        let mut others = OTHERS.iter().filter(|(at, ..)| *at == 0 || is_box);
        let other = others.clone().find(|(at, magic, _)| {
            let rest = bytes.get(*at..);
            rest.is_some_and(|rest| rest.starts_with(magic))
        });
        if let Some((_, _, name)) = other {
            return Some(Self::Other(name));
        }
        let mut no_sounds = NO_SOUNDS.iter();
        if let Some((_, name)) = no_sounds
            .clone()
            .find(|(magic, _)| bytes.starts_with(magic))
        {
            return Some(Self::NoSound(name));
        }
        let is_open = bytes.starts_with(RIFF)
            || no_sounds.any(|(magic, _)| magic.starts_with(bytes))
            || RIFF.starts_with(bytes)
            || others
                .any(|(at, magic, _)| bytes.get(*at..).is_none_or(|rest| magic.starts_with(rest)));
        (!is_open).then_some(Self::Unknown)
    }

    /// Returns what is read as a sound.
    ///
    /// # Errors
    ///
    /// Fails if it begins as something else does.
    pub(super) const fn known(self) -> Result<Self, SoundError> {
        match self {
            Self::Other(name) => Err(SoundError::Foreign(name)),
            Self::NoSound(name) => Err(SoundError::NoSound(name)),
            Self::Wav | Self::Unknown => Ok(self),
        }
    }

    /// Recognizes a whole sound.
    pub(in crate::client::input) fn of(bytes: &[u8]) -> Self {
        let most = bytes.len().min(LENGTH_OF_RIFF);
        Self::of_first(&bytes[..most]).unwrap_or_else(|| Self::of_short(bytes))
    }

    /// Recognizes what ends before it is clear.
    fn of_short(bytes: &[u8]) -> Self {
        match bytes.starts_with(RIFF) {
            // Its end is missed where the header is read.
            true => Self::Wav,
            false => Self::Unknown,
        }
    }

    /// Recognizes a stream, of which no more is read than that takes; returns that, too.
    pub(super) fn of_stream(stream: &mut impl Read) -> io::Result<(Self, Vec<u8>)> {
        let mut first = Vec::with_capacity(LENGTH_OF_RIFF);
        loop {
            if let Some(beginning) = Self::of_first(&first) {
                return Ok((beginning, first));
            }
            let mut byte = Vec::with_capacity(1);
            if stream.take(1).read_to_end(&mut byte)? == 0 {
                return Ok((Self::of_short(&first), first));
            }
            first.extend(byte);
        }
    }
}
