//! Bodies as clients send them, good and bad.

use proptest::prelude::*;

use super::{Format, Kind};
use crate::{
    error::Result,
    request::{Data, Declared, InferRequest},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape, Tensor, values::write_json},
};

fn info(inputs: &[(&str, DataType)]) -> ServableInfo {
    let inputs = inputs
        .iter()
        .enumerate()
        .map(|(port, &(name, dtype))| TensorInfo {
            name: name.to_owned(),
            dtype,
            shape: PartialShape(vec![Dim::Any, Dim::Fixed(2)]),
            layout: Layout::unspecified(2),
            is_open: false,
            port,
        })
        .collect();
    ServableInfo::new(inputs, Vec::new())
}

/// One input of FP32, `b`.
fn one() -> ServableInfo {
    info(&[("b", DataType::F32)])
}

/// Two inputs, `x` of FP32 and `y` of INT64.
fn two() -> ServableInfo {
    info(&[("x", DataType::F32), ("y", DataType::I64)])
}

fn decode(body: &[u8], info: &ServableInfo) -> Result<(InferRequest, Format)> {
    super::decode(body, info, Kind::Plain)
}

#[test]
fn special_inputs_are_a_whole_number_in_a_list() {
    let read = |kind, body: &str| match super::decode(body.as_bytes(), &one(), kind) {
        Err(error) => error.to_string(),
        Ok((request, _)) => {
            let shown = request.inputs.iter().filter(|input| input.name != "b");
            let shown = shown.map(|input| {
                let Data::Values { count, bytes } = &input.data else {
                    return format!("{:?}", input.data);
                };
                let datatype = input.datatype.text(request.dialect);
                format!("{datatype} {:?} {count}: {:?}", input.shape, &bytes[..])
            });
            shown.collect::<Vec<_>>().join(", ")
        }
    };
    let bodies = [
        r#"{"inputs":{"b":[[1,2]],"sequence_id":[18446744073709551615],"sequence_control_input":[4294967295]}}"#,
        r#"{"inputs":{"sequence_id":5}}"#,
        r#"{"inputs":{"sequence_id":[]}}"#,
        r#"{"inputs":{"sequence_id":[5,6]}}"#,
        r#"{"instances":[{"b":[1,2],"sequence_id":[5]}]}"#,
        r#"{"instances":[{"b":[1,2],"sequence_id":5}]}"#,
        r#"{"instances":[{"b":[1,2],"sequence_id":5},{"b":[1,2],"sequence_id":6}]}"#,
        r#"{"inputs":{"sequence_id":[18446744073709551616]}}"#,
        r#"{"inputs":{"sequence_control_input":[4294967296]}}"#,
        r#"{"inputs":{"sequence_id":[-1]}}"#,
        r#"{"inputs":{"sequence_id":[1.0]}}"#,
        r#"{"inputs":{"sequence_id":["1"]}}"#,
        r#"{"inputs":{"sequence_id":[[1]]}}"#,
        r#"{"instances":[{"b":[1,2],"sequence_id":[true]}]}"#,
        r#"{"inputs":{"sequence_id":[1],"sequence_id":[1]}}"#,
    ];
    let all: Vec<_> = bodies
        .iter()
        .map(|body| read(Kind::Stateful, body))
        .collect();
    insta::assert_snapshot!(all.join("\n"), @"
    U32 [1] 1: [255, 255, 255, 255], U64 [1] 1: [255, 255, 255, 255, 255, 255, 255, 255]
    U64 [] 1: [5, 0, 0, 0, 0, 0, 0, 0]
    U64 [0] 0: []
    U64 [2] 2: [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]
    U64 [1, 1] 1: [5, 0, 0, 0, 0, 0, 0, 0]
    U64 [1, 1] 1: [5, 0, 0, 0, 0, 0, 0, 0]
    U64 [2, 1] 2: [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]
    Could not parse input content. Not valid ndarray detected - expected one whole number of UINT64 in a list
    Could not parse input content. Not valid ndarray detected - expected one whole number of UINT32 in a list
    Could not parse input content. Not valid ndarray detected - expected one whole number of UINT64 in a list
    Could not parse input content. Not valid ndarray detected - expected one whole number of UINT64 in a list
    Could not parse input content. Not valid ndarray detected - expected one whole number of UINT64 in a list
    Could not parse input content. Not valid ndarray detected - expected one whole number of UINT64 in a list
    Could not parse instance content. Not valid ndarray detected - expected one whole number of UINT64 in a list
    Could not parse input content. Not valid ndarray detected - `sequence_id` is there twice
    ");
    let stateless = read(
        Kind::Plain,
        r#"{"inputs":{"b":[[1,2]],"sequence_id":[[1]]}}"#,
    );
    insta::assert_snapshot!(stateless, @"INVALID [] 0: []");
}

#[test]
fn the_id_is_found_without_the_model() {
    let found = |body: &str| super::sequence_id(body.as_bytes());
    assert_eq!(
        found(r#"{"a":{},"inputs":{"x":[[1],"]"],"sequence_id":[7]}}"#),
        Some(7)
    );
    for none in [
        r#"{"inputs":{"x":[1]}}"#,
        r#"{"inputs":{"sequence_id":7}}"#,
        r#"{"inputs":[1]}"#,
        r#"{"instances":[{"sequence_id":[7]}]}"#,
        r#"{"inputs":{"sequence_id":[7]}"#,
    ] {
        assert_eq!(found(none), None, "{none}");
    }
}

/// Shows what is read, or the error.
fn shown(info: &ServableInfo, body: &str) -> String {
    match decode(body.as_bytes(), info) {
        Ok((request, format)) => {
            let mut text = format!("{format:?}");
            for input in request.inputs {
                let Data::Values { count, bytes } = input.data else {
                    panic!("{:?}", input.data);
                };
                let elements = match input.datatype {
                    Declared::Known(dtype) => {
                        let tensor = Tensor::new(dtype, vec![count], bytes).unwrap();
                        let mut json = Vec::new();
                        write_json(&tensor, &mut json);
                        format!(
                            "{dtype} {:?} {}",
                            input.shape,
                            String::from_utf8_lossy(&json)
                        )
                    }
                    Declared::Unknown(text) => text,
                };
                text = format!("{text}; {}: {elements}", input.name);
            }
            text
        }
        Err(error) => format!("{} {error}", error.kind().http()),
    }
}

fn all(info: &ServableInfo, bodies: &[&str]) -> String {
    let shown: Vec<String> = bodies.iter().map(|body| shown(info, body)).collect();
    shown.join("\n")
}

#[test]
fn both_formats_are_read() {
    insta::assert_snapshot!(all(&one(), &[
        r#"{"instances":[[1,2],[3,4.5]]}"#,
        r#"{"instances":[{"b":[1,2]},{"b":[3,4]}]}"#,
        r#"{"instances":[1,2,3]}"#,
        r#"{"instances":[{"b":1},{"b":2}]}"#,
        r#"{"inputs":[[1,2],[3,4]]}"#,
        r#"{"inputs":{"b":[[1,2],[3,4]]}}"#,
        r#"{"inputs":{"b":5}}"#,
        r#"{"inputs":5}"#,
        r#" { "signature_name" : "serving_default" , "inputs" : [ [ 1 ] ] , "x" : { "inputs" : [ {} ] } } "#,
    ]), @r#"
    Row; b: FP32 [2, 2] [1.0,2.0,3.0,4.5]
    Row; b: FP32 [2, 2] [1.0,2.0,3.0,4.0]
    Row; b: FP32 [3] [1.0,2.0,3.0]
    Row; b: FP32 [2] [1.0,2.0]
    Column; b: FP32 [2, 2] [1.0,2.0,3.0,4.0]
    Column; b: FP32 [2, 2] [1.0,2.0,3.0,4.0]
    Column; b: FP32 [] [5.0]
    Column; b: FP32 [] [5.0]
    Column; b: FP32 [1, 1] [1.0]
    "#);
    insta::assert_snapshot!(all(&two(), &[
        r#"{"instances":[{"x":[1,2],"y":[-1.9]},{"y":[9007199254740993],"x":[3,4]}]}"#,
        r#"{"inputs":{"y":[[1]],"x":[[0.5,1e-3]]}}"#,
        r#"{"inputs":{"y":[[1]]}}"#,
        r#"{"inputs":{"y":[1],"stranger":[[1],"a",{}]}}"#,
        r#"{"instances":[{"y":1,"stranger":null},{"y":2,"stranger":[]}]}"#,
    ]), @r#"
    Row; x: FP32 [2, 2] [1.0,2.0,3.0,4.0]; y: INT64 [2, 1] [-1,9007199254740993]
    Column; x: FP32 [1, 2] [0.5,0.001]; y: INT64 [1, 1] [1]
    Column; y: INT64 [1, 1] [1]
    Column; stranger: INVALID; y: INT64 [1] [1]
    Row; stranger: INVALID; y: INT64 [2] [1,2]
    "#);
}

#[test]
fn tensors_without_elements_are_read_and_instances_are_not() {
    insta::assert_snapshot!(all(&one(), &[
        r#"{"inputs":[]}"#,
        r#"{"inputs":{"b":[]}}"#,
        r#"{"inputs":[[],[]]}"#,
        r#"{"inputs":[[[],[]]]}"#,
        r#"{"instances":[[]]}"#,
        r#"{"instances":[[],[]]}"#,
        r#"{"instances":[{"b":[]},{"b":[ ]}]}"#,
        r#"{"instances":[{"b":[[ ]]}]}"#,
        r#"{"instances":[{"b":[1]},{"b":[]}]}"#,
        r#"{"inputs":[[],[1]]}"#,
        r#"{"inputs":[[1],[]]}"#,
        r#"{"inputs":[[[]],[]]}"#,
        r#"{"inputs":[[],[[]]]}"#,
        r#"{"inputs":[[],1]}"#,
        r#"{"inputs":[1,[]]}"#,
        r#"{"instances":[{"b":[]},{"b":1}]}"#,
    ]), @"
    Column; b: FP32 [0] []
    Column; b: FP32 [0] []
    Column; b: FP32 [2, 0] []
    Column; b: FP32 [1, 2, 0] []
    400 Could not parse instance content. Not valid ndarray detected - an instance has an empty list
    400 Could not parse instance content. Not valid ndarray detected - an instance has an empty list
    400 Could not parse instance content. Not valid ndarray detected - an instance has an empty list
    400 Could not parse instance content. Not valid ndarray detected - an instance has an empty list
    400 Could not parse instance content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse instance content. Not valid ndarray detected - an instance has an empty list
    ");
    insta::assert_snapshot!(all(&info(&[("s", DataType::String)]), &[
        r#"{"inputs":[]}"#,
        r#"{"inputs":[[],[]]}"#,
        r#"{"instances":[["a",""],["b","c"]]}"#,
        r#"{"instances":[{"s":[["a"],["b"]]}]}"#,
        r#"{"inputs":{"s":"a"}}"#,
        r#"{"inputs":{"s":{"b64":"YWI="}}}"#,
    ]), @r#"
    Column; s: BYTES [0] []
    Column; s: BYTES [2, 0] []
    Row; s: BYTES [2, 2] ["a","","b","c"]
    Row; s: BYTES [1, 2, 1] ["a","b"]
    Column; s: BYTES [] ["a"]
    Column; s: BYTES [] ["ab"]
    "#);
}

#[test]
fn strings_and_bytes_are_read() {
    insta::assert_snapshot!(all(&one(), &[
        r#"{"instances":[{"b64":"YWI="},{"b64":"Yw=="}]}"#,
        r#"{"instances":[{"b":{"b64":"YWI="}},{"b":{"b64":"Yw=="}}]}"#,
        r#"{"instances":["ab","\u00fc"]}"#,
        r#"{"instances":[["a","b"],["c","d"]]}"#,
        r#"{"instances":[{"b":"ab"}]}"#,
        r#"{"inputs":{"b":[{"b64":"YWI="}]}}"#,
        r#"{"inputs":[{"b64":"YWI="}]}"#,
        r#"{"inputs":["ab"]}"#,
        r#"{"inputs":{"b":{"b64":"YWI="}}}"#,
        r#"{"inputs":{"b":"ab"}}"#,
        r#"{"inputs":{"b64":"YWI="}}"#,
    ]), @r#"
    Row; b: BYTES [2] ["ab","c"]
    Row; b: BYTES [2] ["ab","c"]
    Row; b: BYTES [2] ["ab","ü"]
    Row; b: BYTES [2, 2] ["a","b","c","d"]
    Row; b: BYTES [1] ["ab"]
    Column; b: BYTES [1] ["ab"]
    Column; b: BYTES [1] ["ab"]
    Column; b: BYTES [1] ["ab"]
    400 Could not parse input content. Not valid ndarray detected - expected a list
    400 Could not parse input content. Not valid ndarray detected - expected a list
    Column; b64: INVALID
    "#);
}

#[test]
fn truth_values_are_for_bool_only() {
    let bodies = [
        r#"{"instances":[true,false]}"#,
        r#"{"instances":[[true],[false]]}"#,
        r#"{"inputs":true}"#,
        r#"{"inputs":[1]}"#,
    ];
    insta::assert_snapshot!(all(&info(&[("b", DataType::Bool)]), &bodies), @r#"
    Row; b: BOOL [2] [true,false]
    Row; b: BOOL [2, 1] [true,false]
    Column; b: BOOL [] [true]
    400 Could not parse input content. Not valid ndarray detected - found 1, expected a value of BOOL
    "#);
    insta::assert_snapshot!(all(&one(), &bodies[..3]), @r#"
    400 Could not detect neither named or nonamed format
    400 Could not parse instance content. Not valid ndarray detected - found true, expected a value of FP32
    400 Invalid JSON structure. One of inputs is not a JSON object.
    "#);
}

#[test]
fn every_error_has_its_text_and_status() {
    insta::assert_snapshot!(all(&one(), &[
        "",
        " \n",
        "{",
        r#"{"instances":[[1,2],}"#,
        r#"{"instances":[[1]]}]"#,
        r#"{"instances":[[01]]}"#,
        r#"{"inputs":{"b":[Nan]}}"#,
        "[1]",
        "1",
        "{}",
        r#"{"signature_name":""}"#,
        r#"{"instances":[[1]],"inputs":[[1]]}"#,
        r#"{"instances":[["a",1]],"inputs":[[1]]}"#,
        r#"{"instances":[[1]],"instances":[[1]]}"#,
        r#"{"instances":{"b":[1]}}"#,
        r#"{"instances":1}"#,
        r#"{"instances":null}"#,
        r#"{"instances":[]}"#,
        r#"{"instances":[{"b":[1]},[1]]}"#,
        r#"{"instances":[{"b":[1]},1]}"#,
        r#"{"instances":[null]}"#,
        r#"{"instances":[true]}"#,
        r#"{"instances":[[1,2],[3]]}"#,
        r#"{"instances":[[1,2],3]}"#,
        r#"{"instances":[[1,"a"]]}"#,
        r#"{"instances":[[null]]}"#,
        r#"{"instances":[[1],{"b":1}]}"#,
        r#"{"instances":[{"b":[1]},{"b":[1,2]}]}"#,
        r#"{"instances":[{}]}"#,
        r#"{"instances":[{"b":1},{}]}"#,
        r#"{"instances":[{"b":[1]},{"c":[1]}]}"#,
        r#"{"instances":[{"b":1,"b":2}]}"#,
        r#"{"inputs":"a"}"#,
        r#"{"inputs":null}"#,
        r#"{"inputs":true}"#,
        r#"{"inputs":{}}"#,
        r#"{"inputs":{"b":[[1,2],[3]]}}"#,
        r#"{"inputs":{"b":"a"}}"#,
        r#"{"inputs":{"b":{"c":1}}}"#,
        r#"{"inputs":{"b":null}}"#,
        r#"{"inputs":{"b":[1],"b":[2]}}"#,
        r#"{"inputs":[[1e40]]}"#,
        r#"{"inputs":[{"b64":"Y*=="}]}"#,
    ]), @r#"
    412 The file is not valid json - Error: The document is empty. Offset: 0
    412 The file is not valid json - Error: The document is empty. Offset: 0
    412 The file is not valid json - Error: EOF while parsing an object Offset: 0
    412 The file is not valid json - Error: expected value Offset: 20
    412 The file is not valid json - Error: trailing characters Offset: 19
    412 The file is not valid json - Error: invalid number Offset: 16
    412 The file is not valid json - Error: expected value Offset: 16
    400 Request body should be JSON object
    400 Request body should be JSON object
    400 Invalid JSON structure. Could not detect row or column format
    400 Invalid JSON structure. Could not detect row or column format
    400 Invalid JSON structure. Could not detect row or column format
    400 Invalid JSON structure. Could not detect row or column format
    400 Invalid JSON structure. Could not detect row or column format
    400 Invalid JSON structure. Nonamed instance is not an array.
    400 Invalid JSON structure. Nonamed instance is not an array.
    400 Invalid JSON structure. Nonamed instance is not an array.
    400 Invalid JSON structure. Missing instances in row format
    400 Invalid JSON structure. One of named instances is not a JSON object.
    400 Invalid JSON structure. One of named instances is not a JSON object.
    400 Could not detect neither named or nonamed format
    400 Could not detect neither named or nonamed format
    400 Could not parse instance content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse instance content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse instance content. Not valid ndarray detected - strings and other values are mixed
    400 Could not parse instance content. Not valid ndarray detected - found null, expected a list of FP32 values
    400 Could not parse instance content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse instance content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse instance content. Not valid ndarray detected - an instance names no input
    400 Could not parse instance content. Not valid ndarray detected - an instance names no input
    400 Invalid JSON structure. Request inputs have different batch sizes
    400 Could not parse instance content. Not valid ndarray detected - `b` is there twice
    400 Invalid JSON structure. One of inputs is not a JSON object.
    400 Invalid JSON structure. One of inputs is not a JSON object.
    400 Invalid JSON structure. One of inputs is not a JSON object.
    400 Invalid JSON structure, missing inputs
    400 Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    400 Could not parse input content. Not valid ndarray detected - expected a list
    400 Could not parse input content. Not valid ndarray detected - expected a list
    400 Could not parse input content. Not valid ndarray detected - found null, expected a list of FP32 values
    400 Could not parse input content. Not valid ndarray detected - `b` is there twice
    400 Could not parse input content. Not valid ndarray detected - 1e40 does not fit FP32
    400 Could not parse input content. Not valid ndarray detected - `b64` is not base64: Invalid symbol 42, offset 1.
    "#);
    insta::assert_snapshot!(all(&two(), &[
        r#"{"instances":[[1]]}"#,
        r#"{"instances":[{"b64":"YWI="}]}"#,
        r#"{"inputs":[[1]]}"#,
        r#"{"inputs":1}"#,
        r#"{"instances":[{"x":1,"y":1},{"x":1}]}"#,
    ]), @r#"
    400 Inputs inside buffer does not match expected format.
    400 Inputs inside buffer does not match expected format.
    400 Inputs inside buffer does not match expected format.
    400 Invalid JSON structure. One of inputs is not a JSON object.
    400 Invalid JSON structure. Request inputs have different batch sizes
    "#);
    insta::assert_snapshot!(shown(&info(&[("b", DataType::U8)]), r#"{"inputs":[[256]]}"#), @r#"400 Could not parse input content. Not valid ndarray detected - 256 does not fit UINT8"#);
}

#[test]
fn what_is_not_utf_8_is_refused() {
    let info = one();
    for body in [
        &b"{\"\xff\":1,\"inputs\":[[1]]}"[..],
        b"{\"inputs\":[\"\xff\"]}",
    ] {
        let error = decode(body, &info).unwrap_err();
        assert_eq!(error.kind().http(), 400, "{error}");
    }
    // What is not looked at may be anything between its quotes.
    assert!(decode(b"{\"x\":\"\xff\",\"inputs\":[[1]]}", &info).is_ok());
}

#[test]
fn deep_nesting_and_many_names_are_answered() {
    let deep = format!(
        r#"{{"inputs":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    insta::assert_snapshot!(shown(&one(), &deep), @r#"400 Could not parse input content. Not valid ndarray detected - recursion limit exceeded"#);
    let deep = format!(
        r#"{{"x":{}{},"inputs":[[1]]}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    insta::assert_snapshot!(shown(&one(), &deep), @"400 Invalid JSON structure. - recursion limit exceeded");
    let deep = format!(
        r#"{{"x":{}{},"inputs":[[1]]}}"#,
        "[".repeat(128),
        "]".repeat(128)
    );
    assert_eq!(shown(&one(), &deep), "Column; b: FP32 [1, 1] [1.0]");
    let many: Vec<String> = (0..10_000)
        .map(|number| format!(r#""n{number}":[[1]]"#))
        .collect();
    let (request, _) = decode(
        format!(r#"{{"inputs":{{{}}}}}"#, many.join(",")).as_bytes(),
        &two(),
    )
    .unwrap();
    assert_eq!(request.inputs.len(), 10_000);
    let rows = format!(r#"{{"instances":[{{{}}}]}}"#, many.join(","));
    assert_eq!(
        decode(rows.as_bytes(), &two()).unwrap().0.inputs.len(),
        10_000
    );
}

/// Pieces of bodies, good and bad.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        r#""instances""#,
        r#""inputs""#,
        r#""x""#,
        r#""y""#,
        r#""b""#,
        r#"{"b64":"YWI="}"#,
        r#""b64""#,
        "1",
        "-2.5e3",
        "true",
        "null",
        r#""a""#,
        "[1,2]",
        "[[1],[2]]",
        " ",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_makes_it_fall_over(pieces in pieces(), format in 0..3) {
        let body = match format {
            0 => pieces,
            1 => format!(r#"{{"instances":[{pieces}]}}"#),
            _ => format!(r#"{{"inputs":{{{pieces}}}}}"#),
        };
        for info in [one(), two(), info(&[("b", DataType::Bool)]), ServableInfo::default()] {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
            match decode(body.as_bytes(), &info) {
                Ok((request, _)) => {
                    prop_assert!(valid, "{}", body);
                    for input in request.inputs {
                        let Data::Values { count, .. } = input.data else {
                            return Err(TestCaseError::fail("no values"));
                        };
                        if matches!(input.datatype, Declared::Known(_)) {
                            prop_assert_eq!(input.shape.iter().product::<i64>(), count as i64, "{}", body);
                        }
                    }
                }
                Err(error) => prop_assert_eq!(error.kind().http() == 412, !valid, "{} {}", body, error),
            }
        }
    }

    #[test]
    fn rows_and_columns_say_the_same(rows in prop::collection::vec((any::<f32>(), any::<i64>()), 1..6)) {
        let info = two();
        prop_assume!(rows.iter().all(|(x, _)| x.is_finite()));
        let instances: Vec<String> =
            rows.iter().map(|(x, y)| format!(r#"{{"x":[{x},{x:e}],"y":{y}}}"#)).collect();
        let x: Vec<String> = rows.iter().map(|(x, _)| format!("[{x},{x:e}]")).collect();
        let y: Vec<String> = rows.iter().map(|(_, y)| y.to_string()).collect();
        let by_row = format!(r#"{{"instances":[{}]}}"#, instances.join(","));
        let by_column = format!(r#"{{"inputs":{{"x":[{}],"y":[{}]}}}}"#, x.join(","), y.join(","));
        let (row, format) = decode(by_row.as_bytes(), &info).unwrap();
        prop_assert_eq!(format, Format::Row);
        let (column, format) = decode(by_column.as_bytes(), &info).unwrap();
        prop_assert_eq!(format, Format::Column);
        prop_assert_eq!(&row, &column);
        let expected: Vec<u8> = rows.iter().flat_map(|(x, _)| [x.to_le_bytes(); 2].concat()).collect();
        let Data::Values { bytes, .. } = &row.inputs[0].data else {
            return Err(TestCaseError::fail("no values"));
        };
        prop_assert_eq!(&bytes[..], expected);
    }
}

#[test]
fn inputs_of_a_pipeline_are_named() {
    let read = |body: &str| super::decode(body.as_bytes(), &one(), Kind::Named);
    for named in [r#"{"inputs":{"b":[[1]]}}"#, r#"{"instances":[{"b":[1]}]}"#] {
        assert!(read(named).is_ok(), "{named}");
    }
    for unnamed in [
        r#"{"inputs":[[1]]}"#,
        r#"{"instances":[[1]]}"#,
        r#"{"inputs":1}"#,
    ] {
        assert_eq!(
            read(unnamed).unwrap_err().message(),
            "Inputs inside buffer does not match expected format. - inputs of a pipeline have to \
             be named"
        );
    }
}
