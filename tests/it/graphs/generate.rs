//! Triton's generate extension with graphs: answers by name, and events as they come.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::shared;
use crate::support::{
    Server, eventually,
    graphs::{CODE, PYTHON, add, file, generative},
    http::{Answer, connect, get, head, post, read, send},
    pipelines::Config,
};

/// Serves the generator of these tests.
fn lab(flags: &[&str]) -> (Config, Server) {
    let mut config = Config::of(&[]);
    add_text(&mut config, "text_gen", &generative(PYTHON));
    let server = config.serve_with(&[&["--metrics_enable"], flags].concat());
    (config, server)
}

/// Adds a graph that runs code from requests.
pub(super) fn add_text(config: &mut Config, name: &str, graph: &str) {
    add(config, name, graph);
    // A string is behind its length.
    let code = CODE.replace("bytes(inputs[0])", "bytes(inputs[0])[4:]");
    file(config, &format!("{name}/handler.py"), &code);
}

/// Adds the graphs of these tests: generators, and a node that answers once.
pub(super) fn add_graphs(config: &mut Config) {
    for name in ["text_gen", "text_counted", "text_left"] {
        add_text(config, name, &generative(PYTHON));
    }
    add_text(config, "text_py", PYTHON);
}

/// Code that gives a number after the other, and then does something else.
fn numbers(count: u32, then: &str) -> String {
    format!(
        "for n in range({count}):\n  yield [Tensor('out', struct.pack('<q', n), shape=(1,), datatype='INT64')]\n{then}"
    )
}

fn body(code: &str) -> String {
    json!({"in": code}).to_string()
}

/// Returns the objects of all events.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(
        answer.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let text = answer.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    events
        .map(|event| serde_json::from_str(event).expect("an event is JSON"))
        .collect()
}

fn stream(server: &Server, graph: &str, code: &str) -> Answer {
    let path = format!("/v2/models/{graph}/generate_stream");
    post(server, &path, body(code).as_bytes())
}

/// Waits until a graph does not run.
fn all_have_ended(server: &Server, graph: &str) {
    eventually("the graph has ended", || {
        let page = get(server, "/metrics").text();
        let is_idle = page.contains(&format!("\novms_current_graphs{{name=\"{graph}\"}} 0\n"));
        is_idle.then_some(())
    });
}

