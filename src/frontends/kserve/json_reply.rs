//! REST answers: JSON, and binary data behind it for the outputs that are wanted so.

use std::io::Write;

use axum::http::HeaderValue;
use serde::Serialize;

use super::json::{JSON_LENGTH, Wishes};
use crate::{
    error::{Error, Result},
    frontends::reply::{Whole, output_memory},
    request::{InferResponse, LooseTensor, Parameter, Parameters},
    tensor::{
        self, DataType, ShapeText, Tensor,
        strings::{self, Strings},
        values::{values, write_json, write_json_value},
    },
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
    json.extend_from_slice(b",\"model_version\":\"");
    number(&mut json, response.model_version);
    json.push(b'"');
    if !response.parameters.is_empty() {
        json.push(b',');
        parameters(&mut json, &response.parameters);
    }
    json.extend_from_slice(b",\"outputs\":[");
    for (index, (name, tensor)) in response.outputs.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        match response.placed(name) {
            None => output(&mut json, &mut binary, name, tensor, wishes)?,
            Some(_) => {
                head(&mut json, name, tensor.shape(), tensor.dtype().kserve());
                elsewhere(&mut json);
            }
        }
    }
    for (index, loose) in response.loose.iter().enumerate() {
        if index + response.outputs.len() > 0 {
            json.push(b',');
        }
        match response.placed(&loose.name) {
            None => loose_output(&mut json, &mut binary, loose, wishes)?,
            Some(_) => {
                head(&mut json, &loose.name, &loose.shape, &loose.datatype);
                elsewhere(&mut json);
            }
        }
    }
    json.extend_from_slice(b"]}");
    let json_length = json.len();
    json.extend_from_slice(&binary);
    let mut headers = Vec::new();
    if wishes.reads_binary {
        headers.push((JSON_LENGTH, HeaderValue::from(json_length)));
    }
    Ok(Whole {
        body: json,
        headers,
    })
}

/// Returns the bytes of the outputs that go to the client, and the memory that they may take while they are written.
pub(super) fn size(response: &InferResponse, wishes: &Wishes) -> (usize, usize) {
    let outputs = response.outputs.iter();
    let outputs = outputs.map(|(name, tensor)| (name, tensor.dtype(), tensor.data().len()));
    let loose = response.loose.iter();
    let loose = loose.map(|output| {
        // Of other types nothing is written as JSON.
        let dtype = DataType::from_kserve(&output.datatype).unwrap_or(DataType::U8);
        (&output.name, dtype, output.data.len())
    });
    let sent = outputs.chain(loose);
    let sent = sent.filter(|(name, ..)| response.placed(name).is_none());
    sent.fold((0, 0), |(size, memory), (name, dtype, bytes)| {
        let most = output_memory(dtype, bytes, is_binary(name, wishes));
        (size + bytes, most.saturating_add(memory))
    })
}

/// Writes a response as Triton's generate extension has it: outputs and parameters are members by their
/// names, each an element alone if it is one, else a list of all.
///
/// # Errors
///
/// Fails if an output has no JSON form.
pub(super) fn flat(response: &InferResponse, id: Option<&str>) -> Result<Vec<u8>> {
    let mut json = Vec::with_capacity(256);
    json.extend_from_slice(b"{\"model_name\":");
    text(&mut json, &response.model_name);
    json.extend_from_slice(b",\"model_version\":\"");
    number(&mut json, response.model_version);
    json.push(b'"');
    let member = |json: &mut Vec<u8>, name: &str| {
        json.push(b',');
        text(json, name);
        json.push(b':');
    };
    if let Some(id) = id {
        member(&mut json, "id");
        text(&mut json, id);
    }
    let loose = response.loose.iter();
    let loose = loose.map(|output| Ok((&output.name, typed(output).map_err(|it| (output, it))?)));
    let outputs = response.outputs.iter();
    let outputs = outputs.map(|(name, tensor)| Ok((name, tensor.clone())));
    for output in outputs.chain(loose) {
        let (name, tensor) = output.map_err(|(output, reason): (&LooseTensor, String)| {
            no_form(&format!("output {} {reason}", output.name), INFER_INSTEAD)
        })?;
        check_is_text(name, &tensor, INFER_INSTEAD)?;
        member(&mut json, name);
        let mut elements = values(&tensor);
        match (elements.next(), elements.next()) {
            (Some(only), None) => write_json_value(only, &mut json),
            _ => write_json(&tensor, &mut json),
        }
    }
    // An object has a name once, and an output goes before the parameter that was sent for it.
    let is_output = |name: &str| {
        let mut tensors = response.outputs.iter().map(|(output, _)| output);
        let mut loose = response.loose.iter().map(|output| &output.name);
        tensors.any(|output| output == name) || loose.any(|output| output == name)
    };
    for (name, value) in &response.parameters {
        if !is_output(name) {
            member(&mut json, name);
            parameter(&mut json, value);
        }
    }
    json.push(b'}');
    Ok(json)
}

