//! Conversion of requests to packets.

use std::sync::Arc;

use super::{input, plan, raw, request, values};
use crate::{
    error::{ErrorKind, Result},
    graph::{
        calculators::{
            packet::{Packet, PacketType, Payload, TensorKind},
            timestamp::Timestamp,
        },
        serving::convert::packets,
    },
    request::{Data, InferRequest, InputTensor},
    tensor::{DataType, Tensor},
};

const AT: Timestamp = Timestamp::new(7);

/// Reads one input of the form.
fn read(form: PacketType, input: InputTensor) -> Result<Packet> {
    let plan = plan(&[("x", form)]);
    let request = request(vec![input]);
    let mut packets = packets(&plan, &request, AT);
    let (place, packet) = packets.next().expect("there is an input")?;
    assert!(packets.next().is_none());
    assert_eq!((place, packet.at()), (0, AT));
    Ok(packet)
}

fn tensor(form: PacketType, given: InputTensor) -> (TensorKind, Tensor) {
    let packet = read(form, given).expect("it fits");
    match packet.payload() {
        Some(Payload::Tensor(kind, tensor)) => (*kind, tensor.clone()),
        other => panic!("{other:?} is no tensor"),
    }
}

fn python(given: InputTensor) -> crate::python::HandlerTensor {
    let packet = read(PacketType::Python, given).expect("it fits");
    match packet.payload() {
        Some(Payload::Python(tensor)) => tensor.clone(),
        other => panic!("{other:?} is no tensor of Python"),
    }
}

fn error(form: PacketType, given: InputTensor) -> String {
    let error = read(form, given).expect_err("it does not fit");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error.message().to_owned()
}

const TENSORS: [(PacketType, TensorKind); 3] = [
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
];

#[test]
fn tensors_are_slices_of_the_request() {
    let sent: &'static [u8] = b"abcdefgh";
    for (form, kind) in TENSORS {
        let (made, tensor) = tensor(form, input("x", "FP32", &[2, 1], raw(sent)));
        assert_eq!(made, kind);
        assert_eq!(
            (tensor.dtype(), tensor.shape()),
            (DataType::F32, &[2, 1][..])
        );
        assert_eq!(tensor.data().as_ptr(), sent.as_ptr(), "nothing is copied");
    }
    let given = python(input("x", "FP32", &[2, 1], raw(sent)));
    assert_eq!(given.bytes().as_ptr(), sent.as_ptr(), "nothing is copied");
}

#[test]
fn values_count_as_the_shape_says() {
    for (form, _) in TENSORS {
        let (_, made) = tensor(form.clone(), input("x", "INT8", &[2], values(2, b"ab")));
        assert_eq!(&made.data()[..], b"ab");
        assert_eq!(
            error(form, input("x", "INT8", &[3], values(2, b"ab"))),
            "Invalid number of values in tensor proto container - Expected: 3 values; Actual: 2 \
             values; input name: x"
        );
    }
    assert_eq!(
        error(
            PacketType::Python,
            input("x", "INT8", &[3], values(2, b"ab"))
        ),
        "Invalid number of values in tensor proto container - Expected: 3 values; Actual: 2 \
         values; input name: x"
    );
}

#[test]
fn halves_have_no_values() {
    let reason = "FP16 has no field in InferTensorContents; send it in raw_input_contents";
    for form in [
        PacketType::Tensor(TensorKind::OpenVino),
        PacketType::Tensor(TensorKind::MediaPipe),
        PacketType::Tensor(TensorKind::TensorFlow),
        PacketType::Python,
    ] {
        let given = input("x", "FP16", &[1], Data::Unfit(reason.to_owned()));
        let error = read(form.clone(), given).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unimplemented);
        assert_eq!(
            error.message(),
            format!("Functionality not implemented - {reason}; input name: x")
        );
        assert!(read(form, input("x", "FP16", &[1], raw(b"ab"))).is_ok());
    }
    let given = input(
        "x",
        "INT8",
        &[1],
        Data::Unfit("128 does not fit INT8".to_owned()),
    );
    assert_eq!(
        error(PacketType::Tensor(TensorKind::OpenVino), given),
        "Invalid value in tensor proto container - 128 does not fit INT8; input name: x"
    );
}

