//! JSON lists of numbers, truth values, and strings straight into the bytes of a tensor.
//!
//! [`Cursor`] goes through a JSON text by hand, for readers that know what they look for;
//! [`Elements`] takes one value after another off it, nested in lists, and packs the elements as a
//! type. There is no tree between: a number goes from the text to its place in one step.
//!
//! Only correct JSON is read, but for one thing: `NaN`, `Infinity`, and `-Infinity` are elements of types of
//! floating point, as Python writes them, and nothing anywhere else. A reader that meets an error asks [`no_object`]
//! whether the text as a whole is JSON at all, which is slower and says where it ends to be.

mod elements;
mod number;

use std::borrow::Cow;

use serde::de::IgnoredAny;

use self::number::Number;
use crate::{
    error::{Error, ErrorKind},
    tensor::{DataType, values::ValueError},
};

pub(super) use elements::{Elements, Rules, is_base64};

/// Error of reading a text as the elements of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonError {
    /// Text that is no JSON.
    #[error("malformed JSON")]
    Syntax,
    /// Lists within lists within lists.
    #[error("recursion limit exceeded")]
    Deep,
    /// Lists of one level differ in length, or values are not all as deep as each other.
    #[error("the lists are not rectangular")]
    Ragged,
    /// A single value where a list belongs.
    #[error("expected a list")]
    NoList,
    /// Value that is no element of any type.
    #[error("found {found}, expected {expected}")]
    Kind {
        /// Kind of value found.
        found: &'static str,
        /// Kind of value expected.
        expected: Cow<'static, str>,
    },
    /// Strings and other elements in one list.
    #[error("strings and other values are mixed")]
    Mixed,
    /// A string that is not what it says it is.
    #[error("a string cannot be read: {0}")]
    Text(String),
    /// `b64` is not base64.
    #[error("`b64` is not base64: {0}")]
    Base64(base64::DecodeError),
    /// Two members of an object with the same name.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// A number that is not finite, in the place of something else than an element.
    #[error(
        "{0} stands where it is no element of a tensor of FP16, FP32, or FP64, and JSON has no such value; leave it out"
    )]
    NotFinite(&'static str),
    /// A value of another type or beyond the range of the type.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// The error of a body as a whole, unless its reader knows better. If it is no JSON at all, the client gets the
/// words of `json_error` instead.
impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::invalid(format!("Invalid JSON structure. - {error}"))
    }
}

impl JsonError {
    fn kind(found: &'static str, dtype: DataType) -> Self {
        Self::Kind {
            found,
            expected: Cow::Owned(format!("a list of {dtype} values")),
        }
    }
}

/// Maximum depth of lists in a tensor. None has as many dimensions.
const MAX_DEPTH: usize = 128;

/// Maximum depth of lists and objects of anything: a tensor, and what it is in.
const MAX_OPEN: usize = MAX_DEPTH + 8;

/// Returns the error of a body that is no JSON or no object; `None` if it is an object, or too deep to be looked at,
/// which its reader has said.
pub(super) fn no_object(body: &[u8]) -> Option<Error> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Some(not_json("The document is empty.", 0));
    }
    let mut cursor = Cursor::new(body);
    let mut has_words = false;
    let read = cursor.pass(&mut |_| {
        has_words = true;
        Ok(())
    });
    let read = read.and_then(|()| match cursor.token() {
        None => Ok(()),
        Some(_) => Err(JsonError::Syntax),
    });
    match read {
        // Whether words belong where they stand, the reader knows.
        Ok(()) | Err(JsonError::Deep) => {}
        Err(error) if has_words => return Some(not_json(&error.to_string(), cursor.at)),
        // Its words are those that clients know. It remembers each list that is open, which are few.
        Err(_) => {
            if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
                return Some(not_json(&reason(&error), offset(body, &error)));
            }
        }
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    (first != Some(&b'{')).then(|| Error::invalid("Request body should be JSON object"))
}

fn not_json(reason: &str, offset: usize) -> Error {
    Error::new(
        ErrorKind::InvalidJson,
        format!("The file is not valid json - Error: {reason} Offset: {offset}"),
    )
}

