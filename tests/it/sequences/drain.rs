//! `drain_sequences_seconds`: sequences that continue while their model is replaced or retired, or
//! the server shuts down.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use ovms::proto::kserve::ModelInferResponse;
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{
    Server, eventually,
    http::{get, post},
    model, repository,
    sequence::{Ask, Client, Wire, entry, infer, of_infer, serve, serve_file, wait_count, write},
    wire::{self, Call},
};

const FROM: &str = "running_from";
const TOTAL: &str = "running_total";
const EXISTS: &str = "Sequence with provided ID already exists";
const RETIRED: &str = "Model with requested version is retired";
const STOPS: &str = "Server is shutting down";

/// Time limit of a shutdown with nothing to wait for, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(3);

fn reload(server: &Server) {
    assert_eq!(post(server, "/v1/config/reload", b"").status, 201);
}

/// Returns the state of each version.
fn states(server: &Server, name: &str) -> Vec<String> {
    let status = get(server, &format!("/v1/models/{name}")).json();
    let versions = status["model_version_status"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    versions
        .map(|version| format!("{} {}", text(&version["version"]), text(&version["state"])))
        .collect()
}

#[test]
fn models_that_change_keep_their_sequences() {
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    write(&path, &[]);
    let server = serve_file(&path, &["--metrics_enable"]);
    what_is_replaced_serves_its_sequences_to_their_end(&server, &path);
    what_is_left_when_the_time_is_over_goes(&server, &path);
    a_sequence_outlives_a_reload_and_the_version_after_it(&server, &path);
    sequences_of_a_model_that_is_removed_go_on_too(&server, &path);
    a_step_that_fails_ends_none_of_the_others_that_are_left(&server, &path);
}

fn a_step_that_fails_ends_none_of_the_others_that_are_left(server: &Server, path: &Path) {
    const NAME: &str = "left_fails";
    let of = |nireq: u32| {
        let mut entry = entry(NAME, "running_fail");
        entry["drain_sequences_seconds"] = json!(600);
        entry["nireq"] = json!(nireq);
        entry
    };
    let step = |id: u64, split: i64| Ask::new(NAME, 1.0).extra("split", split).id(id);
    let client = Client::connect(server);
    let mut totals = [0.0; 4];
    // A model that is replaced, that has been so before, and that is removed.
    for (models, fails) in [
        (vec![of(2)], None),
        (vec![of(3)], Some(1)),
        (vec![of(1)], Some(2)),
        (vec![], Some(3)),
    ] {
        write(path, &models);
        reload(server);
        if let Some(id) = fails {
            let refused = client.refused(Wire::Raw, &step(id, 3));
            let closed = format!(" - sequence {id} has been closed");
            assert!(refused.ends_with(&closed), "{refused}");
            totals[usize::try_from(id).unwrap() - 1] = f32::NAN;
        }
        for (id, total) in (1..).zip(&mut totals).filter(|(_, total)| !total.is_nan()) {
            let first = *total == 0.0;
            *total += 1.0;
            let ask = step(id, 2);
            let ask = if first { ask.start() } else { ask };
            assert_eq!(client.total(Wire::Raw, &ask), (id, *total), "{fails:?}");
        }
    }
    assert_eq!(client.total(Wire::Raw, &step(4, 2).end()), (4, 5.0));
    eventually("the version ends", || {
        (states(server, NAME).is_empty() || states(server, NAME) == ["1 END"]).then_some(())
    });
}

fn what_is_replaced_serves_its_sequences_to_their_end(server: &Server, path: &Path) {
    const NAME: &str = "replaced";
    let ask = |x| Ask::new(NAME, x);
    let of = |fixture: &str, limit: u32| {
        let mut entry = entry(NAME, fixture);
        entry["drain_sequences_seconds"] = json!(limit);
        // One of the new ones and one of the old ones.
        entry["max_sequence_number"] = json!(2);
        entry
    };
    write(path, &[of(TOTAL, 600)]);
    reload(server);
    let client = Client::connect(server);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(1).start()), (1, 1.0));
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5).start()), (5, 1.0));
    write(path, &[of(FROM, 600)]);
    reload(server);
    assert_eq!(states(server, NAME), ["1 AVAILABLE"]);
    let mut total = 1.0;
    for wire in Wire::ALL {
        total += 1.0;
        assert_eq!(client.total(wire, &ask(1.0).id(5)), (5, total), "{wire:?}");
        let exists = wire.error(Code::AlreadyExists, 409, EXISTS);
        assert_eq!(client.refused(wire, &ask(1.0).id(5).start()), exists);
        // New ones are none of the old ones, and run on what is new.
        let (id, first) = client.total(wire, &ask(1.0).start());
        assert_eq!((id == 1 || id == 5, first), (false, 101.0), "{wire:?}");
        assert_eq!(client.total(wire, &ask(1.0).id(id)), (id, 102.0));
        assert_eq!(client.total(wire, &ask(1.0).id(id).end()), (id, 103.0));
    }
    // The limit is one of new sequences on what is new.
    client.total(Wire::Raw, &ask(1.0).id(6).start());
    client.total(Wire::Raw, &ask(1.0).id(7).start());
    assert!(
        client
            .refused(Wire::Raw, &ask(1.0).start())
            .contains("Max sequence number")
    );
    client.total(Wire::Raw, &ask(1.0).id(7).end());
    assert_eq!(
        client.total(Wire::Raw, &ask(1.0).id(5).end()),
        (5, total + 1.0)
    );
    assert_eq!(
        client.refused(Wire::Raw, &ask(1.0).id(5)),
        Wire::Raw.unknown()
    );
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5).start()), (5, 101.0));
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(1).end()), (1, 2.0));
    // Without a limit the next reload drops them.
    write(path, &[of(TOTAL, 0)]);
    reload(server);
    wait_count(server, r#"active{name="replaced",version="1"}"#, 0);
    assert_eq!(
        client.refused(Wire::Raw, &ask(1.0).id(5)),
        Wire::Raw.unknown()
    );
}

