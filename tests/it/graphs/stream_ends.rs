//! Ends of `ModelStreamInfer` streams, and their limits while they are open.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use ovms::proto::kserve::{InferParameter, ModelInferRequest, infer_parameter::ParameterChoice};

use super::shared;
use crate::protocol::sizes::LIMITED;
use crate::support::{
    Server, busy, eventually,
    graphs::{CODE, add, at, code, file, generative, graph, next, node, python, rest},
    grpc::{Grpc, dummy, floats, raw},
    pipelines::Config,
    repository,
    server::memory,
    streams::{Talk, with_id},
};

const OK: &str = "end: Ok: ";

fn named(name: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_name: name.to_owned(),
        ..dummy()
    }
}

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    let nodes = [
        node("MergeCalculator", "a b", "merged", ""),
        node("PassThroughCalculator", "merged b", "x y", ""),
    ];
    let text = graph("OVTENSOR:a TFTENSOR:b", "OVTENSOR:x TFTENSOR:y", &nodes);
    add(config, "merges", &text);
    let text = graph(
        "OVMS_PY_TENSOR1:in OVMS_PY_TENSOR2:x",
        "OVMS_PY_TENSOR:out",
        &[python(
            "py",
            "IN:in LOOPBACK:1:x",
            "OUT:out",
            "handler.py",
            "",
        )],
    );
    // The options of a node are written without blanks before them here.
    let text = generative(&text.replace("\nnode_options", "\n  node_options"));
    add(config, "indexed", &text);
    file(config, "indexed/handler.py", CODE);
}

#[test]
fn what_opens_a_stream_wrongly_ends_it() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let reported = |requests: &[ModelInferRequest]| {
        let mut talk = Talk::open(&grpc);
        for request in requests {
            talk.send(request.clone());
        }
        talk.close();
        talk.next().reported()
    };
    insta::assert_snapshot!(reported(&[]), @"end: InvalidArgument: Client disconnected during reading first streaming request");
    insta::assert_snapshot!(reported(&[named("stranger")]), @"end: NotFound: Model with requested name is not found");
    insta::assert_snapshot!(reported(&[named("")]), @"end: NotFound: Model with requested name is not found");
    grpc.check_serves();
}

#[test]
fn a_message_that_is_no_request_ends_the_stream() {
    let grpc = Grpc::connect(&LIMITED);
    let mut talk = Talk::open(&grpc);
    assert_eq!(talk.ask(with_id(1, dummy())).reported(), "response 1");
    let large = raw("dummy", "b", "FP32", &[1, 1000], &floats(&[0.0; 1000]));
    insta::assert_snapshot!(talk.ask(large).reported(), @"end: ResourceExhausted: Error, decoded message length too large: found 4026 bytes, the limit is: 1000 bytes; see --max-message-size");
    grpc.check_serves();
}

/// The output before the error is refused, since it is a tensor of another kind.
#[test]
fn nothing_comes_after_an_output_that_ends_the_stream() {
    let (_, grpc) = shared::connect();
    let talk = Talk::open(&grpc);
    talk.send(raw("merges", "b", "FP32", &[1], &floats(&[1.0])));
    let came = rest(talk);
    assert_eq!(came.len(), 1, "{came:?}");
    let refused = "Failed to get packet from output stream \"x\"";
    assert!(came[0].contains(refused), "{came:?}");
}

#[test]
fn a_packet_at_another_index_of_the_loop_does_not_end_the_generator() {
    let (_, grpc) = shared::connect();
    let folder = repository::folder();
    let go = folder.path().join("go");
    let waits = format!("  while n == 1 and not os.path.exists({go:?}): time.sleep(0.01)\n");
    let sets = format!("for n in range(4):\n{waits}  yield [Tensor('out', str(n).encode())]");
    let mut talk = Talk::open(&grpc);
    talk.send(code("indexed", &sets));
    // It waits for the end of the other input, and comes in between two sets.
    talk.send(raw("indexed", "x", "UINT8", &[1], b"x"));
    assert_eq!(next(&mut talk), "0: out UINT8 [1] 0");
    talk.close_heard();
    fs::write(&go, "").unwrap();
    let sets = [1, 2, 3].map(|n| format!("{n}: out UINT8 [1] {n}"));
    assert_eq!(rest(talk), [&sets[..], &[OK.to_owned()]].concat());
}

#[test]
fn a_deadline_is_that_of_the_whole_stream() {
    let server = Server::shared("dummy");
    let grpc = Grpc::connect(server);
    let mut talk = Talk::open_within(&grpc, Some(Duration::from_millis(300)));
    assert_eq!(talk.ask(with_id(1, dummy())).reported(), "response 1");
    let end = talk.next().reported();
    assert!(
        end.contains("DeadlineExceeded") || end.contains("Cancelled"),
        "{end}"
    );
    grpc.check_serves();
}

#[test]
fn a_request_may_have_a_limit_of_its_own() {
    let server = busy::shared();
    let grpc = Grpc::connect(&server);
    let mut talk = Talk::open(&grpc);
    let limit = InferParameter {
        parameter_choice: Some(ParameterChoice::Int64Param(100_000)),
    };
    talk.send(ModelInferRequest {
        parameters: HashMap::from([("timeout".to_owned(), limit)]),
        ..busy::request(busy::SECONDS)
    });
    insta::assert_snapshot!(talk.next().reported(), @"error: the client's deadline of 100ms passed");
    busy::check(1, &Ok(talk.ask(busy::request(1)).response()));
    assert_eq!(talk.rest(), [OK]);
}

