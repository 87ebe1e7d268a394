//! JSON arrays as elements of a tensor: nested or flat, straight into packed bytes.
//!
//! Bytes stand as text, or as TensorFlow Serving has them: `{"b64": "…"}`.
//!
//! A document of a million numbers never becomes a tree of values: each number goes into a
//! [`Packer`] as it is read, and the lengths of the lists become the shape.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use half::{bf16, f16};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use super::error::BoxError;
use crate::tensor::{
    DataType, ShapeText, Tensor,
    values::{Packer, Value, ValueError},
};

/// The words for numbers that JSON has no form for, as model servers write them.
const NOT_FINITE: [(&str, f64); 3] = [
    ("-Infinity", f64::NEG_INFINITY),
    ("Infinity", f64::INFINITY),
    ("NaN", f64::NAN),
];

/// The elements of a JSON value and the shape that its lists have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Elements {
    /// The lengths of the lists from the outside in; empty for a single value.
    pub shape: Vec<usize>,
    /// The elements, packed.
    pub data: Bytes,
}

/// Returns the number that a word stands for, if it is one that JSON has no form for.
pub(super) fn not_finite(word: &str) -> Option<f64> {
    let found = NOT_FINITE.iter().find(|(known, _)| *known == word);
    found.map(|(_, number)| *number)
}

/// Reads a value, a list, or lists of lists of equal lengths, as elements of a type.
pub(super) fn elements(text: &str, dtype: DataType) -> Result<Elements, serde_json::Error> {
    elements_with(text, dtype, &[])
}

/// Reads elements where `null` stands for numbers that JSON has no form for: `holes` has their places
/// among the elements, from the first to the last, and the numbers.
fn elements_with(
    text: &str,
    dtype: DataType,
    holes: &[(usize, f64)],
) -> Result<Elements, serde_json::Error> {
    let text = quote_not_finite(text);
    let mut collector = Collector {
        packer: Packer::new(dtype, text.len() / 8),
        lengths: Vec::new(),
        depth: None,
        holes,
    };
    let mut json = serde_json::Deserializer::from_str(&text);
    let node = Node {
        collector: &mut collector,
        level: 0,
    };
    node.deserialize(&mut json)?;
    json.end()?;
    Ok(Elements {
        shape: collector.lengths.into_iter().flatten().collect(),
        data: collector.packer.finish(),
    })
}

/// Reads the elements of a tensor whose shape is known, whatever the lists.
pub(super) fn tensor(
    text: &str,
    dtype: DataType,
    shape: Vec<usize>,
    holes: &[(usize, f64)],
) -> Result<Tensor, BoxError> {
    let found = elements_with(text, dtype, holes)?;
    let count: usize = found.shape.iter().product();
    if crate::tensor::elements(&shape) != Some(count) {
        return Err(format!("found {count} elements for shape {}", ShapeText(&shape)).into());
    }
    Ok(Tensor::new(dtype, shape, found.data)?)
}

/// Number from which on a float is written with an exponent.
const LONG: f64 = 1e21;

/// Writes an element with all of its digits.
pub(super) fn written(value: Value<'_>) -> String {
    match value {
        Value::Bool(value) => u8::from(value).to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Single(value) if f64::from(value).abs() < LONG => value.to_string(),
        Value::Single(value) => format!("{value:e}"),
        Value::Double(value) if value.abs() < LONG => value.to_string(),
        Value::Double(value) => format!("{value:e}"),
        Value::Bytes(value) => String::from_utf8_lossy(value).into_owned(),
    }
}

/// Returns whether a finite number is beyond the largest of a floating point type.
#[expect(
    clippy::cast_possible_truncation,
    reason = "that is what becomes infinite"
)]
pub(super) fn overflows(value: Value<'_>, dtype: DataType) -> bool {
    let Some(number) = value.as_f64().filter(|number| number.is_finite()) else {
        return false;
    };
    match dtype {
        DataType::F32 => (number as f32).is_infinite(),
        DataType::F16 => f16::from_f64(number).is_infinite(),
        DataType::Bf16 => bf16::from_f64(number).is_infinite(),
        _ => false,
    }
}

