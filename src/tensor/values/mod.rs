//! Single values in and out of a tensor's bytes: what JSON bodies, typed message fields and
//! previews have in common.
//!
//! [`Packer`] takes values one at a time and packs them as a type's bytes; [`values`] goes the
//! other way, and [`write_json`] writes a whole tensor as a flat JSON array.

use std::io::{self, Write};

use bytes::Bytes;
use half::{bf16, f16};
use serde::Serialize;

use super::{Tensor, dtype::DataType};

/// One element of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// An element of BOOL.
    Bool(bool),
    /// An element of a signed integer type.
    Int(i64),
    /// An element of an unsigned integer type.
    Uint(u64),
    /// An element of FP16, BF16 or FP32.
    Single(f32),
    /// An element of FP64.
    Double(f64),
    /// An element of a string tensor.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Returns the element as a number, if it is one; BOOL counts as 0 and 1.
    #[expect(
        clippy::cast_precision_loss,
        reason = "for statistics and previews, where the nearest double is what is wanted"
    )]
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::Bool(value) => Some(f64::from(u8::from(value))),
            Self::Int(value) => Some(value as f64),
            Self::Uint(value) => Some(value as f64),
            Self::Single(value) => Some(f64::from(value)),
            Self::Double(value) => Some(value),
            Self::Bytes(_) => None,
        }
    }
}

/// Error of converting a value to an element of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The value is of another kind, such as a string for FP32.
    #[error("found {found}, expected a value of {dtype}")]
    Kind {
        /// Value found.
        found: String,
        /// The element type.
        dtype: DataType,
    },
    /// The value is a whole number outside the range of the type.
    #[error("{value} does not fit {dtype}")]
    Range {
        /// Value found.
        value: String,
        /// The element type.
        dtype: DataType,
    },
    /// A string of 4 GiB or more has no length prefix.
    #[error("a string element is longer than 4294967295 bytes")]
    StringLength,
}

/// Packs values into the bytes of a type.
#[derive(Debug)]
pub struct Packer {
    dtype: DataType,
    bytes: Vec<u8>,
    count: usize,
}

impl Packer {
    /// Starts an empty buffer; `expected` elements are made room for, up to a limit, so that a
    /// number from the wire cannot allocate what was not sent.
    pub fn new(dtype: DataType, expected: usize) -> Self {
        const MAX_AHEAD: usize = 1 << 20;
        let capacity = expected.min(MAX_AHEAD) * dtype.size().unwrap_or(8);
        Self {
            dtype,
            bytes: Vec::with_capacity(capacity),
            count: 0,
        }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the number of values so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Ends the packing.
    pub fn finish(self) -> Bytes {
        self.bytes.into()
    }

    /// Adds a truth value; only BOOL takes one.
    ///
    /// # Errors
    ///
    /// Fails if the type is another one.
    pub fn push_bool(&mut self, value: bool) -> Result<(), ValueError> {
        if self.dtype != DataType::Bool {
            return Err(self.kind(value));
        }
        self.put(&[u8::from(value)]);
        Ok(())
    }

    /// Adds a whole number that may be negative.
    ///
    /// # Errors
    ///
    /// Fails if the type takes no numbers or the number is out of its range.
    pub fn push_i64(&mut self, value: i64) -> Result<(), ValueError> {
        self.push_whole(value.into())
    }

    /// Adds a whole number.
    ///
    /// # Errors
    ///
    /// Fails if the type takes no numbers or the number is out of its range.
    pub fn push_u64(&mut self, value: u64) -> Result<(), ValueError> {
        self.push_whole(value.into())
    }

    fn push_whole(&mut self, value: i128) -> Result<(), ValueError> {
        match self.dtype {
            DataType::I8 => self.put_checked(i8::try_from(value).map(i8::to_le_bytes), value),
            DataType::I16 => self.put_checked(i16::try_from(value).map(i16::to_le_bytes), value),
            DataType::I32 => self.put_checked(i32::try_from(value).map(i32::to_le_bytes), value),
            DataType::I64 => self.put_checked(i64::try_from(value).map(i64::to_le_bytes), value),
            DataType::U8 => self.put_checked(u8::try_from(value).map(u8::to_le_bytes), value),
            DataType::U16 => self.put_checked(u16::try_from(value).map(u16::to_le_bytes), value),
            DataType::U32 => self.put_checked(u32::try_from(value).map(u32::to_le_bytes), value),
            DataType::U64 => self.put_checked(u64::try_from(value).map(u64::to_le_bytes), value),
            #[expect(clippy::cast_precision_loss, reason = "a float takes the nearest")]
            _ => self.push_f64(value as f64),
        }
    }

    /// Adds a number with a fraction; only floating point types take one.
    ///
    /// # Errors
    ///
    /// Fails if the type is not a floating point type.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a narrower float takes the nearest value it has"
    )]
    pub fn push_f64(&mut self, value: f64) -> Result<(), ValueError> {
        match self.dtype {
            DataType::F32 => self.put(&(value as f32).to_le_bytes()),
            DataType::F64 => self.put(&value.to_le_bytes()),
            DataType::F16 => self.put(&f16::from_f64(value).to_le_bytes()),
            DataType::Bf16 => self.put(&bf16::from_f64(value).to_le_bytes()),
            _ => return Err(self.kind(value)),
        }
        Ok(())
    }

    /// Adds a string; only string tensors take one.
    ///
    /// # Errors
    ///
    /// Fails if the type is another one or the string is too long.
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<(), ValueError> {
        if self.dtype != DataType::String {
            return Err(self.kind(format!("\"{}\"", String::from_utf8_lossy(value))));
        }
        let length = u32::try_from(value.len()).map_err(|_| ValueError::StringLength)?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.put(value);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
    }

    fn put_checked<E, const N: usize>(
        &mut self,
        bytes: Result<[u8; N], E>,
        value: i128,
    ) -> Result<(), ValueError> {
        let bytes = bytes.map_err(|_| ValueError::Range {
            value: value.to_string(),
            dtype: self.dtype,
        })?;
        self.put(&bytes);
        Ok(())
    }

    fn kind(&self, found: impl ToString) -> ValueError {
        ValueError::Kind {
            found: found.to_string(),
            dtype: self.dtype,
        }
    }
}