fn parameter(json: &mut Vec<u8>, value: &Parameter) {
    let _ = match value {
        Parameter::Bool(value) => write!(json, "{value}"),
        Parameter::Int(value) => write!(json, "{value}"),
        Parameter::UInt(value) => write!(json, "{value}"),
        Parameter::Double(value) => write!(json, "{value}"),
        Parameter::Text(value) => {
            text(json, value);
            Ok(())
        }
        Parameter::Empty => write!(json, "null"),
    };
}

/// Writes the member that has parameters.
fn parameters(json: &mut Vec<u8>, parameters: &Parameters) {
    json.extend_from_slice(b"\"parameters\":{");
    for (index, (name, value)) in parameters.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        text(json, name);
        json.push(b':');
        parameter(json, value);
    }
    json.push(b'}');
}

fn output(
    json: &mut Vec<u8>,
    binary: &mut Vec<u8>,
    name: &str,
    tensor: &Tensor,
    wishes: &Wishes,
) -> Result<()> {
    head(json, name, tensor.shape(), tensor.dtype().kserve());
    if is_binary(name, wishes) {
        behind(json, binary, tensor.data());
    } else {
        check_is_text(name, tensor, BINARY_OUTPUT)?;
        elements(json, tensor);
    }
    Ok(())
}

/// Writes an output of which the datatype may be any text. In JSON are elements of types that exist,
/// if they are as many as the shape says; of the rest nothing is known but its bytes.
fn loose_output(
    json: &mut Vec<u8>,
    binary: &mut Vec<u8>,
    output: &LooseTensor,
    wishes: &Wishes,
) -> Result<()> {
    head(json, &output.name, &output.shape, &output.datatype);
    if is_binary(&output.name, wishes) {
        behind(json, binary, &output.data);
        return Ok(());
    }
    let tensor = typed(output).map_err(|reason| {
        let hint = "ask for binary outputs with the parameter binary_data_output";
        no_form(&format!("output {} {reason}", output.name), hint)
    })?;
    check_is_text(&output.name, &tensor, BINARY_OUTPUT)?;
    elements(json, &tensor);
    Ok(())
}

/// Reads an output as a tensor of a type that exists, or says what it is instead.
fn typed(output: &LooseTensor) -> Result<Tensor, String> {
    let LooseTensor {
        datatype,
        shape,
        data,
        ..
    } = output;
    let dtype =
        DataType::from_kserve(datatype).ok_or_else(|| format!("has the datatype {datatype:?}"))?;
    let misfit = || {
        let shape = ShapeText(shape);
        format!("has {} bytes as {datatype} of shape {shape}", data.len())
    };
    let lengths = shape.iter().map(|&length| usize::try_from(length));
    let lengths: Vec<usize> = lengths.collect::<Result<_, _>>().map_err(|_| misfit())?;
    if dtype == DataType::String {
        let count = Strings::new(data.clone()).map(|strings| strings.count());
        if count.ok() != tensor::elements(&lengths) {
            return Err(format!(
                "has BYTES that are not {} strings, each behind its length",
                ShapeText(shape)
            ));
        }
    }
    Tensor::new(dtype, lengths, data.clone()).map_err(|_| misfit())
}

