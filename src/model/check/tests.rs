//! Each error once, with its text; wire by wire they are tested in `tests/it`.

use bytes::Bytes;

use super::check as check_with_limit;
use crate::{
    budget::Budget,
    error::Result,
    openvino::Work,
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape, images::PixelLimit},
};

fn check(info: &ServableInfo, request: InferRequest) -> Result<Work> {
    check_with_limit(info, request, PixelLimit::default(), &Budget::default())
}

fn info() -> ServableInfo {
    let tensor = |name: &str, port, shape: &[Dim]| TensorInfo {
        name: name.to_owned(),
        dtype: DataType::F32,
        shape: PartialShape(shape.to_vec()),
        layout: Layout::unspecified(shape.len()),
        is_open: false,
        port,
    };
    ServableInfo::new(
        vec![tensor("b", 0, &[Dim::Range(1, 4), Dim::Fixed(2)])],
        vec![
            tensor("twice", 0, &[Dim::Any]),
            tensor("again", 1, &[Dim::Any]),
        ],
    )
}

fn request(datatype: &str, shape: &[i64], data: Data) -> InferRequest {
    InferRequest {
        inputs: vec![InputTensor {
            name: "b".to_owned(),
            datatype: Declared::from_kserve(datatype.to_owned()),
            shape: shape.to_vec(),
            data,
        }],
        ..InferRequest::default()
    }
}

fn raw(length: usize) -> Data {
    Data::Raw(vec![0; length].into())
}

fn error(request: InferRequest) -> String {
    check(&info(), request).unwrap_err().message().to_owned()
}

#[test]
fn a_request_that_fits_passes_with_all_outputs_by_name() {
    let Work { inputs, wanted } = check(&info(), request("FP32", &[3, 2], raw(24))).unwrap();
    assert_eq!(inputs[0].shape, [3, 2]);
    assert_eq!(wanted, [1, 0], "`again` is port 1 and comes first by name");
}

#[test]
fn asked_outputs_keep_their_order() {
    let mut asked = request("FP32", &[1, 2], raw(8));
    asked.outputs = vec!["twice".to_owned(), "again".to_owned()];
    assert_eq!(check(&info(), asked).unwrap().wanted, [0, 1]);
    let mut asked = request("FP32", &[1, 2], raw(8));
    asked.outputs = vec!["thrice".to_owned()];
    insta::assert_snapshot!(error(asked), @"Invalid output name - Requested output: thrice; the model has: again, twice");
}

#[test]
fn each_error_has_its_text() {
    let mut two = request("FP32", &[1, 2], raw(8));
    two.inputs.push(two.inputs[0].clone());
    let mut stranger = request("FP32", &[1, 2], raw(8));
    stranger.inputs[0].name = "c".to_owned();
    let few = Data::Values {
        count: 1,
        bytes: vec![0; 4].into(),
    };
    let none = Data::Values {
        count: 0,
        bytes: vec![].into(),
    };
    let errors = [
        two,
        request("FP32", &[1, 2], Data::Both),
        stranger,
        request("FP32", &[-1, 2], raw(8)),
        request("INT32", &[1, 2], raw(8)),
        request("FLOAT", &[1, 2], raw(8)),
        request("BYTES", &[1, 2], raw(8)),
        request("FP32", &[1, 1, 2], raw(8)),
        request("FP32", &[5, 2], raw(40)),
        request("FP32", &[1, 3], raw(12)),
        request("FP32", &[1, 2], raw(7)),
        request("FP32", &[1, 2], few),
        request("FP32", &[1, 2], none),
        request(
            "FP32",
            &[1, 2],
            Data::Unfit("300 does not fit INT8".to_owned()),
        ),
    ];
    let texts: Vec<String> = errors.into_iter().map(error).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    Invalid number of inputs - Expected: 1; Actual: 2; the model has: b
    Passing buffers both in ModelInferRequest::InferInputTensor::contents and in ModelInferRequest::raw_input_contents is not allowed - Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. Detected buffer in InferInputTensor contents for input: b
    Missing input with specific name - Required input: b; the request has: c
    Invalid input shape - Negative or zero dimension size is not acceptable: (-1,2); input name: b
    Invalid input precision - Expected: FP32; Actual: INT32; input name: b
    Invalid input precision - Expected: FP32; Actual: FLOAT; input name: b
    Functionality not implemented - BYTES for a tensor of FP32 with shape ([1~4],2): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b
    Invalid number of shape dimensions - Expected: ([1~4],2); Actual: (1,1,2); input name: b
    Invalid input batch size - Expected: [1~4]; Actual: 5; input name: b
    Invalid input shape - Expected: ([1~4],2); Actual: (1,3); input name: b
    Invalid content size of tensor proto - Expected: 8 bytes; Actual: 7 bytes; input name: b
    Invalid number of values in tensor proto container - Expected: 2 values; Actual: 1 values; input name: b
    Invalid number of values in tensor proto container - Expected: 2 values; Actual: 0 values; input name: b
    Invalid value in tensor proto container - 300 does not fit INT8; input name: b
    ");
}

#[test]
fn values_in_place_of_rows_of_one_have_a_hint() {
    let mut column = info();
    column.inputs[0].shape.0[1] = Dim::Fixed(1);
    let error = |info: &ServableInfo, dialect: Dialect, shape: &[i64]| {
        let asked = InferRequest {
            dialect,
            ..request("FP32", shape, raw(12))
        };
        check(info, asked).unwrap_err().message().to_owned()
    };
    let tfs = Dialect::TensorFlowServing;
    insta::assert_snapshot!(
        error(&column, tfs, &[3]),
        @"Invalid number of shape dimensions - Expected: ([1~4],1); Actual: (3); input name: b - each row is a list, such as [[1.0], [2.0]]"
    );
    for other in [
        error(&column, Dialect::KServe, &[3]),
        error(&column, tfs, &[3, 1, 1]),
        error(&info(), tfs, &[3]),
    ] {
        assert!(other.ends_with("; input name: b"), "{other}");
    }
}

