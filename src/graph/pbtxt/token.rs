//! Tokens of protobuf text, with their positions.

use super::TextError;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Name or keyword.
    Ident,
    /// Number.
    Number,
    /// String with its quotes.
    Text,
    /// Single punctuation character.
    Mark(u8),
    /// End of the text.
    End,
}

/// Token and its position, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// Kind of the token.
    pub(super) kind: Kind,
    /// First byte.
    pub(super) start: usize,
    /// Byte after the last.
    pub(super) end: usize,
}

/// Lexer of a text; skips whitespace and comments.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// Returns the next token.
    pub(super) fn next(&mut self) -> Result<Token, TextError> {
        self.skip();
        let bytes = self.text.as_bytes();
        let start = self.at;
        let Some(&first) = bytes.get(start) else {
            return Ok(Token {
                kind: Kind::End,
                start,
                end: start,
            });
        };
        let kind = match first {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => {
                self.run(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                Kind::Ident
            }
            b'0'..=b'9' => self.number(),
            b'.' if bytes.get(start + 1).is_some_and(u8::is_ascii_digit) => self.number(),
            b'"' | b'\'' => self.text(first)?,
            b'{' | b'}' | b'<' | b'>' | b'[' | b']' | b':' | b',' | b';' | b'/' | b'-' | b'.' => {
                self.at += 1;
                Kind::Mark(first)
            }
            _ => {
                let found = self.text[start..].chars().next().unwrap_or_default();
                let message = format!("{found:?} means nothing here");
                return Err(TextError::new(start, message, None));
            }
        };
        let end = self.at;
        Ok(Token { kind, start, end })
    }

    /// Returns the text of a token.
    pub(super) fn slice(&self, token: Token) -> &'a str {
        &self.text[token.start..token.end]
    }

    fn skip(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b'\x0b' | b'\x0c' => self.at += 1,
                b'#' => self.run(|byte| byte != b'\n'),
                _ => break,
            }
        }
    }

    fn run(&mut self, goes_on: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| !goes_on(*byte));
        self.at += length.unwrap_or(rest.len());
    }

    /// Reads anything that looks like a number; it is validated where it is used.
    fn number(&mut self) -> Kind {
        let bytes = self.text.as_bytes();
        let is_hex = bytes[self.at..].starts_with(b"0x") || bytes[self.at..].starts_with(b"0X");
        let mut last = b'0';
        while let Some(&byte) = bytes.get(self.at) {
            let is_sign = matches!(byte, b'+' | b'-') && matches!(last, b'e' | b'E') && !is_hex;
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || is_sign) {
                break;
            }
            last = byte;
            self.at += 1;
        }
        Kind::Number
    }

    fn text(&mut self, quote: u8) -> Result<Kind, TextError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(&byte) if byte == quote => {
                    self.at += 1;
                    return Ok(Kind::Text);
                }
                None | Some(b'\n' | b'\0') => {
                    let message = format!(
                        "the string that begins here does not end in its line: expected {}",
                        char::from(quote)
                    );
                    return Err(TextError::new(start, message, None));
                }
                // The character after a backslash never ends the string, whether it is
                // an escape or not.
                Some(b'\\') if !matches!(bytes.get(self.at + 1), None | Some(b'\n' | b'\0')) => {
                    self.at += 2;
                }
                Some(_) => self.at += 1,
            }
        }
    }
}

/// Returns the end of the token at a byte; the byte itself if there is none.
pub(in crate::graph) fn token_end(text: &str, at: usize) -> usize {
    match Lexer::new(text, at).next() {
        Ok(token) if token.start == at => token.end,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Lexer};

    fn words(text: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(text, 0);
        let mut words = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            if token.kind == Kind::End {
                return words;
            }
            words.push(lexer.slice(token));
        }
    }

    #[test]
    fn words_are_distinguished() {
        assert_eq!(
            words("a: -1.5e+3,b{c:'it\\'s' # no 'string'\n}[x.y / z]0x1F .5"),
            [
                "a", ":", "-", "1.5e+3", ",", "b", "{", "c", ":", "'it\\'s'", "}", "[", "x", ".",
                "y", "/", "z", "]", "0x1F", ".5"
            ]
        );
        assert_eq!(words("# only a comment"), [""; 0]);
    }

    #[test]
    fn strings_end_in_their_line() {
        for text in ["a: \"x", "a: \"x\n\"", "a: \"x\\", "a: \"x\\\n\""] {
            let mut lexer = Lexer::new(text, 3);
            assert_eq!(lexer.next().unwrap_err().at, 3, "{text:?}");
        }
        let unknown = Lexer::new("ä", 0).next().unwrap_err();
        assert_eq!(unknown.message, "'ä' means nothing here");
    }
}
