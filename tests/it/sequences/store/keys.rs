//! Idempotency keys: a request that comes again gets the answer again, and changes nothing.

use serde_json::json;
use tonic::Code;

use super::{
    MODEL,
    shared::{self as shared_stores, pair},
};
use crate::{
    sequences::shared,
    support::{
        http,
        sequence::{Ask, Client, Wire, infer, of_infer},
        streams::Talk,
    },
};

/// Places of the key: beside the request, and among its parameters.
fn forms() -> impl Iterator<Item = (Wire, fn(Ask, &str) -> Ask)> {
    let beside: fn(Ask, &str) -> Ask = |ask, key| ask.key(key);
    let within: fn(Ask, &str) -> Ask = |ask, key| ask.parameter("idempotency_key", key);
    let all = Wire::ALL.map(|wire| (wire, beside)).into_iter();
    all.chain(Wire::KSERVE.map(|wire| (wire, within)))
}

#[test]
fn a_request_that_comes_again_gets_its_answer_from_any_server() {
    let ask = |id| Ask::new("again", 1.0).id(id);
    for durability in ["step", "long"] {
        let pair = found!(pair(durability));
        let clients = pair.clients();
        for ((wire, keyed), id) in forms().zip(100..) {
            // The first one runs on `place`, and comes again on both.
            let thrice = |place: usize, ask: Ask| {
                let first = clients[place].total(wire, &ask);
                for place in [place, 1 - place, place] {
                    assert_eq!(clients[place].total(wire, &ask), first, "{wire:?} {ask:?}");
                }
                first
            };
            assert_eq!(thrice(0, keyed(ask(id).start(), "1")), (id, 1.0));
            assert_eq!(thrice(1, keyed(ask(id), "2")), (id, 2.0));
            assert_eq!(thrice(0, keyed(ask(id), "3")), (id, 3.0));
            assert_eq!(clients[1].total(wire, &ask(id)), (id, 4.0));
            assert_eq!(thrice(0, keyed(ask(id).end(), "4")), (id, 5.0));
            assert_eq!(
                clients[1].refused(wire, &keyed(ask(id), "5")),
                wire.unknown()
            );
            // With the end of the sequence its id is free, whatever is remembered of it.
            assert_eq!(thrice(1, keyed(ask(id).start(), "1")), (id, 1.0));
            clients[0].total(wire, &ask(id).end());
            // Ids that the server chooses.
            let begin = |key| keyed(Ask::new("again", 1.0).start(), key);
            let (own, key) = (format!("{id} a"), format!("{id} b"));
            let (one, total) = thrice(0, begin(&own));
            let (other, _) = thrice(1, begin(&key));
            assert!(one != other && total == 1.0, "{one} {other}");
            for id in [one, other] {
                assert_eq!(clients[0].total(wire, &ask(id).end()), (id, 2.0));
            }
        }
        // Requests of a stream.
        let mut talks = clients
            .each_ref()
            .map(|client| Talk::open(&client.tfs.grpc));
        for (id, ask) in [(50, ask(50).start()), (50, ask(50)), (50, ask(50).end())] {
            let message = infer(
                &ask.clone().parameter("idempotency_key", format!("{ask:?}")),
                true,
            );
            let [first, again] = [0, 1].map(|place| {
                let answer = talks[place].ask(message.clone()).response();
                of_infer(&answer).total()
            });
            assert_eq!((first, first.0), (again, id));
        }
    }
}

/// Returns the error of a request that comes after later ones.
pub(super) fn late(wire: Wire, id: u64) -> String {
    let text = format!(
        "Sequence {id} has gone on since a request with this idempotency key - it is not run again; a request of \
         its own has another key"
    );
    wire.error(Code::Aborted, 409, &text)
}

#[test]
fn a_request_that_comes_late_is_not_run_again_and_says_so() {
    let pair = found!(pair("step"));
    let client = Client::connect(&pair.servers[0]);
    let ask = |id| Ask::new("late", 1.0).id(id);
    for (wire, id) in Wire::ALL.into_iter().zip(1..) {
        let total = |ask: Ask, key: &str| client.total(wire, &ask.key(key)).1;
        assert_eq!(total(ask(id).start(), "1"), 1.0);
        assert_eq!(total(ask(id), "2"), 2.0);
        assert_eq!(total(ask(id), "3"), 3.0);
        assert_eq!(client.refused(wire, &ask(id).key("2")), late(wire, id));
        assert_eq!(total(ask(id), "4"), 4.0);
    }
}

#[test]
fn a_start_that_comes_after_the_end_of_its_sequence_begins_no_other() {
    let folder = shared_stores::file("step");
    let pair = pair("step");
    let servers = pair.iter().flat_map(|pair| &pair.servers);
    for (server, model) in servers.map(|it| (it, "late")).chain([(folder, MODEL)]) {
        let client = Client::connect(server);
        for wire in Wire::ALL {
            let key = format!("{} {wire:?}", server.port);
            let begin = Ask::new(model, 1.0).start().key(&key);
            let (id, _) = client.total(wire, &begin);
            let end = Ask::new(model, 1.0).id(id).end().key("end");
            assert_eq!(client.total(wire, &end), (id, 2.0));
            assert_eq!(client.refused(wire, &begin), late(wire, id));
            assert_eq!(client.total(wire, &end), (id, 2.0));
        }
    }
}

#[test]
fn keys_that_are_none_are_refused() {
    let server = shared::server();
    let client = Client::connect(server);
    let ask = |id| Ask::new("keys", 1.0).id(id);
    for (wire, keyed) in forms() {
        for length in [0, 257] {
            let text = format!("Idempotency key has {length} bytes; expected 1 to 256");
            let ask = keyed(ask(7).start(), &"x".repeat(length));
            assert_eq!(client.refused(wire, &ask), wire.invalid(&text));
        }
        // Without a store each request is one of its own.
        let longest = "x".repeat(256);
        for (total, ask) in [(1.0, ask(7).start()), (2.0, ask(7)), (3.0, ask(7).end())] {
            assert_eq!(client.total(wire, &keyed(ask, &longest)), (7, total));
        }
    }
    for wire in Wire::KSERVE {
        for value in [json!(1), json!(true)] {
            let ask = ask(7).start().parameter("idempotency_key", value);
            let text = "Parameter idempotency_key is no text";
            assert_eq!(client.refused(wire, &ask), wire.invalid(text));
        }
    }
    let key = [("ovms-idempotency-key", "\u{fc}")];
    let path = "/v2/models/keys/infer";
    let (body, _) = crate::support::sequence::rest_body(&ask(7).start(), false);
    let answer = http::send(server, "POST", path, &key, body.to_string().as_bytes());
    let text = "400: Idempotency key has 0 bytes; expected 1 to 256";
    assert_eq!(answer.error(), text);
}
