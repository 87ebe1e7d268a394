//! Runs of `ovms infer` against a server, with private files.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
};

use insta::internals::SettingsBindDropGuard;
use ovms::tensor::{Tensor, npy};
use serde_json::Value;

use super::{
    Server,
    cli::{self, Run},
};

/// Names of the protocols in `--api`.
pub(crate) const GRPC: &str = "kserve-grpc";
pub(crate) const REST: &str = "kserve-rest";
pub(crate) const APIS: [&str; 2] = [GRPC, REST];
pub(crate) const TFS_GRPC: &str = "tfs-grpc";
pub(crate) const TFS_REST: &str = "tfs-rest";

/// Makes a command for a port of this machine.
pub(crate) fn at(port: u16, api: &str) -> Command {
    let mut command = cli::command();
    command
        .args(["infer", "--api", api, "--url"])
        .arg(format!("127.0.0.1:{port}"));
    command
}

/// Makes a command for a server.
pub(crate) fn command(server: &Server, api: &str) -> Command {
    at(port(server, api), api)
}

/// Returns the port of a server for a protocol.
pub(crate) fn port(server: &Server, api: &str) -> u16 {
    if api.ends_with("rest") {
        server.rest_port
    } else {
        server.port
    }
}

/// Runs a command for a server to its end.
pub(crate) fn infer(server: &Server, api: &str, args: &[&str]) -> Run {
    cli::run(command(server, api).args(args))
}

/// Runs a command that succeeds and prints JSON.
pub(crate) fn json(server: &Server, api: &str, args: &[&str]) -> Value {
    let run = infer(server, api, &[args, &["--output", "json"]].concat());
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    serde_json::from_slice(&run.stdout).expect("the output is one JSON object")
}

/// Runs a command that succeeds, and returns the elements of its first output.
pub(crate) fn data(server: &Server, api: &str, args: &[&str]) -> Value {
    json(server, api, args)["outputs"][0]["data"].take()
}

/// Runs commands that fail, and returns their exit codes and texts.
pub(crate) fn failures(server: &Server, api: &str, commands: &[&[&str]]) -> String {
    let texts: Vec<_> = commands
        .iter()
        .map(|args| {
            let run = infer(server, api, args);
            assert_eq!(run.text(), "", "{args:?}");
            run.failure()
        })
        .collect();
    texts.join("\n")
}

/// Replaces addresses and times in the snapshots of a test.
pub(crate) fn redacted() -> SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"127\.0\.0\.1:\d+", "<address>");
    settings.add_filter(r"answered in \d+\.\d\d ms", "answered in <time> ms");
    settings.bind_to_scope()
}

/// Presses Ctrl-C.
pub(crate) fn interrupt(child: &Child) {
    signal(child, "INT");
}

/// Sends a signal by its name.
pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}

/// Writes a NumPy file.
pub(crate) fn write_npy(path: &Path, tensor: &Tensor) {
    fs::write(path, npy_bytes(tensor)).expect("the folder is the test's");
}

/// Reads a NumPy file.
pub(crate) fn read_npy(bytes: Vec<u8>) -> Tensor {
    npy::read(&bytes.into()).expect("the file is one of NumPy")
}

fn npy_bytes(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    npy::write(tensor, &mut bytes).expect("memory takes it");
    bytes
}
