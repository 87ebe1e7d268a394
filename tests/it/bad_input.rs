//! Requests that do not fit: each is refused with its code and text, and the server serves on.

use ovms::proto::kserve::{InferTensorContents, ModelInferRequest};

use crate::support::{
    Server,
    grpc::{Grpc, dummy, floats, input, raw, typed},
    http::{Answer, JSON_LENGTH, head, post, send},
};

/// The server of `dummy` and a client; both are asked for a good answer at the end of a test.
struct Dummy {
    server: Server,
    grpc: Grpc,
}

impl Dummy {
    fn start(flags: &[&str]) -> Self {
        let server = Server::start_with("dummy", flags);
        let grpc = Grpc::connect(&server);
        Self { server, grpc }
    }

    /// Sends requests that must be refused; returns what they were for and the answers.
    fn refused<const N: usize>(&self, requests: [(&str, ModelInferRequest); N]) -> String {
        let answers = requests.map(|(what, request)| format!("{what}: {}\n", self.grpc.refused(request)));
        self.grpc.check_serves();
        answers.concat()
    }

    /// The same over REST, with bodies.
    fn refused_rest<const N: usize>(&self, bodies: [(&str, &str); N]) -> String {
        let answers = bodies.map(|(what, body)| {
            let answer = post(&self.server, "/v2/models/dummy/infer", body.as_bytes());
            format!("{what}: {}\n", answer.fault())
        });
        self.grpc.check_serves();
        answers.concat()
    }
}

/// The good request, changed.
fn but(change: impl FnOnce(&mut ModelInferRequest)) -> ModelInferRequest {
    let mut request = dummy();
    change(&mut request);
    request
}

/// The good request with another shape, and as much data as that needs.
fn shaped(shape: &[i64]) -> ModelInferRequest {
    let elements = shape.iter().product::<i64>().max(0);
    raw("dummy", "b", "FP32", shape, &vec![0; usize::try_from(elements * 4).unwrap()])
}

fn fp32(numbers: &[f32]) -> InferTensorContents {
    InferTensorContents {
        fp32_contents: numbers.to_vec(),
        ..InferTensorContents::default()
    }
}

