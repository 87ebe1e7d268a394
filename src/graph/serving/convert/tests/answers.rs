//! Conversion of packets to responses.

use std::sync::Arc;

use bytes::Bytes;

use super::plan;
use crate::{
    graph::{
        calculators::{
            error::{AbseilCode, GraphRunError},
            packet::{Packet, PacketType, Payload, TensorKind},
            timestamp::{TIMESTAMP, Timestamp},
        },
        serving::convert::{VERSION, answer::output, response},
    },
    python,
    request::{InferResponse, LooseTensor, Parameter},
    tensor::{DataType, Tensor, TensorMap},
};

const AT: Timestamp = Timestamp::new(i64::MAX - 3);

fn of(dtype: DataType, shape: &[usize], data: &'static [u8]) -> Tensor {
    Tensor::new(dtype, shape.to_vec(), Bytes::from_static(data)).expect("the bytes fit")
}

fn given(form: PacketType, payload: Payload) -> Result<LooseTensor, GraphRunError> {
    let plan = plan(&[("TAG:y", form)]);
    output(&plan.outputs[0], &Packet::new(payload, AT))
}

fn loose(name: &str, datatype: &str, shape: &[i64], data: &'static [u8]) -> LooseTensor {
    LooseTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        data: Bytes::from_static(data),
    }
}

#[test]
fn tensors_are_named_after_their_streams() {
    for (form, kind) in [
        (
            PacketType::Tensor(TensorKind::OpenVino),
            TensorKind::OpenVino,
        ),
        (
            PacketType::Tensor(TensorKind::MediaPipe),
            TensorKind::MediaPipe,
        ),
        (
            PacketType::Tensor(TensorKind::TensorFlow),
            TensorKind::TensorFlow,
        ),
    ] {
        let tensor = of(DataType::I16, &[1, 2], b"abcd");
        assert_eq!(
            given(form, Payload::Tensor(kind, tensor)),
            Ok(loose("y", "INT16", &[1, 2], b"abcd"))
        );
    }
    let scalar = of(DataType::F32, &[], b"abcd");
    let scalar = Payload::Tensor(TensorKind::OpenVino, scalar);
    assert_eq!(
        given(PacketType::Tensor(TensorKind::OpenVino), scalar),
        Ok(loose("y", "FP32", &[], b"abcd"))
    );
    let text = of(DataType::String, &[1], b"\x01\0\0\0a");
    let text = Payload::Tensor(TensorKind::OpenVino, text);
    assert_eq!(
        given(PacketType::Tensor(TensorKind::OpenVino), text),
        Ok(loose("y", "BYTES", &[1], b"\x01\0\0\0a"))
    );
}

#[test]
fn tensors_of_python_are_as_python_says() {
    let shape = vec![-1, 3];
    let data = Bytes::from_static(b"abc");
    let tensor = python::HandlerTensor::new("own", "<U5", shape, data, false);
    assert_eq!(
        given(PacketType::Python, Payload::Python(tensor)),
        Ok(loose("y", "<U5", &[-1, 3], b"abc"))
    );
}

#[test]
fn images_have_the_type_of_their_format() {
    for (dtype, datatype) in [
        (DataType::U8, "UINT8"),
        (DataType::I8, "UINT8"),
        (DataType::U16, "UINT16"),
        (DataType::F16, "UINT16"),
        (DataType::F32, "FP32"),
    ] {
        let size = dtype.size().unwrap();
        let image = of(dtype, &[1, 1, 1], &b"abcd"[..size]);
        assert_eq!(
            given(
                PacketType::Tensor(TensorKind::Image),
                Payload::Tensor(TensorKind::Image, image)
            ),
            Ok(loose("y", datatype, &[1, 1, 1], &b"abcd"[..size]))
        );
    }
}

#[test]
fn what_is_no_output_is_a_error() {
    let error = |form, payload| given(form, payload).unwrap_err().to_string();
    assert_eq!(
        error(PacketType::Tensor(TensorKind::OpenVino), Payload::Int(1)),
        "INTERNAL: Failed to get packet from output stream \"y\". Expected: OpenVINO tensor; \
         Actual: int"
    );
    let tensor = Payload::Tensor(TensorKind::OpenVino, of(DataType::U8, &[1], b"a"));
    assert_eq!(
        error(PacketType::Python, tensor),
        "INTERNAL: Failed to get packet from output stream \"y\". Expected: Python tensor; \
         Actual: OpenVINO tensor"
    );
    let plan = plan(&[("y", PacketType::Response)]);
    let nothing = output(&plan.outputs[0], &Packet::empty(AT)).unwrap_err();
    assert_eq!(nothing.code, AbseilCode::Internal);
    assert!(
        nothing
            .message
            .ends_with("Expected: response; Actual: nothing")
    );
}

#[test]
fn a_response_has_all_outputs_and_their_time() {
    let plan = plan(&[
        ("b", PacketType::Tensor(TensorKind::OpenVino)),
        ("a", PacketType::Tensor(TensorKind::OpenVino)),
    ]);
    let tensor = |data| Payload::Tensor(TensorKind::OpenVino, of(DataType::U8, &[1], data));
    let packets = [Packet::new(tensor(b"1"), AT), Packet::new(tensor(b"2"), AT)];
    let made = response("g", "7", plan.outputs.iter().zip(&packets)).unwrap();
    assert_eq!(
        made,
        InferResponse {
            model_name: "g".to_owned(),
            model_version: VERSION,
            id: "7".to_owned(),
            outputs: TensorMap::default(),
            loose: vec![
                loose("b", "UINT8", &[1], b"1"),
                loose("a", "UINT8", &[1], b"2")
            ],
            parameters: vec![(TIMESTAMP.to_owned(), Parameter::Int(i64::MAX - 3))],
            placed: Vec::new(),
            texts: None,
        }
    );
}

#[test]
fn a_response_of_a_node_gets_the_graphs_name_and_time() {
    let plan = plan(&[("RESPONSE:r", PacketType::Response)]);
    let outputs = vec![("y".to_owned(), of(DataType::U8, &[1], b"1"))];
    let made = InferResponse {
        model_name: "x".to_owned(),
        model_version: 9,
        id: "old".to_owned(),
        outputs: outputs.clone(),
        loose: vec![loose("z", "any", &[], b"")],
        parameters: vec![
            (TIMESTAMP.to_owned(), Parameter::Int(1)),
            ("kept".to_owned(), Parameter::Bool(true)),
        ],
        placed: Vec::new(),
        texts: None,
    };
    let packet = Packet::new(Payload::Response(Arc::new(made)), Timestamp::new(5));
    let read = response("g", "", [(&plan.outputs[0], &packet)]).unwrap();
    assert_eq!(
        (read.model_name.as_str(), read.model_version),
        ("g", VERSION)
    );
    assert_eq!(read.id, "");
    assert_eq!(read.outputs, outputs);
    assert_eq!(read.loose.len(), 1);
    assert_eq!(
        read.parameters,
        [
            ("kept".to_owned(), Parameter::Bool(true)),
            (TIMESTAMP.to_owned(), Parameter::Int(5)),
        ]
    );
}
