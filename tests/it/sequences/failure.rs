//! Requests of sequences that fail during inference, and clients that disconnect: the sequence
//! is closed or unharmed, and never stuck.

use std::io::Write as _;

use ovms::proto::kserve::ModelInferResponse;
use prost::Message as _;
use serde_json::json;
use tonic::Code;

use super::shared;
use crate::support::{
    Server, busy, eventually,
    grpc::{Call, error},
    http::{connect, get, head},
    repository,
    sequence::{
        Ask, Client, Wire, entry, infer, of_infer, rest_body, serve_file, wait_count, write,
    },
    wire,
};

const EXISTS: &str = "Sequence with provided ID already exists";

/// Returns a request to the model that fails unless `split` divides four.
fn fails(x: f32) -> Ask {
    Ask::new("running_fail", x).extra("split", 3)
}

fn works(x: f32) -> Ask {
    Ask::new("running_fail", x).extra("split", 2)
}

fn closed(wire: Wire, id: u64) -> String {
    let text = format!(
        "Internal inference error - [CPU] Reshape node with name 'Reshape_6': [cpu]reshape: the shape \
         of input data (1.4) conflicts with the reshape pattern (3.-1) - sequence {id} has been closed"
    );
    wire.error(Code::Internal, 500, &text)
}

#[test]
fn failures_and_clients_that_leave_close_sequences_or_do_not_harm_them() {
    let mut fails = entry("running_fail", "running_fail");
    fails["max_sequence_number"] = json!(1);
    // Its inferences take turns on one slot.
    let mut busy = entry(BUSY, BUSY);
    busy["nireq"] = json!(1);
    busy["plugin_config"] = busy::PLUGIN_CONFIG.parse().unwrap();
    // What comes behind a failure waits for the replacement.
    let flags = [
        ["--recovery_interval_ms", "1"],
        ["--max_queued_requests", "2"],
    ];
    let flags = [flags.as_flattened(), &["--metrics_enable"]].concat();
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    write(&path, &[fails, busy]);
    let server = serve_file(&path, &flags);
    a_run_that_fails_closes_its_sequence(&server);
    the_run_of_a_client_that_leaves_counts(&server);
    a_client_that_leaves_before_its_turn_has_done_nothing(&server);
    a_deadline_that_passes_before_the_turn_has_done_nothing(&server);
    requests_that_wait_for_their_turns_are_bounded(&server);
    the_end_that_runs_bars_the_id(&server);
}

