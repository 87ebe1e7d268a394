//! Programs for tests that neither Cargo nor pip installs: shells, a proxy, a browser.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
};

/// Programs that `make test-tools` installs.
const TO_BE_HAD: [&str; 5] = ["zsh", "fish", "nginx", "chromium", "redis-server"];

/// Finds a program: that of the system, or the one that `tests/tools/install.py` has unpacked.
///
/// Without it a line says so, which the test runner does not swallow, and the test is to end.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("WORKSPACE_ROOT")).join("target/tools/bin");
    let of_system = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&of_system)
        .chain([unpacked])
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
