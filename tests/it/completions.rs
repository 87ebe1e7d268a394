//! The completion scripts that are checked in are those that the program writes.

use crate::support::cli::ovms;

fn is_fresh(shell: &str, file: &str) {
    let run = ovms(["completions", shell]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let path = format!("{}/completions/{file}", env!("CARGO_MANIFEST_DIR"));
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == run.text(),
        "completions/{file} is stale; run `make completions`"
    );
}

#[test]
fn bash() {
    is_fresh("bash", "ovms.bash");
}

#[test]
fn zsh() {
    is_fresh("zsh", "_ovms");
}

#[test]
fn fish() {
    is_fresh("fish", "ovms.fish");
}

#[test]
fn powershell() {
    is_fresh("powershell", "ovms.ps1");
}
