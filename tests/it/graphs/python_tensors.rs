//! Conversion of inputs to Python, and of its outputs back.

use ovms::proto::kserve::InferTensorContents;
use serde_json::json;

use crate::graphs::python::lab;
use crate::support::{
    Server,
    graphs::{code, reported},
    grpc::{Grpc, input, raw, typed},
    http::{post, send},
};

#[test]
fn requests_become_tensors() {
    let (_config, server) = lab();
    let client = Grpc::connect(&server);
    let ask = |datatype: &str, shape: &[i64], data: &[u8]| {
        let came = reported(&client, raw("describe", "in", datatype, shape, data));
        came.split_once("] ")
            .map_or(came.clone(), |(_, text)| text.to_owned())
    };
    for (datatype, format, size) in [
        ("BOOL", "?", 1),
        ("UINT8", "B", 1),
        ("UINT16", "H", 2),
        ("UINT32", "I", 4),
        ("UINT64", "Q", 8),
        ("INT8", "b", 1),
        ("INT16", "h", 2),
        ("INT32", "i", 4),
        ("INT64", "q", 8),
        ("FP16", "e", 2),
        ("FP32", "f", 4),
        ("FP64", "d", 8),
    ] {
        let data = vec![1; 2 * size];
        let hex = vec!["01"; 2 * size].join(" ");
        let all = 2 * size;
        assert_eq!(
            ask(datatype, &[2, 1], &data),
            format!(
                "('in', '{datatype}', (2, 1), {all}, ('{format}', {size}, (2, 1), ({size}, {size}), True), '{hex}')"
            )
        );
        assert_eq!(
            ask(datatype, &[], &data[..size]),
            format!(
                "('in', '{datatype}', (), {size}, ('{format}', {size}, (), (), True), '{}')",
                vec!["01"; size].join(" ")
            )
        );
        let none = ask(datatype, &[0, 3], &[]);
        assert!(
            none.starts_with(&format!(
                "('in', '{datatype}', (0, 3), 0, ('{format}', {size}, (0, 3)"
            )),
            "{none}"
        );
        let wrong = ask(datatype, &[3], &data[1..]);
        assert_eq!(
            wrong,
            format!(
                "InvalidArgument: Invalid content size of tensor proto - Invalid Python tensor buffer size. Actual: {}; Expected: {}",
                all - 1,
                3 * size
            )
        );
    }
    // The document's example of a type of its own.
    let text = b"null0terminated0string0";
    assert_eq!(
        ask("my_string", &[3], text),
        "('in', 'my_string', (3,), 23, ('B', 1, (23,), (1,), True), '6e 75 6c 6c 30 74 65 72 6d 69 6e 61 74 65 64 30 73 74 72 69 6e 67 30')"
    );
    assert_eq!(
        ask("BYTES", &[7, 7], b"as it is"),
        "('in', 'BYTES', (7, 7), 8, ('B', 1, (8,), (1,), True), '61 73 20 69 74 20 69 73')"
    );
    assert_eq!(
        ask("", &[1], b"x"),
        "('in', '', (1,), 1, ('B', 1, (1,), (1,), True), '78')"
    );
    for datatype in ["FP32", "BYTES", "strange"] {
        let came = ask(datatype, &[2, -1], &[0; 8]);
        assert!(
            came.starts_with(
                "InvalidArgument: Invalid input shape - Negative dimension size is not acceptable: "
            ),
            "{came}"
        );
    }
    for shape in [&[i64::MAX, 2][..], &[i64::MAX], &[1 << 40, 1 << 40]] {
        assert_eq!(
            ask("FP32", shape, &[0; 8]),
            "InvalidArgument: Invalid content size of tensor proto - Provided shape and datatype declare too large buffer."
        );
    }
    contents_become_tensors(&client);
    rest_becomes_tensors(&server);
}

