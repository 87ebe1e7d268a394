//! REST answers: JSON, and binary data behind it for the outputs that are wanted so.

use std::io::Write;

use axum::http::{HeaderName, HeaderValue};

use super::json::{JSON_LENGTH, Wishes};
use crate::{
    error::{Error, Result},
    frontends::reply::Whole,
    request::{InferResponse, Parameter, Parameters},
    tensor::{DataType, Tensor, strings::strings, values::write_json},
};

/// Writes a response. `has_id`: the request had an id, which is echoed.
///
/// # Errors
///
/// Fails if strings that are no text are to be JSON.
pub(super) fn encode(response: InferResponse, has_id: bool, wishes: &Wishes) -> Result<Whole> {
    let mut json = Vec::with_capacity(256);
    let mut binary = Vec::new();
    json.extend_from_slice(b"{\"model_name\":");
    text(&mut json, &response.model_name);
    if has_id {
        json.extend_from_slice(b",\"id\":");
        text(&mut json, &response.id);
    }
    // Writing to a Vec does not fail.
    let _ = write!(json, ",\"model_version\":\"{}\"", response.model_version);
    parameters(&mut json, &response.parameters);
    json.extend_from_slice(b",\"outputs\":[");
    for (index, (name, tensor)) in response.outputs.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        output(&mut json, &mut binary, name, tensor, wishes)?;
    }
    json.extend_from_slice(b"]}");
    let json_length = json.len();
    json.extend_from_slice(&binary);
    let mut headers = Vec::new();
    if wishes.reads_binary {
        let name = HeaderName::from_static(JSON_LENGTH);
        headers.push((name, HeaderValue::from(json_length)));
    }
    Ok(Whole {
        body: json,
        headers,
    })
}

fn parameters(json: &mut Vec<u8>, parameters: &Parameters) {
    for (index, (name, value)) in parameters.iter().enumerate() {
        json.extend_from_slice(if index == 0 {
            b",\"parameters\":{"
        } else {
            b","
        });
        text(json, name);
        let _ = match value {
            Parameter::Bool(value) => write!(json, ":{value}"),
            Parameter::Int(value) => write!(json, ":{value}"),
            Parameter::UInt(value) => write!(json, ":{value}"),
            Parameter::Double(value) => write!(json, ":{value}"),
            Parameter::Text(value) => {
                json.push(b':');
                text(json, value);
                Ok(())
            }
        };
    }
    if !parameters.is_empty() {
        json.push(b'}');
    }
}

fn output(
    json: &mut Vec<u8>,
    binary: &mut Vec<u8>,
    name: &str,
    tensor: &Tensor,
    wishes: &Wishes,
) -> Result<()> {
    json.extend_from_slice(b"{\"name\":");
    text(json, name);
    json.extend_from_slice(b",\"shape\":[");
    for (index, length) in tensor.shape().iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(json, "{comma}{length}");
    }
    let _ = write!(json, "],\"datatype\":\"{}\",", tensor.dtype());
    if is_binary(name, tensor, wishes) {
        let size = tensor.data().len();
        let _ = write!(json, "\"parameters\":{{\"binary_data_size\":{size}}}}}");
        binary.extend_from_slice(tensor.data());
    } else {
        check_is_text(name, tensor)?;
        json.extend_from_slice(b"\"data\":");
        write_json(tensor, json);
        json.push(b'}');
    }
    Ok(())
}

/// Sees to it that nothing is lost: JSON has no form for bytes that are not UTF-8.
fn check_is_text(name: &str, tensor: &Tensor) -> Result<()> {
    match first_binary(tensor) {
        None => Ok(()),
        Some(index) => Err(Error::invalid(format!(
            "Response parsing to JSON error - element {index} of output {name} is not UTF-8, for \
             which JSON has no form; ask for the output with the parameter binary_data"
        ))),
    }
}

/// Returns the place of the first string that is no text.
fn first_binary(tensor: &Tensor) -> Option<usize> {
    if tensor.dtype() != DataType::String {
        return None;
    }
    strings(tensor.data()).position(|string| std::str::from_utf8(string).is_err())
}

/// Listed outputs are as wished. The one that may come with them unlisted, the id of a sequence, is
/// binary if they all are: Triton's C++ client frees memory that is not its own if an answer has
/// outputs of both forms. Where none is listed they are JSON, save that what has no JSON form in the
/// protocol, half floats and strings that are no text, is binary for a client that reads binary.
fn is_binary(name: &str, tensor: &Tensor, wishes: &Wishes) -> bool {
    let has_no_json = || match tensor.dtype() {
        DataType::F16 | DataType::Bf16 => true,
        _ => first_binary(tensor).is_some(),
    };
    match wishes.listed.iter().find(|(listed, _)| listed == name) {
        Some((_, binary)) => *binary,
        None if wishes.listed.is_empty() => wishes.reads_binary && has_no_json(),
        None => wishes.listed.iter().all(|(_, binary)| *binary),
    }
}

fn text(json: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(json, text).expect("a string has a JSON form and a Vec takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::{Wishes, encode};
    use crate::{
        request::{InferResponse, Parameter},
        sequence::SEQUENCE_ID,
        tensor::{DataType, Tensor},
    };

    fn written(listed: &[(&str, bool)]) -> String {
        let tensor = |data: &[u8]| {
            Tensor::new(DataType::U64, vec![1], data.to_vec().into()).expect("one number")
        };
        let response = InferResponse {
            model_name: "m".to_owned(),
            model_version: 1,
            id: String::new(),
            outputs: [
                ("y".to_owned(), tensor(b"abcdefgh")),
                (SEQUENCE_ID.to_owned(), tensor(b"ABCDEFGH")),
            ]
            .into_iter()
            .collect(),
            parameters: vec![
                (SEQUENCE_ID.to_owned(), Parameter::Text("A\"".to_owned())),
                ("n".to_owned(), Parameter::Int(-1)),
            ],
        };
        let wishes = Wishes {
            listed: listed
                .iter()
                .map(|&(name, binary)| (name.to_owned(), binary))
                .collect(),
            reads_binary: listed.iter().any(|(_, binary)| *binary),
        };
        let whole = encode(response, false, &wishes).expect("numbers can be written");
        String::from_utf8(whole.body).expect("it is text")
    }

    #[test]
    fn the_id_of_a_sequence_is_binary_for_clients_that_read_binary() {
        let written = [
            written(&[]),
            written(&[("y", true)]),
            written(&[("y", true), (SEQUENCE_ID, false)]),
        ];
        insta::assert_snapshot!(written.join("\n"), @r#"
        {"model_name":"m","model_version":"1","parameters":{"sequence_id":"A\"","n":-1},"outputs":[{"name":"y","shape":[1],"datatype":"UINT64","data":[7523094288207667809]},{"name":"sequence_id","shape":[1],"datatype":"UINT64","data":[5208208757389214273]}]}
        {"model_name":"m","model_version":"1","parameters":{"sequence_id":"A\"","n":-1},"outputs":[{"name":"y","shape":[1],"datatype":"UINT64","parameters":{"binary_data_size":8}},{"name":"sequence_id","shape":[1],"datatype":"UINT64","parameters":{"binary_data_size":8}}]}abcdefghABCDEFGH
        {"model_name":"m","model_version":"1","parameters":{"sequence_id":"A\"","n":-1},"outputs":[{"name":"y","shape":[1],"datatype":"UINT64","parameters":{"binary_data_size":8}},{"name":"sequence_id","shape":[1],"datatype":"UINT64","data":[5208208757389214273]}]}abcdefgh
        "#);
    }
}
