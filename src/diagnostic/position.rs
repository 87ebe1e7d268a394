//! Positions in texts, as people count them.

use std::fmt;

/// Position in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePosition {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// Number of characters concerned, at most to the end of the line.
    pub width: usize,
    /// Path through the JSON, such as `model_config_list[0].config.nireq`; empty for the file as a whole,
    /// and in other files.
    pub path: String,
}

impl fmt::Display for FilePosition {
    /// Writes `7:15`, and the path if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)?;
        match self.path.is_empty() {
            true => Ok(()),
            false => write!(f, " {}", self.path),
        }
    }
}

impl From<(usize, usize)> for FilePosition {
    /// Converts line and column.
    fn from((line, column): (usize, usize)) -> Self {
        Self {
            line,
            column,
            width: 1,
            path: String::new(),
        }
    }
}

/// Index of the lines of a text. Each position is found without going through the text before it, so
/// that many in a file of one line take no time.
#[derive(Debug)]
pub struct LineIndex {
    /// Offsets at which lines begin, except the first.
    lines: Vec<usize>,
    /// Bytes that are in a character and not its first, which are no columns.
    inner: Vec<usize>,
}

impl LineIndex {
    /// Indexes a text.
    pub fn new(text: &str) -> Self {
        let places = |is_one: fn(&u8) -> bool, shift: usize| -> Vec<usize> {
            let bytes = text.bytes().enumerate();
            let found = bytes.filter(|(_, byte)| is_one(byte));
            found.map(|(place, _)| place + shift).collect()
        };
        Self {
            lines: places(|byte| *byte == b'\n', 1),
            inner: places(|byte| byte & 0xC0 == 0x80, 0),
        }
    }

    /// Returns line and column of a byte.
    pub fn place(&self, byte: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= byte);
        let start = line.checked_sub(1).map_or(0, |before| self.lines[before]);
        let inner = |byte| self.inner.partition_point(|inner| *inner < byte);
        (line + 1, byte - start - (inner(byte) - inner(start)) + 1)
    }

    /// Returns the position of a range of bytes of the text, which begins within it.
    pub fn position(&self, text: &str, (start, end): (usize, usize)) -> FilePosition {
        let marked = text.get(start..end).unwrap_or_default();
        let marked = marked.lines().next().unwrap_or_default();
        FilePosition {
            width: marked.chars().count().max(1),
            ..self.place(start).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::LineIndex;

    proptest! {
        #[test]
        fn places_are_those_that_counting_gives(text in "[ab\u{e4}\u{1f600}\r\n]{0,60}", byte in 0_usize..200) {
            let byte = (0..=byte.min(text.len())).rev().find(|byte| text.is_char_boundary(*byte));
            let before = &text[..byte.unwrap()];
            let line = before.split('\n').next_back().unwrap_or_default();
            let place = LineIndex::new(&text).place(before.len());
            prop_assert_eq!(place, (before.split('\n').count(), line.chars().count() + 1));
        }
    }

    #[test]
    fn a_position_ends_with_its_line() {
        let text = "{\n ä: [1,\n2]}";
        let position = |start, end| LineIndex::new(text).position(text, (start, end)).width;
        assert_eq!((position(3, 5), position(7, 13), position(2, 2)), (1, 3, 1));
    }
}
