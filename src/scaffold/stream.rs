//! An input or output as it is asked for: `NAME[:DTYPE[:SHAPE]]`.

use std::{fmt, str::FromStr};

use crate::tensor::DataType;

/// The name that generators use themselves.
const LOOPBACK: &str = "loopback";

/// An input or output, with what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaffoldStream {
    /// Its name.
    pub name: String,
    /// Its datatype; any if `None`.
    pub dtype: Option<DataType>,
    /// Its shape, -1 for any length; any if `None`.
    pub shape: Option<Vec<i64>>,
    /// Shape to try it with, if not any length will do where the shape has -1.
    pub tried: Option<Vec<i64>>,
}

/// Error of parsing a [`ScaffoldStream`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A name that streams cannot have.
    #[error(
        "`{}` cannot be the name of a stream: expected lower case letters, digits and `_`, not starting with a digit",
        .0.escape_debug()
    )]
    Name(String),
    /// A name that is taken.
    #[error("`{LOOPBACK}` is what generators call a stream of their own; choose another name")]
    Loopback,
    /// No datatype.
    #[error("found the datatype `{0}`, expected one of {names}", names = names())]
    DataType(String),
    /// No shape.
    #[error("found the shape `{0}`, expected lengths such as 1,3,-1 (-1 for any)")]
    Shape(String),
}

impl ScaffoldStream {
    /// Makes one of which nothing is known.
    pub fn untyped(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            dtype: None,
            shape: None,
            tried: None,
        }
    }

    /// Makes one for an input or output of a model, under a name like the model's that is free.
    pub fn like(port: &Self, taken: &[Self]) -> Self {
        let mut name = spelled(&port.name);
        while name == LOOPBACK || taken.iter().any(|other| other.name == name) {
            name.push('_');
        }
        port.named(name)
    }

    /// Returns the same with datatype and shape of an input or output of a model, unless it has a datatype: of the
    /// one that is called like it, else of the one in its place.
    #[must_use]
    pub fn typed_as(self, place: usize, ports: &[Self]) -> Self {
        if self.dtype.is_some() {
            return self;
        }
        let mut named = ports.iter().filter(|port| spelled(&port.name) == self.name);
        match named.next().or_else(|| ports.get(place)) {
            Some(port) => port.named(self.name),
            None => self,
        }
    }

    /// Returns whether whatever is of this type and shape is of that of another one, too.
    pub(super) fn fits(&self, other: &Self) -> bool {
        let lengths = match (&self.shape, &other.shape) {
            (Some(own), Some(others)) => {
                let mut pairs = own.iter().zip(others);
                own.len() == others.len() && pairs.all(|(own, other)| [-1, *own].contains(other))
            }
            _ => true,
        };
        self.dtype == other.dtype && lengths
    }

    /// Returns whether a tensor may be of both, as far as they say.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let lengths = match (&self.shape, &other.shape) {
            (Some(own), Some(others)) => {
                let mut pairs = own.iter().zip(others);
                let is_open = |own: i64, other: i64| own == other || own == -1 || other == -1;
                own.len() == others.len() && pairs.all(|(own, other)| is_open(*own, *other))
            }
            _ => true,
        };
        self.dtype == other.dtype && lengths
    }

    /// Returns the same under another name.
    pub fn named(&self, name: String) -> Self {
        Self {
            name,
            ..self.clone()
        }
    }

    /// Returns the name as a tag.
    pub(super) fn tag(&self) -> String {
        self.name.to_ascii_uppercase()
    }
}

impl FromStr for ScaffoldStream {
    type Err = StreamError;

    fn from_str(text: &str) -> Result<Self, StreamError> {
        let (name, rest) = text
            .split_once(':')
            .map_or((text, None), |(name, rest)| (name, Some(rest)));
        if !is_name(name) {
            return Err(StreamError::Name(name.to_owned()));
        }
        if name == LOOPBACK {
            return Err(StreamError::Loopback);
        }
        let Some(rest) = rest else {
            return Ok(Self::untyped(name));
        };
        let (dtype, shape) = match rest.find([':', '[', '(']) {
            None => (rest, None),
            Some(at) => {
                let shape = &rest[at..];
                (&rest[..at], Some(shape.strip_prefix(':').unwrap_or(shape)))
            }
        };
        let known = DataType::from_kserve(&dtype.to_ascii_uppercase());
        Ok(Self {
            name: name.to_owned(),
            dtype: Some(known.ok_or_else(|| StreamError::DataType(dtype.to_owned()))?),
            shape: shape.map(lengths).transpose()?,
            tried: None,
        })
    }
}

impl fmt::Display for ScaffoldStream {
    /// Writes name, type and shape: `image  UINT8 (-1,-1,3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(dtype) = self.dtype {
            write!(f, "  {dtype}")?;
        }
        if let Some(shape) = &self.shape {
            write!(f, " ({})", joined(shape, ","))?;
        }
        Ok(())
    }
}

/// Writes a shape with something between the lengths.
pub(super) fn joined(shape: &[i64], between: &str) -> String {
    let lengths: Vec<String> = shape.iter().map(i64::to_string).collect();
    lengths.join(between)
}

/// Returns the nearest name that streams can have.
pub(super) fn spelled(name: &str) -> String {
    let name = plain(name);
    match is_name(&name) {
        true => name,
        false => format!("_{name}"),
    }
}

/// Returns a text with `_` for all but letters and digits, in lower case.
pub(super) fn plain(text: &str) -> String {
    text.to_ascii_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Returns whether streams and nodes can be called so.
pub(super) fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn lengths(text: &str) -> Result<Vec<i64>, StreamError> {
    let error = || StreamError::Shape(text.to_owned());
    let bare = [('[', ']'), ('(', ')')].iter().find_map(|(open, close)| {
        let rest = text.strip_prefix(*open)?;
        Some(rest.strip_suffix(*close).ok_or_else(error))
    });
    let bare = bare.transpose()?.unwrap_or(text).trim();
    if bare.is_empty() {
        return Ok(Vec::new());
    }
    let lengths = bare.split(',').map(|length| {
        let length: i64 = length.trim().parse().map_err(|_| error())?;
        // What makes a tensor of this size is for nobody to try.
        match length {
            -1 | 1..=1_000_000 => Ok(length),
            _ => Err(error()),
        }
    });
    lengths.collect()
}

fn names() -> String {
    DataType::ALL.map(|dtype| dtype.kserve()).join(", ")
}