fn what_is_left_when_the_time_is_over_goes(server: &Server, path: &Path) {
    const NAME: &str = "left";
    let ask = |x| Ask::new(NAME, x);
    let of = |fixture: &str| {
        let mut entry = entry(NAME, fixture);
        entry["drain_sequences_seconds"] = json!(1);
        entry
    };
    write(path, &[of(TOTAL)]);
    reload(server);
    let client = Client::connect(server);
    client.total(Wire::Raw, &ask(1.0).id(5).start());
    write(path, &[of(FROM)]);
    let before = Instant::now();
    reload(server);
    let after = Instant::now();
    // A request does not prolong the time.
    eventually("the sequence is gone", || {
        client.send(Wire::Raw, &ask(0.0).id(5)).err()
    });
    assert!(
        before.elapsed() >= Duration::from_secs(1),
        "it is gone too early"
    );
    assert!(
        after.elapsed() < Duration::from_secs(1) + SOON,
        "it is gone too late"
    );
    assert_eq!(
        client.refused(Wire::Raw, &ask(1.0).id(5)),
        Wire::Raw.unknown()
    );
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5).start()), (5, 101.0));
}

#[test]
fn versions_that_change_keep_their_sequences() {
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    let models = ["retired", "in_flight", "again"].map(|name| (name, folder.path().join(name)));
    let entries = models.each_ref().map(|(name, root)| {
        add(root, "1", TOTAL);
        let mut entry = entry(name, TOTAL);
        entry["base_path"] = json!(root);
        entry["drain_sequences_seconds"] = json!(600);
        entry
    });
    write(&path, &entries);
    let server = serve_file(&path, &[]);
    let [retired, in_flight, again] = models.each_ref().map(|(_, root)| root);
    a_version_that_is_retired_serves_its_sequences_to_their_end(&server, retired);
    sequences_that_are_in_flight_while_versions_change_lose_no_step(&server, in_flight);
    a_version_that_is_wanted_again_has_its_sequences_still(&server, again);
}

/// Creates a version folder atomically.
fn add(root: &Path, version: &str, fixture: &str) {
    let made = root.join(format!("new {version}"));
    repository::copy(&model(fixture).join("1"), &made);
    fs::rename(made, root.join(version)).unwrap();
}

