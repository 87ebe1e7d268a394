//! Requests that are too many, too large together, too slow, or far too long lists: refused in
//! time, and others are served.

use std::{
    io::{Read as _, Write as _},
    sync::LazyLock,
    thread::sleep,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use ovms::proto::kserve::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use tonic::codec::CompressionEncoding;

use crate::support::{
    Server, busy, eventually,
    grpc::{Grpc, dummy},
    http::{JSON_LENGTH, connect, get, head, post, read, send},
    shared_memory::ON,
};

const INFER: &str = "/v2/models/dummy/infer";

/// Time limit of a refusal on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);

/// Length of a body that is counted; two exceed the limit.
const LARGE: usize = 700_000;

/// A server with the largest bounds that flags can say, but one of ten megabytes for a body.
static LARGEST: LazyLock<Server> = LazyLock::new(|| {
    let most = u64::MAX.to_string();
    let flags = ["max_connections", "max_streams", "read_timeout_seconds"];
    let flags = flags.map(|name| format!("--{name}={most}"));
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(ON);
    flags.push("--max_message_size=10000000");
    Server::start_with("dummy", &flags).kept(None)
});

/// A server that wants ten bytes a second of a body that takes longer than a second.
static SLOW: LazyLock<Server> = LazyLock::new(|| {
    let flags = ["--read_timeout_seconds=1", "--min_receive_rate=10"];
    Server::start_with("dummy", &flags).kept(None)
});

/// Waits until the server holds so many bytes for its clients.
fn until_held(server: &Server, is_wanted: impl Fn(usize) -> bool) {
    eventually("the server holds the bytes that are wanted", || {
        let page = get(server, "/metrics").text();
        let mut lines = page.lines();
        let held = lines.find_map(|line| line.strip_prefix("ovms_bytes_in_flight "));
        is_wanted(held.unwrap().parse().unwrap()).then_some(())
    });
}

#[test]
fn a_megabyte_bounds_texts_of_a_request_and_bodies_of_all_connections_together() {
    let flags = [
        "--max_message_size=1000000",
        "--max_bytes_in_flight=1000000",
        "--metrics_enable",
    ];
    let server = Server::start_with("dummy", &flags);
    texts_of_a_request_are_bounded_and_not_repeated_without_end(&server);
    until_held(&server, |held| held < 100_000);
    bodies_of_all_connections_together_are_bounded(&server);
}

fn bodies_of_all_connections_together_are_bounded(server: &Server) {
    let second = || send(server, "POST", INFER, &[], &vec![b' '; LARGE]);
    let mut first = connect(server);
    let text = head("POST", INFER, LARGE, &[]);
    first.write_all(text.as_bytes()).unwrap();
    // All but the last byte: it stays in flight for as long as this test needs.
    first.write_all(&vec![b' '; LARGE - 1]).unwrap();
    until_held(server, |held| held >= LARGE);
    let refused = second();
    insta::assert_snapshot!(refused.error(), @"503: Server is overloaded - requests and answers in flight: the most bytes allowed are 1000000, see --max-bytes-in-flight; try again later");
    let mut large = dummy();
    large.raw_input_contents[0] = vec![0; LARGE].into();
    let grpc = Grpc::connect(server);
    let refused = grpc.refused(large.clone());
    insta::assert_snapshot!(refused, @"ResourceExhausted: Server is overloaded - requests and answers in flight: the most bytes allowed are 1000000, see --max-bytes-in-flight; try again later");
    // Compressed messages, of bytes that cannot be, are counted on their own path.
    let mut noise = 1_u32;
    let mut next = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    };
    let mut packed = dummy();
    packed.raw_input_contents[0] = (0..LARGE).map(|_| next()).collect::<Vec<u8>>().into();
    let mut client = grpc
        .client
        .clone()
        .send_compressed(CompressionEncoding::Gzip);
    let status = grpc.wait(async move { client.model_infer(packed).await });
    assert_eq!(status.unwrap_err().code(), tonic::Code::ResourceExhausted);
    // Small ones go through.
    grpc.check_serves();
    assert_eq!(get(server, "/v2/health/ready").status, 200);

    first.write_all(b" ").unwrap();
    assert_eq!(read_one(&mut first), 412, "the document is empty");
    until_held(server, |held| held < LARGE);
    assert_eq!(second().status, 412);
    until_held(server, |held| held < LARGE);
    insta::assert_snapshot!(grpc.refused(large), @"InvalidArgument: Invalid content size of tensor proto - Expected: 40 bytes; Actual: 700000 bytes; input name: b");
}

