use bytes::Bytes;

use super::{FACTORIES, Options};
use crate::{
    graph::calculators::{
        error::{AbseilCode, GraphRunError},
        node::{NodeOptions, NodeSpec, Ports},
        packet::{Packet, PacketType, Payload, TensorKind},
        stock::tests::fake::{Fake, Run},
        timestamp::Timestamp,
    },
    python,
    tensor::{DataType, Tensor},
};

const AT: Timestamp = Timestamp::new(5);

fn node(inputs: &[&str], outputs: &[&str], names: &[(&str, &str)]) -> NodeSpec {
    let names = names.iter();
    let options = Options {
        tag_to_output_tensor_names: names
            .map(|(tag, name)| ((*tag).to_owned(), (*name).to_owned()))
            .collect(),
    };
    NodeSpec {
        inputs: Ports::of(inputs),
        outputs: Ports::of(outputs),
        options: NodeOptions::of(&options),
        ..NodeSpec::default()
    }
}

fn process(node: NodeSpec, inputs: &[Packet]) -> Result<Vec<(usize, Packet)>, GraphRunError> {
    let mut run = Run::new(&FACTORIES[0], node, &Fake::missing());
    run.open(vec![])?;
    run.process(AT, inputs)
}

fn ov(dtype: DataType, shape: &[usize], data: &'static [u8]) -> Packet {
    let tensor = Tensor::new(dtype, shape.to_vec(), Bytes::from_static(data)).expect("it fits");
    Packet::new(Payload::Tensor(TensorKind::OpenVino, tensor), AT)
}

fn py(datatype: &str, shape: &[i64], data: &'static [u8]) -> Packet {
    let data = Bytes::from_static(data);
    let tensor = python::HandlerTensor::new("n", datatype, shape.to_vec(), data, false);
    Packet::new(Payload::Python(tensor), AT)
}

/// Formats packets as `index: name datatype shape data`.
fn reported(packets: &[(usize, Packet)]) -> Vec<String> {
    let text = |(place, packet): &(usize, Packet)| {
        assert_eq!(packet.at(), AT);
        match packet.payload() {
            Some(Payload::Python(tensor)) => format!(
                "{place}: {} {} {:?} {:?}",
                tensor.name(),
                tensor.datatype(),
                tensor.shape(),
                tensor.bytes()
            ),
            Some(Payload::Tensor(TensorKind::OpenVino, tensor)) => format!(
                "{place}: {} {:?} {:?}",
                tensor.dtype(),
                tensor.shape(),
                tensor.data()
            ),
            other => panic!("{other:?} was sent"),
        }
    };
    packets.iter().map(text).collect()
}

fn to_python() -> NodeSpec {
    let names = [("OVMS_PY_TENSOR", "input"), ("OTHER", "unused")];
    node(&["OVTENSOR:a"], &["OVMS_PY_TENSOR:b"], &names)
}

fn to_openvino() -> NodeSpec {
    node(&["OVMS_PY_TENSOR:a"], &["OVTENSOR:b"], &[])
}

