use std::sync::Arc;

use bytes::Bytes;

use super::{FACTORIES, Options};
use crate::{
    error::{Error, ErrorKind},
    graph::calculators::{
        error::GraphRunError,
        node::{NodeOptions, NodeSpec, Ports},
        packet::{Packet, PacketType, Payload, TensorKind},
        stock::tests::fake::{Fake, Run},
        timestamp::Timestamp,
    },
    request::{Data, Declared, InputTensor},
    tensor::{DataType, Tensor, TensorMap},
};

const AT: Timestamp = Timestamp::new(5);

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

fn pairs(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(tag, name)| ((*tag).to_owned(), (*name).to_owned()))
        .collect()
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn node(inputs: &[&str], outputs: &[&str], options: &Options) -> NodeSpec {
    NodeSpec {
        inputs: Ports::of(inputs),
        outputs: Ports::of(outputs),
        side_inputs: Ports::of(&["SESSION:s"]),
        options: NodeOptions::of(options),
        ..NodeSpec::default()
    }
}

fn tensor(dtype: DataType, data: &'static str) -> Tensor {
    let length = data.len() / dtype.size().unwrap_or(1);
    Tensor::new(dtype, vec![length], Bytes::from_static(data.as_bytes())).expect("it fits")
}

fn of(kind: TensorKind, data: &'static str) -> Payload {
    Payload::Tensor(kind, tensor(DataType::F32, data))
}

fn ov(data: &'static str) -> Packet {
    Packet::new(of(TensorKind::OpenVino, data), AT)
}

