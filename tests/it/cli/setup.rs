//! `ovms setup` that is broken off. What it finds and installs is in `tests/conformance/cli/setup.txt`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{cli, eventually, repository::folder};

/// Makes the command that installs below the home folder of a user, with a fake Python that needs no network.
fn setup(home: &Path) -> Command {
    let python = concat!(env!("WORKSPACE_ROOT"), "/tests/it/support/fake_python.sh");
    let mut command = cli::bare(home);
    command
        .env("FAKE_VERSION", "3 11")
        .env("FAKE_LOG", home.join("calls"))
        .env("FAKE_RUNTIME", cli::runtime_folder())
        .env("FAKE_ERROR", "")
        .args(["setup", "--python", python, "--dir"])
        .arg(home.join("runtime"));
    command
}

/// Returns whether a process exists and is no zombie.
fn runs(id: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Returns whether SIGINT is ignored here, as in background jobs of a shell; child processes of a test
/// then ignore it as well (proc(5), bit 1 is signal 2).
fn ignores_interrupts() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap() & 2 != 0
}

#[test]
fn pip_ends_with_a_setup_that_is_broken_off() {
    let signals = ["INT", "TERM", "KILL"];
    for signal in &signals[usize::from(ignores_interrupts())..] {
        let home = folder();
        let file = home.path().join("ids");
        let mut command = setup(home.path());
        command.env("FAKE_HANG", &file).stderr(Stdio::null());
        let mut begun = command.spawn().unwrap();
        let ids = eventually("pip at work", || fs::read_to_string(&file).ok());
        let ids: Vec<&str> = ids.split_whitespace().collect();
        assert_eq!(ids.len(), 2);
        assert!(ids.iter().all(|id| runs(id)), "{ids:?}");
        let id = begun.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        assert!(!begun.wait().unwrap().success());
        eventually("the end of pip and its child", || {
            (!ids.iter().any(|id| runs(id))).then_some(())
        });
        // The next one goes on.
        assert_eq!(cli::run(&mut setup(home.path())).code, Some(0));
    }
}