#[test]
fn the_slot_of_a_stream_that_is_cancelled_comes_back() {
    let server = busy::without_queue();
    let grpc = Grpc::connect(&server);
    let talk = Talk::open(&grpc);
    let before = server.processor_time();
    talk.send(busy::request(busy::SECONDS));
    busy::wait_running(&server, before);
    drop(talk);
    let answer = eventually("the slot is free", || grpc.infer(busy::request(1)).ok());
    busy::check(1, &Ok(answer));
}

#[test]
fn a_half_closed_stream_gets_the_answers_that_are_missing() {
    let server = busy::shared();
    let grpc = Grpc::connect(&server);
    let talk = Talk::open(&grpc);
    talk.send(with_id("slow", busy::request(busy::SECONDS / 4)));
    talk.send(with_id("fast", busy::request(1)));
    assert_eq!(talk.rest(), ["response slow", "response fast", OK]);
}

#[test]
fn a_reader_that_stalls_stops_the_server_from_reading() {
    const ELEMENTS: usize = 1 << 18;
    let server = Server::shared("passthrough_f32");
    let grpc = Grpc::connect(server);
    let shape = [i64::try_from(ELEMENTS / 4).unwrap(), 4];
    let ask = raw(
        "passthrough_f32",
        "in",
        "FP32",
        &shape,
        &floats(&vec![1.0; ELEMENTS]),
    );
    let mut talk = Talk::open(&grpc);
    let before = memory(server, "VmRSS:");
    let mut sent = 0;
    while sent < 500 && talk.try_send(with_id(sent, ask.clone()), Duration::from_secs(1)) {
        sent += 1;
    }
    assert!(sent < 100, "{sent} MiB were taken and nothing was read");
    let grown = memory(server, "VmRSS:").saturating_sub(before);
    assert!(grown < 150 << 20, "the server grew by {grown} bytes");
    // Others are served, and the stream goes on once it is read.
    let elsewhere = Grpc::connect(server);
    let mut other = Talk::open(&elsewhere);
    assert_eq!(
        other.ask(with_id("other", ask.clone())).reported(),
        "response other"
    );
    for id in 0..sent {
        assert_eq!(talk.next().response().id, id.to_string());
    }
    assert_eq!(talk.ask(with_id("more", ask)).response().id, "more");
    assert_eq!(talk.rest(), [OK]);
}

#[test]
fn idle_streams_cost_little_and_are_left_alone() {
    const COUNT: usize = 150;
    let streams = format!("--grpc_max_concurrent_streams={}", COUNT + 1);
    let server = Server::start_with("dummy", &["--read_timeout_seconds=1", &streams]);
    let grpc = Grpc::connect(&server);
    Talk::open(&grpc).ask(dummy()).response();
    let before = memory(&server, "VmRSS:");
    let mut talks: Vec<Talk<'_>> = (0..COUNT).map(|_| Talk::open(&grpc)).collect();
    for talk in &mut talks {
        talk.ask(dummy()).response();
    }
    let each = memory(&server, "VmRSS:").saturating_sub(before) / COUNT;
    assert!(each < 100 << 10, "{each} bytes for each");
    // Longer than a body may pause.
    std::thread::sleep(Duration::from_millis(1500));
    for mut talk in talks {
        talk.ask(dummy()).response();
        assert_eq!(talk.rest(), [OK]);
    }
}

#[test]
fn a_stop_answers_what_was_asked_and_ends_the_streams() {
    let mut server = busy::serve(&[]);
    let grpc = Grpc::connect(&server);
    let mut idle = Talk::open(&grpc);
    idle.ask(busy::request(1)).response();
    let mut unused = Talk::open(&grpc);
    let mut runs = Talk::open(&grpc);
    let before = server.processor_time();
    runs.send(busy::request(busy::SECONDS));
    busy::wait_running(&server, before);
    server.signal("TERM");
    server.wait_log("stopping");
    let end = "end: Unavailable: Server is shutting down";
    assert_eq!(idle.next().reported(), end);
    assert_eq!(unused.next().reported(), end);
    busy::check(busy::SECONDS, &Ok(runs.next().response()));
    assert_eq!(runs.next().reported(), end);
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn a_stream_that_takes_too_long_is_ended_by_a_stop() {
    let mut server = busy::serve(&["--shutdown_timeout_seconds", "1"]);
    let grpc = Grpc::connect(&server);
    let mut runs = Talk::open(&grpc);
    let before = server.processor_time();
    runs.send(busy::request(busy::ENDLESS));
    busy::wait_running(&server, before);
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(
        runs.next().reported(),
        "end: Unavailable: Server is shutting down"
    );
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert!(
        started.elapsed() < Duration::from_secs(6),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn calls_that_were_sent_ahead_do_not_run_once_the_stream_has_failed() {
    let (_, client) = shared::connect();
    let folder = repository::folder();
    let [log, go] = ["log", "go"].map(|name| folder.path().join(name));
    let notes = format!(
        "open({log:?}, 'a').write('x')\nwhile not os.path.exists({go:?}): time.sleep(0.01)\ntime.sleep(0.05)\nreturn []"
    );
    let mut talk = Talk::open(&client);
    for _ in 0..12 {
        talk.send(code("py", &notes));
    }
    eventually("the first has begun", || log.exists().then_some(()));
    talk.send(at(3, code("py", &notes)));
    assert!(next(&mut talk).contains("Packet timestamp mismatch"));
    fs::write(&go, "").unwrap();
    assert!(
        rest(talk)
            .last()
            .unwrap()
            .contains("Packet timestamp mismatch")
    );
    let ran = fs::read(&log).unwrap().len();
    assert!(ran < 6, "{ran} calls");
}
