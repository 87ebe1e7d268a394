//! The elements of one input: a JSON list, flat or nested, packed as the bytes of a type.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::faults;
use crate::{
    error::{Error, Result},
    request::{Data, Declared},
    tensor::{
        DataType, elements,
        values::{Packer, ValueError},
    },
};

/// Packs elements; only their number matters, not how they are nested.
pub(super) fn pack(declared: &Declared, text: &RawValue, shape: &[i64]) -> Result<Data> {
    let Declared::Known(dtype) = declared else {
        return Err(Error::invalid(
            "Could not parse input content. Unsupported data precision detected",
        ));
    };
    if matches!(dtype, DataType::F16 | DataType::Bf16) {
        return Err(Error::invalid(format!(
            "{} - {dtype} has no JSON form; send it as binary data",
            faults::not_an_array().message()
        )));
    }
    let expected = shape
        .iter()
        .map(|&length| usize::try_from(length).ok())
        .collect::<Option<Vec<_>>>()
        .and_then(|shape| elements(&shape))
        .unwrap_or(0);
    let packer = RefCell::new(Packer::new(*dtype, expected));
    let mut json = serde_json::Deserializer::from_str(text.get());
    Elements {
        packer: &packer,
        nested: false,
    }
    .deserialize(&mut json)
    .map_err(|error| {
        let text = error.to_string();
        let reason = text
            .rfind(" at line ")
            .map_or(text.as_str(), |end| &text[..end]);
        Error::invalid(format!("{} - {reason}", faults::not_an_array().message()))
    })?;
    let packer = packer.into_inner();
    Ok(Data::Values {
        count: packer.count(),
        bytes: packer.finish(),
    })
}

/// Reads a list of lists and values into a packer.
#[derive(Clone, Copy)]
struct Elements<'a> {
    packer: &'a RefCell<Packer>,
    /// Whether a list has been opened: a single value outside any list is no array.
    nested: bool,
}

impl Elements<'_> {
    fn push<E: serde::de::Error>(
        self,
        push: impl FnOnce(&mut Packer) -> Result<(), ValueError>,
    ) -> Result<(), E> {
        if !self.nested {
            return Err(E::custom("expected a list"));
        }
        push(&mut self.packer.borrow_mut()).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {} values", self.packer.borrow().dtype())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let inner = Self {
            nested: true,
            ..self
        };
        while list.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.push(|packer| packer.push_bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.push(|packer| packer.push_i64(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.push(|packer| packer.push_u64(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.push(|packer| packer.push_f64(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.push(|packer| packer.push_bytes(value.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::pack;
    use crate::{
        request::{Data, Declared},
        tensor::DataType,
    };

    fn packed(dtype: DataType, text: &str) -> Result<(usize, Vec<u8>), String> {
        let text = RawValue::from_string(text.to_owned()).unwrap();
        match pack(&Declared::Known(dtype), &text, &[]) {
            Ok(Data::Values { count, bytes }) => Ok((count, bytes.to_vec())),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn nesting_does_not_matter() {
        let bytes = vec![1, 0, 2, 0, 255, 255];
        assert_eq!(packed(DataType::I16, "[[1,[2]],[],-1]"), Ok((3, bytes)));
        assert_eq!(packed(DataType::F32, "[]"), Ok((0, vec![])));
        let strings = vec![1, 0, 0, 0, b'a', 0, 0, 0, 0];
        assert_eq!(packed(DataType::String, r#"["a",""]"#), Ok((2, strings)));
    }

    #[test]
    fn whole_64_bit_range_is_exact() {
        assert_eq!(
            packed(DataType::U64, "[18446744073709551615]"),
            Ok((1, u64::MAX.to_le_bytes().to_vec()))
        );
        assert_eq!(
            packed(DataType::I64, "[-9223372036854775808]"),
            Ok((1, i64::MIN.to_le_bytes().to_vec()))
        );
    }

    #[test]
    fn what_is_no_element_is_named() {
        let faults: Vec<String> = [
            (DataType::F32, "1"),
            (DataType::F32, "{}"),
            (DataType::F32, r#"["a"]"#),
            (DataType::F32, "[true]"),
            (DataType::F32, "[null]"),
            (DataType::I32, "[1.5]"),
            (DataType::U8, "[256]"),
            (DataType::Bool, "[1]"),
            (DataType::String, "[1]"),
            (DataType::F16, "[1]"),
        ]
        .into_iter()
        .map(|(dtype, text)| packed(dtype, text).unwrap_err())
        .collect();
        insta::assert_snapshot!(faults.join("\n"), @r#"
        Could not parse input content. Not valid ndarray detected - expected a list
        Could not parse input content. Not valid ndarray detected - invalid type: map, expected a list of FP32 values
        Could not parse input content. Not valid ndarray detected - found "a", expected a value of FP32
        Could not parse input content. Not valid ndarray detected - found true, expected a value of FP32
        Could not parse input content. Not valid ndarray detected - invalid type: null, expected a list of FP32 values
        Could not parse input content. Not valid ndarray detected - found 1.5, expected a value of INT32
        Could not parse input content. Not valid ndarray detected - 256 does not fit UINT8
        Could not parse input content. Not valid ndarray detected - found 1, expected a value of BOOL
        Could not parse input content. Not valid ndarray detected - found 1, expected a value of BYTES
        Could not parse input content. Not valid ndarray detected - FP16 has no JSON form; send it as binary data
        "#);
    }

    #[test]
    fn deep_nesting_is_refused_and_not_followed() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(
            packed(DataType::F32, &deep)
                .unwrap_err()
                .contains("recursion limit")
        );
    }
}
