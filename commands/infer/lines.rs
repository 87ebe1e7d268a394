//! Lines of standard input or a file, which are read on a thread of their own.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use tokio::sync::mpsc;

use crate::error::Failure;

/// Maximum length of a line, in bytes. A step of a million numbers takes less.
const MAX_LINE_LEN: usize = 64 << 20;

/// Character with which some editors begin their files.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Removes the byte order mark that a file may begin with.
pub(crate) fn strip_mark(text: &mut String) {
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
}

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
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines, source })
    }

    /// Returns the name of the source.
    pub(super) fn source(&self) -> &str {
        &self.source
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
    state: ReaderState,
}

/// State of a reader before it looks for the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Begins,
    /// Passes over the rest of a line that is too long.
    Skips,
    /// Ends, since the source has failed.
    Ends,
}

impl<R: BufRead> Reader<R> {
    fn new(source: R, name: String) -> Self {
        Self {
            source,
            name,
            number: 0,
            longest: MAX_LINE_LEN,
            state: ReaderState::Begins,
        }
    }

    /// Ends with a failure of the source.
    fn failed(&mut self, error: &io::Error) -> Failure {
        self.state = ReaderState::Ends;
        Failure::failed(format!("cannot read {}", self.name)).caused_by(error)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.state {
            ReaderState::Begins => {}
            ReaderState::Skips => {
                self.state = ReaderState::Begins;
                if let Err(error) = self.source.skip_until(b'\n') {
                    return Some(Err(self.failed(&error)));
                }
            }
            ReaderState::Ends => return None,
        }
        loop {
            let mut bytes = Vec::new();
            let mut limited = (&mut self.source).take(self.longest as u64 + 1);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                Err(error) => return Some(Err(self.failed(&error))),
            }
            let (number, name) = (self.number, &self.name);
            let refused =
                |what: &str| Failure::failed(format!("line {number} of {name} is {what}"));
            if bytes.len() > self.longest && !bytes.ends_with(b"\n") {
                self.state = ReaderState::Skips;
                let what = format!("longer than {} MiB", MAX_LINE_LEN >> 20);
                return Some(Err(refused(&what)));
            }
            match String::from_utf8(bytes) {
                Ok(mut text) => {
                    if number == 1 {
                        strip_mark(&mut text);
                    }
                    if !text.trim().is_empty() {
                        return Some(Ok(Line { number, text }));
                    }
                }
                Err(_) => {
                    let hint = "raw samples are read with `-i -:pcm16` or `-i -:f32`";
                    return Some(Err(refused("not UTF-8").hint(hint)));
                }
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
        reader.map(line).take(5).collect()
    }

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        assert_eq!(read(b"[1]\n\n  \n[2]"), ["1 [1]", "4 [2]"]);
        assert_eq!(read(b""), [""; 0]);
        assert_eq!(read(b"\r\n1\r\n"), ["2 1"]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(read("\u{feff}1\n2".as_bytes()), ["1 1", "2 2"]);
        assert_eq!(read("\u{feff}\n2".as_bytes()), ["2 2"]);
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

    #[test]
    fn lines_behind_one_that_cannot_be_used_are_read() {
        assert_eq!(
            read(b"1\n12345678\n3\n\xff\n5\n"),
            [
                "1 1",
                "line 2 of standard input is longer than 64 MiB",
                "3 3",
                "line 4 of standard input is not UTF-8",
                "5 5",
            ]
        );
    }
}
