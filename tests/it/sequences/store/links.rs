//! Ways to a store: passwords, TLS, clusters.

use std::{path::Path, process::Command};

use super::{AWAY, MODEL, STEP, ask, serve, start, step};
use crate::support::{
    Server, cli, eventually, model,
    redis::Redis,
    repository,
    sequence::{Ask, Client, Wire},
    server::{free_ports, on},
    tools,
};

/// Continues sequences from one server to another, and behind both.
fn hop(servers: [Server; 2]) {
    {
        let clients = servers.each_ref().map(Client::connect);
        for id in [7, 8] {
            start(&clients[0], id);
            assert_eq!(step(&clients[1], id), 2.0);
            assert_eq!(step(&clients[0], id), 3.0);
        }
    }
    for server in &servers {
        assert!(!server.log().contains("secret"), "{}", server.log());
    }
}

#[test]
fn passwords_and_users_open_a_store() {
    let user = ["--user", "u", "on", ">secret2", "~*", "&*", "+@all"];
    let redis = found!(Redis::start(
        &[&["--requirepass", "secret"], &user[..]].concat()
    ));
    for (login, durability) in [(":secret", "step"), ("u:secret2", "interval")] {
        let url = format!(
            "redis://{login}@127.0.0.1:{}/0?prefix={durability}",
            redis.port
        );
        hop(serve(MODEL, &url, &["--sequence_durability", durability]));
    }
}

#[test]
fn what_a_user_may_not_do_is_warned_of() {
    let user = [
        "--user",
        "u",
        "on",
        ">secret",
        "~*",
        "resetchannels",
        "+@all",
    ];
    let redis = found!(Redis::start(&user));
    let url = format!("redis://u:secret@127.0.0.1:{}", redis.port);
    let [server]: [Server; 1] = serve(MODEL, &url, &STEP);
    let warning = "its user may not use their channels; allow it those of ovms:wanted:*";
    server.wait_log(warning);
    start(&Client::connect(&server), 7);
    let log = server.log();
    assert_eq!(log.matches(warning).count(), 1, "{log}");
    assert!(!log.contains("secret"), "{log}");
    // Nor what else it may not do, which a client is not shown.
    redis.ask::<()>("ACL SETUSER u -@scripting");
    for _ in 0..2 {
        let refused = Client::connect(&server).refused(Wire::Raw, &ask(7));
        assert_eq!(refused, AWAY);
    }
    server.wait_log(" refuses: ");
    let log = server.log();
    assert_eq!(log.matches(" refuses: ").count(), 1, "{log}");
}

/// Makes an authority, and a certificate of it for this machine.
fn certificates(openssl: &Path, folder: &Path) {
    let run = |args: &[&str]| {
        let done = Command::new(openssl)
            .args(args)
            .current_dir(folder)
            .output();
        let done = done.expect("openssl starts");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let ec = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ];
    run(&[
        &[
            "req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca",
        ],
        &ec[..],
    ]
    .concat());
    let of = [
        "req", "-x509", "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "s.key", "-out", "s.pem",
    ];
    let host = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    ];
    let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
    run(&[&of[..], &host, &leaf, &ec].concat());
}

