//! Element types and their names in the protocols.

use std::fmt;

use serde::{Serialize, Serializer};

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed 8 bit.
    I8,
    /// Signed 16 bit.
    I16,
    /// Signed 32 bit.
    I32,
    /// Signed 64 bit.
    I64,
    /// Unsigned 8 bit.
    U8,
    /// Unsigned 16 bit.
    U16,
    /// Unsigned 32 bit.
    U32,
    /// Unsigned 64 bit.
    U64,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an IEEE 754 single.
    Bf16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Byte strings; packed as a 4-byte little-endian length and the bytes, one after another.
    String,
}

/// Type, bytes of an element, name in KServe v2, name in error texts, name in NumPy.
type Row = (
    DataType,
    Option<usize>,
    &'static str,
    &'static str,
    Option<&'static str>,
);

/// One row for each type.
const NAMES: [Row; 14] = [
    (DataType::Bool, Some(1), "BOOL", "BOOL", Some("|b1")),
    (DataType::I8, Some(1), "INT8", "I8", Some("|i1")),
    (DataType::I16, Some(2), "INT16", "I16", Some("<i2")),
    (DataType::I32, Some(4), "INT32", "I32", Some("<i4")),
    (DataType::I64, Some(8), "INT64", "I64", Some("<i8")),
    (DataType::U8, Some(1), "UINT8", "U8", Some("|u1")),
    (DataType::U16, Some(2), "UINT16", "U16", Some("<u2")),
    (DataType::U32, Some(4), "UINT32", "U32", Some("<u4")),
    (DataType::U64, Some(8), "UINT64", "U64", Some("<u8")),
    (DataType::F16, Some(2), "FP16", "FP16", Some("<f2")),
    (DataType::Bf16, Some(2), "BF16", "BF16", None),
    (DataType::F32, Some(4), "FP32", "FP32", Some("<f4")),
    (DataType::F64, Some(8), "FP64", "FP64", Some("<f8")),
    (DataType::String, None, "BYTES", "STRING", None),
];

impl DataType {
    /// Every type.
    pub const ALL: [Self; 14] = {
        let mut all = [Self::Bool; 14];
        let mut index = 0;
        while index < all.len() {
            all[index] = NAMES[index].0;
            index += 1;
        }
        all
    };

    /// Returns the bytes of one element; `None` for strings, whose elements differ in length.
    pub const fn size(self) -> Option<usize> {
        NAMES[self as usize].1
    }

    /// Returns the name in the KServe v2 protocol, such as `FP32`, `INT64` or `BYTES`.
    pub const fn kserve(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// Returns the name that error texts use for a model's precision, such as `I32`.
    pub const fn precision(self) -> &'static str {
        NAMES[self as usize].3
    }

    /// Returns NumPy's name of the type, if it has one.
    pub const fn numpy(self) -> Option<&'static str> {
        NAMES[self as usize].4
    }

    /// Finds a type by its KServe v2 name.
    pub fn from_kserve(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.kserve() == name)
    }

    /// Returns whether elements are floating point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kserve())
    }
}

impl Serialize for DataType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.kserve())
    }
}

#[cfg(test)]
mod tests {
    use super::{DataType, NAMES};

    #[test]
    fn the_table_stands_in_the_order_of_the_types() {
        for (index, row) in NAMES.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
            assert_eq!(DataType::from_kserve(row.2), Some(row.0));
        }
        assert_eq!(DataType::from_kserve("fp32"), None);
    }
}
