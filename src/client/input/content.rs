//! What a source holds, read but not yet a tensor of the model's type.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{InputError, Source};
use crate::tensor::{Tensor, npy};

/// The kinds of files that are read, told by the end of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// One array of NumPy.
    Npy,
    /// Arrays of NumPy by name.
    Npz,
    /// PNG or JPEG.
    Picture,
    /// A JSON value, or an object of them by input.
    Json,
    /// One string; numbers with blanks or commas between them for a model that takes numbers.
    Text,
    /// The bytes of a tensor.
    Binary,
}

impl FileKind {
    /// Tells the kind by the end of a file's name.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "npy" => Self::Npy,
            "npz" => Self::Npz,
            "png" | "jpg" | "jpeg" => Self::Picture,
            "json" => Self::Json,
            "txt" => Self::Text,
            "bin" => Self::Binary,
            _ => return None,
        })
    }
}

/// What a source holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// JSON, or for a string tensor a text that is no JSON.
    Inline(String),
    /// JSON.
    Json(String),
    /// One array.
    Array(Tensor),
    /// Arrays by name.
    Arrays(Vec<(String, Tensor)>),
    /// An encoded picture.
    Picture(Bytes),
    /// A string, or numbers as text.
    Text(Bytes),
    /// The bytes of a tensor.
    Binary(Bytes),
    /// Nothing.
    Fill,
}

impl Content {
    /// Reads a source.
    pub(super) fn load(source: Source, stdin: &mut dyn Read) -> Result<Self, InputError> {
        match source {
            Source::Inline(text) => Ok(Self::Inline(text)),
            Source::Fill => Ok(Self::Fill),
            Source::Stdin => {
                let mut text = String::new();
                match stdin.read_to_string(&mut text) {
                    Ok(_) => Ok(Self::Json(text)),
                    Err(error) => Err(unreadable(PathBuf::from("standard input"), error)),
                }
            }
            Source::File(path, kind) => match fs::read(&path) {
                Ok(bytes) => Self::of_file(path, kind, bytes),
                Err(error) => Err(unreadable(path, error)),
            },
        }
    }

    fn of_file(path: PathBuf, kind: FileKind, bytes: Vec<u8>) -> Result<Self, InputError> {
        match kind {
            FileKind::Npy => match npy::read(&bytes.into()) {
                Ok(tensor) => Ok(Self::Array(tensor)),
                Err(error) => Err(unreadable(path, error)),
            },
            FileKind::Npz => match npy::read_archive(&bytes.into()) {
                Ok(arrays) => Ok(Self::Arrays(arrays)),
                Err(error) => Err(unreadable(path, error)),
            },
            FileKind::Json => match String::from_utf8(bytes) {
                Ok(text) => Ok(Self::Json(text)),
                Err(error) => Err(unreadable(path, error)),
            },
            FileKind::Picture => Ok(Self::Picture(bytes.into())),
            FileKind::Text => Ok(Self::Text(bytes.into())),
            FileKind::Binary => Ok(Self::Binary(bytes.into())),
        }
    }
}

fn unreadable(
    path: PathBuf,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> InputError {
    let source = source.into();
    InputError::File { path, source }
}