#[test]
fn shapes_are_validated_alone() {
    for form in [
        PacketType::Tensor(TensorKind::OpenVino),
        PacketType::Tensor(TensorKind::TensorFlow),
    ] {
        assert!(
            tensor(form.clone(), input("x", "FP32", &[], raw(b"abcd")))
                .1
                .shape()
                .is_empty()
        );
        assert!(
            tensor(form, input("x", "FP32", &[2, 0], raw(b"")))
                .1
                .is_empty()
        );
    }
    let negative = "Invalid input shape - Negative dimension size is not acceptable: (2,-1); input \
                    name: x";
    for form in [
        PacketType::Tensor(TensorKind::OpenVino),
        PacketType::Tensor(TensorKind::MediaPipe),
        PacketType::Tensor(TensorKind::TensorFlow),
        PacketType::Python,
    ] {
        assert_eq!(
            error(form.clone(), input("x", "FP32", &[2, -1], raw(b"abcd"))),
            negative
        );
        let huge = input("x", "FP32", &[1 << 40, 1 << 40], raw(b"abcd"));
        assert_eq!(
            error(form, huge),
            "Invalid content size of tensor proto - Provided shape and datatype declare too large \
             buffer."
        );
    }
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::MediaPipe),
            input("x", "FP32", &[2, 0], raw(b""))
        ),
        "Invalid input shape - Negative dimension size is not acceptable: (2,0); input name: x"
    );
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::MediaPipe),
            input("x", "FP32", &[], raw(b"abcd"))
        ),
        "Invalid input shape - Expected: at least one dimension for Mediapipe tensor; Actual: (); \
         input name: x"
    );
}

#[test]
fn raw_bytes_are_as_many_as_shape_and_type_need() {
    for (form, _) in TENSORS {
        assert_eq!(
            error(form, input("x", "FP32", &[1], raw(b""))),
            "Invalid content size of tensor proto - Expected: 4 bytes; Actual: 0 bytes; input \
             name: x"
        );
    }
    assert_eq!(
        error(PacketType::Python, input("x", "FP32", &[2], raw(b"abc"))),
        "Invalid content size of tensor proto - Invalid Python tensor buffer size. Actual: 3; \
         Expected: 8"
    );
}

#[test]
fn each_kind_of_tensor_has_its_types() {
    let refused = |form, whose: &str, datatype: &str| {
        assert_eq!(
            error(form, input("x", datatype, &[1], raw(b"abcdefgh"))),
            format!(
                "Invalid input precision - Not supported precision for {whose} tensor \
                 deserialization: {datatype}"
            )
        );
    };
    refused(
        PacketType::Tensor(TensorKind::OpenVino),
        "OpenVINO",
        "my_type",
    );
    for datatype in [
        "FP64", "INT64", "INT16", "UINT64", "UINT32", "UINT16", "BF16", "BYTES", "x",
    ] {
        refused(
            PacketType::Tensor(TensorKind::MediaPipe),
            "Mediapipe",
            datatype,
        );
    }
    for datatype in ["BF16", "BYTES", "x"] {
        refused(
            PacketType::Tensor(TensorKind::TensorFlow),
            "Tensorflow",
            datatype,
        );
    }
    let zeros = |datatype: &str| {
        let size = DataType::from_kserve(datatype).and_then(DataType::size);
        raw(&[0; 8][..size.expect("numbers have a size")])
    };
    let of_mp = ["FP32", "FP16", "INT32", "INT8", "UINT8", "BOOL"];
    for datatype in of_mp {
        tensor(
            PacketType::Tensor(TensorKind::MediaPipe),
            input("x", datatype, &[1], zeros(datatype)),
        );
    }
    for dtype in DataType::ALL
        .into_iter()
        .filter(|&dtype| dtype != DataType::String)
    {
        let datatype = dtype.kserve();
        tensor(
            PacketType::Tensor(TensorKind::OpenVino),
            input("x", datatype, &[1], zeros(datatype)),
        );
        if dtype != DataType::Bf16 {
            tensor(
                PacketType::Tensor(TensorKind::TensorFlow),
                input("x", datatype, &[1], zeros(datatype)),
            );
        }
    }
}

