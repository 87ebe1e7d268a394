//! More clients than slots: some run, some wait, and the rest is refused at once.

use std::{io::Read as _, thread::sleep, time::Duration};

use ovms::proto::kserve::ModelInferRequest;

use crate::support::{
    Server, busy, eventually,
    grpc::{Call, Grpc},
    http::{Answer, JSON_LENGTH, connect, exchange, get, head, read, send},
    thread,
};

const INFER: &str = "/v2/models/busy/infer";

/// Waits until one call is answered while the others continue; returns it and the others.
fn first_answered<'a>(mut calls: Vec<Call<'a>>) -> (Call<'a>, Vec<Call<'a>>) {
    let first = eventually("one of the calls is answered", || {
        calls.iter().position(Call::is_answered)
    });
    (calls.swap_remove(first), calls)
}

#[test]
fn one_runs_one_waits_and_the_third_is_refused_until_one_leaves() {
    let server = busy::serve(&["--max_queued_requests", "1"]);
    let grpc = Grpc::connect(&server);
    let steps = busy::SECONDS;
    let runs = busy::running(&server, &grpc, steps);
    // Which of the two comes second is for the network to say.
    let others = vec![grpc.call(busy::request(1)), grpc.call(busy::request(1))];
    let (refused, mut waiting) = first_answered(others);
    assert!(!runs.is_answered());
    let status = refused.wait().unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    insta::assert_snapshot!(status.message(), @"Server is overloaded - infer requests: 1, all busy; requests waiting: 1, the most allowed; try again later");
    busy::check(steps, &runs.wait());
    busy::check(1, &waiting.remove(0).wait());

    // The place of a client that leaves the queue is free again.
    let steps = 3 * busy::SECONDS;
    let runs = busy::running(&server, &grpc, steps);
    let others = vec![grpc.call(busy::request(1)), grpc.call(busy::request(1))];
    let (refused, waiting) = first_answered(others);
    assert!(refused.wait().is_err(), "the queue is full");
    drop(waiting);
    // One that asks later finds the place, and is served when the slot is free.
    let next = eventually("a place in the queue", || {
        let call = grpc.call(busy::request(2));
        // Refused at once, or waiting: long enough for a refusal to arrive.
        sleep(Duration::from_millis(100));
        (!call.is_answered()).then_some(call)
    });
    assert!(!runs.is_answered());
    busy::check(steps, &runs.wait());
    busy::check(2, &next.wait());
}

#[test]
fn without_a_queue_slots_take_one_each_and_the_next_is_refused() {
    let server = busy::without_queue();
    let grpc = Grpc::connect(&server);
    let steps = busy::SECONDS;
    let runs = busy::running(&server, &grpc, steps);
    insta::assert_snapshot!(post(&server, 1).error(), @"503: Server is overloaded - infer requests: 1, all busy; requests waiting: 0, the most allowed; try again later");
    assert!(!runs.is_answered());
    busy::check(steps, &runs.wait());
    assert_eq!(post(&server, 1).status, 200);

    let ask = || ModelInferRequest {
        model_name: "two_slots".to_owned(),
        ..busy::request(steps)
    };
    let calls = (0..3).map(|_| grpc.call(ask())).collect();
    let (refused, both) = first_answered(calls);
    let status = refused.wait().unwrap_err();
    insta::assert_snapshot!(status.message(), @"Server is overloaded - infer requests: 2, all busy; requests waiting: 0, the most allowed; try again later");
    assert!(both.iter().all(|call| !call.is_answered()));
    for call in both {
        busy::check(steps, &call.wait());
    }
}

fn post(server: &Server, steps: i64) -> Answer {
    let (length, body) = busy::body(steps);
    send(server, "POST", INFER, &[(JSON_LENGTH, &length)], &body)
}

#[test]
fn every_request_that_waits_is_served() {
    let server = busy::shared();
    let grpc = Grpc::connect(&server);
    let calls: Vec<_> = (1..=100)
        .map(|steps| (steps, grpc.call(busy::request(steps))))
        .collect();
    for (steps, call) in calls {
        busy::check(steps, &call.wait());
    }
}

#[test]
fn a_connection_above_the_limit_waits_until_another_one_closes_or_is_refused() {
    let server = Server::start_with("dummy", &["--max_connections", "1"]);
    let request = head("GET", "/v2/health/live", 0, &[]);
    // At work, or it would make room.
    let mut first = connect(&server);
    let begun = head("POST", "/v2/models/dummy/infer", 1, &[]);
    std::io::Write::write_all(&mut first, begun.as_bytes()).unwrap();

    let mut second = connect(&server);
    second
        .set_read_timeout(Some(Duration::from_millis(1500)))
        .unwrap();
    std::io::Write::write_all(&mut second, request.as_bytes()).unwrap();
    assert!(second.read(&mut [0]).is_err(), "there is no place for it");
    assert_eq!(exchange(&mut first, "", b" ").status, 412);
    // The other port has a limit of its own.
    Grpc::connect(&server).check_serves();

    drop(first);
    second
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut begin = [0; 15];
    second.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200 OK");
    drop(second);

    // A client that is refused and stays gives its place back.
    let mut stays = connect(&server);
    std::io::Write::write_all(&mut stays, b"\0\r\n\r\n").unwrap();
    assert_eq!(read(&mut stays).status, 400);
    assert_eq!(get(&server, "/v2/health/live").status, 200);
    drop(stays);
}

#[test]
fn many_connections_at_once_are_all_served() {
    let server = Server::shared("dummy");
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = connect(server);
            thread(move || {
                let request = head("GET", "/v2/models/dummy", 0, &[]);
                (0..20).all(|_| exchange(&mut stream, &request, b"").status == 200)
            })
        })
        .collect();
    for client in clients {
        assert!(client.join().unwrap());
    }
    assert_eq!(get(server, "/v2/health/ready").status, 200);
}