#[test]
fn each_response_of_a_generator_is_an_event() {
    let (server, _) = shared::connect();
    let answer = stream(server, "text_counted", &numbers(3, ""));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    let expected: Vec<Value> = (0..3)
        .map(|n| json!({"model_name": "text_counted", "model_version": "1", "out": n, "OVMS_MP_TIMESTAMP": n}))
        .collect();
    assert_eq!(events(&answer), expected);
    // Inputs may be among the parameters, and the id comes back.
    let code = numbers(1, "");
    let asked = json!({"id": "7", "parameters": {"in": code, "OVMS_MP_TIMESTAMP": 5}}).to_string();
    let path = "/v2/models/text_counted/versions/1/generate_stream";
    let answer = post(server, path, asked.as_bytes());
    let event = &events(&answer)[0];
    assert_eq!(
        (&event["id"], &event["OVMS_MP_TIMESTAMP"]),
        (&json!("7"), &json!(5))
    );
    let page = get(server, "/metrics").text();
    for line in [
        r#"ovms_requests_success{api="KServe",interface="REST",method="ModelInferStream",name="text_counted"} 2"#,
        r#"ovms_requests_accepted{api="KServe",interface="REST",method="ModelInferStream",name="text_counted"} 2"#,
        r#"ovms_responses{api="KServe",interface="REST",method="ModelInferStream",name="text_counted"} 4"#,
        r#"ovms_requests_success{api="KServe",interface="gRPC",method="ModelInferStream",name="text_counted"} 0"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn errors_are_answers_before_the_first_event_and_events_after_it() {
    let (server, _) = shared::connect();
    let answer = stream(server, "text_gen", &numbers(2, "raise ValueError('third')"));
    let sent = events(&answer);
    assert_eq!(sent.len(), 3);
    let text = sent[2]["error"].as_str().unwrap();
    assert!(text.contains("third"), "{text}");
    let answer = stream(server, "text_gen", "raise ValueError('first')\nyield");
    let error = answer.error();
    assert!(error.starts_with("400: "), "{error}");
    assert!(error.contains("first"), "{error}");
    for (path, body, status) in [
        ("stranger/generate_stream", "{}", 404),
        ("text_gen/generate_stream", "{\"other\":[1]}", 400),
        ("text_gen/generate_stream", "{", 412),
        ("text_gen/generate_stream", "{\"in\":\"\",\"py\":1}", 412),
        ("stranger/versions/x/generate_stream", "{}", 404),
    ] {
        let answer = post(server, &format!("/v2/models/{path}"), body.as_bytes());
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    // A name that is no input's is that of a parameter; a request of nothing else gives a graph nothing to do.
    let path = "/v2/models/text_gen/generate_stream";
    let misnamed = post(server, path, br#"{"code":"","id":"7"}"#);
    insta::assert_snapshot!(misnamed.error(), @"400: Missing input - expected a member for one of the inputs in; got parameters: code");
    insta::assert_snapshot!(post(server, path, b"{}").error(), @"400: Missing input - expected a member for one of the inputs in; got nothing");
    let unary = "/v2/models/text_gen/generate";
    insta::assert_snapshot!(post(server, unary, br#"{"txt":"a","id":"7","n":1}"#).error(), @"400: Invalid number of inputs - Not all input packets created - missing: in; taken as parameters: txt, n");
    insta::assert_snapshot!(post(server, unary, b"{}").error(), @"400: Invalid number of inputs - Not all input packets created - missing: in");
    let answer = get(server, "/v2/models/text_gen/generate_stream");
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("POST, OPTIONS"))
    );
    let packed = [("Content-Encoding", "br")];
    let answer = send(
        server,
        "POST",
        "/v2/models/text_gen/generate_stream",
        &packed,
        b"{}",
    );
    assert_eq!(answer.status, 400);
}

#[test]
fn graphs_without_a_generator_answer_either_way() {
    let (server, _) = shared::connect();
    let answer = post(
        server,
        "/v2/models/pass/generate",
        br#"{"in":[[1.5,2],[3,4]],"id":"x"}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json(),
        json!({"model_name": "pass", "model_version": "1", "id": "x", "out": [1.5, 2.0, 3.0, 4.0],
            "OVMS_MP_TIMESTAMP": 0})
    );
    let answer = post(server, "/v2/models/pass/generate_stream", br#"{"in":7}"#);
    assert_eq!(
        events(&answer),
        [json!({"model_name": "pass", "model_version": "1", "out": 7, "OVMS_MP_TIMESTAMP": 0})]
    );
    let text = "return [Tensor('out', struct.pack('<I', 2) + b'hi', shape=(1,), datatype='BYTES')]";
    let answer = post(server, "/v2/models/text_py/generate", body(text).as_bytes());
    assert_eq!(answer.json()["out"], "hi");
    let answer = post(
        server,
        "/v2/models/text_py/generate",
        body("return [Tensor('out', b'')]").as_bytes(),
    );
    assert_eq!(answer.json()["out"], json!([]));
}

/// Opens a stream, and reads until its first event; the connection stays open.
fn opened(server: &Server, graph: &str, code: &str) -> BufReader<TcpStream> {
    let mut connection = connect(server);
    let body = body(code);
    let path = format!("/v2/models/{graph}/generate_stream");
    let head = head("POST", &path, body.len(), &[]);
    connection.write_all((head + &body).as_bytes()).unwrap();
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "events come");
    }
    reader
}

#[test]
fn events_come_one_by_one_and_the_connection_stays() {
    let (server, _) = shared::connect();
    // The second has to wait until the first was received.
    let gate = tempfile::tempdir().unwrap();
    let gate = gate.path().join("gate");
    let wait = format!(
        "while not os.path.exists({gate:?}): time.sleep(0.01)\n{}",
        numbers(1, "")
    );
    let mut reader = opened(server, "text_gen", &numbers(1, &wait));
    std::fs::create_dir_all(gate.parent().unwrap()).unwrap();
    std::fs::write(&gate, "").unwrap();
    let mut text = String::new();
    while !text.ends_with("0\r\n\r\n") {
        assert_ne!(reader.read_line(&mut text).unwrap(), 0, "{text}");
    }
    assert_eq!(text.matches("data: ").count(), 1, "{text}");
    // The next request of the same connection.
    let mut connection = reader.into_inner();
    let head = head("GET", "/v2/health/live", 0, &[("Connection", "close")]);
    connection.write_all(head.as_bytes()).unwrap();
    assert_eq!(read(&mut connection).status, 200);
}

#[test]
fn a_client_that_leaves_ends_the_run() {
    let (server, _) = shared::connect();
    let reader = opened(server, "text_left", &numbers(1_000_000_000, ""));
    drop(reader);
    all_have_ended(server, "text_left");
    let page = get(server, "/metrics").text();
    let failed = r#"ovms_requests_fail{api="KServe",interface="REST",method="ModelInferStream",name="text_left"} 1"#;
    assert!(page.lines().any(|line| line == failed), "{page}");
}

#[test]
fn a_client_that_does_not_read_holds_up_its_graph_and_is_let_go() {
    let (_config, server) = lab(&["--write_timeout_seconds=2"]);
    let large = "while True:\n  yield [Tensor('out', struct.pack('<I', 1 << 16) + b'x' * (1 << 16), shape=(1,), datatype='BYTES')]";
    let reader = opened(&server, "text_gen", large);
    let made = || {
        let page = get(&server, "/metrics").text();
        let line = r#"ovms_responses{api="KServe",interface="REST",method="ModelInferStream",name="text_gen"} "#;
        let count = page.lines().find_map(|found| found.strip_prefix(line));
        count
            .and_then(|count| count.parse::<u64>().ok())
            .expect("it is counted")
    };
    all_have_ended(&server, "text_gen");
    // The buffers of the system, and what is made ahead.
    assert!(made() < 1000, "{}", made());
    drop(reader);
}

#[test]
fn a_time_limit_ends_the_stream_with_an_event() {
    let (server, _) = shared::connect();
    let code = numbers(1, "time.sleep(100)");
    let asked = json!({"in": code, "timeout": 300_000}).to_string();
    let answer = post(
        server,
        "/v2/models/text_gen/generate_stream",
        asked.as_bytes(),
    );
    let sent = events(&answer);
    assert_eq!(sent[0]["out"], 0);
    let text = sent[1]["error"].as_str().unwrap();
    assert!(text.contains("eadline"), "{text}");
}

#[test]
fn a_stop_ends_open_streams_in_good_order() {
    let (_config, mut server) = lab(&["--shutdown_timeout_seconds=3"]);
    let mut reader = opened(
        &server,
        "text_gen",
        "while True:\n  time.sleep(0.05)\n  yield [Tensor('out', b'x')]",
    );
    server.signal("TERM");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).expect("text, to the end");
    assert!(rest.contains("data: {\"error\":"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
    assert!(server.wait().success());
}
