//! Stores that are not there, go away, are full, or have something else in them.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{DAMAGED, MODEL, SOON, STEP, ask, serve, shared::pair, start, step};
use crate::support::{
    Server, cli, http, model,
    redis::{DURABLE, Redis},
    relay::Relay,
    sequence::{Ask, Client, Wire},
    server::{free_ports, on},
    thread,
};

/// Runs a server with a store that it cannot have; returns its failure, with a port named by a word.
fn failure(store: &str, port: u16) -> String {
    let mut command = cli::command();
    command
        .args(["serve", "--stateful", "--model_name", MODEL, "--model_path"])
        .arg(model(MODEL))
        .args(on(free_ports()))
        .args(["--sequence_store", store, SOON[0], SOON[1]]);
    let run = cli::run(&mut command);
    assert!(!run.text().contains("secret"), "{}", run.text());
    run.failure().replace(&port.to_string(), "PORT")
}

#[test]
fn a_store_that_cannot_be_had_ends_the_start() {
    let redis = found!(Redis::start(&["--requirepass", "right"]));
    let (nobody, _) = free_ports();
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = http.local_addr().unwrap().port();
    let _speaks = thread(move || {
        // Until the test ends.
        while let Ok((mut client, _)) = http.accept() {
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            let mut rest = Vec::new();
            let _ = client.read_to_end(&mut rest);
        }
    });
    insta::assert_snapshot!(failure(&format!("redis://:secret@127.0.0.1:{nobody}"), nobody), @r#"
    exit 1
    error: sequence store cannot be used
      caused by: no answer of redis://127.0.0.1:PORT within 1.5s: Connection refused (os error 111)
    "#);
    insta::assert_snapshot!(failure(&format!("redis://:secret@127.0.0.1:{}", redis.port), redis.port), @r#"
    exit 1
    error: sequence store cannot be used
      caused by: redis://127.0.0.1:PORT refuses: Password authentication failed - AuthenticationFailed
    "#);
    insta::assert_snapshot!(failure(&redis.url(), redis.port), @r#"
    exit 1
    error: sequence store cannot be used
      caused by: redis://127.0.0.1:PORT refuses: "NOAUTH": Authentication required.
    "#);
    insta::assert_snapshot!(failure(&format!("redis://u:secret@127.0.0.1:{other}"), other), @r#"
    exit 1
    error: sequence store cannot be used
      caused by: redis://127.0.0.1:PORT does not speak the protocol of Redis; is the port right?
    "#);
}

#[test]
fn a_stop_does_not_wait_for_a_store_that_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut server = cli::command()
        .args(["serve", "--stateful", "--model_name", MODEL, "--model_path"])
        .arg(model(MODEL))
        .args(on(free_ports()))
        .args([
            "--sequence_store",
            &store,
            "--sequence_store_timeout_ms",
            "600000",
        ])
        .stdout(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    // From then on it waits for an answer.
    let _client = silent.accept().unwrap();
    let asked = Instant::now();
    let id = server.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    let status = server.wait().unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopped before the sequence store"), "{log}");
    assert!(asked.elapsed() < Duration::from_secs(10), "{log}");
}

#[test]
fn a_store_that_goes_away_is_waited_for_and_gone_on_with() {
    let mut redis = found!(Redis::start(&DURABLE));
    let servers: [Server; 2] = serve(MODEL, &redis.url(), &[STEP, SOON].concat());
    let clients = servers.each_ref().map(Client::connect);
    start(&clients[0], 7);
    assert_eq!(step(&clients[0], 7), 2.0);
    let mut total = 2.0;
    for wire in Wire::ALL {
        // One kind of request for each time that it is away.
        let (place, ask) = match wire {
            Wire::Json => (0, ask(8).start()),
            Wire::Binary => (1, Ask::new(MODEL, 1.0).start()),
            _ => (usize::from(wire.is_grpc()), ask(7)),
        };
        redis.crash();
        let asked = Instant::now();
        let away = "Sequence store is not available - try again";
        let away = wire.error(tonic::Code::Unavailable, 503, away);
        assert_eq!(clients[place].refused(wire, &ask), away);
        assert!(
            asked.elapsed() > Duration::from_millis(1400),
            "{:?}",
            asked.elapsed()
        );
        redis.again();
        for client in &clients {
            total += 1.0;
            assert_eq!(step(client, 7), total, "{wire:?}");
        }
    }
    // While a request waits for it.
    redis.signal("STOP");
    let late = clients[0]
        .tfs
        .grpc
        .call(crate::support::sequence::infer(&ask(7), true));
    clients[0].tfs.grpc.round_trip();
    assert!(!late.is_answered());
    redis.signal("CONT");
    let late = crate::support::sequence::of_infer(&late.wait().unwrap());
    assert_eq!(late.total(), (7, total + 1.0));
    // Those that nobody can store yet wait here.
    drop(clients);
    let [server] = serve(MODEL, &redis.url(), &super::LONG);
    let client = Client::connect(&server);
    assert_eq!(step(&client, 7), total + 2.0);
    redis.crash();
    assert_eq!(step(&client, 7), total + 3.0);
    redis.again();
    assert_eq!(step(&Client::connect(&servers[0]), 7), total + 4.0);
}

#[test]
fn a_connection_with_wrong_answers_is_given_up() {
    let redis = found!(Redis::start(&DURABLE));
    let is_wrong = Arc::new(AtomicBool::new(false));
    let wrong = Arc::clone(&is_wrong);
    // A number, and an answer that nobody has asked for. One that comes with another is not the first.
    let relay = Relay::changing(redis.port, move |bytes| {
        if wrong.load(Ordering::Relaxed) {
            let begins = |at: usize| at == 0 || bytes[at - 1] == b'\n';
            let lists: Vec<usize> = (0..bytes.len())
                .filter(|&at| bytes[at] == b'*' && begins(at))
                .collect();
            for at in lists {
                bytes[at] = b':';
            }
        }
    });
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let [server]: [Server; 1] = serve(MODEL, &url, &[STEP, SOON].concat());
    let client = Client::connect(&server);
    start(&client, 7);
    is_wrong.store(true, Ordering::Relaxed);
    for wire in [Wire::Raw, Wire::Json] {
        let away = "Sequence store is not available - try again";
        let away = wire.error(tonic::Code::Unavailable, 503, away);
        assert_eq!(client.refused(wire, &ask(7).key("2")), away);
    }
    is_wrong.store(false, Ordering::Relaxed);
    // The first of them was stored, and its answer could not be read.
    assert_eq!(client.total(Wire::Raw, &ask(7).key("2")), (7, 2.0));
    assert_eq!(client.total(Wire::Raw, &ask(7).key("3")), (7, 3.0));
}

#[test]
fn a_full_store_refuses_until_there_is_room() {
    let redis = found!(Redis::start(&["--maxmemory-policy", "noeviction"]));
    let [server]: [Server; 1] = serve(MODEL, &redis.url(), &STEP);
    let client = Client::connect(&server);
    start(&client, 7);
    redis.ask::<()>("CONFIG SET maxmemory 1");
    for wire in Wire::ALL {
        let full = wire.error(
            tonic::Code::ResourceExhausted,
            503,
            "Sequence store is full",
        );
        assert_eq!(client.refused(wire, &ask(7)), full);
        assert_eq!(client.refused(wire, &ask(8).start()), full);
    }
    redis.ask::<()>("CONFIG SET maxmemory 0");
    assert_eq!(step(&client, 7), 2.0);
    start(&client, 8);
}

#[test]
fn what_is_no_sequence_is_reported_and_can_be_removed() {
    let pair = found!(pair("step"));
    let ([client, other], redis) = (pair.clients(), pair.redis);
    let ask = Ask::new("damaged", 1.0).id(7);
    let key = format!("{}:{{damaged}}:s:7", pair.prefix);
    for command in [
        "SET KEY text",
        "HSET KEY t text",
        "HDEL KEY t",
        "HSET KEY n text",
    ] {
        let begun = client.total(Wire::Raw, &ask.clone().start());
        assert_eq!(begun, (7, 1.0));
        redis.ask::<()>(&command.replace("KEY", &key));
        assert_eq!(other.refused(Wire::Raw, &ask), DAMAGED, "{command}");
        let json = other.refused(Wire::Json, &ask);
        assert_eq!(json, "500: Sequence store is damaged", "{command}");
        redis.ask::<()>(&format!("DEL {key}"));
        assert_eq!(client.refused(Wire::Raw, &ask), Wire::Raw.unknown());
    }
    // An answer that is none.
    let start = ask.clone().start().key("k");
    client.total(Wire::Raw, &start);
    redis.ask::<()>(&format!("HSET {key} r text"));
    assert_eq!(other.refused(Wire::Raw, &start), DAMAGED);
    assert_eq!(other.total(Wire::Raw, &ask).1, 2.0);
    assert_eq!(http::get(client.server, "/v2/health/ready").status, 200);
}

#[test]
fn a_state_of_another_model_is_refused_and_stays() {
    let pair = found!(pair("step"));
    let [client, other] = pair.clients();
    let ask = |id| Ask::new("digest", 1.0).id(id);
    let begin = |client: &Client<'_>, id| client.total(Wire::Raw, &ask(id).start());
    assert_eq!(begin(&client, 7), (7, 1.0));
    super::refuses_other_files(&other, &ask(7));
    assert_eq!(client.total(Wire::Raw, &ask(7)), (7, 2.0));
    assert_eq!(begin(&other, 8), (8, 1.0));
    assert_eq!(client.refused(Wire::Raw, &ask(9)), Wire::Raw.unknown());
}
