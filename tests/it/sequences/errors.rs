//! Errors of requests in sequences: texts, codes and their order, in every protocol.

use tonic::Code;

use crate::support::{
    Server,
    http::post,
    sequence::{Answer, Ask, Client, Special, Wire, counts, serve},
};

const NO_SHAPE: &str = "Special input proto does not contain tensor shape information";
const NO_ID: &str = "Sequence ID has not been provided in request inputs";
const BAD_CONTROL: &str = "Unexpected value of sequence control input";
const EXISTS: &str = "Sequence with provided ID already exists";
const FULL: &str = "Max sequence number has been reached. Could not create new sequence.";

fn ask(x: f32) -> Ask {
    Ask::new("running_total", x)
}

/// Returns the error of a tensor that does not fit, in the words of a protocol.
fn bad_tensor(wire: Wire) -> String {
    wire.invalid("Invalid input shape - Expected: (1,4); Actual: (1,5); input name: x")
}

#[test]
fn special_inputs_have_one_shape_and_one_place() {
    let server = serve("running_total", &[]);
    let client = Client::connect(&server);
    let specials = [
        ("sequence_id", "sequence id", "uint64_val"),
        (
            "sequence_control_input",
            "sequence control input",
            "uint32_val",
        ),
    ];
    for wire in Wire::ALL {
        for (index, (name, what, field)) in specials.into_iter().enumerate() {
            let spoil = |special: Special| {
                // Errors of tensors are reported later still.
                let good = ask(1.0).bad();
                if index == 0 {
                    // So is the other special input.
                    let control = Some(Special::shapeless(3));
                    Ask {
                        id: Some(special),
                        control,
                        ..good
                    }
                } else {
                    Ask {
                        control: Some(special),
                        ..good
                    }
                }
            };
            let refused = |special| client.refused(wire, &spoil(special));
            assert_eq!(refused(Special::shapeless(1)), wire.invalid(NO_SHAPE));
            let rank = wire.invalid(&format!(
                "Invalid number of shape dimensions - Required shape for {name} is: (1)"
            ));
            let dimension = wire.invalid(&format!(
                "Invalid input shape - Required shape for {name} is: (1)"
            ));
            let value = wire.invalid(&format!(
                "Could not find {what} in expected tensor proto field {field}"
            ));
            let two = Special::shaped(&[2], &[1, 1]);
            if wire == Wire::TfsRest {
                assert_eq!(refused(two), dimension);
                assert_eq!(refused(Special::shaped(&[0], &[])), dimension);
                let nested = refused(Special::shaped(&[1, 1], &[1]));
                let parse = "400: Could not parse input content. Not valid ndarray detected";
                assert!(nested.starts_with(parse), "{nested}");
                continue;
            }
            assert_eq!(refused(Special::shaped(&[1, 1], &[1])), rank, "{wire:?}");
            assert_eq!(refused(two), dimension, "{wire:?}");
            assert_eq!(refused(Special::shaped(&[0], &[])), dimension, "{wire:?}");
            if wire == Wire::TfsGrpc {
                // A shape without dimensions is one, there.
                assert_eq!(refused(Special::shaped(&[], &[1])), rank);
            }
            let [none, both] = [&[][..], &[1, 1]].map(|values| Special::shaped(&[1], values));
            for special in [none, both, Special::misplaced(1)] {
                assert_eq!(refused(special), value, "{wire:?}");
            }
        }
    }
}

#[test]
fn numbers_of_rest_bodies_are_whole_and_in_range() {
    let server = serve("running_total", &[]);
    let tfs = |special: &str| {
        let body = format!(r#"{{"inputs":{{"x":[[1,1,1,1]],{special}}}}}"#);
        post(&server, "/v1/models/running_total:predict", body.as_bytes()).error()
    };
    for special in [
        r#""sequence_id":[1.5]"#,
        r#""sequence_id":[-1]"#,
        r#""sequence_id":["1"]"#,
        r#""sequence_id":[[1]]"#,
        r#""sequence_id":[18446744073709551616]"#,
        r#""sequence_control_input":[4294967296]"#,
        r#""sequence_control_input":[-1]"#,
        r#""sequence_control_input":[true]"#,
        r#""sequence_control_input":[1e0]"#,
    ] {
        let error = tfs(special);
        let expected = "400: Could not parse input content. Not valid ndarray detected";
        assert!(error.starts_with(expected), "{special}: {error}");
    }
    let row = post(
        &server,
        "/v1/models/running_total:predict",
        br#"{"instances":[{"x":[1,1,1,1],"sequence_id":[1],"sequence_control_input":[1]}]}"#,
    );
    insta::assert_snapshot!(row.error(), @"400: Invalid number of shape dimensions - Required shape for sequence_id is: (1)");
    for (datatype, data) in [
        ("UINT64", "-1"),
        ("UINT64", "18446744073709551616"),
        ("UINT64", "1.5"),
    ] {
        let body = format!(
            r#"{{"inputs":[{{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,1,1,1]}},
            {{"name":"sequence_id","shape":[1],"datatype":"{datatype}","data":[{data}]}}]}}"#
        );
        let error = post(&server, "/v2/models/running_total/infer", body.as_bytes()).error();
        assert!(error.starts_with("400: "), "{error}");
        assert!(!error.contains("has not been provided"), "{error}");
    }
}