fn contents_become_tensors(client: &Grpc) {
    let ask = |datatype: &str, shape: &[i64], contents: InferTensorContents| {
        let came = reported(client, typed("describe", "in", datatype, shape, contents));
        came.split_once("] ")
            .map_or(came.clone(), |(_, text)| text.to_owned())
    };
    let ints = |int_contents: &[i32]| InferTensorContents {
        int_contents: int_contents.to_vec(),
        ..Default::default()
    };
    assert_eq!(
        ask("INT16", &[2], ints(&[1, -1])),
        "('in', 'INT16', (2,), 4, ('h', 2, (2,), (2,), True), '01 00 ff ff')"
    );
    let bytes = InferTensorContents {
        bytes_contents: vec![b"ab"[..].into(), b""[..].into(), b"c"[..].into()],
        ..Default::default()
    };
    assert_eq!(
        ask("BYTES", &[3], bytes.clone()),
        "('in', 'BYTES', (3,), 15, ('B', 1, (15,), (1,), True), '02 00 00 00 61 62 00 00 00 00 01 00 00 00 63')"
    );
    assert_eq!(
        ask("my_string", &[3], bytes),
        "InvalidArgument: Invalid input precision - Provided datatype is invalid, custom datatypes are allowed only when raw_input_contents is used."
    );
    let came = ask("INT16", &[3], ints(&[1, -1]));
    assert!(
        came.starts_with("InvalidArgument: Invalid number of values in tensor proto container - "),
        "{came}"
    );
    let came = ask("FP16", &[1], ints(&[1]));
    assert!(
        came.starts_with("InvalidArgument: ") || came.starts_with("Unimplemented: "),
        "{came}"
    );
    // Both ways at once, and neither.
    let mut both = typed("describe", "in", "INT8", &[1], ints(&[1]));
    both.raw_input_contents = vec![b"a"[..].into()];
    let came = reported(client, both);
    assert!(came.starts_with("InvalidArgument: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in ModelInferRequest::raw_input_contents is not allowed"), "{came}");
    let came = reported(client, raw("describe", "stranger", "INT8", &[1], b"a"));
    assert_eq!(
        came,
        "InvalidArgument: Unexpected input - stranger is unexpected"
    );
    let mut none = raw("describe", "in", "INT8", &[1], b"a");
    none.inputs.clear();
    none.raw_input_contents.clear();
    assert_eq!(
        reported(client, none),
        "InvalidArgument: Invalid number of inputs - Not all input packets created"
    );
    let mut twice = raw("describe", "in", "INT8", &[1], b"a");
    twice.inputs.push(input("in", "INT8", &[1]));
    twice.raw_input_contents.push(b"b"[..].into());
    let came = reported(client, twice);
    assert!(
        came.starts_with("FailedPrecondition: ") || came.starts_with("InvalidArgument: "),
        "{came}"
    );
}

fn rest_becomes_tensors(server: &Server) {
    const PATH: &str = "/v2/models/describe/infer";
    let text = |data: &serde_json::Value| {
        let bytes: Vec<u8> = serde_json::from_value(data.clone()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let body =
        json!({"inputs": [{"name": "in", "shape": [2], "datatype": "BYTES", "data": ["ab", "é"]}]});
    let answer = post(server, PATH, body.to_string().as_bytes()).json();
    assert_eq!(
        text(&answer["outputs"][0]["data"]),
        "('in', 'BYTES', (2,), 12, ('B', 1, (12,), (1,), True), '02 00 00 00 61 62 02 00 00 00 c3 a9')"
    );
    let head = r#"{"inputs":[{"name":"in","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}}]}"#;
    let body = [head.as_bytes(), b"\x02\0\0\0hi"].concat();
    let length = head.len().to_string();
    let header = [(crate::support::http::JSON_LENGTH, length.as_str())];
    let answer = send(server, "POST", PATH, &header, &body).json();
    assert_eq!(
        text(&answer["outputs"][0]["data"]),
        "('in', 'BYTES', (1,), 6, ('B', 1, (6,), (1,), True), '02 00 00 00 68 69')"
    );
}

#[test]
fn tensors_become_responses() {
    let (_config, server) = lab();
    let client = Grpc::connect(&server);
    let numpy = "import numpy as np\n";
    for (body, expected) in [
        ("return [Tensor('out', b'')]", "out UINT8 [0] "),
        ("return [Tensor('out', data=b'a')]", "out UINT8 [1] a"),
        ("return [Tensor('out', buffer=b'a')]", "out UINT8 [1] a"),
        (
            "return [Tensor(name='out', data=b'abcd', shape=(2, 2), datatype='BYTES')]",
            "out BYTES [2, 2] abcd",
        ),
        (
            "return [Tensor('out', b'abcd', [9], 'my own type')]",
            "out my own type [9] abcd",
        ),
        (
            "return [Tensor('out', b'abcd', shape=())]",
            "out UINT8 [] abcd",
        ),
        (
            "return [Tensor('out', array.array('l', [0x6161616161616161]))]",
            "out INT64 [1] aaaaaaaa",
        ),
        (
            "return [Tensor('out', array.array('L', [0x6161616161616161]))]",
            "out UINT64 [1] aaaaaaaa",
        ),
        (
            "return [Tensor('out', array.array('i', [0x61616161]))]",
            "out INT32 [1] aaaa",
        ),
        (
            "return [Tensor('out', memoryview(b'abcdef')[::2])]",
            "out UINT8 [3] ace",
        ),
        (
            "return [Tensor('out', memoryview(b'abcdef').cast('B', (2, 3)))]",
            "out UINT8 [2, 3] abcdef",
        ),
        (
            "return [Tensor('out', Tensor('x', b'abcd', (4, 1), 'INT8'))]",
            "out UINT8 [4] abcd",
        ),
        (
            "return [Tensor('out', bytearray(b'ab'))]",
            "out UINT8 [2] ab",
        ),
        // Until it is sent, what is changed is seen.
        (
            "a = bytearray(b'ab')\nt = Tensor('out', a)\na[0] = 0x7a\nreturn [t]",
            "out UINT8 [2] zb",
        ),
        (
            "return [Tensor('out', str(inputs[0].name + inputs[0].datatype).encode())]",
            "out UINT8 [6] incode",
        ),
        (
            "a = memoryview(inputs[0]); b = memoryview(inputs[0])\nreturn [Tensor('out', bytes(a[:1]) + bytes(b[:1]))]",
            "out UINT8 [2] aa",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.array([0x61, 0x62]))]",
            "out INT64 [2] a\0\0\0\0\0\0\0b\0\0\0\0\0\0\0",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.array([0x61], np.uint16))]",
            "out UINT16 [1] a\0",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.array([1.5], np.float16))]",
            "out FP16 [1] \0>",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.array([True]))]",
            "out BOOL [1] \u{1}",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.frombuffer(b'abcdef', np.int8).reshape(2, 3).T)]",
            "out INT8 [3, 2] adbecf",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.frombuffer(b'abcdef', np.int8)[::-1])]",
            "out INT8 [6] fedcba",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.array(['ab']))]",
            "out 2w [1] a\0\0\0b\0\0\0",
        ),
        (
            "import numpy as np\nx = np.array(['ab'])\nreturn [Tensor('out', x, datatype=x.dtype.str)]",
            "out <U2 [1] a\0\0\0b\0\0\0",
        ),
        (
            "import numpy as np\nreturn [Tensor('out', np.broadcast_to(np.int8(0x61), (2, 2)))]",
            "out INT8 [2, 2] aaaa",
        ),
    ] {
        assert_eq!(reported(&client, code("py", body)), expected, "{body}");
    }
    // What NumPy sees of a request.
    let sees = format!(
        "{numpy}x = np.asarray(inputs[0])\nreturn [Tensor('out', repr((x.dtype.str, x.shape, x.flags.writeable, np.array(inputs[0]).flags.writeable)).encode())]"
    );
    assert_eq!(
        reported(&client, code("py", &sees))
            .split_once("] ")
            .unwrap()
            .1,
        format!("('|u1', ({},), False, True)", sees.len())
    );
    // REST has no JSON for such types.
    let ask = |body: &str, binary: bool| {
        let data = body.bytes().collect::<Vec<_>>();
        let ask = json!({"inputs": [{"name": "in", "shape": [data.len()], "datatype": "UINT8", "data": data}],
            "parameters": {"binary_data_output": binary}});
        post(&server, "/v2/models/py/infer", ask.to_string().as_bytes())
    };
    let body = "return [Tensor('out', b'abc', shape=(1,), datatype='mine')]";
    assert_eq!(ask(body, false).status, 400);
    let answer = ask(body, true);
    assert_eq!(answer.status, 200);
    let (json, binary) = answer.parts();
    assert_eq!(
        (json["outputs"][0]["datatype"].as_str(), binary),
        (Some("mine"), &b"abc"[..])
    );
}