/// Returns a response with these outputs, each with its name four times as data.
fn answer(names: &[&'static str]) -> TensorMap {
    names
        .iter()
        .map(|name| {
            let data = Bytes::from(name.repeat(4));
            let tensor = Tensor::new(DataType::F32, vec![name.len()], data).expect("it fits");
            ((*name).to_owned(), tensor)
        })
        .collect()
}

/// Result of a node's run.
type Ran = (Vec<InputTensor>, Vec<String>, Vec<(usize, Packet)>);

/// Runs a node once; returns inputs and output names of the request, and packets sent.
fn once(fake: &Arc<Fake>, node: NodeSpec, inputs: &[Packet]) -> Result<Ran, GraphRunError> {
    let mut run = Run::new(&FACTORIES[0], node, fake);
    assert_eq!(run.contract.offset, Some(0));
    run.open(vec![fake.side()])?;
    let sent = run.process(AT, inputs)?;
    let mut requests = fake.requests();
    let request = requests.pop().expect("it asked the model");
    assert!(requests.is_empty());
    Ok((request.inputs, request.outputs, sent))
}

/// Formats inputs as `name=data`.
fn fed(inputs: &[InputTensor]) -> Vec<String> {
    let text = |input: &InputTensor| match &input.data {
        Data::Raw(bytes) => format!("{}={}", input.name, String::from_utf8_lossy(bytes)),
        other => panic!("{other:?} is not raw"),
    };
    inputs.iter().map(text).collect()
}

/// Formats sent packets as `index=data` or `index=[data,data]`.
fn sent(packets: &[(usize, Packet)], kind: TensorKind) -> Vec<String> {
    let data = |payload: &Payload| match payload {
        Payload::Tensor(of, tensor) if *of == kind => {
            String::from_utf8_lossy(tensor.data()).into_owned()
        }
        other => panic!("{other:?} is no {kind}"),
    };
    let text = |(place, packet): &(usize, Packet)| {
        assert_eq!(packet.at(), AT);
        match packet.payload() {
            Some(Payload::List(list)) => {
                let list: Vec<String> = list.iter().map(data).collect();
                format!("{place}=[{}]", list.join(","))
            }
            Some(one) => format!("{place}={}", data(one)),
            None => panic!("an empty packet"),
        }
    };
    packets.iter().map(text).collect()
}

#[test]
fn tags_are_names_of_the_model() {
    let fake = Fake::new(&["A", "B"], &["X", "Y", "Z"]);
    fake.answers(Ok(answer(&["X", "Y"])));
    let node = node(&["B:b", "A:a"], &["Y:y", "X:x"], &Options::default());
    let (inputs, asked, packets) = once(&fake, node, &[ov("aaaa"), ov("bbbb")]).unwrap();
    assert_eq!(fed(&inputs), ["A=aaaa", "B=bbbb"], "in the order of tags");
    assert_eq!(inputs[0].datatype, Declared::Known(DataType::F32));
    assert_eq!(inputs[0].shape, [1]);
    assert_eq!(asked, ["X", "Y"], "what is not taken is not asked for");
    assert_eq!(
        sent(&packets, TensorKind::OpenVino),
        ["0=XXXX", "1=YYYY"],
        "in the places of tags"
    );
}

#[test]
fn options_map_tags_to_names() {
    let fake = Fake::new(&["a", "b"], &["x", "y"]);
    fake.answers(Ok(answer(&["x", "y"])));
    let options = options(|options| {
        options.tag_to_input_tensor_names =
            pairs(&[("OVTENSOR1", "b"), ("OVTENSOR2", "a"), ("UNUSED", "z")]);
        options.tag_to_output_tensor_names = pairs(&[("OUT", "y")]);
    });
    let node = node(&["OVTENSOR1:p", "OVTENSOR2:q"], &["OUT:o"], &options);
    let (inputs, asked, packets) = once(&fake, node, &[ov("1111"), ov("2222")]).unwrap();
    assert_eq!(fed(&inputs), ["b=1111", "a=2222"]);
    assert_eq!(asked, ["y"]);
    assert_eq!(sent(&packets, TensorKind::OpenVino), ["0=yyyy"]);
}

#[test]
fn the_only_tensor_needs_no_name() {
    for (input, output) in [("OVTENSOR:i", "OVTENSOR:o"), ("i", "o"), ("IN:i", "OUT:o")] {
        let fake = Fake::new(&["b"], &["a"]);
        fake.answers(Ok(answer(&["a"])));
        let node = node(&[input], &[output], &Options::default());
        let (inputs, asked, packets) = once(&fake, node, &[ov("data")]).unwrap();
        assert_eq!((fed(&inputs), asked), (list(&["b=data"]), list(&["a"])));
        assert_eq!(sent(&packets, TensorKind::OpenVino), ["0=aaaa"]);
    }
}

#[test]
fn names_are_those_of_what_is_served_now() {
    let fake = Fake::new(&["b"], &["a"]);
    let node = node(&["i"], &["o"], &Options::default());
    let mut run = Run::new(&FACTORIES[0], node, &fake);
    run.open(vec![fake.side()]).unwrap();
    for (input, output) in [("b", "a"), ("x", "y"), ("x", "y"), ("b", "a")] {
        fake.renew(&[input], &[output]);
        fake.answers(Ok(answer(&[output])));
        let packets = run.process(AT, &[ov("data")]).unwrap();
        let request = fake.requests().pop().expect("it asked the model");
        assert_eq!(fed(&request.inputs), [format!("{input}=data")]);
        assert_eq!(request.outputs, [output]);
        let data = output.repeat(4);
        assert_eq!(sent(&packets, TensorKind::OpenVino), [format!("0={data}")]);
    }
}

#[test]
fn lists_are_ordered_by_option_or_by_name() {
    let vector = |list: &[&'static str]| {
        let list = list.iter().map(|data| of(TensorKind::MediaPipe, data));
        Packet::new(Payload::List(list.collect()), AT)
    };
    let ask = |options: &Options, given: &[&'static str]| {
        let fake = Fake::new(&["b", "a"], &["y", "x", "z"]);
        fake.answers(Ok(answer(&["x", "y", "z"])));
        let node = node(&["TENSORS:i"], &["TENSORS:o"], options);
        let (inputs, asked, packets) = once(&fake, node, &[vector(given)])?;
        let sent = sent(&packets, TensorKind::MediaPipe);
        Ok::<_, GraphRunError>((fed(&inputs), asked, sent))
    };
    assert_eq!(
        ask(&Options::default(), &["1111", "2222"]),
        Ok((
            list(&["a=1111", "b=2222"]),
            vec![],
            list(&["0=[xxxx,yyyy,zzzz]"])
        ))
    );
    let ordered = options(|options| {
        options.input_order_list = list(&["b", "a"]);
        options.output_order_list = list(&["z", "x"]);
    });
    assert_eq!(
        ask(&ordered, &["1111", "2222"]),
        Ok((
            list(&["b=1111", "a=2222"]),
            list(&["z", "x"]),
            list(&["0=[zzzz,xxxx]"])
        ))
    );
    for given in [&["1111"][..], &[], &["1111", "2222", "3333"]] {
        let error = ask(&ordered, given).unwrap_err();
        let text = format!("Input stream \"i\" has a list of {} tensors", given.len());
        assert!(error.message.starts_with(&text), "{error}");
        assert!(
            error.message.contains("2 inputs of the model: b, a"),
            "{error}"
        );
    }
    let mapped = options(|options| {
        options.tag_to_input_tensor_names = pairs(&[("TENSORS", "b")]);
        options.tag_to_output_tensor_names = pairs(&[("TENSORS", "y")]);
    });
    assert_eq!(
        ask(&mapped, &["1111"]),
        Ok((list(&["b=1111"]), list(&["y"]), list(&["0=[yyyy]"])))
    );
}

#[test]
fn a_list_feeds_what_single_tensors_leave() {
    let fake = Fake::new(&["C", "a", "b"], &["x"]);
    fake.answers(Ok(answer(&["x"])));
    let node = node(&["C:c", "OVTENSORS:i"], &["o"], &Options::default());
    let vector = [
        of(TensorKind::OpenVino, "1111"),
        of(TensorKind::OpenVino, "2222"),
    ];
    let vector = Packet::new(Payload::List(vector.to_vec()), AT);
    let (inputs, ..) = once(&fake, node, &[ov("cccc"), vector]).unwrap();
    assert_eq!(fed(&inputs), ["C=cccc", "a=1111", "b=2222"]);
}

#[test]
fn every_prefix_has_its_packets() {
    let one = |kind| PacketType::Tensor(kind);
    let many = |kind| PacketType::List(Box::new(PacketType::Tensor(kind)));
    for (tag, expected) in [
        ("OVTENSOR_X", one(TensorKind::OpenVino)),
        ("OVTENSORS", many(TensorKind::OpenVino)),
        ("TENSOR", one(TensorKind::MediaPipe)),
        ("TENSORS2", many(TensorKind::MediaPipe)),
        ("TFTENSOR", one(TensorKind::TensorFlow)),
        ("TFTENSORS", many(TensorKind::TensorFlow)),
        ("TFLITE_TENSOR", one(TensorKind::TfLite)),
        ("TFLITE_TENSORS", many(TensorKind::TfLite)),
        ("B", one(TensorKind::OpenVino)),
        ("", one(TensorKind::OpenVino)),
    ] {
        let text = format!("{tag}:s");
        let text = text.trim_start_matches(':');
        let contract = FACTORIES[0]
            .check(&node(&[text], &[text], &Options::default()))
            .unwrap();
        assert_eq!(contract.inputs, contract.outputs, "{tag}");
        assert_eq!(contract.outputs, [expected], "{tag}");
        assert_eq!(contract.side_inputs, [(PacketType::Session, false)]);
    }
}

#[test]
fn tensors_of_tensorflow_lite_have_no_batch() {
    let fake = Fake::new(&["b"], &["a"]);
    fake.answers(Ok(answer(&["a"])));
    let node = node(
        &["TFLITE_TENSOR:i"],
        &["TFLITE_TENSOR:o"],
        &Options::default(),
    );
    let given = Packet::new(of(TensorKind::TfLite, "11112222"), AT);
    let (inputs, _, packets) = once(&fake, node, &[given]).unwrap();
    assert_eq!(inputs[0].shape, [1, 2]);
    assert_eq!(sent(&packets, TensorKind::TfLite), ["0=aaaa"]);
}

#[test]
fn frameworks_have_only_some_types() {
    for (tag, dtype, whose) in [
        ("TENSOR", DataType::F64, "MediaPipe"),
        ("TENSOR", DataType::I64, "MediaPipe"),
        ("TFTENSOR", DataType::Bf16, "TensorFlow"),
        ("TFLITE_TENSOR", DataType::U8, "TensorFlow Lite"),
    ] {
        let fake = Fake::new(&["b"], &["a"]);
        let given = vec![("a".to_owned(), tensor(dtype, "12345678"))];
        fake.answers(Ok(given));
        let out = format!("{tag}:o");
        let run = |inputs: &[&str], outputs: &[&str], packet| {
            let node = node(inputs, outputs, &Options::default());
            once(&fake, node, &[packet]).unwrap_err().to_string()
        };
        assert_eq!(
            run(&["i"], &[&out], ov("data")),
            format!(
                "INTERNAL: Output \"a\" has elements of {dtype}, which a {whose} tensor does not \
                 have"
            )
        );
        let kind = match whose {
            "MediaPipe" => TensorKind::MediaPipe,
            "TensorFlow" => TensorKind::TensorFlow,
            _ => TensorKind::TfLite,
        };
        let packet = Packet::new(Payload::Tensor(kind, tensor(dtype, "12345678")), AT);
        let error = run(&[&format!("{tag}:i")], &["o"], packet);
        assert!(
            error.starts_with("INTERNAL: Input stream \"i\" has elements of"),
            "{error}"
        );
    }
}

#[test]
fn what_fails_is_a_error_within() {
    let fake = Fake::new(&["b"], &["a"]);
    let run = |packet: Packet| {
        let node = node(&["i"], &["o"], &Options::default());
        once(&fake, node, &[packet]).unwrap_err().to_string()
    };
    fake.answers(Err(Error::new(ErrorKind::Overloaded, "no slot came free")));
    assert_eq!(run(ov("data")), "INTERNAL: no slot came free");
    fake.answers(Ok(answer(&["c", "d"])));
    assert_eq!(
        run(ov("data")),
        "INTERNAL: The answer has no output \"a\"; it has: c, d"
    );
    assert_eq!(
        run(Packet::empty(AT)),
        "INTERNAL: Input stream \"i\" has no packet at 5; the model needs all inputs at once"
    );
    assert_eq!(
        run(Packet::new(Payload::Int(1), AT)),
        "INTERNAL: Input stream \"i\" has a packet of another type. Expected: OpenVINO tensor; \
         Actual: int"
    );
    let node = node(&["i"], &["o"], &Options::default());
    let mut run = Run::new(&FACTORIES[0], node, &fake);
    let error = run.open(vec![Packet::side(Payload::Int(1))]).unwrap_err();
    assert!(error.message.contains("is no session"), "{error}");
}

#[test]
fn the_contract_says_what_is_wrong() {
    let refused = |inputs: &[&str], outputs: &[&str], sides: &[&str], options: &Options| {
        let mut node = node(inputs, outputs, options);
        node.side_inputs = Ports::of(sides);
        FACTORIES[0].check(&node).unwrap_err()
    };
    let none = Options::default();
    let session = &["SESSION:s"][..];
    for (inputs, outputs) in [(&[][..], &["o"][..]), (&["i"], &[])] {
        let error = refused(inputs, outputs, session, &none);
        assert!(
            error.starts_with("needs at least one input stream"),
            "{error}"
        );
    }
    for sides in [&[][..], &["s"], &["SESSION:s", "OTHER:t"]] {
        let error = refused(&["i"], &["o"], sides, &none);
        assert!(error.contains("has the tag SESSION"), "{error}");
    }
    let error = refused(&["i", "j"], &["o"], session, &none);
    assert!(
        error.starts_with("has several input streams with the tag \"\""),
        "{error}"
    );
    let error = refused(&["i"], &["A:o", "A:1:p"], session, &none);
    assert!(
        error.starts_with("has several output streams with the tag \"A\""),
        "{error}"
    );
    let error = refused(&["TENSORS:i", "OVTENSORS:j"], &["o"], session, &none);
    assert!(
        error.starts_with("has several input streams with lists"),
        "{error}"
    );
    let both = options(|options| {
        options.tag_to_input_tensor_names = pairs(&[("A", "a")]);
        options.input_order_list = list(&["a"]);
    });
    let error = refused(&["A:i"], &["o"], session, &both);
    assert!(
        error.starts_with("has both tag_to_input_tensor_names"),
        "{error}"
    );
    let both = options(|options| {
        options.tag_to_output_tensor_names = pairs(&[("A", "a")]);
        options.output_order_list = list(&["a"]);
    });
    let error = refused(&["i"], &["A:o"], session, &both);
    assert!(
        error.starts_with("has both tag_to_output_tensor_names"),
        "{error}"
    );
    let twice = options(|options| options.output_order_list = list(&["a", "b", "a"]));
    let error = refused(&["i"], &["OVTENSORS:o"], session, &twice);
    assert_eq!(error, "has \"a\" twice in output_order_list");
    let across = options(|options| {
        options.tag_to_input_tensor_names = pairs(&[("A", "a")]);
        options.output_order_list = list(&["a"]);
    });
    assert!(
        FACTORIES[0]
            .check(&node(&["A:i"], &["OVTENSORS:o"], &across))
            .is_ok()
    );
}
