//! `ovms infer`: forms of inputs.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Output, Stdio},
};

use bytes::Bytes;
use ovms::tensor::{DataType, Tensor};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Server,
    infer::{APIS, GRPC, command, data, failures, json, tensor, write_npy, write_npz},
    repository,
};

/// Output of `dummy` for 0 to 9.
const ONE_TO_TEN: [f64; 10] = [1., 2., 3., 4., 5., 6., 7., 8., 9., 10.];

/// Files with 0 to 9 in every input form.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            folder: repository::folder(),
        };
        let numbers: Vec<f32> = (0_u8..10).map(f32::from).collect();
        let doubles: Bytes = (0_u8..10)
            .flat_map(|number| f64::from(number).to_le_bytes())
            .collect();
        let flat = tensor(&[10], &numbers);
        let row = tensor(&[1, 10], &numbers);
        write_npy(&files.path("flat.npy"), &flat);
        write_npy(&files.path("row.npy"), &row);
        write_npy(
            &files.path("doubles.npy"),
            &Tensor::new(DataType::F64, vec![1, 10], doubles).unwrap(),
        );
        write_npz(&files.path("nameless.npz"), &[("arr_0", &row)]);
        write_npz(&files.path("named.npz"), &[("b", &row)]);
        write_npz(
            &files.path("two.npz"),
            &[("input1", &row), ("input2", &flat)],
        );
        for (name, text) in [
            ("value.json", "[0,1,2,3,4,5,6,7,8,9]"),
            ("object.json", r#"{"b": [[0,1,2,3,4,5,6,7,8,9]]}"#),
            (
                "two.json",
                r#"{"input2": [0,1,2,3,4,5,6,7,8,9], "input1": [0,0,0,0,0,0,0,0,0,1]}"#,
            ),
            ("numbers.txt", "0 1, 2\n3,4\t5 6 7 8 9\n"),
        ] {
            fs::write(files.path(name), text).unwrap();
        }
        fs::write(files.path("bytes.bin"), flat.data()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns `NAME=@FILE`.
    fn input(&self, name: &str, file: &str) -> String {
        format!("{name}@{}", self.path(file).display())
    }
}

/// Runs a command that reads standard input.
fn piped(server: &Server, args: &[&str], stdin: &str) -> Value {
    let output = fed(server, args, stdin);
    assert_eq!(output.status.code(), Some(0), "{args:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fed(server: &Server, args: &[&str], stdin: &str) -> Output {
    let mut child = command(server, GRPC)
        .args(args)
        .args(["--output", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(stdin.as_bytes()).unwrap();
    drop(pipe);
    child.wait_with_output().unwrap()
}

#[test]
fn json_is_a_value() {
    let server = Server::shared("dummy");
    for api in APIS {
        for input in [
            "[0,1,2,3,4,5,6,7,8,9]",
            "b=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
            "b=[[0,1,2,3,4,5,6,7,8,9]]",
            "b:FP32=[0,1,2,3,4,5,6,7,8,9]",
            "b:fp32:1,10=[0,1,2,3,4,5,6,7,8,9]",
            "b::1,10=[0,1,2,3,4,5,6,7,8,9e0]",
            r#"{"b":[0,1,2,3,4,5,6,7,8,9]}"#,
        ] {
            assert_eq!(
                data(server, api, &["dummy", "-i", input]),
                json!(ONE_TO_TEN),
                "{input}"
            );
        }
    }
}

#[test]
fn files_are_values() {
    let server = Server::shared("dummy");
    let files = Files::new();
    for (name, file) in [
        ("", "flat.npy"),
        ("b=", "row.npy"),
        ("b:FP32=", "doubles.npy"),
        ("", "nameless.npz"),
        ("b=", "nameless.npz"),
        ("", "named.npz"),
        ("b=", "named.npz"),
        ("", "value.json"),
        ("b=", "value.json"),
        ("", "object.json"),
        ("", "numbers.txt"),
        ("b=", "bytes.bin"),
        ("b::1,10=", "bytes.bin"),
    ] {
        let input = files.input(name, file);
        assert_eq!(
            data(server, GRPC, &["dummy", "-i", &input]),
            json!(ONE_TO_TEN),
            "{input}"
        );
    }
}

#[test]
fn standard_input_is_a_value() {
    let server = Server::shared("add");
    let value = "[0,1,2,3,4,5,6,7,8,9]";
    let args = ["add", "-i=input1=-", "-i=input2=[1,1,1,1,1,1,1,1,1,1]"];
    let answer = piped(server, &args, value);
    assert_eq!(answer["outputs"][0]["data"], json!(ONE_TO_TEN));
    let both = format!(r#"{{"input1":{value},"input2":[1,1,1,1,1,1,1,1,1,1]}}"#);
    let answer = piped(server, &["add", "-i", "-"], &both);
    assert_eq!(answer["outputs"][0]["data"], json!(ONE_TO_TEN));
    let refused = fed(server, &["add", "-i=input1=-", "-i=input2=-"], value);
    assert_eq!(refused.status.code(), Some(64));
    insta::assert_snapshot!(String::from_utf8_lossy(&refused.stderr), @"
    error: found `-` for two inputs, standard input can be read once
    hint: give one JSON object of inputs by name
    ");
    insta::assert_snapshot!(failures(server, GRPC, &[
        &["add", "-i=input1=-", "-i=input2=-"],
        &["add", "-i=input1=-", "--zeros"],
    ]), @"
    exit 1
    error: standard input is empty
    hint: did the command before it fail?

    exit 1
    error: standard input is empty
    hint: did the command before it fail?
    ");
}

#[test]
fn two_inputs_are_distinguished_by_their_names() {
    let server = Server::shared("add");
    let files = Files::new();
    let sum = json!([0., 2., 4., 6., 8., 10., 12., 14., 16., 18.]);
    for api in APIS {
        let given = [
            "add",
            "-i=input2=[0,1,2,3,4,5,6,7,8,9]",
            "-i=input1=[0,1,2,3,4,5,6,7,8,9]",
        ];
        assert_eq!(data(server, api, &given), sum);
        let archive = files.input("", "two.npz");
        assert_eq!(data(server, api, &["add", "-i", &archive]), sum);
        // Of an archive that has its name, each input takes its own array.
        let first = files.input("input1=", "two.npz");
        let second = files.input("input2=", "two.npz");
        assert_eq!(
            data(server, api, &["add", "-i", &first, "-i", &second]),
            sum
        );
        let object = files.input("", "two.json");
        let answer = data(server, api, &["add", "-i", &object]);
        assert_eq!(answer[9], 10.0);
    }
}

#[test]
fn a_scalar_is_a_number() {
    let server = Server::shared("scalar");
    for api in APIS {
        for (input, answer) in [("2.5", 5.0), ("x=-2.5", -5.0), ("-1", -2.0)] {
            let answer_json = json(server, api, &["scalar", "-i", input]);
            assert_eq!(answer_json["outputs"][0]["shape"], json!([]), "{input}");
            assert_eq!(
                answer_json["outputs"][0]["data"],
                json!([answer]),
                "{input}"
            );
        }
    }
}

#[test]
fn images_are_laid_out_as_the_model_takes_them() {
    let server = Server::shared("fullsize");
    let folder = repository::folder();
    let path = folder.path().join("plain.png");
    let plain = image::RgbImage::from_pixel(8, 4, image::Rgb([200, 100, 50]));
    plain.save(&path).unwrap();
    let image = format!("@{}", path.display());
    // The model gives the mean of each plane.
    for (flags, means) in [
        (&[][..], [200.0, 100.0, 50.0]),
        (&["--layout=NCHW"], [200.0, 100.0, 50.0]),
        (&["--bgr"], [50.0, 100.0, 200.0]),
        (&["--mean=100"], [100.0, 0.0, -50.0]),
        (&["--scale=10"], [20.0, 10.0, 5.0]),
        (&["--mean=200,100,0", "--scale=1,1,25"], [0.0, 0.0, 2.0]),
        // Means and scales follow the order that is sent.
        (&["--bgr", "--mean=50,100,190"], [0.0, 0.0, 10.0]),
    ] {
        let args = [&["fullsize", "-i", &image], flags].concat();
        let answer: Vec<f64> = serde_json::from_value(data(server, GRPC, &args)).unwrap();
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.01;
        assert!(
            answer.iter().zip(&means).all(is_near),
            "{flags:?}: {answer:?}"
        );
    }
}

#[test]
fn what_is_not_given_is_filled() {
    let server = Server::shared("add");
    for api in APIS {
        let given = ["add", "-i=input1=[1,2,3,4,5,6,7,8,9,10]", "--zeros"];
        assert_eq!(data(server, api, &given), json!(ONE_TO_TEN));
        let filled = data(server, api, &["add", "--zeros"]);
        assert_eq!(filled, json!(vec![0.0; 10]));
    }
    let random = |flags: &[&str]| data(server, GRPC, &[&["add", "--random"], flags].concat());
    let seven = random(&["--seed=7"]);
    assert_eq!(seven, random(&["--seed=7"]));
    assert_ne!(seven, random(&["--seed=8"]));
    assert_ne!(random(&[]), random(&[]));
    let numbers: Vec<f64> = serde_json::from_value(seven).unwrap();
    assert!(
        numbers.iter().all(|sum| (0.0..2.0).contains(sum)),
        "{numbers:?}"
    );
}

#[test]
fn datatype_and_shape_can_be_given_by_hand() {
    let server = Server::shared("two_outputs");
    let totals = |flags: &[&str]| {
        let flags = [&["two_outputs", "--output-name=total"], flags].concat();
        json(server, GRPC, &flags)["outputs"][0].take()
    };
    for (flags, shape) in [
        (&["-i=x:FP32:3,4=[1,1,1,1,2,2,2,2,3,3,3,3]"][..], 3),
        (&["-i=x::2,4=[1,2,3,4,5,6,7,8]"], 2),
        (&["-i=[1,2,3,4]"], 1),
        (&["-i=x::5,4=", "--zeros"], 5),
        (&["-i=x::7,4=", "--random"], 7),
        (&["-i=x::0,4=[]"], 0),
        (&["--zeros"], 1),
    ] {
        assert_eq!(totals(flags)["shape"], json!([shape]), "{flags:?}");
    }
    let three = totals(&["-i=x:FP32:3,4=[1,1,1,1,2,2,2,2,3,3,3,3]"]);
    assert_eq!(three["data"], json!([4.0, 8.0, 12.0]));
    insta::assert_snapshot!(failures(server, GRPC, &[
        &["two_outputs", "-i=x:FP32:3,4=[1,2,3]"],
        &["two_outputs", "-i=x=[1,2,3,4,5]"],
        &["two_outputs", "-i=x::2,5=", "--zeros"],
        &["two_outputs", "-i=x:INT64:1,4=", "--zeros"],
        &["two_outputs", "-i=x:FLOAT=[1,2,3,4]"],
        &["two_outputs", "-i=x::2x4=[1,2,3,4,5,6,7,8]"],
        &["two_outputs", "-i=x::2,4="],
        &["two_outputs", "-i=x::99999999999,99999999999=", "--zeros"],
    ]), @"
    exit 64
    error: cannot use the value given for input `x`
      caused by: found 3 elements, shape (3,4) takes 12

    exit 64
    error: cannot use the value given for input `x`
      caused by: cannot tell how to fill shape (-1,4) with 5 elements
    hint: nest the lists, or write the shape: `-i x::2,3=…`

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input shape - Expected: (-1,4); Actual: (2,5); input name: x

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input precision - Expected: FP32; Actual: INT64; input name: x

    exit 64
    error: the model has no input `x:FLOAT`
    hint: `FLOAT` is none of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, BYTES
    hint: the inputs are `x`

    exit 64
    error: the model has no input `x::2x4`
    hint: `2x4` is no shape, which is lengths with commas between them, such as 1,10
    hint: the inputs are `x`

    exit 64
    error: cannot use the value given for input `x`
      caused by: found nothing, and nothing to fill it with
    hint: add `--zeros` or `--random`

    exit 64
    error: cannot use the value given for input `x`
      caused by: shape (99999999999,99999999999) is too large
    ");
}
