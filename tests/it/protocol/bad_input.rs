//! Invalid gRPC requests: each is refused with its code and text, and the server stays up.

use ovms::proto::kserve::{InferTensorContents, ModelInferRequest};

use crate::support::{
    Server,
    grpc::{Grpc, dummy, floats, input, raw, typed},
};

/// A server of `dummy` and a client; a valid request must succeed at the end of a test.
struct Dummy {
    grpc: Grpc,
}

impl Dummy {
    fn start() -> Self {
        Self {
            grpc: Grpc::connect(Server::shared("dummy")),
        }
    }

    /// Sends requests that must be refused; returns their descriptions and the responses.
    fn refused<const N: usize>(&self, requests: [(&str, ModelInferRequest); N]) -> String {
        let answers =
            requests.map(|(what, request)| format!("{what}: {}\n", self.grpc.refused(request)));
        self.grpc.check_serves();
        answers.concat()
    }
}

/// Returns the valid request with a change.
fn but(change: impl FnOnce(&mut ModelInferRequest)) -> ModelInferRequest {
    let mut request = dummy();
    change(&mut request);
    request
}

/// Returns the valid request with another shape, and data to match.
fn shaped(shape: &[i64]) -> ModelInferRequest {
    let elements = shape.iter().product::<i64>().max(0);
    raw(
        "dummy",
        "b",
        "FP32",
        shape,
        &vec![0; usize::try_from(elements * 4).unwrap()],
    )
}

fn fp32(numbers: &[f32]) -> InferTensorContents {
    InferTensorContents {
        fp32_contents: numbers.to_vec(),
        ..InferTensorContents::default()
    }
}

#[test]
fn unknown_names_and_versions() {
    let dummy = Dummy::start();
    let version = |version: &str| but(|request| request.model_version = version.to_owned());
    let answers = dummy.refused([
        (
            "unknown model",
            but(|request| request.model_name = "stranger".to_owned()),
        ),
        ("no model", but(|request| request.model_name.clear())),
        ("unknown version", version("2")),
        ("negative version", version("-1")),
        ("version that is no number", version("x")),
        ("version beyond 64 bits", version("9223372036854775808")),
        // The most basic error is the response.
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
fn inputs_that_the_model_does_not_have() {
    let dummy = Dummy::start();
    let answers = dummy.refused([
        (
            "another name",
            but(|request| request.inputs[0].name = "c".to_owned()),
        ),
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
    let server = Server::shared("add");
    let grpc = Grpc::connect(server);
    let request = ModelInferRequest {
        model_name: "add".to_owned(),
        inputs: vec![
            input("input2", "INT8", &[1]),
            input("input1", "INT8", &[1, 10]),
        ],
        raw_input_contents: vec![vec![0].into(), vec![0; 10].into()],
        ..ModelInferRequest::default()
    };
    insta::assert_snapshot!(grpc.refused(request), @"InvalidArgument: Invalid input precision - Expected: FP32; Actual: INT8; input name: input1");
}

#[test]
fn types_that_the_model_does_not_take() {
    let dummy = Dummy::start();
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
    strings: Unimplemented: Functionality not implemented - BYTES for a tensor of FP32 with shape (1,10): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b
    ");
}

#[test]
fn shapes_that_the_model_does_not_take() {
    let dummy = Dummy::start();
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
    let server = Server::shared("passthrough_f32");
    let grpc = Grpc::connect(server);
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
        send(
            "typed, two of the longest",
            &[most, most],
            Some(fp32(&[1.0])),
        ),
        send("typed, terabytes", &[1 << 20, 1 << 20], Some(fp32(&[1.0]))),
    ]
    .concat();
    insta::assert_snapshot!(answers, @"
    two of the longest: InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (9223372036854775807,9223372036854775807); Actual: 4 bytes; input name: in
    one of the longest: InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (9223372036854775807,1); Actual: 4 bytes; input name: in
    product of 2^64: InvalidArgument: Invalid content size of tensor proto - Expected: more bytes than memory can hold for shape (4294967296,4294967296); Actual: 4 bytes; input name: in
    terabytes: InvalidArgument: Invalid content size of tensor proto - Expected: 4398046511104 bytes; Actual: 4 bytes; input name: in
    typed, two of the longest: InvalidArgument: Invalid number of values in tensor proto container - Expected: more values than memory can hold; Actual: 1 values; input name: in
    typed, terabytes: InvalidArgument: Invalid number of values in tensor proto container - Expected: 1099511627776 values; Actual: 1 values; input name: in
    ");
    let good = raw("passthrough_f32", "in", "FP32", &[1, 1], &floats(&[1.0]));
    grpc.answered(good);
}

#[test]
fn data_that_does_not_fill_the_shape() {
    let dummy = Dummy::start();
    let contents = |numbers: &[f32]| typed("dummy", "b", "FP32", &[1, 10], fp32(numbers));
    let answers = dummy.refused([
        (
            "raw, too few bytes",
            raw("dummy", "b", "FP32", &[1, 10], &[0; 36]),
        ),
        (
            "raw, part of a number",
            raw("dummy", "b", "FP32", &[1, 10], &[0; 39]),
        ),
        (
            "raw, too many bytes",
            raw("dummy", "b", "FP32", &[1, 10], &[0; 44]),
        ),
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
    let dummy = Dummy::start();
    let answers = dummy.refused([
        (
            "more than inputs",
            but(|request| request.raw_input_contents.push(vec![0].into())),
        ),
        (
            "beside typed contents",
            but(|request| request.inputs[0].contents = Some(fp32(&[1.0; 10]))),
        ),
    ]);
    insta::assert_snapshot!(answers, @"
    more than inputs: InvalidArgument: Inputs inside buffer does not match expected format. - Expected: one element of raw_input_contents for each of the 1 inputs; Actual: 2
    beside typed contents: InvalidArgument: Passing buffers both in ModelInferRequest::InferInputTensor::contents and in ModelInferRequest::raw_input_contents is not allowed - Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. Detected buffer in InferInputTensor contents for input: b
    ");

    let server = Server::shared("add");
    let fewer = ModelInferRequest {
        model_name: "add".to_owned(),
        inputs: vec![
            input("input1", "FP32", &[1, 10]),
            input("input2", "FP32", &[1, 10]),
        ],
        raw_input_contents: vec![floats(&[1.0; 10]).into()],
        ..ModelInferRequest::default()
    };
    insta::assert_snapshot!(Grpc::connect(server).refused(fewer), @"InvalidArgument: Inputs inside buffer does not match expected format. - Expected: one element of raw_input_contents for each of the 2 inputs; Actual: 1");
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
