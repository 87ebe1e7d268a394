//! Events of the text format with indented continuation lines, so that only an event begins a line,
//! whatever text of a client or of a handler it contains.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

/// Indent of each further line of an event.
const INDENT: &str = "    ";

/// Factory of indenting writers.
pub(super) struct Indented<W>(pub(super) W);

/// Writer that receives whole events.
pub(super) struct Lines<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Indented<W> {
    type Writer = Lines<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines(self.0.make_writer())
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        Lines(self.0.make_writer_for(meta))
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let whole = event.strip_suffix(b"\n").unwrap_or(event);
        if whole.iter().any(|byte| breaks(*byte)) {
            // In one piece, so that no other event gets between it and its end.
            let mut text = indented(whole);
            text.extend_from_slice(&event[whole.len()..]);
            self.0.write_all(&text)?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns whether a byte begins a line, overwrites one, or makes a file binary.
const fn breaks(byte: u8) -> bool {
    matches!(byte, 0 | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Indents further lines. Other line breaks are shown escaped.
fn indented(event: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(event.len() + 64);
    for byte in event {
        match byte {
            b'\n' => {
                text.push(b'\n');
                text.extend_from_slice(INDENT.as_bytes());
            }
            byte if breaks(*byte) => text.extend(byte.escape_ascii()),
            byte => text.push(*byte),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Lines;

    #[test]
    fn only_an_event_begins_a_line() {
        let mut written = Vec::new();
        let mut lines = Lines(&mut written);
        lines.write_all(b"INFO a\n").unwrap();
        lines
            .write_all(b"ERROR Traceback:\n  File\r\nERROR forged\0\n")
            .unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "INFO a\nERROR Traceback:\n      File\\r\n    ERROR forged\\x00\n"
        );
    }
}