/// Writes a whole number.
fn number(json: &mut Vec<u8>, number: impl Serialize) {
    // Writing to a Vec does not fail.
    let _ = serde_json::to_writer(json, &number);
}

fn head(json: &mut Vec<u8>, name: &str, shape: &[impl Serialize + Copy], datatype: &str) {
    json.extend_from_slice(b"{\"name\":");
    text(json, name);
    json.extend_from_slice(b",\"shape\":[");
    for (index, length) in shape.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        number(json, *length);
    }
    json.extend_from_slice(b"],\"datatype\":");
    text(json, datatype);
    json.push(b',');
}

fn behind(json: &mut Vec<u8>, binary: &mut Vec<u8>, data: &[u8]) {
    json.extend_from_slice(b"\"parameters\":{\"binary_data_size\":");
    number(json, data.len());
    json.extend_from_slice(b"}}");
    binary.extend_from_slice(data);
}

/// Ends an output that was written to shared memory. It has no parameters, as with Triton, whose C++ client takes any
/// to be those of binary data.
fn elsewhere(json: &mut Vec<u8>) {
    // The comma behind the head.
    json.pop();
    json.push(b'}');
}

fn elements(json: &mut Vec<u8>, tensor: &Tensor) {
    json.extend_from_slice(b"\"data\":");
    write_json(tensor, json);
    json.push(b'}');
}

/// Checks that a string is UTF-8: JSON has no form for other bytes.
fn check_is_text(name: &str, tensor: &Tensor, hint: &str) -> Result<()> {
    match strings::first_binary(tensor) {
        None => Ok(()),
        Some(index) => {
            let what = format!("element {index} of output {name} is not UTF-8");
            Err(no_form(&what, hint))
        }
    }
}

/// Hints for getting bytes.
const BINARY_OUTPUT: &str = "ask for the output with the parameter binary_data";
const INFER_INSTEAD: &str = "ask for it with infer, as binary data";

fn no_form(what: &str, hint: &str) -> Error {
    Error::invalid(format!(
        "Response parsing to JSON error - {what}, for which JSON has no form; {hint}"
    ))
}

/// Returns whether an output is wanted in binary. Listed ones are as wished; where none is listed, all
/// are as the request says. The one that may come unlisted beside others, the id of a sequence, is
/// binary if they all are: Triton's C++ client frees memory that is not its own if an answer has
/// outputs of both forms.
fn is_binary(name: &str, wishes: &Wishes) -> bool {
    match wishes.listed.iter().find(|(listed, _)| listed == name) {
        Some((_, binary)) => *binary,
        None if wishes.listed.is_empty() => wishes.reads_binary,
        None => wishes.listed.iter().all(|(_, binary)| *binary),
    }
}

