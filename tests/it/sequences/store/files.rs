//! Sequences in a folder of one machine.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use tonic::Code;

use super::{
    DAMAGED, MODEL, NONE, STEP, ask, keys::late, path, refused, serve, shared, start, step,
};
use crate::support::{
    Server,
    busy::ENDLESS,
    cli, eventually, http, model, repository,
    sequence::{self, Client, Wire},
    server::{free_ports, on},
};

fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// Runs a server that cannot start; returns its failure.
fn failure(mut command: std::process::Command, url: &str, folder: &Path) -> String {
    command
        .args(["serve", "--stateful", "--model_name", MODEL, "--model_path"])
        .arg(model(MODEL))
        .args(on(free_ports()))
        .args(["--sequence_store", url]);
    let failure = cli::run(&mut command).failure();
    failure.replace(folder.to_str().unwrap(), "FOLDER")
}

#[test]
fn a_restart_loses_nothing_and_a_crash_nothing_that_is_stored() {
    let folder = repository::folder();
    let store = url(&folder.path().join("new"));
    let mut total = 1.0;
    let mut before: Option<(&[&str], u64)> = None;
    for (place, (flags, signal)) in [
        (&STEP[..], "TERM"),
        (&STEP, "KILL"),
        (&STEP, "KILL"),
        (&[], "TERM"),
        (&[], "TERM"),
        (&NONE, "TERM"),
        (&STEP, "KILL"),
    ]
    .into_iter()
    .enumerate()
    {
        let [mut server]: [Server; 1] = serve(MODEL, &store, flags);
        let client = Client::connect(&server);
        if place == 0 {
            start(&client, 7);
        }
        if let Some((_, id)) = before.filter(|before| before.0 == flags) {
            comes_late(&client, id);
        }
        let id = 200 + place as u64;
        client.total(Wire::Raw, &ask(id).start().key("1"));
        for key in ["2", "3"] {
            client.total(Wire::Raw, &ask(id).key(key));
        }
        before = Some((flags, id));
        for wire in Wire::ALL {
            let ask = ask(7).key(&format!("{place} {wire:?}"));
            total += 1.0;
            for _ in 0..2 {
                assert_eq!(client.total(wire, &ask), (7, total), "{place} {wire:?}");
            }
        }
        let id = 100 + place as u64;
        for _ in 0..2 {
            let begun = client.total(Wire::Raw, &ask(id).start().key("k"));
            assert_eq!(begun, (id, 1.0));
        }
        drop(client);
        server.signal(signal);
        server.wait();
    }
    let [server] = serve(MODEL, &store, &[]);
    let client = Client::connect(&server);
    assert_eq!(step(&client, 7), total + 1.0);
    for id in 100..107 {
        assert_eq!(client.total(Wire::Raw, &ask(id).end()), (id, 2.0));
    }
}

/// Checks that a server knows the keys of the requests that a sequence had before a restart.
fn comes_late(client: &Client<'_>, id: u64) {
    let refused = client.refused(Wire::Raw, &ask(id).key("2"));
    assert_eq!(refused, late(Wire::Raw, id));
    assert_eq!(client.total(Wire::Raw, &ask(id).key("3")), (id, 3.0));
    assert_eq!(client.total(Wire::Raw, &ask(id).key("4")), (id, 4.0));
    let refused = client.refused(Wire::Raw, &ask(id).key("3"));
    assert_eq!(refused, late(Wire::Raw, id));
}

#[test]
fn what_is_newer_in_a_server_that_crashes_is_lost() {
    let folder = repository::folder();
    let store = url(folder.path());
    let [server] = serve(MODEL, &store, &super::LONG);
    start(&Client::connect(&server), 7);
    drop(server);
    let [server] = serve(MODEL, &store, &super::LONG);
    let client = Client::connect(&server);
    assert_eq!(super::refused(&client, 7), super::LOST);
    start(&client, 7);
}

#[test]
fn an_end_for_which_there_is_no_room_may_be_sent_again() {
    let folder = repository::folder();
    let store = url(folder.path());
    let [server]: [Server; 1] = serve(MODEL, &store, &super::LONG);
    let client = Client::connect(&server);
    for wire in Wire::ALL {
        start(&client, 7);
        let unfinished = folder.path().join(MODEL).join("7.part");
        std::os::unix::fs::symlink("/dev/full", unfinished).unwrap();
        let end = ask(7).end().key(&format!("{wire:?}"));
        let full = wire.error(Code::ResourceExhausted, 503, "Sequence store is full");
        assert_eq!(client.refused(wire, &end), full);
        for _ in 0..2 {
            assert_eq!(client.total(wire, &end), (7, 2.0), "{wire:?}");
        }
    }
}

