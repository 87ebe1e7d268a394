//! Standard input line by line, read on a thread of its own so that nothing else has to wait.

use std::io::{self, BufRead, Read as _};

use tokio::sync::mpsc;

/// The longest line. A step of a million numbers takes less.
const LONGEST: usize = 64 << 20;

/// Lines on their way.
#[derive(Debug)]
pub(super) struct Lines(mpsc::Receiver<Result<Line, LineError>>);

/// A line that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1 on; blank lines count.
    pub(super) number: usize,
    pub(super) text: String,
}

/// Why there is no line where one should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("cannot read standard input")]
    Read(#[source] io::Error),
    #[error("line {0} of standard input is longer than {mib} MiB", mib = LONGEST >> 20)]
    TooLong(usize),
    #[error("line {0} of standard input is not UTF-8")]
    NotText(usize),
}

impl Lines {
    /// Starts to read standard input. One line at a time is read ahead.
    pub(super) fn of_stdin() -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(1);
        // It ends with standard input, when nobody wants another line, or with the process.
        ovms::task::thread("stdin", move || {
            for line in Reader::new(io::stdin().lock()) {
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self(lines))
    }

    /// Waits for the next line; `None` at the end.
    ///
    /// A wait that is given up loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Line>, LineError> {
        self.0.recv().await.transpose()
    }
}

/// Takes lines from a source.
struct Reader<R> {
    source: R,
    number: usize,
    longest: usize,
}

impl<R: BufRead> Reader<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            number: 0,
            longest: LONGEST,
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = (&mut self.source).take(self.longest as u64 + 1);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                Err(error) => return Some(Err(LineError::Read(error))),
            }
            if bytes.len() > self.longest && !bytes.ends_with(b"\n") {
                return Some(Err(LineError::TooLong(self.number)));
            }
            let number = self.number;
            match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => return Some(Ok(Line { number, text })),
                Err(_) => return Some(Err(LineError::NotText(number))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineError, Reader};

    fn read(text: &[u8]) -> Vec<String> {
        let mut reader = Reader::new(text);
        reader.longest = 4;
        let line = |line: Result<super::Line, LineError>| match line {
            Ok(line) => format!("{} {}", line.number, line.text.trim_end()),
            Err(error) => error.to_string(),
        };
        reader.map(line).take(4).collect()
    }

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        assert_eq!(read(b"[1]\n\n  \n[2]"), ["1 [1]", "4 [2]"]);
        assert_eq!(read(b""), [""; 0]);
        assert_eq!(read(b"\r\n1\r\n"), ["2 1"]);
    }

    #[test]
    fn a_line_has_a_greatest_length_and_is_text() {
        assert_eq!(read(b"1234\n1234"), ["1 1234", "2 1234"]);
        assert_eq!(
            read(b"1\n12345\n")[1],
            "line 2 of standard input is longer than 64 MiB"
        );
        assert_eq!(read(b"\xff\n")[0], "line 1 of standard input is not UTF-8");
    }
}
