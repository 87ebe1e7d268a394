//! Requests and answers as JSON: lists within lists, a level for each dimension.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    error::{AnswerError, RequestError},
    http::HttpBody,
    json,
    message::{ClientResponse, TensorMetadata, dtype},
    sequence,
    tfs::Asked,
};
use crate::{
    client,
    tensor::{
        DataType, Tensor,
        values::{Value, Values, values, write_json_value},
    },
};

/// The key of an object that is bytes, and no outputs by name.
const B64: &str = "b64";

/// Ends the names of outputs whose texts are written as strings, whatever their datatype.
const TEXTS: &str = "_string";

/// Encodes a request.
pub(in crate::client) fn request(request: &client::Request) -> Result<HttpBody, RequestError> {
    let mut body = br#"{"inputs":{"#.to_vec();
    for (index, (name, tensor)) in request.inputs.iter().enumerate() {
        if tensor.is_empty() {
            return Err(RequestError::Empty(name.to_owned()));
        }
        if index > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, name).expect("a string has a JSON form");
        body.push(b':');
        write_nested(&mut values(tensor), tensor.shape(), &mut body);
    }
    body.extend_from_slice(b"}}");
    Ok(HttpBody::json(body))
}

/// Decodes an answer.
pub(super) fn answer(bytes: &[u8], asked: &Asked) -> Result<ClientResponse, AnswerError> {
    #[derive(Deserialize)]
    struct Outputs<'a> {
        #[serde(borrow)]
        outputs: &'a RawValue,
    }
    let text = std::str::from_utf8(bytes).map_err(AnswerError::decode)?;
    let text = json::quote_not_finite(text);
    let body: Outputs<'_> = serde_json::from_str(&text).map_err(AnswerError::decode)?;
    let known = &asked.known;
    let mut outputs = Vec::with_capacity(known.len());
    match by_name(body.outputs.get()) {
        Some(several) => {
            for (name, value) in several {
                let tensor = match known.iter().find(|output| output.name == name) {
                    Some(output) => tensor(value.get(), output)?,
                    // No output of the model's: stateful models add it to every answer.
                    None if name == sequence::ID => tensor(value.get(), &id_of_a_sequence())?,
                    None => return Err(AnswerError::Unknown(name)),
                };
                outputs.push((name, tensor));
            }
        }
        None => match known.as_slice() {
            [only] => outputs.push((only.name.clone(), tensor(body.outputs.get(), only)?)),
            _ => return Err(AnswerError::Nameless),
        },
    }
    Ok(asked.answer(None, outputs))
}

fn id_of_a_sequence() -> TensorMetadata {
    TensorMetadata::new(
        sequence::ID.to_owned(),
        DataType::U64.kserve().to_owned(),
        &[1],
    )
}

