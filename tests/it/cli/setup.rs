//! `ovms setup` that is broken off, or waits for another one. What it finds and installs is in `tests/conformance/cli/setup.txt`.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::fs::{FlockOperation, flock};

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

/// Starts a setup that has to wait for another one, and returns it when it says so.
fn waiting(home: &Path) -> (Child, impl BufRead) {
    let mut command = setup(home);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let dir = home.join("runtime");
    let expected = format!(
        "another `ovms setup` is installing into {}; waiting for it to end\n",
        dir.display()
    );
    assert_eq!(line, expected);
    (child, said)
}

/// Waits for the end of a setup; returns its last words.
fn ended(child: Child, mut said: impl Read) -> String {
    let done = child.wait_with_output().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(done.status.success(), "{rest}");
    String::from_utf8(done.stdout).unwrap() + &rest
}

#[test]
fn a_setup_uses_what_another_one_has_installed_meanwhile() {
    let home = folder();
    let runtime = home.path().join("runtime");
    // As another one at work has it.
    fs::create_dir_all(runtime.join("openvino")).unwrap();
    let mark = runtime.join("ovms-setup.unfinished");
    fs::write(&mark, "").unwrap();
    let lock = File::create(runtime.join("ovms-setup.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let (child, said) = waiting(home.path());
    symlink(cli::runtime_folder(), runtime.join("openvino/libs")).unwrap();
    fs::remove_file(mark).unwrap();
    drop(lock);
    let said = ended(child, said);
    assert!(said.contains(" found and working: "), "{said}");
    let calls = fs::read_to_string(home.path().join("calls")).unwrap();
    assert_eq!(calls, "-c import sys; print(*sys.version_info[:2])\n");
}

#[test]
fn a_setup_resumes_what_another_one_was_broken_off_at() {
    let home = folder();
    let file = home.path().join("ids");
    let mut command = setup(home.path());
    command.env("FAKE_HANG", &file).stderr(Stdio::null());
    let mut first = command.spawn().unwrap();
    eventually("pip at work", || fs::read_to_string(&file).ok());
    let (child, said) = waiting(home.path());
    first.kill().unwrap();
    first.wait().unwrap();
    let said = ended(child, said);
    assert!(said.contains(" installed and working: "), "{said}");
    let resumed = said.contains("an earlier setup has not finished; resuming it\n");
    assert!(resumed, "{said}");
}
