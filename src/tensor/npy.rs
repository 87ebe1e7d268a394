//! NumPy's `.npy` files, and `.npz` archives of them.
//!
//! The client reads them as inputs and writes them as outputs. Read are the number types, truth
//! values and fixed-width strings, in either byte order and in row or column order; written is
//! the plain form: little endian, row order. Pickled objects, complex numbers, dates and records
//! are refused by name.
//!
//! NumPy has no BF16: such a tensor is written as FP32, which holds every value of it. Strings
//! are written at the width of the longest, padded with zero bytes; NumPy does the same, and a
//! string's own zero bytes at its end are lost in both.

use std::io::{self, Cursor, Read, Write};

use bytes::Bytes;

use super::{
    DataType, Tensor, TensorError, elements,
    values::{Packer, Value, ValueError, values},
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes before the data are padded to a multiple of this, so that the data can be mapped.
const ALIGNMENT: usize = 64;

/// Why a file is not an array that a tensor can hold.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The first bytes are others.
    #[error("found no `.npy` header at the start")]
    Magic,
    /// A version of the format after 3.
    #[error("found version {0} of the format, expected 1, 2 or 3")]
    Version(u8),
    /// The header ends early or lacks a key.
    #[error("found no readable `{0}` in the header")]
    Header(&'static str),
    /// A type of elements that tensors do not have.
    #[error("found elements of type `{0}`, which no tensor has")]
    Dtype(String),
    /// The data ends early, or goes on after the last element.
    #[error(transparent)]
    Size(#[from] TensorError),
    /// A string element does not fit the packed form, or is no text.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The archive cannot be read.
    #[error("found no readable archive")]
    Archive(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An array of the archive cannot be read.
    #[error("cannot read array `{name}`")]
    Member {
        /// The name of the array.
        name: String,
        /// The reason.
        #[source]
        source: Box<Self>,
    },
}

/// Reads a `.npy` file.
///
/// The tensor's data is a slice of the file where the file is little endian and in row order.
///
/// # Errors
///
/// Fails if the file is not in the format, or its elements are of a type that tensors lack.
pub fn read(file: &Bytes) -> Result<Tensor, NpyError> {
    let header = Header::read(file)?;
    let data = file.slice(header.length..);
    let Element {
        kind,
        width,
        swapped,
    } = header.element;
    let expected = elements(&header.shape).and_then(|count| count.checked_mul(width));
    if expected != Some(data.len()) {
        return Err(TensorError::Size {
            dtype: kind.dtype(),
            shape: super::ShapeText(&header.shape).to_string(),
            expected: expected.unwrap_or(usize::MAX),
            actual: data.len(),
        }
        .into());
    }
    let data = if header.column_order && header.shape.len() > 1 {
        row_order(&data, &header.shape, width).into()
    } else {
        data
    };
    let data = match kind.swap_width(width) {
        Some(unit) if swapped => {
            let mut data = Vec::from(data);
            data.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
            data.into()
        }
        _ => data,
    };
    let data = match kind {
        Kind::Number(_) => data,
        Kind::Bytes => pack(&data, width, |element| Ok(trimmed(element).to_vec()))?,
        Kind::Unicode => pack(&data, width, utf8)?,
    };
    Ok(Tensor::new(kind.dtype(), header.shape, data)?)
}

/// Reads the arrays of a `.npz` archive, in the order of the archive.
///
/// # Errors
///
/// Fails if the archive or one of its arrays cannot be read.
pub fn read_archive(file: &Bytes) -> Result<Vec<(String, Tensor)>, NpyError> {
    let broken = |error: zip::result::ZipError| NpyError::Archive(error.into());
    let mut archive = zip::ZipArchive::new(Cursor::new(file)).map_err(broken)?;
    let mut arrays = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(broken)?;
        let name = member.name().map_err(broken)?;
        let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else {
            continue;
        };
        let mut bytes = Vec::new();
        member
            .read_to_end(&mut bytes)
            .map_err(|error| NpyError::Archive(error.into()))?;
        match read(&bytes.into()) {
            Ok(tensor) => arrays.push((name, tensor)),
            Err(source) => {
                let source = Box::new(source);
                return Err(NpyError::Member { name, source });
            }
        }
    }
    Ok(arrays)
}

/// Writes a tensor as a `.npy` file; see the module for BF16 and strings.
///
/// # Errors
///
/// Fails if the writer does.
pub fn write(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    match descr(tensor.dtype()) {
        Some(descr) => {
            write_header(descr, tensor.shape(), out)?;
            out.write_all(tensor.data())
        }
        None if tensor.dtype() == DataType::String => write_strings(tensor, out),
        None => {
            write_header("<f4", tensor.shape(), out)?;
            for value in values(tensor) {
                if let Value::Single(value) = value {
                    out.write_all(&value.to_le_bytes())?;
                }
            }
            Ok(())
        }
    }
}

fn write_strings(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    let strings = || {
        values(tensor).filter_map(|value| match value {
            Value::Bytes(element) => Some(element),
            _ => None,
        })
    };
    // NumPy has no strings of no width.
    let width = strings().map(<[u8]>::len).max().unwrap_or(0).max(1);
    write_header(&format!("|S{width}"), tensor.shape(), out)?;
    let padding = vec![0; width];
    for element in strings() {
        out.write_all(element)?;
        out.write_all(&padding[element.len()..])?;
    }
    Ok(())
}

/// What stands before the data.
#[derive(Debug)]
struct Header {
    element: Element,
    column_order: bool,
    shape: Vec<usize>,
    /// Bytes before the data.
    length: usize,
}

impl Header {
    fn read(file: &[u8]) -> Result<Self, NpyError> {
        let rest = file.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
        let [major, _minor, rest @ ..] = rest else {
            return Err(NpyError::Magic);
        };
        let (length, rest) = match (major, rest) {
            (1, [a, b, rest @ ..]) => (u32::from_le_bytes([*a, *b, 0, 0]), rest),
            (2 | 3, [a, b, c, d, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, *d]), rest),
            (1..=3, _) => return Err(NpyError::Header("length")),
            (version, _) => return Err(NpyError::Version(*version)),
        };
        let text = rest
            .get(..length as usize)
            .and_then(|text| std::str::from_utf8(text).ok())
            .ok_or(NpyError::Header("text"))?;
        let descr = value(text, "descr")?;
        let element = descr
            .strip_prefix('\'')
            .and_then(|descr| descr.split_once('\''))
            .map(|(descr, _)| descr)
            // A record: a list of fields.
            .ok_or_else(|| NpyError::Dtype("record".to_owned()))?
            .parse()?;
        let order = value(text, "fortran_order")?;
        let column_order = match (order.starts_with("True"), order.starts_with("False")) {
            (true, false) => true,
            (false, true) => false,
            _ => return Err(NpyError::Header("fortran_order")),
        };
        let shape = value(text, "shape")?
            .strip_prefix('(')
            .and_then(|shape| shape.split_once(')'))
            .ok_or(NpyError::Header("shape"))?
            .0
            .split(',')
            .map(str::trim)
            .filter(|length| !length.is_empty())
            .map(|length| length.parse().map_err(|_| NpyError::Header("shape")))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            element,
            column_order,
            shape,
            length: file.len() - rest.len() + length as usize,
        })
    }
}