/// Reads the status of an answer.
fn read_one(stream: &mut std::net::TcpStream) -> u16 {
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    String::from_utf8_lossy(&line[9..]).parse().unwrap()
}

#[test]
fn a_bomb_of_gzip_is_given_up_when_it_is_too_large() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // The second half ends at a byte, as the first does, and can come again for a gigabyte in all.
    gzip.write_all(&[0; 1_000_000]).unwrap();
    gzip.flush().unwrap();
    let half = gzip.get_ref().len();
    gzip.write_all(&[0; 1_000_000]).unwrap();
    gzip.flush().unwrap();
    let part = gzip.get_ref()[half..].repeat(998);
    let bomb = [gzip.get_ref(), &part[..]].concat();
    assert!(bomb.len() < 2_000_000);
    let started = Instant::now();
    let headers = [("Content-Encoding", "gzip")];
    let answer = send(&LARGEST, "POST", INFER, &headers, &bomb);
    insta::assert_snapshot!(answer.error(), @"413: request body is larger than 10000000 bytes; see --max-message-size");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    Grpc::connect(&LARGEST).check_serves();
}

fn texts_of_a_request_are_bounded_and_not_repeated_without_end(server: &Server) {
    let long = "x".repeat(100_000);
    let input = r#"{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}"#;
    for body in [
        format!(r#"{{"inputs":[{input}],"outputs":[{{"name":"{long}"}}]}}"#),
        format!(r#"{{"inputs":[{{"name":"b","shape":[1,10],"datatype":"{long}"}}]}}"#),
    ] {
        let answer = post(server, INFER, body.as_bytes());
        assert!(answer.error().ends_with('…'), "{}", answer.error());
        assert_eq!(answer.status, 400);
        assert!(answer.body.len() < 20_000, "{}", answer.body.len());
    }
    let with_id = |length| {
        let id = "x".repeat(length);
        let body = format!(r#"{{"id":"{id}","inputs":[{input}]}}"#);
        post(server, INFER, body.as_bytes())
    };
    assert_eq!(with_id(100_000).json()["id"], long);
    insta::assert_snapshot!(with_id(400_000).error(), @"413: Request is too large - it needs more than 1000000 bytes, which is the most for all requests and answers in flight; send less at once, or raise --max-bytes-in-flight");
}

#[test]
fn an_id_counts_while_its_request_runs() {
    let server = busy::serve(&["--max_bytes_in_flight=4000000", "--metrics_enable"]);
    let grpc = Grpc::connect(&server);
    let mut request = busy::request(busy::ENDLESS);
    request.id = "x".repeat(300_000);
    let _call = grpc.call(request);
    // More than the message, and what it is decoded to, take together.
    until_held(&server, |held| held > 1_000_000);
}

#[test]
fn a_body_that_is_no_inference_has_a_bound_of_its_own() {
    let body = vec![b' '; (4 << 20) + 1];
    for path in [
        "/v2/repository/index",
        "/v2/systemsharedmemory/region/r/register",
    ] {
        let error = post(&LARGEST, path, &body).error();
        let expected = "413: request body is larger than 4194304 bytes, the maximum of requests other than inference";
        assert_eq!(error, expected, "{path}");
    }
}

#[test]
fn bounds_may_be_as_large_as_flags_can_say() {
    let mut stream = connect(&LARGEST);
    let text = head("POST", INFER, 10, &[("Connection", "close")]);
    stream.write_all(text.as_bytes()).unwrap();
    // Its body is waited for meanwhile.
    Grpc::connect(&LARGEST).check_serves();
    stream.write_all(&[b' '; 10]).unwrap();
    assert_eq!(read(&mut stream).status, 412);
}

#[test]
fn a_body_that_drips_is_given_up_and_answered() {
    let mut stream = connect(&SLOW);
    stream
        .write_all(head("POST", INFER, 1000, &[]).as_bytes())
        .unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(250)))
        .unwrap();
    let started = Instant::now();
    // Four bytes a second, each well within the pause that is allowed.
    let mut first = [0];
    while stream.read_exact(&mut first).is_err() {
        stream.write_all(b" ").unwrap();
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "patient without end"
        );
    }
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let error = read(&mut stream).error();
    assert!(
        error.starts_with("504: request body comes too slowly: ")
            && error.ends_with("; see --min-receive-rate"),
        "{error}"
    );
    Grpc::connect(&SLOW).check_serves();
}

