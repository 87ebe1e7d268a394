//! Ways to a store: passwords, TLS, clusters.

use std::{path::Path, process::Command};

use super::{MODEL, STEP, serve, start, step};
use crate::support::{
    Server, cli, eventually, model,
    redis::Redis,
    repository,
    sequence::Client,
    server::{free_ports, on},
    tools,
};

/// Goes on with sequences from one server to another, and behind both.
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

#[test]
fn a_cluster_is_a_store() {
    let flags = ["--cluster-enabled", "yes", "--cluster-port", "PORT2"];
    let nodes = [(); 3].map(|()| Redis::start(&flags));
    let [Some(first), Some(second), Some(third)] = &nodes else {
        return;
    };
    for (node, slots) in [
        (first, "0 5461"),
        (second, "5462 10922"),
        (third, "10923 16383"),
    ] {
        node.ask::<()>(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        let (port, second) = (first.port, first.second_port);
        node.ask::<()>(&format!("CLUSTER MEET 127.0.0.1 {port} {second}"));
    }
    for node in [first, second, third] {
        eventually("the cluster is whole", || {
            let state = node.ask::<String>("CLUSTER INFO");
            let whole = [
                "cluster_state:ok",
                "cluster_known_nodes:3",
                "cluster_slots_ok:16384",
            ];
            whole.iter().all(|line| state.contains(line)).then_some(())
        });
    }
    let (one, both) = (first.url(), format!("{},{}", second.url(), third.url()));
    for (url, durability) in [(one + "?cluster=true", "step"), (both, "interval")] {
        hop(serve(MODEL, &url, &["--sequence_durability", durability]));
        for node in [first, second, third] {
            // The node that does not have them says where they are.
            let _ = node.try_ask::<()>(&format!("DEL {} {}", super::record(7), super::record(8)));
        }
    }
}
