//! `ovms setup`: search, installation, and errors.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::support::{
    cli::{self, Run},
    eventually,
    repository::folder,
    server::{free_ports, on},
};

const FAKE_PYTHON: &str = concat!(env!("WORKSPACE_ROOT"), "/tests/it/support/fake_python.sh");

/// Home folder of a user without a runtime, and a fake Python that needs no network.
struct Home {
    folder: TempDir,
    runtime: PathBuf,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: folder(),
            runtime: cli::runtime_folder(),
        }
    }

    /// Creates the command for this user.
    fn ovms(&self) -> Command {
        let mut command = cli::bare(self.folder.path());
        command
            .env("FAKE_VERSION", "3 11")
            .env("FAKE_LOG", self.log())
            .env("FAKE_RUNTIME", &self.runtime)
            .env("FAKE_FAULT", "");
        command
    }

    /// Creates the command that sets up a folder with the fake Python.
    fn setup(&self) -> Command {
        let mut command = self.ovms();
        command
            .args(["setup", "--python", FAKE_PYTHON, "--dir"])
            .arg(self.dir());
        command
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("runtime")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("calls")
    }

    /// Returns the recorded calls of Python.
    fn calls(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns exit code, stdout and stderr, without the folders of this machine.
    fn said(&self, run: &Run) -> String {
        let text = format!("{}{}", run.text(), run.failure());
        [
            (self.folder.path(), "<home>"),
            (&self.runtime, "<runtime>"),
            (Path::new(FAKE_PYTHON), "<python>"),
        ]
        .into_iter()
        .fold(text, |text, (path, name)| {
            text.replace(path.to_str().unwrap(), name)
        })
    }
}

/// Compares the output with a snapshot, without versions.
macro_rules! assert_said {
    ($said:expr, @$text:literal) => {
        insta::with_settings!({filters => [
            (r"OpenVINO \d\S+", "OpenVINO <version>"),
            (r"libopenvino_c\.[\w.]+\w", "<library>"),
            (r"(openvino|numpy|pip)==\S*\d", "$1==<version>"),
        ]}, {
            insta::assert_snapshot!($said, @$text);
        });
    };
}

/// Links the runtime into a virtual environment.
fn link_into_venv(home: &Home, venv: &Path) {
    let wheel = venv.join("lib/python3.11/site-packages/openvino");
    fs::create_dir_all(&wheel).unwrap();
    symlink(&home.runtime, wheel.join("libs")).unwrap();
}

/// Puts an invalid library into a virtual environment.
fn spoil(venv: &Path) {
    let libraries = venv.join("lib/python3.11/site-packages/openvino/libs");
    fs::create_dir_all(&libraries).unwrap();
    fs::write(libraries.join("libopenvino_c.so"), "no library").unwrap();
}

