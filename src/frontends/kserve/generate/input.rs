//! Requests of the generate extension: an object whose members are inputs by their names, an id, and parameters.
//!
//! A member that is no input is a parameter, also within `parameters`, where inputs may be as well. An
//! element alone stands for a tensor of one. What a servable leaves open is taken from the value: its type,
//! and its shape from the lists.

use crate::{
    error::{Error, Result},
    frontends::json_numbers::{Cursor, Elements, JsonError, Rules, no_object},
    request::{Data, Declared, InferRequest, InputTensor, Parameter},
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    servable::TensorInfo,
    tensor::DataType,
};

/// Reads the body of a request to what has these inputs.
///
/// # Errors
///
/// Fails with the first error.
pub(in crate::frontends::kserve) fn decode(
    body: &[u8],
    inputs: &[TensorInfo],
) -> Result<InferRequest> {
    let mut reader = Reader {
        inputs,
        request: InferRequest::default(),
    };
    let mut cursor = Cursor::new(body);
    let read = reader.members(&mut cursor, Level::Top);
    let read = read.and_then(|()| match cursor.token() {
        None => Ok(()),
        Some(_) => Err(JsonError::Syntax.into()),
    });
    // That it is no JSON comes first, wherever that shows.
    read.map_err(|error| no_object(body).unwrap_or(error))?;
    Ok(reader.request)
}

struct Reader<'a> {
    inputs: &'a [TensorInfo],
    request: InferRequest,
}

/// Place of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    /// The members of `parameters`.
    Parameters,
}

impl Reader<'_> {
    fn members(&mut self, cursor: &mut Cursor<'_>, level: Level) -> Result<()> {
        cursor.members(|cursor, key| {
            if let Some(info) = self.inputs.iter().find(|info| info.name == key) {
                return self.input(cursor, info);
            }
            match &*key {
                "id" if level == Level::Top => match cursor.token() {
                    Some(b'"') => self.request.id = cursor.string()?.into_owned(),
                    _ => return Err(Error::invalid("Invalid JSON structure. - id is no string")),
                },
                "parameters" if level == Level::Top && cursor.token() == Some(b'{') => {
                    return self.members(cursor, Level::Parameters);
                }
                _ => self.parameter(cursor, &key)?,
            }
            Ok(())
        })
    }

    fn parameter(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Result<()> {
        use serde_json::Value;
        // A tree of what is nested would take many times what is charged for its text.
        let is_nested = matches!(cursor.token(), Some(b'[' | b'{'));
        let text = cursor.value()?;
        let read = (!is_nested).then(|| serde_json::from_slice(text));
        let value = match read.unwrap_or(Ok(Value::Array(Vec::new()))) {
            Ok(Value::Null) => return Ok(()),
            Ok(Value::Bool(value)) => Parameter::Bool(value),
            Ok(Value::String(value)) => Parameter::Text(value),
            Ok(Value::Number(value)) => match (value.as_i64(), value.as_u64()) {
                (Some(value), _) => Parameter::Int(value),
                (None, Some(value)) => Parameter::UInt(value),
                (None, None) => Parameter::Double(value.as_f64().unwrap_or(f64::NAN)),
            },
            Ok(Value::Array(_) | Value::Object(_)) | Err(_) => {
                let names: Vec<&str> = self.inputs.iter().map(|it| it.name.as_str()).collect();
                let error = Error::invalid(format!(
                    "Unexpected input - {key} is unexpected; the inputs are {}, and parameters are \
                     numbers, strings, and truth values",
                    names.join(", ")
                ));
                return Err(match key {
                    SEQUENCE_ID | CONTROL_INPUT => error.with_more(
                        "; a sequence has sequence_id, a number, with sequence_start and sequence_end, true or false",
                    ),
                    _ => error,
                });
            }
        };
        self.request.parameters.push((key.to_owned(), value));
        Ok(())
    }

    fn input(&mut self, cursor: &mut Cursor<'_>, info: &TensorInfo) -> Result<()> {
        let name = &info.name;
        let unfit = |reason: &dyn std::fmt::Display| {
            Error::invalid(format!(
                "Could not parse input content. - input {name}: {reason}"
            ))
        };
        if self.request.inputs.iter().any(|input| input.name == *name) {
            return Err(unfit(&JsonError::Twice(name.clone())));
        }
        let dtype = info.decided().unwrap_or_else(|| guessed(cursor.clone()));
        if matches!(dtype, DataType::F16 | DataType::Bf16) {
            let reason = format!("{dtype} has no JSON form; send it to infer as binary data");
            return Err(unfit(&reason));
        }
        let mut elements = Elements::new(dtype, Rules::Generate, 0, cursor.left());
        elements.read(cursor, 0).map_err(|error| unfit(&error))?;
        let (dtype, count) = (elements.dtype(), elements.count());
        let (lists, bytes) = elements.finish();
        let lists = lists.into_iter().map(|length| length as i64).collect();
        self.request.inputs.push(InputTensor {
            name: name.clone(),
            datatype: Declared::Known(dtype),
            shape: shape(info, dtype, lists, count as i64),
            data: Data::Values { count, bytes },
        });
        Ok(())
    }
}

