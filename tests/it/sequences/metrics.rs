//! Metrics of sequences.

use std::path::Path;

use super::shared;
use crate::attacks::WITH_METRICS;
use crate::support::{
    Server,
    http::{get, post},
    repository,
    sequence::{Ask, Client, Wire, counts, entry, serve, serve_file, wait_count, write},
};

const MODEL: &str = "running_total";

fn ask(x: f32) -> Ask {
    Ask::new(MODEL, x)
}

/// Returns active, started, ended, evicted and refused of a model's first version.
fn numbers(server: &Server, model: &str) -> [u64; 5] {
    let counts = counts(server);
    ["active", "started", "ended", "evicted", "refused"]
        .map(|name| counts[&format!(r#"{name}{{name="{model}",version="1"}}"#)])
}

#[test]
fn the_usual_page_has_families_of_sequences_if_there_is_a_stateful_model_and_counts_outlive_it() {
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    write(&path, &[entry(MODEL, MODEL)]);
    let server = serve_file(&path, &["--metrics_enable"]);
    let page = get(&server, "/metrics").text();
    let lines = page.lines().filter(|line| line.contains("ovms_sequences_"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    # HELP ovms_sequences_active Number of live sequences of a stateful model.
    # TYPE ovms_sequences_active gauge
    ovms_sequences_active{name="running_total",version="1"} 0
    # HELP ovms_sequences_started Number of sequences started.
    # TYPE ovms_sequences_started counter
    ovms_sequences_started{name="running_total",version="1"} 0
    # HELP ovms_sequences_ended Number of sequences ended by their clients.
    # TYPE ovms_sequences_ended counter
    ovms_sequences_ended{name="running_total",version="1"} 0
    # HELP ovms_sequences_evicted Number of idle sequences removed.
    # TYPE ovms_sequences_evicted counter
    ovms_sequences_evicted{name="running_total",version="1"} 0
    # HELP ovms_sequences_refused Number of sequences refused because of their limit.
    # TYPE ovms_sequences_refused counter
    ovms_sequences_refused{name="running_total",version="1"} 0
    "#);
    assert!(counts(&WITH_METRICS).is_empty());
    counts_outlive_what_is_loaded(&server, &path);
}

#[test]
fn a_list_shows_those_that_it_names() {
    let list = "ovms_sequences_refused,ovms_sequences_active";
    let flags = ["--metrics_enable", "--metrics_list", list];
    let server = serve(MODEL, &flags);
    Client::connect(&server).total(Wire::Raw, &ask(1.0).start());
    let page = get(&server, "/metrics").text();
    insta::assert_snapshot!(page, @r#"
    # HELP ovms_sequences_active Number of live sequences of a stateful model.
    # TYPE ovms_sequences_active gauge
    ovms_sequences_active{name="running_total",version="1"} 1
    # HELP ovms_sequences_refused Number of sequences refused because of their limit.
    # TYPE ovms_sequences_refused counter
    ovms_sequences_refused{name="running_total",version="1"} 0
    "#);
}

#[test]
fn each_event_counts_once() {
    const MODEL: &str = "counted";
    let server = shared::server();
    let client = Client::connect(server);
    let ask = |x| Ask::new(MODEL, x);
    let numbers = || numbers(server, MODEL);
    let (mut started, mut ended, mut refused) = (0, 0, 0);
    for wire in Wire::ALL {
        client.total(wire, &ask(1.0).id(5).start());
        started += 1;
        assert_eq!(numbers(), [1, started, ended, 0, refused], "{wire:?}");
        // An id that exists is no matter of the limit.
        client.refused(wire, &ask(1.0).id(5).start());
        client.refused(wire, &ask(1.0).id(6));
        client.refused(wire, &ask(1.0).id(6).start().bad());
        client.total(wire, &ask(1.0).id(5));
        assert_eq!(numbers(), [1, started, ended, 0, refused], "{wire:?}");
        client.total(wire, &ask(1.0).start());
        started += 1;
        client.refused(wire, &ask(1.0).start());
        client.refused(wire, &ask(1.0).id(5).start());
        refused += 2;
        assert_eq!(numbers(), [2, started, ended, 0, refused], "{wire:?}");
        client.total(wire, &ask(1.0).id(5).end());
        client.refused(wire, &ask(1.0).id(5).end());
        ended += 1;
        assert_eq!(numbers(), [1, started, ended, 0, refused], "{wire:?}");
        client.total(wire, &ask(1.0).id(1).end());
        ended += 1;
        assert_eq!(numbers(), [0, started, ended, 0, refused], "{wire:?}");
    }
    let only = ask(1.0)
        .parameter("sequence_start", true)
        .parameter("sequence_end", true);
    client.total(Wire::Json, &only);
    assert_eq!(numbers(), [0, started + 1, ended + 1, 0, refused]);
    let page = get(server, "/metrics").text();
    for (api, interface, wires) in [
        ("TensorFlowServing", "gRPC", 1),
        ("TensorFlowServing", "REST", 1),
        ("KServe", "gRPC", 2),
    ] {
        let method = if api == "KServe" {
            "ModelInfer"
        } else {
            "Predict"
        };
        for (outcome, each) in [("success", 5), ("fail", 6)] {
            let line = format!(
                r#"ovms_requests_{outcome}{{api="{api}",interface="{interface}",method="{method}",name="{MODEL}",version="1"}} {}"#,
                each * wires
            );
            assert!(page.lines().any(|known| known == line), "{line}\n{page}");
        }
    }
}

fn counts_outlive_what_is_loaded(server: &Server, path: &Path) {
    let client = Client::connect(server);
    for id in 1..=3 {
        client.total(Wire::Raw, &ask(1.0).id(id).start());
    }
    client.total(Wire::Raw, &ask(1.0).id(1).end());
    assert_eq!(numbers(server, MODEL), [2, 3, 1, 0, 0]);
    let mut other = entry(MODEL, MODEL);
    other["nireq"] = 1.into();
    write(path, &[other.clone()]);
    assert_eq!(post(server, "/v1/config/reload", b"").status, 201);
    wait_count(server, r#"active{name="running_total",version="1"}"#, 0);
    // Dropped is neither ended nor evicted.
    assert_eq!(numbers(server, MODEL), [0, 3, 1, 0, 0]);
    client.total(Wire::Raw, &ask(1.0).id(1).start());
    assert_eq!(numbers(server, MODEL), [1, 4, 1, 0, 0]);
    write(path, &[]);
    assert_eq!(post(server, "/v1/config/reload", b"").status, 201);
    wait_count(server, r#"active{name="running_total",version="1"}"#, 0);
    assert_eq!(numbers(server, MODEL), [0, 4, 1, 0, 0]);
}