#[test]
fn strings_are_tensors_of_openvino() {
    let framed = b"\x01\0\0\0a\0\0\0\0";
    for data in [raw(framed), values(2, framed)] {
        let (_, made) = tensor(
            PacketType::Tensor(TensorKind::OpenVino),
            input("x", "BYTES", &[2, 1], data),
        );
        assert_eq!(
            (made.dtype(), made.shape()),
            (DataType::String, &[2, 1][..])
        );
    }
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::OpenVino),
            input("x", "BYTES", &[3], raw(framed))
        ),
        "Invalid number of values in tensor proto container - Expected: 3 values; Actual: 2 \
         values; input name: x"
    );
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::OpenVino),
            input("x", "BYTES", &[1], raw(b"abcde"))
        ),
        "Inputs inside buffer does not match expected format. - the string at byte 0 does not end \
         within the 5 bytes given; input name: x"
    );
}

#[test]
fn python_gets_bytes_of_any_datatype() {
    for (datatype, shape, data) in [
        ("my_string", &[3][..], raw(b"twenty-three raw bytes!")),
        ("BYTES", &[2], raw(b"not framed")),
        ("BYTES", &[7], values(1, b"\x01\0\0\0a")),
        ("BF16", &[5], raw(b"abc")),
        ("", &[], raw(b"")),
    ] {
        let sent = match &data {
            Data::Raw(bytes) | Data::Values { bytes, .. } => bytes.clone(),
            other => panic!("{other:?} has no bytes"),
        };
        let given = python(input("x", datatype, shape, data));
        assert_eq!(
            (given.name(), given.datatype(), given.shape()),
            ("x", datatype, shape)
        );
        assert_eq!(*given.bytes(), sent);
    }
    for datatype in ["my_string", "BF16"] {
        assert_eq!(
            error(
                PacketType::Python,
                input("x", datatype, &[0], values(0, b""))
            ),
            "Invalid input precision - Provided datatype is invalid, custom datatypes are allowed \
             only when raw_input_contents is used."
        );
    }
}

#[test]
fn images_have_formats() {
    let cases: [(&str, i64, DataType); 9] = [
        ("UINT8", 1, DataType::U8),
        ("UINT8", 3, DataType::U8),
        ("INT8", 4, DataType::U8),
        ("UINT16", 3, DataType::U16),
        ("INT16", 1, DataType::U16),
        ("FP16", 4, DataType::U16),
        ("FP32", 1, DataType::F32),
        ("FP32", 2, DataType::F32),
        ("FP32", 4, DataType::F32),
    ];
    for (datatype, channels, dtype) in cases {
        let size = dtype.size().unwrap() * usize::try_from(channels).unwrap() * 2;
        let sent = raw(&[5; 64][..size]);
        let (kind, made) = tensor(
            PacketType::Tensor(TensorKind::Image),
            input("x", datatype, &[1, 2, channels], sent),
        );
        assert_eq!((kind, made.dtype()), (TensorKind::Image, dtype));
    }
    let no_format = "Inputs inside buffer does not match expected format. - Invalid KFS request \
                     datatype, conversion to Mediapipe ImageFrame format failed.";
    for (datatype, channels) in [
        ("UINT8", 2),
        ("INT16", 2),
        ("FP16", 5),
        ("FP32", 3),
        ("FP64", 3),
        ("BYTES", 3),
        ("x", 3),
    ] {
        let dtype = DataType::from_kserve(datatype);
        let size = dtype.and_then(DataType::size).unwrap_or(1);
        let sent = raw(&[5; 64][..size * usize::try_from(channels).unwrap()]);
        let given = input("x", datatype, &[1, 1, channels], sent);
        assert_eq!(
            error(PacketType::Tensor(TensorKind::Image), given),
            no_format,
            "{datatype}"
        );
    }
}

