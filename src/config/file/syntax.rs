//! Parser of a file's bytes, which keeps the place of everything in its JSON.
//!
//! JSON as it is defined, and two things more: comments (`#` or `//` to the end of the line) and a
//! comma before a closing bracket. Comments are made blank, so that what remains keeps its place.

use jsonc_parser::{
    CollectOptions, ParseOptions, ast::Value, common::Ranged, errors::ParseErrorKind, parse_to_ast,
};

use crate::{
    diagnostic::{Diagnostic, FilePosition, LineIndex, Severity},
    text::cut_chars,
};

/// Maximum nesting depth of lists and objects. Valid files need at most 8 levels.
const MAX_DEPTH: usize = 64;

/// The text of a file.
#[derive(Debug)]
pub(in crate::config) struct Source {
    /// The text as in the file.
    original: String,
    /// The same with blanks in the place of comments.
    json: String,
    lines: LineIndex,
}

/// Options of the JSON parser: comments are gone by then, so none are allowed.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

impl Source {
    /// Reads UTF-8 text and finds its comments.
    pub(in crate::config) fn new(content: &[u8]) -> Result<Self, Box<Diagnostic>> {
        let content = without_mark(content);
        let original = match std::str::from_utf8(content) {
            Ok(text) => text.to_owned(),
            Err(error) => {
                let valid = String::from_utf8_lossy(&content[..error.valid_up_to()]).into_owned();
                let found = match content {
                    [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "text in UTF-16".to_owned(),
                    _ => format!("the byte 0x{:02X}", content[error.valid_up_to()]),
                };
                let end = valid.len();
                let source = Self::of(valid);
                return Err(source.error((end, end), "", found, "text in UTF-8").into());
            }
        };
        let mut source = Self::of(original);
        source.json = source.blank()?;
        Ok(source)
    }

    fn of(original: String) -> Self {
        Self {
            json: String::new(),
            lines: LineIndex::new(&original),
            original,
        }
    }

    /// Parses the text.
    pub(in crate::config) fn parse(&self) -> Result<Value<'_>, Box<Diagnostic>> {
        let empty = || Box::new(self.error((0, 0), "", "an empty file", "a JSON object"));
        if self.json.trim().is_empty() {
            return Err(empty());
        }
        let parsed = parse_to_ast(&self.json, &CollectOptions::default(), &OPTIONS);
        match parsed {
            Ok(parsed) => parsed.value.ok_or_else(empty),
            Err(error) => {
                let range = error.range();
                let reason = match error.kind() {
                    ParseErrorKind::CommentsNotAllowed => "another form of comment".to_owned(),
                    kind => kind.to_string(),
                };
                let mut reason = reason.chars();
                let reason: String = reason
                    .next()
                    .into_iter()
                    .flat_map(char::to_lowercase)
                    .chain(reason)
                    .collect();
                let end = range.end.min(self.json.len()).max(range.start);
                // Where something is missing, what follows is shown.
                let what = match self.json.get(range.start..end).unwrap_or_default() {
                    "" => self.json.get(range.start..).unwrap_or_default(),
                    what => what,
                };
                let found = match what.trim_start().lines().next() {
                    Some(line) => format!("`{}` ({reason})", shorten(line.trim_end())),
                    None => format!("the end of the file ({reason})"),
                };
                let expected = match error.kind() {
                    ParseErrorKind::CommentsNotAllowed => {
                        "JSON, in which comments begin with # or // and end with the line"
                    }
                    _ => "JSON",
                };
                Err(self.error((range.start, end), "", found, expected).into())
            }
        }
    }

    /// Returns the text as in the file.
    pub(in crate::config) fn original(&self) -> &str {
        &self.original
    }

    /// Returns the text with blanks in the place of comments: byte for byte as long.
    pub(in crate::config) fn json(&self) -> &str {
        &self.json
    }

    /// Returns the place of a range of bytes.
    pub(in crate::config) fn place(
        &self,
        (start, end): (usize, usize),
        path: &str,
    ) -> FilePosition {
        let start = match self.original.is_char_boundary(start) {
            true => start,
            false => self.original.len(),
        };
        FilePosition {
            path: path.to_owned(),
            ..self.lines.position(&self.original, (start, end))
        }
    }

    /// Makes an error for a range of bytes.
    pub(in crate::config) fn error(
        &self,
        range: (usize, usize),
        path: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(Severity::Error, (found, expected)).at(self.place(range, path))
    }

    /// Returns the JSON with blanks in the place of comments.
    fn blank(&self) -> Result<String, Box<Diagnostic>> {
        let mut json = String::with_capacity(self.original.len());
        let mut characters = self.original.char_indices().peekable();
        // Where the string that is being read began.
        let mut string: Option<usize> = None;
        let mut depth = 0_usize;
        while let Some((index, character)) = characters.next() {
            if let Some(start) = string {
                json.push(character);
                match character {
                    '"' => string = None,
                    '\\' => {
                        if let Some((_, escaped)) = characters.next() {
                            json.push(escaped);
                        }
                    }
                    character if character < ' ' => {
                        return Err(Box::new(self.error(
                            (start, index),
                            "",
                            "a string that does not end on its line, or has a control character",
                            "a closing quote, or an escape such as \\n",
                        )));
                    }
                    _ => {}
                }
                continue;
            }
            let comment = character == '#'
                || (character == '/' && characters.peek().is_some_and(|(_, next)| *next == '/'));
            if comment {
                json.push(' ');
                while let Some((_, skipped)) =
                    characters.next_if(|(_, character)| !matches!(character, '\n' | '\r'))
                {
                    // As many blanks as bytes.
                    json.extend(std::iter::repeat_n(' ', skipped.len_utf8()));
                }
                continue;
            }
            match character {
                '"' => string = Some(index),
                '{' | '[' => {
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return Err(Box::new(self.error(
                            (index, index + 1),
                            "",
                            "lists and objects in one another without end",
                            format!("at most {MAX_DEPTH} in one another"),
                        )));
                    }
                }
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            json.push(character);
        }
        Ok(json)
    }
}

/// Returns the bytes of a file without the byte order mark.
pub(super) fn without_mark(content: &[u8]) -> &[u8] {
    content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content)
}

/// Returns the bytes that a value takes.
pub(in crate::config) fn range(value: &Value<'_>) -> (usize, usize) {
    let range = value.range();
    (range.start, range.end)
}

/// Shortens a text that would fill the screen.
pub(in crate::config) fn shorten(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    cut_chars(text, MAX_SHOWN)
}