#[test]
fn a_body_that_is_slow_but_fast_enough_is_taken() {
    let mut stream = connect(&SLOW);
    stream
        .write_all(head("POST", INFER, 60, &[("Connection", "close")]).as_bytes())
        .unwrap();
    for _ in 0..3 {
        stream.write_all(&[b' '; 20]).unwrap();
        // A second and a half in all, which no condition can stand for.
        sleep(Duration::from_millis(500));
    }
    assert_eq!(read(&mut stream).status, 412);
}

#[test]
fn ten_thousand_inputs_are_refused_at_once() {
    let server = Server::shared("dummy");
    let inputs = |data: &str| {
        let inputs: Vec<String> = (0..10_000)
            .map(|index| {
                // The shapes promise far more than there is.
                format!(
                    r#"{{"name":"b{index}","shape":[1,1000000000],"datatype":"FP32","data":{data}}}"#
                )
            })
            .collect();
        format!(r#"{{"inputs":[{}]}}"#, inputs.join(","))
    };
    let started = Instant::now();
    insta::assert_snapshot!(post(server, INFER, inputs("[1]").as_bytes()).error(), @"400: Invalid number of inputs - Expected: 1; Actual: 10000; the model has: b");
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    insta::assert_snapshot!(post(server, INFER, inputs(&nested).as_bytes()).error(), @"400: Invalid number of inputs - Expected: 1; Actual: 10000; the model has: b");

    let same = r#"{"name":"b","shape":[1],"datatype":"FP32"}"#;
    let json = format!(r#"{{"inputs":[{}]}}"#, vec![same; 10_000].join(","));
    let length = json.len().to_string();
    let body = [json.as_bytes(), &[0; 40_000]].concat();
    let answer = send(server, "POST", INFER, &[(JSON_LENGTH, &length)], &body);
    insta::assert_snapshot!(answer.error(), @"400: Invalid number of inputs - Expected: 1; Actual: 10000; the model has: b");

    let grpc = Grpc::connect(server);
    let mut request = dummy();
    let input: InferInputTensor = request.inputs[0].clone();
    request.inputs = vec![input; 10_000];
    insta::assert_snapshot!(grpc.refused(request.clone()), @"InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 10000; the model has: b");
    request.raw_input_contents = vec![vec![0; 4].into(); 10_000];
    insta::assert_snapshot!(grpc.refused(request), @"InvalidArgument: Invalid number of inputs - Expected: 1; Actual: 10000; the model has: b");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    grpc.check_serves();
}

#[test]
fn ten_thousand_outputs_are_refused_at_once() {
    let server = Server::shared("dummy");
    let started = Instant::now();
    let names: Vec<String> = (0..10_000).map(|index| format!("a{index}")).collect();
    let outputs: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"name":"{name}"}}"#))
        .collect();
    let body = format!(
        r#"{{"inputs":[{{"name":"b","shape":[1,10],"datatype":"FP32","data":[0,1,2,3,4,5,6,7,8,9]}}],"outputs":[{}]}}"#,
        outputs.join(",")
    );
    insta::assert_snapshot!(post(server, INFER, body.as_bytes()).error(), @"400: Invalid output name - Requested output: a0; the model has: a");
    let mut request = dummy();
    request.outputs = names
        .into_iter()
        .map(|name| InferRequestedOutputTensor {
            name,
            ..InferRequestedOutputTensor::default()
        })
        .collect();
    let grpc = Grpc::connect(server);
    insta::assert_snapshot!(grpc.refused(request), @"InvalidArgument: Invalid output name - Requested output: a0; the model has: a");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
}
