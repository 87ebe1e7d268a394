//! Steps of sequences that hop from server to server.

use tonic::Code;

use super::{STEP, busy, serve, shared::pair};
use crate::{
    sequences::{
        shared,
        state_modes::{self, FIXTURES},
    },
    support::{
        Server, eventually,
        redis::Redis,
        sequence::{Answer, Ask, Client, Wire},
    },
};

/// Steps that take a while.
const SLOW: i64 = 100_000;

const EXISTS: &str = "Sequence with provided ID already exists";

#[test]
fn answers_are_those_of_one_server_over_every_api() {
    let pair = found!(pair("step"));
    let [first, second] = &pair.servers;
    let clients = [first, second, shared::server()].map(Client::connect);
    let fixtures = FIXTURES.iter().map(|(name, ..)| *name);
    for fixture in fixtures.filter(|name| *name != "running_large") {
        for (id, wire) in (11..).zip(Wire::ALL) {
            for number in 1..=5_u8 {
                let ask = state_modes::ask(fixture.to_owned(), fixture, id, number);
                let ask = match number {
                    1 => ask.start(),
                    5 => ask.end(),
                    _ => ask,
                };
                let bits = |client: &Client<'_>| {
                    let Answer { values, .. } = client.send(wire, &ask).unwrap();
                    values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                let [expected, found] =
                    [2, usize::from(number) % 2].map(|place| bits(&clients[place]));
                assert_eq!(found, expected, "{fixture} {wire:?} {number}");
            }
        }
    }
}

#[test]
fn ids_and_their_number_are_those_of_all_servers() {
    let ask = |id| Ask::new("ids", 1.0).id(id);
    for durability in ["step", "long"] {
        let pair = found!(pair(durability));
        let clients = pair.clients();
        let next = || Ask::new("ids", 1.0).start();
        for wire in Wire::ALL {
            // Another one than before a failover that has lost the count.
            let (first, total) = clients[0].total(wire, &next());
            assert_eq!(total, 1.0);
            let (second, third) = (first + 1, first + 2);
            for (id, place) in [(second, 1), (third, 0)] {
                assert_eq!(clients[place].total(wire, &next()), (id, 1.0));
            }
            let full = "Max sequence number has been reached. Could not create new sequence.";
            let full = wire.error(Code::Unavailable, 503, full);
            for client in &clients {
                assert_eq!(client.refused(wire, &next()), full);
            }
            let exists = wire.error(Code::AlreadyExists, 409, EXISTS);
            assert_eq!(clients[1].total(wire, &ask(third).end()), (third, 2.0));
            assert_eq!(clients[0].refused(wire, &ask(second).start()), exists);
            assert_eq!(clients[1].refused(wire, &ask(first).start()), exists);
            for client in &clients {
                assert_eq!(client.refused(wire, &ask(third)), wire.unknown());
                assert_eq!(client.refused(wire, &ask(third).end()), wire.unknown());
            }
            assert_eq!(clients[1].total(wire, &ask(third).start()), (third, 1.0));
            for id in first..=third {
                assert_eq!(clients[0].total(wire, &ask(id).end()), (id, 2.0));
            }
            let count = format!("DEL {}:{{ids}}:next", pair.prefix);
            assert_eq!(pair.redis.ask::<usize>(&count), 1);
        }
    }
}

/// A start beside them has a place here until the store has refused it.
#[test]
fn starts_beyond_the_limit_take_no_step_of_others_away() {
    let pair = found!(pair("step"));
    let client = Client::connect(&pair.servers[0]);
    let ask = |id| Ask::new("room", 1.0).id(id);
    for id in 1..=3 {
        assert_eq!(client.total(Wire::Raw, &ask(id).start()), (id, 1.0));
    }
    let call = |ask: Ask| {
        let message = crate::support::sequence::infer(&ask, true);
        client.tfs.grpc.call(message)
    };
    for round in 2_u8..60 {
        let starts: Vec<_> = (10..16).map(|id| call(ask(id).start())).collect();
        let steps: Vec<_> = (1..=3).map(|id| call(ask(id))).collect();
        for step in steps {
            let answer = step.wait().expect("it is one of those that there are");
            let (_, total) = crate::support::sequence::of_infer(&answer).total();
            assert_eq!(total, f32::from(round));
        }
        for start in starts {
            let refused = start.wait().expect_err("there are three");
            assert_eq!(refused.code(), Code::Unavailable);
        }
    }
}

#[test]
fn a_stalled_server_takes_over_again_and_its_late_commit_is_refused() {
    let redis = found!(Redis::start(&[]));
    let servers: [Server; 2] = serve("running_busy", &redis.url(), &STEP);
    let clients = servers.each_ref().map(Client::connect);
    let quick = |place: usize, ask: Ask| clients[place].total(Wire::Raw, &ask).1;
    assert_eq!(quick(0, busy(7, 1).start()), 1.0);
    servers[0].signal("STOP");
    assert_eq!(quick(1, busy(7, 1)), 2.0);
    servers[0].signal("CONT");
    assert_eq!(quick(0, busy(7, 1)), 3.0);
    // Within a step.
    let before = servers[0].processor_time();
    let grpc = &clients[0].tfs.grpc;
    let late = grpc.call(crate::support::sequence::infer(&busy(7, SLOW), true));
    crate::support::busy::wait_running(&servers[0], before);
    servers[0].signal("STOP");
    assert_eq!(quick(1, busy(7, 1)), 4.0);
    assert!(!late.is_answered());
    servers[0].signal("CONT");
    // It has run on the older state, and runs again on the newest.
    let late = crate::support::sequence::of_infer(&late.wait().unwrap());
    assert_eq!(late.total(), (7, 5.0));
    assert_eq!(quick(1, busy(7, 1).end()), 6.0);
    a_start_that_its_repetition_overtakes_has_the_answer_of_that(&servers);
}

