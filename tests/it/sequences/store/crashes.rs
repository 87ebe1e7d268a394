//! Servers that are killed, stopped, and started again.

use super::{LONG, LOST, MODEL, NONE, STEP, alone, ask, busy, lose, refused, serve, start, step};
use crate::support::{
    Server, eventually,
    redis::Redis,
    sequence::{Client, Wire, infer},
};

#[test]
fn nothing_is_lost_if_each_step_is_stored() {
    const MANY: u64 = 30;
    let redis = found!(Redis::start(&[]));
    let [first, mut second] = serve(MODEL, &redis.url(), &STEP);
    let client = Client::connect(&first);
    for id in 1..=MANY {
        start(&client, id);
    }
    drop(client);
    first.signal("KILL");
    for total in [2.0, 3.0, 4.0] {
        if total > 2.0 {
            // The next one is all alone.
            second.signal("KILL");
            second.wait();
            [second] = serve(MODEL, &redis.url(), &STEP);
        }
        let client = Client::connect(&second);
        for id in 1..=MANY {
            assert_eq!(step(&client, id), total);
        }
    }
}

#[test]
fn a_step_whose_server_is_killed_has_not_happened() {
    let redis = found!(Redis::start(&[]));
    let [first, second] = serve("running_busy", &redis.url(), &STEP);
    let clients = [&first, &second].map(Client::connect);
    clients[0].total(Wire::Raw, &busy(1, 1).start());
    let before = first.processor_time();
    let calls = [busy(1, 300_000), busy(2, 300_000).start()];
    let calls = calls.map(|ask| clients[0].tfs.grpc.call(infer(&ask, true)));
    crate::support::busy::wait_running(&first, before);
    eventually("the start is on its way", || {
        redis
            .ask::<bool>("EXISTS ovms:{running%5Fbusy}:s:2")
            .then_some(())
    });
    first.signal("KILL");
    for call in calls {
        call.wait().unwrap_err();
    }
    assert_eq!(clients[1].total(Wire::Raw, &busy(1, 1)), (1, 2.0));
    assert_eq!(clients[1].total(Wire::Raw, &busy(2, 1).start()), (2, 1.0));
}

#[test]
fn newer_states_are_handed_over_by_who_lives_and_lost_with_who_is_killed() {
    let redis = found!(Redis::start(&[]));
    for flags in [&LONG[..], &NONE] {
        redis.ask::<()>("FLUSHALL");
        let [mut first, second] = serve(MODEL, &redis.url(), flags);
        let clients = [&first, &second].map(Client::connect);
        for id in 1..=20 {
            start(&clients[0], id);
        }
        for total in [2.0, 4.0] {
            assert_eq!(step(&clients[1], 1), total);
            assert_eq!(step(&clients[0], 1), total + 1.0);
        }
        // This one is stored, and nobody has used it since.
        start(&clients[0], 30);
        step(&clients[1], 30);
        drop(clients);
        first.signal("TERM");
        assert!(first.wait().success());
        let [third] = serve(MODEL, &redis.url(), flags);
        let clients = [&second, &third].map(Client::connect);
        assert_eq!(step(&clients[1], 1), 6.0);
        for id in 2..=20 {
            assert_eq!(step(&clients[1], id), 2.0);
        }
        assert_eq!(step(&clients[0], 20), 3.0);
        second.signal("KILL");
        // Two that it had, of which the store has an older state.
        for id in [20, 30] {
            assert_eq!(refused(&clients[1], id), LOST);
            assert_eq!(refused(&clients[1], id), Wire::Raw.unknown());
            start(&clients[1], id);
        }
        assert_eq!(step(&clients[1], 1), 7.0);
    }
}

#[test]
fn after_an_interval_nothing_is_lost_with_who_is_killed() {
    let redis = found!(Redis::start(&[]));
    let interval = ["--sequence_store_interval_ms", "50"];
    let [first, second]: [Server; 2] = serve(MODEL, &redis.url(), &interval);
    let clients = [&first, &second].map(Client::connect);
    start(&clients[0], 1);
    assert_eq!(step(&clients[0], 1), 2.0);
    eventually("the state is stored", || {
        let record = redis.ask::<Vec<String>>(&format!("HMGET {} n a", super::record(1)));
        (record == ["2", "0"]).then_some(())
    });
    first.signal("KILL");
    assert_eq!(step(&clients[1], 1), 3.0);
    assert_eq!(clients[1].total(Wire::Json, &ask(1).end()), (1, 4.0));
}

#[test]
fn a_start_takes_the_place_of_a_sequence_that_is_lost_with_its_server() {
    let redis = found!(Redis::start(&[]));
    let (first, lease) = alone(&redis, 7);
    let [second]: [Server; 1] = serve(MODEL, &redis.url(), &LONG);
    let client = Client::connect(&second);
    let exists = "AlreadyExists: Sequence with provided ID already exists";
    assert_eq!(client.refused(Wire::Raw, &ask(7).start()), exists);
    lose(first, &redis, &lease);
    start(&client, 7);
    assert_eq!(step(&client, 7), 2.0);
}
