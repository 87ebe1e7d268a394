//! Datatypes of KServe and format characters of Python buffers.

use std::ffi::CStr;

/// One row for each type known to both sides: its name in KServe, its format, its size in bytes.
const TABLE: [(&str, &CStr, usize); 12] = [
    ("BOOL", c"?", 1),
    ("UINT8", c"B", 1),
    ("UINT16", c"H", 2),
    ("UINT32", c"I", 4),
    ("UINT64", c"Q", 8),
    ("INT8", c"b", 1),
    ("INT16", c"h", 2),
    ("INT32", c"i", 4),
    ("INT64", c"q", 8),
    ("FP16", c"e", 2),
    ("FP32", c"f", 4),
    ("FP64", c"d", 8),
];

/// The datatypes that Python buffers know.
pub(super) const NAMES: [&str; 12] = {
    let mut names = [""; 12];
    let mut row = 0;
    while row < TABLE.len() {
        names[row] = TABLE[row].0;
        row += 1;
    }
    names
};

/// Returns the format and the size in bytes of an element; `None` for a type unknown to Python buffers, whose bytes
/// are passed unchanged.
pub(super) fn of_datatype(datatype: &str) -> Option<(&'static CStr, usize)> {
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
    match bare.as_bytes() {
        [b'l' | b'n'] if item == 8 => Some("INT64"),
        [b'l' | b'n'] if item == 4 => Some("INT32"),
        [b'L' | b'N'] if item == 8 => Some("UINT64"),
        [b'L' | b'N'] if item == 4 => Some("UINT32"),
        bytes => TABLE
            .iter()
            .find(|(_, known, _)| known.to_bytes() == bytes)
            .map(|(row, ..)| *row),
    }
}

/// Returns whether elements contain Python objects. Names of fields stand between colons.
pub(super) fn has_objects(format: &str) -> bool {
    format.split(':').step_by(2).any(|part| part.contains('O'))
}
