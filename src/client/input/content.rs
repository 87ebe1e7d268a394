//! Contents of a source, read but not yet a tensor of the model's type.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use bytes::Bytes;

use super::{
    ElementSource, InputError, SoundError,
    audio::{self, Beginning, Sound},
    piped,
};
use crate::{
    client::BoxError,
    tensor::{Tensor, npy},
};

/// Maximum amount of standard input that is read: more than a request may have, as JSON.
const MAX_OF_STDIN: u64 = 4 << 30;

/// Name of standard input in messages.
const STDIN: &str = "standard input";

/// Character with which some editors begin their files.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// First bytes of the files that are recognized by them.
const BEGINNINGS: [(&[u8], FileKind); 5] = [
    (b"\x93NUMPY", FileKind::Npy),
    (b"PK\x03\x04", FileKind::Npz),
    (b"\x89PNG", FileKind::Image),
    (b"\xff\xd8\xff", FileKind::Image),
    (audio::RIFF, FileKind::Wav),
];

/// Bytes by which images of formats that are not read are known, with their place.
const OTHER_IMAGES: [(usize, &[u8], &str); 6] = [
    (8, b"WEBP", "a WebP image"),
    (0, b"GIF8", "a GIF image"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (4, b"ftypavif", "an AVIF image"),
    (4, b"ftypheic", "a HEIC image"),
];

/// Kinds of files, by the end of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// One array of NumPy.
    Npy,
    /// Arrays of NumPy by name.
    Npz,
    /// PNG or JPEG.
    Image,
    /// A JSON value, or an object of them by input.
    Json,
    /// One string; numbers with blanks or commas between them for a model that takes numbers.
    Text,
    /// One string; rows of numbers with commas between them for a model that takes numbers.
    Csv,
    /// The bytes of a tensor.
    Binary,
    /// A sound.
    Wav,
    /// Samples of a sound: 16 bits, little endian, one channel.
    Pcm16,
    /// Samples of a sound: FP32, little endian, one channel.
    Float32,
}

impl FileKind {
    /// Returns the kind of raw samples by its name.
    pub(super) fn of_samples(name: &str) -> Option<Self> {
        match name {
            "pcm16" => Some(Self::Pcm16),
            "f32" => Some(Self::Float32),
            _ => None,
        }
    }

    /// Returns whether this is raw samples, which can be read as they come.
    pub const fn is_samples(self) -> bool {
        matches!(self, Self::Pcm16 | Self::Float32)
    }

    /// Returns the kind by the extension of a file.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "npy" => Self::Npy,
            "npz" => Self::Npz,
            "png" | "jpg" | "jpeg" => Self::Image,
            "json" => Self::Json,
            "txt" => Self::Text,
            "csv" | "tsv" => Self::Csv,
            "bin" => Self::Binary,
            "wav" => Self::Wav,
            "pcm" => Self::Pcm16,
            "f32" => Self::Float32,
            _ => return None,
        })
    }
}

/// Contents of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Content {
    /// JSON, or for a string tensor a text that is no JSON.
    Inline(String),
    /// JSON.
    Json(String),
    /// JSON that standard input gave as a whole.
    Piped(String),
    /// One array.
    Array(Tensor),
    /// Arrays by name, of an archive.
    Arrays(Vec<(String, Tensor)>),
    /// The outputs of an answer, by name.
    Outputs(Vec<(String, Tensor)>),
    /// An encoded image.
    Image(EncodedImage),
    /// Encoded images, which are a batch.
    Images(Vec<EncodedImage>),
    /// A sound.
    Samples(Sound),
    /// A string, or numbers as text.
    Text(Bytes),
    /// A string, or rows of numbers as text.
    Rows(Bytes),
    /// The bytes of a tensor.
    Binary(Bytes),
    /// No contents; the tensor is filled.
    #[default]
    Fill,
}

/// An encoded image, and the name of its file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EncodedImage {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// Standard input, which is read once, for one input, or for several if it has several.
pub(super) struct Stdin<'a> {
    stdin: &'a mut dyn Read,
    read: Option<Content>,
}