#[test]
fn a_runtime_that_is_named_is_used_as_it_is() {
    let home = Home::new();
    let run = cli::run(
        home.ovms()
            .arg("setup")
            .env("OPENVINO_INSTALL_DIR", &home.runtime),
    );
    assert_said!(home.said(&run), @"
    OpenVINO <version> found and working: <runtime>/<library>
    exit 0
    from OPENVINO_INSTALL_DIR; next: ovms serve --demo
    ");
    assert_eq!(
        fs::read_dir(home.folder.path()).unwrap().count(),
        0,
        "nothing is installed"
    );
}

#[test]
fn a_runtime_in_the_active_environment_is_used_as_it_is() {
    let home = Home::new();
    let venv = home.folder.path().join("venv");
    link_into_venv(&home, &venv);
    let run = cli::run(home.ovms().arg("setup").env("VIRTUAL_ENV", &venv));
    assert_said!(home.said(&run), @"
    OpenVINO <version> found and working: <home>/venv/lib/python3.11/site-packages/openvino/libs/<library>
    exit 0
    from the active virtual environment; next: ovms serve --demo
    ");
}

#[test]
fn a_runtime_in_the_folder_that_is_named_is_used_as_it_is() {
    let home = Home::new();
    fs::create_dir_all(home.dir().join("openvino")).unwrap();
    symlink(&home.runtime, home.dir().join("openvino/libs")).unwrap();
    let run = cli::run(&mut home.setup());
    assert_said!(home.said(&run), @"
    OpenVINO <version> found and working: <home>/runtime/openvino/libs/<library>
    exit 0
    to use it: export OPENVINO_INSTALL_DIR=<home>/runtime
    ");
    assert_eq!(home.calls(), "", "nothing is installed");
}

#[test]
fn a_place_that_is_named_and_has_no_runtime_is_reported() {
    let home = Home::new();
    let run = cli::run(
        home.ovms()
            .arg("setup")
            .env("OPENVINO_INSTALL_DIR", "/nonexistent"),
    );
    assert_said!(home.said(&run), @"
    exit 72
    error: OPENVINO_INSTALL_DIR is /nonexistent, where there is no OpenVINO runtime
    hint: unset OPENVINO_INSTALL_DIR, or point it to a folder made by `ovms setup --dir`
    ");
}

#[test]
fn a_runtime_of_others_that_does_not_work_is_reported_and_left() {
    let home = Home::new();
    let venv = home.folder.path().join("venv");
    spoil(&venv);
    let run = cli::run(home.ovms().arg("setup").env("VIRTUAL_ENV", &venv));
    assert_said!(home.said(&run), @"
    exit 72
    error: cannot open <home>/venv/lib/python3.11/site-packages/openvino/libs/<library>: the shared library at <home>/venv/lib/python3.11/site-packages/openvino/libs/<library> could not be opened: <home>/venv/lib/python3.11/site-packages/openvino/libs/<library>: file too short
    hint: this runtime is taken from the active virtual environment; mend or remove it, or run `ovms setup --dir DIR` and set OPENVINO_INSTALL_DIR to DIR
    ");
    assert_eq!(home.calls(), "");
}

#[test]
fn where_there_is_none_it_is_installed() {
    let home = Home::new();
    let run = cli::run(&mut home.setup());
    assert_said!(home.said(&run), @"
    OpenVINO <version> installed and working: <home>/runtime/lib/python3.11/site-packages/openvino/libs/<library>
    exit 0
    making a virtual environment in <home>/runtime
    getting pip
    getting OpenVINO <version>
    downloading openvino 1.0
    unpacking
    to use it: export OPENVINO_INSTALL_DIR=<home>/runtime
    ");
    assert_said!(home.calls().replace(home.folder.path().to_str().unwrap(), "<home>"), @"
    -c import sys; print(*sys.version_info[:2])
    -m venv <home>/runtime
    -c import pip; print(pip.__version__.split('.')[0])
    -m pip install --no-input --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: --progress-bar raw --upgrade -r <home>/runtime/ovms-setup.pip.txt
    -c import pip; print(pip.__version__.split('.')[0])
    -m pip install --no-input --disable-pip-version-check --require-hashes --no-deps --only-binary=:all: --progress-bar raw --upgrade -r <home>/runtime/ovms-setup.runtime.txt
    ");
    let mark = home.dir().join("ovms-setup.unfinished");
    assert!(!mark.exists(), "the installation is finished");
}

#[test]
fn what_was_installed_is_found_again() {
    let home = Home::new();
    assert_eq!(cli::run(&mut home.setup()).code, Some(0));
    let calls = home.calls();
    let again = cli::run(&mut home.setup());
    assert_said!(home.said(&again), @"
    OpenVINO <version> found and working: <home>/runtime/lib/python3.11/site-packages/openvino/libs/<library>
    exit 0
    to use it: export OPENVINO_INSTALL_DIR=<home>/runtime
    ");
    assert_eq!(home.calls(), calls, "Python is not called again");
}

#[test]
fn what_was_installed_without_a_folder_named_is_found_by_serve() {
    let home = Home::new();
    let run = cli::run(home.ovms().args(["setup", "--python", FAKE_PYTHON]));
    assert!(
        !run.stderr.contains("from the system"),
        "this machine has OpenVINO of its own"
    );
    assert_said!(home.said(&run), @"
    OpenVINO <version> installed and working: <home>/.local/share/ovms/runtime/lib/python3.11/site-packages/openvino/libs/<library>
    exit 0
    making a virtual environment in <home>/.local/share/ovms/runtime
    getting pip
    getting OpenVINO <version>
    downloading openvino 1.0
    unpacking
    from the folder of `ovms setup`; next: ovms serve --demo
    ");
    let mut serve = home.ovms();
    serve
        .args(["serve", "--model_name=m", "--model_path=/nonexistent"])
        .args(on(free_ports()));
    let log = cli::run(&mut serve).text();
    let library = home
        .folder
        .path()
        .join(".local/share/ovms/runtime/lib/python3.11");
    assert!(log.contains(library.to_str().unwrap()), "{log}");
}

#[test]
fn an_installation_that_fails_says_why_and_the_next_goes_on() {
    let home = Home::new();
    let failure = "Could not find a version that satisfies the requirement openvino";
    let failed = cli::run(home.setup().env("FAKE_FAULT", failure));
    assert_said!(home.said(&failed), @"
    exit 1
    making a virtual environment in <home>/runtime
    getting pip
    getting OpenVINO <version>
    error: pip cannot install numpy==<version> openvino==<version>: Could not find a version that satisfies the requirement openvino
    hint: check the network and pip's configuration, then run `ovms setup` again; it goes on where it was
    ");
    assert!(home.dir().join("ovms-setup.unfinished").exists());

    let calls = home.calls().lines().count();
    let next = cli::run(&mut home.setup());
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    let last = home.calls().lines().skip(calls).last().unwrap().to_owned();
    // What may be half written is written again.
    assert!(last.contains("--force-reinstall"), "{last}");
    assert!(!home.dir().join("ovms-setup.unfinished").exists());
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
        let home = Home::new();
        let file = home.folder.path().join("ids");
        let mut command = home.setup();
        command.env("FAKE_HANG", &file).stderr(Stdio::null());
        let mut setup = command.spawn().unwrap();
        let ids = eventually("pip at work", || fs::read_to_string(&file).ok());
        let ids: Vec<&str> = ids.split_whitespace().collect();
        assert_eq!(ids.len(), 2);
        assert!(ids.iter().all(|id| runs(id)), "{ids:?}");
        let id = setup.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        assert!(!setup.wait().unwrap().success());
        eventually("the end of pip and its child", || {
            (!ids.iter().any(|id| runs(id))).then_some(())
        });
        // The next one goes on.
        assert_eq!(cli::run(&mut home.setup()).code, Some(0));
    }
}

#[test]
fn an_installation_that_was_broken_off_is_gone_on_with() {
    let home = Home::new();
    assert_eq!(cli::run(&mut home.setup()).code, Some(0));
    fs::write(home.dir().join("ovms-setup.unfinished"), "").unwrap();
    let run = cli::run(&mut home.setup());
    assert_said!(home.said(&run), @"
    OpenVINO <version> installed and working: <home>/runtime/lib/python3.11/site-packages/openvino/libs/<library>
    exit 0
    an earlier setup was broken off; going on with it
    making a virtual environment in <home>/runtime
    getting pip
    getting OpenVINO <version>
    downloading openvino 1.0
    unpacking
    to use it: export OPENVINO_INSTALL_DIR=<home>/runtime
    ");
}

#[test]
fn an_installed_runtime_that_does_not_work_is_installed_again() {
    let home = Home::new();
    spoil(&home.dir());
    fs::write(home.dir().join("pyvenv.cfg"), "").unwrap();
    // What pip does not own it does not remove.
    let run = cli::run(home.setup().env("FAKE_FAULT", "disk full"));
    assert_said!(home.said(&run), @"
    exit 1
    the installed runtime does not work (cannot open <home>/runtime/lib/python3.11/site-packages/openvino/libs/<library>: the shared library at <home>/runtime/lib/python3.11/site-packages/openvino/libs/<library> could not be opened: <home>/runtime/lib/python3.11/site-packages/openvino/libs/<library>: file too short); installing it again
    making a virtual environment in <home>/runtime
    getting pip
    getting OpenVINO <version>
    error: pip cannot install numpy==<version> openvino==<version>: disk full
    hint: check the network and pip's configuration, then run `ovms setup` again; it goes on where it was
    ");
}

#[test]
fn a_python_that_is_missing_or_too_old_is_reported() {
    let home = Home::new();
    let missing = cli::run(home.ovms().args(["setup", "--python", "/nonexistent"]));
    let old = cli::run(home.setup().env("FAKE_VERSION", "3 10"));
    let none = cli::run(home.setup().env("FAKE_VERSION", "hello"));
    let said = [missing, old, none].map(|run| home.said(&run)).join("\n");
    assert_said!(said, @"
    exit 72
    error: cannot run Python as `/nonexistent`
      caused by: No such file or directory (os error 2)
    hint: install Python 3.11 or newer, or name it with --python

    exit 72
    error: `<python>` is Python 3.10; expected 3.11 or newer
    hint: name a newer one with --python

    exit 72
    error: `<python>` is Python 0.0; expected 3.11 or newer
    hint: name a newer one with --python
    ");
    assert!(!home.dir().exists(), "nothing is begun");
}

#[test]
fn a_folder_that_cannot_be_written_is_reported() {
    let home = Home::new();
    let file = home.folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = home.ovms();
    command
        .args(["setup", "--python", FAKE_PYTHON, "--dir"])
        .arg(file.join("below"));
    assert_said!(home.said(&cli::run(&mut command)), @"
    exit 1
    error: cannot write to <home>/file/below
      caused by: Not a directory (os error 20)
    hint: name another folder with --dir
    ");
}

#[test]
fn without_a_home_a_folder_is_asked_for() {
    let home = Home::new();
    let run = cli::run(home.ovms().arg("setup").env_remove("HOME"));
    assert_said!(home.said(&run), @"
    exit 72
    error: there is no home folder to install into
    hint: name a folder with --dir
    ");
}
