//! Syntax tree of a text, before its meaning is known: nested fields with their positions.

use super::{
    TextError,
    token::{Kind, Lexer, Token},
};
use crate::{diagnostic::LineIndex, text::cut_chars};

/// Maximum nesting depth of messages and lists.
pub(super) const MAX_DEPTH: usize = 100;

/// Expected token between fields.
const A_NAME: &str = "the name of a field";

/// Field as written.
#[derive(Debug)]
pub(in crate::graph) struct Field<'a> {
    /// Name.
    pub(super) name: Name<'a>,
    /// Position of the name, in bytes.
    pub(in crate::graph) at: usize,
    /// Value.
    pub(in crate::graph) value: Value<'a>,
}

/// Name of a field.
#[derive(Debug)]
pub(super) enum Name<'a> {
    /// Plain name.
    Plain(&'a str),
    /// Full name of an extension, in brackets.
    Extension(Box<str>),
    /// Type URL, in brackets.
    Type(Box<str>),
}

/// Value as written.
#[derive(Debug)]
pub(in crate::graph) struct Value<'a> {
    /// Position, in bytes.
    pub(in crate::graph) at: usize,
    /// Kind of the value.
    pub(super) shape: Shape<'a>,
}

/// Kind of a value.
#[derive(Debug)]
pub(super) enum Shape<'a> {
    /// Scalar, with or without a minus sign; it is read again where it is used.
    Scalar,
    /// Fields in braces.
    Message(Box<[Field<'a>]>),
    /// Values in brackets.
    List(Box<[Value<'a>]>),
}

/// Parses a text. The error names the node, if the text has named it by then.
pub(super) fn read(text: &str) -> Result<Box<[Field<'_>]>, TextError> {
    let mut reader = Reader {
        lexer: Lexer::new(text, 0),
        ahead: None,
        text,
        depth: 0,
        opened: Vec::new(),
        node: None,
    };
    let read = reader.fields(None);
    read.map_err(|error| TextError {
        node: reader.node,
        ..error
    })
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    ahead: Option<Token>,
    text: &'a str,
    depth: usize,
    /// Names and positions of the open messages.
    opened: Vec<(String, usize)>,
    node: Option<String>,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Result<Token, TextError> {
        if let Some(token) = self.ahead {
            return Ok(token);
        }
        let token = self.lexer.next()?;
        self.ahead = Some(token);
        Ok(token)
    }

    fn bump(&mut self) {
        self.ahead = None;
    }

    /// Consumes a mark if it is next.
    fn takes(&mut self, mark: u8) -> Result<bool, TextError> {
        let is_next = self.peek()?.kind == Kind::Mark(mark);
        if is_next {
            self.bump();
        }
        Ok(is_next)
    }

    fn unexpected<T>(&mut self, expected: &str) -> Result<T, TextError> {
        let token = self.peek()?;
        let (found, hint) = if token.kind == Kind::End {
            let hint = self.opened.last().map(|(name, at)| {
                let (line, column) = LineIndex::new(self.text).place(*at);
                format!("`{name}` at {line}:{column} is not closed")
            });
            ("the end of the text".to_owned(), hint)
        } else {
            let is_close = matches!(token.kind, Kind::Mark(b'}' | b'>'));
            let is_outside = self.opened.is_empty() && expected == A_NAME;
            let hint = "there is a brace too many here or above".to_owned();
            let hint = (is_close && is_outside).then_some(hint);
            (format!("`{}`", cut(self.lexer.slice(token))), hint)
        };
        let message = format!("found {found}, expected {expected}");
        Err(TextError::new(token.start, message, hint))
    }

    /// Parses fields up to the closing mark, or to the end of the text.
    fn fields(&mut self, end: Option<u8>) -> Result<Box<[Field<'a>]>, TextError> {
        let mut fields = Vec::new();
        loop {
            let token = self.peek()?;
            match (token.kind, end) {
                (Kind::End, None) => break,
                (Kind::Mark(mark), Some(end)) if mark == end => {
                    self.bump();
                    break;
                }
                (Kind::Ident | Kind::Mark(b'['), _) => {
                    let field = self.field()?;
                    self.learn(&field);
                    fields.push(field);
                }
                (_, Some(end)) => {
                    let end = char::from(end);
                    return self.unexpected(&format!("the name of a field or `{end}`"));
                }
                (_, None) => return self.unexpected(A_NAME),
            }
        }
        Ok(fields.into_boxed_slice())
    }

    /// Remembers the name of a node for errors in the rest of it.
    fn learn(&mut self, field: &Field<'_>) {
        let name = field.plain();
        match self.opened.len() {
            0 => self.node = None,
            1 if self.opened[0].0 == "node" => {
                let takes =
                    name == Some("name") || (name == Some("calculator") && self.node.is_none());
                if takes && matches!(field.value.shape, Shape::Scalar) {
                    let text = super::scalar::text_at(self.text, field.value.at).ok();
                    self.node = text.and_then(|text| String::from_utf8(text).ok());
                }
            }
            _ => {}
        }
    }

    fn field(&mut self) -> Result<Field<'a>, TextError> {
        let token = self.peek()?;
        let at = token.start;
        self.bump();
        let name = if token.kind == Kind::Ident {
            Name::Plain(self.lexer.slice(token))
        } else {
            self.bracketed()?
        };
        let has_colon = self.takes(b':')?;
        let next = self.peek()?;
        if !has_colon && !matches!(next.kind, Kind::Mark(b'{' | b'<' | b'[')) {
            return self.unexpected(&after(&name));
        }
        let value = self.value(&name, at, true)?;
        let is_message = |value: &Value<'_>| matches!(value.shape, Shape::Message(_));
        if !has_colon && !value.each().iter().all(is_message) {
            let message = format!("found `[`, expected {}", after(&name));
            return Err(TextError::new(next.start, message, None));
        }
        if !self.takes(b',')? {
            self.takes(b';')?;
        }
        Ok(Field { name, at, value })
    }

    /// Reads a bracketed name, with or without spaces.
    fn bracketed(&mut self) -> Result<Name<'a>, TextError> {
        let mut name = String::new();
        let mut is_type = false;
        loop {
            let token = self.peek()?;
            match token.kind {
                Kind::Mark(b']') if !name.is_empty() && !name.ends_with(['/', '.']) => {
                    self.bump();
                    break;
                }
                Kind::Mark(b'/') if !name.is_empty() => {
                    is_type = true;
                    name.push('/');
                }
                Kind::Mark(b'.' | b'-') | Kind::Ident | Kind::Number => {
                    name.push_str(self.lexer.slice(token));
                }
                _ => {
                    return self.unexpected(
                        "the name of an extension or `type.googleapis.com/` and that of a type, \
                         and `]`",
                    );
                }
            }
            self.bump();
        }
        let name = name.into_boxed_str();
        Ok(match is_type {
            true => Name::Type(name),
            false => Name::Extension(name),
        })
    }

    fn value(
        &mut self,
        name: &Name<'a>,
        named_at: usize,
        may_be_list: bool,
    ) -> Result<Value<'a>, TextError> {
        let token = self.peek()?;
        let at = token.start;
        let shape = match token.kind {
            Kind::Mark(open @ (b'{' | b'<')) => {
                self.deeper(at)?;
                self.bump();
                if self.opened.is_empty() {
                    self.node = None;
                }
                self.opened.push((called(name), named_at));
                let end = if open == b'{' { b'}' } else { b'>' };
                let fields = self.fields(Some(end))?;
                self.opened.pop();
                self.depth -= 1;
                Shape::Message(fields)
            }
            Kind::Mark(b'[') if may_be_list => {
                self.deeper(at)?;
                self.bump();
                let mut values = Vec::new();
                let mut is_over = self.takes(b']')?;
                while !is_over {
                    values.push(self.value(name, named_at, false)?);
                    is_over = self.takes(b']')?;
                    if !is_over && !self.takes(b',')? {
                        return self.unexpected("`,` or `]`");
                    }
                }
                self.depth -= 1;
                Shape::List(values.into_boxed_slice())
            }
            Kind::Mark(b'-') => {
                self.bump();
                if !matches!(self.peek()?.kind, Kind::Number | Kind::Ident) {
                    return self.unexpected("a number");
                }
                self.bump();
                Shape::Scalar
            }
            Kind::Text | Kind::Ident | Kind::Number => {
                self.bump();
                while token.kind == Kind::Text && self.peek()?.kind == Kind::Text {
                    self.bump();
                }
                Shape::Scalar
            }
            _ => {
                let name = called(name);
                return self.unexpected(&format!("a value for `{name}`"));
            }
        };
        Ok(Value { at, shape })
    }

    fn deeper(&mut self, at: usize) -> Result<(), TextError> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("messages are nested deeper than {MAX_DEPTH} levels");
        let hint = "no graph needs that: look for a brace too many".to_owned();
        Err(TextError::new(at, message, Some(hint)))
    }
}

