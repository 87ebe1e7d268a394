//! Scalar values: strings, numbers, booleans.

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
        return if *kind == FieldKind::Bytes {
            Ok(Value::Bytes(bytes.into()))
        } else {
            let text = String::from_utf8(bytes);
            text.map(Value::String)
                .map_err(|_| Unfit::from("a string in UTF-8"))
        };
    }
    let is_negative = token.kind == Kind::Mark(b'-');
    if is_negative {
        token = lexer.next().map_err(|_| Unfit::from("a number"))?;
    }
    let word = lexer.slice(token);
    let number = |low: i128, high: i128, expected: &str| {
        let value = integer(token, word).ok_or_else(|| Unfit::from(expected))?;
        let value = if is_negative { -value } else { value };
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(Unfit {
                expected: format!("{expected} from {low} to {high}"),
                hint: None,
            })
        }
    };
    // Each range is that of the target type.
    #[expect(clippy::cast_possible_truncation, reason = "in the range")]
    #[expect(clippy::cast_sign_loss, reason = "in the range")]
    Ok(match kind {
        FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => {
            Value::I32(number(i32::MIN.into(), i32::MAX.into(), "a whole number")? as i32)
        }
        FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => {
            Value::I64(number(i64::MIN.into(), i64::MAX.into(), "a whole number")? as i64)
        }
        FieldKind::Uint32 | FieldKind::Fixed32 => {
            Value::U32(number(0, u32::MAX.into(), "a whole number")? as u32)
        }
        FieldKind::Uint64 | FieldKind::Fixed64 => {
            Value::U64(number(0, u64::MAX.into(), "a whole number")? as u64)
        }
        FieldKind::Float | FieldKind::Double => {
            let value = float(token, word).ok_or_else(|| Unfit::from("a number"))?;
            let value = if is_negative { -value } else { value };
            if *kind == FieldKind::Float {
                Value::F32(value as f32)
            } else {
                Value::F64(value)
            }
        }
        FieldKind::Bool => {
            let value = match (word, integer(token, word)) {
                ("true" | "True" | "t", _) | (_, Some(1)) => Some(true),
                ("false" | "False" | "f", _) | (_, Some(0)) => Some(false),
                _ => None,
            };
            let value = value.filter(|_| !is_negative);
            Value::Bool(value.ok_or_else(|| Unfit::from("`true` or `false`"))?)
        }
        FieldKind::Enum(known) => {
            let number = if token.kind == Kind::Ident && !is_negative {
                known.get_value_by_name(word).map(|value| value.number())
            } else {
                let value = number(i32::MIN.into(), i32::MAX.into(), "a value").ok();
                let value = value.and_then(|value| i32::try_from(value).ok());
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

fn integer(token: Token, word: &str) -> Option<i128> {
    if token.kind != Kind::Number {
        return None;
    }
    let hex = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let (digits, radix) = if let Some(digits) = hex {
        (digits, 16)
    } else if word.len() > 1 && word.starts_with('0') {
        (&word[1..], 8)
    } else {
        (word, 10)
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
    if is_any {
        Ok(bytes)
    } else {
        Err(Unfit::from("a string in quotes"))
    }
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
        let done = match value {
            Some(value) if is_char => char::from_u32(value).map(|found| {
                let mut buffer = [0; 4];
                into.extend_from_slice(found.encode_utf8(&mut buffer).as_bytes());
            }),
            Some(value) => u8::try_from(value).ok().map(|byte| into.push(byte)),
            None => None,
        };
        if done.is_none() {
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
