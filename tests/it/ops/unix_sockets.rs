//! Unix sockets: served beside ports or instead of them, their files, and what is refused.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::Path,
    process::Command,
    time::Duration,
};

use crate::support::{
    Server, cli, eventually, model,
    server::{free_ports, on},
};

/// Time after which a client that says nothing is still there: half of what it has by default.
const MAX_WAIT: Duration = Duration::from_secs(30);

const APIS: [(&str, &str); 4] = [
    ("kserve-grpc", "grpc"),
    ("tfs-grpc", "grpc"),
    ("kserve-rest", "rest"),
    ("tfs-rest", "rest"),
];

/// Makes the command of a server of the model `dummy` on the sockets `grpc` and `rest` of a folder.
fn serve(folder: &Path) -> Command {
    let mut command = cli::command();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .arg("--grpc_unix_socket")
        .arg(folder.join("grpc"))
        .arg("--rest_unix_socket")
        .arg(folder.join("rest"));
    command
}

fn start(command: &mut Command) -> Server {
    let server = Server::spawn(command, (0, 0));
    server.wait_ready();
    server
}

/// Returns the text of a start that fails, with names of the folder and of this run left out.
fn refused(command: &mut Command, folder: &Path) -> String {
    let run = cli::run(command);
    let text = run.failure();
    text.replace(&folder.display().to_string(), "<folder>")
}

/// Sends an HTTP/1 request and returns the response up to the end of the connection.
fn ask(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn all_apis_are_served_without_a_port_and_the_files_go_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let access = folder.path().join("access");
    let mut command = serve(folder.path());
    command.args(["--unix_socket_mode", "0660"]);
    command.arg("--access_log").arg(&access);
    let mut server = start(&mut command);
    // The last line of the summary, which follows `ready`.
    server.wait_log("try: curl");
    let log = server.log();
    for name in ["grpc", "rest"] {
        let path = folder.path().join(name);
        let found = fs::metadata(&path).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o777, 0o660);
        let path = path.display();
        let line = format!(" listens on the Unix socket {path} with mode 0660");
        assert!(log.contains(&line), "{log}");
        assert!(
            log.contains(&format!(": unix:{path}")),
            "the summary: {log}"
        );
    }
    assert!(!log.contains(" port "), "{log}");
    for (api, name) in APIS {
        let url = format!("unix:{}", folder.path().join(name).display());
        let flags = [
            "infer", "dummy", "--zeros", "--output", "json", "--api", api,
        ];
        let run = cli::run(cli::command().args(flags).args(["--url", &url]));
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        assert!(run.text().contains("1.0,1.0"), "{api}: {}", run.text());
        let run = cli::run(cli::command().args(["infer", "--status", "--api", api, "--url", &url]));
        assert!(
            run.text().contains("AVAILABLE") || run.text().contains("READY"),
            "{api}"
        );
    }
    let lines = eventually("the lines of all inferences", || {
        let text = fs::read_to_string(&access).unwrap_or_default();
        (text.matches("model=dummy").count() >= 4).then_some(text)
    });
    for line in lines.lines() {
        let peer = line.split(' ').nth(1).unwrap();
        assert!(
            peer.starts_with("unix:uid=") && peer.contains(",pid="),
            "{line}"
        );
    }
    server.signal("TERM");
    assert!(server.wait().success());
    for name in ["grpc", "rest"] {
        assert!(!folder.path().join(name).exists());
    }
    let url = format!("unix:{}", folder.path().join("rest").display());
    let run = cli::ovms(["infer", "--status", "--api", "kserve-rest", "--url", &url]);
    assert_eq!(run.code, Some(69), "{}", run.stderr);
    assert!(
        run.stderr.contains(&format!("no server answers at {url}")),
        "{}",
        run.stderr
    );
}