#[test]
fn memory_lives_as_long_as_it_is_held() {
    let (_config, server) = lab();
    let client = Grpc::connect(&server);
    let keep = "kept = self.__dict__.setdefault('kept', [])\nkept.append(inputs[0])\nkept.append(memoryview(inputs[0]))\nreturn [Tensor('out', str(len(kept)).encode())]";
    for number in 1..=20 {
        let body = format!("{keep}\n# {number:_>1000}");
        let length = (2 * number).to_string();
        assert_eq!(
            reported(&client, code("py", &body)),
            format!("out UINT8 [{}] {length}", length.len())
        );
    }
    let check = "ok = all(bytes(k).endswith(f'# {i // 2 + 1:_>1000}'.encode()) for i, k in enumerate(self.kept))\nself.kept.clear()\nreturn [Tensor('out', str(ok).encode())]";
    assert_eq!(reported(&client, code("py", check)), "out UINT8 [4] True");
    // In another thread, after the request has been answered.
    let body = "def late(t):\n  time.sleep(0.05)\n  self.late = bytes(t)[-4:]\nself.thread = threading.Thread(target=late, args=(inputs[0],))\nself.thread.start()\nreturn [Tensor('out', b'')]# end";
    assert_eq!(reported(&client, code("py", body)), "out UINT8 [0] ");
    assert_eq!(
        reported(
            &client,
            code(
                "py",
                "self.thread.join()\nreturn [Tensor('out', self.late)]"
            )
        ),
        "out UINT8 [4]  end"
    );
    // Outputs that are kept, and given again by the next.
    assert_eq!(
        reported(
            &client,
            code(
                "py",
                "self.again = Tensor('out', b'again')\nreturn [self.again]"
            )
        ),
        "out UINT8 [5] again"
    );
    assert_eq!(
        reported(&client, code("py", "return [self.again]")),
        "out UINT8 [5] again"
    );
    // Large ones.
    let mut large = vec![b'\n'; 48 << 20];
    let begin = b"return [Tensor('out', inputs[0])]\n#";
    large[..begin.len()].copy_from_slice(begin);
    let mut ask = raw("large", "in", "BYTES", &[1], &large);
    "py".clone_into(&mut ask.model_name);
    // The body is parsed once; its lines would take long.
    large[begin.len()..].fill(b'x');
    ask.raw_input_contents = vec![large.clone().into()];
    let answer = client.answered(ask);
    assert_eq!(answer.raw_output_contents[0], large);
}
