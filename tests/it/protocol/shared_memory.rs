//! System shared memory: inputs and outputs in regions, over gRPC and REST.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use ovms::proto::kserve::{
    ModelInferRequest, ModelStatisticsRequest, SystemSharedMemoryUnregisterRequest,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use serde_json::{Value, json};

use crate::support::{
    Server, busy,
    graphs::{self, PASS},
    grpc::{self, Grpc, error, floats, to_floats},
    http::{JSON_LENGTH, get, post, send},
    pipelines::{Config, dl},
    shared_memory::{ON, Object, placed, register},
    streams::Talk,
};

/// A server that takes regions; each test has names of its own for them.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy", "passthrough_string"]);
    config.model("total", &crate::support::model("running_total"))["stateful"] = json!(true);
    let nodes = [dl("one", "dummy", "b=request.x", "a=y")];
    config.pipeline("twice", "x", &nodes, "a=one.y");
    graphs::add(&mut config, "graph", PASS);
    config.serve_kept(&ON)
});

/// Bytes of the tensors of `dummy`.
const SIZE: i64 = 40;

fn input(region: &str, offset: i64, size: i64) -> InferInputTensor {
    InferInputTensor {
        parameters: placed(region, offset, size),
        ..grpc::input("b", "FP32", &[1, 10])
    }
}

fn output(region: &str, offset: i64, size: i64) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor {
        parameters: placed(region, offset, size),
        ..grpc::wanted("a")
    }
}

/// Makes a request to `dummy`.
fn request(
    inputs: impl Into<Vec<InferInputTensor>>,
    outputs: impl Into<Vec<InferRequestedOutputTensor>>,
) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "dummy".to_owned(),
        inputs: inputs.into(),
        outputs: outputs.into(),
        ..ModelInferRequest::default()
    }
}

/// Makes a request for three strings at the beginning of a region, whose copies are to lie from its byte 20 on.
fn strings(region: &str, size: i64) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "passthrough_string".to_owned(),
        inputs: vec![InferInputTensor {
            parameters: placed(region, 0, size),
            ..grpc::input("in", "BYTES", &[3])
        }],
        outputs: vec![InferRequestedOutputTensor {
            parameters: placed(region, 20, 40),
            ..grpc::wanted("out")
        }],
        ..ModelInferRequest::default()
    }
}

fn unregister(grpc: &Grpc, name: &str) {
    let request = SystemSharedMemoryUnregisterRequest {
        name: name.to_owned(),
    };
    let mut client = grpc.client.clone();
    let answer = grpc.wait(async move { client.system_shared_memory_unregister(request).await });
    answer.expect("it can be forgotten");
}

/// Returns the numbers of an object from a byte on.
fn numbers(object: &Object, from: usize) -> Vec<f32> {
    to_floats(&object.contents()[from..from + 40])
}

#[test]
fn inputs_and_outputs_are_in_regions() {
    let grpc = Grpc::connect(&SERVER);
    let object = Object::new(&[&[0; 8][..], &floats(&[3.0; 10]), &[0; 100]].concat());
    register(&grpc, "both", &object.key, 4, 140).unwrap();
    let both = request([input("both", 4, SIZE)], [output("both", 52, 60)]);
    let answer = grpc.answered(both.clone());
    assert_eq!(numbers(&object, 56), [4.0; 10]);
    assert_eq!(answer.raw_output_contents, [""]);
    let found = &answer.outputs[0];
    assert_eq!(
        (found.datatype.as_str(), &found.shape[..]),
        ("FP32", &[1, 10][..])
    );
    assert_eq!(found.parameters, placed("both", 52, SIZE));

    // In its own place, and beside elements in the request or in the response.
    grpc.answered(request([input("both", 4, SIZE)], [output("both", 4, SIZE)]));
    assert_eq!(numbers(&object, 8), [4.0; 10]);
    let answer = grpc.answered(request([input("both", 4, SIZE)], []));
    assert_eq!(to_floats(&answer.raw_output_contents[0]), [5.0; 10]);
    assert!(answer.outputs[0].parameters.is_empty());
    grpc.answered(ModelInferRequest {
        outputs: vec![output("both", 4, SIZE)],
        ..grpc::dummy()
    });
    assert_eq!(numbers(&object, 8), [2.0; 10]);

    // The object needs its name for the registration alone.
    fs::remove_file(&object.path).unwrap();
    assert_eq!(grpc.answered(both).raw_output_contents, [""]);
}