#[test]
fn what_a_killed_server_leaves_is_replaced_and_a_living_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let rest = folder.path().join("rest");
    let mut killed = start(&mut serve(folder.path()));
    killed.signal("KILL");
    killed.wait();
    assert!(rest.exists());
    // Sockets stand beside ports, with the usual mode.
    let ports = free_ports();
    let mut command = serve(folder.path());
    let server = Server::spawn(command.args(on(ports)), ports);
    server.wait_ready();
    assert!(
        server.log().contains("replacing the socket"),
        "{}",
        server.log()
    );
    let mode = |name| {
        let found = fs::metadata(folder.path().join(name));
        found.unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("grpc"), mode("rest")), (0o600, 0o600));
    let port = format!("127.0.0.1:{}", server.port);
    let run = cli::ovms(["infer", "dummy", "--zeros", "--url", &port]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = refused(&mut serve(folder.path()), folder.path());
    insta::assert_snapshot!(text, @"
    exit 1
    error: Failed to start gRPC server at unix:<folder>/grpc
      caused by: another process listens on it
    hint: stop that process, or choose another path
    ");
    for path in ["/v2/health/live", "/v2/health/ready"] {
        assert!(ask(&rest, path).starts_with("HTTP/1.1 200"), "{path}");
    }
}

#[test]
fn a_path_that_cannot_be_used_is_refused_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let of = |path: &Path| {
        let mut command = cli::command();
        command
            .args(["serve", "--model_name", "dummy", "--model_path"])
            .arg(model("dummy"))
            .arg("--rest_unix_socket")
            .arg(path);
        command
    };
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    insta::assert_snapshot!(refused(&mut of(&file), folder.path()), @"
    exit 1
    error: Failed to start REST server at unix:<folder>/file
      caused by: the path is taken by a file, which is not a socket
    hint: remove <folder>/file if nobody needs it, or choose another path
    ");
    assert_eq!(fs::read(&file).unwrap(), b"x");
    insta::assert_snapshot!(refused(&mut of(&folder.path().join("none/s")), folder.path()), @"
    exit 1
    error: Failed to start REST server at unix:<folder>/none/s
      caused by: there is no folder <folder>/none
    hint: create it (`mkdir -p <folder>/none`), or choose another path
    ");
    let long = Path::new("/tmp").join("x".repeat(120));
    let text = refused(&mut of(&long), folder.path()).replace(&"x".repeat(120), "xxx");
    insta::assert_snapshot!(text, @"
    exit 1
    error: Failed to start REST server at unix:/tmp/xxx
      caused by: the path has 125 bytes; expected 107 at most
    hint: the path is too long for the system; choose a shorter one, such as below /run
    ");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = cli::without_rights(&closed);
    command.args(of(&closed.join("s")).get_args());
    insta::assert_snapshot!(refused(&mut command, folder.path()), @"
    exit 1
    error: Failed to start REST server at unix:<folder>/closed/s
      caused by: cannot create the file
      caused by: Permission denied (os error 13)
    hint: let the user that runs ovms write to <folder>/closed, or choose another path
    ");
}

#[test]
fn connections_of_a_user_are_counted_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(folder.path());
    let server = start(command.args(["--max_connections_per_address", "1"]));
    let rest = folder.path().join("rest");
    let _first = UnixStream::connect(&rest).unwrap();
    // Accepted in turn.
    let mut second = UnixStream::connect(&rest).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap(), 0, "it is closed");
    server.wait_log("which has as many open as one address may");
    assert!(
        server.log().contains("connection of the user with id "),
        "{}",
        server.log()
    );
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(folder.path());
    let _server = start(command.args(["--read_timeout_seconds", "1"]));
    for name in ["grpc", "rest"] {
        let mut silent = UnixStream::connect(folder.path().join(name)).unwrap();
        silent.set_read_timeout(Some(MAX_WAIT)).unwrap();
        // What comes is the settings of HTTP/2, or nothing, and then the end.
        let mut came = Vec::new();
        let ended = silent.read_to_end(&mut came);
        ended.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