fn a_version_that_is_retired_serves_its_sequences_to_their_end(server: &Server, root: &Path) {
    const NAME: &str = "retired";
    let ask = |x| Ask::new(NAME, x);
    let client = Client::connect(server);
    for id in [1, 5, 6] {
        assert_eq!(client.total(Wire::Raw, &ask(1.0).id(id).start()), (id, 1.0));
    }
    add(root, "2", FROM);
    reload(server);
    assert_eq!(states(server, NAME), ["1 UNLOADING", "2 AVAILABLE"]);
    let mut total = 1.0;
    for wire in Wire::ALL {
        // With and without its version.
        for version in [0, 1] {
            total += 1.0;
            let answer = client.total(wire, &ask(1.0).id(5).version(version));
            assert_eq!(answer, (5, total), "{wire:?}");
        }
        let retired = wire.error(Code::NotFound, 404, RETIRED);
        let exists = wire.error(Code::AlreadyExists, 409, EXISTS);
        for id in [0, 5, 9] {
            let start = ask(1.0).id(id).start();
            assert_eq!(client.refused(wire, &start.version(1)), retired, "{wire:?}");
        }
        assert_eq!(client.refused(wire, &ask(1.0).id(5).start()), exists);
        assert_eq!(client.refused(wire, &ask(1.0).id(9)), wire.unknown());
        let named = ask(1.0).id(5).version(2);
        assert_eq!(
            client.refused(wire, &named),
            wire.unknown(),
            "it is one of the other"
        );
        let (id, first) = client.total(wire, &ask(1.0).start());
        assert_eq!((id, first), (2, 101.0), "1 is taken");
        assert_eq!(client.total(wire, &ask(1.0).id(id).end()), (id, 102.0));
    }
    let answer = client.send(Wire::Raw, &ask(1.0).id(6).end()).unwrap();
    assert_eq!((answer.total(), answer.version), ((6, 2.0), 1));
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(6).start()), (6, 101.0));
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(1).end()), (1, 2.0));
    assert_eq!(states(server, NAME)[0], "1 UNLOADING");
    assert_eq!(
        client.total(Wire::Raw, &ask(1.0).id(5).end()),
        (5, total + 1.0)
    );
    eventually("the version ends", || {
        (states(server, NAME) == ["1 END", "2 AVAILABLE"]).then_some(())
    });
    assert_eq!(
        client.refused(Wire::Raw, &ask(1.0).id(5).version(1)),
        format!("NotFound: {RETIRED}")
    );
    assert_eq!(
        client.refused(Wire::Raw, &ask(1.0).id(5)),
        Wire::Raw.unknown()
    );
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(6).end()), (6, 102.0));
}

fn sequences_that_are_in_flight_while_versions_change_lose_no_step(server: &Server, root: &Path) {
    const NAME: &str = "in_flight";
    let ask = |x| Ask::new(NAME, x);
    let mut id = 0;
    let mut pipelines = || {
        id += 1;
        let mut asks = vec![ask(1.0).id(id).start()];
        asks.extend([2.0, 4.0, 8.0].map(|x| ask(x).id(id)));
        asks.push(ask(16.0).id(id).end());
        let calls = asks.iter().map(|ask| Call::infer(&infer(ask, true)));
        let answers = wire::send(server, &calls.collect::<Vec<_>>());
        let totals = answers.into_iter().map(|answer| {
            let answer = ModelInferResponse::decode(answer.unwrap()).unwrap();
            of_infer(&answer).total()
        });
        let expected = [1.0, 3.0, 7.0, 15.0, 31.0].map(|total| (id, total));
        assert_eq!(totals.collect::<Vec<_>>(), expected);
    };
    std::thread::scope(|scope| {
        let reloads = scope.spawn(|| {
            for version in 2..=12 {
                add(root, &version.to_string(), TOTAL);
                reload(server);
            }
        });
        while !reloads.is_finished() {
            pipelines();
        }
        reloads.join().unwrap();
    });
    pipelines();
}

fn a_sequence_outlives_a_reload_and_the_version_after_it(server: &Server, path: &Path) {
    const NAME: &str = "outlives";
    let ask = |x| Ask::new(NAME, x);
    let root = repository::of(&[("1", TOTAL)]);
    let of = |nireq: u32| {
        let mut entry = entry(NAME, TOTAL);
        entry["base_path"] = json!(root.path());
        entry["drain_sequences_seconds"] = json!(600);
        entry["nireq"] = json!(nireq);
        entry
    };
    write(path, &[of(1)]);
    reload(server);
    let client = Client::connect(server);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5).start()), (5, 1.0));
    write(path, &[of(2)]);
    reload(server);
    // The next version calls its input otherwise.
    let made = root.path().join("new");
    repository::copy(&model(FROM).join("1"), &made);
    fs::write(made.join("mapping_config.json"), r#"{"inputs":{"x":"y"}}"#).unwrap();
    fs::rename(made, root.path().join("2")).unwrap();
    reload(server);
    let mut total = 1.0;
    for wire in Wire::ALL {
        assert_eq!(states(server, NAME), ["1 UNLOADING", "2 AVAILABLE"]);
        total += 1.0;
        assert_eq!(client.total(wire, &ask(1.0).id(5)), (5, total), "{wire:?}");
        let absent = wire.error(
            Code::NotFound,
            404,
            "Model with requested version is not found",
        );
        for other in [ask(1.0).id(5), ask(1.0).id(7).start()] {
            assert_eq!(client.refused(wire, &other.version(99)), absent);
        }
    }
    client.total(Wire::Raw, &ask(1.0).id(5).end());
    eventually("the version ends", || {
        (states(server, NAME) == ["1 END", "2 AVAILABLE"]).then_some(())
    });
}

