//! Requests that come back as answers, and answers that break the protocol.

use std::collections::BTreeMap;

use prost::Message;

use crate::{
    client::{
        error::AnswerError,
        message::{ClientResponse, ModelId, Request, TensorForm, TensorMetadata},
        tfs_grpc::{answer, message, shape},
    },
    error::chain,
    proto::{
        tensorflow::{DataType as TfType, TensorProto},
        tensorflow_serving::{PredictRequest, PredictResponse, model_spec::VersionChoice},
    },
    tensor::{DataType, Tensor, TensorMap},
};

fn example(inputs: TensorMap, outputs: &[&str], form: TensorForm) -> Request {
    Request {
        model: ModelId {
            name: "m".to_owned(),
            version: Some("2".to_owned()),
        },
        id: String::new(),
        parameters: Vec::new(),
        inputs,
        outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
        model_outputs: ["y", "x"]
            .map(|name| TensorMetadata::new(name.to_owned(), "FP32".to_owned(), &[]))
            .to_vec(),
        form,
    }
}

fn one(tensor: Tensor, form: TensorForm) -> Request {
    let inputs = TensorMap::from_iter([("x".to_owned(), tensor)]);
    example(inputs, &[], form)
}

fn sent(request: &Request) -> PredictRequest {
    let encoded = message(request).unwrap().encode_to_vec();
    PredictRequest::decode(&*encoded).unwrap()
}

/// Reads the response of a server with these outputs.
fn read(
    request: &Request,
    outputs: BTreeMap<String, TensorProto>,
) -> Result<ClientResponse, AnswerError> {
    let response = PredictResponse {
        outputs,
        model_spec: None,
    };
    answer(response.encode_to_vec().into(), request)
}

fn bytes(dtype: DataType) -> Tensor {
    match dtype.size() {
        Some(size) => Tensor::new(dtype, vec![2, 2], vec![1; 4 * size].into()),
        None => Tensor::new(dtype, vec![2], vec![1, 0, 0, 0, 255, 0, 0, 0, 0].into()),
    }
    .unwrap()
}

#[test]
fn every_datatype_comes_back_as_it_went_in_both_forms() {
    for dtype in DataType::ALL {
        for form in [TensorForm::Bytes, TensorForm::Values] {
            let request = one(bytes(dtype), form);
            let message = sent(&request);
            let spec = message.model_spec.unwrap();
            assert_eq!(spec.name, "m");
            assert_eq!(spec.version_choice, Some(VersionChoice::Version(2)));
            let answer = read(&request, message.inputs).unwrap();
            assert_eq!(
                crate::tensor::named(&answer.outputs, "x"),
                Some(&bytes(dtype)),
                "{dtype} {form:?}"
            );
            assert_eq!(answer.model_name, "m");
            assert_eq!(answer.model_version, "2");
        }
    }
}

/// Typed forms that the C++ server reads.
#[test]
fn some_inputs_are_typed_in_either_form() {
    let typed = |name: &str, dtype| {
        let inputs = TensorMap::from_iter([(name.to_owned(), bytes(dtype))]);
        let mut message = sent(&example(inputs, &[], TensorForm::Bytes));
        message.inputs.remove(name).unwrap()
    };
    assert_eq!(typed("x", DataType::F16).half_val, [0x0101; 4]);
    assert_eq!(typed("x", DataType::U16).int_val, [0x0101; 4]);
    assert_eq!(typed("x", DataType::String).string_val, [&b"\xff"[..], b""]);
    assert_eq!(
        typed("sequence_control_input", DataType::U32).uint32_val,
        [0x0101_0101; 4]
    );
    assert_eq!(typed("sequence_id", DataType::U64).uint64_val.len(), 4);
    for dtype in DataType::ALL {
        let is_raw = !typed("x", dtype).tensor_content.is_empty();
        let is_only_typed = matches!(dtype, DataType::F16 | DataType::U16 | DataType::String);
        assert_eq!(is_raw, !is_only_typed, "{dtype}");
    }
}

#[test]
fn outputs_are_selected_and_ordered_whatever_the_server_does() {
    let outputs = |names: &[&str]| {
        let inputs = ["a", "x", "y"].map(|name| (name.to_owned(), bytes(DataType::I8)));
        let request = example(TensorMap::from_iter(inputs), names, TensorForm::Bytes);
        let message = sent(&request);
        assert_eq!(message.output_filter, names);
        let answer = read(&request, message.inputs).unwrap();
        let names: Vec<_> = answer
            .outputs
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        names
    };
    assert_eq!(outputs(&[]), ["y", "x", "a"]);
    assert_eq!(outputs(&["x", "a"]), ["x", "a"]);
}

#[test]
fn an_answer_that_breaks_the_protocol_is_refused() {
    let request = one(bytes(DataType::F32), TensorForm::Bytes);
    let output = TensorProto {
        dtype: TfType::DtFloat.into(),
        tensor_shape: Some(shape(&[2])),
        ..Default::default()
    };
    let with = |output: TensorProto| {
        let outputs = BTreeMap::from([("y".to_owned(), output)]);
        chain(&read(&request, outputs).unwrap_err())
    };
    assert_eq!(with(output.clone()), "found no elements of output `y`");
    let short = TensorProto {
        tensor_content: vec![0; 7].into(),
        ..output.clone()
    };
    assert_eq!(
        with(short),
        "cannot read output `y`: shape (2) of FP32 needs 8 bytes, found 7"
    );
    let few = TensorProto {
        float_val: vec![1.0],
        ..output.clone()
    };
    assert_eq!(
        with(few),
        "cannot read output `y`: found 1 elements for shape (2)"
    );
    let other = TensorProto {
        bool_val: vec![true, true],
        ..output.clone()
    };
    assert_eq!(
        with(other),
        "cannot read output `y`: found true, expected a value of FP32"
    );
    let half = TensorProto {
        dtype: TfType::DtHalf.into(),
        half_val: vec![0, -1],
        ..output.clone()
    };
    assert_eq!(with(half), "cannot read output `y`: -1 does not fit FP16");
    let mut negative = output.clone();
    negative.tensor_shape.as_mut().unwrap().dim[0].size = -1;
    assert_eq!(
        with(negative),
        "cannot read output `y`: found a negative dimension"
    );
    let unknown = TensorProto { dtype: 8, ..output };
    assert_eq!(with(unknown), "found the datatype `8` of output `y`");
    let garbage = answer(vec![255].into(), &request).unwrap_err();
    assert!(chain(&garbage).starts_with("found a body that cannot be decoded"));
}

#[test]
fn no_elements_need_no_contents() {
    let empty = Tensor::new(DataType::F32, vec![0, 3], Vec::new().into()).unwrap();
    let request = one(empty.clone(), TensorForm::Bytes);
    let answer = read(&request, sent(&request).inputs).unwrap();
    assert_eq!(crate::tensor::named(&answer.outputs, "x"), Some(&empty));
}