#[test]
fn the_batch_is_where_the_layout_has_it() {
    let error = |layout: &str, shape: &[i64]| {
        let mut info = info();
        info.inputs[0].layout = Layout::parse(layout).unwrap();
        let elements = usize::try_from(shape.iter().product::<i64>()).unwrap();
        check(&info, request("FP32", shape, raw(elements * 4))).map_err(|e| e.message().to_owned())
    };
    let texts = [
        error("CN", &[5, 3]).unwrap_err(),
        error("CN", &[5, 2]).unwrap_err(),
        error("CN", &[4, 3]).unwrap_err(),
        error("HW", &[5, 2]).unwrap_err(),
        error("...N", &[5, 3]).unwrap_err(),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    Invalid input batch size - Expected: 2; Actual: 3; input name: b
    Invalid input shape - Expected: ([1~4],2); Actual: (5,2); input name: b
    Invalid input batch size - Expected: 2; Actual: 3; input name: b
    Invalid input shape - Expected: ([1~4],2); Actual: (5,2); input name: b
    Invalid input batch size - Expected: 2; Actual: 3; input name: b
    ");
    assert!(error("CN", &[4, 2]).is_ok());
}

#[test]
fn the_number_of_raw_buffers_comes_after_the_number_of_inputs() {
    let mut few = request("FP32", &[1, 2], raw(8));
    few.raw_mismatch = Some((1, 2));
    insta::assert_snapshot!(error(few.clone()), @"Inputs inside buffer does not match expected format. - Expected: one element of raw_input_contents for each of the 1 inputs; Actual: 2");
    few.inputs[0].data = Data::Both;
    assert!(error(few.clone()).starts_with("Passing buffers both"));
    few.inputs.clear();
    assert!(error(few).starts_with("Invalid number of inputs"));
}

#[test]
fn a_shape_beyond_memory_is_refused_without_allocating() {
    let mut info = info();
    info.inputs[0].shape = PartialShape(vec![Dim::Any, Dim::Any]);
    let huge = request("FP32", &[i64::MAX, i64::MAX], raw(4));
    insta::assert_snapshot!(check(&info, huge).unwrap_err(), @"Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (9223372036854775807,9223372036854775807); Actual: 4 bytes; input name: b");
}

#[test]
fn a_tensor_without_elements_has_lengths_that_the_server_and_the_runtime_can_go_through() {
    let mut info = info();
    info.inputs[0].shape = PartialShape(vec![Dim::Any, Dim::Any]);
    let refused = |shape: &[i64]| {
        let values = Data::Values {
            count: 0,
            bytes: Bytes::new(),
        };
        let texts = [raw(0), values].map(|data| {
            let error = check(&info, request("FP32", shape, data)).unwrap_err();
            error.message().to_owned()
        });
        assert_eq!(texts[0], texts[1]);
        texts[0].clone()
    };
    insta::assert_snapshot!(refused(&[(1 << 20) + 1, 0]), @"Invalid input shape - Expected: 1048576 rows at most in a tensor without elements; Actual: (1048577,0); input name: b");
    insta::assert_snapshot!(refused(&[0, i64::MAX]), @"Invalid input shape - Expected: lengths below 9223372036854775807; Actual: (0,9223372036854775807); input name: b");
    for shape in [[1 << 20, 0], [0, i64::MAX - 1]] {
        assert!(check(&info, request("FP32", &shape, raw(0))).is_ok());
    }
}

#[test]
fn a_shape_of_unknown_rank_is_refused_where_the_number_of_dimensions_is_checked() {
    let unranked = |datatype| request(datatype, &[], Data::Unranked);
    let mut two = unranked("FP32");
    two.inputs.push(two.inputs[0].clone());
    assert!(error(two).starts_with("Invalid number of inputs"));
    assert!(error(unranked("INT32")).starts_with("Invalid input precision"));
    let text = "Invalid number of shape dimensions - Expected: a shape; Actual: unknown_rank; input name: b";
    assert_eq!(error(unranked("FP32")), text);
    let mut scalar = info();
    scalar.inputs[0].shape = PartialShape(vec![]);
    assert_eq!(
        check(&scalar, unranked("FP32")).unwrap_err().message(),
        text
    );
}

#[test]
fn few_names_of_a_request_are_reported() {
    let mut many = info();
    many.inputs = (0..9)
        .map(|index| TensorInfo {
            name: format!("input{index}"),
            ..many.inputs[0].clone()
        })
        .collect();
    let mut long = request("FP32", &[1, 2], raw(8));
    long.inputs[0].name = "é".repeat(100);
    let refused =
        |info: &ServableInfo, request| check(info, request).unwrap_err().message().to_owned();
    let text = refused(&many, long.clone());
    assert!(
        text.ends_with("Expected: 9; Actual: 1; the model has: input0, input1, input2, input3, input4, input5, input6, input7, …"),
        "{text}"
    );
    let text = refused(&info(), long);
    let expected = format!("Required input: b; the request has: {}…", "é".repeat(64));
    assert!(text.ends_with(&expected), "{text}");
    // Twice the same stands in for another one.
    let mut two = info();
    let other = TensorInfo {
        name: "c".to_owned(),
        ..two.inputs[0].clone()
    };
    two.inputs.push(other);
    let mut twice = request("FP32", &[1, 2], raw(8));
    twice.inputs.push(twice.inputs[0].clone());
    let text = refused(&two, twice);
    assert!(
        text.ends_with("Required input: c; the request has: b"),
        "{text}"
    );
}
