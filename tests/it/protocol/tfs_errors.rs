//! TensorFlow Serving over gRPC: invalid requests, each with its code and text.

use bytes::Bytes;
use ovms::proto::{
    tensorflow::{DataType, TensorProto},
    tensorflow_serving::{GetModelMetadataRequest, ModelSpec, PredictRequest},
};

use crate::support::{
    Server,
    grpc::error,
    repository,
    tfs::{Tfs, content, dummy, request, spec, tensor},
};

/// Sends requests for `dummy` that must be refused; returns descriptions and responses.
fn refused<const N: usize>(requests: [(&str, PredictRequest); N]) -> String {
    let server = Server::shared("dummy");
    let tfs = Tfs::connect(server);
    let answers = requests.map(|(what, request)| format!("{what}: {}\n", tfs.refused(request)));
    tfs.check_serves();
    answers.concat()
}

/// Returns a request for `dummy` with this as its input.
fn b(tensor: TensorProto) -> PredictRequest {
    request("dummy", [("b", tensor)])
}

/// Returns a tensor of FP32 zeros.
fn zeros(shape: &[i64]) -> TensorProto {
    let elements = shape.iter().product::<i64>().max(0);
    content(
        DataType::DtFloat,
        shape,
        &vec![0; usize::try_from(elements * 4).unwrap()],
    )
}