fn a_version_that_is_wanted_again_has_its_sequences_still(server: &Server, root: &Path) {
    const NAME: &str = "again";
    let ask = |x| Ask::new(NAME, x);
    let client = Client::connect(server);
    client.total(Wire::Raw, &ask(1.0).id(5).start());
    add(root, "2", FROM);
    reload(server);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(6).start()), (6, 101.0));
    // Each is retired in turn; the sequences of both go on.
    fs::remove_dir_all(root.join("2")).unwrap();
    reload(server);
    assert_eq!(states(server, NAME), ["1 AVAILABLE", "2 UNLOADING"]);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5)), (5, 2.0));
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(6)), (6, 102.0));
    for id in [5, 6] {
        let exists = Wire::Json.error(Code::AlreadyExists, 409, EXISTS);
        assert_eq!(client.refused(Wire::Json, &ask(1.0).id(id).start()), exists);
    }
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(7).start()), (7, 1.0));
    add(root, "2", FROM);
    reload(server);
    assert_eq!(states(server, NAME), ["1 UNLOADING", "2 AVAILABLE"]);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(8).start()), (8, 101.0));
    for (id, total) in [(5, 3.0), (6, 103.0), (7, 2.0), (8, 102.0)] {
        assert_eq!(
            client.total(Wire::Json, &ask(1.0).id(id).end()),
            (id, total)
        );
    }
    eventually("the version ends", || {
        (states(server, NAME) == ["1 END", "2 AVAILABLE"]).then_some(())
    });
}

fn sequences_of_a_model_that_is_removed_go_on_too(server: &Server, path: &Path) {
    const NAME: &str = "removed";
    let ask = |x| Ask::new(NAME, x);
    let mut first = entry(NAME, TOTAL);
    first["drain_sequences_seconds"] = json!(600);
    write(path, &[first.clone()]);
    reload(server);
    let client = Client::connect(server);
    client.total(Wire::Raw, &ask(1.0).id(5).start());
    write(path, &[]);
    reload(server);
    let mut total = 1.0;
    for wire in Wire::ALL {
        total += 1.0;
        assert_eq!(client.total(wire, &ask(1.0).id(5)), (5, total), "{wire:?}");
        let refused = client.refused(wire, &ask(1.0).start());
        assert_eq!(refused, wire.error(Code::NotFound, 404, RETIRED));
    }
    // There again: a version of its own beside what still drains.
    write(path, &[first]);
    reload(server);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(5)), (5, total + 1.0));
    let (id, _) = client.total(Wire::Raw, &ask(1.0).start());
    assert_ne!(id, 5);
    assert_eq!(
        client.total(Wire::Raw, &ask(1.0).id(5).end()),
        (5, total + 2.0)
    );
}

#[test]
fn a_server_that_stops_serves_its_sequences_to_their_end() {
    let mut server = serve(TOTAL, &["--drain_sequences_seconds", "600"]);
    let client = Client::connect(&server);
    let ask = |x| Ask::new(TOTAL, x);
    for id in [5, 6] {
        client.total(Wire::Raw, &ask(1.0).id(id).start());
    }
    server.signal("TERM");
    server.wait_log("stopping");
    let mut total = 1.0;
    for wire in Wire::ALL {
        total += 1.0;
        assert_eq!(client.total(wire, &ask(1.0).id(5)), (5, total));
        let stops = wire.error(Code::Unavailable, 503, STOPS);
        for id in [0, 5, 9] {
            assert_eq!(client.refused(wire, &ask(1.0).id(id).start()), stops);
        }
        assert_eq!(client.refused(wire, &ask(1.0).id(9)), wire.unknown());
    }
    assert_eq!(get(&server, "/v2/health/ready").status, 500);
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(6).end()), (6, 2.0));
    assert_eq!(
        client.total(Wire::Json, &ask(1.0).id(5).end()),
        (5, total + 1.0)
    );
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

#[test]
fn a_server_does_not_wait_longer_than_it_is_reported() {
    for (flags, least) in [
        (&[][..], Duration::ZERO),
        (&["--drain_sequences_seconds", "0"], Duration::ZERO),
        (&["--drain_sequences_seconds", "1"], Duration::from_secs(1)),
    ] {
        let mut server = serve(TOTAL, flags);
        Client::connect(&server).total(Wire::Json, &Ask::new(TOTAL, 1.0).start());
        let before = Instant::now();
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
        let took = before.elapsed();
        assert!(took >= least && took < least + SOON, "{flags:?} {took:?}");
    }
}

#[test]
fn a_second_signal_ends_sequences_at_once() {
    let mut server = serve(TOTAL, &["--drain_sequences_seconds", "600"]);
    let client = Client::connect(&server);
    client.total(Wire::Raw, &Ask::new(TOTAL, 1.0).start());
    server.signal("TERM");
    server.wait_log("stopping");
    let before = Instant::now();
    // One that comes together with the first is no second one.
    eventually("the end of the server", || {
        server.signal("TERM");
        server.ended()
    });
    assert!(before.elapsed() < SOON);
}
