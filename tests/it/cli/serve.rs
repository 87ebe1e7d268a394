//! `ovms serve` as a program: its start, errors at the start, and its log.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::PathBuf,
    sync::LazyLock,
};

use crate::support::{Server, cli, grpc::Grpc, http::get, model, repository, server::free_ports};

/// A server that is started without the word `serve`, with a list of addresses, a name of one, and a log file; and
/// the path of that.
static HERE: LazyLock<(Server, PathBuf)> = LazyLock::new(|| {
    let folder = repository::folder();
    let log = folder.path().join("ovms.log");
    let ports = free_ports();
    let mut command = cli::command();
    command
        .args(["--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .arg("--log_path")
        .arg(&log)
        .arg(format!("--port={}", ports.0))
        .arg(format!("--rest_port={}", ports.1))
        .arg("--grpc_bind_address=127.0.0.1, 127.0.0.2")
        .arg("--rest_bind_address=localhost");
    let server = Server::spawn(&mut command, ports);
    // The last line of the start.
    server.wait_log("try: curl");
    (server.kept(Some(folder)), log)
});

#[test]
fn arguments_that_begin_with_a_flag_mean_serve() {
    Grpc::connect(&HERE.0).check_serves();
}

#[test]
fn no_port_is_one_that_is_typed_as_0() {
    let run = cli::run(cli::command().arg("serve").arg(model("dummy")).args([
        "--port=0",
        "--rest-port",
        "0",
    ]));
    insta::assert_snapshot!(run.failure(), @"
    exit 64
    port and rest_port cannot both be unset
    hint: give --port for gRPC, --rest-port for REST, or both (0 disables a port); --grpc-unix-socket or --rest-unix-socket work as well
    ");
    let ports = free_ports();
    let mut command = cli::command();
    command.arg("serve").arg(model("dummy"));
    command.args(["--port=0", &format!("--rest_port={}", ports.1)]);
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    assert!(!server.log().contains("gRPC listens"), "{}", server.log());
}

#[test]
fn every_address_of_a_list_is_listened_on() {
    for address in ["127.0.0.1", "127.0.0.2"] {
        let connected = TcpStream::connect((address, HERE.0.port));
        assert!(connected.is_ok(), "{address}");
    }
}

#[test]
fn a_busy_port_is_reported_on_stderr_and_in_the_log() {
    for (side, flag) in [("gRPC", "--port"), ("REST", "--rest_port")] {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let run = cli::run(
            cli::command()
                .args(["serve", "--model_name=dummy", "--model_path"])
                .arg(model("dummy"))
                .args([flag, &port])
                .args([
                    "--grpc_bind_address=127.0.0.1",
                    "--rest_bind_address=127.0.0.1",
                ]),
        );
        let text = format!("Failed to start {side} server at 127.0.0.1:{port} - port is busy");
        let log = run.text();
        assert!(
            log.lines()
                .any(|line| line.ends_with(&text) && line.contains("ERROR")),
            "{log}"
        );
        let redacted = run.failure().replace(&port, "<port>");
        insta::allow_duplicates! {
            insta::assert_snapshot!(redacted.replace(side, "<side>"), @"
            exit 1
            error: Failed to start <side> server at 127.0.0.1:<port> - port is busy
            hint: another process listens on port <port>; stop it, or choose another port
            ");
        }
    }
}

/// Starts a server with these addresses, and waits for the end of the start.
fn started(args: &[&str]) -> Server {
    let ports = free_ports();
    let mut command = cli::command();
    command.args(["serve", &format!("--port={}", ports.0)]);
    command.arg(format!("--rest_port={}", ports.1));
    let server = Server::spawn(command.args(args), ports);
    // Among the last lines of the start.
    server.wait_log("  model: ");
    server
}

/// Returns what a log warns of.
fn warnings(log: &str) -> Vec<&str> {
    let warned = log.lines().filter_map(|line| line.split_once(" WARN "));
    warned.map(|(_, text)| text).collect()
}

#[test]
fn the_example_is_for_this_machine_unless_said_otherwise() {
    let server = started(&["--demo", "--grpc_bind_address=0.0.0.0"]);
    let log = server.log();
    assert!(log.contains("gRPC listens on 0.0.0.0 port "), "{log}");
    assert!(log.contains("REST listens on 127.0.0.1 port "), "{log}");
}

#[test]
fn a_server_that_others_can_reach_says_so_once() {
    let path = model("dummy");
    let args = ["--model_name=dummy", "--model_path", path.to_str().unwrap()];
    let log = started(&args).log();
    let open = warnings(&log);
    assert_eq!(open.len(), 1, "{open:?}");
    insta::with_settings!({filters => [(r"0\.0\.0\.0:\d+", "0.0.0.0:<port>")]}, {
        insta::assert_snapshot!(open[0], @"other machines can reach 0.0.0.0:<port>, 0.0.0.0:<port> without a key or TLS, and use or reload what is served (--api-key-file guards only /v3); bind 127.0.0.1, give --auth and --tls-cert, or put a proxy in front");
    });
    assert_eq!(warnings(&HERE.0.log()), [""; 0]);
}

#[test]
fn one_side_may_be_served_alone_and_a_key_does_not_close_it() {
    let folder = repository::folder();
    let key = folder.path().join("key");
    fs::write(&key, "secret\n").unwrap();
    let ports = free_ports();
    let mut command = cli::command();
    command
        .args(["serve", "--model_name=dummy", "--model_path"])
        .arg(model("dummy"))
        .arg(format!("--rest_port={}", ports.1))
        .arg("--api_key_file")
        .arg(&key);
    let server = Server::spawn(&mut command, ports);
    server.wait_log("  model: ");
    assert_eq!(get(&server, "/v2/models/dummy/ready").status, 200);
    let log = server.log();
    assert!(!log.contains("gRPC listens"), "{log}");
    // It is no key to what is served.
    assert_eq!(warnings(&log).len(), 1, "{log}");
}

#[test]
fn a_log_file_has_what_stdout_has() {
    let (server, path) = &*HERE;
    let file = crate::support::eventually("the log file is whole", || {
        let file = fs::read_to_string(path).unwrap();
        file.contains("try: curl").then_some(file)
    });
    assert!(file.lines().any(|line| line.ends_with(" ready")), "{file}");
    // Either has its own clock.
    let message = |line: &str| line.split_once(' ').unwrap().1.to_owned();
    let logged = server.log();
    assert!(
        file.lines().map(message).eq(logged.lines().map(message)),
        "{file}\n{logged}"
    );
}

#[test]
fn a_log_file_that_takes_nothing_is_reported_once_with_what_it_cost() {
    let folder = repository::folder();
    let path = folder.path().join("ovms.log");
    symlink("/dev/full", &path).unwrap();
    let mut server = Server::start_with("dummy", &["--log_path", path.to_str().unwrap()]);
    let full = server.wait_log("cannot write to the log file");
    assert!(
        full.starts_with("stderr: warning: ") && full.contains("No space left on device"),
        "{full}"
    );
    server.wait_log("try: curl");
    fs::remove_file(&path).unwrap();
    server.signal("HUP");
    crate::support::eventually("the file is opened again", || path.is_file().then_some(()));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    let log = server.log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("cannot write to the log file"), 1, "{log}");
    assert_eq!(count(" is written again; "), 1, "{log}");
    let lines = fs::read_to_string(&path).unwrap();
    let all = log.lines().filter(|line| !line.starts_with("stderr: "));
    let lost = all.count() - lines.lines().count();
    assert_eq!(count(&format!("; {lost} lines were lost")), 1, "{log}");
    assert!(lines.contains("stopped"), "{lines}");
}

#[test]
fn the_demo_serves_the_classifier_to_this_machine() {
    let server = started(&["--demo"]);
    let log = server.log();
    assert_eq!(
        log.matches(" listens on 127.0.0.1 port ").count(),
        2,
        "{log}"
    );
    assert_eq!(warnings(&log), [""; 0]);
    let hint = server.wait_log("try, in another terminal");
    assert!(
        hint.contains(&format!("--url localhost:{}", server.port)),
        "{hint}"
    );
    let metadata = get(&server, "/v2/models/classifier").json();
    assert_eq!(
        metadata["inputs"][0]["shape"],
        serde_json::json!([1, 3, 224, 224])
    );
    let blank = crate::support::grpc::raw(
        "classifier",
        "image",
        "FP32",
        &[1, 3, 224, 224],
        &vec![0; 3 * 224 * 224 * 4],
    );
    let answer = Grpc::connect(&server).answered(blank);
    let scores = crate::support::grpc::to_floats(&answer.raw_output_contents[0]);
    assert!(
        (scores.iter().sum::<f32>() - 1.0).abs() < 0.01,
        "{scores:?}"
    );
}

#[test]
fn a_check_warns_of_ports_that_are_taken() {
    let server = Server::shared("dummy");
    let free = free_ports().1;
    let check = |flag: &str, rest_port: u16| {
        let dummy = model("dummy");
        let ports = [
            format!("--port={}", server.port),
            format!("--rest-port={rest_port}"),
        ];
        let run = cli::ovms(
            [
                "serve",
                flag,
                "--model-name=dummy",
                "--model-path",
                dummy.to_str().unwrap(),
            ]
            .into_iter()
            .chain(ports.iter().map(String::as_str)),
        );
        let names = [(server.port, "GRPC"), (server.rest_port, "REST")];
        let said = run.failure();
        names.iter().fold(said, |said, (port, name)| {
            said.replace(&port.to_string(), name)
        })
    };
    insta::assert_snapshot!(check("--check", free), @"
    exit 0
    warning: port GRPC of --port is taken now, and a server would not start
    ");
    insta::assert_snapshot!(check("--check", server.rest_port), @"
    exit 0
    warning: port GRPC of --port is taken now, and a server would not start
    warning: port REST of --rest-port is taken now, and a server would not start
    ");
    insta::assert_snapshot!(check("--check=syntax", free), @"exit 0");
}
