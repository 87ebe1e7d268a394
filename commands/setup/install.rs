//! Installation of the runtime's wheel into a virtual environment with pip.
//!
//! Packages are pinned by their hashes, and nothing else is installed: not even their declared
//! dependencies, one of which sends telemetry. pip ends with this program ([`supervise`]).
//!
//! A marker file in the folder says that an installation is running; it is removed when the
//! runtime has been seen to work. A setup that finds the marker resumes the last one: pip keeps its
//! downloads, and files that may be incomplete are written again.

use std::{
    cell::Cell,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use ovms::openvino::runtime::{PINNED_VERSION, UNFINISHED_MARKER};

use super::Supervised;
use crate::{error::Failure, ui};

/// Packages installed with one call: a file of requirements, which stays in the folder, and its text.
type Requirements = (&'static str, &'static str);

/// Release of pip with machine-readable progress.
const PIP: Requirements = ("ovms-setup.pip.txt", include_str!("pip.txt"));

/// Runtime, and its matching release of numpy.
const RUNTIME: Requirements = ("ovms-setup.runtime.txt", include_str!("runtime.txt"));

/// Returns the packages of requirements with their releases.
fn packages(requirements: &str) -> Vec<&str> {
    let words = requirements
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.contains("==")).collect()
}

/// Removes the marker. One that somebody else has removed is as good.
pub(super) fn finished(dir: &Path) -> Result<(), Failure> {
    let mark = dir.join(UNFINISHED_MARKER);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::cannot("remove", &mark, &error))
        }
        _ => Ok(()),
    }
}

/// Creates the virtual environment and installs the wheels.
pub(super) fn install(dir: &Path, python: &Path) -> Result<(), Failure> {
    let again = dir.join("pyvenv.cfg").exists();
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(dir.join(UNFINISHED_MARKER), ""))
        .map_err(|error| {
            Failure::cannot("write to", dir, &error).hint("name another folder with --dir")
        })?;
    let shown = dir.display();
    let progress = Progress::start(&format!("creating a virtual environment in {shown}"));
    make_venv(dir, python)?;
    let python = dir.join("bin/python");
    progress.say("installing pip");
    run_pip(dir, &python, &["--upgrade"], PIP, &progress)?;
    progress.say(&format!("installing OpenVINO {PINNED_VERSION}"));
    // Files that a broken-off installation left may look whole.
    let how = match again {
        true => "--force-reinstall",
        false => "--upgrade",
    };
    // That pip has progress to be read.
    let how = [how, "--progress-bar", "raw"];
    run_pip(dir, &python, &how, RUNTIME, &progress)?;
    progress.finish();
    Ok(())
}