fn a_start_that_its_repetition_overtakes_has_the_answer_of_that(servers: &[Server; 2]) {
    let clients = servers.each_ref().map(Client::connect);
    // The same request at both, each of which stalls within its run.
    let mut starts = servers.iter().zip(&clients).map(|(server, client)| {
        let before = server.processor_time();
        let start = busy(7, SLOW).start().parameter("idempotency_key", "k");
        let start = client
            .tfs
            .grpc
            .call(crate::support::sequence::infer(&start, true));
        crate::support::busy::wait_running(server, before);
        server.signal("STOP");
        start
    });
    let (first, second) = (starts.next().unwrap(), starts.next().unwrap());
    for (server, start) in servers.iter().zip([first, second]) {
        server.signal("CONT");
        let answer = crate::support::sequence::of_infer(&start.wait().unwrap());
        assert_eq!(answer.total(), (7, 1.0));
    }
    assert_eq!(clients[1].total(Wire::Raw, &busy(7, 1).end()), (7, 2.0));
}

#[test]
fn a_sequence_that_is_busy_holds_up_no_handover_of_others_and_a_stalled_owner_takes_no_part() {
    let redis = found!(Redis::start(&[]));
    let servers: [Server; 2] = serve("running_busy", &redis.url(), &super::LONG);
    let clients = servers.each_ref().map(Client::connect);
    for id in 1..=2 {
        clients[0].total(Wire::Raw, &busy(id, 1).start());
    }
    let before = servers[0].processor_time();
    let message = |steps| crate::support::sequence::infer(&busy(1, steps), true);
    let long = clients[0]
        .tfs
        .grpc
        .call(message(crate::support::busy::SECONDS));
    crate::support::busy::wait_running(&servers[0], before);
    let wants = clients[1].tfs.grpc.call(message(1));
    // It has asked for the first by now, and asks again and again.
    eventually("the other server asks", || {
        let stats = redis.ask::<String>("INFO commandstats");
        stats.contains("cmdstat_publish").then_some(())
    });
    assert_eq!(clients[1].total(Wire::Raw, &busy(2, 1)), (2, 2.0));
    assert!(!long.is_answered() && !wants.is_answered());
    for (call, total) in [(long, 2.0), (wants, 3.0)] {
        let answer = crate::support::sequence::of_infer(&call.wait().unwrap());
        assert_eq!(answer.total(), (1, total));
    }
    a_stalled_owner_of_newer_states_loses_them_and_takes_no_part_in_what_follows(&servers);
}

fn a_stalled_owner_of_newer_states_loses_them_and_takes_no_part_in_what_follows(
    servers: &[Server; 2],
) {
    let clients = servers.each_ref().map(Client::connect);
    let quick = |place: usize, ask: Ask| clients[place].total(Wire::Raw, &ask).1;
    assert_eq!(quick(0, busy(7, 1).start()), 1.0);
    let before = servers[0].processor_time();
    let grpc = &clients[0].tfs.grpc;
    let late = grpc.call(crate::support::sequence::infer(&busy(7, SLOW), true));
    crate::support::busy::wait_running(&servers[0], before);
    servers[0].signal("STOP");
    assert_eq!(clients[1].refused(Wire::Raw, &busy(7, 1)), super::LOST);
    for total in [1.0, 2.0] {
        let ask = busy(7, 1);
        let ask = if total == 1.0 { ask.start() } else { ask };
        assert_eq!(quick(1, ask), total);
    }
    servers[0].signal("CONT");
    let late = crate::support::sequence::of_infer(&late.wait().unwrap());
    assert_eq!(late.total(), (7, 3.0));
    assert_eq!(quick(1, busy(7, 1).end()), 4.0);
}

#[test]
fn what_ends_elsewhere_and_begins_anew_is_not_taken_for_what_was_here() {
    let pair = found!(pair("step"));
    let clients = pair.clients();
    // Keys that count the steps of each sequence.
    for (round, place) in [(1.0, 0), (10.0, 1)] {
        let ask = |key| Ask::new("anew", round).id(7).key(key);
        let send = |place: usize, ask| clients[place].total(Wire::Raw, &ask);
        assert_eq!(send(place, ask("1").start()), (7, round));
        assert_eq!(send(0, ask("2")), (7, 2.0 * round));
        assert_eq!(send(1, ask("3").end()), (7, 3.0 * round));
    }
    let ask = Ask::new("anew", 1.0).id(7);
    assert_eq!(clients[0].refused(Wire::Raw, &ask), Wire::Raw.unknown());
    let begun = clients[0].total(Wire::Raw, &ask.clone().start());
    assert_eq!(begun, (7, 1.0));
    assert_eq!(clients[1].total(Wire::Raw, &ask), (7, 2.0));
}