/// Writes elements as lists of lists; a shape without dimensions is a value by itself.
fn write_nested(elements: &mut Values<'_>, shape: &[usize], out: &mut Vec<u8>) {
    let Some((length, inner)) = shape.split_first() else {
        match elements.next() {
            Some(Value::Bytes(bytes)) => {
                out.extend_from_slice(br#"{"b64":""#);
                out.extend_from_slice(BASE64.encode(bytes).as_bytes());
                out.extend_from_slice(br#""}"#);
            }
            Some(value) => write_json_value(value, out),
            // The framing of strings is broken; the server will say so.
            None => out.extend_from_slice(b"null"),
        }
        return;
    };
    out.push(b'[');
    for index in 0..*length {
        if index > 0 {
            out.push(b',');
        }
        write_nested(elements, inner, out);
    }
    out.push(b']');
}

/// Takes an object of outputs apart; `None` if it is one output without a name.
fn by_name(text: &str) -> Option<BTreeMap<String, &RawValue>> {
    if !text.starts_with('{') {
        return None;
    }
    let outputs: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let is_bytes = outputs.len() == 1 && outputs.contains_key(B64);
    (!is_bytes).then_some(outputs)
}

fn tensor(text: &str, output: &TensorMetadata) -> Result<Tensor, AnswerError> {
    let name = &output.name;
    let dtype = dtype(name, &output.datatype)?;
    let mut found = json::elements(text, dtype).map(|found| (dtype, found));
    if found.is_err() && dtype == DataType::U8 && name.ends_with(TEXTS) {
        let strings = json::elements(text, DataType::String);
        found = strings.map(|found| (DataType::String, found));
    }
    let (dtype, found) = found.map_err(|error| AnswerError::output(name, error))?;
    let tensor = Tensor::new(dtype, found.shape, found.data);
    tensor.map_err(|error| AnswerError::output(name, error))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{answer, request};
    use crate::{
        client::{
            message::{ModelId, Request, TensorForm, TensorMetadata},
            tfs::Asked,
        },
        error::chain,
        tensor::{DataType, Tensor, TensorMap, values::write_json},
    };

    fn example(inputs: Vec<(&str, Tensor)>, outputs: &[(&str, &str)]) -> Request {
        Request {
            model: ModelId {
                name: "m".to_owned(),
                version: None,
            },
            id: String::new(),
            parameters: Vec::new(),
            inputs: TensorMap::from_iter(
                inputs
                    .into_iter()
                    .map(|(name, tensor)| (name.to_owned(), tensor)),
            ),
            outputs: Vec::new(),
            model_outputs: outputs
                .iter()
                .map(|(name, datatype)| {
                    TensorMetadata::new((*name).to_owned(), (*datatype).to_owned(), &[-1])
                })
                .collect(),
            form: TensorForm::Values,
        }
    }

    fn numbers(shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        let data: Vec<_> = (0..count).map(|it| u8::try_from(it).unwrap()).collect();
        Tensor::new(DataType::U8, shape.to_vec(), data.into()).unwrap()
    }

    /// Reads an answer with these outputs; returns them as text.
    fn read(text: &str, outputs: &[(&str, &str)]) -> Result<String, String> {
        let asked = Asked::new(&example(Vec::new(), outputs));
        let answer = answer(text.as_bytes(), &asked).map_err(|error| chain(&error))?;
        let outputs = answer.outputs.iter().map(|(name, tensor)| {
            let mut json = Vec::new();
            write_json(tensor, &mut json);
            let json = String::from_utf8(json).unwrap();
            format!("{name} {} {:?} {json}", tensor.dtype(), tensor.shape())
        });
        Ok(outputs.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn requests_have_a_list_for_each_dimension() {
        let strings = Bytes::from_static(&[2, 0, 0, 0, b'h', b'i', 1, 0, 0, 0, 255]);
        let body = request(&example(
            vec![
                ("scalar", numbers(&[])),
                ("list", numbers(&[2])),
                ("deep", numbers(&[2, 1, 3])),
                (
                    "text",
                    Tensor::new(DataType::String, vec![2], strings).unwrap(),
                ),
            ],
            &[],
        ));
        insta::assert_snapshot!(
            String::from_utf8(body.unwrap().bytes.to_vec()).unwrap(),
            @r#"{"inputs":{"scalar":0,"list":[0,1],"deep":[[[0,1,2]],[[3,4,5]]],"text":[{"b64":"aGk="},{"b64":"/w=="}]}}"#
        );
    }

    /// Or lists without end would be written.
    #[test]
    fn a_shape_without_elements_is_refused() {
        let empty = Tensor::new(DataType::F32, vec![1 << 20, 0], Bytes::new()).unwrap();
        assert_eq!(
            request(&example(vec![("x", empty)], &[]))
                .unwrap_err()
                .to_string(),
            "input `x` has no elements, and lists in JSON cannot tell its shape"
        );
    }

    #[test]
    fn answers_take_names_and_types_from_the_metadata() {
        let one = &[("y", "FP32")][..];
        let two = &[("y", "FP64"), ("x", "INT64")][..];
        for (text, outputs, expected) in [
            (r#"{"outputs":[[1,2.5]]}"#, one, "y FP32 [1, 2] [1.0,2.5]"),
            (r#"{"outputs": 7}"#, one, "y FP32 [] [7.0]"),
            (
                r#"{"outputs":[NaN,-Infinity]}"#,
                one,
                "y FP32 [2] [NaN,-Infinity]",
            ),
            (r#"{"outputs":{"y":[1]}}"#, one, "y FP32 [1] [1.0]"),
            (
                r#"{"outputs":{"x":[9223372036854775807],"y":[[0.5]]}}"#,
                two,
                "y FP64 [1, 1] [0.5]; x INT64 [1] [9223372036854775807]",
            ),
            (
                r#"{"outputs":{"sequence_id":[18446744073709551615],"y":[[0.5]]}}"#,
                one,
                "y FP32 [1, 1] [0.5]; sequence_id UINT64 [1] [18446744073709551615]",
            ),
            (
                r#"{"outputs":[{"b64":"aGk="},"ho"]}"#,
                &[("t", "BYTES")],
                r#"t BYTES [2] ["hi","ho"]"#,
            ),
            (
                r#"{"outputs":{"b64":"aGk="}}"#,
                &[("t", "BYTES")],
                r#"t BYTES [] ["hi"]"#,
            ),
            (
                r#"{"outputs":["hi"]}"#,
                &[("t_string", "UINT8")],
                r#"t_string BYTES [1] ["hi"]"#,
            ),
        ] {
            assert_eq!(read(text, outputs), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_answer_that_breaks_the_protocol_is_refused() {
        let one = &[("y", "FP32")][..];
        for (text, outputs, expected) in [
            (
                r"{}",
                one,
                "found a body that cannot be decoded: missing field `outputs` at line 1 column 2",
            ),
            (
                r#"{"outputs":{"z":[1]}}"#,
                one,
                "found the output `z`, which the model's metadata does not have",
            ),
            (
                r#"{"outputs":[1]}"#,
                &[("a", "FP32"), ("b", "FP32")],
                "found an output without a name",
            ),
            (
                r#"{"outputs":["a"]}"#,
                one,
                "cannot read output `y`: found \"a\", expected a value of FP32 at line 1 column 4",
            ),
            (
                r#"{"outputs":[1]}"#,
                &[("y", "DT_RESOURCE")],
                "found the datatype `DT_RESOURCE` of output `y`",
            ),
        ] {
            assert_eq!(read(text, outputs), Err(expected.to_owned()), "{text}");
        }
    }
}
