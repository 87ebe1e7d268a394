//! KServe v2 over REST: paths, methods, metadata, and JSON bodies.

use std::{
    fs,
    io::{Read as _, Write as _},
    thread::sleep,
    time::Duration,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use crate::support::{
    Server,
    dtypes::{self, ELEMENTS},
    http::{connect, exchange, get, head, post, send},
    repository,
};

const INFER: &str = "/v2/models/dummy/infer";

/// A valid request for the model `dummy`.
const BODY: &[u8] =
    br#"{"inputs":[{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}]}"#;

#[test]
fn every_path_of_the_protocol_answers() {
    let server = Server::shared("dummy");
    let answers: String = [
        "/v2",
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/dummy",
        "/v2/models/dummy/",
        "/v2/models/dummy/versions/1",
        "/v2/models/dummy/versions/1/",
        "/v2/models/dummy/versions/0",
        "/v2/models/dummy/ready",
        "/v2/models/dummy/versions/1/ready",
        "/v2?verbose=1",
    ]
    .map(|path| {
        let answer = get(server, path);
        let kind = answer
            .header("content-type")
            .unwrap_or("no content")
            .to_owned();
        format!("{path}: {} {kind}\n{}\n", answer.status, answer.text())
    })
    .concat()
    .replace(env!("CARGO_PKG_VERSION"), "<release>");
    insta::assert_snapshot!(answers, @r#"
    /v2: 200 application/json
    {"name":"OpenVINO Model Server","version":"<release>","extensions":["binary_tensor_data","model_configuration","parameters","statistics"]}
    /v2/health/live: 200 no content

    /v2/health/ready: 200 no content

    /v2/models/dummy: 200 application/json
    {"name":"dummy","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"b","datatype":"FP32","shape":[1,10]}],"outputs":[{"name":"a","datatype":"FP32","shape":[1,10]}]}
    /v2/models/dummy/: 200 application/json
    {"name":"dummy","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"b","datatype":"FP32","shape":[1,10]}],"outputs":[{"name":"a","datatype":"FP32","shape":[1,10]}]}
    /v2/models/dummy/versions/1: 200 application/json
    {"name":"dummy","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"b","datatype":"FP32","shape":[1,10]}],"outputs":[{"name":"a","datatype":"FP32","shape":[1,10]}]}
    /v2/models/dummy/versions/1/: 200 application/json
    {"name":"dummy","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"b","datatype":"FP32","shape":[1,10]}],"outputs":[{"name":"a","datatype":"FP32","shape":[1,10]}]}
    /v2/models/dummy/versions/0: 200 application/json
    {"name":"dummy","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"b","datatype":"FP32","shape":[1,10]}],"outputs":[{"name":"a","datatype":"FP32","shape":[1,10]}]}
    /v2/models/dummy/ready: 200 no content

    /v2/models/dummy/versions/1/ready: 200 no content

    /v2?verbose=1: 200 application/json
    {"name":"OpenVINO Model Server","version":"<release>","extensions":["binary_tensor_data","model_configuration","parameters","statistics"]}
    "#);
}

#[test]
fn the_index_lists_models_with_versions_and_states() {
    let server = Server::shared("dummy");
    let all = post(server, "/v2/repository/index", b"");
    assert_eq!(all.status, 200);
    insta::assert_snapshot!(all.text(), @r#"[{"name":"dummy","version":"1","state":"READY","reason":""}]"#);
    let ready = post(server, "/v2/repository/index", br#"{"ready":true}"#);
    assert_eq!(ready.text(), all.text());
}

#[test]
fn inference_answers_with_and_without_a_version() {
    let server = Server::shared("dummy");
    for path in [
        INFER,
        "/v2/models/dummy/versions/1/infer",
        "/v2/models/dummy/versions/0/infer",
    ] {
        let answer = post(server, path, BODY);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"model_name":"dummy","model_version":"1","outputs":[{"name":"a","shape":[1,10],"datatype":"FP32","data":[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0]}]}"#);
        }
    }
}

#[test]
fn an_id_is_echoed_only_if_given() {
    let server = Server::shared("dummy");
    let id = |given: &str| {
        let body = String::from_utf8_lossy(BODY).replacen('{', &format!("{{{given}"), 1);
        post(server, INFER, body.as_bytes())
            .json()
            .get("id")
            .cloned()
    };
    assert_eq!(id(""), None);
    assert_eq!(id(r#""id":"seven","#), Some("seven".into()));
}

#[test]
fn json_of_every_datatype_comes_back() {
    for row in dtypes::rows() {
        if row.typed.is_none() {
            // Half floats may not be sent as JSON.
            continue;
        }
        let server = Server::start(row.model);
        let body = format!(
            r#"{{"inputs":[{{"name":"in","shape":[1,{ELEMENTS}],"datatype":"{}","data":{}}}]}}"#,
            row.datatype, row.json
        );
        let answer = post(
            &server,
            &format!("/v2/models/{}/infer", row.model),
            body.as_bytes(),
        );
        let expected = format!(
            r#"{{"model_name":"{}","model_version":"1","outputs":[{{"name":"out","shape":[1,{ELEMENTS}],"datatype":"{}","data":{}}}]}}"#,
            row.model, row.datatype, row.json
        );
        assert_eq!(answer.text(), expected);
    }
}

#[test]
fn data_may_be_nested_and_members_may_come_in_any_order() {
    let server = Server::shared("add");
    let body = br#"{"parameters":{"note":"x","priority":3,"fast":true},
        "outputs":[{"parameters":{"unknown":"x"},"name":"sum"}],
        "unknown":{"a":[1,null]},
        "inputs":[
        {"data":[[0.5,1,1,1,1],[[1],1,1,1,1e0]],"datatype":"FP32","shape":[1,10],"name":"input2"},
        {"parameters":{},"name":"input1","data":[1,2,3,4,5,6,7,8,9,10],"shape":[1,10],"datatype":"FP32"}]}"#;
    let answer = post(server, "/v2/models/add/infer", body).json();
    let sum = serde_json::json!([1.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(answer["outputs"][0]["data"], sum);
}

#[test]
fn a_scalar_and_a_dimension_of_zero_have_their_shapes() {
    let server = Server::shared("scalar");
    let body = br#"{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[2]}]}"#;
    let answer = post(server, "/v2/models/scalar/infer", body).json();
    let expected = serde_json::json!([{"name":"y","shape":[],"datatype":"FP32","data":[4.0]}]);
    assert_eq!(answer["outputs"], expected);

    let server = Server::shared("passthrough_i32");
    let body = br#"{"inputs":[{"name":"in","shape":[0,2],"datatype":"INT32","data":[]}]}"#;
    let answer = post(server, "/v2/models/passthrough_i32/infer", body).json();
    let expected = serde_json::json!([{"name":"out","shape":[0,2],"datatype":"INT32","data":[]}]);
    assert_eq!(answer["outputs"], expected);
}

#[test]
fn requested_outputs_are_selected_and_in_the_order_asked_for() {
    let server = Server::shared("two_outputs");
    let names = |outputs: &str| {
        let body = format!(
            r#"{{"inputs":[{{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}}]{outputs}}}"#
        );
        let answer = post(server, "/v2/models/two_outputs/infer", body.as_bytes());
        if answer.status != 200 {
            return answer.error();
        }
        let outputs = answer.json()["outputs"].as_array().unwrap().clone();
        outputs
            .iter()
            .map(|output| output["name"].as_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(""), "total twice");
    assert_eq!(names(r#","outputs":[]"#), "total twice");
    assert_eq!(names(r#","outputs":[{"name":"twice"}]"#), "twice");
    assert_eq!(
        names(r#","outputs":[{"name":"twice"},{"name":"total"}]"#),
        "twice total"
    );
    insta::assert_snapshot!(names(r#","outputs":[{"name":"thrice"}]"#), @"400: Invalid output name - Requested output: thrice; the model has: total, twice");
}

#[test]
fn a_gzip_body_is_expanded() {
    let server = Server::shared("dummy");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(BODY).unwrap();
    let body = gzip.finish().unwrap();
    let answer = send(
        server,
        "POST",
        INFER,
        &[("Content-Encoding", "gzip")],
        &body,
    );
    assert_eq!(answer.text(), post(server, INFER, BODY).text());
    let broken = send(server, "POST", INFER, &[("Content-Encoding", "gzip")], BODY);
    insta::assert_snapshot!(broken.error(), @"400: request body is not valid gzip: invalid gzip header");
    let other = send(server, "POST", INFER, &[("Content-Encoding", "br")], &body);
    insta::assert_snapshot!(other.error(), @"400: Content-Encoding br is not supported; send gzip or no encoding");
}

#[test]
fn an_answer_is_gzip_for_a_client_that_asks_for_nothing_else() {
    let server = Server::shared("passthrough_f32");
    let ask = |accepted, rows: usize| {
        let data = vec!["0.5"; rows * 4].join(",");
        let body = format!(
            r#"{{"inputs":[{{"name":"in","shape":[{rows},4],"datatype":"FP32","data":[{data}]}}]}}"#
        );
        let path = "/v2/models/passthrough_f32/infer";
        let headers = [("Accept-Encoding", accepted)];
        send(server, "POST", path, &headers, body.as_bytes())
    };
    let plain = ask("gzip, deflate", 100);
    assert_eq!(plain.header("content-encoding"), None);
    let packed = ask("gzip", 100);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut expanded = Vec::new();
    GzDecoder::new(&packed.body[..])
        .read_to_end(&mut expanded)
        .unwrap();
    assert_eq!(expanded, plain.body);
    // What fits in one packet is not worth it.
    let small = ask("gzip", 1);
    assert_eq!(small.status, 200);
    assert_eq!(small.header("content-encoding"), None);
}

#[test]
fn a_chunked_body_is_read() {
    let server = Server::shared("dummy");
    let mut stream = connect(server);
    let head = format!("POST {INFER} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (first, second) = BODY.split_at(7);
    let mut body = Vec::new();
    for chunk in [first, second, b""] {
        write!(body, "{:x}\r\n", chunk.len()).unwrap();
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
    }
    assert_eq!(exchange(&mut stream, &head, &body).status, 200);
}

#[test]
fn an_unknown_path_is_not_found() {
    let server = Server::shared("dummy");
    let errors: String = [
        "/",
        "/v1/nothing",
        "/v2/",
        "/v2/models",
        "/v2/models/dummy/infer/",
        "/v2/models/dummy/versions",
        "/v2/models/dummy/versions/x",
        "/v2/models/dummy/versions/-1/ready",
        "/v2/models/dummy/versions/1/nothing",
        "/v2/models/dummy/versions/2",
        "/v2/models/dummy/versions/99999999999999999999",
        "/v2/models/stranger",
        "/v2/models/stranger/ready",
        "/v2/models/../dummy",
        "/v2/..",
    ]
    .map(|path| format!("{path} {}\n", get(server, path).error()))
    .concat();
    insta::assert_snapshot!(errors, @"
    / 404: Invalid request URL
    /v1/nothing 404: Invalid request URL
    /v2/ 404: Invalid request URL
    /v2/models 404: Invalid request URL
    /v2/models/dummy/infer/ 404: Invalid request URL
    /v2/models/dummy/versions 404: Invalid request URL
    /v2/models/dummy/versions/x 404: Invalid request URL
    /v2/models/dummy/versions/-1/ready 404: Invalid request URL
    /v2/models/dummy/versions/1/nothing 404: Invalid request URL
    /v2/models/dummy/versions/2 404: Model with requested version is not found
    /v2/models/dummy/versions/99999999999999999999 404: Model with requested version is not found
    /v2/models/stranger 404: Model with requested name is not found
    /v2/models/stranger/ready 404: Model with requested name is not found
    /v2/models/../dummy 400: The provided base path is invalid or doesn't exists
    /v2/.. 400: The provided base path is invalid or doesn't exists
    ");
}

#[test]
fn another_method_is_refused_with_the_ones_that_are_allowed() {
    let server = Server::shared("dummy");
    let errors: String = [
        ("POST", "/v2"),
        ("DELETE", "/v2/models/dummy"),
        ("PUT", "/v2/models/dummy/ready"),
        ("POST", "/v2/health/live"),
        ("GET", INFER),
        ("HEAD", INFER),
        ("PATCH", INFER),
    ]
    .map(|(method, path)| {
        let answer = send(server, method, path, &[], b"");
        let allow = answer.header("allow").unwrap_or("nothing").to_owned();
        let error = if method == "HEAD" {
            answer.status.to_string()
        } else {
            answer.error()
        };
        format!("{method} {path}: {error}; allowed: {allow}\n")
    })
    .concat();
    insta::assert_snapshot!(errors, @"
    POST /v2: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    DELETE /v2/models/dummy: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    PUT /v2/models/dummy/ready: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    POST /v2/health/live: 405: Unsupported method; allowed: GET, HEAD, OPTIONS
    GET /v2/models/dummy/infer: 405: Unsupported method; allowed: POST, OPTIONS
    HEAD /v2/models/dummy/infer: 405; allowed: POST, OPTIONS
    PATCH /v2/models/dummy/infer: 405: Unsupported method; allowed: POST, OPTIONS
    ");
}

#[test]
fn options_is_answered_for_any_path() {
    let server = Server::shared("dummy");
    for path in ["/v2", INFER, "/nothing/at/all"] {
        let answer = send(server, "OPTIONS", path, &[], b"");
        assert_eq!(
            (answer.status, answer.text()),
            (200, String::new()),
            "{path}"
        );
    }
}

#[test]
fn head_answers_as_get_without_a_body() {
    let server = Server::shared("dummy");
    for path in ["/v2", "/v2/health/ready", "/v2/models/dummy"] {
        let answer = send(server, "HEAD", path, &[], b"");
        assert_eq!(
            (answer.status, answer.text()),
            (200, String::new()),
            "{path}"
        );
    }
}

#[test]
fn a_name_in_a_path_is_percent_decoded() {
    let server = Server::begin("ein Modell/ü", &crate::support::model("dummy"), &[]);
    server.wait_ready();
    let path = "/v2/models/ein%20Modell%2F%C3%BC";
    assert_eq!(get(&server, path).json()["name"], "ein Modell/ü");
    let answer = post(&server, &format!("{path}/versions/1/infer"), BODY);
    assert_eq!(answer.json()["model_name"], "ein Modell/ü");
}

#[test]
fn requests_sent_without_waiting_are_answered_in_order() {
    let server = Server::start("dummy");
    let mut stream = connect(&server);
    let ready = head("GET", "/v2/health/ready", 0, &[]);
    let last = "GET /nothing HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let infer = head("POST", INFER, BODY.len(), &[]).into_bytes();
    let all = [ready.as_bytes(), &infer, BODY, last.as_bytes()].concat();
    stream.write_all(&all).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let statuses: Vec<&str> = answers
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| &answer[..3])
        .collect();
    assert_eq!(statuses, ["200", "200", "404"]);
}

#[test]
fn a_connection_stays_open_between_requests_for_as_long_as_its_client_likes() {
    let server = Server::start_with("dummy", &["--read_timeout_seconds", "1"]);
    let mut stream = connect(&server);
    let request = head("POST", INFER, BODY.len(), &[]);
    assert_eq!(exchange(&mut stream, &request, BODY).status, 200);
    assert_eq!(exchange(&mut stream, &request, BODY).status, 200);
    // Longer than a request may pause: that nothing happens has no condition to wait for.
    sleep(Duration::from_millis(1500));
    assert_eq!(exchange(&mut stream, &request, BODY).status, 200);
}

#[test]
fn metadata_shows_what_the_model_file_says_of_itself() {
    let root = repository::of(&[("1", "dummy")]);
    let graph = repository::graph(root.path());
    let xml = fs::read_to_string(&graph).unwrap();
    let marked = xml.replace(
        "<rt_info>",
        r#"<rt_info><model_info><labels value="star &amp; ring"/><scale><red value="2.5"/></scale></model_info>"#,
    );
    assert_ne!(marked, xml);
    fs::write(&graph, marked).unwrap();
    let server = Server::begin("dummy", root.path(), &[]);
    server.wait_ready();
    let metadata = get(&server, "/v2/models/dummy").json();
    let expected = serde_json::json!({"model_info":{"labels":"star & ring","scale":{"red":"2.5"}}});
    assert_eq!(metadata["rt_info"], expected);
}