/// Iterates over the elements of a tensor.
///
/// A string tensor ends early where its framing is broken.
pub fn values(tensor: &Tensor) -> Values<'_> {
    Values {
        dtype: tensor.dtype(),
        rest: tensor.data(),
    }
}

/// The iterator of [`values`].
#[derive(Debug, Clone)]
pub struct Values<'a> {
    dtype: DataType,
    rest: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        Some(match self.dtype {
            DataType::Bool => Value::Bool(self.take::<1>()?[0] != 0),
            DataType::I8 => Value::Int(i8::from_le_bytes(self.take()?).into()),
            DataType::I16 => Value::Int(i16::from_le_bytes(self.take()?).into()),
            DataType::I32 => Value::Int(i32::from_le_bytes(self.take()?).into()),
            DataType::I64 => Value::Int(i64::from_le_bytes(self.take()?)),
            DataType::U8 => Value::Uint(u8::from_le_bytes(self.take()?).into()),
            DataType::U16 => Value::Uint(u16::from_le_bytes(self.take()?).into()),
            DataType::U32 => Value::Uint(u32::from_le_bytes(self.take()?).into()),
            DataType::U64 => Value::Uint(u64::from_le_bytes(self.take()?)),
            DataType::F16 => Value::Single(f16::from_le_bytes(self.take()?).to_f32()),
            DataType::Bf16 => Value::Single(bf16::from_le_bytes(self.take()?).to_f32()),
            DataType::F32 => Value::Single(f32::from_le_bytes(self.take()?)),
            DataType::F64 => Value::Double(f64::from_le_bytes(self.take()?)),
            DataType::String => {
                let length = u32::from_le_bytes(self.take()?) as usize;
                let (element, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(element)
            }
        })
    }
}

impl<'a> Values<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (element, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*element)
    }
}

/// Writes the elements as a flat JSON array.
///
/// Floats are written with the fewest digits that read back as the same number. Not-a-number and
/// the infinities, for which JSON has no form, are written as `NaN`, `Infinity` and `-Infinity`,
/// which is what model servers and their clients use. Bytes that are not UTF-8 are replaced.
pub fn write_json(tensor: &Tensor, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, value) in values(tensor).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_value(value, out);
    }
    out.push(b']');
}

/// Writes one element as JSON; see [`write_json`].
pub fn write_json_value(value: Value<'_>, out: &mut Vec<u8>) {
    let result = match value {
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(value) => write!(out, "{value}"),
        Value::Uint(value) => write!(out, "{value}"),
        Value::Single(value) if value.is_finite() => as_json(out, &value),
        Value::Double(value) if value.is_finite() => as_json(out, &value),
        Value::Single(value) => out.write_all(not_finite(value.is_nan(), value > 0.0)),
        Value::Double(value) => out.write_all(not_finite(value.is_nan(), value > 0.0)),
        Value::Bytes(value) => as_json(out, &String::from_utf8_lossy(value)),
    };
    result.expect("a Vec takes all bytes, and finite numbers and strings have a JSON form");
}

fn as_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

const fn not_finite(nan: bool, positive: bool) -> &'static [u8] {
    match (nan, positive) {
        (true, _) => b"NaN",
        (false, true) => b"Infinity",
        (false, false) => b"-Infinity",
    }
}

#[cfg(test)]
mod tests;
