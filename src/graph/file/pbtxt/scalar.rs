//! Scalar values: strings, numbers, booleans.

use std::fmt::Display;

use prost_reflect::{Kind as FieldKind, Value};

use super::token::{Kind, Lexer, Token};
use crate::error::nearest;

/// Error for a value that does not fit its field.
pub(super) struct Unfit {
    /// Description of the expected value.
    pub(super) expected: String,
    /// Suggested fix.
    pub(super) hint: Option<String>,
}

impl From<&str> for Unfit {
    fn from(expected: &str) -> Self {
        Self {
            expected: expected.to_owned(),
            hint: None,
        }
    }
}

/// Reads the scalar at a position as the type of a field, except messages.
pub(super) fn read(text: &str, at: usize, kind: &FieldKind) -> Result<Value, Unfit> {
    let mut lexer = Lexer::new(text, at);
    let mut token = lexer.next().map_err(|_| Unfit::from("a value"))?;
    if matches!(kind, FieldKind::String | FieldKind::Bytes) {
        let bytes = text_at(text, at)?;
        if *kind == FieldKind::Bytes {
            return Ok(Value::Bytes(bytes.into()));
        }
        let text = String::from_utf8(bytes).map_err(|_| Unfit::from("a string in UTF-8"));
        return text.map(Value::String);
    }
    let is_negative = token.kind == Kind::Mark(b'-');
    if is_negative {
        token = lexer.next().map_err(|_| Unfit::from("a number"))?;
    }
    let word = lexer.slice(token);
    let integer = integer(token, word).map(|value| if is_negative { -value } else { value });
    Ok(match kind {
        FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => {
            Value::I32(whole(integer, i32::MIN, i32::MAX)?)
        }
        FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => {
            Value::I64(whole(integer, i64::MIN, i64::MAX)?)
        }
        FieldKind::Uint32 | FieldKind::Fixed32 => Value::U32(whole(integer, 0, u32::MAX)?),
        FieldKind::Uint64 | FieldKind::Fixed64 => Value::U64(whole(integer, 0, u64::MAX)?),
        FieldKind::Float | FieldKind::Double => {
            let value = float(token, word).ok_or_else(|| Unfit::from("a number"))?;
            let value = if is_negative { -value } else { value };
            match kind {
                FieldKind::Float => Value::F32(value as f32),
                _ => Value::F64(value),
            }
        }
        FieldKind::Bool => Value::Bool(match (word, integer) {
            ("true" | "True" | "t", _) | (_, Some(1)) if !is_negative => true,
            ("false" | "False" | "f", _) | (_, Some(0)) if !is_negative => false,
            _ => return Err(Unfit::from("`true` or `false`")),
        }),
        FieldKind::Enum(known) => {
            let number = if token.kind == Kind::Ident && !is_negative {
                known.get_value_by_name(word).map(|value| value.number())
            } else {
                let value = integer.and_then(|value| i32::try_from(value).ok());
                value.filter(|value| known.get_value(*value).is_some())
            };
            Value::EnumNumber(number.ok_or_else(|| {
                let names: Vec<String> = known.values().map(|v| v.name().to_owned()).collect();
                let near = nearest(word, names.iter().map(String::as_str));
                Unfit {
                    expected: format!("one of {}", names.join(", ")),
                    hint: near.map(|name| format!("did you mean {name}?")),
                }
            })?)
        }
        FieldKind::String | FieldKind::Bytes | FieldKind::Message(_) => {
            return Err(Unfit::from("fields in braces"));
        }
    })
}

/// Returns a number in the range of its type.
fn whole<T: TryFrom<i128> + Display>(value: Option<i128>, low: T, high: T) -> Result<T, Unfit> {
    let value = value.ok_or_else(|| Unfit::from("a whole number"))?;
    let unfit = || Unfit::from(&*format!("a whole number from {low} to {high}"));
    T::try_from(value).map_err(|_| unfit())
}

fn integer(token: Token, word: &str) -> Option<i128> {
    if token.kind != Kind::Number {
        return None;
    }
    let hex = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) => (digits, 16),
        None if word.len() > 1 && word.starts_with('0') => (&word[1..], 8),
        None => (word, 10),
    };
    u64::from_str_radix(digits, radix).ok().map(i128::from)
}

fn float(token: Token, word: &str) -> Option<f64> {
    if token.kind == Kind::Ident {
        return match word.to_ascii_lowercase().as_str() {
            "inf" | "infinity" => Some(f64::INFINITY),
            "nan" => Some(f64::NAN),
            _ => None,
        };
    }
    let is_decimal = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+-fF".contains(&byte));
    let is_octal = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_digit());
    if token.kind != Kind::Number || !is_decimal || (is_octal && word.starts_with('0')) {
        return None;
    }
    word.strip_suffix(['f', 'F']).unwrap_or(word).parse().ok()
}

/// Reads the adjacent strings at a position as one.
pub(super) fn text_at(text: &str, at: usize) -> Result<Vec<u8>, Unfit> {
    let mut lexer = Lexer::new(text, at);
    let mut bytes = Vec::new();
    let mut is_any = false;
    while let Ok(token) = lexer.next() {
        if token.kind != Kind::Text {
            break;
        }
        is_any = true;
        unescape(&text[token.start + 1..token.end - 1], &mut bytes)?;
    }
    is_any
        .then_some(bytes)
        .ok_or(Unfit::from("a string in quotes"))
}

fn unescape(mut rest: &str, into: &mut Vec<u8>) -> Result<(), Unfit> {
    while let Some(at) = rest.find('\\') {
        into.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let mut chars = rest.chars();
        let escape = chars.next().unwrap_or_default();
        let known = match escape {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '?' | '\\' | '\'' | '"' => u8::try_from(escape).ok(),
            _ => None,
        };
        let (skip, digits, radix, most) = match escape {
            'x' | 'X' => (1, 1, 16, 2),
            'u' => (1, 4, 16, 4),
            'U' => (1, 8, 16, 8),
            _ => (0, 1, 8, 3),
        };
        if let Some(byte) = known {
            into.push(byte);
            rest = chars.as_str();
            continue;
        }
        let code = rest.get(skip..).unwrap_or_default();
        let count = code.chars().take(most).take_while(|c| c.is_digit(radix));
        let count = count.count();
        let value = u32::from_str_radix(&code[..count], radix).ok();
        let value = value.filter(|_| count >= digits);
        let is_char = matches!(escape, 'u' | 'U');
        if let Some(found) = value.filter(|_| is_char).and_then(char::from_u32) {
            into.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
        } else if let Some(byte) = value
            .filter(|_| !is_char)
            .and_then(|v| u8::try_from(v).ok())
        {
            into.push(byte);
        } else {
            return Err(Unfit {
                expected: format!("a string without the unknown escape `\\{escape}`"),
                hint: Some("write `\\\\` for a backslash".to_owned()),
            });
        }
        rest = &code[count..];
    }
    into.extend_from_slice(rest.as_bytes());
    Ok(())
}
