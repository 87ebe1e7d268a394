//! Datatypes of KServe and format characters of Python buffers.

use std::ffi::CStr;

use crate::tensor::DataType;

/// One row for each type known to both sides: the type, its format, its size in bytes.
const TABLE: [(DataType, &CStr, usize); 12] = [
    (DataType::Bool, c"?", 1),
    (DataType::U8, c"B", 1),
    (DataType::U16, c"H", 2),
    (DataType::U32, c"I", 4),
    (DataType::U64, c"Q", 8),
    (DataType::I8, c"b", 1),
    (DataType::I16, c"h", 2),
    (DataType::I32, c"i", 4),
    (DataType::I64, c"q", 8),
    (DataType::F16, c"e", 2),
    (DataType::F32, c"f", 4),
    (DataType::F64, c"d", 8),
];

/// Returns the format and the size in bytes of an element; `None` for a type unknown to Python
/// buffers, whose bytes are passed unchanged.
pub(super) fn of_datatype(datatype: DataType) -> Option<(&'static CStr, usize)> {
    TABLE
        .iter()
        .find(|(row, ..)| *row == datatype)
        .map(|(_, format, size)| (*format, *size))
}

/// Returns the KServe name of a buffer's datatype.
///
/// Byte orders count as the machine's. The sizes of `l`, `L`, `n` and `N` are the machine's as well,
/// so that the bytes of an element decide.
pub(super) fn datatype(format: &str, item: usize) -> Option<&'static str> {
    let bare = format.strip_prefix(['=', '<', '@']).unwrap_or(format);
    let found = match bare.as_bytes() {
        [b'l' | b'n'] if item == 8 => Some(DataType::I64),
        [b'l' | b'n'] if item == 4 => Some(DataType::I32),
        [b'L' | b'N'] if item == 8 => Some(DataType::U64),
        [b'L' | b'N'] if item == 4 => Some(DataType::U32),
        bytes => TABLE
            .iter()
            .find(|(_, known, _)| known.to_bytes() == bytes)
            .map(|(row, ..)| *row),
    };
    found.map(DataType::kserve)
}

/// Returns whether elements contain Python objects. Names of fields stand between colons.
pub(super) fn has_objects(format: &str) -> bool {
    format.split(':').step_by(2).any(|part| part.contains('O'))
}