#[test]
fn the_id_of_a_damaged_file_is_free_after_a_start_or_an_end() {
    let folder = repository::folder();
    let store = url(folder.path());
    for flags in [&STEP[..], &[]] {
        let [mut server]: [Server; 1] = serve(MODEL, &store, flags);
        let client = Client::connect(&server);
        let ids = 1..=8;
        ids.clone().for_each(|id| start(&client, id));
        drop(client);
        server.signal("TERM");
        server.wait();
        for id in ids.clone() {
            let file = folder.path().join(MODEL).join(id.to_string());
            let mut bytes = fs::read(&file).unwrap();
            match id % 4 {
                0 => bytes.truncate(20),
                1 => bytes = b"text".to_vec(),
                2 => bytes.clear(),
                // The state has a checksum of its own.
                _ => *bytes.last_mut().unwrap() ^= 1,
            }
            fs::write(file, bytes).unwrap();
        }
        let [server] = serve(MODEL, &store, flags);
        let client = Client::connect(&server);
        for id in ids {
            let expected = format!(
                "{DAMAGED} - begin sequence {id} again, which replaces what is stored of it, or remove that with DELETE \
                 {}",
                path(id)
            );
            assert_eq!(refused(&client, id), expected);
            if id <= 4 {
                start(&client, id);
                assert_eq!(step(&client, id), 2.0);
                // A start does not replace what is whole.
                client.refused(Wire::Raw, &ask(id).start());
                client.total(Wire::Raw, &ask(id).end());
            } else {
                let end = || http::send(&server, "DELETE", &path(id), &[], b"").status;
                assert_eq!([end(), end()], [204, 404]);
                assert_eq!(refused(&client, id), Wire::Raw.unknown());
            }
        }
        server.wait_log("sequence=8");
        let log = server.log();
        let removed = log.matches("removed a stored sequence that is damaged: ");
        // An end needs no state that can be read.
        assert_eq!(removed.count(), 7, "{log}");
    }
}