fn text(json: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(json, text).expect("a string has a JSON form and a Vec takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::{Wishes, encode, flat};
    use crate::{
        error::Result,
        request::{InferResponse, LooseTensor, Parameter},
        sequence::SEQUENCE_ID,
        tensor::{DataType, Tensor},
    };

    fn response() -> InferResponse {
        let tensor = |data: &[u8]| {
            Tensor::new(DataType::U64, vec![1], data.to_vec().into()).expect("one number")
        };
        InferResponse {
            model_name: "m".to_owned(),
            model_version: 1,
            id: String::new(),
            outputs: [
                ("y".to_owned(), tensor(b"abcdefgh")),
                (SEQUENCE_ID.to_owned(), tensor(b"ABCDEFGH")),
            ]
            .into_iter()
            .collect(),
            loose: Vec::new(),
            parameters: vec![
                (SEQUENCE_ID.to_owned(), Parameter::Text("A\"".to_owned())),
                ("n".to_owned(), Parameter::Int(-1)),
            ],
            placed: Vec::new(),
            texts: None,
        }
    }

    fn written(listed: &[(&str, bool)]) -> String {
        let wishes = Wishes {
            listed: listed
                .iter()
                .map(|&(name, binary)| (name.to_owned(), binary))
                .collect(),
            reads_binary: listed.iter().any(|(_, binary)| *binary),
        };
        let whole = encode(response(), false, &wishes).expect("numbers can be written");
        String::from_utf8(whole.body).expect("it is text")
    }

    #[test]
    fn an_object_has_a_name_once() {
        let written = flat(&response(), None).expect("numbers can be written");
        insta::assert_snapshot!(String::from_utf8(written).expect("it is text"), @r#"{"model_name":"m","model_version":"1","y":7523094288207667809,"sequence_id":5208208757389214273,"n":-1}"#);
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

    fn loosely(
        datatype: &str,
        shape: &[i64],
        data: &'static [u8],
        reads_binary: bool,
    ) -> Result<String> {
        let loose = LooseTensor {
            name: "y".to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
            data: data.into(),
        };
        let response = InferResponse {
            model_name: "g".to_owned(),
            model_version: 1,
            id: String::new(),
            outputs: [].into_iter().collect(),
            loose: vec![loose],
            parameters: vec![("OVMS_MP_TIMESTAMP".to_owned(), Parameter::Int(i64::MAX - 3))],
            placed: Vec::new(),
            texts: None,
        };
        let wishes = Wishes {
            listed: Vec::new(),
            reads_binary,
        };
        let whole = encode(response, false, &wishes)?;
        Ok(String::from_utf8(whole.body).expect("it is text"))
    }

    #[test]
    fn outputs_of_graphs_are_json_where_that_loses_nothing() {
        let start = "{\"model_name\":\"g\",\"model_version\":\"1\",\"parameters\":\
                     {\"OVMS_MP_TIMESTAMP\":9223372036854775804},\"outputs\":[{\"name\":\"y\",";
        for (datatype, shape, data, expected) in [
            ("INT16", &[2][..], &b"\x01\0\xff\xff"[..], "[1,-1]"),
            ("FP32", &[], &[0, 0, 0xc0, 0x7f], "[NaN]"),
            ("FP32", &[2, 0], &[], "[]"),
            ("BYTES", &[2], b"\x01\0\0\0a\0\0\0\0", "[\"a\",\"\"]"),
        ] {
            let shape_text = serde_json::to_string(shape).unwrap();
            let whole = format!(
                "{start}\"shape\":{shape_text},\"datatype\":\"{datatype}\",\"data\":{expected}}}]}}"
            );
            let written = loosely(datatype, shape, data, false).unwrap();
            assert_eq!(written, whole, "{datatype}");
        }
    }

    #[test]
    fn what_has_no_json_form_needs_a_client_that_reads_binary() {
        let cases: [(&str, &[i64], &'static [u8], &str); 6] = [
            ("my_string", &[3], b"abc", "has the datatype \"my_string\""),
            ("<U5", &[1], b"abc", "has the datatype \"<U5\""),
            ("INT16", &[2], b"abc", "has 3 bytes as INT16 of shape (2)"),
            ("INT8", &[-3], b"abc", "has 3 bytes as INT8 of shape (-3)"),
            (
                "BYTES",
                &[1],
                b"abc",
                "has BYTES that are not (1) strings, each behind its length",
            ),
            (
                "BYTES",
                &[2],
                b"\0\0\0\0",
                "has BYTES that are not (2) strings, each behind its length",
            ),
        ];
        for (datatype, shape, data, reason) in cases {
            let error = loosely(datatype, shape, data, false).unwrap_err();
            assert_eq!(error.kind().http(), 400);
            assert_eq!(
                error.message(),
                format!(
                    "Response parsing to JSON error - output y {reason}, for which JSON has no \
                     form; ask for binary outputs with the parameter binary_data_output"
                )
            );
            let written = loosely(datatype, shape, data, true).unwrap();
            let size = data.len();
            let bytes = std::str::from_utf8(data).unwrap();
            let end = format!("\"parameters\":{{\"binary_data_size\":{size}}}}}]}}{bytes}");
            assert!(written.ends_with(&end), "{written}");
        }
    }
}
