//! Versions of one server that share a store: a sequence goes on with any of them, and with one at a time.

use tonic::Code;

use super::shared::{self, pair};
use crate::support::{
    Server, http,
    sequence::{Ask, Client, Wire, infer, of_infer},
};

/// A step on a version of a model, or on the default one if it is 0.
fn on(model: &str, version: i64) -> Ask {
    Ask::new(model, 1.0).id(7).version(version)
}

fn path(model: &str) -> String {
    format!("/v1/models/{model}/sequences/7")
}

fn goes_on(server: &Server) {
    const NAME: &str = "versions";
    let client = Client::connect(server);
    let on = |version| on(NAME, version);
    let total = |ask: Ask| client.total(Wire::Raw, &ask);
    assert_eq!(total(on(1).start()), (7, 1.0));
    for (version, expected) in [(2, 2.0), (1, 3.0), (0, 4.0), (1, 5.0)] {
        assert_eq!(total(on(version)), (7, expected), "{version}");
    }
    // To read it, or to begin it again, on the default version takes nothing from the other one.
    assert_eq!(http::get(server, &path(NAME)).status, 200);
    assert_eq!(total(on(1)), (7, 6.0));
    let exists = "Sequence with provided ID already exists";
    let exists = Wire::Raw.error(Code::AlreadyExists, 409, exists);
    assert_eq!(client.refused(Wire::Raw, &on(2).start()), exists);
    assert_eq!(total(on(1).key("a")), (7, 7.0));
    assert_eq!(total(on(2).key("a")), (7, 7.0), "it is the same request");
    assert_eq!(total(on(1)), (7, 8.0));
    let ended = http::send(server, "DELETE", &path(NAME), &[], b"");
    assert_eq!(ended.status, 204, "{}", ended.text());
    for version in [1, 2] {
        let refused = client.refused(Wire::Raw, &on(version));
        assert_eq!(refused, Wire::Raw.unknown(), "{version}");
    }
    let begin = |version| Ask::new(NAME, 1.0).start().key("b").version(version);
    let (id, first) = total(begin(1));
    assert_eq!(first, 1.0);
    assert_eq!(total(begin(2)), (id, 1.0), "it is the same request");
    assert_eq!(total(on(1).id(id)), (id, 2.0));
}

#[test]
fn a_sequence_goes_on_whichever_version_is_asked() {
    for durability in ["step", "long", "none"] {
        goes_on(shared::file(durability));
        if let Some(pair) = pair(durability) {
            goes_on(&pair.servers[0]);
        }
    }
}

#[test]
fn a_version_of_another_model_takes_nothing_away() {
    const NAME: &str = "others";
    let on = |version| on(NAME, version);
    for durability in ["step", "long"] {
        let server = shared::file(durability);
        let client = Client::connect(server);
        assert_eq!(client.total(Wire::Raw, &on(1).start()), (7, 1.0));
        for (version, total) in [(2, 2.0), (0, 3.0)] {
            let refused = client.refused(Wire::Raw, &on(version));
            assert!(refused.starts_with("FailedPrecondition: "), "{refused}");
            assert_eq!(http::get(server, &path(NAME)).status, 412);
            assert_eq!(client.total(Wire::Raw, &on(1)), (7, total));
        }
        // An end needs no state.
        let ended = http::send(server, "DELETE", &path(NAME), &[], b"");
        assert_eq!(ended.status, 204, "{}", ended.text());
        let refused = client.refused(Wire::Raw, &on(1));
        assert_eq!(refused, Wire::Raw.unknown());
    }
}

#[test]
fn steps_on_two_versions_at_once_are_counted_once_each() {
    const STEPS: u8 = 60;
    let on = |version| on("turns", version);
    for durability in ["step", "long"] {
        let client = Client::connect(shared::file(durability));
        assert_eq!(client.total(Wire::Raw, &on(1).start()), (7, 1.0));
        let versions = (0..STEPS).map(|number| i64::from(1 + number % 2));
        let calls = versions.map(|version| client.tfs.grpc.call(infer(&on(version), true)));
        let calls: Vec<_> = calls.collect();
        let totals = calls.into_iter().map(|call| {
            let answer = call.wait().expect("it goes on");
            of_infer(&answer).total().1
        });
        let mut totals: Vec<f32> = totals.collect();
        totals.sort_by(f32::total_cmp);
        let expected = (2..STEPS + 2).map(f32::from);
        assert_eq!(totals, Vec::from_iter(expected));
    }
}