/// Returns what has to follow a name.
fn after(name: &Name<'_>) -> String {
    format!("`:` or `{{` after `{}`", called(name))
}

/// Returns a name as quoted in messages.
fn called(name: &Name<'_>) -> String {
    match name {
        Name::Plain(name) => cut(name),
        Name::Extension(name) | Name::Type(name) => format!("[{}]", cut(name)),
    }
}

/// Shortens a text quoted in a message.
pub(super) fn cut(text: &str) -> String {
    const MAX_QUOTED: usize = 60;
    cut_chars(text, MAX_QUOTED)
}

impl<'a> Field<'a> {
    /// Returns the name, unless it is in brackets.
    pub(super) fn plain(&self) -> Option<&'a str> {
        match self.name {
            Name::Plain(name) => Some(name),
            _ => None,
        }
    }
}

impl<'a> Value<'a> {
    /// Finds the value of a field in this message, or in one within it.
    pub(in crate::graph) fn find(&self, name: &str) -> Option<&Self> {
        let mut fields = self.each().iter().flat_map(Self::fields);
        fields.find_map(|field| match field.plain() == Some(name) {
            true => Some(&field.value),
            false => field.value.find(name),
        })
    }

    /// Returns the values of a repeated field: this one, or those of the list.
    pub(super) fn each(&self) -> &[Self] {
        match &self.shape {
            Shape::List(values) => values,
            _ => std::slice::from_ref(self),
        }
    }

    /// Returns the fields, if it is a message.
    pub(in crate::graph) fn fields(&self) -> &[Field<'a>] {
        match &self.shape {
            Shape::Message(fields) => fields,
            _ => &[],
        }
    }
}

/// Returns the values of a repeated field in source order.
pub(in crate::graph) fn all<'a>(
    fields: &'a [Field<'a>],
    name: &'a str,
) -> impl Iterator<Item = &'a Value<'a>> {
    let named = fields.iter().filter(move |it| it.plain() == Some(name));
    named.flat_map(|field| field.value.each())
}

/// Returns the first value of a field.
pub(in crate::graph) fn first<'a>(fields: &'a [Field<'a>], name: &'a str) -> Option<&'a Value<'a>> {
    all(fields, name).next()
}