/// Puts quotes around `NaN` and the infinities, so that the text is JSON.
///
/// [`elements`] takes the quoted words as numbers again.
pub(super) fn quote_not_finite(text: &str) -> Cow<'_, str> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(start) = rest.find(['"', 'N', 'I', '-']) {
        quoted.push_str(&rest[..start]);
        rest = &rest[start..];
        let word = NOT_FINITE.iter().find(|(word, _)| rest.starts_with(word));
        let end = match word {
            Some((word, _)) => {
                quoted.push('"');
                quoted.push_str(word);
                quoted.push('"');
                rest = &rest[word.len()..];
                continue;
            }
            None if rest.starts_with('"') => string_end(rest),
            None => 1,
        };
        quoted.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    quoted.push_str(rest);
    Cow::Owned(quoted)
}

/// Returns where the string that the text begins with ends, its quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

struct Collector<'h> {
    packer: Packer,
    /// The length of the lists of each level, as soon as one of them ended.
    lengths: Vec<Option<usize>>,
    /// The level on which values stand, as soon as one was met.
    depth: Option<usize>,
    /// Values of the next `null`s.
    holes: &'h [(usize, f64)],
}

/// One value or list on its way into the collector.
struct Node<'a, 'h> {
    collector: &'a mut Collector<'h>,
    level: usize,
}

impl Node<'_, '_> {
    fn leaf<E: serde::de::Error>(
        self,
        push: impl FnOnce(&mut Packer) -> Result<(), ValueError>,
    ) -> Result<(), E> {
        let is_beside_a_list = self.level < self.collector.lengths.len()
            || *self.collector.depth.get_or_insert(self.level) != self.level;
        if is_beside_a_list {
            return Err(E::custom("found a value beside a list"));
        }
        push(&mut self.collector.packer).map_err(E::custom)
    }