#[test]
fn the_registry_refuses_what_its_rules_do_not_allow() {
    let server = serve("running_total", &[]);
    let client = Client::connect(&server);
    for (number, wire) in (1..).zip(Wire::ALL) {
        let refused = |ask: Ask| client.refused(wire, &ask);
        for control in [3, 4, u64::from(u32::MAX)] {
            assert_eq!(
                refused(ask(1.0).control(control)),
                wire.invalid(BAD_CONTROL)
            );
            assert_eq!(
                refused(ask(1.0).id(5).control(control)),
                wire.invalid(BAD_CONTROL)
            );
        }
        for without in [
            ask(1.0),
            ask(1.0).id(0),
            ask(1.0).control(0),
            ask(1.0).id(0).end(),
        ] {
            assert_eq!(refused(without), wire.invalid(NO_ID));
        }
        assert_eq!(refused(ask(1.0).id(5)), wire.unknown());
        assert_eq!(refused(ask(1.0).id(5).control(0)), wire.unknown());
        assert_eq!(refused(ask(1.0).id(5).end()), wire.unknown());

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
    let server = serve(
        "running_total",
        &["--metrics_enable", "--max_sequence_number", "1"],
    );
    let client = Client::connect(&server);
    for wire in Wire::ALL {
        let refused = |ask: Ask| client.refused(wire, &ask);
        let bad = bad_tensor(wire);
        // Errors of special inputs come before it, those of the registry after it.
        assert_eq!(
            refused(ask(1.0).control(3).bad()),
            wire.invalid(BAD_CONTROL)
        );
        assert_eq!(refused(ask(1.0).bad()), wire.invalid(NO_ID));
        assert_eq!(refused(ask(1.0).id(9).bad()), bad);
        assert_eq!(refused(ask(1.0).id(9).end().bad()), bad);
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
fn without_state_the_special_inputs_are_inputs_that_do_not_exist() {
    let server = Server::start("running_total");
    let client = Client::connect(&server);
    for wire in Wire::ALL {
        let refused = client.refused(wire, &ask(1.0).id(1).start());
        let text = "Invalid number of inputs - Expected: 1; Actual: 3";
        assert!(
            refused.starts_with(&wire.invalid(text)),
            "{wire:?}: {refused}"
        );
    }
    let unfit = ask(1.0)
        .parameter("sequence_id", -1)
        .parameter("sequence_start", "yes");
    for wire in Wire::KSERVE {
        // Tolerated, as everything is that is no matter of the model.
        let answer = client.send(wire, &unfit).unwrap();
        assert_eq!((answer.id, answer.echo), (0, None));
        assert_eq!(answer.names, ["total"]);
    }
}

#[test]
fn more_starts_than_there_may_be_are_refused_and_harm_nobody() {
    const LIMIT: u64 = 8;
    let server = serve(
        "running_total",
        &["--max_sequence_number", "8", "--metrics_enable"],
    );
    let client = Client::connect(&server);
    for id in 1..=LIMIT {
        client.total(Wire::Raw, &ask(1.0).id(id).start());
    }
    std::thread::scope(|scope| {
        for wire in Wire::ALL {
            let server = &server;
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
    let counts = counts(&server);
    let of = |name: &str| counts[&format!(r#"{name}{{name="running_total",version="1"}}"#)];
    assert_eq!(
        ["active", "started", "ended", "evicted", "refused"].map(of),
        [0, LIMIT, LIMIT, 0, 300]
    );
}

#[test]
fn none_may_be_started_if_there_may_be_none() {
    let server = serve("running_total", &["--max_sequence_number", "0"]);
    let client = Client::connect(&server);
    for wire in Wire::ALL {
        let full = wire.error(Code::Unavailable, 503, FULL);
        assert_eq!(client.refused(wire, &ask(1.0).start()), full);
        assert_eq!(client.refused(wire, &ask(1.0).id(7).start()), full);
        assert_eq!(client.refused(wire, &ask(1.0).id(7)), wire.unknown());
    }
}

#[test]
fn ids_that_the_server_picks_are_the_lowest_from_where_it_is() {
    let server = serve("running_total", &[]);
    let client = Client::connect(&server);
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