/// The message without the place, which is given as an offset.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The offset in bytes of an error's line and column.
fn offset(body: &[u8], error: &serde_json::Error) -> usize {
    let before: usize = body
        .split_inclusive(|&byte| byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    before + error.column().saturating_sub(1)
}

/// The words for what is no finite number, as Python's `json.dumps` writes them.
const NOT_FINITE: [(&str, f64); 3] = [
    ("NaN", f64::NAN),
    ("Infinity", f64::INFINITY),
    ("-Infinity", f64::NEG_INFINITY),
];

/// A place in a JSON text, which moves forward only.
#[derive(Debug, Clone)]
pub(in crate::frontends) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins at the start of a text.
    pub(in crate::frontends) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns how many bytes follow.
    pub(in crate::frontends) fn left(&self) -> usize {
        self.text.len() - self.at
    }

    /// Passes over blanks and returns the byte behind them, without passing over it.
    #[inline]
    pub(in crate::frontends) fn token(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Passes over blanks and one byte, if it is this one.
    #[inline]
    pub(in crate::frontends) fn take(&mut self, byte: u8) -> bool {
        let found = self.token() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Passes over blanks and a byte that has to be there.
    pub(in crate::frontends) fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        self.take(byte).then_some(()).ok_or(JsonError::Syntax)
    }

    /// Passes over what ends one element of a list or object: a comma (`true`) or the end, which
    /// is this byte (`false`).
    pub(in crate::frontends) fn more(&mut self, end: u8) -> Result<bool, JsonError> {
        match self.token() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(JsonError::Syntax),
        }
    }

    /// Visits the members of an object; `member` passes over each.
    pub(in crate::frontends) fn members<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{')?;
        let mut more = !self.take(b'}');
        while more {
            let key = self.key()?;
            member(self, key)?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    /// Passes over the key of an object's member and the colon.
    pub(in crate::frontends) fn key(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Passes over a string.
    pub(in crate::frontends) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let (token, plain) = self.string_token()?;
        if plain {
            return std::str::from_utf8(&token[1..token.len() - 1])
                .map(Cow::Borrowed)
                .map_err(|error| JsonError::Text(error.to_string()));
        }
        serde_json::from_slice(token)
            .map(Cow::Owned)
            .map_err(|error| {
                let text = error.to_string();
                // The place would be one within the string.
                let end = text.rfind(" at line ").unwrap_or(text.len());
                JsonError::Text(text[..end].to_owned())
            })
    }

    /// Passes over a string; returns it with its quotes, and whether it stands for itself.
    fn string_token(&mut self) -> Result<(&'a [u8], bool), JsonError> {
        self.expect(b'"')?;
        let start = self.at - 1;
        let mut plain = true;
        loop {
            let rest = &self.text[self.at..];
            let end = memchr::memchr2(b'"', b'\\', rest);
            let length = end.unwrap_or(rest.len());
            if let Some(control) = rest[..length].iter().position(|byte| *byte < 0x20) {
                self.at += control;
                return Err(JsonError::Syntax);
            }
            self.at += length;
            if end.is_none() {
                return Err(JsonError::Syntax);
            }
            if rest[length] == b'"' {
                self.at += 1;
                return Ok((&self.text[start..self.at], plain));
            }
            plain = false;
            self.escape()?;
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let length = match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u')
                if self
                    .text
                    .get(self.at + 2..self.at + 6)
                    .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) =>
            {
                6
            }
            _ => return Err(JsonError::Syntax),
        };
        self.at += length;
        Ok(())
    }

    /// Passes over a word such as `null`.
    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(JsonError::Syntax);
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over a word for what is no finite number, if one is here. Asked where there would be an error without it.
    #[cold]
    fn not_finite(&mut self) -> Option<(&'static str, f64)> {
        let text = &self.text[self.at..];
        let mut words = NOT_FINITE.into_iter();
        let found = words.find(|(word, _)| text.starts_with(word.as_bytes()))?;
        self.at += found.0.len();
        Some(found)
    }

    /// Passes over a value of any kind; returns its text.
    pub(in crate::frontends) fn value(&mut self) -> Result<&'a [u8], JsonError> {
        self.token();
        let start = self.at;
        self.skip()?;
        Ok(&self.text[start..self.at])
    }

    /// Passes over what may be the elements of a tensor, as [`Cursor::value`] does; returns its text.
    pub(in crate::frontends) fn data(&mut self) -> Result<&'a [u8], JsonError> {
        self.token();
        let start = self.at;
        self.skip_data()?;
        Ok(&self.text[start..self.at])
    }

    /// Passes over a value of any kind.
    pub(in crate::frontends) fn skip(&mut self) -> Result<(), JsonError> {
        self.pass(&mut |word| Err(JsonError::NotFinite(word)))
    }

    /// Passes over what may be the elements of a tensor, as [`Cursor::skip`] does.
    pub(in crate::frontends) fn skip_data(&mut self) -> Result<(), JsonError> {
        self.pass(&mut |_| Ok(()))
    }

    /// Passes over a value of any kind; asks about each word for what is no finite number.
    fn pass(
        &mut self,
        word: &mut impl FnMut(&'static str) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        // What ends each list and object that is open; a bit each would be enough.
        let mut open: Vec<u8> = Vec::new();
        let enter = |open: &mut Vec<u8>, end| {
            open.push(end);
            match open.len() <= MAX_OPEN {
                true => Ok(()),
                false => Err(JsonError::Deep),
            }
        };
        loop {
            match self.token() {
                Some(b'[') => {
                    self.at += 1;
                    if !self.take(b']') {
                        enter(&mut open, b']')?;
                        continue;
                    }
                }
                Some(b'{') => {
                    self.at += 1;
                    if !self.take(b'}') {
                        enter(&mut open, b'}')?;
                        self.string_token()?;
                        self.expect(b':')?;
                        continue;
                    }
                }
                Some(b'"') => drop(self.string_token()?),
                Some(b'-' | b'0'..=b'9' | b'N' | b'I') => {
                    if Number::read(self).is_err() {
                        let (found, _) = self.not_finite().ok_or(JsonError::Syntax)?;
                        word(found)?;
                    }
                }
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return Err(JsonError::Syntax),
            }
            loop {
                let Some(&end) = open.last() else {
                    return Ok(());
                };
                if !self.more(end)? {
                    open.pop();
                    continue;
                }
                if end == b'}' {
                    self.string_token()?;
                    self.expect(b':')?;
                }
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
