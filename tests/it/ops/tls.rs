//! TLS of the ports: all APIs, certificates of clients, files that change, and bounds of handshakes.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    sync::LazyLock,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{
    Server,
    certificates::{Authority, Certificates},
    cli::{self, Run},
    eventually,
    http::connect_from,
    model, thread,
};

const APIS: [&str; 4] = ["kserve-grpc", "tfs-grpc", "kserve-rest", "tfs-rest"];

pub(super) fn start(made: &Certificates, flags: &[&str]) -> Server {
    let pair = made.server("server");
    let flags: Vec<&str> = pair
        .iter()
        .map(String::as_str)
        .chain(flags.iter().copied())
        .collect();
    Server::start_with("dummy", &flags)
}

/// The server of the tests that leave it and its files as they were, at two addresses, with their folder: a certificate
/// of five days, the pair `other` of another authority, the authority `stranger`, and the access log.
static SHARED: LazyLock<(Server, PathBuf)> = LazyLock::new(|| {
    let made = Certificates::new();
    made.write("server", 5);
    made.other();
    let stranger = Authority::new("stranger");
    fs::write(made.path("stranger.pem"), stranger.pem()).unwrap();
    let access = made.text("access");
    let flags = [
        "--grpc_bind_address=127.0.0.1,127.0.0.2",
        "--rest_bind_address=127.0.0.1,127.0.0.2",
        "--metrics_enable",
        "--access_log",
        &access,
    ];
    let server = start(&made, &flags);
    let path = made.folder.path().to_owned();
    (server.kept(Some(made.folder)), path)
});

/// Returns the path of a file of the shared server.
fn shared_file(name: &str) -> String {
    SHARED.1.join(name).display().to_string()
}

/// Returns the address of an API of a server, with a scheme of its transport.
fn url(server: &Server, api: &str, tls: bool) -> String {
    match (api.ends_with("grpc"), tls) {
        (true, true) => format!("grpcs://localhost:{}", server.port),
        (false, true) => format!("https://localhost:{}", server.rest_port),
        (true, false) => format!("localhost:{}", server.port),
        (false, false) => format!("localhost:{}", server.rest_port),
    }
}

fn infer(server: &Server, api: &str, flags: &[&str]) -> Run {
    let url = url(server, api, true);
    let words = [
        "infer", "dummy", "--zeros", "--output", "json", "--api", api, "--url", &url,
    ];
    cli::run(cli::command().args(words).args(flags))
}

fn good(run: &Run, what: &str) {
    assert_eq!(run.code, Some(0), "{what}: {}", run.stderr);
    assert!(run.text().contains("1.0,1.0"), "{what}: {}", run.text());
}

/// Asserts that the server cannot be reached, for a reason and with a hint.
fn unreached(run: &Run, reason: &str, hint: &str) {
    assert_eq!(run.code, Some(69), "{}", run.stderr);
    assert!(run.stderr.contains(reason), "{reason}: {}", run.stderr);
    assert!(run.stderr.contains(hint), "{hint}: {}", run.stderr);
}

