//! Lines that are written to files whole, as far as there is room for them.

use std::io::{self, Write};

/// Writes lines.
///
/// # Errors
///
/// Fails with the number of bytes that were written before.
pub fn put(mut file: impl Write, lines: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < lines.len() {
        match file.write(&lines[written..]) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}