#[test]
fn unknown_names_and_versions() {
    let with = |model_spec| PredictRequest {
        model_spec,
        ..dummy()
    };
    insta::assert_snapshot!(refused([
        ("unknown model", with(spec("stranger", 0))),
        ("no name", with(spec("", 0))),
        ("no model_spec", with(None)),
        ("unknown version", with(spec("dummy", 2))),
        ("negative version", with(spec("dummy", -1))),
        // The most basic error is the response.
        ("all wrong", request("stranger", [])),
    ]), @r#"
    unknown model: NotFound: Model with requested name is not found
    no name: NotFound: Model with requested name is not found
    no model_spec: InvalidArgument: model_spec missing in request
    unknown version: NotFound: Model with requested version is not found
    negative version: NotFound: Model with requested version is not found
    all wrong: NotFound: Model with requested name is not found
    "#);
}

#[test]
fn a_version_that_is_loading() {
    let root = repository::endless();
    let server = Server::begin("dummy", root.path(), &["--loading_wait_seconds", "0"]);
    server.wait_log("loading");
    let tfs = Tfs::connect(&server);
    let answer = tfs.refused(PredictRequest {
        model_spec: spec("dummy", 1),
        ..dummy()
    });
    insta::assert_snapshot!(answer, @r#"Unavailable: Model with requested version is not loaded yet"#);
}

#[test]
fn inputs_that_do_not_fit() {
    let typed = |shape: &[i64], float_val: Vec<f32>| TensorProto {
        float_val,
        ..tensor(DataType::DtFloat, shape)
    };
    let unknown_rank = {
        let mut tensor = zeros(&[1, 10]);
        if let Some(shape) = &mut tensor.tensor_shape {
            shape.unknown_rank = true;
        }
        tensor
    };
    insta::assert_snapshot!(refused([
        ("no input", request("dummy", [])),
        ("one input too many", request("dummy", [("b", zeros(&[1, 10])), ("c", zeros(&[1]))])),
        ("another name", request("dummy", [("c", zeros(&[1, 10]))])),
        ("negative dimension", b(zeros(&[-1, 10]))),
        ("rank", b(zeros(&[1, 1, 10]))),
        ("no shape", b(TensorProto { tensor_shape: None, ..zeros(&[1, 10]) })),
        ("unknown rank", b(unknown_rank)),
        ("batch", b(zeros(&[2, 10]))),
        ("dimension", b(zeros(&[1, 11]))),
        ("shape beyond 64 bits", b(tensor(DataType::DtFloat, &[i64::MAX, i64::MAX]))),
        ("bytes", b(content(DataType::DtFloat, &[1, 10], &[0; 36]))),
        ("no data", b(tensor(DataType::DtFloat, &[1, 10]))),
        ("values", b(typed(&[1, 10], vec![0.0; 9]))),
        ("one value is not spread", b(typed(&[1, 10], vec![0.0]))),
        ("values in another field", b(TensorProto { int_val: vec![0; 10], ..tensor(DataType::DtFloat, &[1, 10]) })),
        ("unknown output", PredictRequest { output_filter: vec!["c".to_owned()], ..dummy() }),
        ("output twice", PredictRequest { output_filter: vec!["a".to_owned(); 2], ..dummy() }),
    ]), @r#"
    no input: InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 0
    one input too many: InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 2
    another name: InvalidArgument: Missing input with specific name - Required input: b
    negative dimension: InvalidArgument: Invalid input shape - Negative or zero dimension size is not acceptable: (-1,10); input name: b
    rank: InvalidArgument: Invalid number of shape dimensions - Expected: (1,10); Actual: (1,1,10); input name: b
    no shape: InvalidArgument: Invalid number of shape dimensions - Expected: (1,10); Actual: (); input name: b
    unknown rank: InvalidArgument: Invalid number of shape dimensions - Expected: a shape; Actual: unknown_rank; input name: b
    batch: InvalidArgument: Invalid input batch size - Expected: 1; Actual: 2; input name: b
    dimension: InvalidArgument: Invalid input shape - Expected: (1,10); Actual: (1,11); input name: b
    shape beyond 64 bits: InvalidArgument: Invalid input batch size - Expected: 1; Actual: 9223372036854775807; input name: b
    bytes: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b
    no data: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 0 bytes; input name: b
    values: InvalidArgument: Invalid number of values in tensor proto container - Expected: 10; Actual: 9; input name: b
    one value is not spread: InvalidArgument: Invalid number of values in tensor proto container - Expected: 10; Actual: 1; input name: b
    values in another field: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 0 bytes; input name: b
    unknown output: InvalidArgument: Invalid output name - Requested output: c; the model has: a
    output twice: InvalidArgument: Invalid output name - Requested output: a is listed twice
    "#);
}

#[test]
fn types_are_named_as_precisions() {
    let server = Server::shared("dummy");
    let tfs = Tfs::connect(server);
    let answers: Vec<String> = (0..=23)
        .chain([-1, 99])
        .filter(|&dtype| {
            dtype != i32::from(DataType::DtFloat) && dtype != i32::from(DataType::DtString)
        })
        .map(|dtype| {
            let tensor = TensorProto {
                dtype,
                ..zeros(&[1, 10])
            };
            format!("{dtype}: {}", tfs.refused(b(tensor)))
        })
        .collect();
    insta::assert_snapshot!(answers.join("\n"), @r#"
    0: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    2: InvalidArgument: Invalid input precision - Expected: FP32; Actual: FP64; input name: b
    3: InvalidArgument: Invalid input precision - Expected: FP32; Actual: I32; input name: b
    4: InvalidArgument: Invalid input precision - Expected: FP32; Actual: U8; input name: b
    5: InvalidArgument: Invalid input precision - Expected: FP32; Actual: I16; input name: b
    6: InvalidArgument: Invalid input precision - Expected: FP32; Actual: I8; input name: b
    8: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    9: InvalidArgument: Invalid input precision - Expected: FP32; Actual: I64; input name: b
    10: InvalidArgument: Invalid input precision - Expected: FP32; Actual: BOOL; input name: b
    11: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    12: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    13: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    14: InvalidArgument: Invalid input precision - Expected: FP32; Actual: BF16; input name: b
    15: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    16: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    17: InvalidArgument: Invalid input precision - Expected: FP32; Actual: U16; input name: b
    18: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    19: InvalidArgument: Invalid input precision - Expected: FP32; Actual: FP16; input name: b
    20: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    21: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    22: InvalidArgument: Invalid input precision - Expected: FP32; Actual: U32; input name: b
    23: InvalidArgument: Invalid input precision - Expected: FP32; Actual: U64; input name: b
    -1: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    99: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INVALID; input name: b
    "#);
    tfs.check_serves();
}

#[test]
fn the_types_that_have_but_a_list_count_its_values() {
    for (model, dtype, ints) in [
        (
            "passthrough_u16",
            DataType::DtUint16,
            TensorProto {
                int_val: vec![1; 2],
                ..TensorProto::default()
            },
        ),
        (
            "passthrough_f16",
            DataType::DtHalf,
            TensorProto {
                half_val: vec![1; 2],
                ..TensorProto::default()
            },
        ),
    ] {
        let server = Server::start(model);
        let tfs = Tfs::connect(&server);
        let shape = tensor(dtype, &[1, 3]);
        for list in [ints, TensorProto::default()] {
            let count = list.int_val.len() + list.half_val.len();
            let bad = TensorProto {
                dtype: shape.dtype,
                tensor_shape: shape.tensor_shape.clone(),
                ..list
            };
            assert_eq!(
                tfs.refused(request(model, [("in", bad)])),
                format!(
                    "InvalidArgument: Invalid number of values in tensor proto container - Expected: 3; Actual: {count}; input name: in"
                )
            );
        }
    }
}

#[test]
fn values_beyond_their_type() {
    let server = Server::shared("passthrough_u8");
    let tfs = Tfs::connect(server);
    let bad = TensorProto {
        int_val: vec![0, 256, 1],
        ..tensor(DataType::DtUint8, &[1, 3])
    };
    insta::assert_snapshot!(tfs.refused(request("passthrough_u8", [("in", bad)])), @r#"InvalidArgument: Invalid value in tensor proto container - 256 does not fit UINT8; input name: in"#);
}

#[test]
fn the_first_error_by_name_is_the_answer() {
    let server = Server::shared("add");
    let tfs = Tfs::connect(server);
    let bad = || zeros(&[1, 9]);
    insta::assert_snapshot!(
        tfs.refused(request("add", [("input2", bad()), ("input1", bad())])),
        @r#"InvalidArgument: Invalid input shape - Expected: (1,10); Actual: (1,9); input name: input1"#
    );
}

#[test]
fn metadata_of_what_is_not_there() {
    let server = Server::start("dummy");
    let tfs = Tfs::connect(&server);
    let metadata = |model_spec: Option<ModelSpec>, fields: &[&str]| {
        let request = GetModelMetadataRequest {
            model_spec,
            metadata_field: fields.iter().map(|&field| field.to_owned()).collect(),
        };
        let mut client = tfs.prediction.clone();
        let answer = tfs
            .grpc
            .wait(async move { client.get_model_metadata(request).await });
        error(&answer.unwrap_err())
    };
    let answers = [
        metadata(None, &["signature_def"]),
        metadata(spec("dummy", 0), &[]),
        metadata(spec("dummy", 0), &["signature"]),
        metadata(spec("dummy", 0), &["signature_def", "signature_def"]),
        metadata(spec("stranger", 0), &["signature_def"]),
        metadata(spec("dummy", 2), &["signature_def"]),
        metadata(spec("dummy", -1), &["signature_def"]),
    ];
    insta::assert_snapshot!(answers.join("\n"), @r#"
    InvalidArgument: model_spec missing in request
    InvalidArgument: Invalid signature name
    InvalidArgument: Invalid signature name
    InvalidArgument: Invalid signature name
    NotFound: Model with requested name is not found
    NotFound: Model with requested version is not found
    NotFound: Model with requested version is not found
    "#);
}

#[test]
fn ten_thousand_inputs_and_huge_shapes_are_answered() {
    let server = Server::shared("dummy");
    let tfs = Tfs::connect(server);
    let mut many = dummy();
    for number in 0..10_000 {
        many.inputs.insert(format!("n{number}"), zeros(&[1]));
    }
    insta::assert_snapshot!(tfs.refused(many), @r#"InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 10001"#);
    let long = tensor(DataType::DtFloat, &vec![1; 100_000]);
    assert!(
        tfs.refused(b(long))
            .starts_with("InvalidArgument: Invalid number of shape dimensions")
    );
    let server = Server::shared("passthrough_f32");
    let dynamic = Tfs::connect(server);
    let huge = content(DataType::DtFloat, &[1 << 40, 1 << 40], &[0; 4]);
    insta::assert_snapshot!(dynamic.refused(request("passthrough_f32", [("in", huge)])), @r#"InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (1099511627776,1099511627776); Actual: 4 bytes; input name: in"#);
    tfs.check_serves();
}

#[test]
fn strings_for_a_model_of_numbers() {
    let strings = TensorProto {
        string_val: vec![Bytes::from_static(b"a")],
        ..tensor(DataType::DtString, &[1])
    };
    // Neither an image nor text fits two dimensions of floats.
    insta::assert_snapshot!(refused([("strings", b(strings))]), @r#"strings: Unimplemented: Functionality not implemented - BYTES for a tensor of FP32 with shape (1,10): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b"#);
}