#[test]
fn all_apis_go_over_tls_and_nothing_else_does() {
    let (server, folder) = &*SHARED;
    let ca = shared_file("ca.pem");
    server.wait_log("gRPC: grpcs://localhost:");
    server.wait_log("REST: https://localhost:");
    for api in APIS {
        good(&infer(server, api, &["--cacert", &ca]), api);
        good(&infer(server, api, &["--insecure"]), api);
        let hint = "`--cacert FILE` names the CA that signed it";
        let run = cli::run(
            cli::command()
                .args([
                    "infer",
                    "dummy",
                    "--zeros",
                    "--api",
                    api,
                    "--url",
                    &url(server, api, true),
                ])
                // The system may have no authorities at all.
                .env("SSL_CERT_FILE", folder.join("other.pem")),
        );
        unreached(&run, "unknown issuer", hint);
        unreached(
            &run,
            "is not signed by a trusted CA",
            "` shows who signed it",
        );
        let plain = url(server, api, false);
        let run = cli::ovms(["infer", "dummy", "--zeros", "--api", api, "--url", &plain]);
        let scheme = if api.ends_with("grpc") {
            "grpcs"
        } else {
            "https"
        };
        unreached(
            &run,
            "is asked over TLS",
            &format!("write `--url {scheme}://{plain}`"),
        );
    }
    // Without TLS at the port of the other transport, the first hint leads there.
    for (port, hint) in [
        (server.rest_port, "https://localhost:"),
        (server.port, "grpcs://localhost:"),
    ] {
        let plain = match hint.starts_with("https") {
            true => format!("localhost:{port}"),
            false => format!("http://localhost:{port}"),
        };
        let with = format!("{hint}{port}");
        let run = cli::ovms(["infer", "dummy", "--zeros", "--url", &plain]);
        unreached(&run, "is asked over TLS", &format!("write `--url {with}`"));
        let words = [
            "infer", "dummy", "--zeros", "--output", "json", "--cacert", &ca,
        ];
        let run = cli::run(cli::command().args(words).args(["--url", &with]));
        good(&run, &with);
    }
    // The wrong port: what both ends speak differs.
    let wrong = format!("https://localhost:{}", server.port);
    let words = [
        "infer",
        "dummy",
        "--zeros",
        "--api",
        "kserve-rest",
        "--cacert",
        &ca,
    ];
    let run = cli::run(cli::command().args(words).args(["--url", &wrong]));
    unreached(
        &run,
        "does not speak kserve-rest",
        "it speaks `--api kserve-grpc`",
    );
    eventually("the peer in the access log", || {
        let lines = fs::read_to_string(folder.join("access")).unwrap_or_default();
        lines.contains(" 127.0.0.1:").then_some(())
    });
    let page = curl(server, &ca, "/metrics");
    let sample = "ovms_tls_certificate_expiry_timestamp_seconds ";
    let expiry = page
        .lines()
        .find_map(|line| line.strip_prefix(sample))
        .expect(&page);
    assert!(expiry.parse::<u64>().unwrap() > 1_700_000_000);
}

impl Certificates {
    /// Writes the pair `other` of another authority.
    fn other(&self) {
        self.write_of(&Authority::new("other authority"), "other", 90);
    }
}

