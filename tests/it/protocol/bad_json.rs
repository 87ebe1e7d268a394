//! Invalid REST bodies: each is refused with its status and text, and the server stays up.

use crate::support::{
    Server,
    http::{Answer, JSON_LENGTH, post, send},
};

const INFER: &str = "/v2/models/dummy/infer";

/// Sends bodies that must be refused; returns their descriptions and the responses.
fn refused<const N: usize>(server: &Server, bodies: [(&str, &str); N]) -> String {
    let answers = bodies.map(|(what, body)| {
        let answer = post(server, INFER, body.as_bytes());
        format!("{what}: {}\n", answer.error())
    });
    check_serves(server);
    answers.concat()
}

/// Asserts that the server answers a valid request.
fn check_serves(server: &Server) {
    let good = r#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[1,1,1,1,1,1,1,1,1,1]}]}"#;
    assert_eq!(post(server, INFER, good.as_bytes()).status, 200);
}

#[test]
fn unknown_names_and_versions() {
    let server = Server::shared("dummy");
    let body = r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#;
    let answers = [
        "/v2/models/stranger/infer",
        "/v2/models/dummy/versions/2/infer",
        "/v2/models/dummy/versions/9223372036854775808/infer",
        "/v2/models/dummy/versions/x/infer",
        "/v2/models/%FF/infer",
    ]
    .map(|path| format!("{path}: {}\n", post(server, path, body.as_bytes()).error()))
    .concat();
    insta::assert_snapshot!(answers, @"
    /v2/models/stranger/infer: 404: Model with requested name is not found
    /v2/models/dummy/versions/2/infer: 404: Model with requested version is not found
    /v2/models/dummy/versions/9223372036854775808/infer: 404: Model with requested version is not found
    /v2/models/dummy/versions/x/infer: 404: Invalid request URL
    /v2/models/%FF/infer: 404: Invalid request URL
    ");
    // Over REST the body is read before the model is looked up.
    let broken = post(server, "/v2/models/stranger/infer", b"{");
    assert_eq!(broken.status, 412);
    check_serves(server);
}

#[test]
fn bodies_that_are_not_json() {
    let server = Server::start("dummy");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = r#"{"a":"#.repeat(100_000);
    let deep_data =
        format!(r#"{{"inputs":[{{"name":"b","shape":[1,10],"datatype":"FP32","data":{deep}}}]}}"#);
    let answers = refused(
        &server,
        [
            ("empty", ""),
            ("blank", " \n"),
            ("a word", "hello"),
            ("cut off", r#"{"inputs":"#),
            (
                "cut off within data",
                r#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[1,"#,
            ),
            ("more behind it", r#"{"inputs":[]} x"#),
            ("comma too many", "{\"inputs\":[\n1,]}"),
            ("100,000 lists deep", &deep),
            ("100,000 objects deep", &deep_object),
            ("data 100,000 lists deep", &deep_data),
            (
                "inputs 100,000 lists deep",
                &format!(r#"{{"inputs":{deep}}}"#),
            ),
        ],
    );
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
    inputs 100,000 lists deep: 400: Could not parse input content. Not valid ndarray detected - an input is no object
    ");
    let binary = post(&server, INFER, &[0xff, 0x00, 0xfe]);
    insta::assert_snapshot!(binary.error(), @"412: The file is not valid json - Error: expected value Offset: 0");
}

#[test]
fn json_that_is_no_request() {
    let server = Server::shared("dummy");
    let answers = refused(
        server,
        [
            ("a list", "[]"),
            ("a number", "1"),
            ("nothing in it", "{}"),
            ("no inputs", r#"{"inputs":[]}"#),
            ("null inputs", r#"{"inputs":null}"#),
            ("inputs are an object", r#"{"inputs":{}}"#),
            ("input is no object", r#"{"inputs":[1]}"#),
            (
                "no name",
                r#"{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "name is a number",
                r#"{"inputs":[{"name":1,"shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "no shape",
                r#"{"inputs":[{"name":"b","datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "negative shape",
                r#"{"inputs":[{"name":"b","shape":[-1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "fraction in shape",
                r#"{"inputs":[{"name":"b","shape":[1.5],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "shape beyond 64 bits",
                r#"{"inputs":[{"name":"b","shape":[18446744073709551616],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "shape beyond i64",
                r#"{"inputs":[{"name":"b","shape":[9223372036854775808],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "no datatype",
                r#"{"inputs":[{"name":"b","shape":[1],"data":[1]}]}"#,
            ),
            (
                "unknown datatype",
                r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP33","data":[1]}]}"#,
            ),
            (
                "id is a number",
                r#"{"id":1,"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "parameter is a list",
                r#"{"parameters":{"a":[]},"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "parameter is a fraction",
                r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1],"parameters":{"a":1.5}}]}"#,
            ),
            (
                "output without name",
                r#"{"outputs":[{}],"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "input is a list of members",
                r#"{"inputs":[["b",[1],"FP32",null,[1]]]}"#,
            ),
            (
                "inputs given twice",
                r#"{"inputs":[],"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#,
            ),
            (
                "data given twice",
                r#"{"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1],"data":[1]}]}"#,
            ),
            ("an input is null", r#"{"inputs":[null]}"#),
            (
                "data before a datatype that is none",
                r#"{"inputs":[{"data":[1],"name":"b","shape":[1],"datatype":"FP33"}]}"#,
            ),
            (
                "outputs are an object",
                r#"{"outputs":{},"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "name of an output is a number",
                r#"{"outputs":[{"name":1}],"inputs":[{"name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "a name with half a surrogate",
                r#"{"inputs":[{"name":"\ud800","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
            (
                "name given twice",
                r#"{"inputs":[{"name":"b","name":"b","shape":[1],"datatype":"FP32","data":[1]}]}"#,
            ),
        ],
    );
    insta::assert_snapshot!(answers, @"
    a list: 400: Request body should be JSON object
    a number: 400: Request body should be JSON object
    nothing in it: 400: Invalid JSON structure, missing inputs
    no inputs: 400: Invalid JSON structure, missing inputs
    null inputs: 400: Invalid JSON structure, missing inputs
    inputs are an object: 400: Could not parse input content. Not valid ndarray detected
    input is no object: 400: Could not parse input content. Not valid ndarray detected - an input is no object
    no name: 400: Could not parse input content. Not valid ndarray detected - missing field `name`
    name is a number: 400: Could not parse input content. Not valid ndarray detected - name: expected a string
    no shape: 400: Could not parse input content. Not valid ndarray detected - missing field `shape`
    negative shape: 400: Could not parse input content. Not valid ndarray detected - shape: invalid value: integer `-1`, expected u64
    fraction in shape: 400: Could not parse input content. Not valid ndarray detected - shape: invalid type: floating point `1.5`, expected u64
    shape beyond 64 bits: 400: Could not parse input content. Not valid ndarray detected - shape: invalid type: floating point `1.8446744073709552e+19`, expected u64
    shape beyond i64: 400: Could not parse input content. Not valid ndarray detected
    no datatype: 400: Could not parse input content. Not valid ndarray detected - missing field `datatype`
    unknown datatype: 400: Could not parse input content. Unsupported data precision detected
    id is a number: 400: Could not parse input content. Not valid ndarray detected - id: expected a string
    parameter is a list: 400: Could not parse request parameters
    parameter is a fraction: 400: Could not parse request parameters
    output without name: 400: Could not parse output content.
    input is a list of members: 400: Could not parse input content. Not valid ndarray detected - an input is no object
    inputs given twice: 400: Could not parse input content. Not valid ndarray detected - duplicate field `inputs`
    data given twice: 400: Could not parse input content. Not valid ndarray detected - duplicate field `data`
    an input is null: 400: Could not parse input content. Not valid ndarray detected - an input is no object
    data before a datatype that is none: 400: Could not parse input content. Unsupported data precision detected
    outputs are an object: 400: Could not parse output content.
    name of an output is a number: 400: Could not parse output content.
    a name with half a surrogate: 400: Could not parse input content. Not valid ndarray detected - a string cannot be read: unexpected end of hex escape
    name given twice: 400: Could not parse input content. Not valid ndarray detected - duplicate field `name`
    ");
}

#[test]
fn json_elements_that_do_not_fit() {
    let server = Server::shared("dummy");
    let element = |datatype: &str, shape: &str, data: &str| {
        format!(
            r#"{{"inputs":[{{"name":"b","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}"#
        )
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
        // The largest FP32 is 3.4028235e38; what rounds to it is taken.
        ("FP32", "[1,1]", "[3.4028236e38]"),
        ("FP32", "[1,1]", "[-3.5e38]"),
        ("FP32", "[1,1]", "[1e999]"),
        ("FP32", "[1,1]", "[NaN]"),
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
        let answer = post(server, INFER, body.as_bytes());
        format!("{datatype} {shape} {data}: {}\n", answer.error())
    })
    .collect();
    insta::assert_snapshot!(cases.concat(), @r#"
    FP32 [1,10] [1,2,3,4,5,6,7,8,9]: 400: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 9 values; input name: b
    FP32 [1,10] [[1,2],[3,4],[5,6],[7,8],[9,10],11]: 400: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 11 values; input name: b
    FP32 [1,10] []: 400: Invalid number of values in tensor proto container - Expected: 10 values; Actual: 0 values; input name: b
    FP32 [1,10] 1: 400: Could not parse input content. Not valid ndarray detected - expected a list
    FP32 [1,10] null: 400: Received buffer size is smaller than binary_data_size parameter indicates
    FP32 [1,10] {}: 400: Could not parse input content. Not valid ndarray detected - found an object, expected a list of FP32 values
    FP32 [1,10] ["1"]: 400: Could not parse input content. Not valid ndarray detected - found "1", expected a value of FP32
    FP32 [1,10] [true]: 400: Could not parse input content. Not valid ndarray detected - found true, expected a value of FP32
    FP32 [1,10] [null]: 400: Could not parse input content. Not valid ndarray detected - found null, expected a list of FP32 values
    FP32 [1,1] [3.4028236e38]: 400: Could not parse input content. Not valid ndarray detected - 3.4028236e38 does not fit FP32
    FP32 [1,1] [-3.5e38]: 400: Could not parse input content. Not valid ndarray detected - -3.5e38 does not fit FP32
    FP32 [1,1] [1e999]: 400: Could not parse input content. Not valid ndarray detected - 1e999 does not fit FP32
    FP32 [1,1] [NaN]: 412: The file is not valid json - Error: expected value Offset: 63
    INT32 [1,1] [1.5]: 400: Could not parse input content. Not valid ndarray detected - found 1.5, expected a value of INT32
    INT32 [1,1] [2147483648]: 400: Could not parse input content. Not valid ndarray detected - 2147483648 does not fit INT32
    INT64 [1,1] [9223372036854775808]: 400: Could not parse input content. Not valid ndarray detected - 9223372036854775808 does not fit INT64
    UINT64 [1,1] [18446744073709551616]: 400: Could not parse input content. Not valid ndarray detected - 18446744073709551616 does not fit UINT64
    UINT8 [1,1] [-1]: 400: Could not parse input content. Not valid ndarray detected - -1 does not fit UINT8
    BOOL [1,1] [1]: 400: Could not parse input content. Not valid ndarray detected - found 1, expected a value of BOOL
    BYTES [1,1] [1]: 400: Could not parse input content. Not valid ndarray detected - found 1, expected a value of BYTES
    FP16 [1,1] [1]: 400: Could not parse input content. Not valid ndarray detected - FP16 has no JSON form; send it as binary data
    FP32 [9223372036854775807,9223372036854775807] [1]: 400: Invalid input batch size - Expected: 1; Actual: 9223372036854775807; input name: b
    "#);
    check_serves(server);
}

#[test]
fn binary_data_that_does_not_go_with_the_json() {
    let server = Server::start("dummy");
    let answer = |length: &str, input: &str, binary: &[u8]| {
        let json =
            format!(r#"{{"inputs":[{{"name":"b","shape":[1,10],"datatype":"FP32"{input}}}]}}"#);
        let actual = json.len().to_string();
        let length = if length.is_empty() { &actual } else { length };
        let mut body = json.into_bytes();
        body.extend_from_slice(binary);
        send(&server, "POST", INFER, &[(JSON_LENGTH, length)], &body)
    };
    let size = |value: &str| format!(r#","parameters":{{"binary_data_size":{value}}}"#);
    let data = [0; 40];
    let answers: [(&str, Answer); 12] = [
        ("length beyond the body", answer("1000", "", &data)),
        ("negative length", answer("-1", "", &data)),
        ("length is a word", answer("x", "", &data)),
        (
            "length beyond 64 bits",
            answer("18446744073709551616", "", &data),
        ),
        ("length within the JSON", answer("5", "", &data)),
        ("too few bytes", answer("", "", &data[..39])),
        ("no bytes and no data", answer("", "", b"")),
        ("size beyond the data", answer("", &size("41"), &data)),
        (
            "size that does not fill the shape",
            answer("", &size("36"), &data),
        ),
        ("size is a word", answer("", &size("\"40\""), &data)),
        ("negative size", answer("", &size("-40"), &data)),
        (
            "both data and size",
            answer("", &format!(",\"data\":[1]{}", size("40")), &data),
        ),
    ];
    let answers = answers
        .map(|(what, answer)| format!("{what}: {}\n", answer.error()))
        .concat();
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
    check_serves(&server);
}
