//! Stores that have lost what was written: what is older than an answer is never gone on with.

use super::{AWAY, LOST, MODEL, SOON, STEP, ask, refused, serve, start, step};
use crate::support::{
    Server, eventually,
    redis::{DURABLE, Redis},
    sequence::{Ask, Client, Wire},
};

/// Starts a server that follows another, and waits until it has what that one has.
fn replica(of: &Redis, flags: &[&str]) -> Option<Redis> {
    let redis = Redis::start(flags)?;
    redis.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", of.port));
    eventually("the replica follows", || {
        let state = redis.ask::<String>("INFO replication");
        state.contains("master_link_status:up").then_some(())
    });
    Some(redis)
}

#[test]
fn a_store_that_forgets_has_no_older_states() {
    let mut redis = found!(Redis::start(&[]));
    for flags in [&STEP[..], &super::LONG] {
        redis.ask::<()>("FLUSHALL");
        let servers: [Server; 2] = serve(MODEL, &redis.url(), flags);
        let clients = servers.each_ref().map(Client::connect);
        for id in [7, 8, 9] {
            start(&clients[0], id);
        }
        redis.crash();
        redis.again();
        // In intervals, a server that has newer states finds out when it next says that it lives.
        eventually("both say that they live", || {
            let alive = redis.ask::<Vec<String>>("KEYS ovms:server:*");
            (alive.len() == 2).then_some(())
        });
        // Another sequence of the same id, of which the first server knows nothing.
        let other = Ask::new(MODEL, 100.0).id(7);
        assert_eq!(clients[1].total(Wire::Raw, &other.start()), (7, 100.0));
        assert_eq!(refused(&clients[1], 8), Wire::Raw.unknown());
        assert_eq!(step(&clients[0], 7), 101.0);
        assert_eq!(step(&clients[1], 7), 102.0);
        assert_eq!(
            clients[0].refused(Wire::Raw, &ask(8).end()),
            Wire::Raw.unknown()
        );
        start(&clients[1], 9);
    }
}

#[test]
fn a_store_that_may_have_forgotten_the_last_second_is_not_believed() {
    let mut redis = found!(Redis::start(&["--appendonly", "yes"]));
    let servers: [Server; 2] = serve(MODEL, &redis.url(), &STEP);
    let clients = servers.each_ref().map(Client::connect);
    for id in [7, 8, 9] {
        start(&clients[0], id);
        assert_eq!(step(&clients[0], id), 2.0);
    }
    // While it flushes what came before, it holds the rest back, which would be gone with it.
    eventually("its file has the steps", || {
        let state = redis.ask::<String>("INFO persistence");
        state.contains("aof_buffer_length:0\r").then_some(())
    });
    redis.crash();
    redis.again();
    assert_eq!(refused(&clients[0], 7), LOST);
    assert_eq!(refused(&clients[1], 8), LOST);
    assert_eq!(refused(&clients[1], 7), Wire::Raw.unknown());
    start(&clients[1], 7);
    assert_eq!(step(&clients[0], 7), 2.0);
    // Nobody has to find out before that it is lost.
    start(&clients[1], 9);
    assert_eq!(step(&clients[0], 9), 2.0);
}

#[test]
fn what_a_promoted_replica_lacks_is_lost() {
    let mut first = found!(Redis::start(&DURABLE));
    let mut second = found!(replica(&first, &DURABLE));
    let servers: [Server; 2] = serve(MODEL, &first.url(), &[STEP, SOON].concat());
    let clients = servers.each_ref().map(Client::connect);
    for id in [7, 8] {
        start(&clients[0], id);
    }
    let record = super::record(8);
    eventually("the replica has them", || {
        second
            .ask::<bool>(&format!("EXISTS {record}"))
            .then_some(())
    });
    // From here on it lacks what the first one answers.
    second.ask::<()>("REPLICAOF NO ONE");
    for id in [7, 8] {
        assert_eq!(step(&clients[0], id), 2.0);
    }
    start(&clients[0], 9);
    first.crash();
    second.move_to(first.port);
    assert_eq!(refused(&clients[0], 7), LOST);
    assert_eq!(refused(&clients[1], 8), LOST);
    assert_eq!(refused(&clients[0], 9), Wire::Raw.unknown());
    for id in [7, 8] {
        start(&clients[1], id);
        assert_eq!(step(&clients[0], id), 2.0);
    }
}

#[test]
fn nothing_is_lost_that_a_replica_was_waited_for() {
    let mut first = found!(Redis::start(&[]));
    let url = format!("{}?wait=1", first.url());
    let servers: [Server; 2] = serve(MODEL, &url, &[STEP, SOON].concat());
    let clients = servers.each_ref().map(Client::connect);
    assert_eq!(clients[0].refused(Wire::Raw, &ask(7).start()), AWAY);
    let mut second = found!(replica(&first, &[]));
    // The start before may have begun it.
    start(&clients[0], 7);
    assert_eq!(step(&clients[1], 7), 2.0);
    for id in [8, 9] {
        start(&clients[0], id);
    }
    // A replica that is stalled has not got it.
    second.signal("STOP");
    assert_eq!(refused(&clients[0], 8), AWAY);
    // Nor that one is over, though the first attempt has ended it.
    assert_eq!(clients[0].refused(Wire::Raw, &ask(9).end()), AWAY);
    second.signal("CONT");
    first.crash();
    second.ask::<()>("REPLICAOF NO ONE");
    second.move_to(first.port);
    let _third = found!(replica(&second, &[]));
    assert_eq!(step(&clients[0], 7), 3.0);
    assert_eq!(step(&clients[1], 7), 4.0);
}