#[test]
fn tls_reaches_a_store_whose_certificate_the_system_trusts() {
    let openssl = found!(tools::find("openssl"));
    let folder = repository::folder();
    certificates(&openssl, folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [ca, certificate, key] = ["ca.pem", "s.pem", "s.key"].map(file);
    let flags = [
        ["--tls-port", "PORT2", "--tls-ca-cert-file", &ca],
        ["--tls-cert-file", &certificate, "--tls-key-file", &key],
    ];
    let auth = ["--tls-auth-clients", "no", "--requirepass", "secret"];
    let redis = found!(Redis::start(&[flags.concat(), auth.to_vec()].concat()));
    let url = format!("rediss://:secret@localhost:{}", redis.second_port);
    let begin = |trusted: &str| {
        let ports = free_ports();
        let mut command = cli::command();
        command
            .env("SSL_CERT_FILE", trusted)
            .args(["serve", "--stateful", "--model_name", MODEL, "--model_path"])
            .arg(model(MODEL))
            .args([
                "--sequence_store",
                &url,
                STEP[0],
                STEP[1],
                super::SOON[0],
                super::SOON[1],
            ])
            .args(on(ports));
        Server::spawn(&mut command, ports)
    };
    let servers = [begin(&ca), begin(&ca)];
    servers.iter().for_each(Server::wait_ready);
    hop(servers);
    let mut stranger = begin("/dev/null");
    assert_eq!(stranger.wait().code(), Some(1));
    let line = stranger.wait_log("caused by");
    assert!(
        line.contains("ertificate") && !line.contains("secret"),
        "{line}"
    );
}

/// Starts a cluster whose first three nodes have all slots.
fn cluster<const N: usize>(flags: &[&str]) -> Option<[Redis; N]> {
    let own = ["--cluster-enabled", "yes", "--cluster-port", "PORT2"];
    let nodes = [(); N].map(|()| Redis::start(&[&own[..], flags].concat()));
    let nodes: Vec<Redis> = nodes.into_iter().collect::<Option<_>>()?;
    let [first, second, third, ..] = &nodes[..] else {
        return None;
    };
    for (node, slots) in [
        (first, "0 5461"),
        (second, "5462 10922"),
        (third, "10923 16383"),
    ] {
        node.ask::<()>(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    let known = format!("cluster_known_nodes:{N}\r");
    for node in &nodes {
        let (port, second) = (first.port, first.second_port);
        node.ask::<()>(&format!("CLUSTER MEET 127.0.0.1 {port} {second}"));
    }
    for node in &nodes {
        eventually("the cluster is whole", || {
            let state = node.ask::<String>("CLUSTER INFO");
            let whole = ["cluster_state:ok", &known, "cluster_slots_ok:16384"];
            whole.iter().all(|line| state.contains(line)).then_some(())
        });
    }
    nodes.try_into().ok()
}

#[test]
fn a_cluster_is_a_store() {
    let [first, second, third] = &found!(cluster::<3>(&[]));
    let (one, both) = (first.url(), format!("{},{}", second.url(), third.url()));
    for (url, durability) in [(one + "?cluster=true", "step"), (both, "interval")] {
        hop(serve(MODEL, &url, &["--sequence_durability", durability]));
        for node in [first, second, third] {
            // The node that does not have them says where they are.
            let _ = node.try_ask::<()>(&format!("DEL {} {}", super::record(7), super::record(8)));
        }
    }
}

#[test]
fn a_node_that_does_not_answer_leaves_the_rest_of_its_cluster() {
    let [first, second, third, fourth] = &found!(cluster::<4>(&["--cluster-node-timeout", "2000"]));
    let id = first.ask::<String>("CLUSTER MYID");
    fourth.ask::<()>(&format!("CLUSTER REPLICATE {id}"));
    eventually("the replica follows", || {
        let state = fourth.ask::<String>("INFO replication");
        state.contains("master_link_status:up").then_some(())
    });
    // The model's slot and the messages are those of the first one.
    let url = [first, second, third].map(Redis::url).join(",");
    let servers: [Server; 2] = serve(MODEL, &url, &super::LONG);
    let clients = servers.each_ref().map(Client::connect);
    start(&clients[0], 7);
    assert_eq!(step(&clients[1], 7), 2.0);
    // As a machine that is gone: nobody closes its connections.
    first.signal("STOP");
    eventually("its replica has its place", || {
        let state = fourth.ask::<String>("INFO replication");
        state.contains("role:master").then_some(())
    });
    let goes = |place: usize, ask: &Ask| {
        let what = format!("server {place} goes on");
        let sent = eventually(&what, || clients[place].send(Wire::Raw, ask).ok());
        sent.total()
    };
    assert_eq!(goes(0, &ask(8).start().key("a")), (8, 1.0));
    // Whoever has not said so since then counts as gone.
    let lives = |node: &Redis| {
        let names = node.ask::<Vec<String>>("KEYS ovms:server:*").into_iter();
        let rest = names.map(|name| node.ask::<i64>(&format!("PTTL {name}")));
        rest.filter(|rest| *rest > 3000).count()
    };
    eventually("both say that they live", || {
        let living = [second, third, fourth].map(lives);
        (living.iter().sum::<usize>() == 2).then_some(())
    });
    // The first server is asked for the state.
    assert_eq!(goes(1, &ask(8).key("b")), (8, 2.0));
}