impl<'a> Stdin<'a> {
    pub(super) fn new(stdin: &'a mut dyn Read) -> Self {
        Self { stdin, read: None }
    }

    /// Reads it, or returns what was read before.
    fn content(&mut self, kind: Option<FileKind>) -> Result<Content, InputError> {
        match &self.read {
            Some(several @ (Content::Arrays(_) | Content::Outputs(_))) => Ok(several.clone()),
            Some(_) => Err(InputError::StdinTwice),
            None => {
                let bytes = self.bytes()?;
                let is_there = |at: usize, magic: &[u8]| {
                    let rest = bytes.get(at..);
                    rest.is_some_and(|rest| rest.starts_with(magic))
                };
                let mut others = OTHER_IMAGES.iter();
                if let Some((.., name)) =
                    others.find(|(at, magic, _)| kind.is_none() && is_there(*at, magic))
                {
                    return Err(InputError::StdinImage(name));
                }
                let beginning = BEGINNINGS
                    .iter()
                    .find(|(begin, _)| bytes.starts_with(begin));
                let reported = beginning.map(|(_, kind)| *kind);
                let content = match kind.or(reported) {
                    Some(kind) => Content::of_file(Path::new(STDIN), kind, bytes)?,
                    None => match String::from_utf8(bytes) {
                        Ok(text) => match Content::of_json(STDIN, text)? {
                            Content::Json(text) => Content::Piped(text),
                            content => content,
                        },
                        Err(error) => {
                            return Err(match Beginning::of(error.as_bytes()) {
                                Beginning::Other(name) => InputError::Sound {
                                    path: STDIN.into(),
                                    problem: SoundError::Foreign(name),
                                },
                                _ => InputError::StdinBytes,
                            });
                        }
                    },
                };
                self.read = Some(match &content {
                    Content::Arrays(_) | Content::Outputs(_) => content.clone(),
                    // Only that something was read matters.
                    _ => Content::Fill,
                });
                Ok(content)
            }
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        let read = (&mut *self.stdin)
            .take(MAX_OF_STDIN + 1)
            .read_to_end(&mut bytes);
        match read {
            Ok(0) => Err(InputError::StdinEmpty),
            Ok(length) if length as u64 > MAX_OF_STDIN => Err(InputError::StdinSize(MAX_OF_STDIN)),
            Ok(_) if bytes.trim_ascii().is_empty() => Err(InputError::StdinEmpty),
            Ok(_) => Ok(bytes),
            Err(error) => Err(unreadable(Path::new(STDIN), error)),
        }
    }
}

/// Limit on the bytes of files, all of them together.
#[derive(Debug)]
pub(super) struct FileLimit {
    most: u64,
    left: u64,
}

impl FileLimit {
    /// Makes a limit; the greatest number is none.
    pub(super) const fn new(most: u64) -> Self {
        Self { most, left: most }
    }

    /// Reads a file, if there is room for it.
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, InputError> {
        let refused = |error: io::Error| unreadable(path, error);
        if self.most == u64::MAX {
            return fs::read(path).map_err(refused);
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| {
                file.take(self.left.saturating_add(1))
                    .read_to_end(&mut bytes)
            })
            .map_err(refused)?;
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(InputError::FileSize(self.most))?;
        Ok(bytes)
    }
}

impl Content {
    /// Reads a source.
    pub(super) fn load(
        source: &ElementSource,
        stdin: &mut Stdin<'_>,
        limit: &mut FileLimit,
    ) -> Result<Self, InputError> {
        match source {
            ElementSource::Inline(text) => Ok(Self::Inline(text.clone())),
            ElementSource::Fill => Ok(Self::Fill),
            ElementSource::Stdin { kind, output } => {
                stdin.content(*kind)?.pick(STDIN, output.as_ref())
            }
            ElementSource::File { path, kind, output } => {
                let bytes = limit.read(path)?;
                let content = Self::of_file(path, *kind, bytes)?;
                content.pick(&path.display().to_string(), output.as_ref())
            }
        }
    }

