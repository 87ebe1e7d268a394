//! Seeds of the corpora: a few valid inputs of each target, of the fixtures where there are some.
//!
//! `UPDATE_CORPUS=1 cargo test --lib fuzzing::seeds` writes them to `fuzz/corpus`, beside what fuzzing has found there.

use std::{
    fs,
    io::{Cursor, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use prost::Message as _;

use super::FuzzTarget;
use crate::{
    model::Snapshot,
    proto::{
        kserve::{
            InferParameter, InferTensorContents, ModelInferRequest,
            infer_parameter::ParameterChoice,
            model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
        },
        tensorflow::{TensorProto, TensorShapeProto, tensor_shape_proto::Dim},
        tensorflow_serving::{GetModelMetadataRequest, ModelSpec, PredictRequest},
    },
    tensor::{DataType, Tensor, TensorMap, npy, tensorflow::tf_type},
};

/// Inputs of a target, with their names.
type Seeds = Vec<(String, Vec<u8>)>;

/// Certificate with a name of each kind.
const CERTIFICATE: &str = "MIIBwzCCAWmgAwIBAgIUbk223sxF/hQMB2f/ET5+/JKm3tkwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYTAeFw0yNjExMjYwOTMyMzFaFw0zNjExMjMwOTMyMzFaMAwxCjAIBgNVBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATnpfWoPTA/fpYXgzeJgoIh6vhQv+z3gGJaO9qZs+yGNXjxTQ0c6pb44dntrCyMJqivd7wbDUt+NV688tLGbXCEo4GoMIGlMB0GA1UdDgQWBBSsDKAenFFd1mUltZaJYQauTwXUQTAfBgNVHSMEGDAWgBSsDKAenFFd1mUltZaJYQauTwXUQTAPBgNVHRMBAf8EBTADAQH/MFIGA1UdEQRLMEmCCWEuZXhhbXBsZYcEfwAAAYcQAAAAAAAAAAAAAAAAAAAAAYYXc3BpZmZlOi8vZXhhbXBsZS9jYW1lcmGBC2FAYi5leGFtcGxlMAoGCCqGSM49BAMCA0gAMEUCIEJXzSS86s6YPK9elZnXCO5vDr7jJD2F4jTOX0x66OJFAiEAkJIPSAzB2fi4yPVtQvzNV/mTL0i72m/zcsfVafswsz8=";

/// Returns the folder of a target's corpus.
pub(super) fn folder(name: &str) -> PathBuf {
    root().join("fuzz/corpus").join(name)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the seeds of a target.
fn seeds(name: &str) -> Seeds {
    match name {
        "addresses" => texts(&[
            "localhost:9000",
            "grpcs://[::1]:9000/",
            "https://model.example",
            "unix:///run/ovms.sock",
            "redis://user:secret@a:6379/1,rediss://b?wait=1&prefix=x&cluster=true",
            "file:///var/lib/ovms?fsync=true",
        ]),
        "certificates" => named([STANDARD.decode(CERTIFICATE).expect("it is Base64")]),
        "client_answers" => client_answers(),
        "client_inputs" => texts(&[
            r#"{"model_name":"m","outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"data":[[NaN,1]]}],"id":"7","timestamp":3}"#,
            r#"{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[null],"not_finite":[[0,"-Infinity"]]}]}"#,
            r#"{"outputs":[{"name":"s","datatype":"BYTES","shape":[2],"data":["a",{"b64":"AP8="}]}]}"#,
        ]),
        "config" => files(&[
            "deploy/config.json",
            "examples/streaming/config.json",
            "fixtures/graphs/config.json",
            "fixtures/pipelines/faces/config.json",
            "fixtures/pipelines/ocr/config.json",
        ]),
        "identities" => texts(&[
            "[[identity]]\nname = \"a\"\nkeys = [\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"]\ninfer = [\"m*\"]\n",
            "max_failures_per_minute = 0\n[[jwt]]\nissuer = \"i\"\naudience = \"a\"\njwks = \"https://id.example/keys\"\n[[identity]]\nname = \"b\"\ntokens = [{ subject = \"s-*\" }, { claims = { groups = \"ml\" } }]\nadmin = true\n",
            "open_health = false\n[[identity]]\nname = \"c\"\ncertificates = [\"c.example\"]\ninfer = [\"[a-\"]\nmetrics = 1\n",
        ]),
        "generate_json" => with_first(&[
            (
                0,
                r#"{"numbers":[[1,2.5]],"texts":"a","image":{"b64":"AAEC"},"id":"7","parameters":{"t":0.5,"b":true}}"#,
            ),
            (2, r#"{"numbers":[[1,2],[3,4]],"texts":["a"],"none":null}"#),
            (1, r#"{"image":["\u00e9\n"],"n":18446744073709551615}"#),
            (2, r#"{"numbers":[NaN,-Infinity],"id":"7"}"#),
        ]),
        "grpc_messages" => grpc_messages(),
        "grpc_queries" => {
            let query = GetModelMetadataRequest {
                model_spec: Some(ModelSpec {
                    name: "m".to_owned(),
                    ..ModelSpec::default()
                }),
                metadata_field: vec![String::new(); 40],
            };
            // A name and a version in most of them.
            let names = b"\x0a\x01m\x12\x011".to_vec();
            vec![
                (
                    "metadata".to_owned(),
                    [vec![5], query.encode_to_vec()].concat(),
                ),
                ("names".to_owned(), [vec![0], names].concat()),
            ]
        }
        "gzip" => {
            let twice = [gzip(b"one"), gzip(b"two")].concat();
            let zeros = gzip(&vec![0; 100_000]);
            named([gzip(b"a message"), twice, zeros, zlib(b"a message")])
        }
        "http1_heads" => with_first(&[
            (7, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                3,
                "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\n\nGET / HTTP/1.1\n",
            ),
            (
                20,
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\na\n\n\r\n0\r\nx: y\r\n\r\nPUT /",
            ),
        ]),
        "http2_frames" => http2_frames(),
        "http_headers" => texts(&[
            "host: localhost:8000\norigin: http://localhost:8000\nsec-fetch-site: same-origin",
            "host: evil.example\norigin: https://evil.example",
            "host: [::1]\norigin: http://[::1]:80\ngrpc-timeout: 100m\novms-idempotency-key: a-1",
            "host: a\nhost: b\ngrpc-timeout: 99999999H",
            "authorization: Basic eDprZXk=\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\ntracestate: a=1,b@c=2",
            "authorization: Bearer ovms_x\nx-api-key: y\novms-priority: 3\ntraceparent: 01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ]),
        "images" => images(),
        "kserve_grpc" => kserve_grpc(),
        "kserve_json" => kserve_json(),
        "model_xml" => {
            let mut seeds = files(&["fixtures/models/dummy/1/model.xml"]);
            seeds.extend(texts(&[
                r#"<net><layers><layer type="Parameter"><output><port id="0" names="x,x\,0"><rt_info><attribute name="layout" version="0" layout="[N,H,W,C]"/></rt_info></port></output></layer><layer type="ReadValue"/></layers><rt_info><model_info><labels value="a &amp; b"/><scale><r value="2.5"/></scale></model_info></rt_info></net>"#,
            ]));
            seeds
        }
        "npy" => arrays(),
        "npz" => vec![("archive".to_owned(), archive())],
        "paths" => texts(&[
            "/v1/config/reload",
            "//v1/models/m/versions/2/sequences/7",
            "/v1/models/a%2Fb/labels/x:predict",
            "/v1/models/m/versions/0/metadata",
            "/v1/models/m/sequences",
        ]),
        "pbtxt" => {
            let mut seeds = files(&[
                "fixtures/graphs/classify/graph.pbtxt",
                "fixtures/graphs/streamer/graph.pbtxt",
                "fixtures/graphs/text/graph.pbtxt",
                "fixtures/graphs/tracker/graph.pbtxt",
            ]);
            seeds.extend(texts(&[
                "input_stream: \"in\" output_stream: 'o' 'ut' executor < name: \"\" > node { calculator: \"\\x50assThrough\\143alculator\" input_stream: [\"in\"], output_stream: \"out\" input_stream_info: { tag_index: \":0\" back_edge: false } }",
                "# OVMS_GRAPH_QUEUE_MAX_SIZE: 4\nnode_options: { [type.googleapis.com/mediapipe.GateCalculatorOptions] { allow: t } }",
            ]));
            seeds
        }
        "redis_answers" => texts(&[
            "*9\r\n$5\r\ntaken\r\n$1\r\n3\r\n$2\r\n12\r\n$3\r\nkey\r\n$1\r\no\r\n$4\r\nabcd\r\n$2\r\n50\r\n$0\r\n\r\n$1\r\n0\r\n",
            "*3\r\n$5\r\nbegun\r\n:7\r\n+1\r\n",
            "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n",
            "$52\r\nrole:master\r\nmaster_replid:aa\r\nmaster_replid2:0000000\r\n\r\n",
            "%1\r\n+a\r\n*1\r\n_\r\n",
            "17 a model",
        ]),
        "shared_memory_keys" => texts(&[
            "/ovms_\n/ovms_input0",
            "/\n/any",
            "ovms\n../etc/passwd",
            "/\n..",
        ]),
        "snapshots" => vec![("state".to_owned(), snapshot())],
        "storage_paths" => texts(&[
            "s3://minio.local:9000/models/resnet",
            "gs://models/a b/%41",
            "az://$web/x",
            "s3://models/../secrets",
        ]),
        "store_files" => {
            // Epoch 1, step 3, four bytes of state, which lasts for a second.
            let header = [8, 1, 16, 3, 24, 4, 48, 0xe8, 7];
            let wrapped = [&[1 | 9 << 1][..], &header, b"abcd"].concat();
            let whole = [&[0][..], b"ovmsseq1\x02\0\0\0", &[0; 4], &[8, 1]].concat();
            vec![("header".to_owned(), wrapped), ("file".to_owned(), whole)]
        }
        "strings" => with_first(&[
            (b'\n', "\x02\0\0\0ab\0\0\0\0\x01\0\0\0c"),
            (b'\n', "\x05\0\0\0ab"),
        ]),
        "tfs_grpc" => tfs_grpc(),
        "tfs_json" => with_first(&[
            (
                0,
                r#"{"instances":[{"numbers":[1,2],"texts":"a","image":{"b64":"AAEC"}},{"numbers":[3,4],"texts":"b","image":{"b64":"AA=="}}]}"#,
            ),
            (
                3,
                r#"{"signature_name":"x","inputs":{"numbers":[[1,2]],"texts":["a"],"image":[[[[1]]]]}}"#,
            ),
            (
                2,
                r#"{"inputs":{"numbers":[[1,-0.5e3]],"sequence_id":[7],"sequence_control_input":1}}"#,
            ),
            (4 | 1 << 3, r#"{"instances":[[1,2],[3,4]]}"#),
            (4, r#"{"inputs":[{"b64":"AAEC"}]}"#),
            (
                2,
                r#"{"inputs":{"numbers":[[NaN, -Infinity,Infinity ]],"sequence_id":[7],"other":NaN}}"#,
            ),
        ]),
        "tokens" => texts(&[
            "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJpIiwiYXVkIjoiYSIsImV4cCI6OTk5OTk5OTk5OX0.AAAA\n\
             {\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"x\":\"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY\",\"y\":\"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU\"}]}",
            "eyJhbGciOiJFZERTQSJ9.eyJpc3MiOlsiaSJdfQ.\n{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"},{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\",\"use\":\"enc\"}]}",
        ]),
        "wav" => wavs(),
        other => panic!("{other} has no seeds"),
    }
}

fn named<const N: usize>(inputs: [Vec<u8>; N]) -> Seeds {
    let numbers = 0..;
    numbers
        .map(|number: usize| number.to_string())
        .zip(inputs)
        .collect()
}

fn texts(texts: &[&str]) -> Seeds {
    let inputs = texts.iter().map(|text| text.as_bytes().to_vec());
    (0..)
        .map(|number: usize| number.to_string())
        .zip(inputs)
        .collect()
}

/// Returns texts behind the byte that chooses how they are read.
fn with_first(texts: &[(u8, &str)]) -> Seeds {
    let inputs = texts
        .iter()
        .map(|(first, text)| [&[*first], text.as_bytes()].concat());
    (0..)
        .map(|number: usize| number.to_string())
        .zip(inputs)
        .collect()
}

/// Returns files of the project; each is named as its folder.
fn files(paths: &[&str]) -> Seeds {
    let read = |path: &&str| {
        let name = path.replace('/', "-");
        (name, fs::read(root().join(path)).unwrap())
    };
    paths.iter().map(read).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[flag], &length.to_be_bytes()[..], message].concat()
}

fn grpc_messages() -> Seeds {
    let plain = [framed(0, b"one"), framed(0, b""), framed(0, &[7; 5000])].concat();
    let packed = [framed(1, &gzip(b"packed")), framed(0, b"plain")].concat();
    let large = framed(1, &gzip(&vec![0; 100_000]));
    named([
        [vec![3], plain.clone()].concat(),
        [vec![0], plain].concat(),
        [vec![0x80 | 7], packed].concat(),
        [vec![0x80], large].concat(),
        [vec![0], framed(0, b"cut")[..7].to_vec()].concat(),
        [vec![0x40], framed(1, &zlib(b"packed"))].concat(),
    ])
}

fn http2_frames() -> Seeds {
    let frame = |kind: u8, flags: u8, stream: u32, length: u32| {
        let head = [
            &length.to_be_bytes()[1..],
            &[kind, flags],
            &stream.to_be_bytes(),
        ];
        [head.concat(), vec![b'x'; length as usize]].concat()
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let call = [frame(1, 4, 1, 30), frame(0, 1, 1, 100), frame(3, 0, 1, 4)].concat();
    let block = [frame(1, 0, 3, 600), frame(9, 4, 3, 300), frame(0, 0, 3, 5)].concat();
    named([
        [vec![9], preface.clone(), call].concat(),
        [vec![1], preface, block].concat(),
    ])
}

fn images() -> Seeds {
    let image = image::RgbImage::from_fn(5, 3, |x, y| image::Rgb([x as u8, y as u8, 9]));
    let mut seeds = Seeds::new();
    for (name, format) in [
        ("png", image::ImageFormat::Png),
        ("jpeg", image::ImageFormat::Jpeg),
    ] {
        let mut file = Cursor::new(Vec::new());
        image.write_to(&mut file, format).unwrap();
        let file = file.into_inner();
        let any = kind(0, DataType::U8);
        let fixed = kind(1, DataType::F32);
        seeds.push((format!("{name}-any"), [&[any][..], &file].concat()));
        seeds.push((format!("{name}-fixed"), [&[fixed][..], &file].concat()));
    }
    for path in ["fixtures/images/star.png", "fixtures/images/star.jpg"] {
        let file = fs::read(root().join(path)).unwrap();
        let any = kind(0, DataType::F64);
        seeds.push((path.replace('/', "-"), [&[any][..], &file].concat()));
    }
    seeds
}

/// Returns the byte before an image that asks for a type, in a tensor of a kind.
fn kind(tensor: u8, dtype: DataType) -> u8 {
    let place = DataType::ALL.iter().position(|known| *known == dtype);
    let kinds = tensor << 6..=tensor << 6 | 0x3f;
    let is_asked = |kind: &u8| Some(usize::from(*kind) % DataType::ALL.len()) == place;
    kinds.into_iter().find(is_asked).unwrap()
}

fn text(value: &str) -> InferParameter {
    InferParameter {
        parameter_choice: Some(ParameterChoice::StringParam(value.to_owned())),
    }
}

fn kserve_grpc() -> Seeds {
    let input = |name: &str, datatype: &str, shape: &[i64]| InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    };
    let inputs = vec![
        input("numbers", "FP32", &[1, 2]),
        input("texts", "BYTES", &[1]),
        input("image", "UINT8", &[1, 1, 1, 3]),
    ];
    let raw = ModelInferRequest {
        model_name: "m".to_owned(),
        model_version: "1".to_owned(),
        id: "7".to_owned(),
        parameters: [("timeout".to_owned(), text("1"))].into(),
        inputs: inputs.clone(),
        outputs: vec![InferRequestedOutputTensor {
            name: "y".to_owned(),
            ..InferRequestedOutputTensor::default()
        }],
        raw_input_contents: vec![
            Bytes::from_static(&[0; 8]),
            Bytes::from_static(b"\x01\0\0\0a"),
            Bytes::from_static(b"\x01\x02\x03"),
        ],
    };
    let mut typed = ModelInferRequest {
        inputs,
        ..ModelInferRequest::default()
    };
    let contents = [
        InferTensorContents {
            fp32_contents: vec![1.0, -2.5],
            ..InferTensorContents::default()
        },
        InferTensorContents {
            bytes_contents: vec![Bytes::from_static(b"a")],
            ..InferTensorContents::default()
        },
        InferTensorContents {
            uint_contents: vec![1, 2, 255],
            ..InferTensorContents::default()
        },
    ];
    for (input, contents) in typed.inputs.iter_mut().zip(contents) {
        input.contents = Some(contents);
    }
    let mut region = ModelInferRequest {
        inputs: vec![input("numbers", "INT8", &[4])],
        ..ModelInferRequest::default()
    };
    region.inputs[0].parameters = [("shared_memory_region".to_owned(), text("r"))].into();
    let many = ModelInferRequest {
        inputs: vec![InferInputTensor::default(); 50],
        ..ModelInferRequest::default()
    };
    let requests = [raw, typed, region, many];
    named(requests.map(|request| request.encode_to_vec()))
}

fn kserve_json() -> Seeds {
    let values = "\n{\"id\":\"7\",\"parameters\":{\"priority\":1,\"z\":true},\"inputs\":[{\"data\":[[1,2]],\"shape\":[1,2],\"datatype\":\"FP32\",\"name\":\"numbers\"},{\"name\":\"texts\",\"shape\":[1],\"datatype\":\"BYTES\",\"data\":[\"a\\u00e9\"]},{\"name\":\"image\",\"shape\":[1,1,1,3],\"datatype\":\"UINT8\",\"data\":[1,2,3]}],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":true}}]}";
    let binary = r#"{"inputs":[{"name":"image","shape":[2],"datatype":"INT8","parameters":{"binary_data_size":2}},{"name":"b","shape":[1],"datatype":"FP16"}],"parameters":{"binary_data_output":true}}"#;
    let numbers = "\n{\"inputs\":[{\"name\":\"numbers\",\"shape\":[6],\"datatype\":\"FP64\",\"data\":[1e300,-0.0,1E-5,123456789012345678901,0.1,[]]}]}";
    named([
        values.into(),
        format!("{}\n{binary}1234", binary.len()).into(),
        numbers.into(),
        "\n{\"inputs\":[{\"name\":\"texts\",\"shape\":[9007199254740993],\"datatype\":\"INT64\",\"data\":[true]}]}".into(),
        "\n{\"inputs\":[{\"data\":[NaN, -Infinity,1,Infinity],\"name\":\"numbers\",\"shape\":[4],\"datatype\":\"FP32\"}]}".into(),
    ])
}

fn tensor(dtype: DataType, shape: &[usize], data: &[u8]) -> Tensor {
    Tensor::new(dtype, shape.to_vec(), Bytes::copy_from_slice(data)).unwrap()
}

fn written(tensor: &Tensor) -> Vec<u8> {
    let mut file = Vec::new();
    npy::write(tensor, &mut file).unwrap();
    file
}

fn arrays() -> Seeds {
    let header = |text: &str, data: &[u8]| {
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [&b"\x93NUMPY\x01\0"[..], &length, text.as_bytes(), data].concat()
    };
    named([
        written(&tensor(DataType::F32, &[1, 2], &[0; 8])),
        written(&tensor(DataType::String, &[2], b"\x02\0\0\0ab\x01\0\0\0c")),
        header(
            "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n",
            b"\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06",
        ),
        header(
            "{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }\n",
            b"a\0\0\0b\0\0\0",
        ),
        header(
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
            b"\x80\x04N.",
        ),
    ])
}

fn archive() -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, method) in [
        ("x.npy", zip::CompressionMethod::Stored),
        ("y.npy", zip::CompressionMethod::Deflated),
        ("note.txt", zip::CompressionMethod::Stored),
    ] {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(zip::DateTime::default());
        archive.start_file(name, options).unwrap();
        let file = written(&tensor(DataType::U8, &[4], b"abcd"));
        archive.write_all(&file).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn snapshot() -> Vec<u8> {
    let snapshot = Snapshot {
        model: "m".to_owned(),
        version: 1,
        digest: "d".repeat(64),
        sequence: 7,
        tensors: TensorMap::from_iter([
            ("h".to_owned(), tensor(DataType::F32, &[1, 2], &[1; 8])),
            ("n".to_owned(), tensor(DataType::I64, &[], &[0; 8])),
        ]),
    };
    snapshot.encode().unwrap()
}

fn tfs_grpc() -> Seeds {
    let proto = |dtype: DataType, shape: &[i64]| TensorProto {
        dtype: tf_type(dtype).into(),
        tensor_shape: Some(TensorShapeProto {
            dim: shape
                .iter()
                .map(|size| Dim {
                    size: *size,
                    name: String::new(),
                })
                .collect(),
            unknown_rank: false,
        }),
        ..TensorProto::default()
    };
    let inputs = [
        (
            "numbers".to_owned(),
            TensorProto {
                float_val: vec![1.0, 2.0],
                ..proto(DataType::F32, &[1, 2])
            },
        ),
        (
            "texts".to_owned(),
            TensorProto {
                string_val: vec![Bytes::from_static(b"a")],
                ..proto(DataType::String, &[1])
            },
        ),
        (
            "image".to_owned(),
            TensorProto {
                tensor_content: Bytes::from_static(b"abc"),
                ..proto(DataType::U8, &[1, 1, 1, 3])
            },
        ),
        (
            "sequence_id".to_owned(),
            TensorProto {
                uint64_val: vec![7],
                ..proto(DataType::U64, &[1])
            },
        ),
    ];
    let request = PredictRequest {
        model_spec: Some(ModelSpec {
            name: "m".to_owned(),
            ..ModelSpec::default()
        }),
        inputs: inputs.into(),
        output_filter: vec!["y".to_owned()],
    };
    let wire = request.encode_to_vec();
    named([[vec![1], wire.clone()].concat(), [vec![0], wire].concat()])
}

fn client_answers() -> Seeds {
    let json = r#"{"model_name":"m","model_version":"1","outputs":[{"name":"a","shape":[1],"datatype":"INT16","parameters":{"binary_data_size":2}},{"name":"b","shape":[2,1],"datatype":"FP32","data":[NaN,-1]},{"name":"own","shape":[-1],"datatype":"7w","parameters":{"binary_data_size":3}}]}"#;
    named([
        [
            &b"\0"[..],
            json.len().to_string().as_bytes(),
            b"\n",
            json.as_bytes(),
            b"\x05\0xyz",
        ]
        .concat(),
        b"\x01\n{\"outputs\":[1,2.5,Infinity]}".to_vec(),
        b"\x03\n{\"outputs\":{\"y\":[[1]],\"z\":[{\"b64\":\"YQ==\"}],\"sequence_id\":[7]}}"
            .to_vec(),
    ])
}

fn wavs() -> Seeds {
    let wav = |channels: u16, bits: u16, format| {
        let spec = hound::WavSpec {
            channels,
            sample_rate: 16_000,
            bits_per_sample: bits,
            sample_format: format,
        };
        let mut file = Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut file, spec).unwrap();
        for sample in [0, 100, -100, 7] {
            match format {
                hound::SampleFormat::Int => writer.write_sample(sample).unwrap(),
                hound::SampleFormat::Float => writer.write_sample(0.5_f32).unwrap(),
            }
        }
        writer.finalize().unwrap();
        file.into_inner()
    };
    named([
        wav(1, 16, hound::SampleFormat::Int),
        wav(2, 16, hound::SampleFormat::Int),
        wav(1, 24, hound::SampleFormat::Int),
        wav(2, 32, hound::SampleFormat::Float),
        vec![1, 2, 3, 4, 5],
    ])
}

/// Returns whether a seed is what it should be. The metadata of saved states is in any order.
fn is_same(name: &str, found: Option<&[u8]>, expected: &[u8]) -> bool {
    match (name, found) {
        (_, None) => false,
        ("snapshots", Some(found)) => {
            let decode = |file: &[u8]| Snapshot::decode(&Bytes::copy_from_slice(file)).ok();
            decode(found) == decode(expected)
        }
        (_, Some(found)) => found == expected,
    }
}

#[test]
fn corpora_have_the_seeds() {
    let mut stale = Vec::new();
    for name in FuzzTarget::names() {
        let folder = folder(name);
        for (seed, bytes) in seeds(name) {
            let path = folder.join(format!("seed-{seed}"));
            if std::env::var_os("UPDATE_CORPUS").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, bytes).unwrap();
            } else if !is_same(name, fs::read(&path).ok().as_deref(), &bytes) {
                stale.push(path.display().to_string());
            }
        }
    }
    assert!(stale.is_empty(), "UPDATE_CORPUS=1 writes them: {stale:#?}");
}
