//! A place in a JSON text.

use std::borrow::Cow;

use super::{JsonError, number::Number};

/// A place in a JSON text, which moves forward only.
#[derive(Debug, Clone)]
pub(in crate::frontends) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
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

    /// Goes through the members of an object; each is passed over by `member`.
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
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((&self.text[start..self.at], plain));
                }
                Some(b'\\') => {
                    plain = false;
                    self.escape()?;
                }
                Some(0..0x20) | None => return Err(JsonError::Syntax),
                Some(_) => self.at += 1,
            }
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
    pub(super) fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(JsonError::Syntax);
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over a value of any kind; returns its text.
    pub(in crate::frontends) fn value(&mut self) -> Result<&'a [u8], JsonError> {
        self.token();
        let start = self.at;
        self.skip()?;
        Ok(&self.text[start..self.at])
    }

    /// Passes over a value of any kind, however deep it is.
    pub(in crate::frontends) fn skip(&mut self) -> Result<(), JsonError> {
        // What ends each list and object that is open; a bit each would be enough.
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.token() {
                Some(b'[') => {
                    self.at += 1;
                    if !self.take(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                Some(b'{') => {
                    self.at += 1;
                    if !self.take(b'}') {
                        open.push(b'}');
                        self.string_token()?;
                        self.expect(b':')?;
                        continue;
                    }
                }
                Some(b'"') => drop(self.string_token()?),
                Some(b'-' | b'0'..=b'9') => drop(Number::read(self)?),
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
