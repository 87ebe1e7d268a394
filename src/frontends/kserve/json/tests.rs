//! Bodies as clients send them, good and bad.

use bytes::Bytes;

use super::Wishes;
use crate::{
    budget::Budget,
    error::Result,
    frontends::{guard::NoRegions, kserve::regions::RegionReader},
    request::{Data, InferRequest, Parameter},
};

fn decode(body: &Bytes, json_length: Option<&[u8]>) -> Result<(InferRequest, Wishes)> {
    let budget = Budget::default();
    super::decode(
        body,
        json_length,
        RegionReader::new(Err(NoRegions::Off), &budget),
    )
}

fn error(body: &str, json_length: Option<&str>) -> String {
    let body = Bytes::from(body.to_owned());
    let error = decode(&body, json_length.map(str::as_bytes)).unwrap_err();
    format!("{} {error}", error.kind().http())
}

#[test]
fn a_whole_request_is_read() {
    let body = Bytes::from_static(
        br#"{"id":"7","parameters":{"priority":1,"x":"y","z":true},"inputs":[
            {"data":[[1,2]],"shape":[1,2],"datatype":"FP32","name":"b","parameters":{}}],
            "outputs":[{"name":"a"},{"name":"c","parameters":{"binary_data":true}}]}"#,
    );
    let (request, wishes) = decode(&body, None).unwrap();
    assert_eq!(request.id, "7");
    assert_eq!(request.parameters[0].1, Parameter::Int(1));
    assert_eq!(request.outputs, ["a", "c"]);
    assert_eq!(request.inputs[0].shape, [1, 2]);
    assert!(matches!(
        request.inputs[0].data,
        Data::Values { count: 2, .. }
    ));
    assert_eq!(
        wishes,
        Wishes {
            listed: vec![("a".to_owned(), false), ("c".to_owned(), true)],
            reads_binary: true
        }
    );
}

#[test]
fn binary_data_is_taken_in_the_order_of_the_inputs() {
    let json = r#"{"inputs":[{"name":"a","shape":[2],"datatype":"INT8","parameters":{"binary_data_size":2}},
        {"name":"b","shape":[1],"datatype":"FP16"}],"parameters":{"binary_data_output":true}}"#;
    let body = Bytes::from(format!("{json}1234"));
    let length = json.len().to_string();
    let (request, wishes) = decode(&body, Some(length.as_bytes())).unwrap();
    assert_eq!(request.inputs[0].data, Data::Raw(Bytes::from_static(b"12")));
    assert_eq!(request.inputs[1].data, Data::Raw(Bytes::from_static(b"34")));
    assert!(wishes.reads_binary);
}

#[test]
fn every_error_has_its_text_and_status() {
    let input = |rest: &str| {
        format!(r#"{{"inputs":[{{"name":"b","shape":[1],"datatype":"FP32"{rest}}}]}}"#)
    };
    let bodies = [
        String::new(),
        "{".to_owned(),
        r#"{"inputs":[{"name":"b",}]}"#.to_owned(),
        "[1]".to_owned(),
        "{}".to_owned(),
        r#"{"inputs":[]}"#.to_owned(),
        r#"{"inputs":{}}"#.to_owned(),
        r#"{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}"#.to_owned(),
        r#"{"inputs":[{"name":"b","shape":[-1],"datatype":"FP32","data":[1]}]}"#.to_owned(),
        r#"{"inputs":[{"name":"b","shape":[1],"datatype":5,"data":[1]}]}"#.to_owned(),
        r#"{"id":5,"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#.to_owned(),
        r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FLOAT","data":[1]}]}"#.to_owned(),
        input(r#","data":["x"]"#),
        input(r#","data":[1],"parameters":5"#),
        input(r#","data":[1],"parameters":{"a":[]}"#),
        input(r#","data":[1],"parameters":{"binary_data_size":4}"#),
        input(r#","parameters":{"binary_data_size":"4"}"#),
        input(r#","parameters":{"binary_data_size":4}"#),
        input(""),
        r#"{"outputs":[{}],"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#
            .to_owned(),
    ];
    let mut errors: Vec<String> = bodies.iter().map(|body| error(body, None)).collect();
    for header in ["-1", "x", "999"] {
        errors.push(error(&input(r#","data":[1]"#), Some(header)));
    }
    insta::assert_snapshot!(errors.join("\n"), @r#"
    412 The file is not valid json - Error: The document is empty. Offset: 0
    412 The file is not valid json - Error: EOF while parsing an object Offset: 0
    412 The file is not valid json - Error: key must be a string Offset: 23
    400 Request body should be JSON object
    400 Invalid JSON structure, missing inputs
    400 Invalid JSON structure, missing inputs
    400 Could not parse input content. Not valid ndarray detected
    400 Could not parse input content. Not valid ndarray detected - missing field `name`
    400 Could not parse input content. Not valid ndarray detected - shape: invalid value: integer `-1`, expected u64
    400 Could not parse input content. Not valid ndarray detected - datatype: expected a string
    400 Could not parse input content. Not valid ndarray detected - id: expected a string
    400 Could not parse input content. Unsupported data precision detected - found `FLOAT` (did you mean FP32?); input name: b
    400 Could not parse input content. Not valid ndarray detected - found "x", expected a value of FP32
    400 Could not parse request parameters
    400 Could not parse request parameters
    400 Request contains values both in binary data and in content value
    400 binary_data_size parameter is invalid and cannot be parsed
    400 Received buffer size is smaller than binary_data_size parameter indicates
    400 Received buffer size is smaller than binary_data_size parameter indicates
    400 Could not parse output content.
    400 Inference-Header-Content-Length header is invalid and couldn't be parsed
    400 Inference-Header-Content-Length header is invalid and couldn't be parsed
    400 Inference-Header-Content-Length header exceeds actual payload length
    "#);
}

#[test]
fn parameters_that_nest_take_no_memory_and_are_refused() {
    let nested = r#"{"":0},"#.repeat(10_000);
    let body = format!(r#"{{"parameters":{{"a":[{nested}0]}},"inputs":[]}}"#);
    let mut text = String::new();
    let used = allocation_counter::measure(|| text = error(&body, None));
    assert_eq!(text, "400 Could not parse request parameters");
    // The body itself, which the test copies.
    assert!(used.bytes_max < 3 * body.len() as u64, "{}", used.bytes_max);
}

#[test]
fn deep_nesting_is_malformed_at_any_place() {
    let deep = "[".repeat(100_000);
    for body in [
        deep.clone(),
        format!(r#"{{"inputs":{deep}"#),
        format!(r#"{{"inputs":[{{"name":{deep}"#),
        format!(r#"{{"x":{deep}{}}}"#, "]".repeat(100_000)),
    ] {
        let text = error(&body, None);
        assert!(text.starts_with("412") || text.starts_with("400"), "{text}");
    }
}
