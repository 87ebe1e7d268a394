//! Runs of the program with captured output.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ovms::openvino::runtime::{self, RuntimeSearchPath};

/// Path of the program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ovms");

/// Output and exit code of a run of the program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    /// Returns stdout as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("the output is text")
    }

    /// Returns exit code and stderr.
    pub(crate) fn failure(&self) -> String {
        format!("exit {}\n{}", self.code.unwrap_or(-1), self.stderr)
    }
}

/// Makes the command of the program.
pub(crate) fn command() -> Command {
    plain(Command::new(PROGRAM))
}

/// Makes the command of the program as a user who may not read `closed`: root gives up the right to
/// read everything, but stays the owner of the folders that the program and its runtime are in.
pub(crate) fn without_rights(closed: &Path) -> Command {
    let readable = std::fs::File::open(closed).is_ok();
    if !readable {
        return command();
    }
    let mut command = Command::new("setpriv");
    command
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .arg(PROGRAM);
    plain(command)
}

/// Removes environment variables that affect the program.
pub(crate) fn plain(mut command: Command) -> Command {
    command
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .env_remove("OVMS_URL")
        .env_remove("OVMS_API")
        .env_remove("OVMS_TIMEOUT")
        .env_remove("OVMS_HEADER")
        .env_remove("OVMS_API_KEY")
        .env_remove("API_KEY")
        // Of the `make` that runs the tests: one below it would name the folders that it enters.
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn ovms<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    run(command().args(args))
}

/// Splits a line at its spaces, into flags and their values.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().expect("the program starts");
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Makes the command of the program in an environment that names no runtime, with a home folder
/// of its own.
pub(crate) fn bare(home: &Path) -> Command {
    let mut command = command();
    command.env("HOME", home);
    for name in [
        "OPENVINO_INSTALL_DIR",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "LD_LIBRARY_PATH",
        "XDG_DATA_HOME",
    ] {
        command.env_remove(name);
    }
    command
}

/// Returns the folder of the runtime that the tests run with.
pub(crate) fn runtime_folder() -> PathBuf {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let places = RuntimeSearchPath {
        own: None,
        install_dir: path("OPENVINO_INSTALL_DIR"),
        venv: path("VIRTUAL_ENV"),
        managed: path("HOME").map(|home| home.join(".local/share/ovms/runtime")),
        library_path: std::env::var_os("LD_LIBRARY_PATH"),
        system: true,
    };
    let found = runtime::find(&places).expect("the tests need a runtime; `ovms setup` gets one");
    found
        .library
        .parent()
        .expect("a library is in a folder")
        .to_owned()
}
