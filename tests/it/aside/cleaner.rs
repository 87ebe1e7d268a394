//! Removal of idle sequences; even with the shortest period, this takes minutes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    repository,
    sequence::{Ask, Client, Wire, counts, entry, serve_file, wait_count, write},
    thread,
};

/// Time limit of two scans, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(160);

/// Both at once, so that their minutes are the same.
#[test]
fn idle_sequences_are_removed() {
    let of_store = thread(idle_sequences_are_left_to_the_store_and_then_removed_from_it);
    idle_sequences_go_at_the_second_scan_and_others_stay();
    of_store.join().unwrap();
}

fn idle_sequences_go_at_the_second_scan_and_others_stay() {
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    let mut kept = entry("kept", "running_total");
    kept["idle_sequence_cleanup"] = json!(false);
    write(&path, &[entry("cleaned", "running_total"), kept]);
    let flags = [
        "--metrics_enable",
        "--sequence_cleaner_poll_wait_minutes",
        "1",
    ];
    let server = serve_file(&path, &flags);
    let client = Client::connect(&server);
    let ask = |model: &str, id| Ask::new(model, 1.0).id(id);
    for (model, id) in [("cleaned", 1), ("cleaned", 2), ("cleaned", 3), ("kept", 1)] {
        client.total(Wire::Raw, &ask(model, id).start());
    }
    let evicted =
        |model: &str| counts(&server)[&format!(r#"evicted{{name="{model}",version="1"}}"#)];

    let started = Instant::now();
    let mut total = 1.0;
    while evicted("cleaned") < 2 {
        assert!(started.elapsed() < LIMIT, "nothing is removed");
        // One is in use; another only has requests that are refused.
        total += 1.0;
        assert_eq!(client.total(Wire::Raw, &ask("cleaned", 2)), (2, total));
        if started.elapsed() < Duration::from_secs(60) {
            client.refused(Wire::Raw, &ask("cleaned", 3).bad());
            client.refused(Wire::Raw, &ask("cleaned", 3).start());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    // The first scan marks, the second one removes.
    assert!(started.elapsed() > Duration::from_secs(60));
    for wire in Wire::ALL {
        for id in [1, 3] {
            assert_eq!(client.refused(wire, &ask("cleaned", id)), wire.unknown());
            assert_eq!(
                client.refused(wire, &ask("cleaned", id).end()),
                wire.unknown()
            );
        }
    }
    assert_eq!(
        client.total(Wire::Raw, &ask("cleaned", 2)),
        (2, total + 1.0)
    );
    assert_eq!((evicted("cleaned"), evicted("kept")), (2, 0));
    let active = |model: &str| counts(&server)[&format!(r#"active{{name="{model}",version="1"}}"#)];
    assert_eq!((active("cleaned"), active("kept")), (1, 1));
    assert_eq!(client.total(Wire::Raw, &ask("kept", 1).end()), (1, 2.0));
    // Their ids are free, and begin anew.
    for id in [1, 3] {
        assert_eq!(
            client.total(Wire::Raw, &ask("cleaned", id).start()),
            (id, 1.0)
        );
        assert_eq!(
            client.total(Wire::Raw, &ask("cleaned", id).end()),
            (id, 2.0)
        );
    }
    server.wait_log("removed idle sequences");
}

fn idle_sequences_are_left_to_the_store_and_then_removed_from_it() {
    let folder = repository::folder();
    let store = format!("file://{}", folder.path().join("store").display());
    let path = folder.path().join("config.json");
    write(&path, &[entry("m", "running_total")]);
    let flags = [
        "--metrics_enable",
        "--sequence_cleaner_poll_wait_minutes",
        "1",
        "--sequence_store",
        &store,
    ];
    let server = serve_file(&path, &flags);
    let client = Client::connect(&server);
    let counted = |name: &str| {
        let of_version = format!(r#"{name}{{name="m",version="1"}}"#);
        let of_model = format!(r#"{name}{{name="m"}}"#);
        let counts = counts(&server);
        *counts
            .get(&of_version)
            .unwrap_or_else(|| &counts[&of_model])
    };
    for id in 1..=3 {
        client.total(Wire::Raw, &Ask::new("m", 1.0).id(id).start());
    }
    wait_count(&server, r#"stored{name="m"}"#, 3);
    let started = Instant::now();
    while counted("evicted") < 3 {
        assert!(started.elapsed() < LIMIT, "nothing is removed");
        std::thread::sleep(Duration::from_millis(500));
    }
    let found = ["active", "moved", "evicted", "stored", "ended"].map(counted);
    assert_eq!(found, [0, 3, 3, 0, 0]);
    server.wait_log("left idle sequences to the store");
    server.wait_log("removed idle sequences from the store");
    let unknown = Wire::Raw.unknown();
    let refused = client.refused(Wire::Raw, &Ask::new("m", 1.0).id(1));
    assert_eq!(refused, unknown);
}