/// Returns the text after a key of the header's dictionary.
fn value<'a>(text: &'a str, key: &'static str) -> Result<&'a str, NpyError> {
    let quoted = format!("'{key}':");
    let start = text.find(&quoted).ok_or(NpyError::Header(key))?;
    Ok(text[start + quoted.len()..].trim_start())
}

/// The elements as the header describes them.
#[derive(Debug, Clone, Copy)]
struct Element {
    kind: Kind,
    /// Bytes of one element.
    width: usize,
    /// Whether the bytes stand the other way round.
    swapped: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Number(DataType),
    /// Byte strings of one width.
    Bytes,
    /// UTF-32 strings of one width.
    Unicode,
}

impl Kind {
    const fn dtype(self) -> DataType {
        match self {
            Self::Number(dtype) => dtype,
            Self::Bytes | Self::Unicode => DataType::String,
        }
    }

    /// Returns the bytes that turn round together in the other byte order.
    const fn swap_width(self, width: usize) -> Option<usize> {
        match self {
            Self::Number(_) if width > 1 => Some(width),
            Self::Number(_) | Self::Bytes => None,
            Self::Unicode => Some(4),
        }
    }
}

impl std::str::FromStr for Element {
    type Err = NpyError;

    fn from_str(text: &str) -> Result<Self, NpyError> {
        let unknown = || NpyError::Dtype(text.to_owned());
        let plain = text.trim_start_matches(['<', '>', '|', '=']);
        let swapped = text.starts_with('>');
        let number = DataType::ALL
            .into_iter()
            .find(|dtype| descr(*dtype).is_some_and(|descr| &descr[1..] == plain));
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

/// Returns NumPy's name of a type that has one.
const fn descr(dtype: DataType) -> Option<&'static str> {
    match dtype {
        DataType::Bool => Some("|b1"),
        DataType::I8 => Some("|i1"),
        DataType::I16 => Some("<i2"),
        DataType::I32 => Some("<i4"),
        DataType::I64 => Some("<i8"),
        DataType::U8 => Some("|u1"),
        DataType::U16 => Some("<u2"),
        DataType::U32 => Some("<u4"),
        DataType::U64 => Some("<u8"),
        DataType::F16 => Some("<f2"),
        DataType::F32 => Some("<f4"),
        DataType::F64 => Some("<f8"),
        DataType::Bf16 | DataType::String => None,
    }
}

fn write_header(descr: &str, shape: &[usize], out: &mut dyn Write) -> io::Result<()> {
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

/// Turns elements that stand in column order into row order.
fn row_order(data: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let strides: Vec<usize> = shape
        .iter()
        .scan(width, |stride, length| {
            let this = *stride;
            *stride *= length;
            Some(this)
        })
        .collect();
    let mut rows = Vec::with_capacity(data.len());
    let mut index = vec![0; shape.len()];
    let mut offset = 0;
    while rows.len() < data.len() {
        rows.extend_from_slice(&data[offset..offset + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    rows
}

/// Packs strings of one width as elements of a string tensor.
fn pack(
    data: &[u8],
    width: usize,
    element: impl Fn(&[u8]) -> Result<Vec<u8>, NpyError>,
) -> Result<Bytes, NpyError> {
    let mut packer = Packer::new(DataType::String, data.len() / width);
    for bytes in data.chunks_exact(width) {
        packer.push_bytes(&element(bytes)?)?;
    }
    Ok(packer.finish())
}

fn trimmed(element: &[u8]) -> &[u8] {
    let end = element
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    &element[..end]
}

fn utf8(element: &[u8]) -> Result<Vec<u8>, NpyError> {
    let text: Option<String> = element
        .chunks_exact(4)
        .map(|unit| char::from_u32(u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])))
        .collect();
    let text = text.ok_or_else(|| NpyError::Dtype("U with bytes that are no text".to_owned()))?;
    Ok(trimmed(text.as_bytes()).to_vec())
}

#[cfg(test)]
mod tests;