    /// Reads JSON that came in a line.
    pub(super) fn line(text: String, source: &ElementSource) -> Result<Self, InputError> {
        let content = Self::of_json("the line", text)?;
        match source {
            ElementSource::Stdin { output, .. } => content.pick("the line", output.as_ref()),
            _ => Ok(content),
        }
    }

    /// Returns whether these may be numbers in a row, which steps of a sequence can be cut from. A list that is typed has
    /// a length that was meant.
    pub(super) const fn may_be_in_a_row(&self) -> bool {
        matches!(
            self,
            Self::Array(_)
                | Self::Arrays(_)
                | Self::Outputs(_)
                | Self::Rows(_)
                | Self::Text(_)
                | Self::Json(_)
                | Self::Piped(_)
        )
    }

    fn of_json(place: &str, mut text: String) -> Result<Self, InputError> {
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len_utf8());
        }
        match piped::outputs(&text) {
            None => Ok(Self::Json(text)),
            Some(Ok(outputs)) => Ok(Self::Outputs(outputs)),
            Some(Err(problem)) => {
                let place = place.to_owned();
                Err(InputError::Answer { place, problem })
            }
        }
    }

    fn of_file(path: &Path, kind: FileKind, bytes: Vec<u8>) -> Result<Self, InputError> {
        Ok(match kind {
            FileKind::Npy => {
                Self::Array(npy::read(&bytes.into()).map_err(|error| unreadable(path, error))?)
            }
            FileKind::Npz => {
                let arrays = npy::read_archive(&bytes.into(), npy::MAX_ARCHIVE);
                Self::Arrays(arrays.map_err(|error| unreadable(path, error))?)
            }
            FileKind::Json => {
                let text = String::from_utf8(bytes).map_err(|error| unreadable(path, error))?;
                Self::of_json(&path.display().to_string(), text)?
            }
            FileKind::Image => Self::Image(EncodedImage {
                name: path.display().to_string(),
                bytes: bytes.into(),
            }),
            FileKind::Text => Self::Text(bytes.into()),
            FileKind::Csv => Self::Rows(bytes.into()),
            FileKind::Binary => Self::Binary(bytes.into()),
            FileKind::Wav | FileKind::Pcm16 | FileKind::Float32 => {
                let sound = match kind {
                    FileKind::Wav => audio::of_wav(&bytes),
                    _ => Sound::of_samples(&bytes, kind),
                };
                Self::Samples(sound.map_err(|problem| InputError::Sound {
                    path: path.to_owned(),
                    problem,
                })?)
            }
        })
    }

    /// Takes one of several, if one is named.
    fn pick(self, place: &str, output: Option<&String>) -> Result<Self, InputError> {
        let Some(name) = output else {
            return Ok(self);
        };
        let (kind, mut several) = match self {
            Self::Arrays(several) => ("array", several),
            Self::Outputs(several) => ("output", several),
            _ => ("output", Vec::new()),
        };
        match several.iter().position(|(known, _)| known == name) {
            Some(index) => Ok(Self::Array(several.swap_remove(index).1)),
            None => Err(InputError::NoOutput {
                place: place.to_owned(),
                kind,
                name: name.clone(),
                known: several.into_iter().map(|(name, _)| name).collect(),
            }),
        }
    }
}

fn unreadable(path: &Path, source: impl Into<BoxError>) -> InputError {
    let source = source.into();
    let path = path.to_owned();
    InputError::File { path, source }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Content, FileKind, Stdin};

    #[test]
    fn json_may_begin_with_a_byte_order_mark() {
        let marked = "\u{feff}[1]";
        let path = Path::new("x.json");
        let file = Content::of_file(path, FileKind::Json, marked.into()).unwrap();
        assert_eq!(file, Content::Json("[1]".to_owned()));
        let mut bytes = marked.as_bytes();
        let piped = Stdin::new(&mut bytes).content(None).unwrap();
        assert_eq!(piped, Content::Piped("[1]".to_owned()));
    }
}
