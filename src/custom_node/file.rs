//! The file of a library, before the system maps it.
//!
//! The system's loader trusts what the headers of a file say: with one that ends before, as while
//! it is being copied, the process dies of a bus error.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

/// The first bytes of a 64-bit little-endian ELF file.
const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";

/// Bytes of the file's header.
const HEADER: usize = 64;

/// Bytes of the header of a segment.
const SEGMENT: usize = 56;

/// The kind of segments that are mapped.
const LOAD: u64 = 1;

/// Returns whether a file is a library that ends before its last segment does. What cannot be read,
/// or is another kind of file, the system's loader finds itself.
pub(super) fn is_cut_short(path: &Path) -> bool {
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    match segments_end(&mut file) {
        Ok(Some(end)) => file.metadata().is_ok_and(|found| found.len() < end),
        Ok(None) => false,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}

/// Returns the end of the segment that goes furthest; `None` if it is another kind of file. Ends
/// early if the file does so within its headers.
fn segments_end(file: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    let mut header = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut header)?;
    if !header.starts_with(&MAGIC) {
        return Ok(None);
    }
    if header.len() < HEADER {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if number(&header[54..56]) != SEGMENT as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(number(&header[32..40])))?;
    let mut end = 0;
    for _ in 0..number(&header[56..58]) {
        let mut segment = [0; SEGMENT];
        file.read_exact(&mut segment)?;
        if number(&segment[..4]) == LOAD {
            let [offset, size] = [&segment[8..16], &segment[32..40]].map(number);
            end = end.max(offset.saturating_add(size));
        }
    }
    Ok(Some(end))
}

/// Reads a number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, ErrorKind};

    use super::segments_end;

    #[test]
    fn the_segments_of_a_program_end_within_it() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let end = segments_end(&mut Cursor::new(&whole)).unwrap().unwrap();
        assert!(end > 1000 && end <= whole.len() as u64, "{end}");
        for length in [6, 63, 64, 100] {
            let error = segments_end(&mut Cursor::new(&whole[..length])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{length}");
        }
    }

    #[test]
    fn other_files_are_not_validated() {
        for other in [&b""[..], b"\x7fELF", b"\x7fELF\x01\x01 of 32 bits", b"text"] {
            assert_eq!(segments_end(&mut Cursor::new(other)).unwrap(), None);
        }
    }
}