/// Checks that a Python can be run, and is new enough.
pub(super) fn check_python(python: &Path) -> Result<(), Failure> {
    const INSTALL: &str = "install Python 3.11 or newer, or name it with --python";
    let shown = python.display();
    let output = Command::new(python)
        .args(["-c", "import sys; print(*sys.version_info[:2])"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::system(format!("cannot run Python as `{shown}`"))
                .caused_by(&error)
                .hint(INSTALL)
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || text.trim().is_empty() {
        return Err(Failure::system(format!("`{shown}` is not a working Python")).hint(INSTALL));
    }
    let mut numbers = text
        .split_whitespace()
        .map(|text| text.parse().unwrap_or(0));
    let (major, minor): (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if (major, minor) < (3, 11) {
        let text = format!("`{shown}` is Python {major}.{minor}; expected 3.11 or newer");
        return Err(Failure::system(text).hint("name a newer one with --python"));
    }
    Ok(())
}

/// Creates the environment, or fixes an existing one and keeps its contents.
fn make_venv(dir: &Path, python: &Path) -> Result<(), Failure> {
    let args = [OsStr::new("-m"), OsStr::new("venv"), dir.as_os_str()];
    let output = Supervised::start(python.as_os_str(), &args)?.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = last_line(&said);
    let failure = Failure::system(format!("cannot create a virtual environment: {last}"));
    Err(match said.contains("ensurepip") {
        true => failure.hint("Python lacks its venv package; on Debian: apt install python3-venv"),
        false => failure,
    })
}

/// Runs `pip install` and shows its progress.
fn run_pip(
    dir: &Path,
    python: &Path,
    how: &[&str],
    (file, requirements): Requirements,
    progress: &Progress,
) -> Result<(), Failure> {
    let file = dir.join(file);
    fs::write(&file, requirements).map_err(|error| Failure::cannot("write", &file, &error))?;
    let install = "-m pip install --no-input --disable-pip-version-check";
    // What is not in the file is neither looked for nor built.
    let all = "--require-hashes --no-deps --only-binary=:all:";
    let words = install.split(' ').chain(all.split(' '));
    let args = words
        .chain(how.iter().copied())
        .chain(["-r"])
        .map(OsStr::new);
    let args: Vec<&OsStr> = args.chain([file.as_os_str()]).collect();
    let mut pip = Supervised::start(python.as_os_str(), &args)?;
    // pip writes little to stderr, so it cannot fill up while stdout is being read.
    if let Some(stdout) = pip.child.stdout.take() {
        for line in lines(BufReader::new(stdout)) {
            show(&line, progress);
        }
    }
    let output = pip.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let (packages, error) = (packages(requirements).join(" "), last_error(&said));
    let failure = Failure::failed(format!("pip cannot install {packages}: {error}"));
    let failure = match broken_connection(&said) {
        Some(reason) => failure.caused_by(&io::Error::other(reason.to_owned())),
        None => failure,
    };
    Err(failure
        .hint("check the network and pip's configuration, then run `ovms setup` again; it resumes"))
}

/// Returns the lines of an output. One that is not UTF-8 does not end them: pip would end with the pipe.
fn lines(output: impl BufRead) -> impl Iterator<Item = String> {
    let lines = output.split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Shows a line of pip: `Progress 1 of 2` in bytes, or the current step.
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

/// Returns pip's last error, else its last line. Older errors are lines that begin with `ERROR:`; newer ones begin with
/// `×`, and advice for users of pip follows them; a traceback ends with the error.
fn last_error(text: &str) -> &str {
    let mut lines = text.lines().rev();
    let found = lines.find_map(|line| match line.strip_prefix("ERROR: ") {
        Some("Exception:") => Some(last_line(text)),
        Some(error) => Some(error),
        None => line.strip_prefix("× "),
    });
    found.unwrap_or_else(|| last_line(text))
}

/// Returns why there was no connection to an index, in the output of pip, which concludes that there is no such
/// package.
fn broken_connection(text: &str) -> Option<&str> {
    if !last_error(text).starts_with("No matching distribution") {
        return None;
    }
    let mut lines = text.lines().rev();
    let (_, reason) = lines.find_map(|line| line.split_once("connection broken by '"))?;
    let end = reason.rfind("': ").unwrap_or(reason.len());
    Some(&reason[..end])
}

/// Interval between two lines about one download if nothing is drawn.
const PAUSE: Duration = Duration::from_secs(5);

/// Progress display of an installation.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Time of the last line about the current step.
    reported: Cell<Instant>,
}

impl Progress {
    /// Creates the display with the first step.
    pub(super) fn start(step: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ui::bar_target());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        let reported = Cell::new(Instant::now());
        let progress = Self { bar, reported };
        progress.say(step);
        progress
    }

    /// Shows another step.
    pub(super) fn say(&self, step: &str) {
        if self.bar.is_hidden() {
            ui::note(step);
            self.reported.set(Instant::now());
            return;
        }
        self.bar.unset_length();
        self.bar.set_style(style("{spinner} {msg} {elapsed}"));
        self.bar.set_message(step.to_owned());
    }

    /// Shows the progress of the current step in bytes.
    pub(super) fn bytes(&self, done: u64, all: u64) {
        if self.bar.is_hidden() {
            if self.reported.get().elapsed() >= PAUSE {
                self.reported.set(Instant::now());
                let (done, all) = (DecimalBytes(done), DecimalBytes(all));
                ui::note(&format!("  {done} of {all}"));
            }
            return;
        }
        if self.bar.length() != Some(all) {
            self.bar.set_length(all);
            self.bar.set_style(style(
                "{spinner} {msg} {bar:24} {bytes} of {total_bytes} {bytes_per_sec}",
            ));
        }
        self.bar.set_position(done);
    }

    /// Removes the display.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are valid")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{
        PINNED_VERSION, PIP, RUNTIME, UNFINISHED_MARKER, broken_connection, finished, last_error,
        lines, packages,
    };

    #[test]
    fn a_marker_that_is_gone_already_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join(UNFINISHED_MARKER);
        fs::write(&mark, "").unwrap();
        finished(folder.path()).unwrap();
        assert!(!mark.exists());
        finished(folder.path()).unwrap();
        fs::create_dir(&mark).unwrap();
        assert!(finished(folder.path()).is_err());
    }

    #[test]
    fn errors_of_pip_are_found_among_its_other_lines() {
        let missing = "WARNING: Retrying (Retry(total=0)) after connection broken by \
                       'ProxyError('Cannot connect to proxy.')': /simple/pip/\n\
                       ERROR: Could not find a version\n\
                       ERROR: No matching distribution found for pip==25.3\n";
        assert_eq!(
            last_error(missing),
            "No matching distribution found for pip==25.3"
        );
        assert_eq!(
            broken_connection(missing),
            Some("ProxyError('Cannot connect to proxy.')")
        );
        let cut = "  WARNING: Attempting to resume incomplete download (5 kB/9 kB, attempt 5)\n\
                   error: incomplete-download\n\n\
                   × Download failed after 6 attempts because not enough bytes were received\n\
                   ╰─> URL: https://example.org/a.whl\n\n\
                   note: This is an issue with network connectivity, not pip.\n\
                   hint: Use --resume-retries to configure resume attempt limit.\n";
        assert_eq!(
            last_error(cut),
            "Download failed after 6 attempts because not enough bytes were received"
        );
        assert_eq!(broken_connection(cut), None);
        let other = missing.replace("No matching distribution", "No space left");
        assert_eq!(broken_connection(&other), None);
        let raised = "ERROR: Exception:\nTraceback (most recent call last):\n  File \"a.py\"\n\
                      TimeoutError: Read timed out.\n";
        assert_eq!(last_error(raised), "TimeoutError: Read timed out.");
        assert_eq!(last_error("Killed\n"), "Killed");
        assert_eq!(last_error(""), "it said nothing");
    }

    #[test]
    fn a_line_of_other_bytes_is_one_of_many() {
        let output = &b"one\r\nProcessing /h\xe9 \nProgress 1 of 2"[..];
        let found: Vec<String> = lines(output).collect();
        assert_eq!(found, ["one", "Processing /h\u{fffd}", "Progress 1 of 2"]);
    }

    #[test]
    fn what_is_installed_is_pinned_and_sends_no_telemetry() {
        let runtime = format!("openvino=={PINNED_VERSION}");
        let tested = include_str!("../../fixtures/requirements.txt");
        let numpy = tested.lines().find(|line| line.starts_with("numpy=="));
        assert_eq!(packages(RUNTIME.1), [numpy.unwrap(), &runtime]);
        assert_eq!(packages(PIP.1).len(), 1);
        for (text, wheels) in [(PIP.1, 1), (RUNTIME.1, 16)] {
            let hashes = text.match_indices("--hash=sha256:");
            let hashes: BTreeSet<&str> = hashes
                .map(|(at, it)| &text[at + it.len()..][..64])
                .collect();
            // Four releases of Python on two kinds of processors.
            assert_eq!(hashes.len(), wheels);
            for hash in hashes {
                assert!(hash.bytes().all(|it| it.is_ascii_hexdigit()), "{hash}");
            }
        }
    }
}