    /// Adds a number, unless it would become infinite.
    fn number<E: serde::de::Error>(
        self,
        value: Value<'_>,
        push: impl FnOnce(&mut Packer) -> Result<(), ValueError>,
    ) -> Result<(), E> {
        self.leaf(|packer| match overflows(value, packer.dtype()) {
            true => Err(ValueError::Range {
                value: written(value),
                dtype: packer.dtype(),
            }),
            false => push(packer),
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list or a value of {}", self.collector.packer.dtype())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.leaf(|packer| packer.push_bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.number(Value::Int(value), |packer| packer.push_i64(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.number(Value::Uint(value), |packer| packer.push_u64(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.number(Value::Double(value), |packer| packer.push_f64(value))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        match self.collector.holes {
            [(place, number), rest @ ..] if *place == self.collector.packer.count() => {
                self.collector.holes = rest;
                self.leaf(|packer| packer.push_f64(*number))
            }
            _ => Err(E::invalid_type(serde::de::Unexpected::Unit, &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        let number = not_finite(value);
        self.leaf(|packer| match number {
            Some(number) if packer.dtype().is_float() => packer.push_f64(number),
            _ => packer.push_bytes(value.as_bytes()),
        })
    }

    /// TensorFlow Serving's form of bytes that need not be text: `{"b64": "…"}`.
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let expected =
            |found: &str| A::Error::custom(format_args!("found the key `{found}`, expected `b64`"));
        let Some((key, text)) = object.next_entry::<String, String>()? else {
            return Err(A::Error::custom(
                "found an empty object, expected the key `b64`",
            ));
        };
        if key != "b64" {
            return Err(expected(&key));
        }
        if let Some(key) = object.next_key::<String>()? {
            return Err(expected(&key));
        }
        let bytes = BASE64.decode(text.as_bytes()).map_err(A::Error::custom)?;
        self.leaf(|packer| packer.push_bytes(&bytes))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { collector, level } = self;
        if collector.depth.is_some_and(|depth| level >= depth) {
            return Err(A::Error::custom("found a list beside a value"));
        }
        if collector.lengths.len() <= level {
            collector.lengths.push(None);
        }
        let mut length = 0;
        while list
            .next_element_seed(Node {
                collector,
                level: level + 1,
            })?
            .is_some()
        {
            length += 1;
        }
        let known = *collector.lengths[level].get_or_insert(length);
        if known != length {
            return Err(A::Error::custom(format_args!(
                "found a list of {length} beside one of {known}"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{elements, quote_not_finite};
    use crate::tensor::{DataType, Tensor, values::write_json};

    fn read(text: &str, dtype: DataType) -> Result<(Vec<usize>, String), String> {
        let found = elements(text, dtype).map_err(|error| error.to_string())?;
        let tensor = Tensor::new(dtype, found.shape, found.data).unwrap();
        let mut out = Vec::new();
        write_json(&tensor, &mut out);
        Ok((tensor.shape().to_vec(), String::from_utf8(out).unwrap()))
    }

    #[test]
    fn lists_give_shape_and_elements() {
        for (text, dtype, shape, flat) in [
            ("7", DataType::I32, vec![], "[7]"),
            ("[1, 2.5]", DataType::F32, vec![2], "[1.0,2.5]"),
            (
                "[[1,2,3],[4,5,6]]",
                DataType::U8,
                vec![2, 3],
                "[1,2,3,4,5,6]",
            ),
            (
                "[[[true]],[[false]]]",
                DataType::Bool,
                vec![2, 1, 1],
                "[true,false]",
            ),
            (
                r#"["a","\u00e9"]"#,
                DataType::String,
                vec![2],
                r#"["a","é"]"#,
            ),
            ("[]", DataType::F32, vec![0], "[]"),
            ("[[],[]]", DataType::F32, vec![2, 0], "[]"),
            (
                "[18446744073709551615]",
                DataType::U64,
                vec![1],
                "[18446744073709551615]",
            ),
            (
                "[NaN, -Infinity, -1]",
                DataType::F16,
                vec![3],
                "[NaN,-Infinity,-1.0]",
            ),
            // Rounded to the greatest number of the type.
            ("[65519]", DataType::F16, vec![1], "[65504.0]"),
            (r#"["NaN"]"#, DataType::String, vec![1], r#"["NaN"]"#),
            (
                r#"[{"b64":"YmVl"},"b\u00e9"]"#,
                DataType::String,
                vec![2],
                r#"["bee","bé"]"#,
            ),
            (r#"{"b64":""}"#, DataType::String, vec![], r#"[""]"#),
        ] {
            assert_eq!(read(text, dtype), Ok((shape, flat.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_no_tensor_is_refused_with_its_place() {
        for (text, dtype, expected) in [
            ("[1,[2]]", DataType::I32, "found a list beside a value"),
            ("[[2],1]", DataType::I32, "found a value beside a list"),
            ("[[],1]", DataType::I32, "found a value beside a list"),
            (
                "[[1,2],[3]]",
                DataType::I32,
                "found a list of 1 beside one of 2",
            ),
            (
                r#"["a"]"#,
                DataType::F32,
                "found \"a\", expected a value of FP32",
            ),
            ("[300]", DataType::U8, "300 does not fit UINT8"),
            // No number becomes infinite.
            ("[70000]", DataType::F16, "70000 does not fit FP16"),
            ("[-70000]", DataType::F16, "-70000 does not fit FP16"),
            ("[65520.5]", DataType::F16, "65520.5 does not fit FP16"),
            ("[1, -1e39]", DataType::F32, "-1e39 does not fit FP32"),
            ("[3.4e38]", DataType::Bf16, "3.4e38 does not fit BF16"),
            (
                "[1.5]",
                DataType::I64,
                "found 1.5, expected a value of INT64",
            ),
            (
                "[null]",
                DataType::F32,
                "invalid type: null, expected a list or a value of FP32",
            ),
            (
                r#"[{"b64":"YQ=="}]"#,
                DataType::U8,
                "found \"a\", expected a value of UINT8",
            ),
            (
                r#"{"b46":""}"#,
                DataType::String,
                "found the key `b46`, expected `b64`",
            ),
            (
                r#"{"b64":"","x":1}"#,
                DataType::String,
                "found the key `x`, expected `b64`",
            ),
            (
                r"{}",
                DataType::String,
                "found an empty object, expected the key `b64`",
            ),
            (
                r#"{"b64":"a*"}"#,
                DataType::String,
                "Invalid symbol 42, offset 1.",
            ),
            ("[1,2", DataType::F32, "EOF while parsing a list"),
            ("[1] 2", DataType::F32, "trailing characters"),
        ] {
            let error = read(text, dtype).unwrap_err();
            let (reason, place) = error.split_once(" at line ").unwrap();
            assert_eq!(reason, expected, "{text}");
            assert!(place.starts_with("1 column "), "{text}");
        }
    }

    #[test]
    fn words_inside_strings_stay() {
        assert_eq!(
            quote_not_finite(r#"{"a NaN \" Infinity": [NaN, -1, Infinity]}"#),
            r#"{"a NaN \" Infinity": ["NaN", -1, "Infinity"]}"#
        );
    }
}
