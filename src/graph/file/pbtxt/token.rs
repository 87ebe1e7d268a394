//! Tokens of protobuf text, with their positions.

use logos::Logos;

use super::TextError;

/// Kind of a token. Numbers are validated where they are used: anything that looks like one is taken.
#[derive(Logos, Debug, Clone, Copy, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\x0b\x0c]+")]
#[logos(skip(r"#[^\n]*", allow_greedy = true))]
pub(super) enum Kind {
    /// Name or keyword.
    #[regex("[A-Za-z_][A-Za-z0-9_]*")]
    Ident,
    /// Number. In a hexadecimal one, `e` is a digit, behind which there is no sign.
    #[regex("0[xX][0-9A-Za-z.]*")]
    #[regex(r"([1-9]|\.[0-9]|0[0-9A-WYZa-wyz.]|0[eE][+-])([0-9A-Za-z.]|[eE][+-])*|0")]
    Number,
    /// String with its quotes, within a line. The character after a backslash never ends it, whether it
    /// is an escape or not.
    #[regex(r#""([^"\\\n\x00]|\\[^\n\x00])*""#)]
    #[regex(r"'([^'\\\n\x00]|\\[^\n\x00])*'")]
    Text,
    /// Single punctuation character.
    #[regex(r"[{}<>\[\]:,;/.\-]", |lexer| lexer.slice().as_bytes()[0])]
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
pub(super) struct Lexer<'a>(logos::Lexer<'a, Kind>);

impl<'a> Lexer<'a> {
    /// Creates a lexer that begins at this byte.
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        let mut lexer = Kind::lexer(text);
        lexer.bump(at);
        Self(lexer)
    }

    /// Returns the next token.
    pub(super) fn next(&mut self) -> Result<Token, TextError> {
        let next = self.0.next();
        let (span, text) = (self.0.span(), self.0.source());
        let Some(next) = next else {
            let (kind, start, end) = (Kind::End, text.len(), text.len());
            return Ok(Token { kind, start, end });
        };
        let (start, end) = (span.start, span.end);
        let kind = next.map_err(|()| {
            let found = text[start..].chars().next().unwrap_or_default();
            let message = match found {
                '"' | '\'' => format!(
                    "the string that begins here does not end in its line: expected {found}"
                ),
                _ => format!("{found:?} means nothing here"),
            };
            TextError::new(start, message, None)
        })?;
        Ok(Token { kind, start, end })
    }

    /// Returns the text of a token.
    pub(super) fn slice(&self, token: Token) -> &'a str {
        &self.0.source()[token.start..token.end]
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
