//! TensorFlow Serving over REST: paths, status, metadata, and predictions in both formats.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use crate::support::{
    Server, cli,
    dtypes::{self, ELEMENTS},
    eventually,
    http::{get, post, send},
    repository,
    server::{free_ports, on},
};

const PREDICT: &str = "/v1/models/dummy:predict";

/// A valid request for the model `dummy`.
const BODY: &[u8] = br#"{"instances":[[0,1,2,3,4,5,6,7,8,9]]}"#;

/// Response to [`BODY`].
const ANSWER: &str = r#"{"predictions":[[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0]]}"#;

#[test]
fn every_path_of_the_protocol_answers() {
    let server = Server::shared("dummy");
    let answers: String = [
        "/v1/models/dummy",
        "//v1/models/dummy",
        "/v1/models/dummy/versions/1",
        "/v1/models/dummy/versions/0",
        "/v1/models/dummy/metadata",
        "/v1/models/dummy/versions/1/metadata",
        "/v1/config",
        "/v1/config?x=y",
    ]
    .map(|path| {
        let answer = get(server, path);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("allow"), None);
        format!("{path}: {}\n{}\n", answer.status, answer.text())
    })
    .concat();
    insta::assert_snapshot!(answers, @r#"
    /v1/models/dummy: 200
    {"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}
    //v1/models/dummy: 200
    {"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}
    /v1/models/dummy/versions/1: 200
    {"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}
    /v1/models/dummy/versions/0: 200
    {"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}
    /v1/models/dummy/metadata: 200
    {"modelSpec":{"name":"dummy","signatureName":"","version":"1"},"metadata":{"signature_def":{"@type":"type.googleapis.com/tensorflow.serving.SignatureDefMap","signatureDef":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"b"}},"outputs":{"a":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"a"}},"methodName":"","defaults":{}}}}}}
    /v1/models/dummy/versions/1/metadata: 200
    {"modelSpec":{"name":"dummy","signatureName":"","version":"1"},"metadata":{"signature_def":{"@type":"type.googleapis.com/tensorflow.serving.SignatureDefMap","signatureDef":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"b"}},"outputs":{"a":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"a"}},"methodName":"","defaults":{}}}}}}
    /v1/config: 200
    {"dummy":{"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}}
    /v1/config?x=y: 200
    {"dummy":{"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}}
    "#);
    for path in [
        PREDICT,
        "//v1/models/dummy:predict",
        "/v1/models/dummy/versions/1:predict",
        "/v1/models/dummy/versions/0:predict",
        "/v1/models/dummy/labels/stable:predict",
        "/v1/models/dummy:predict?x=y",
    ] {
        let answer = post(server, path, BODY);
        assert_eq!(
            (answer.status, answer.text()),
            (200, ANSWER.to_owned()),
            "{path}"
        );
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("allow"), None);
    }
}

#[test]
fn other_paths_and_methods_are_refused() {
    let server = Server::start("dummy");
    let refused = |method: &str, path: &str| {
        let answer = send(&server, method, path, &[], BODY);
        let allow = answer
            .header("allow")
            .map_or(String::new(), |allow| format!("; allowed: {allow}"));
        format!("{method} {path}: {}{allow}\n", answer.error())
    };
    let answers = [
        refused("GET", "/v1"),
        refused("GET", "/v1/"),
        refused("GET", "/v1/models"),
        refused("GET", "/v1/models/dummy/"),
        refused("GET", "/v1/models/dummy/versions/x"),
        refused("GET", "/v1/models/dummy/labels/stable"),
        refused("POST", "/v1/models/dummy:predict/"),
        refused("POST", "/v1/models/dummy:infer"),
        refused("POST", "/v1/models/dummy:classify"),
        refused("POST", "/v1/models/dummy/versions/1:regress"),
        refused("GET", "/v1/models/../config"),
        refused("GET", "/v1/models/stranger"),
        refused("GET", "/v1/models/stranger/metadata"),
        refused("GET", "/v1/models/dummy/versions/2"),
        refused("GET", "/v1/models/dummy/versions/2/metadata"),
        refused("GET", "/v1/models/dummy/versions/9223372036854775808"),
        refused("POST", "/v1/models/stranger:predict"),
        refused("POST", "/v1/models/dummy/versions/2:predict"),
        refused(
            "POST",
            "/v1/models/dummy/versions/9223372036854775808:predict",
        ),
        refused("GET", PREDICT),
        refused("PUT", PREDICT),
        refused("GET", "/v1/models/dummy:classify"),
        refused("POST", "/v1/models/dummy"),
        refused("DELETE", "/v1/models/dummy"),
        refused("POST", "/v1/models/dummy/metadata"),
        refused("POST", "/v1/config"),
        refused("GET", "/v1/config/reload"),
    ];
    insta::assert_snapshot!(answers.concat(), @r#"
    GET /v1: 404: Invalid request URL
    GET /v1/: 404: Invalid request URL
    GET /v1/models: 404: Invalid request URL
    GET /v1/models/dummy/: 404: Invalid request URL
    GET /v1/models/dummy/versions/x: 404: Invalid request URL
    GET /v1/models/dummy/labels/stable: 404: Invalid request URL
    POST /v1/models/dummy:predict/: 404: Invalid request URL
    POST /v1/models/dummy:infer: 404: Invalid request URL
    POST /v1/models/dummy:classify: 404: Requested REST resource not found
    POST /v1/models/dummy/versions/1:regress: 404: Requested REST resource not found
    GET /v1/models/../config: 400: The provided base path is invalid or doesn't exists
    GET /v1/models/stranger: 404: Model with requested name is not found
    GET /v1/models/stranger/metadata: 404: Model with requested name is not found
    GET /v1/models/dummy/versions/2: 404: Model with requested version is not found
    GET /v1/models/dummy/versions/2/metadata: 404: Model with requested version is not found
    GET /v1/models/dummy/versions/9223372036854775808: 404: Model with requested version is not found
    POST /v1/models/stranger:predict: 404: Model with requested name is not found
    POST /v1/models/dummy/versions/2:predict: 404: Model with requested version is not found
    POST /v1/models/dummy/versions/9223372036854775808:predict: 404: Model with requested version is not found
    GET /v1/models/dummy:predict: 405: Unsupported method; allowed: POST, OPTIONS
    PUT /v1/models/dummy:predict: 405: Unsupported method; allowed: POST, OPTIONS
    GET /v1/models/dummy:classify: 405: Unsupported method; allowed: POST, OPTIONS
    POST /v1/models/dummy: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    DELETE /v1/models/dummy: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    POST /v1/models/dummy/metadata: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    POST /v1/config: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    GET /v1/config/reload: 405: Unsupported method; allowed: POST, OPTIONS
    "#);
    for path in ["/v1/config", PREDICT] {
        let answer = send(&server, "OPTIONS", path, &[], b"");
        assert_eq!((answer.status, answer.text()), (200, String::new()));
    }
    for (path, status) in [
        ("/v1/config", 200),
        ("/v1/models/dummy/metadata", 200),
        (PREDICT, 405),
    ] {
        let answer = send(&server, "HEAD", path, &[], b"");
        assert_eq!(
            (answer.status, answer.text()),
            (status, String::new()),
            "{path}"
        );
    }
}

#[test]
fn the_model_is_looked_up_before_the_body_is_read() {
    let server = Server::shared("dummy");
    let failure = |path: &str| post(server, path, b"{").error();
    insta::assert_snapshot!(
        [failure("/v1/models/stranger:predict"), failure(PREDICT)].join("\n"),
        @r#"
        404: Model with requested name is not found
        412: The file is not valid json - Error: EOF while parsing an object Offset: 0
        "#
    );
}

#[test]
fn a_name_in_a_path_is_percent_decoded() {
    let server = Server::begin("ein Modell:ü", &crate::support::model("dummy"), &[]);
    server.wait_ready();
    let path = "/v1/models/ein%20Modell%3A%C3%BC";
    let metadata = get(&server, &format!("{path}/metadata")).json();
    assert_eq!(metadata["modelSpec"]["name"], "ein Modell:ü");
    assert_eq!(
        post(&server, &format!("{path}:predict"), BODY).text(),
        ANSWER
    );
}

#[test]
fn both_formats_answer_in_kind() {
    let server = Server::shared("two_outputs");
    let predict = |body: &str| {
        let answer = post(server, "/v1/models/two_outputs:predict", body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    };
    let answers = [
        predict(r#"{"instances":[[1,2,3,4],[0.5,0,0,0]]}"#),
        predict(r#"{"instances":[{"x":[1,2,3,4]}],"signature_name":"serving_default"}"#),
        predict(r#"{"inputs":[[1,2,3,4]]}"#),
        predict(r#"{"inputs":{"x":[[1,2,3,4],[0,0,0,0]]}}"#),
    ];
    insta::assert_snapshot!(answers.join("\n"), @r#"
    {"predictions":[{"total":10.0,"twice":[2.0,4.0,6.0,8.0]},{"total":0.5,"twice":[1.0,0.0,0.0,0.0]}]}
    {"predictions":[{"total":10.0,"twice":[2.0,4.0,6.0,8.0]}]}
    {"outputs":{"total":[10.0],"twice":[[2.0,4.0,6.0,8.0]]}}
    {"outputs":{"total":[10.0,0.0],"twice":[[2.0,4.0,6.0,8.0],[0.0,0.0,0.0,0.0]]}}
    "#);

    let server = Server::shared("add");
    let row = r#"{"instances":[{"input1":[1,1,1,1,1,1,1,1,1,1],"input2":[0,1,2,3,4,5,6,7,8,9]}]}"#;
    let column =
        r#"{"inputs":{"input2":[[0,1,2,3,4,5,6,7,8,9]],"input1":[[1,1,1,1,1,1,1,1,1,1]]}}"#;
    assert_eq!(
        post(server, "/v1/models/add:predict", row.as_bytes()).text(),
        ANSWER
    );
    assert_eq!(
        post(server, "/v1/models/add:predict", column.as_bytes()).text(),
        r#"{"outputs":[[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0]]}"#
    );

    let server = Server::shared("scalar");
    for body in [r#"{"inputs":2.5}"#, r#"{"inputs":{"x":2.5}}"#] {
        let answer = post(server, "/v1/models/scalar:predict", body.as_bytes());
        assert_eq!(answer.text(), r#"{"outputs":5.0}"#);
    }
}

#[test]
fn every_datatype_comes_back() {
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        let path = format!("/v1/models/{}:predict", row.model);
        let list = row.json;
        for (body, answer) in [
            (
                format!(r#"{{"instances":[{list}]}}"#),
                format!(r#"{{"predictions":[{list}]}}"#),
            ),
            (
                format!(r#"{{"inputs":{{"in":[{list},{list}]}}}}"#),
                format!(r#"{{"outputs":[{list},{list}]}}"#),
            ),
        ] {
            assert_eq!(
                post(&server, &path, body.as_bytes()).text(),
                answer,
                "{} {ELEMENTS}",
                row.model
            );
        }
    }
}

#[test]
fn tensors_without_elements_are_run() {
    let server = Server::shared("passthrough_f32");
    let ask = |body: &str| {
        let answer = post(
            server,
            "/v1/models/passthrough_f32:predict",
            body.as_bytes(),
        );
        format!("{body}: {} {}", answer.status, answer.text())
    };
    let strings = Server::shared("passthrough_string");
    let none = post(
        strings,
        "/v1/models/passthrough_string:predict",
        br#"{"inputs":[]}"#,
    );
    assert_eq!(none.text(), r#"{"outputs":[]}"#);
    let answers = [
        r#"{"inputs":[[],[]]}"#,
        r#"{"inputs":{"in":[[]]}}"#,
        r#"{"instances":[[],[]]}"#,
        r#"{"instances":[{"in":[]},{"in":[]},{"in":[]}]}"#,
        r#"{"inputs":[]}"#,
        r#"{"instances":[{}]}"#,
        r#"{"instances":[{"in":[1]},{}]}"#,
    ]
    .map(ask);
    insta::assert_snapshot!(answers.join("\n"), @r#"
    {"inputs":[[],[]]}: 200 {"outputs":[[],[]]}
    {"inputs":{"in":[[]]}}: 200 {"outputs":[[]]}
    {"instances":[[],[]]}: 200 {"predictions":[[],[]]}
    {"instances":[{"in":[]},{"in":[]},{"in":[]}]}: 200 {"predictions":[[],[],[]]}
    {"inputs":[]}: 400 {"error":"Invalid number of shape dimensions - Expected: (-1,-1); Actual: (0); input name: in"}
    {"instances":[{}]}: 400 {"error":"Could not parse instance content. Not valid ndarray detected - an instance names no input"}
    {"instances":[{"in":[1]},{}]}: 400 {"error":"Could not parse instance content. Not valid ndarray detected - an instance names no input"}
    "#);
}

#[test]
fn fractions_are_cut_for_integers() {
    let server = Server::shared("passthrough_i32");
    let answer = post(
        server,
        "/v1/models/passthrough_i32:predict",
        br#"{"inputs":[[1.9,-1.9,2e2]]}"#,
    );
    assert_eq!(answer.text(), r#"{"outputs":[[1,-1,200]]}"#);
}

#[test]
fn errors_of_the_tensors_have_their_texts() {
    let server = Server::shared("dummy");
    let failure = |body: &str| {
        format!(
            "{body}: {}\n",
            post(server, PREDICT, body.as_bytes()).error()
        )
    };
    let answers = [
        failure(r#"{"inputs":{"c":[[1]]}}"#),
        failure(r#"{"inputs":{"b":[[1]],"c":[[1]]}}"#),
        failure(r#"{"instances":[{}]}"#),
        failure(r#"{"inputs":[1,2]}"#),
        failure(r#"{"inputs":1}"#),
        failure(r#"{"instances":[[1],[2]]}"#),
        failure(r#"{"instances":[[1,2]]}"#),
        failure(r#"{"instances":["a"]}"#),
        failure(r#"{"instances":[{"b64":"YQ=="}]}"#),
    ];
    insta::assert_snapshot!(answers.concat(), @r#"
    {"inputs":{"c":[[1]]}}: 400: Missing input with specific name - Required input: b
    {"inputs":{"b":[[1]],"c":[[1]]}}: 400: Invalid number of inputs - Expected: 1; Actual: 2
    {"instances":[{}]}: 400: Could not parse instance content. Not valid ndarray detected - an instance names no input
    {"inputs":[1,2]}: 400: Invalid number of shape dimensions - Expected: (1,10); Actual: (2); input name: b
    {"inputs":1}: 400: Invalid number of shape dimensions - Expected: (1,10); Actual: (); input name: b
    {"instances":[[1],[2]]}: 400: Invalid input batch size - Expected: 1; Actual: 2; input name: b
    {"instances":[[1,2]]}: 400: Invalid input shape - Expected: (1,10); Actual: (1,2); input name: b
    {"instances":["a"]}: 501: Functionality not implemented - BYTES for a tensor of FP32 with shape (1,10): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b
    {"instances":[{"b64":"YQ=="}]}: 501: Functionality not implemented - BYTES for a tensor of FP32 with shape (1,10): strings are taken by tensors of strings and by those of UINT8 with two dimensions, images by those with four, and with five where a request is split; input name: b
    "#);
    assert_eq!(post(server, PREDICT, BODY).text(), ANSWER);
}

#[test]
fn errors_of_the_body_have_their_texts() {
    let dummy = Server::shared("dummy");
    let failure = |body: &str| {
        format!(
            "{body}: {}\n",
            post(dummy, PREDICT, body.as_bytes()).error()
        )
    };
    let answers = [
        failure(""),
        failure("{"),
        failure(r#"{"instances":[[1,]]}"#),
        failure("[1]"),
        failure("{}"),
        failure(r#"{"instances":[[1]],"inputs":[[1]]}"#),
        failure(r#"{"instances":{"b":[1]}}"#),
        failure(r#"{"instances":[]}"#),
        failure(r#"{"instances":[{"b":[1]},2]}"#),
        failure(r#"{"instances":[null]}"#),
        failure(r#"{"instances":[[1,2],[3]]}"#),
        failure(r#"{"instances":[[]]}"#),
        failure(r#"{"instances":[{"b":[1]},{}]}"#),
        failure(r#"{"inputs":"a"}"#),
        failure(r#"{"inputs":null}"#),
        failure(r#"{"inputs":{}}"#),
        failure(r#"{"inputs":{"b":[[1,2],[3]]}}"#),
        failure(r#"{"inputs":{"b":{"b64":"YQ=="}}}"#),
    ];
    insta::assert_snapshot!(answers.concat(), @r#"
    : 412: The file is not valid json - Error: The document is empty. Offset: 0
    {: 412: The file is not valid json - Error: EOF while parsing an object Offset: 0
    {"instances":[[1,]]}: 412: The file is not valid json - Error: expected value Offset: 17
    [1]: 400: Request body should be JSON object
    {}: 400: Invalid JSON structure. Could not detect row or column format
    {"instances":[[1]],"inputs":[[1]]}: 400: Invalid JSON structure. Could not detect row or column format
    {"instances":{"b":[1]}}: 400: Invalid JSON structure. Nonamed instance is not an array.
    {"instances":[]}: 400: Invalid JSON structure. Missing instances in row format
    {"instances":[{"b":[1]},2]}: 400: Invalid JSON structure. One of named instances is not a JSON object.
    {"instances":[null]}: 400: Could not detect neither named or nonamed format
    {"instances":[[1,2],[3]]}: 400: Could not parse instance content. Not valid ndarray detected - the lists are not rectangular
    {"instances":[[]]}: 400: Invalid input shape - Expected: (1,10); Actual: (1,0); input name: b
    {"instances":[{"b":[1]},{}]}: 400: Could not parse instance content. Not valid ndarray detected - an instance names no input
    {"inputs":"a"}: 400: Invalid JSON structure. One of inputs is not a JSON object.
    {"inputs":null}: 400: Invalid JSON structure. One of inputs is not a JSON object.
    {"inputs":{}}: 400: Invalid JSON structure, missing inputs
    {"inputs":{"b":[[1,2],[3]]}}: 400: Could not parse input content. Not valid ndarray detected - the lists are not rectangular
    {"inputs":{"b":{"b64":"YQ=="}}}: 400: Could not parse input content. Not valid ndarray detected - expected a list
    "#);
    let add = Server::shared("add");
    let failure = |body: &str| {
        format!(
            "{body}: {}\n",
            post(add, "/v1/models/add:predict", body.as_bytes()).error()
        )
    };
    let answers = [
        failure(r#"{"instances":[[1]]}"#),
        failure(r#"{"inputs":[[1]]}"#),
        failure(r#"{"inputs":1}"#),
    ];
    insta::assert_snapshot!(answers.concat(), @r#"
    {"instances":[[1]]}: 400: Inputs inside buffer does not match expected format.
    {"inputs":[[1]]}: 400: Inputs inside buffer does not match expected format.
    {"inputs":1}: 400: Invalid JSON structure. One of inputs is not a JSON object.
    "#);
    let scalar = Server::shared("scalar");
    let failure = post(scalar, "/v1/models/scalar:predict", br#"{"instances":[1]}"#).error();
    insta::assert_snapshot!(failure, @r#"400: Invalid number of shape dimensions - Expected: (); Actual: (1); input name: x"#);
    assert_eq!(post(dummy, PREDICT, BODY).text(), ANSWER);
}

#[test]
fn deep_nesting_and_ten_thousand_inputs_are_answered() {
    let server = Server::start("dummy");
    let deep = format!(
        r#"{{"inputs":{}{}}}"#,
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    insta::assert_snapshot!(post(&server, PREDICT, deep.as_bytes()).error(), @r#"400: Could not parse input content. Not valid ndarray detected - recursion limit exceeded"#);
    let many: Vec<String> = (0..10_000)
        .map(|number| format!(r#""n{number}":[[1]]"#))
        .collect();
    let body = format!(r#"{{"inputs":{{{}}}}}"#, many.join(","));
    insta::assert_snapshot!(post(&server, PREDICT, body.as_bytes()).error(), @r#"400: Invalid number of inputs - Expected: 1; Actual: 10000"#);
    assert_eq!(post(&server, PREDICT, BODY).text(), ANSWER);
}

#[test]
fn a_large_tensor_is_read_in_either_format() {
    let server = Server::shared("fullsize");
    let line = format!("[{}]", vec!["0.25"; 224].join(","));
    let plane = format!("[{}]", vec![line; 224].join(","));
    let image = format!("[{}]", vec![plane; 3].join(","));
    for (key, answer) in [
        ("instances", r#"{"predictions":[[0.25,0.25,0.25]]}"#),
        ("inputs", r#"{"outputs":[[0.25,0.25,0.25]]}"#),
    ] {
        let body = format!(r#"{{"{key}":[{image}]}}"#);
        assert_eq!(
            post(server, "/v1/models/fullsize:predict", body.as_bytes()).text(),
            answer
        );
    }
}

#[test]
fn bodies_may_be_compressed_both_ways() {
    let server = Server::shared("dummy");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(BODY).unwrap();
    let packed = encoder.finish().unwrap();
    let headers = [("Content-Encoding", "gzip"), ("Accept-Encoding", "gzip")];
    let answer = send(server, "POST", PREDICT, &headers, &packed);
    assert_eq!(answer.text(), ANSWER, "too small to be packed");
    let large = Server::shared("passthrough_f32");
    let rows = vec!["[0.25,0.5,0.75,1.0]"; 200].join(",");
    let body = format!(r#"{{"inputs":[{rows}]}}"#);
    let path = "/v1/models/passthrough_f32:predict";
    let plain = post(large, path, body.as_bytes());
    let answer = send(large, "POST", path, &headers[1..], body.as_bytes());
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    GzDecoder::new(&answer.body[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text());
    let refused = send(server, "POST", PREDICT, &[("Content-Encoding", "br")], BODY);
    assert_eq!(refused.status, 400);
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let server = Server::start_with("dummy", &["--max_message_size", "100"]);
    let body = [BODY, &[b' '; 100]].concat();
    assert_eq!(post(&server, PREDICT, &body).status, 413);
    assert_eq!(post(&server, PREDICT, BODY).text(), ANSWER);
}

#[test]
fn status_tells_every_version_or_one() {
    let root = repository::of(&[("1", "dummy"), ("2", "broken"), ("10", "dummy")]);
    let flags = ["--model_version_policy", r#"{"all":{}}"#];
    let server = Server::begin("m", root.path(), &flags);
    server.wait_log("loading");
    eventually("the end of the load", || {
        let text = get(&server, "/v1/models/m").text();
        (text.matches("AVAILABLE").count() == 2 && text.contains("UNKNOWN")).then_some(())
    });
    let answers = ["/v1/models/m", "/v1/models/m/versions/2", "/v1/config"]
        .map(|path| get(&server, path).text())
        .map(|text| text.replace(root.path().to_str().unwrap(), "<folder>"));
    insta::assert_snapshot!(answers.join("\n"), @r#"
    {"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}},{"version":"2","state":"LOADING","status":{"error_code":"UNKNOWN","error_message":"cannot read <folder>/2/model.xml: Error parsing element attribute at offset 748"}},{"version":"10","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}
    {"model_version_status":[{"version":"2","state":"LOADING","status":{"error_code":"UNKNOWN","error_message":"cannot read <folder>/2/model.xml: Error parsing element attribute at offset 748"}}]}
    {"m":{"model_version_status":[{"version":"1","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}},{"version":"2","state":"LOADING","status":{"error_code":"UNKNOWN","error_message":"cannot read <folder>/2/model.xml: Error parsing element attribute at offset 748"}},{"version":"10","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}}
    "#);
    // The highest that is there, and the one that is named.
    let version = |path: &str| get(&server, path).json()["modelSpec"]["version"].clone();
    assert_eq!(version("/v1/models/m/metadata"), "10");
    assert_eq!(version("/v1/models/m/versions/1/metadata"), "1");
    insta::assert_snapshot!(get(&server, "/v1/models/m/versions/2/metadata").error(), @r#"404: Model with requested version is not loaded yet"#);
    insta::assert_snapshot!(post(&server, "/v1/models/m/versions/2:predict", BODY).error(), @r#"404: Model with requested version is not loaded yet"#);
}

#[test]
fn a_reload_says_whether_anything_changed() {
    let root = repository::of(&[("1", "dummy")]);
    let flags = ["--file_system_poll_wait_seconds", "0"];
    let server = Server::begin("dummy", root.path(), &flags);
    server.wait_ready();
    let reload = || post(&server, "/v1/config/reload", b"");
    let unchanged = reload();
    assert_eq!(unchanged.status, 200);
    assert_eq!(unchanged.text(), get(&server, "/v1/config").text());
    let version = crate::support::model("dummy").join("1");
    repository::copy(&version, &root.path().join("3"));
    let changed = reload();
    assert_eq!(changed.status, 201, "{}", changed.text());
    let states = &changed.json()["dummy"]["model_version_status"];
    assert_eq!(states[1]["version"], "3");
    assert_eq!(states[1]["state"], "AVAILABLE");
    // The old version ends when its last request has.
    eventually("the end of version 1", || {
        let text = get(&server, "/v1/config").text();
        text.contains("END").then_some(())
    });
    let unchanged = reload();
    insta::assert_snapshot!(unchanged.text(), @r#"{"dummy":{"model_version_status":[{"version":"1","state":"END","status":{"error_code":"OK","error_message":"OK"}},{"version":"3","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}}"#);
    assert_eq!(unchanged.status, 200);
}

#[test]
fn a_reload_that_fails_says_so() {
    let root = repository::folder();
    let config = root.path().join("config.json");
    std::fs::write(&config, r#"{"model_config_list":[]}"#).unwrap();
    let ports = free_ports();
    let mut command = cli::command();
    command
        .arg("serve")
        .arg("--config_path")
        .arg(&config)
        .args(on(ports));
    command.args(["--file_system_poll_wait_seconds", "0"]);
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    let reload = || {
        let answer = post(&server, "/v1/config/reload", b"");
        let text = answer.text();
        let text = text.replace(root.path().to_str().unwrap(), "<folder>");
        format!("{} {text}", answer.status)
    };
    let mut answers = vec![reload()];
    std::fs::write(&config, r#"{"model_config_list":["#).unwrap();
    answers.push(reload());
    let path = root.path().join("nothing");
    let absent =
        serde_json::json!({"model_config_list":[{"config":{"name":"m","base_path":path}}]});
    std::fs::write(&config, absent.to_string()).unwrap();
    answers.push(reload());
    std::fs::remove_file(&config).unwrap();
    answers.push(reload());
    insta::assert_snapshot!(answers.join("\n"), @r#"
    200 {}
    412 {"error":"Reloading config file failed. cannot read the configuration: The file is not valid json - the configuration file <folder>/config.json:1:22: found `[` (unterminated array); expected JSON"}
    400 {"error":"Reloading config file failed. cannot load model `m`: The provided base path is invalid or doesn't exists - <folder>/nothing: No such file or directory (os error 2)"}
    500 {"error":"Config file not found or cannot open. cannot read the configuration: cannot read the configuration file <folder>/config.json: No such file or directory (os error 2)"}
    "#);
}
