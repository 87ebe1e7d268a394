//! The header of a `.npy` file: a Python dictionary of type, order and shape.

use std::{
    io::{self, Write},
    str::FromStr,
};

use super::no_type;
use crate::{
    error::{Error, Result},
    tensor::{MAX_RANK, dtype::DataType},
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes before the data are padded to a multiple of this, so that the data can be mapped.
const ALIGNMENT: usize = 64;

/// Header before the data.
#[derive(Debug)]
pub(super) struct Header {
    pub element: Element,
    pub column_order: bool,
    pub shape: Vec<usize>,
    /// Bytes before the data.
    pub length: usize,
}

impl Header {
    pub(super) fn read(file: &[u8]) -> Result<Self> {
        let no_header = || Error::invalid("found no `.npy` header at the start");
        let rest = file.strip_prefix(MAGIC).ok_or_else(no_header)?;
        let [major, _minor, rest @ ..] = rest else {
            return Err(ends(file, MAGIC.len() + 4));
        };
        let (length, rest) = match (major, rest) {
            (1, [a, b, rest @ ..]) => (u32::from_le_bytes([*a, *b, 0, 0]), rest),
            (2 | 3, [a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]), rest),
            (1, _) => return Err(ends(file, MAGIC.len() + 4)),
            (2 | 3, _) => return Err(ends(file, MAGIC.len() + 6)),
            (version, _) => {
                return Err(Error::invalid(format!(
                    "found version {version} of the format, expected 1, 2 or 3"
                )));
            }
        };
        let before = file.len() - rest.len();
        let text = rest
            .get(..length as usize)
            .ok_or_else(|| ends(file, before.saturating_add(length as usize)))?;
        let text = std::str::from_utf8(text)
            .map_err(|_| Error::invalid("found a header that is not text"))?;
        let descr = value(text, "descr")?;
        let element = descr
            .strip_prefix('\'')
            .and_then(|descr| descr.split_once('\''))
            .map(|(descr, _)| descr)
            // A record: a list of fields.
            .ok_or_else(|| no_type("record"))?
            .parse()?;
        let order = value(text, "fortran_order")?;
        let column_order = match (order.starts_with("True"), order.starts_with("False")) {
            (true, false) => true,
            (false, true) => false,
            _ => return Err(unreadable("fortran_order")),
        };
        let shape = value(text, "shape")?
            .strip_prefix('(')
            .and_then(|shape| shape.split_once(')'))
            .ok_or_else(|| unreadable("shape"))?
            .0
            .split(',')
            .map(str::trim)
            .filter(|length| !length.is_empty())
            .map(|length| length.parse().map_err(|_| unreadable("shape")))
            .collect::<Result<Vec<_>, _>>()?;
        if shape.len() > MAX_RANK {
            let rank = shape.len();
            let text = format!("found a shape of {rank} axes, expected {MAX_RANK} at most");
            return Err(Error::invalid(text));
        }
        Ok(Self {
            element,
            column_order,
            shape,
            length: before + length as usize,
        })
    }
}

/// Makes the error of a file that ends within its header, which goes on to at least so many bytes.
fn ends(file: &[u8], least: usize) -> Error {
    let found = file.len();
    Error::invalid(format!(
        "the file ends within its header: found {found} bytes, expected {least} or more"
    ))
}

/// Makes the error of a header that lacks a key, or has no value for it.
fn unreadable(part: &str) -> Error {
    Error::invalid(format!("found no readable `{part}` in the header"))
}

/// Returns the text after a key of the header's dictionary.
fn value<'a>(text: &'a str, key: &'static str) -> Result<&'a str> {
    let quoted = format!("'{key}':");
    let start = text.find(&quoted).ok_or_else(|| unreadable(key))?;
    Ok(text[start + quoted.len()..].trim_start())
}

/// The elements as the header describes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    pub kind: Kind,
    /// Bytes of one element.
    pub width: usize,
    /// Indicates that the bytes stand the other way round.
    pub swapped: bool,
}

/// Kind of elements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Numbers or truth values.
    Number(DataType),
    /// Byte strings of one width.
    Bytes,
    /// UTF-32 strings of one width.
    Unicode,
}

impl Kind {
    /// Returns the type of the tensor's elements.
    pub(super) const fn dtype(self) -> DataType {
        match self {
            Self::Number(dtype) => dtype,
            Self::Bytes | Self::Unicode => DataType::String,
        }
    }

    /// Returns the bytes that turn round together in the other byte order.
    pub(super) const fn swap_width(self, width: usize) -> Option<usize> {
        match self {
            Self::Number(_) if width > 1 => Some(width),
            Self::Number(_) | Self::Bytes => None,
            Self::Unicode => Some(4),
        }
    }
}

impl FromStr for Element {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || no_type(text);
        let plain = text.trim_start_matches(['<', '>', '|', '=']);
        let swapped = text.starts_with('>');
        let number = DataType::ALL
            .into_iter()
            .find(|dtype| dtype.numpy().is_some_and(|name| &name[1..] == plain));
        let (kind, width) = if let Some(dtype) = number {
            (Kind::Number(dtype), dtype.size().ok_or_else(unknown)?)
        } else if let Some(width) = plain.strip_prefix('S') {
            (Kind::Bytes, width.parse().map_err(|_| unknown())?)
        } else if let Some(characters) = plain.strip_prefix('U') {
            let characters: usize = characters.parse().map_err(|_| unknown())?;
            let width = characters.checked_mul(4).ok_or_else(unknown)?;
            (Kind::Unicode, width)
        } else {
            return Err(unknown());
        };
        if width == 0 {
            return Err(unknown());
        }
        Ok(Self {
            kind,
            width,
            swapped,
        })
    }
}

/// Writes a header, padded.
pub(super) fn write_header(descr: &str, shape: &[usize], out: &mut dyn Write) -> io::Result<()> {
    let lengths: Vec<_> = shape.iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = lengths.join(", ");
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    // Magic, version, length, text, line feed.
    let unpadded = MAGIC.len() + 2 + 2 + text.len() + 1;
    let padding = unpadded.next_multiple_of(ALIGNMENT) - unpadded;
    let length = u16::try_from(text.len() + padding + 1)
        .map_err(|_| io::Error::other("the shape is too long for a `.npy` header"))?;
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&length.to_le_bytes())?;
    writeln!(out, "{text}{:padding$}", "")
}
