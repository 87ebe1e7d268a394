//! NumPy's `.npy` files, and `.npz` archives of them.
//!
//! The client reads them as inputs and writes them as outputs. Read are the number types, truth
//! values and fixed-width strings, in either byte order and in row or column order; written is
//! the plain form: little endian, row order. Pickled objects, complex numbers, dates and records
//! are refused by name.
//!
//! NumPy has no BF16: such a tensor is written as FP32, which holds every value of it. Strings
//! are written at the width of the longest, padded with zero bytes; NumPy does the same, and a
//! string's own zero bytes at its end are lost in both. BYTES without their lengths are one string.

mod header;

use std::io::{self, Cursor, Read, Write};

use bytes::Bytes;

use self::header::{Element, Header, Kind, write_header};
use super::{
    Tensor, TensorError,
    dtype::DataType,
    shape::elements,
    strings::unframed,
    transpose::transpose,
    values::{Packer, Value, values},
};
use crate::error::{Error, Result};

/// Reads a `.npy` file.
///
/// The tensor's data is a slice of the file where the file is little endian and in row order.
///
/// # Errors
///
/// Fails if the file is not in the format, or its elements are of a type that tensors lack.
pub fn read(file: &Bytes) -> Result<Tensor> {
    let header = Header::read(file)?;
    let data = file.slice(header.length..);
    let Element {
        kind,
        width,
        swapped,
    } = header.element;
    let expected = elements(&header.shape).and_then(|count| count.checked_mul(width));
    if expected != Some(data.len()) {
        return Err(refused(TensorError::Size {
            dtype: kind.dtype(),
            shape: super::ShapeText(&header.shape).to_string(),
            expected: expected.unwrap_or(usize::MAX),
            actual: data.len(),
        }));
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
    Tensor::new(kind.dtype(), header.shape, data).map_err(refused)
}

/// Maximum number of bytes that the arrays of an archive have together: no message of gRPC has more.
pub const MAX_ARCHIVE: u64 = 2 << 30;

/// Reads the arrays of a `.npz` archive, in the order of the archive.
///
/// A few bytes of an archive can become very many, and several of its members can be the same bytes: no more than `most`
/// are read.
///
/// # Errors
///
/// Fails if the archive or one of its arrays cannot be read, or they have more bytes.
pub fn read_archive(file: &Bytes, most: u64) -> Result<Vec<(String, Tensor)>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(file)).map_err(broken)?;
    let mut arrays = Vec::with_capacity(archive.len());
    let mut left = most;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(broken)?;
        let name = member.name().map_err(broken)?;
        let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else {
            continue;
        };
        let mut bytes = Vec::new();
        let mut limited = (&mut member).take(left + 1);
        let length = limited.read_to_end(&mut bytes).map_err(broken)?;
        left = left.checked_sub(length as u64).ok_or_else(|| {
            Error::invalid(format!("found arrays of more than {most} bytes in all"))
        })?;
        let tensor = read(&bytes.into()).map_err(|error| {
            Error::invalid(format!("cannot read array `{name}`")).with_source(error)
        })?;
        arrays.push((name, tensor));
    }
    Ok(arrays)
}

/// Makes the error of an archive that cannot be read.
fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::invalid("found no readable archive").with_source(error)
}

/// Makes the error of data that ends early or goes on after the last element, or of a string element that
/// does not fit the packed form.
fn refused(error: impl ToString) -> Error {
    Error::invalid(error.to_string())
}

/// Makes the error of a type of elements that tensors do not have.
fn no_type(name: &str) -> Error {
    Error::invalid(format!(
        "found elements of type `{name}`, which no tensor has"
    ))
}

/// Writes a tensor as a `.npy` file; see the module for BF16 and strings.
///
/// # Errors
///
/// Fails if the writer does.
pub fn write(tensor: &Tensor, out: &mut dyn Write) -> io::Result<()> {
    match tensor.dtype().numpy() {
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
    if let Some(bare) = unframed(tensor) {
        write_header(&format!("|S{}", bare.len().max(1)), &[1], out)?;
        return out.write_all(if bare.is_empty() { &[0] } else { bare });
    }
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

/// Turns elements that stand in column order into row order: in row order they have the last axis first.
fn row_order(data: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    transpose(data, &reversed, &axes, width)
}

/// Packs strings of one width as elements of a string tensor.
fn pack(data: &[u8], width: usize, element: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Bytes> {
    let mut packer = Packer::new(DataType::String, data.len() / width);
    for bytes in data.chunks_exact(width) {
        packer.push_bytes(&element(bytes)?).map_err(refused)?;
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

fn utf8(element: &[u8]) -> Result<Vec<u8>> {
    let text: Option<String> = element
        .chunks_exact(4)
        .map(|unit| char::from_u32(u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])))
        .collect();
    let text = text.ok_or_else(|| no_type("U with bytes that are no text"))?;
    Ok(trimmed(text.as_bytes()).to_vec())
}

#[cfg(test)]
mod tests;