#[test]
fn unknown_names_and_versions() {
    let dummy = Dummy::start(&[]);
    let version = |version: &str| but(|request| request.model_version = version.to_owned());
    let answers = dummy.refused([
        ("unknown model", but(|request| request.model_name = "stranger".to_owned())),
        ("no model", but(|request| request.model_name.clear())),
        ("unknown version", version("2")),
        ("negative version", version("-1")),
        ("version that is no number", version("x")),
        ("version beyond 64 bits", version("9223372036854775808")),
        // The most basic fault is the answer.
        (
            "all wrong",
            but(|request| {
                request.model_name = "stranger".to_owned();
                request.inputs.clear();
            }),
        ),
    ]);
    insta::assert_snapshot!(answers, @"
    unknown model: NotFound: Model with requested name is not found
    no model: NotFound: Model with requested name is not found
    unknown version: NotFound: Model with requested version is not found
    negative version: NotFound: Model with requested version is not found
    version that is no number: InvalidArgument: invalid model version format in request
    version beyond 64 bits: InvalidArgument: invalid model version format in request
    all wrong: NotFound: Model with requested name is not found
    ");
}

#[test]
fn unknown_names_and_versions_over_rest() {
    let dummy = Dummy::start(&[]);
    let body = r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#;
    let answers = [
        "/v2/models/stranger/infer",
        "/v2/models/dummy/versions/2/infer",
        "/v2/models/dummy/versions/9223372036854775808/infer",
        "/v2/models/dummy/versions/x/infer",
        "/v2/models/%FF/infer",
    ]
    .map(|path| format!("{path}: {}\n", post(&dummy.server, path, body.as_bytes()).fault()))
    .concat();
    insta::assert_snapshot!(answers, @"");
    // Over REST the body is read before the model is looked up.
    let broken = post(&dummy.server, "/v2/models/stranger/infer", b"{");
    assert_eq!(broken.status, 412);
    dummy.grpc.check_serves();
}

#[test]
fn inputs_that_the_model_does_not_have() {
    let dummy = Dummy::start(&[]);
    let answers = dummy.refused([
        ("another name", but(|request| request.inputs[0].name = "c".to_owned())),
        (
            "none",
            but(|request| {
                request.inputs.clear();
                request.raw_input_contents.clear();
            }),
        ),
        (
            "one too many",
            but(|request| {
                request.inputs.push(input("c", "FP32", &[1]));
                request.raw_input_contents.push(floats(&[1.0]).into());
            }),
        ),
        (
            "the same twice",
            but(|request| {
                request.inputs.push(request.inputs[0].clone());
                request.raw_input_contents.push(floats(&[1.0; 10]).into());
            }),
        ),
    ]);
    insta::assert_snapshot!(answers, @"
    another name: InvalidArgument: Missing input with specific name - Required input: b
    none: InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 0
    one too many: InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 2
    the same twice: InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 2
    ");
}

#[test]
fn the_first_input_by_name_is_complained_of() {
    let server = Server::start("add");
    let grpc = Grpc::connect(&server);
    let request = ModelInferRequest {
        model_name: "add".to_owned(),
        inputs: vec![input("input2", "INT8", &[1]), input("input1", "INT8", &[1, 10])],
        raw_input_contents: vec![vec![0].into(), vec![0; 10].into()],
        ..ModelInferRequest::default()
    };
    insta::assert_snapshot!(grpc.refused(request), @"InvalidArgument: Invalid input precision - Expected: FP32; Actual: INT8; input name: input1");
}

#[test]
fn types_that_the_model_does_not_take() {
    let dummy = Dummy::start(&[]);
    let declared = |name: &str| but(|request| request.inputs[0].datatype = name.to_owned());
    let answers = dummy.refused([
        ("another type", declared("INT32")),
        ("double", declared("FP64")),
        ("lower case", declared("fp32")),
        ("nonsense", declared("FP33")),
        ("no type", declared("")),
        ("strings", declared("BYTES")),
    ]);
    insta::assert_snapshot!(answers, @"
    another type: InvalidArgument: Invalid input precision - Expected: FP32; Actual: INT32; input name: b
    double: InvalidArgument: Invalid input precision - Expected: FP32; Actual: FP64; input name: b
    lower case: InvalidArgument: Invalid input precision - Expected: FP32; Actual: fp32; input name: b
    nonsense: InvalidArgument: Invalid input precision - Expected: FP32; Actual: FP33; input name: b
    no type: InvalidArgument: Invalid input precision - Expected: FP32; Actual: ; input name: b
    strings: Unimplemented: Functionality not implemented - BYTES as an encoded image or a list of strings; input name: b
    ");
}

#[test]
fn string_tensors_are_not_served_yet() {
    let server = Server::start("passthrough_string");
    let contents = InferTensorContents {
        bytes_contents: vec![b"a".to_vec().into()],
        ..InferTensorContents::default()
    };
    let request = typed("passthrough_string", "in", "BYTES", &[1], contents);
    insta::assert_snapshot!(Grpc::connect(&server).refused(request), @"Unimplemented: Functionality not implemented - inference with string tensors; input name: in");
}

#[test]
fn shapes_that_the_model_does_not_take() {
    let dummy = Dummy::start(&[]);
    let answers = dummy.refused([
        ("more dimensions", shaped(&[1, 1, 10])),
        ("fewer dimensions", shaped(&[10])),
        ("no dimensions", shaped(&[])),
        ("another batch", shaped(&[2, 10])),
        ("no batch", shaped(&[0, 10])),
        ("another length", shaped(&[1, 11])),
        ("length of zero", shaped(&[1, 0])),
        ("negative batch", shaped(&[-1, 10])),
        ("least number", shaped(&[1, i64::MIN / 64])),
    ]);
    insta::assert_snapshot!(answers, @"
    more dimensions: InvalidArgument: Invalid number of shape dimensions - Expected: (1,10); Actual: (1,1,10); input name: b
    fewer dimensions: InvalidArgument: Invalid number of shape dimensions - Expected: (1,10); Actual: (10); input name: b
    no dimensions: InvalidArgument: Invalid number of shape dimensions - Expected: (1,10); Actual: (); input name: b
    another batch: InvalidArgument: Invalid input batch size - Expected: 1; Actual: 2; input name: b
    no batch: InvalidArgument: Invalid input batch size - Expected: 1; Actual: 0; input name: b
    another length: InvalidArgument: Invalid input shape - Expected: (1,10); Actual: (1,11); input name: b
    length of zero: InvalidArgument: Invalid input shape - Expected: (1,10); Actual: (1,0); input name: b
    negative batch: InvalidArgument: Invalid input shape - Negative or zero dimension size is not acceptable: (-1,10); input name: b
    least number: InvalidArgument: Invalid input shape - Negative or zero dimension size is not acceptable: (1,-144115188075855872); input name: b
    ");
}

#[test]
fn shapes_beyond_memory_allocate_nothing() {
    let server = Server::start("passthrough_f32");
    let grpc = Grpc::connect(&server);
    let send = |what: &str, shape: &[i64], contents: Option<InferTensorContents>| {
        let request = match contents {
            None => raw("passthrough_f32", "in", "FP32", shape, &floats(&[1.0])),
            Some(contents) => typed("passthrough_f32", "in", "FP32", shape, contents),
        };
        format!("{what}: {}\n", grpc.refused(request))
    };
    let most = i64::MAX;
    let answers = [
        send("two of the longest", &[most, most], None),
        send("one of the longest", &[most, 1], None),
        send("product of 2^64", &[1 << 32, 1 << 32], None),
        send("terabytes", &[1 << 20, 1 << 20], None),
        send("typed, two of the longest", &[most, most], Some(fp32(&[1.0]))),
        send("typed, terabytes", &[1 << 20, 1 << 20], Some(fp32(&[1.0]))),
    ]
    .concat();
    insta::assert_snapshot!(answers, @"
    two of the longest: InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (9223372036854775807,9223372036854775807); Actual: 4 bytes; input name: in
    one of the longest: InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (9223372036854775807,1); Actual: 4 bytes; input name: in
    product of 2^64: InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (4294967296,4294967296); Actual: 4 bytes; input name: in
    terabytes: InvalidArgument: Invalid content size of tensor proto - Expected: 4398046511104 bytes; Actual: 4 bytes; input name: in
    typed, two of the longest: InvalidArgument: Invalid number of values in tensor proto container - Expected: more than memory can hold values; Actual: 1 values; input name: in
    typed, terabytes: InvalidArgument: Invalid number of values in tensor proto container - Expected: 1099511627776 values; Actual: 1 values; input name: in
    ");
    let good = raw("passthrough_f32", "in", "FP32", &[1, 1], &floats(&[1.0]));
    grpc.answered(good);
}

#[test]
fn data_that_does_not_fill_the_shape() {
    let dummy = Dummy::start(&[]);
    let contents = |numbers: &[f32]| typed("dummy", "b", "FP32", &[1, 10], fp32(numbers));
    let answers = dummy.refused([
        ("raw, too few bytes", raw("dummy", "b", "FP32", &[1, 10], &[0; 36])),
        ("raw, part of a number", raw("dummy", "b", "FP32", &[1, 10], &[0; 39])),
        ("raw, too many bytes", raw("dummy", "b", "FP32", &[1, 10], &[0; 44])),
        ("raw, nothing", raw("dummy", "b", "FP32", &[1, 10], &[])),
        ("typed, too few values", contents(&[0.0; 9])),
        ("typed, too many values", contents(&[0.0; 11])),
        ("typed, nothing", contents(&[])),
        (
            "typed, in the field of another type",
            typed(
                "dummy",
                "b",
                "FP32",
                &[1, 10],
                InferTensorContents {
                    fp64_contents: vec![0.0; 10],
                    ..InferTensorContents::default()
                },
            ),
        ),
    ]);
    insta::assert_snapshot!(answers, @"
    raw, too few bytes: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b
    raw, part of a number: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 39 bytes; input name: b
    raw, too many bytes: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 44 bytes; input name: b
    raw, nothing: InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 0 bytes; input name: b
    typed, too few values: InvalidArgument: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 9 values; input name: b
    typed, too many values: InvalidArgument: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 11 values; input name: b
    typed, nothing: InvalidArgument: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 0 values; input name: b
    typed, in the field of another type: InvalidArgument: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 0 values; input name: b
    ");
}

#[test]
fn raw_contents_that_do_not_go_with_the_inputs() {
    let dummy = Dummy::start(&[]);
    let answers = dummy.refused([
        ("more than inputs", but(|request| request.raw_input_contents.push(vec![0].into()))),
        (
            "beside typed contents",
            but(|request| request.inputs[0].contents = Some(fp32(&[1.0; 10]))),
        ),
    ]);
    insta::assert_snapshot!(answers, @"
    more than inputs: InvalidArgument: Inputs inside buffer does not match expected format. - Expected: one element of raw_input_contents for each of the 1 inputs; Actual: 2
    beside typed contents: InvalidArgument: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in ModelInferRequest::raw_input_contents is not allowed - Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. Detected buffer in InferInputTensor contents for input: b
    ");

    let server = Server::start("add");
    let fewer = ModelInferRequest {
        model_name: "add".to_owned(),
        inputs: vec![input("input1", "FP32", &[1, 10]), input("input2", "FP32", &[1, 10])],
        raw_input_contents: vec![floats(&[1.0; 10]).into()],
        ..ModelInferRequest::default()
    };
    insta::assert_snapshot!(Grpc::connect(&server).refused(fewer), @"InvalidArgument: Inputs inside buffer does not match expected format. - Expected: one element of raw_input_contents for each of the 2 inputs; Actual: 1");
}

#[test]
fn typed_values_out_of_range() {
    let refused = |model: &str, datatype: &str, contents: InferTensorContents| {
        let server = Server::start(model);
        let request = typed(model, "in", datatype, &[1, 1], contents);
        format!("{datatype}: {}\n", Grpc::connect(&server).refused(request))
    };
    let int = |value| InferTensorContents {
        int_contents: vec![value],
        ..InferTensorContents::default()
    };
    let uint = |value| InferTensorContents {
        uint_contents: vec![value],
        ..InferTensorContents::default()
    };
    let answers = [
        refused("passthrough_i8", "INT8", int(128)),
        refused("passthrough_i16", "INT16", int(-32769)),
        refused("passthrough_u8", "UINT8", uint(256)),
        refused("passthrough_u16", "UINT16", uint(65536)),
        refused("passthrough_f16", "FP16", fp32(&[1.0])),
    ]
    .concat();
    insta::assert_snapshot!(answers, @"
    INT8: InvalidArgument: Invalid value in tensor proto container - 128 does not fit INT8; input name: in
    INT16: InvalidArgument: Invalid value in tensor proto container - -32769 does not fit INT16; input name: in
    UINT8: InvalidArgument: Invalid value in tensor proto container - 256 does not fit UINT8; input name: in
    UINT16: InvalidArgument: Invalid value in tensor proto container - 65536 does not fit UINT16; input name: in
    FP16: InvalidArgument: Invalid value in tensor proto container - FP16 has no field in InferTensorContents; send it in raw_input_contents; input name: in
    ");
}

#[test]
fn bodies_that_are_not_json() {
    let dummy = Dummy::start(&[]);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = r#"{"a":"#.repeat(100_000);
    let deep_data =
        format!(r#"{{"inputs":[{{"name":"b","shape":[1,10],"datatype":"FP32","data":{deep}}}]}}"#);
    let answers = dummy.refused_rest([
        ("empty", ""),
        ("blank", " \n"),
        ("a word", "hello"),
        ("cut off", r#"{"inputs":"#),
        ("cut off within data", r#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[1,"#),
        ("more behind it", r#"{"inputs":[]} x"#),
        ("comma too many", "{\"inputs\":[\n1,]}"),
        ("100,000 lists deep", &deep),
        ("100,000 objects deep", &deep_object),
        ("data 100,000 lists deep", &deep_data),
    ]);
    insta::assert_snapshot!(answers, @"
    empty: 412: The file is not valid json - Error: The document is empty. Offset: 0
    blank: 412: The file is not valid json - Error: The document is empty. Offset: 0
    a word: 412: The file is not valid json - Error: expected value Offset: 0
    cut off: 412: The file is not valid json - Error: EOF while parsing a value Offset: 9
    cut off within data: 412: The file is not valid json - Error: EOF while parsing a value Offset: 65
    more behind it: 412: The file is not valid json - Error: trailing characters Offset: 14
    comma too many: 412: The file is not valid json - Error: expected value Offset: 14
    100,000 lists deep: 400: Request body should be JSON object
    100,000 objects deep: 412: The file is not valid json - Error: EOF while parsing a value Offset: 499999
    data 100,000 lists deep: 400: Could not parse input content. Not valid ndarray detected - recursion limit exceeded
    ");
    let binary = post(&dummy.server, "/v2/models/dummy/infer", &[0xff, 0x00, 0xfe]);
    insta::assert_snapshot!(binary.fault(), @"412: The file is not valid json - Error: expected value Offset: 0");
}

#[test]
fn json_that_is_no_request() {
    let dummy = Dummy::start(&[]);
    let answers = dummy.refused_rest([
        ("a list", "[]"),
        ("a number", "1"),
        ("nothing in it", "{}"),
        ("no inputs", r#"{"inputs":[]}"#),
        ("null inputs", r#"{"inputs":null}"#),
        ("inputs are an object", r#"{"inputs":{}}"#),
        ("input is no object", r#"{"inputs":[1]}"#),
        ("no name", r#"{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}"#),
        ("name is a number", r#"{"inputs":[{"name":1,"shape":[1],"datatype":"FP32","data":[1]}]}"#),
        ("no shape", r#"{"inputs":[{"name":"b","datatype":"FP32","data":[1]}]}"#),
        ("negative shape", r#"{"inputs":[{"name":"b","shape":[-1],"datatype":"FP32","data":[1]}]}"#),
        ("fraction in shape", r#"{"inputs":[{"name":"b","shape":[1.5],"datatype":"FP32","data":[1]}]}"#),
        ("shape beyond 64 bits", r#"{"inputs":[{"name":"b","shape":[18446744073709551616],"datatype":"FP32","data":[1]}]}"#),
        ("shape beyond i64", r#"{"inputs":[{"name":"b","shape":[9223372036854775808],"datatype":"FP32","data":[1]}]}"#),
        ("no datatype", r#"{"inputs":[{"name":"b","shape":[1],"data":[1]}]}"#),
        ("unknown datatype", r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP33","data":[1]}]}"#),
        ("id is a number", r#"{"id":1,"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#),
        ("parameter is a list", r#"{"parameters":{"a":[]},"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#),
        ("parameter is a fraction", r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1],"parameters":{"a":1.5}}]}"#),
        ("output without name", r#"{"outputs":[{}],"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#),
        ("name given twice", r#"{"inputs":[{"name":"b","name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#),
    ]);
    insta::assert_snapshot!(answers, @"
    a list: 400: Invalid JSON structure, missing inputs
    a number: 400: Request body should be JSON object
    nothing in it: 400: Invalid JSON structure, missing inputs
    no inputs: 400: Invalid JSON structure, missing inputs
    null inputs: 400: Invalid JSON structure, missing inputs
    inputs are an object: 400: Could not parse input content. Not valid ndarray detected
    input is no object: 400: Could not parse input content. Not valid ndarray detected - invalid type: integer `1`, expected struct InputJson
    no name: 400: Could not parse input content. Not valid ndarray detected - missing field `name`
    name is a number: 400: Could not parse input content. Not valid ndarray detected - invalid type: integer `1`, expected a string
    no shape: 400: Could not parse input content. Not valid ndarray detected - missing field `shape`
    negative shape: 400: Could not parse input content. Not valid ndarray detected - invalid value: integer `-1`, expected u64
    fraction in shape: 400: Could not parse input content. Not valid ndarray detected - invalid type: floating point `1.5`, expected u64
    shape beyond 64 bits: 400: Could not parse input content. Not valid ndarray detected - invalid type: floating point `1.8446744073709552e+19`, expected u64
    shape beyond i64: 400: Could not parse input content. Not valid ndarray detected
    no datatype: 400: Could not parse input content. Not valid ndarray detected - missing field `datatype`
    unknown datatype: 400: Could not parse input content. Unsupported data precision detected
    id is a number: 400: Could not parse input content. Not valid ndarray detected - invalid type: integer `1`, expected a string
    parameter is a list: 400: Could not parse request parameters
    parameter is a fraction: 400: Could not parse request parameters
    output without name: 400: Could not parse output content.
    name given twice: 400: Could not parse input content. Not valid ndarray detected - duplicate field `name`
    ");
}

#[test]
fn json_elements_that_do_not_fit() {
    let dummy = Dummy::start(&[]);
    let element = |datatype: &str, shape: &str, data: &str| {
        format!(r#"{{"inputs":[{{"name":"b","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}"#)
    };
    let cases: Vec<String> = [
        ("FP32", "[1,10]", "[1,2,3,4,5,6,7,8,9]"),
        ("FP32", "[1,10]", "[[1,2],[3,4],[5,6],[7,8],[9,10],11]"),
        ("FP32", "[1,10]", "[]"),
        ("FP32", "[1,10]", "1"),
        ("FP32", "[1,10]", "null"),
        ("FP32", "[1,10]", "{}"),
        ("FP32", "[1,10]", r#"["1"]"#),
        ("FP32", "[1,10]", "[true]"),
        ("FP32", "[1,10]", "[null]"),
        ("INT32", "[1,1]", "[1.5]"),
        ("INT32", "[1,1]", "[2147483648]"),
        ("INT64", "[1,1]", "[9223372036854775808]"),
        ("UINT64", "[1,1]", "[18446744073709551616]"),
        ("UINT8", "[1,1]", "[-1]"),
        ("BOOL", "[1,1]", "[1]"),
        ("BYTES", "[1,1]", "[1]"),
        ("FP16", "[1,1]", "[1]"),
        ("FP32", "[9223372036854775807,9223372036854775807]", "[1]"),
    ]
    .into_iter()
    .map(|(datatype, shape, data)| {
        let body = element(datatype, shape, data);
        let answer = post(&dummy.server, "/v2/models/dummy/infer", body.as_bytes());
        format!("{datatype} {shape} {data}: {}\n", answer.fault())
    })
    .collect();
    insta::assert_snapshot!(cases.concat(), @r#"
    FP32 [1,10] [1,2,3,4,5,6,7,8,9]: 400: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 9 values; input name: b
    FP32 [1,10] [[1,2],[3,4],[5,6],[7,8],[9,10],11]: 400: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 11 values; input name: b
    FP32 [1,10] []: 400: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 0 values; input name: b
    FP32 [1,10] 1: 400: Could not parse input content. Not valid ndarray detected - expected a list
    FP32 [1,10] null: 400: Received buffer size is smaller than binary_data_size parameter indicates
    FP32 [1,10] {}: 400: Could not parse input content. Not valid ndarray detected - invalid type: map, expected a list of FP32 values
    FP32 [1,10] ["1"]: 400: Could not parse input content. Not valid ndarray detected - found "1", expected a value of FP32
    FP32 [1,10] [true]: 400: Could not parse input content. Not valid ndarray detected - found true, expected a value of FP32
    FP32 [1,10] [null]: 400: Could not parse input content. Not valid ndarray detected - invalid type: null, expected a list of FP32 values
    INT32 [1,1] [1.5]: 400: Could not parse input content. Not valid ndarray detected - found 1.5, expected a value of INT32
    INT32 [1,1] [2147483648]: 400: Could not parse input content. Not valid ndarray detected - 2147483648 does not fit INT32
    INT64 [1,1] [9223372036854775808]: 400: Could not parse input content. Not valid ndarray detected - 9223372036854775808 does not fit INT64
    UINT64 [1,1] [18446744073709551616]: 400: Could not parse input content. Not valid ndarray detected - found 18446744073709552000, expected a value of UINT64
    UINT8 [1,1] [-1]: 400: Could not parse input content. Not valid ndarray detected - -1 does not fit UINT8
    BOOL [1,1] [1]: 400: Could not parse input content. Not valid ndarray detected - found 1, expected a value of BOOL
    BYTES [1,1] [1]: 400: Could not parse input content. Not valid ndarray detected - found 1, expected a value of BYTES
    FP16 [1,1] [1]: 400: Could not parse input content. Not valid ndarray detected - FP16 has no JSON form; send it as binary data
    FP32 [9223372036854775807,9223372036854775807] [1]: 400: Invalid input batch size - Expected: 1; Actual: 9223372036854775807; input name: b
    "#);
    dummy.grpc.check_serves();
}

#[test]
fn binary_data_that_does_not_go_with_the_json() {
    let dummy = Dummy::start(&[]);
    let answer = |length: &str, input: &str, binary: &[u8]| {
        let json = format!(r#"{{"inputs":[{{"name":"b","shape":[1,10],"datatype":"FP32"{input}}}]}}"#);
        let actual = json.len().to_string();
        let length = if length.is_empty() { &actual } else { length };
        let mut body = json.into_bytes();
        body.extend_from_slice(binary);
        send(&dummy.server, "POST", "/v2/models/dummy/infer", &[(JSON_LENGTH, length)], &body)
    };
    let size = |value: &str| format!(r#","parameters":{{"binary_data_size":{value}}}"#);
    let data = [0; 40];
    let answers: [(&str, Answer); 12] = [
        ("length beyond the body", answer("1000", "", &data)),
        ("negative length", answer("-1", "", &data)),
        ("length is a word", answer("x", "", &data)),
        ("length beyond 64 bits", answer("18446744073709551616", "", &data)),
        ("length within the JSON", answer("5", "", &data)),
        ("too few bytes", answer("", "", &data[..39])),
        ("no bytes and no data", answer("", "", b"")),
        ("size beyond the data", answer("", &size("41"), &data)),
        ("size that does not fill the shape", answer("", &size("36"), &data)),
        ("size is a word", answer("", &size("\"40\""), &data)),
        ("negative size", answer("", &size("-40"), &data)),
        ("both data and size", answer("", &format!(",\"data\":[1]{}", size("40")), &data)),
    ];
    let answers = answers.map(|(what, answer)| format!("{what}: {}\n", answer.fault())).concat();
    insta::assert_snapshot!(answers, @"
    length beyond the body: 400: Inference-Header-Content-Length header exceeds actual payload length
    negative length: 400: Inference-Header-Content-Length header is invalid and couldn't be parsed
    length is a word: 400: Inference-Header-Content-Length header is invalid and couldn't be parsed
    length beyond 64 bits: 400: Inference-Header-Content-Length header is invalid and couldn't be parsed
    length within the JSON: 412: The file is not valid json - Error: EOF while parsing a string Offset: 4
    too few bytes: 400: Received buffer size is smaller than binary_data_size parameter indicates
    no bytes and no data: 400: Received buffer size is smaller than binary_data_size parameter indicates
    size beyond the data: 400: Received buffer size is smaller than binary_data_size parameter indicates
    size that does not fill the shape: 400: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 36 bytes; input name: b
    size is a word: 400: binary_data_size parameter is invalid and cannot be parsed
    negative size: 400: binary_data_size parameter is invalid and cannot be parsed
    both data and size: 400: Request contains values both in binary data and in content value
    ");
    let more = answer("", &size("40"), &[0; 44]);
    insta::assert_snapshot!(more.status, @"200");
    dummy.grpc.check_serves();
}

#[test]
fn messages_above_the_limit() {
    let dummy = Dummy::start(&["--max_message_size", "1000"]);
    let large = raw("dummy", "b", "FP32", &[1, 250], &[0; 1000]);
    let refused = dummy.refused([("gRPC", large)]);
    insta::assert_snapshot!(refused, @"gRPC: OutOfRange: Error, decoded message length too large: found 1026 bytes, the limit is: 1000 bytes");
    let body = " ".repeat(1001);
    let refused = dummy.refused_rest([("REST", &body)]);
    insta::assert_snapshot!(refused, @"REST: 413: request body is larger than 1000 bytes; see --max_message_size");
    // What is announced is refused before it is sent.
    let announced = head("POST", "/v2/models/dummy/infer", 1 << 40, &[]);
    let mut stream = crate::support::http::connect(&dummy.server);
    let answer = crate::support::http::exchange(&mut stream, &announced, b"");
    assert_eq!(answer.status, 413);
}
