//! Stops of a server while steps run, with and without their clients, and stores that fail at an end: what they leave is stored.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use super::{AWAY, LONG, MODEL, NONE, SOON, ask, busy, serve, start, step};
use crate::support::{
    Server,
    busy::{SECONDS, wait_running},
    http,
    redis::Redis,
    sequence::{Client, Wire, infer},
    wire,
};

#[test]
fn a_step_whose_client_has_left_is_stored_before_a_stop() {
    let redis = found!(Redis::start(&[]));
    for flags in [&LONG[..], &NONE] {
        redis.ask::<()>("FLUSHALL");
        let [mut first, second] = serve("running_busy", &redis.url(), flags);
        let begun = Client::connect(&first).total(Wire::Raw, &busy(7, 1).start());
        assert_eq!(begun, (7, 1.0));
        let long = infer(&busy(7, 2 * SECONDS), true);
        let answers = wire::send(&first, &[wire::Call::infer(&long).within("500m")]);
        let late = answers[0].as_ref().unwrap_err();
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded, "{late}");
        first.signal("TERM");
        assert!(first.wait().success());
        let client = Client::connect(&second);
        assert_eq!(client.total(Wire::Raw, &busy(7, 1)), (7, 3.0), "{flags:?}");
    }
}

#[test]
fn a_step_that_outlasts_the_time_of_a_stop_is_stored_if_the_store_waits_for_so_long() {
    let redis = found!(Redis::start(&[]));
    let limits = ["--shutdown_timeout_seconds", "1"];
    let limits = [&limits[..], &["--sequence_store_timeout_ms", "60000"]].concat();
    let [mut first, second] = serve("running_busy", &redis.url(), &[&LONG[..], &limits].concat());
    let client = Client::connect(&first);
    for id in [7, 8] {
        client.total(Wire::Raw, &busy(id, 1).start());
    }
    let before = first.processor_time();
    let long = infer(&busy(7, 2 * SECONDS), true);
    let long = client.tfs.grpc.call(long);
    wait_running(&first, before);
    first.signal("TERM");
    first.wait_log("the shutdown timeout has passed");
    drop(long);
    drop(client);
    assert!(first.wait().success());
    let client = Client::connect(&second);
    assert_eq!(client.total(Wire::Raw, &busy(8, 1)), (8, 2.0));
    assert_eq!(client.total(Wire::Raw, &busy(7, 1)), (7, 3.0));
}

#[test]
fn an_end_that_the_store_has_missed_is_stored_later() {
    let redis = found!(Redis::start(&[]));
    for flags in [&LONG[..], &NONE] {
        redis.ask::<()>("FLUSHALL");
        let [mut first, second]: [Server; 2] = serve(MODEL, &redis.url(), &[flags, &SOON].concat());
        let client = Client::connect(&first);
        for id in [7, 8, 9] {
            start(&client, id);
        }
        let keyed = |id| ask(id).end().parameter("idempotency_key", "e");
        let ends = [keyed(7), keyed(8), ask(9).end()];
        redis.signal("STOP");
        let calls = ends
            .each_ref()
            .map(|ask| client.tfs.grpc.call(infer(ask, true)));
        let refused = calls.map(|call| call.wait().unwrap_err());
        redis.signal("CONT");
        for away in refused {
            assert_eq!(format!("{:?}: {}", away.code(), away.message()), AWAY);
        }
        for _ in 0..2 {
            assert_eq!(client.total(Wire::Raw, &ends[0]), (7, 2.0), "{flags:?}");
        }
        // Without a key it is another end, which runs if the first one has not.
        let _ = client.send(Wire::Raw, &ends[2]);
        start(&client, 9);
        // What nobody has asked for is stored at a stop, and known to all.
        drop(client);
        first.signal("TERM");
        assert!(first.wait().success());
        let client = Client::connect(&second);
        assert_eq!(client.total(Wire::Raw, &ends[1]), (8, 2.0), "{flags:?}");
        assert_eq!(step(&client, 9), 2.0);
    }
}

#[test]
fn a_server_that_stops_says_so_once_and_for_all() {
    let redis = found!(Redis::start(&[]));
    // Longer than the pause between two words that it lives.
    let limit = ["--shutdown_timeout_seconds", "4"];
    let [mut server]: [Server; 1] = serve(MODEL, &redis.url(), &[&LONG[..], &limit].concat());
    start(&Client::connect(&server), 7);
    // A request that is not there whole holds up the end, and not what is stored before.
    let mut half = http::connect(&server);
    let head = http::head("POST", &format!("/v2/models/{MODEL}/infer"), 1000, &[]);
    half.write_all(head.as_bytes()).unwrap();
    assert_eq!(step(&Client::connect(&server), 7), 2.0);
    let asked = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(asked.elapsed() > Duration::from_secs(2), "there was time");
    let alive = redis.ask::<Vec<String>>("KEYS ovms:server:*");
    assert_eq!(alive, Vec::<String>::new());
}