#[test]
fn a_folder_is_of_one_server_and_can_be_written() {
    let folder = shared::folder("step");
    insta::assert_snapshot!(failure(cli::command(), &url(folder), folder), @r#"
    exit 1
    error: sequence store cannot be used
      caused by: another server uses the folder FOLDER; each needs its own, or a store that can be shared: redis://HOST
    "#);
    let closed = repository::folder();
    let set = |mode| {
        let rights = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(closed.path(), rights).unwrap();
    };
    set(0o500);
    let program = cli::without_rights(closed.path());
    insta::assert_snapshot!(failure(program, &url(closed.path()), closed.path()), @r#"
    exit 1
    error: sequence store cannot be used
      caused by: cannot open FOLDER/ovms.lock
      caused by: Permission denied (os error 13)
    "#);
    set(0o700);
}

#[test]
fn the_log_says_what_a_crash_loses_and_that_nobody_uses_the_store() {
    const DURABILITY: &str = "--sequence-durability is interval: a crash loses the sequences with steps that were not \
                              stored yet, those of the last 700 ms; --sequence-durability step stores each before its \
                              answer";
    const UNUSED: &str = "no model uses --sequence-store: none is stateful, which takes --stateful, or \"stateful\": \
                          true in a configuration file";
    let folder = repository::folder();
    let store = url(&folder.path().join("new"));
    let interval = ["--sequence_store_interval_ms", "700"];
    let said = |server: &Server| {
        let log = server.log();
        let count = |text: &str| log.matches(text).count();
        (count(DURABILITY), count(UNUSED))
    };
    let [server]: [Server; 1] = serve(MODEL, &store, &interval);
    assert_eq!(said(&server), (1, 0), "{}", server.log());
    drop(server);
    let chosen = [&interval[..], &["--sequence_durability", "interval"]].concat();
    let [server]: [Server; 1] = serve(MODEL, &store, &chosen);
    assert_eq!(said(&server), (0, 0), "{}", server.log());
    drop(server);
    let flags = [&["--sequence_store", &store], &STEP[..]].concat();
    let server = Server::begin(MODEL, &model(MODEL), &flags);
    server.wait_ready();
    assert_eq!(said(&server), (0, 1), "{}", server.log());
}

/// A client that sends a whole sequence leaves one open that goes on once there is room again, and offers nothing for
/// one that is damaged.
#[test]
fn what_a_client_says_of_a_full_and_of_a_damaged_store_is_so() {
    let folder = repository::folder();
    let store = url(folder.path());
    let [mut server]: [Server; 1] = serve(MODEL, &store, &STEP);
    let send = |server: &Server, id: &str, more: &[&str]| {
        let mut command = cli::command();
        command
            .args(["infer", MODEL, "--sequence", "--sequence-id", id, "-q"])
            .args(["-i", "x=[[1,1,1,1],[2,2,2,2]]", "--output", "csv"])
            .args(["--url", &format!("localhost:{}", server.port)])
            .args(more);
        cli::run(&mut command)
    };
    for id in ["7", "8"] {
        let begun = send(&server, id, &["--no-end"]);
        assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    }
    let place = folder.path().join(MODEL);
    let part = place.join("7.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    insta::assert_snapshot!(send(&server, "7", &["--continue"]).failure(), @r"
    exit 1
    error: step 1 of 2: the server refused the request: RESOURCE_EXHAUSTED: Sequence store is full
    hint: make room in the server's store; until then no step can be stored
    hint: sequence 7 is open: `--sequence --continue --sequence-id 7` continues it from step 1, or from the one after if the server has run that one; `ovms infer running_total --sequences`, over REST, shows the steps that it has run
    ");
    // The server has taken what is in the way with it.
    assert!(!part.exists());
    let rest = send(&server, "7", &["--continue"]);
    assert!(
        rest.text().contains("\n4.0,"),
        "{} {}",
        rest.text(),
        rest.stderr
    );
    server.signal("TERM");
    server.wait();
    fs::write(place.join("8"), "text").unwrap();
    let [server]: [Server; 1] = serve(MODEL, &store, &STEP);
    for more in [&["--continue"][..], &["--continue", "--no-end"]] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(send(&server, "8", more).failure(), @r"
            exit 1
            error: step 1 of 2: the server refused the request: INTERNAL: Sequence store is damaged - begin sequence 8 again, which replaces what is stored of it, or remove that with DELETE /v1/models/running_total/sequences/8
            hint: its state can no longer be read; without `--continue` it starts again
            ");
        }
    }
    let again = send(&server, "8", &[]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
}

#[test]
fn states_that_cannot_be_stored_at_a_reload_are_kept_until_they_can_be() {
    let folder = repository::folder();
    let models = repository::of(&[("1", MODEL)]);
    let config = models.path().join("config.json");
    let write = |nireq: u32| {
        let mut entry = sequence::entry(MODEL, MODEL);
        (entry["base_path"], entry["nireq"]) = (models.path().to_str().into(), nireq.into());
        sequence::write(&config, &[entry]);
    };
    write(1);
    let store = url(folder.path());
    let flags = [&["--sequence_store", &store][..], &super::LONG].concat();
    let server = sequence::serve_file(&config, &flags);
    let client = Client::connect(&server);
    start(&client, 7);
    assert_eq!(step(&client, 7), 2.0);
    // In the place of the file to be written.
    let unfinished = folder.path().join(MODEL).join("7.part");
    fs::create_dir(&unfinished).unwrap();
    write(2);
    let began = Instant::now();
    let reload = http::post(&server, "/v1/config/reload", b"");
    assert_eq!(reload.status, 201, "{}", server.log());
    let failed = || {
        server
            .log()
            .matches("the state of a sequence is not stored")
            .count()
    };
    eventually("it was tried some times", || (failed() >= 4).then_some(()));
    // With a pause after each, which is longer each time.
    assert!(began.elapsed() >= Duration::from_millis(700));
    fs::remove_dir(&unfinished).unwrap();
    assert_eq!(step(&client, 7), 3.0);
}

#[test]
fn a_step_that_does_not_end_is_answered_and_its_sequence_is_closed() {
    for flags in [&STEP[..], &super::LONG] {
        let folder = repository::folder();
        let limits = [
            ["--inference_timeout_ms", "1000"],
            ["--shutdown_timeout_seconds", "1"],
        ];
        let flags = [flags, limits.as_flattened()].concat();
        let [mut server] = serve("running_busy", &url(folder.path()), &flags);
        let client = Client::connect(&server);
        for id in [7, 8] {
            client.total(Wire::Raw, &super::busy(id, 1).start());
        }
        let refused = client.refused(Wire::Raw, &super::busy(7, ENDLESS));
        assert_eq!(
            refused,
            "DeadlineExceeded: Inference timed out - the inference takes longer than \
             inference_timeout_ms, 1000 ms - sequence 7 has been closed"
        );
        assert_eq!(client.total(Wire::Raw, &super::busy(8, 1)), (8, 2.0));
        server.signal("TERM");
        eventually("the server ends", || server.ended());
        let [server] = serve("running_busy", &url(folder.path()), &[]);
        let client = Client::connect(&server);
        let refused = client.refused(Wire::Raw, &super::busy(7, 1));
        assert_eq!(refused, Wire::Raw.unknown());
        assert_eq!(client.total(Wire::Raw, &super::busy(8, 1)), (8, 3.0));
    }
}