#[test]
fn regions_are_those_of_one_server_and_have_its_limits() {
    let config = Config::of(&["add", "dummy", "passthrough_u8"]);
    let limits = [
        ["--max_shared_memory_regions", "2"],
        ["--max_bytes_in_flight", "1000000"],
    ];
    let server = config.serve_with(&[&ON[..], limits.as_flattened()].concat());
    rest_has_inputs_and_outputs_in_regions(&server);
    bytes_in_regions_count_for_the_budget(&server);
    requests_that_do_not_fit_are_refused(&server);
}

fn rest_has_inputs_and_outputs_in_regions(server: &Server) {
    let object = Object::new(&[floats(&[3.0; 10]), vec![0; 100]].concat());
    let body = json!({"key": object.key, "offset": 0, "byte_size": 140}).to_string();
    let path = "/v2/systemsharedmemory/region/a%20b/register";
    let answer = post(server, path, body.as_bytes());
    assert_eq!((answer.status, answer.text()), (200, String::new()));
    insta::assert_snapshot!(post(server, path, body.as_bytes()).error(), @"409: shared memory region 'a b' already in manager - unregister it first, or take another name");
    let status = |place: &str| {
        let answer = get(server, &format!("/v2/systemsharedmemory{place}/status"));
        answer.text().replace(&object.key, "KEY")
    };
    insta::assert_snapshot!(status(""), @r#"[{"name":"a b","key":"KEY","offset":0,"byte_size":140}]"#);
    assert_eq!(status("/region/a%20b"), status(""));
    insta::assert_snapshot!(status("/region/x"), @r#"{"error":"Unable to find system shared memory region: 'x'"}"#);

    let tensor = |name: &str, more: Value| {
        let mut tensor = json!({"name": name, "shape": [1, 10], "datatype": "FP32"});
        let members = more.as_object().unwrap().clone();
        tensor.as_object_mut().unwrap().extend(members);
        tensor
    };
    let part = |offset: u64| {
        let place = json!({
            "shared_memory_region": "a b", "shared_memory_offset": offset, "shared_memory_byte_size": 40
        });
        json!({"parameters": place})
    };
    let infer = |inputs: Value, more: Value, binary: &[u8]| {
        let mut body = json!({"inputs": inputs});
        let members = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(members);
        let mut body = body.to_string().into_bytes();
        let length = body.len().to_string();
        body.extend_from_slice(binary);
        let headers = [(JSON_LENGTH, length.as_str())];
        send(server, "POST", "/v2/models/add/infer", &headers, &body)
    };
    let first = tensor("input1", part(0));
    let in_json = tensor("input2", json!({"data": vec![1.0; 10]}));
    let out = json!({"outputs": [{"name": "sum", "parameters": part(60)["parameters"]}]});
    let answer = infer(json!([first, in_json]), out.clone(), b"");
    insta::assert_snapshot!(answer.text(), @r#"{"model_name":"add","model_version":"1","outputs":[{"name":"sum","shape":[1,10],"datatype":"FP32"}]}"#);
    assert_eq!(numbers(&object, 60), [4.0; 10]);

    // Beside binary data, and with outputs in it.
    let binary = tensor("input2", json!({"parameters": {"binary_data_size": 40}}));
    let wished = json!({"parameters": {"binary_data_output": true}});
    let inputs = json!([first, binary]);
    let answer = infer(inputs.clone(), wished, &floats(&[2.0; 10]));
    assert_eq!(to_floats(answer.parts().1), [5.0; 10]);
    let answer = infer(inputs, out.clone(), &floats(&[7.0; 10]));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(numbers(&object, 60), [10.0; 10]);

    let mut texts = Vec::new();
    let mut refused = |inputs: Value| texts.push(infer(inputs, out.clone(), b"").error());
    let mut with_data = first.clone();
    with_data["data"] = json!(vec![1.0; 10]);
    refused(json!([with_data, in_json]));
    let mut with_binary = first.clone();
    with_binary["parameters"]["binary_data_size"] = json!(0);
    refused(json!([with_binary, in_json]));
    for (name, value) in [
        ("offset", json!(u64::MAX)),
        ("offset", json!(-1)),
        ("offset", json!(101)),
        ("byte_size", json!("40")),
        ("byte_size", json!(i64::MAX)),
        ("byte_size", json!(39)),
        ("region", json!(1)),
        ("region", json!("x")),
    ] {
        let mut changed = first.clone();
        changed["parameters"][format!("shared_memory_{name}")] = value;
        refused(json!([changed, in_json]));
    }
    insta::assert_snapshot!(texts.join("\n"), @"
    400: unexpected 'content' provided when using shared memory for input tensor 'input1' - send its elements either in the request or in the region
    400: unexpected 'content' provided when using shared memory for input tensor 'input1' - send its elements either in the request or in the region
    400: Invalid offset + byte size for shared memory region: 'a b' - it has 140 bytes; found offset 18446744073709551615 and byte size 40
    400: invalid value type for 'shared_memory_offset' parameter for tensor 'input1', expected a number of bytes
    400: Invalid offset + byte size for shared memory region: 'a b' - it has 140 bytes; found offset 101 and byte size 40
    400: invalid value type for 'shared_memory_byte_size' parameter for tensor 'input1', expected a number of bytes
    400: Invalid offset + byte size for shared memory region: 'a b' - it has 140 bytes; found offset 0 and byte size 9223372036854775807
    400: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 39 bytes; input name: input1
    400: invalid value type for 'shared_memory_region' parameter for tensor 'input1', expected a text
    404: Unable to find shared memory region: 'x' - register it first
    ");

    for bad in ["", "{}", r#"{"key":"/ovms_it_x","byte_size":-1}"#, "[]"] {
        let answer = post(
            server,
            "/v2/systemsharedmemory/region/y/register",
            bad.as_bytes(),
        );
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    let answer = post(
        server,
        "/v2/systemsharedmemory/region/a%20b/unregister",
        b"",
    );
    assert_eq!((answer.status, status("")), (200, "[]".to_owned()));
    let extensions = get(server, "/v2").json()["extensions"].to_string();
    assert!(
        extensions.contains("\"system_shared_memory\""),
        "{extensions}"
    );
}

fn requests_that_do_not_fit_are_refused(server: &Server) {
    let grpc = Grpc::connect(server);
    let object = Object::new(&[0; 80]);
    object.register(&grpc, "x");
    let mut texts = Vec::new();
    for (key, offset, size) in [
        ("/other", 0, 1),
        ("/ovms_it_/../../etc/passwd", 0, 1),
        ("/ovms_it_missing", 0, 1),
        (object.key.as_str(), 0, 81),
        (object.key.as_str(), u64::MAX, 2),
    ] {
        texts.push(error(&register(&grpc, "y", key, offset, size).unwrap_err()));
    }
    texts.push(error(&register(&grpc, "x", &object.key, 0, 1).unwrap_err()));
    object.register(&grpc, "y");
    texts.push(error(&register(&grpc, "z", &object.key, 0, 1).unwrap_err()));

    let mut contents = input("x", 0, SIZE);
    contents.contents = Some(ovms::proto::kserve::InferTensorContents {
        fp32_contents: vec![1.0; 10],
        ..Default::default()
    });
    let mut no_size = input("x", 0, SIZE);
    no_size.parameters.remove("shared_memory_byte_size");
    let mut no_region = input("x", 0, SIZE);
    no_region.parameters.remove("shared_memory_region");
    let mut unsigned = input("x", 8, SIZE);
    let offset = unsigned.parameters.get_mut("shared_memory_offset").unwrap();
    offset.parameter_choice = Some(ParameterChoice::Uint64Param(u64::MAX - 10));
    let mut truth = input("x", 8, SIZE);
    let size = truth.parameters.get_mut("shared_memory_byte_size").unwrap();
    size.parameter_choice = Some(ParameterChoice::BoolParam(true));
    for input in [
        input("stranger", 0, SIZE),
        input("x", 41, SIZE),
        input("x", -1, SIZE),
        input("x", 1, i64::MAX),
        input("x", 0, 36),
        input("x", 0, 0),
        contents,
        no_size,
        no_region,
        unsigned,
        truth,
    ] {
        texts.push(grpc.refused(request([input], [])));
    }
    let good = || request([input("x", 0, SIZE)], []);
    let before = successes(&grpc);
    for outputs in [
        vec![output("x", 40, 39)],
        vec![output("stranger", 0, SIZE)],
        vec![output("x", 41, SIZE)],
        vec![output("x", 0, SIZE), output("x", 40, SIZE)],
    ] {
        let request = ModelInferRequest { outputs, ..good() };
        texts.push(grpc.refused(request));
    }
    // One element for an input in a region is one too many.
    texts.push(grpc.refused(ModelInferRequest {
        raw_input_contents: vec![floats(&[1.0; 10]).into()],
        ..good()
    }));
    object.truncate(39);
    texts.push(grpc.refused(good()));
    texts.push(grpc.refused(ModelInferRequest {
        outputs: vec![output("x", 40, SIZE)],
        ..grpc::dummy()
    }));
    assert_eq!(successes(&grpc), before, "no answer came of any of them");
    assert_eq!(object.contents(), [0; 39]);
    insta::assert_snapshot!(texts.join("\n").replace(&object.key, "/KEY"), @r#"
    PermissionDenied: failed to register shared memory region 'y': keys have to begin with '/ovms_it_', see --shared-memory; found "/other"
    InvalidArgument: failed to register shared memory region 'y': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "/ovms_it_/../../etc/passwd"
    NotFound: Unable to open shared memory region: '/ovms_it_missing' - there is no such object
    InvalidArgument: failed to register shared memory region 'y': invalid args - '/KEY' has 80 bytes; found offset 0 and byte_size 81
    InvalidArgument: failed to register shared memory region 'y': invalid args - '/KEY' has 80 bytes; found offset 18446744073709551615 and byte_size 2
    AlreadyExists: shared memory region 'x' already in manager - unregister it first, or take another name
    ResourceExhausted: failed to register shared memory region 'z': there are 2 regions, as many as --max-shared-memory-regions allows; unregister one first
    NotFound: Unable to find shared memory region: 'stranger' - register it first
    InvalidArgument: Invalid offset + byte size for shared memory region: 'x' - it has 80 bytes; found offset 41 and byte size 40
    InvalidArgument: invalid value type for 'shared_memory_offset' parameter for tensor 'b', expected a number of bytes
    InvalidArgument: Invalid offset + byte size for shared memory region: 'x' - it has 80 bytes; found offset 1 and byte size 9223372036854775807
    InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b
    InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 0 bytes; input name: b
    InvalidArgument: unexpected 'content' provided when using shared memory for input tensor 'b' - send its elements either in the request or in the region
    InvalidArgument: 'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'b'
    InvalidArgument: 'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'b'
    InvalidArgument: Invalid offset + byte size for shared memory region: 'x' - it has 80 bytes; found offset 18446744073709551605 and byte size 40
    InvalidArgument: invalid value type for 'shared_memory_byte_size' parameter for tensor 'b', expected a number of bytes
    InvalidArgument: shared memory size specified with the request for output 'a' (39 bytes) should be at least 40 bytes to hold the results
    NotFound: Unable to find shared memory region: 'stranger' - register it first
    InvalidArgument: Invalid offset + byte size for shared memory region: 'x' - it has 80 bytes; found offset 41 and byte size 40
    InvalidArgument: Invalid output name - Requested output: a is listed twice
    InvalidArgument: Inputs inside buffer does not match expected format. - Expected: one element of raw_input_contents for each of the 0 inputs that are not in shared memory; Actual: 1
    InvalidArgument: Unable to use shared memory region: 'x' - '/KEY' was truncated after it was registered
    InvalidArgument: Unable to use shared memory region: 'x' - '/KEY' was truncated after it was registered
    "#);
    grpc.check_serves();
}

/// Returns the number of requests that were answered.
fn successes(grpc: &Grpc) -> u64 {
    let request = ModelStatisticsRequest {
        name: "dummy".to_owned(),
        version: String::new(),
    };
    let answer = grpc.wait(async { grpc.client.clone().model_statistics(request).await });
    let found = answer.unwrap().model_stats.remove(0);
    let success = found.inference_stats.unwrap().success;
    success.map_or(0, |it| it.count)
}

#[test]
fn shared_memory_is_off_unless_a_flag_says_otherwise() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let object = Object::new(&[0; 80]);
    let refused = [
        error(&register(&grpc, "x", &object.key, 0, 80).unwrap_err()),
        grpc.refused(request([input("x", 0, SIZE)], [])),
        grpc.refused(ModelInferRequest {
            outputs: vec![output("x", 0, SIZE)],
            ..grpc::dummy()
        }),
    ];
    insta::assert_snapshot!(refused.join("\n"), @"
    Unimplemented: Functionality not implemented - shared memory is off; send tensors with the request, or start the server with --shared-memory
    Unimplemented: Functionality not implemented - shared memory is off; send tensors with the request, or start the server with --shared-memory
    Unimplemented: Functionality not implemented - shared memory is off; send tensors with the request, or start the server with --shared-memory
    ");
    unregister(&grpc, "");
    assert!(!get(server, "/v2").text().contains("shared_memory"));
}

#[test]
fn strings_are_in_regions() {
    let grpc = Grpc::connect(&SERVER);
    let framed = b"\x01\0\0\0a\0\0\0\0\x03\0\0\0xyz";
    let object = Object::new(&[&framed[..], &[0; 50]].concat());
    object.register(&grpc, "strings");
    let ask = |size| strings("strings", size);
    let answer = grpc.answered(ask(16));
    // The size is that of the strings.
    assert_eq!(answer.outputs[0].parameters, placed("strings", 20, 16));
    assert_eq!(object.contents()[20..36], framed[..]);
    insta::assert_snapshot!([grpc.refused(ask(15)), grpc.refused(ask(17))].join("\n"), @"
    InvalidArgument: Inputs inside buffer does not match expected format. - the string at byte 9 does not end within the 15 bytes given; input name: in
    InvalidArgument: Inputs inside buffer does not match expected format. - the string at byte 16 does not end within the 17 bytes given; input name: in
    ");
}

#[test]
fn strings_that_change_while_they_are_read_are_those_of_one_copy() {
    // Three strings in other lengths, and lengths that go beyond all memory.
    let written = [
        *b"\x01\0\0\0a\0\0\0\0\x03\0\0\0xyz",
        *b"\x03\0\0\0xyz\0\0\0\0\x01\0\0\0a",
        *b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    let grpc = Grpc::connect(&SERVER);
    let object = Object::new(&[&written[0][..], &[0; 50]].concat());
    object.register(&grpc, "changing");
    let file = fs::File::options().write(true).open(&object.path).unwrap();
    let done = AtomicBool::new(false);
    // What is wrong is said when the writer has ended.
    let answers: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for bytes in written.iter().cycle() {
                // The lengths and the rest by themselves, so that a read may have one of each.
                for part in [0..5, 5..16] {
                    file.write_all_at(&bytes[part.clone()], part.start as u64)
                        .unwrap();
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let answers = (0..400).map(|_| {
            let answer = grpc.infer(strings("changing", 16));
            (answer, object.contents()[20..36].to_vec())
        });
        let answers = answers.collect();
        done.store(true, Ordering::Relaxed);
        answers
    });
    let mut counts = [0, 0];
    for (answer, found) in answers {
        match answer {
            Ok(answer) => {
                counts[0] += 1;
                let placed = placed("changing", 20, 16);
                assert_eq!(answer.outputs[0].parameters, placed, "all that was read");
                assert_eq!(framed_strings(&found), Some(3), "{found:?}");
            }
            Err(status) => {
                let message = status.message();
                let expected = "Inputs inside buffer does not match expected format.";
                assert!(message.starts_with(expected), "{status:?}");
                counts[1] += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// Returns how many strings there are, each behind its length; `None` if the bytes end within one.
fn framed_strings(mut bytes: &[u8]) -> Option<usize> {
    let mut count = 0;
    while let Some((length, rest)) = bytes.split_first_chunk() {
        bytes = rest.get(u32::from_le_bytes(*length) as usize..)?;
        count += 1;
    }
    bytes.is_empty().then_some(count)
}

#[test]
fn a_region_that_is_forgotten_or_unlinked_serves_its_requests_to_the_end() {
    const STEPS: i64 = 60_000;
    let server = busy::shared();
    let grpc = Grpc::connect(&server);
    let mut request = busy::request(STEPS);
    let contents = request.raw_input_contents.remove(1);
    let length = contents.len();
    let object = Object::new(&[&contents[..], &vec![0; length]].concat());
    object.register(&grpc, "x");
    let size = i64::try_from(length).unwrap();
    request.inputs[1].parameters = placed("x", 0, size);
    request.outputs = vec![InferRequestedOutputTensor {
        parameters: placed("x", size, size),
        ..grpc::wanted("y")
    }];
    let file = fs::File::open(&object.path).unwrap();
    let before = server.processor_time();
    let call = grpc.call(request.clone());
    busy::wait_running(&server, before);
    unregister(&grpc, "x");
    fs::remove_file(&object.path).unwrap();
    assert!(!call.is_answered(), "the request has to be in flight");
    let mut answer = call.wait().unwrap();
    let mut written = vec![0; length];
    file.read_exact_at(&mut written, length as u64).unwrap();
    answer.raw_output_contents[0] = written.into();
    busy::check(STEPS, &Ok(answer));
    assert!(grpc.refused(request).starts_with("NotFound: "));
}

#[test]
fn truncations_while_requests_run_never_end_the_server() {
    let grpc = Grpc::connect(&SERVER);
    let object = Object::new(&[0; 80]);
    object.register(&grpc, "cut");
    let done = AtomicBool::new(false);
    let mut counts = [0, 0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                object.truncate([80, 0, 41, 79][round % 4]);
                round += 1;
            }
        });
        for _ in 0..400 {
            let call = grpc.infer(request([input("cut", 0, SIZE)], [output("cut", 40, SIZE)]));
            match call {
                Ok(_) => counts[0] += 1,
                Err(status) => {
                    assert!(status.message().contains("was truncated"), "{status:?}");
                    counts[1] += 1;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(counts[1] > 0, "{counts:?}");
    object.truncate(80);
    grpc.answered(request([input("cut", 0, SIZE)], [output("cut", 40, SIZE)]));
}

fn bytes_in_regions_count_for_the_budget(server: &Server) {
    let grpc = Grpc::connect(server);
    let object = Object::new(&vec![7; 2_000_000]);
    object.register(&grpc, "x");
    let ask = |size: i64| ModelInferRequest {
        model_name: "passthrough_u8".to_owned(),
        inputs: vec![InferInputTensor {
            parameters: placed("x", 0, size),
            ..grpc::input("in", "UINT8", &[size / 4, 4])
        }],
        outputs: vec![InferRequestedOutputTensor {
            parameters: placed("x", 0, 2_000_000),
            ..grpc::wanted("out")
        }],
        ..ModelInferRequest::default()
    };
    let refused = grpc.refused(ask(2_000_000));
    assert!(
        refused.starts_with("ResourceExhausted: Request is too large"),
        "{refused}"
    );
    // What is not sent needs no room in the response.
    for _ in 0..3 {
        grpc.answered(ask(800_000));
    }
    unregister(&grpc, "x");
}

#[test]
fn pipelines_graphs_sequences_and_streams_take_regions() {
    let grpc = Grpc::connect(&SERVER);
    let object = Object::new(&[floats(&[3.0; 10]), vec![0; 60]].concat());
    object.register(&grpc, "all");
    let ask = |model: &str, names: [&str; 2], length: i64| {
        let size = 4 * length;
        let mut ask = request([input("all", 0, size)], [output("all", 40, size)]);
        ask.model_name = model.to_owned();
        ask.inputs[0].name = names[0].to_owned();
        ask.inputs[0].shape = vec![1, length];
        ask.outputs[0].name = names[1].to_owned();
        ask
    };
    grpc.answered(ask("twice", ["x", "a"], 10));
    assert_eq!(numbers(&object, 40), [4.0; 10]);
    let answer = grpc.answered(ask("graph", ["in", "out"], 10));
    assert_eq!(numbers(&object, 40), [3.0; 10]);
    assert_eq!(answer.outputs[0].parameters, placed("all", 40, SIZE));

    let sequence = |start: bool| {
        let mut ask = ask("total", ["x", "total"], 4);
        for (name, choice) in [
            ("sequence_id", ParameterChoice::Uint64Param(5)),
            ("sequence_start", ParameterChoice::BoolParam(start)),
        ] {
            let parameter_choice = Some(choice);
            let parameter = ovms::proto::kserve::InferParameter { parameter_choice };
            ask.parameters.insert(name.to_owned(), parameter);
        }
        ask
    };
    grpc.answered(sequence(true));
    grpc.answered(sequence(false));
    assert_eq!(to_floats(&object.contents()[40..56]), [6.0; 4]);

    let mut talk = Talk::open(&grpc);
    let answer = talk.ask(ask("dummy", ["b", "a"], 10)).response();
    assert_eq!(answer.outputs[0].parameters, placed("all", 40, SIZE));
    assert_eq!(numbers(&object, 40), [4.0; 10]);
    drop(talk);
    let mut talk = Talk::open(&grpc);
    let refused = talk.ask(ask("graph", ["in", "out"], 10)).reported();
    insta::assert_snapshot!(refused, @"error: Functionality not implemented - shared memory in a stream to a graph; send tensors with the request, or use ModelInfer");
}