#[test]
fn tensors_become_those_of_python() {
    let sent = process(to_python(), &[ov(DataType::I16, &[1, 2], b"abcd")]).unwrap();
    assert_eq!(reported(&sent), ["0: input INT16 [1, 2] b\"abcd\""]);
    let scalar = process(to_python(), &[ov(DataType::F32, &[], b"abcd")]).unwrap();
    assert_eq!(reported(&scalar), ["0: input FP32 [] b\"abcd\""]);
    let error = process(to_python(), &[ov(DataType::String, &[1], b"\x01\0\0\0a")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "INVALID_ARGUMENT: Undefined precision in input tensor: STRING"
    );
}

#[test]
fn tensors_of_python_become_those_of_openvino() {
    for dtype in DataType::ALL {
        let (Some(size), datatype) = (dtype.size(), dtype.kserve()) else {
            continue;
        };
        let data = &b"abcdefgh"[..size];
        let sent = process(to_openvino(), &[py(datatype, &[1, 1], data)]).unwrap();
        let data = Bytes::from_static(data);
        assert_eq!(reported(&sent), [format!("0: {datatype} [1, 1] {data:?}")]);
    }
    let empty = process(to_openvino(), &[py("FP32", &[3, 0], b"")]).unwrap();
    assert_eq!(reported(&empty), ["0: FP32 [3, 0] b\"\""]);
}

#[test]
fn what_openvino_has_no_tensor_for_is_refused() {
    let error = |datatype, shape: &[i64], data| {
        let error = process(to_openvino(), &[py(datatype, shape, data)]).unwrap_err();
        assert_eq!(error.code, AbseilCode::InvalidArgument);
        error.message
    };
    for datatype in ["<U5", "BYTES", "fp32", ""] {
        assert_eq!(
            error(datatype, &[1], b"abcd"),
            format!("Undefined precision in input python tensor: {datatype}")
        );
    }
    assert_eq!(
        error("FP32", &[1, -2], b"abcd"),
        "dimension negative during conversion: -2"
    );
    assert_eq!(
        error("FP32", &[2], b"abcd"),
        "python buffer size: 4; OV tensor size: 8; mismatch"
    );
    let huge = error("FP32", &[i64::MAX, i64::MAX], b"abcd");
    assert!(
        huge.starts_with("python buffer size: 4; OV tensor size: "),
        "{huge}"
    );
    let wrong = process(to_openvino(), &[ov(DataType::U8, &[1], b"a")]).unwrap_err();
    assert_eq!(
        wrong.message,
        "Input stream \"a\" has a packet of another type. Expected: Python tensor; Actual: \
         OpenVINO tensor"
    );
}

fn several() -> NodeSpec {
    node(
        &["OVTENSOR_A:a", "OVTENSOR_A:1:b", "OVMS_PY_TENSOR:c"],
        &["OVMS_PY_TENSOR_A:d", "OVMS_PY_TENSOR_A:1:e", "OVTENSOR:f"],
        &[("OVMS_PY_TENSOR_A", "x")],
    )
}

#[test]
fn pairs_convert_each_for_itself() {
    let contract = FACTORIES[0].check(&several()).unwrap();
    let ov_type = PacketType::Tensor(TensorKind::OpenVino);
    assert_eq!(
        contract.inputs,
        [PacketType::Python, ov_type.clone(), ov_type.clone()]
    );
    assert_eq!(
        contract.outputs,
        [PacketType::Python, PacketType::Python, ov_type]
    );
    assert_eq!(contract.offset, Some(0));
    let inputs = [
        py("UINT8", &[1], b"c"),
        ov(DataType::U8, &[1], b"a"),
        ov(DataType::U8, &[1], b"b"),
    ];
    let c = "2: UINT8 [1] b\"c\"";
    let a = "0: x UINT8 [1] b\"a\"";
    let b = "1: x UINT8 [1] b\"b\"";
    assert_eq!(reported(&process(several(), &inputs).unwrap()), [c, a, b]);
    for missing in 0..3 {
        let mut inputs = inputs.clone();
        inputs[missing] = Packet::empty(AT);
        let mut expected = vec![c, a, b];
        expected.remove(missing);
        assert_eq!(reported(&process(several(), &inputs).unwrap()), expected);
    }
}

#[test]
fn the_contract_says_what_is_wrong() {
    let refused = |inputs: &[&str], outputs: &[&str], names: &[(&str, &str)]| {
        FACTORIES[0]
            .check(&node(inputs, outputs, names))
            .unwrap_err()
    };
    let name = [("OVMS_PY_TENSOR", "n"), ("OVMS_PY_TENSOR_A", "n")];
    for (inputs, outputs) in [(&["OVTENSOR:a"][..], &[][..]), (&[], &["OVTENSOR:a"])] {
        let error = refused(inputs, outputs, &name);
        assert!(error.starts_with("needs at least one"), "{error}");
    }
    for (input, output) in [("a", "OVTENSOR:b"), ("TENSOR:a", "OVMS_PY_TENSOR:b")] {
        let error = refused(&[input], &[output], &name);
        assert!(
            error.contains("tags begin with OVTENSOR or OVMS_PY_TENSOR"),
            "{error}"
        );
    }
    let error = refused(&["OVTENSOR_A:a"], &["OVMS_PY_TENSOR_A:b"], &name);
    assert!(
        error.starts_with("has one input and one output stream"),
        "{error}"
    );
    let error = refused(&["OVTENSOR:a"], &["OVTENSOR:b"], &name);
    assert_eq!(
        error,
        "has the input stream OVTENSOR:0 without an output stream OVMS_PY_TENSOR:0"
    );
    let pair = ["OVTENSOR:a", "OVMS_PY_TENSOR:b"];
    let error = refused(&[pair[0], "OVTENSOR_A:c"], &[pair[1]], &name);
    assert_eq!(
        error,
        "has the input stream OVTENSOR_A:0 without an output stream OVMS_PY_TENSOR_A:0"
    );
    let error = refused(&[pair[0]], &[pair[1], "OVMS_PY_TENSOR:1:c"], &name);
    assert_eq!(
        error,
        "has the output stream OVMS_PY_TENSOR:1 without an input stream OVTENSOR:1"
    );
    for names in [&[][..], &[("b", "n")]] {
        let error = refused(&[pair[0]], &[pair[1]], names);
        assert!(
            error.starts_with("has no name for the tensors of the output OVMS_PY_TENSOR:"),
            "{error}"
        );
    }
}
