//! Standard input, or a file, line by line, read on a thread of its own so that nothing else has to
//! wait.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use tokio::sync::mpsc;

use crate::error::Failure;

/// Maximum length of a line, in bytes. A step of a million numbers takes less.
const LONGEST: usize = 64 << 20;

/// Stream of lines.
#[derive(Debug)]
pub(super) struct Lines {
    lines: mpsc::Receiver<Result<Line, Failure>>,
    /// Name of the source.
    source: String,
}

/// Nonblank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Line number, from 1 on; blank lines count.
    pub(super) number: usize,
    pub(super) text: String,
}

impl Lines {
    /// Starts reading standard input. One line is read ahead.
    pub(super) fn of_stdin() -> io::Result<Self> {
        Self::of("standard input".to_owned(), || io::stdin().lock())
    }

    /// Starts reading a file.
    pub(super) fn of_file(path: &Path) -> io::Result<Self> {
        let file = BufReader::new(File::open(path)?);
        Self::of(path.display().to_string(), || file)
    }

    fn of<R: BufRead>(
        source: String,
        open: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(1);
        let name = source.clone();
        // It ends with the source, when nobody wants another line, or with the process.
        ovms::task::thread("lines", move || {
            for line in Reader::new(open(), name) {
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { lines, source })
    }

    /// Describes the position of a line.
    pub(super) fn place(&self, number: usize) -> String {
        format!("line {number} of {}", self.source)
    }

    /// Waits for the next line; `None` at the end.
    ///
    /// This method is cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Line>, Failure> {
        self.lines.recv().await.transpose()
    }
}

/// Reader of lines from a source.
struct Reader<R> {
    source: R,
    name: String,
    number: usize,
    longest: usize,
}

impl<R: BufRead> Reader<R> {
    fn new(source: R, name: String) -> Self {
        Self {
            source,
            name,
            number: 0,
            longest: LONGEST,
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = (&mut self.source).take(self.longest as u64 + 1);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                Err(error) => {
                    let text = format!("cannot read {}", self.name);
                    return Some(Err(Failure::failed(text).caused_by(&error)));
                }
            }
            let (number, name) = (self.number, &self.name);
            let refused = |what: String| {
                Some(Err(Failure::failed(format!(
                    "line {number} of {name} is {what}"
                ))))
            };
            if bytes.len() > self.longest && !bytes.ends_with(b"\n") {
                return refused(format!("longer than {} MiB", LONGEST >> 20));
            }
            match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => return Some(Ok(Line { number, text })),
                Err(_) => return refused("not UTF-8".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Reader};

    fn read(text: &[u8]) -> Vec<String> {
        let mut reader = Reader::new(text, "standard input".to_owned());
        reader.longest = 4;
        let line = |line: Result<super::Line, Failure>| match line {
            Ok(line) => format!("{} {}", line.number, line.text.trim_end()),
            Err(failure) => failure.line(),
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
