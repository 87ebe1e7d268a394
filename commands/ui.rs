//! What is written to the terminal: data to stdout, all else to stderr.

use std::io::{self, Write};

/// Writes data to stdout.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a remark to stderr; if nobody reads it, nothing is lost.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