/// Returns the type of elements that nothing decides, by how they are written.
fn guessed(mut cursor: Cursor<'_>) -> DataType {
    let text = cursor.data().unwrap_or_default();
    let mut rest = text.iter().filter(|byte| !b"[ \n\r\t".contains(byte));
    match rest.next() {
        Some(b'"' | b'{') => DataType::String,
        Some(b't' | b'f') => DataType::Bool,
        _ if text.iter().any(|byte| b".eENI".contains(byte)) => DataType::F32,
        _ => DataType::I64,
    }
}

/// Returns the shape of a value: that of its lists if they are as deep as the input, else that of the input,
/// where the last dimension that may vary has what the others leave, and these are 1.
fn shape(info: &TensorInfo, dtype: DataType, lists: Vec<i64>, count: i64) -> Vec<i64> {
    let own = match lists.is_empty() {
        true => vec![1],
        false => lists.clone(),
    };
    // Bytes that stand for something else are a list of their own.
    if info.decided() != Some(dtype) || lists.len() == info.shape.0.len() {
        return match info.shape.0.is_empty() && !info.is_open {
            true => lists,
            false => own,
        };
    }
    let mut dims = info.shape.wire();
    let fixed: i64 = dims.iter().filter(|dim| **dim >= 0).product();
    match dims.iter().rposition(|dim| *dim < 0) {
        Some(last) if fixed > 0 && count % fixed == 0 => {
            for (place, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim < 0) {
                *dim = if place == last { count / fixed } else { 1 };
            }
            dims
        }
        None if fixed == count => dims,
        // What does not fit is refused with the shape that it has.
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;
    use crate::{
        request::{Data, Dialect},
        servable::TensorInfo,
        tensor::{DataType, Dim, Layout, PartialShape},
    };

    fn input(name: &str, dtype: Option<DataType>, dims: &[i64]) -> TensorInfo {
        let dims = dims.iter().map(|dim| match usize::try_from(*dim) {
            Ok(length) => Dim::Fixed(length),
            Err(_) => Dim::Any,
        });
        TensorInfo {
            name: name.to_owned(),
            dtype: dtype.unwrap_or(DataType::U8),
            is_open: dtype.is_none(),
            shape: PartialShape(dims.collect()),
            layout: Layout::unspecified(0),
            port: 0,
        }
    }

    /// Returns the one input of a request: type, shape, and number of elements.
    fn read(info: TensorInfo, value: &str) -> String {
        let body = format!(r#"{{"x":{value}}}"#);
        match decode(body.as_bytes(), &[info]) {
            Err(error) => error.message().to_owned(),
            Ok(request) => {
                let [input] = &request.inputs[..] else {
                    panic!("one input");
                };
                let Data::Values { count, .. } = input.data else {
                    panic!("values");
                };
                let datatype = input.datatype.text(Dialect::KServe);
                format!("{datatype} {:?} {count}", input.shape)
            }
        }
    }

    #[test]
    fn values_have_the_shape_of_their_lists_or_fill_that_of_the_input() {
        use DataType::{F32, I64, String, U8};
        for (dtype, dims, value, expected) in [
            (F32, &[1, 2][..], "[[1,2]]", "FP32 [1, 2] 2"),
            (F32, &[1, 2], "[1,2.5]", "FP32 [1, 2] 2"),
            (F32, &[1, 2], "[1,2,3]", "FP32 [3] 3"),
            (F32, &[-1, 4], "[1,2,3,4,5,6,7,8]", "FP32 [2, 4] 8"),
            (F32, &[-1, 3], "[1,2]", "FP32 [2] 2"),
            (I64, &[-1, -1], "[1,2,3]", "INT64 [1, 3] 3"),
            (I64, &[1], "7", "INT64 [1] 1"),
            (I64, &[], "7", "INT64 [] 1"),
            (I64, &[-1], "[]", "INT64 [0] 0"),
            (String, &[-1], "\"a\"", "BYTES [1] 1"),
            (String, &[-1, 1], "\"a\"", "BYTES [1, 1] 1"),
            (String, &[-1], "[\"a\",\"b\"]", "BYTES [2] 2"),
            // Bytes, of which the servable makes rows or images.
            (U8, &[-1, -1], "\"a\"", "BYTES [1] 1"),
            (U8, &[1, 4, 6, 3], r#"{"b64":"AAEC"}"#, "BYTES [1] 1"),
        ] {
            let seen = read(input("x", Some(dtype), dims), value);
            assert_eq!(seen, expected, "{value} for {dims:?}");
        }
    }

    #[test]
    fn what_is_open_is_taken_from_the_value() {
        for (value, expected) in [
            ("\"1.5\"", "BYTES [1] 1"),
            ("[\"a\",\"b\"]", "BYTES [2] 2"),
            ("[[1,2],[3,4]]", "INT64 [2, 2] 4"),
            ("[ 1, 2.5 ]", "FP32 [2] 2"),
            ("1e3", "FP32 [1] 1"),
            ("true", "BOOL [1] 1"),
        ] {
            assert_eq!(read(input("x", None, &[]), value), expected, "{value}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let fail = |dtype, value| read(input("x", Some(dtype), &[-1]), value);
        let errors = [
            fail(DataType::I64, "1.5"),
            fail(DataType::I64, "[1,[2]]"),
            fail(DataType::I64, "null"),
            fail(DataType::String, "5"),
            fail(DataType::F16, "5"),
            fail(DataType::F32, "[1,"),
            fail(DataType::F32, "1,\"x\":2"),
        ];
        insta::assert_snapshot!(errors.join("\n"), @"
        Could not parse input content. - input x: found 1.5, expected a value of INT64
        Could not parse input content. - input x: the lists are not rectangular
        Could not parse input content. - input x: found null, expected a list of INT64 values
        Could not parse input content. - input x: found 5, expected a value of BYTES
        Could not parse input content. - input x: FP16 has no JSON form; send it to infer as binary data
        The file is not valid json - Error: expected value Offset: 8
        Could not parse input content. - input x: `x` is there twice
        ");
    }

    #[test]
    fn the_rest_are_parameters_wherever_they_stand() {
        let inputs = [
            input("x", Some(DataType::I64), &[-1]),
            input("y", None, &[]),
        ];
        let body = br#"{"x":1,"id":"7","n":1,"parameters":{"y":"text","t":0.5,"id":"p","b":true},"none":null}"#;
        let request = decode(body, &inputs).unwrap();
        assert_eq!(request.id, "7");
        let names: Vec<&str> = request.inputs.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["x", "y"]);
        insta::assert_snapshot!(serde_json::to_string(&request.parameters).unwrap(), @r#"[["n",1],["t",0.5],["id","p"],["b",true]]"#);
        let error = decode(br#"{"z":[1]}"#, &inputs).unwrap_err();
        insta::assert_snapshot!(error, @"Unexpected input - z is unexpected; the inputs are x, y, and parameters are numbers, strings, and truth values");
        for name in ["sequence_id", "sequence_control_input"] {
            let error = decode(format!(r#"{{"{name}":[1]}}"#).as_bytes(), &inputs).unwrap_err();
            let members = "; a sequence has sequence_id, a number, with sequence_start and sequence_end, true or false";
            assert!(error.message().ends_with(members), "{error}");
        }
        let error = decode(b"{\"x\":1} 2", &inputs).unwrap_err();
        insta::assert_snapshot!(error, @"The file is not valid json - Error: trailing characters Offset: 8");
        let error = decode(b"[1]", &inputs).unwrap_err();
        insta::assert_snapshot!(error, @"Request body should be JSON object");
    }
}
