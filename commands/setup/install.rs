//! Installs the runtime's wheel into a virtual environment with pip.
//!
//! A mark in the folder says that an installation is under way; it goes when the runtime has been
//! seen to work. A setup that finds the mark goes on where the last one ended: pip keeps what it
//! has downloaded, and what may be half written is written again.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ovms::openvino::runtime::PINNED_VERSION;

use crate::{
    error::{Failure, FailureKind},
    setup::progress::Progress,
};

/// The release of numpy that goes with the runtime.
const NUMPY: &str = "2.4.6";

/// The release of pip from which on it tells its progress to programs.
const PIP: &str = "25.3";

/// The mark of an installation under way.
const MARK: &str = "ovms-setup.unfinished";

/// Tells whether an installation was begun and not ended.
pub(super) fn is_unfinished(dir: &Path) -> bool {
    dir.join(MARK).exists()
}

/// Takes the mark away.
pub(super) fn finished(dir: &Path) -> Result<(), Failure> {
    fs::remove_file(dir.join(MARK)).map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("cannot remove {}", dir.join(MARK).display()),
        )
        .caused_by(&error)
    })
}

/// Makes the virtual environment and installs the wheels.
pub(super) fn install(dir: &Path, python: &Path) -> Result<(), Failure> {
    check_python(python)?;
    let again = dir.join("pyvenv.cfg").exists();
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(dir.join(MARK), ""))
        .map_err(|error| {
            Failure::new(
                FailureKind::Failed,
                format!("cannot write to {}", dir.display()),
            )
            .caused_by(&error)
            .hint("name another folder with --dir")
        })?;
    let progress = Progress::start(&format!(
        "making a virtual environment in {}",
        dir.display()
    ));
    make_venv(dir, python)?;
    let python = dir.join("bin/python");
    let mut pip: Vec<String> = Vec::new();
    if again {
        // Files that a broken-off installation left may look whole.
        pip.push("--force-reinstall".to_owned());
    }
    progress.say("getting pip");
    run_pip(
        &python,
        &["--upgrade".to_owned(), format!("pip=={PIP}")],
        &progress,
    )?;
    pip.push(format!("openvino=={PINNED_VERSION}"));
    pip.push(format!("numpy=={NUMPY}"));
    progress.say(&format!("getting OpenVINO {PINNED_VERSION}"));
    run_pip(&python, &pip, &progress)?;
    progress.finish();
    Ok(())
}

fn check_python(python: &Path) -> Result<(), Failure> {
    let output = Command::new(python)
        .args(["-c", "import sys; print(*sys.version_info[:2])"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::new(
                FailureKind::SystemPart,
                format!("cannot run Python as `{}`", python.display()),
            )
            .caused_by(&error)
            .hint("install Python 3.11 or newer, or name it with --python")
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || text.trim().is_empty() {
        return Err(Failure::new(
            FailureKind::SystemPart,
            format!("`{}` is no Python that runs", python.display()),
        )
        .hint("install Python 3.11 or newer, or name it with --python"));
    }
    let mut numbers = text
        .split_whitespace()
        .map(|text| text.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (3, 11) {
        return Err(Failure::new(
            FailureKind::SystemPart,
            format!(
                "`{}` is Python {}.{}; expected 3.11 or newer",
                python.display(),
                version.0,
                version.1
            ),
        )
        .hint("name a newer one with --python"));
    }
    Ok(())
}

/// Making an environment where one is keeps what is in it and mends what is missing.
fn make_venv(dir: &Path, python: &Path) -> Result<(), Failure> {
    let output = Command::new(python)
        .args(["-m", "venv"])
        .arg(dir)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let failure = Failure::new(
        FailureKind::SystemPart,
        format!("cannot make a virtual environment: {}", last_line(&said)),
    );
    Err(if said.contains("ensurepip") {
        failure.hint("Python lacks its venv package; on Debian: apt install python3-venv")
    } else {
        failure
    })
}

/// Runs `pip install` and shows how far it is.
fn run_pip(python: &PathBuf, what: &[String], progress: &Progress) -> Result<(), Failure> {
    let raw_progress = version_at_least(python, 24);
    let mut command = Command::new(python);
    command.args([
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
    ]);
    if raw_progress {
        command.args(["--progress-bar", "raw"]);
    }
    let mut pip = command
        .args(what)
        // What pip prints is read as it comes, not in blocks.
        .env("PYTHONUNBUFFERED", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // pip writes little to stderr, so it cannot fill up while stdout is being read.
    if let Some(stdout) = pip.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            show(&line, progress);
        }
    }
    let mut said = String::new();
    if let Some(mut stderr) = pip.stderr.take() {
        stderr.read_to_string(&mut said)?;
    }
    if pip.wait()?.success() {
        return Ok(());
    }
    let packages: Vec<&str> = what
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with("--"))
        .collect();
    Err(Failure::new(
        FailureKind::Failed,
        format!("pip cannot install {}: {}", packages.join(" "), last_error(&said)),
    )
    .hint("check the network and pip's configuration, then run `ovms setup` again; it goes on where it was"))
}

fn version_at_least(python: &PathBuf, wanted: u32) -> bool {
    let output = Command::new(python)
        .args(["-c", "import pip; print(pip.__version__.split('.')[0])"])
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse::<u32>().is_ok_and(|major| major > wanted)
    })
}

/// Understands pip's lines: `Progress 1 of 2` in bytes, and what it is at.
fn show(line: &str, progress: &Progress) {
    if let Some((done, all)) = line
        .strip_prefix("Progress ")
        .and_then(|rest| rest.split_once(" of "))
        .and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)))
    {
        progress.bytes(done, all);
    } else if let Some(file) = line.trim().strip_prefix("Downloading ") {
        let name = file.split_whitespace().next().unwrap_or(file);
        let name = name.rsplit('/').next().unwrap_or(name);
        // A wheel's name begins with those of the package and its release.
        let release: Vec<&str> = name.split('-').take(2).collect();
        progress.say(&format!("downloading {}", release.join(" ")));
    } else if line.starts_with("Installing collected packages") {
        progress.say("unpacking");
    }
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or("it said nothing")
}

/// pip's last complaint that begins with `ERROR:`, else its last line.
fn last_error(text: &str) -> &str {
    text.lines()
        .rev()
        .find_map(|line| line.strip_prefix("ERROR: "))
        .unwrap_or_else(|| last_line(text))
}
