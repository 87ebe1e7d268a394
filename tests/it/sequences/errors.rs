//! Errors of requests in sequences: texts, codes and their order, in every protocol.

use tonic::Code;

use super::shared;
use crate::support::sequence::{Answer, Ask, Client, Wire, counts, infer};

const EXISTS: &str = "Sequence with provided ID already exists";
const FULL: &str = "Max sequence number has been reached. Could not create new sequence.";

/// Returns the error of a tensor that does not fit, in the words of a protocol.
fn bad_tensor(wire: Wire) -> String {
    wire.invalid("Invalid input shape - Expected: (1,4); Actual: (1,5); input name: x")
}

#[test]
fn the_registry_refuses_what_its_rules_do_not_allow() {
    let client = shared::connect();
    let ask = |x| Ask::new("errors_rules", x);
    for (number, wire) in (1..).zip(Wire::ALL) {
        let refused = |ask: Ask| client.refused(wire, &ask);
        // The largest id is one as others are.
        for id in [u64::MAX, number, i64::MAX as u64 + 1] {
            assert_eq!(client.total(wire, &ask(1.0).id(id).start()), (id, 1.0));
            let exists = wire.error(Code::AlreadyExists, 409, EXISTS);
            assert_eq!(refused(ask(1.0).id(id).start()), exists);
            assert_eq!(client.total(wire, &ask(2.0).id(id)), (id, 3.0));
            assert_eq!(client.total(wire, &ask(2.0).id(id).control(0)), (id, 5.0));
            assert_eq!(client.total(wire, &ask(2.0).id(id).end()), (id, 7.0));
            assert_eq!(
                refused(ask(1.0).id(id).end()),
                wire.unknown(),
                "it ends once"
            );
            assert_eq!(refused(ask(1.0).id(id)), wire.unknown());
        }
        // An id is free again, and its state begins anew.
        assert_eq!(
            client.total(wire, &ask(5.0).id(number).start()),
            (number, 5.0)
        );
        assert_eq!(
            client.total(wire, &ask(5.0).id(number).end()),
            (number, 10.0)
        );
    }
}

#[test]
fn a_bad_tensor_does_nothing_to_a_sequence() {
    let client = shared::connect();
    let ask = |x| Ask::new("errors_bad", x);
    for wire in Wire::ALL {
        let refused = |ask: Ask| client.refused(wire, &ask);
        let bad = bad_tensor(wire);
        assert_eq!(refused(ask(1.0).id(9).start().bad()), bad);
        assert_eq!(
            refused(ask(1.0).id(9)),
            wire.unknown(),
            "nothing has started"
        );
        assert_eq!(client.total(wire, &ask(1.0).id(9).start()), (9, 1.0));
        assert_eq!(refused(ask(1.0).id(9).start().bad()), bad);
        assert_eq!(refused(ask(1.0).id(9).bad()), bad);
        assert_eq!(refused(ask(1.0).id(9).end().bad()), bad);
        assert_eq!(client.total(wire, &ask(1.0).id(9)), (9, 2.0), "it goes on");
        assert_eq!(client.total(wire, &ask(1.0).id(9).end()), (9, 3.0));
    }
}

#[test]
fn special_inputs_without_raw_contents_are_counted_with_the_others() {
    let client = shared::connect();
    let mut request = infer(&Ask::new("errors_bad", 1.0).id(9), true);
    let inputs = request.inputs.len();
    request.raw_input_contents.truncate(1);
    let refused = client.tfs.grpc.refused(request);
    let end = format!("for each of the {inputs} inputs; Actual: 1");
    assert!(inputs == 2 && refused.ends_with(&end), "{refused}");
}

#[test]
fn more_starts_than_there_may_be_are_refused_and_harm_nobody() {
    const LIMIT: u64 = 8;
    let server = shared::server();
    let client = Client::connect(server);
    let ask = |x| Ask::new("errors_full", x);
    for id in 1..=LIMIT {
        client.total(Wire::Raw, &ask(1.0).id(id).start());
    }
    std::thread::scope(|scope| {
        for wire in Wire::ALL {
            scope.spawn(move || {
                let own = Client::connect(server);
                for round in 0..50 {
                    // Before the id is looked at, even if it exists.
                    let id = if round % 2 == 0 { 3 } else { 0 };
                    let refused = own.refused(wire, &ask(1.0).id(id).start());
                    assert_eq!(refused, wire.error(Code::Unavailable, 503, FULL));
                }
            });
        }
    });
    for id in 1..=LIMIT {
        assert_eq!(client.total(Wire::Raw, &ask(1.0).id(id).end()), (id, 2.0));
    }
    let counts = counts(server);
    let of = |name: &str| counts[&format!(r#"{name}{{name="errors_full",version="1"}}"#)];
    assert_eq!(
        ["active", "started", "ended", "evicted", "refused"].map(of),
        [0, LIMIT, LIMIT, 0, 300]
    );
}

#[test]
fn ids_that_the_server_picks_are_the_lowest_from_where_it_is() {
    let client = shared::connect();
    let ask = |x| Ask::new("errors_ids", x);
    let start = |id| {
        let Answer { id, .. } = client.send(Wire::Json, &ask(1.0).id(id).start()).unwrap();
        id
    };
    let end = |id| client.total(Wire::Raw, &ask(1.0).id(id).end());
    assert_eq!(start(0), 1);
    end(1);
    assert_eq!(start(0), 1, "an id that is used does not move the counter");
    assert_eq!(start(0), 2);
    end(1);
    assert_eq!(start(0), 3, "the counter never goes down");
    for taken in [4, 5, 7] {
        assert_eq!(start(taken), taken);
    }
    assert_eq!([start(0), start(0)], [6, 8]);
    end(2);
    assert_eq!(start(2), 2, "what the client names is free");
    assert_eq!(start(u64::MAX), u64::MAX);
}