fn a_run_that_fails_closes_its_sequence(server: &Server) {
    let client = Client::connect(server);
    for wire in Wire::ALL {
        let refused = |ask: Ask| client.refused(wire, &ask);
        let total = |ask: Ask| client.total(wire, &ask);
        for id in [5, u64::MAX] {
            // At the start.
            assert_eq!(refused(fails(1.0).id(id).start()), closed(wire, id));
            assert_eq!(refused(works(1.0).id(id)), wire.unknown());
            // In the middle. One sequence is all that there may be, so the first is gone.
            assert_eq!(total(works(1.0).id(id).start()), (id, 1.0));
            assert_eq!(refused(fails(1.0).id(id)), closed(wire, id));
            assert_eq!(refused(works(1.0).id(id)), wire.unknown());
            assert_eq!(refused(works(1.0).id(id).end()), wire.unknown());
            // At the end.
            assert_eq!(
                total(works(1.0).id(id).start()),
                (id, 1.0),
                "it begins anew"
            );
            assert_eq!(refused(fails(1.0).id(id).end()), closed(wire, id));
            assert_eq!(refused(works(1.0).id(id).end()), wire.unknown());
            // The id is free.
            assert_eq!(total(works(1.0).id(id).start()), (id, 1.0));
            assert_eq!(total(works(1.0).id(id).end()), (id, 2.0));
        }
        assert_eq!(
            refused(fails(1.0).start()),
            closed(wire, 1),
            "the id picked"
        );
        assert_eq!(total(works(1.0).start()), (1, 1.0));
        assert_eq!(total(works(1.0).id(1).end()), (1, 2.0));
    }
    for wire in Wire::KSERVE {
        let only = |ask: Ask| {
            ask.parameter("sequence_start", true)
                .parameter("sequence_end", true)
        };
        assert_eq!(client.refused(wire, &only(fails(1.0))), closed(wire, 1));
        assert_eq!(client.total(wire, &only(works(3.0))), (1, 3.0));
    }
    let page = get(server, "/metrics").text();
    let sequences = page
        .lines()
        .filter(|line| line.starts_with("ovms_sequences") && line.contains("running_fail"));
    insta::assert_snapshot!(sequences.collect::<Vec<_>>().join("\n"), @r#"
    ovms_sequences_active{name="running_fail",version="1"} 0
    ovms_sequences_started{name="running_fail",version="1"} 46
    ovms_sequences_ended{name="running_fail",version="1"} 22
    ovms_sequences_evicted{name="running_fail",version="1"} 0
    ovms_sequences_refused{name="running_fail",version="1"} 0
    "#);
}

#[test]
fn those_behind_a_run_that_fails_find_no_sequence() {
    let client = shared::connect();
    for _ in 0..20 {
        let asks = [
            works(1.0).id(5).start(),
            works(2.0).id(5),
            fails(4.0).id(5),
            works(8.0).id(5),
            works(16.0).id(5).end(),
        ];
        let calls: Vec<_> = asks
            .iter()
            .map(|ask| wire::Call::infer(&infer(ask, true)))
            .collect();
        let answers = wire::send(client.server, &calls);
        let reported = answers.into_iter().map(|answer| match answer {
            Ok(answer) => {
                let answer = ModelInferResponse::decode(answer).unwrap();
                format!("{:?}", of_infer(&answer).total())
            }
            Err(status) => error(&status),
        });
        let reported: Vec<_> = reported.collect();
        let unknown = Wire::Raw.unknown();
        assert_eq!(
            reported,
            [
                "(5, 1.0)",
                "(5, 3.0)",
                &closed(Wire::Raw, 5),
                &unknown,
                &unknown
            ]
        );
    }
}

const BUSY: &str = "running_busy";

/// Number of steps that take long enough for what is done meanwhile, on a machine at full load too.
const WHILE: i64 = busy::SECONDS;

fn quick(x: f32) -> Ask {
    Ask::new(BUSY, x).id(5).extra("steps", 1)
}

fn slow(x: f32) -> Ask {
    Ask::new(BUSY, x).id(5).extra("steps", WHILE)
}

/// Returns a request that runs long enough to be observed.
fn brief(x: f32) -> Ask {
    Ask::new(BUSY, x).id(5).extra("steps", WHILE / 4)
}

/// Starts a request and waits until it runs.
fn running<'a>(server: &Server, client: &'a Client<'_>, ask: &Ask) -> Call<'a> {
    let before = server.processor_time();
    let call = client.tfs.grpc.call(infer(ask, true));
    busy::wait_running(server, before);
    call
}

/// Asserts that a request is not answered within so many milliseconds.
fn assert_late(client: &Client<'_>, ask: &Ask, limit: u64) {
    let mut request = tonic::Request::new(infer(ask, true));
    request.set_timeout(std::time::Duration::from_millis(limit));
    let grpc = &client.tfs.grpc;
    let late = grpc.wait(grpc.client.clone().model_infer(request));
    let code = late.unwrap_err().code();
    let is_late = matches!(code, Code::DeadlineExceeded | Code::Cancelled);
    assert!(is_late, "{code}");
}

/// Waits until `count` requests for the model are in process.
fn wait_in_process(server: &Server, count: usize) {
    let sample = format!(r#"ovms_current_requests{{name="running_busy",version="1"}} {count}"#);
    eventually(&sample, || {
        let page = get(server, "/metrics").text();
        page.lines().any(|line| line == sample).then_some(())
    });
}

fn the_run_of_a_client_that_leaves_counts(server: &Server) {
    let client = Client::connect(server);
    let total = |ask: Ask| client.total(Wire::Raw, &ask);
    assert_eq!(total(quick(1.0).start()), (5, 1.0));
    // In the middle: the next request waits for the run, and finds its sum.
    drop(running(server, &client, &brief(2.0)));
    assert_eq!(total(quick(4.0)), (5, 7.0));
    // By a deadline, which a fast machine does not keep either.
    let long = Ask::new(BUSY, 8.0).id(5).extra("steps", busy::SECONDS);
    assert_late(&client, &long, 200);
    assert_eq!(total(quick(16.0)), (5, 31.0));
    // At the end: the sequence ends all the same.
    drop(running(server, &client, &brief(2.0).end()));
    wait_count(server, r#"active{name="running_busy",version="1"}"#, 0);
    // At the start: it has begun.
    drop(running(server, &client, &brief(2.0).start()));
    assert_eq!(
        client.refused(Wire::Raw, &quick(1.0).start()),
        format!("AlreadyExists: {EXISTS}")
    );
    assert_eq!(total(quick(1.0)), (5, 3.0));
    // Over REST.
    let before = server.processor_time();
    let (json, _) = rest_body(&brief(4.0), false);
    let body = json.to_string();
    let mut stream = connect(server);
    let head = head("POST", "/v2/models/running_busy/infer", body.len(), &[]);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    busy::wait_running(server, before);
    drop(stream);
    assert_eq!(total(quick(8.0).end()), (5, 15.0));
    wait_count(server, r#"active{name="running_busy",version="1"}"#, 0);
}

fn a_client_that_leaves_before_its_turn_has_done_nothing(server: &Server) {
    let client = Client::connect(server);
    let total = |ask: Ask| client.total(Wire::Raw, &ask);
    assert_eq!(total(quick(1.0).start()), (5, 1.0));
    let runs = running(server, &client, &slow(2.0));
    // Two wait for their turns, one for the slot; and one will end the sequence.
    let waits = client.tfs.grpc.call(infer(&quick(100.0), true));
    let other = client.tfs.grpc.call(infer(&quick(7.0).id(6).start(), true));
    wait_in_process(server, 3);
    let ends = client.tfs.grpc.call(infer(&quick(200.0).end(), true));
    wait_in_process(server, 4);
    let ending = "Sequence last request is being processed and it's not available anymore";
    assert_eq!(
        client.refused(Wire::TfsGrpc, &quick(1.0).start()),
        format!("FailedPrecondition: {ending}")
    );
    assert_eq!(
        client.refused(Wire::Json, &quick(1.0)),
        Wire::Json.unknown()
    );
    drop((waits, other, ends));
    wait_in_process(server, 1);
    assert!(!runs.is_answered(), "all of that was while it ran");
    // The sequence does not end, and the other one has not begun.
    assert_eq!(
        client.refused(Wire::Json, &quick(1.0).id(6)),
        Wire::Json.unknown()
    );
    let next = client.tfs.grpc.call(infer(&quick(4.0), true));
    assert_eq!(of_infer(&runs.wait().unwrap()).total(), (5, 3.0));
    assert_eq!(of_infer(&next.wait().unwrap()).total(), (5, 7.0));
    assert_eq!(total(quick(8.0).id(6).start()), (6, 8.0));
    assert_eq!(total(quick(8.0).end()), (5, 15.0));
    assert_eq!(total(quick(8.0).id(6).end()), (6, 16.0));
}

fn a_deadline_that_passes_before_the_turn_has_done_nothing(server: &Server) {
    let client = Client::connect(server);
    let total = |ask: Ask| client.total(Wire::Raw, &ask);
    assert_eq!(total(quick(1.0).start()), (5, 1.0));
    let runs = running(server, &client, &slow(2.0));
    for ask in [quick(100.0), quick(100.0).end(), quick(100.0).id(6).start()] {
        assert_late(&client, &ask, 50);
    }
    // Triton's time limit, in microseconds.
    let limited = quick(100.0).parameter("timeout", 50_000);
    let late = client.refused(Wire::Json, &limited);
    assert!(late.starts_with("504: "), "{late}");
    assert!(!runs.is_answered(), "all of that was while it ran");
    assert_eq!(of_infer(&runs.wait().unwrap()).total(), (5, 3.0));
    assert_eq!(
        client.refused(Wire::Json, &quick(1.0).id(6)),
        Wire::Json.unknown()
    );
    assert_eq!(total(quick(4.0).end()), (5, 7.0));
}

fn requests_that_wait_for_their_turns_are_bounded(server: &Server) {
    let client = Client::connect(server);
    client.total(Wire::Raw, &quick(1.0).start());
    let runs = running(server, &client, &slow(2.0));
    let waiting = [4.0, 8.0].map(|x| {
        let call = client.tfs.grpc.call(infer(&quick(x), true));
        wait_in_process(server, if x == 4.0 { 2 } else { 3 });
        call
    });
    let text = "Server is overloaded - requests that wait for others of their sequences: 2, the \
                most allowed; try again later";
    for wire in Wire::ALL {
        let crowded = wire.error(Code::Unavailable, 503, text);
        assert_eq!(client.refused(wire, &quick(100.0)), crowded);
        assert_eq!(client.refused(wire, &quick(100.0).end()), crowded);
    }
    assert!(!runs.is_answered(), "all of that was while it ran");
    assert_eq!(of_infer(&runs.wait().unwrap()).total(), (5, 3.0));
    let totals = waiting.map(|call| of_infer(&call.wait().unwrap()).total().1);
    assert_eq!(json!(totals), json!([7.0, 15.0]));
    assert_eq!(client.total(Wire::Raw, &quick(1.0).end()), (5, 16.0));
}

fn the_end_that_runs_bars_the_id(server: &Server) {
    let client = Client::connect(server);
    let ask = |steps| Ask::new(BUSY, 1.0).id(5).extra("steps", steps);
    for wire in [Wire::TfsGrpc, Wire::Json] {
        assert_eq!(client.total(wire, &ask(1).start()), (5, 1.0));
        let before = server.processor_time();
        let ends = client
            .tfs
            .grpc
            .call(infer(&ask(busy::SECONDS / 2).end(), true));
        busy::wait_running(server, before);
        for wire in Wire::ALL {
            let ending = wire.error(
                Code::FailedPrecondition,
                412,
                "Sequence last request is being processed and it's not available anymore",
            );
            assert_eq!(client.refused(wire, &ask(1).start()), ending);
            assert_eq!(client.refused(wire, &ask(1)), wire.unknown());
            assert_eq!(
                client.refused(wire, &ask(1).end()),
                wire.unknown(),
                "it ends once"
            );
        }
        assert!(!ends.is_answered(), "all of that was while it ran");
        let ended = of_infer(&ends.wait().unwrap());
        assert_eq!(ended.total(), (5, 2.0));
        assert_eq!(client.total(wire, &ask(1).start()), (5, 1.0));
        assert_eq!(client.total(wire, &ask(1).end()), (5, 2.0));
    }
}
