//! Commands for `sh` in a folder of the sheet.
//!
//! `ovms` is the program, and the server of the sheet the one that it asks, over each chosen wire in turn. What goes to
//! stderr is marked with `!`, and an exit code other than 0 follows as `(exit CODE)`. `bare COMMAND` runs a command
//! without a runtime, and `$PORTS` are flags for free ports, `$RUNTIME` is the folder of the
//! runtime, and `$PYTHON` a script that stands in for Python.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use super::{CODES, Sheet, grouped};
use crate::support::{
    cli, handlers,
    server::{free_ports, on},
};

/// Wire of a command where none is chosen.
const DEFAULT: &str = "kserve-grpc";

/// Stands in for Python where a runtime is installed.
const FAKE_PYTHON: &str = concat!(env!("WORKSPACE_ROOT"), "/tests/it/support/fake_python.sh");

/// Runs a command in an environment that names no runtime, with a home folder of its own.
const BARE: &str = r#"#!/bin/sh
exec env -u OPENVINO_INSTALL_DIR -u VIRTUAL_ENV -u CONDA_PREFIX -u LD_LIBRARY_PATH -u XDG_DATA_HOME HOME="$PWD/home" "$@"
"#;

/// Runs a command over the chosen wires.
pub(super) fn run(sheet: &Sheet, command: &str) -> String {
    let over: Vec<&str> = match &sheet.over[..] {
        [] => vec![DEFAULT],
        over => over.iter().map(String::as_str).collect(),
    };
    let answers: Vec<(String, String)> = over
        .into_iter()
        .map(|api| (api.to_owned(), run_over(sheet, command, api)))
        .collect();
    grouped(&answers)
}

/// Divides a text into words as the shell does.
pub(super) fn words(text: &str) -> Vec<String> {
    let script = format!("for word in {text}; do printf '%s\\n' \"$word\"; done");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn run_over(sheet: &Sheet, command: &str, api: &str) -> String {
    let bin = sheet.folder.path().join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_ovms"), bin.join("ovms")).unwrap();
        std::fs::write(bin.join("bare"), BARE).unwrap();
        std::fs::set_permissions(bin.join("bare"), Permissions::from_mode(0o755)).unwrap();
    }
    let mut paths = vec![bin];
    paths.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut shell = cli::plain(Command::new("sh"));
    shell
        .args(["-ec", command])
        .current_dir(sheet.folder.path())
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("RUNTIME", cli::runtime_folder())
        .env("PYTHON", FAKE_PYTHON)
        .env("NUMPY_PYTHON", handlers::python())
        .env("PORTS", on(free_ports()).join(" "));
    if let Some(served) = &sheet.served {
        let server = served.server();
        let port = if api.ends_with("rest") {
            server.rest_port
        } else {
            server.port
        };
        shell
            .env("OVMS_API", api)
            .env("OVMS_URL", format!("127.0.0.1:{port}"))
            .env("REST", format!("127.0.0.1:{}", server.rest_port))
            .env("GRPC", format!("127.0.0.1:{}", server.port));
    }
    if let Some(generator) = &sheet.generator {
        shell.env("OVMS_URL", format!("127.0.0.1:{}", generator.port));
    }
    let run = cli::run(&mut shell);
    let marked: String = run
        .stderr
        .lines()
        // The rate of a stream.
        .filter(|line| !line.contains("answers/s"))
        .map(|line| match line {
            "" => "!\n".to_owned(),
            line => format!("! {line}\n"),
        })
        .collect();
    let stdout = String::from_utf8_lossy(&run.stdout);
    let gap = if stdout.is_empty() || stdout.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let code = match run.code {
        Some(0) => String::new(),
        Some(code) => format!("(exit {code})\n"),
        None => "(killed)\n".to_owned(),
    };
    let mut text = format!("{stdout}{gap}{marked}{code}");
    text = without_times(&text).replace(&format!(" --api {api}"), " --api <api>");
    for (code, status) in CODES {
        text = text.replace(&spoken(status), &constant(code));
    }
    text
}

/// Returns a status as the client says it.
fn spoken(status: u16) -> String {
    let reason = axum::http::StatusCode::from_u16(status).unwrap();
    reason.to_string()
}

/// Returns a code of gRPC as the client says it.
fn constant(code: &str) -> String {
    let mut constant = String::new();
    for letter in code.chars() {
        if letter.is_uppercase() && !constant.is_empty() {
            constant.push('_');
        }
        constant.push(letter.to_ascii_uppercase());
    }
    constant
}

/// Replaces the times of answers.
fn without_times(text: &str) -> String {
    let mut pieces = text.split("answered in ");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.split_once(" ms").map_or(piece, |(_, rest)| rest);
        shown.push_str("answered in <time>");
        shown.push_str(rest);
    }
    shown
}