fn curl(server: &Server, ca: &str, path: &str) -> String {
    let url = format!("https://localhost:{}{path}", server.rest_port);
    let mut command = cli::plain(std::process::Command::new("curl"));
    let run = cli::run(command.args(["-sS", "--max-time", "20", "--cacert", ca, &url]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.text()
}

#[test]
fn one_port_alone_may_have_it() {
    let made = Certificates::new();
    made.write("server", 90);
    let ca = made.text("ca.pem");
    let server = start(&made, &["--grpc_tls"]);
    good(&infer(&server, "kserve-grpc", &["--cacert", &ca]), "gRPC");
    let plain = url(&server, "kserve-rest", false);
    let words = [
        "infer",
        "dummy",
        "--zeros",
        "--api",
        "kserve-rest",
        "--url",
        &plain,
    ];
    assert_eq!(cli::ovms(words).code, Some(0));
    let run = infer(&server, "kserve-rest", &["--cacert", &ca]);
    unreached(
        &run,
        "answers without TLS\n  caused by: ",
        &format!("hint: its port has no TLS: use `--url http://{plain}`"),
    );
    let words = ["doctor", "--output", "json", "--cacert", &ca, "--url"];
    let run = cli::run(cli::command().args(words).arg(format!("https://{plain}")));
    let text = run.text();
    assert!(text.contains("answers without TLS"), "{text}");
    assert!(
        text.contains(&format!("use `--url http://{plain}`")),
        "{text}"
    );
    // The same of gRPC, where either end may be the one that gives up.
    let server = start(&made, &["--rest_tls", "--grpc_tls=false"]);
    for api in ["kserve-grpc", "tfs-grpc"] {
        let plain = format!("use `--url grpc://localhost:{}`", server.port);
        unreached(&infer(&server, api, &["--cacert", &ca]), "TLS", &plain);
    }
}

#[test]
fn a_certificate_of_other_names_is_reported_with_its_names() {
    let ca = shared_file("ca.pem");
    for command in ["infer", "bench"] {
        for api in APIS {
            let url = url(&SHARED.0, api, true).replace("localhost", "127.0.0.2");
            let words = [command, "dummy", "--zeros", "--api", api, "--cacert", &ca];
            let run = cli::run(cli::command().args(words).args(["--url", &url]));
            let reason = format!(
                "error: the certificate of {url} is for localhost and 127.0.0.1, not for 127.0.0.2\n  \
                 caused by: invalid peer certificate: "
            );
            unreached(
                &run,
                &reason,
                "hint: use a name of the certificate in `--url`",
            );
        }
    }
}

#[test]
fn a_certificate_that_has_expired_is_reported_with_its_time() {
    let made = Certificates::new();
    made.write("server", -1);
    let ca = made.text("ca.pem");
    let server = start(&made, &[]);
    for api in APIS {
        let run = infer(&server, api, &["--cacert", &ca]);
        let url = url(&server, api, true);
        let reason = format!("error: the certificate of {url} expired at 20");
        unreached(&run, &reason, "hint: renew it on the server");
        good(&infer(&server, api, &["--insecure"]), api);
    }
}

#[test]
fn certificates_of_clients_are_required_and_their_authorities_may_change() {
    let made = Certificates::new();
    made.write("server", 90);
    made.write("client", 90);
    made.write("old", -1);
    made.other();
    let (ca, clients) = (made.text("ca.pem"), made.text("clients.pem"));
    fs::copy(&ca, &clients).unwrap();
    let flags = ["--tls_poll_wait_seconds", "1", "--tls_client_ca", &clients];
    let server = start(&made, &flags);
    let with = |api: &str, name: &str| {
        let [cert, key] = ["pem", "key"].map(|end| made.text(&format!("{name}.{end}")));
        let flags = ["--cacert", &ca, "--cert", &cert, "--key", &key];
        infer(&server, api, &flags)
    };
    let rejected = "rejected the client certificate";
    for api in APIS {
        good(&with(api, "client"), api);
        let run = infer(&server, api, &["--cacert", &ca]);
        let reason = "requires a client certificate";
        unreached(&run, reason, "`--cert FILE` and `--key FILE`");
        for name in ["other", "old"] {
            let hint = "check that `--cert` is signed by";
            unreached(&with(api, name), rejected, hint);
        }
    }
    server.wait_log("TLS handshake of gRPC with 127.0.0.1 failed: ");

    let check = |known: &str, stranger: &str| {
        good(&with("kserve-rest", known), known);
        unreached(&with("kserve-rest", stranger), rejected, "--cert");
    };
    for (text, reason) in [
        ("", "found no certificate in PEM form"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "found no CA certificate that can be decoded",
        ),
    ] {
        fs::write(&clients, text).unwrap();
        let said = server.wait_log(reason);
        let expected = "TLS keeps using the certificate that is valid until";
        assert!(said.contains(" WARN ") && said.contains(expected), "{said}");
        assert!(said.contains("cannot use --tls-client-ca"), "{said}");
        check("client", "other");
    }
    let authority = Authority::new("next authority");
    made.write_of(&authority, "next", 90);
    fs::write(&clients, authority.pem()).unwrap();
    server.wait_log("TLS has read its files again: CN=server");
    check("next", "client");
}

#[test]
fn a_certificate_that_begins_later_is_taken_when_it_does() {
    let made = Certificates::new();
    made.write("server", 10);
    let server = start(&made, &["--tls_poll_wait_seconds", "1"]);
    made.write_later("server", 5);
    server.wait_log("is not valid before");
    server.wait_log("TLS has a new certificate");
    let log = server.log();
    assert_eq!(log.matches("is not valid before").count(), 1, "{log}");
}

#[test]
fn a_certificate_that_begins_later_is_warned_of_at_the_start() {
    let made = Certificates::new();
    made.write_later("server", 3600);
    let server = start(&made, &[]);
    let log = server.wait_log("server.pem is not valid before");
    let line = log
        .lines()
        .find(|line| line.contains("is not valid before"));
    assert!(line.is_some_and(|line| line.contains(" ERROR ")), "{log}");
    let mut command = cli::command();
    command.args(["serve", "--check", "--model_name", "dummy", "--model_path"]);
    let run = cli::run(command.arg(model("dummy")).args(made.server("server")));
    assert_eq!(run.code, Some(2), "{}{}", run.text(), run.stderr);
    let both = run.text() + &run.stderr;
    assert!(both.contains("server.pem is not valid before"), "{both}");
}

#[test]
fn changed_files_are_served_without_a_lost_request_and_bad_ones_are_not() {
    let made = Certificates::new();
    made.write("server", 10);
    let ca = made.text("ca.pem");
    let server = start(&made, &["--tls_poll_wait_seconds", "1", "--metrics_enable"]);
    assert!(
        server.log().contains("expires in 10 days"),
        "{}",
        server.log()
    );
    let load = {
        let (url, ca) = (url(&server, "kserve-grpc", true), ca.clone());
        thread(move || {
            let words = [
                "infer",
                "dummy",
                "--zeros",
                "--duration",
                "6s",
                "--output",
                "json",
            ];
            cli::run(
                cli::command()
                    .args(words)
                    .args(["--cacert", &ca, "--url", &url]),
            )
        })
    };
    let expiry = || {
        let page = curl(&server, &ca, "/metrics");
        let line = page
            .lines()
            .find(|line| line.starts_with("ovms_tls_certificate_expiry"));
        line.unwrap().to_owned()
    };
    let before = expiry();
    made.write("server", 90);
    server.wait_log(
        "TLS has a new certificate: CN=server (localhost, 127.0.0.1), of CN=test authority",
    );
    assert_ne!(expiry(), before);
    // The key of another certificate.
    made.write("stranger", 90);
    let key = fs::read(made.path("server.key")).unwrap();
    fs::copy(made.path("stranger.key"), made.path("server.key")).unwrap();
    server.wait_log("TLS keeps using the certificate that is valid until");
    let mismatch = server.wait_log("the key is not that of the certificate in");
    assert!(mismatch.contains(" WARN "), "{mismatch}");
    let page = curl(&server, &ca, "/metrics");
    let is_counted = |result: &str| {
        let start = format!(r#"ovms_file_reloads{{file="tls",result="{result}"}}"#);
        let mut lines = page.lines();
        lines.any(|line| line.starts_with(&start) && !line.ends_with(" 0"))
    };
    assert!(is_counted("success") && is_counted("fail"), "{page}");
    good(
        &infer(&server, "kserve-grpc", &["--cacert", &ca]),
        "after a mismatch",
    );
    // An expired pair, and one that is gone.
    made.write("server", -2);
    server.wait_log("the certificate has expired: it was valid until");
    fs::remove_file(made.path("server.pem")).unwrap();
    server.wait_log("cannot read the file");
    good(
        &infer(&server, "tfs-rest", &["--cacert", &ca]),
        "without the file",
    );
    drop(key);
    let run = load.join().unwrap();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let measured: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(measured["failed"], 0, "{measured}");
}

#[test]
fn a_wait_does_not_last_for_a_certificate_that_is_not_trusted() {
    let [ca, stranger] = ["ca.pem", "stranger.pem"].map(shared_file);
    for api in APIS {
        let begun = Instant::now();
        let run = infer(&SHARED.0, api, &["--wait", "60", "--cacert", &stranger]);
        unreached(&run, "is not signed by a trusted CA", "`--cacert FILE`");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(30), "{api}: {took:?}");
        let run = infer(&SHARED.0, api, &["--wait", "60", "--cacert", &ca]);
        good(&run, api);
    }
}

#[test]
fn handshakes_have_a_time_and_a_number() {
    let made = Certificates::new();
    made.write("server", 90);
    let ca = made.text("ca.pem");
    let flags = [
        "--tls_handshake_timeout_seconds",
        "2",
        "--max_tls_handshakes",
        "1",
    ];
    let server = start(&made, &flags);
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    // Those that say nothing hold no place of others.
    let began = Instant::now();
    let silent: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    good(
        &infer(&server, "kserve-grpc", &["--cacert", &ca]),
        "beside silent ones",
    );
    // One that has begun and goes on with nothing holds the only place until its time is over.
    let mut begun = connect();
    begun.write_all(&[0x16, 0x03, 0x01]).unwrap();
    let run = infer(&server, "kserve-grpc", &["--cacert", &ca]);
    good(&run, "behind one that has begun");
    for mut stream in silent.into_iter().chain([begun]) {
        assert_eq!(stream.read(&mut [0; 100]).unwrap_or(0), 0, "it is closed");
    }
    assert!(began.elapsed().as_secs() >= 2);
    // What is no TLS ends at once.
    let mut other = connect();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = other.read_to_end(&mut answer);
    assert!(answer.len() < 10, "an alert at most: {answer:?}");
    server.wait_log("TLS handshake of gRPC with 127.0.0.1 failed: ");
}

#[test]
fn handshakes_that_are_held_keep_no_other_network_out() {
    let made = Certificates::new();
    made.write("server", 90);
    let ca = made.text("ca.pem");
    let flags = [
        "--tls_handshake_timeout_seconds",
        "600",
        "--max_tls_handshakes",
        "2",
    ];
    let server = start(&made, &flags);
    let held = (0..8).map(|_| {
        let mut stream = connect_from([127, 0, 0, 2], server.port);
        stream.write_all(&[0x16, 0x03, 0x01]).unwrap();
        stream
    });
    let held: Vec<TcpStream> = held.collect();
    let began = Instant::now();
    let run = infer(&server, "kserve-grpc", &["--cacert", &ca]);
    good(&run, "beside another network that holds all places");
    assert!(began.elapsed().as_secs() < 60);
    drop(held);
}

#[test]
fn a_stop_waits_for_no_handshake() {
    let made = Certificates::new();
    made.write("server", 90);
    let mut server = start(&made, &["--tls_handshake_timeout_seconds", "600"]);
    let mut silent = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let began = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(began.elapsed().as_secs() < 10);
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn a_doctor_sees_the_certificate_and_the_verdict() {
    let (server, _) = &*SHARED;
    let checks = |flags: &[&str]| {
        let words = ["doctor", "--output", "json", "--url"];
        let url = url(server, "kserve-grpc", true);
        let run = cli::run(cli::command().args(words).arg(url).args(flags));
        let report: Value = serde_json::from_str(&run.text()).expect(&run.stderr);
        let checks = report["checks"].as_array().unwrap().clone();
        let of = move |name: &str| {
            checks
                .iter()
                .find(|it| it["name"] == name)
                .unwrap()
                .to_string()
        };
        (of("TLS"), of("server"))
    };
    let (tls, answers) = checks(&["--cacert", &shared_file("ca.pem")]);
    assert!(
        tls.contains("TLSv1_3 at grpcs://localhost:") && tls.contains(", h2\""),
        "{tls}"
    );
    assert!(
        tls.contains("CN=server (localhost, 127.0.0.1), of CN=test authority"),
        "{tls}"
    );
    assert!(tls.contains("expires in 5 days; renew it"), "{tls}");
    assert!(
        answers.contains("\"ok\"") && answers.contains(", ready"),
        "{answers}"
    );
    let (tls, answers) = checks(&["--cacert", &shared_file("other.pem")]);
    assert!(
        tls.contains("it would be refused: ") && tls.contains("unknown issuer"),
        "{tls}"
    );
    assert!(answers.contains("\"warn\""), "{answers}");
    let ports = [
        format!("--port={}", server.port),
        "--rest_port=1".to_owned(),
    ];
    let run = cli::run(
        cli::command()
            .args(["doctor", "--output", "json"])
            .args(ports),
    );
    let text = run.text();
    assert!(text.contains("is in use by a server with TLS"), "{text}");
    assert!(
        text.contains("check it with --url grpcs://127.0.0.1:"),
        "{text}"
    );
}

#[test]
fn curl_commands_have_the_flags_of_tls() {
    let (server, _) = &*SHARED;
    let ca = shared_file("ca.pem");
    let run = infer(server, "kserve-rest", &["--cacert", &ca, "--print-curl"]);
    let command = run.text();
    assert!(
        command.starts_with(&format!("curl -sS --cacert {ca} https://localhost:")),
        "{command}"
    );
    let mut shell = cli::plain(std::process::Command::new("sh"));
    let run = cli::run(shell.args(["-c", &command]));
    assert!(
        run.text().contains("\"data\":[1.0,1.0"),
        "{} {}",
        run.text(),
        run.stderr
    );
    let run = infer(server, "kserve-grpc", &["--insecure", "--print-curl"]);
    assert!(
        run.text().starts_with("grpcurl -insecure -d "),
        "{}",
        run.text()
    );
}

#[test]
fn a_certificate_that_clients_refuse_is_warned_of() {
    let made = Certificates::new();
    // As `openssl req -x509 -subj /CN=localhost` makes it.
    made.write_nameless_authority("server");
    let pair = made.server("server");
    let mut command = cli::command();
    command.args(["serve", "--check", "--model_name", "dummy", "--model_path"]);
    let run = cli::run(command.arg(model("dummy")).args(&pair));
    assert_eq!(run.code, Some(2), "{}{}", run.text(), run.stderr);
    let reason =
        "server.pem is marked as a CA certificate (CA:TRUE) and has no subject alternative names";
    let hint = "-addext subjectAltName=DNS:HOST -addext basicConstraints=critical,CA:FALSE`";
    assert!(run.stderr.contains(reason), "{}", run.stderr);
    assert!(run.stderr.contains(hint), "{}", run.stderr);
    let server = start(&made, &[]);
    let log = server.wait_log(reason);
    assert!(log.contains(" WARN ") && log.contains(hint), "{log}");
    let ca = pair[1].clone();
    let run = infer(&server, "kserve-grpc", &["--cacert", &ca]);
    assert_eq!(run.code, Some(69), "{}", run.stderr);
}

#[test]
fn a_check_reads_the_files() {
    let made = Certificates::new();
    made.write("server", 3);
    let check = |flags: &[String]| {
        let mut command = cli::command();
        command.args(["serve", "--check", "--model_name", "dummy", "--model_path"]);
        cli::run(command.arg(model("dummy")).args(flags))
    };
    let run = check(&made.server("server"));
    assert_eq!(run.code, Some(2), "{}{}", run.text(), run.stderr);
    let both = run.text() + &run.stderr;
    assert!(both.contains("server.pem expires in 3 days, at "), "{both}");
    made.write("other", 90);
    fs::copy(made.path("other.key"), made.path("server.key")).unwrap();
    let run = check(&made.server("server"));
    assert_eq!(run.code, Some(1), "{}{}", run.text(), run.stderr);
    let both = run.text() + &run.stderr;
    assert!(
        both.contains("the key is not that of the certificate in"),
        "{both}"
    );
    let missing = ["--rest_unix_socket".to_owned(), made.text("none/s")];
    let run = check(&missing);
    let both = run.text() + &run.stderr;
    assert!(both.contains("there is no folder"), "{both}");
    eventually("nothing is made", || {
        (!made.path("none").exists()).then_some(())
    });
}