#[test]
fn images_are_raw_and_have_three_dimensions() {
    let given = |shape: &[i64], data| input("x", "UINT8", shape, data);
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::Image),
            given(&[1, 1, 3], values(3, b"abc"))
        ),
        "Mediapipe execution failed. MP status - Data should be located in raw_input_contents if \
         graph input tag is IMAGE; input name: x"
    );
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::Image),
            given(&[1, 1, 1, 3], raw(b"abc"))
        ),
        "Invalid input shape - Invalid Mediapipe Image input shape size. Expected: 3; Actual: 4"
    );
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::Image),
            given(&[1, 0, 3], raw(b""))
        ),
        "Invalid input shape - Invalid Mediapipe Image input width. Expected greater than 0; \
         Actual: 0; Expected layout - HWC."
    );
    assert_eq!(
        error(
            PacketType::Tensor(TensorKind::Image),
            given(&[1, 2, 3], raw(b"abc"))
        ),
        "Invalid content size of tensor proto - Invalid Mediapipe Image input buffer size. Actual: \
         3; Expected: 6"
    );
}

#[test]
fn inputs_before_the_bad_one_are_there() {
    let plan = plan(&[
        ("OVTENSOR:a", PacketType::Tensor(TensorKind::OpenVino)),
        ("OVMS_PY_TENSOR:b", PacketType::Python),
    ]);
    let good = |name: &str| input(name, "UINT8", &[1], raw(b"a"));
    let sent = request(vec![good("b"), good("c"), good("a")]);
    let read: Vec<_> = packets(&plan, &sent, AT).take(2).collect();
    let [Ok((1, _)), Err(error)] = &read[..] else {
        panic!("{} packets and errors", read.len());
    };
    assert_eq!(error.message(), "Unexpected input - c is unexpected");

    let twice = request(vec![good("a"), good("a")]);
    let places: Vec<_> = packets(&plan, &twice, AT)
        .map(|read| read.unwrap().0)
        .collect();
    assert_eq!(
        places,
        [0, 0],
        "that the time does not rise is for the stream to say"
    );
    assert_eq!(packets(&plan, &request(vec![]), AT).count(), 0);
}

#[test]
fn elements_are_in_one_place() {
    let plan = plan(&[
        ("a", PacketType::Tensor(TensorKind::OpenVino)),
        ("b", PacketType::Tensor(TensorKind::OpenVino)),
    ]);
    let message = |inputs, raw_mismatch| {
        let request = Arc::new(InferRequest {
            inputs,
            raw_mismatch,
            ..InferRequest::default()
        });
        let first = packets(&plan, &request, AT).next().unwrap();
        first.unwrap_err().message().to_owned()
    };
    let good = input("a", "UINT8", &[1], raw(b"a"));
    let both = input("b", "UINT8", &[1], Data::Both);
    let status = "Passing buffers both in ModelInferRequest::InferInputTensor::contents and in \
                  ModelInferRequest::raw_input_contents is not allowed";
    assert_eq!(
        message(vec![good.clone(), both], None),
        format!(
            "{status} - Passing buffers both in InferInputTensor contents and in \
             raw_input_contents is not allowed. Detected buffer in InferInputTensor contents for \
             input: b"
        )
    );
    assert_eq!(
        message(vec![good], Some((1, 2))),
        format!("{status} - Size of raw_input_contents: 2 is different than number of inputs: 1")
    );
}

#[test]
fn a_whole_request_is_one_packet() {
    let plan = plan(&[("REQUEST:req", PacketType::Request)]);
    for inputs in [vec![], vec![input("z", "x", &[-1], Data::Both)]] {
        let sent = request(inputs);
        let read: Vec<_> = packets(&plan, &sent, AT).map(Result::unwrap).collect();
        let [(0, packet)] = &read[..] else {
            panic!("{} packets", read.len());
        };
        let Some(Payload::Request(inner)) = packet.payload() else {
            panic!("no request");
        };
        assert!(Arc::ptr_eq(inner, &sent));
    }
}
