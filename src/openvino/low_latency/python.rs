//! The Python that belongs to the runtime, and a script run with it in a process of its own.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{failed, unusable};
use crate::{
    error::{Error, Result},
    openvino::{runtime::PINNED_VERSION, runtime_error::OpenVinoError},
};

/// The script's exit code for "the package cannot be imported".
const NO_PACKAGE: i32 = 3;

/// Maximum bytes read of a process's output, from its end.
const MAX_BYTES: u64 = 4096;

/// Maximum number of its lines that are reported.
const MAX_LINES: usize = 12;

/// Maximum pause between two looks at a process.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Candidate programs for Python, and the folder of the package.
#[derive(Debug, PartialEq)]
pub(super) struct Python {
    /// Programs, in the order in which they are tried.
    programs: Vec<PathBuf>,
    /// The folder that has the package; wherever Python itself finds one if `None`.
    packages: Option<PathBuf>,
}

impl Python {
    /// Finds the Python of a runtime by where its library is.
    ///
    /// The wheel has it in `<prefix>/lib/python3.*/site-packages/openvino/libs/`: the package is
    /// beside it, and works with that release of Python only. An environment has its Python in
    /// `<prefix>/bin`. For a runtime that is no wheel's there is only the Python of the search path.
    pub(super) fn of_runtime(library: Option<&Path>) -> Self {
        library
            .and_then(|library| {
                Self::of_wheel(library).or_else(|| Self::of_wheel(&library.canonicalize().ok()?))
            })
            .unwrap_or_else(|| Self {
                programs: vec!["python3".into()],
                packages: None,
            })
    }

    fn of_wheel(library: &Path) -> Option<Self> {
        let libs = library.parent()?;
        let packages = libs.parent()?.parent()?;
        let release = packages.parent()?;
        let name = release.file_name()?.to_str()?;
        if !libs.ends_with("openvino/libs") || !name.starts_with("python3") {
            return None;
        }
        let bin = release.parent()?.parent()?.join("bin");
        let own = ["python", name, "python3"].map(|name| bin.join(name));
        let mut programs: Vec<PathBuf> = own.into_iter().filter(|path| path.is_file()).collect();
        programs.extend([name.into(), "python3".into()]);
        Some(Self {
            programs,
            packages: Some(packages.to_owned()),
        })
    }

    /// Runs a script and waits for it to end well.
    ///
    /// # Errors
    ///
    /// Fails with the end of what the script wrote to stderr, and if it takes longer than the
    /// limit; it is ended then.
    pub(super) fn run(&self, script: &Path, limit: Duration) -> Result<()> {
        let mut said = tempfile::tempfile().map_err(|error| unusable(&env::temp_dir(), error))?;
        let (program, mut child) = self.start(script, &said)?;
        let Some(status) = child.wait(limit).map_err(failed)? else {
            let limit = limit.as_secs();
            return Err(Error::internal(format!("it did not end within {limit} s")));
        };
        if status.success() {
            return Ok(());
        }
        let said = last_lines(&mut said).unwrap_or_default();
        let program = program.display();
        Err(match status.code() {
            Some(NO_PACKAGE) => Error::internal(format!(
                "it needs the Python package `openvino`, which {program} cannot import ({}); get it \
                 with `ovms setup` or `pip install openvino=={PINNED_VERSION}`, with numpy",
                OpenVinoError::new(&said)
            )),
            Some(_) if !said.trim().is_empty() => failed(said),
            // It was ended from outside, or ended without a word.
            _ => failed(format!("{said}\n{program} ended with {status}")),
        })
    }

    /// Starts the first of the programs that is there.
    fn start(&self, script: &Path, said: &File) -> Result<(&Path, Process)> {
        let mut missing = io::Error::from(io::ErrorKind::NotFound);
        for program in &self.programs {
            match self
                .command(program, script, said)
                .and_then(|mut command| command.spawn())
            {
                Ok(child) => return Ok((program, Process(child))),
                Err(error) => missing = error,
            }
        }
        let tried = self.programs.iter().map(|program| program.display());
        let tried: Vec<String> = tried.map(|program| program.to_string()).collect();
        let text = format!(
            "it needs Python with the `openvino` package, and no Python runs (tried {}); get both \
             with `ovms setup`",
            tried.join(", ")
        );
        Err(Error::internal(text).with_source(missing))
    }

    fn command(&self, program: &Path, script: &Path, said: &File) -> io::Result<Command> {
        let mut command = Command::new(program);
        command
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            // So that what it starts can be ended with it.
            .process_group(0);
        if let Some(packages) = &self.packages {
            command.env("PYTHONPATH", search_path(packages)?);
        }
        Ok(command)
    }
}

/// Returns Python's search path with a folder before all others.
fn search_path(packages: &Path) -> io::Result<OsString> {
    let more = env::var_os("PYTHONPATH").filter(|more| !more.is_empty());
    let more = more.iter().flat_map(env::split_paths);
    // It may be relative, as the library's path is then.
    let packages = std::path::absolute(packages)?;
    env::join_paths(std::iter::once(packages).chain(more)).map_err(io::Error::other)
}

/// A process that is ended, with its group, when dropped.
struct Process(Child);

impl Process {
    /// Waits for its end; `None` if it takes longer.
    fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // It has not been waited for, so the number is still its own. If it cannot be ended,
            // it ends by itself.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// Reads the last lines of a file.
fn last_lines(file: &mut File) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(MAX_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::OpenOptionsExt,
        path::{Path, PathBuf},
        time::{Duration, Instant},
    };

    use super::{Python, Result};

    const LONG: Duration = Duration::from_secs(60);

    /// Makes empty files below a folder.
    fn place(root: &Path, files: &[&str]) {
        for file in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
    }

    /// Runs a shell script in the place of Python.
    fn run(script: &str, limit: Duration) -> Result<()> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("script");
        fs::write(&path, script).unwrap();
        let shell = Python {
            programs: vec!["/bin/sh".into()],
            packages: None,
        };
        shell.run(&path, limit)
    }

    #[test]
    fn the_python_of_an_environment_is_used_first() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("lib/python3.11/site-packages");
        let library = packages.join("openvino/libs/libopenvino_c.so.2641");
        place(root.path(), &["bin/python", "bin/python3.11"]);
        let python = Python::of_runtime(Some(&library));
        let bin = root.path().join("bin");
        let programs: [PathBuf; 4] = [
            bin.join("python"),
            bin.join("python3.11"),
            "python3.11".into(),
            "python3".into(),
        ];
        assert_eq!(python.programs, programs);
        assert_eq!(python.packages, Some(packages));
    }

    #[test]
    fn the_packages_of_a_system_have_its_python() {
        let packages = Path::new("/nowhere/lib/python3.12/dist-packages");
        let library = packages.join("openvino/libs/libopenvino_c.so");
        let python = Python::of_runtime(Some(&library));
        assert_eq!(
            python.programs,
            ["python3.12", "python3"].map(PathBuf::from)
        );
        assert_eq!(python.packages.as_deref(), Some(packages));
    }

    #[test]
    fn a_link_to_the_library_leads_to_its_python() {
        let root = tempfile::tempdir().unwrap();
        let library = "lib/python3.11/site-packages/openvino/libs/libopenvino_c.so";
        place(root.path(), &[library]);
        let link = root.path().join("libopenvino_c.so");
        std::os::unix::fs::symlink(root.path().join(library), &link).unwrap();
        assert!(Python::of_runtime(Some(&link)).packages.is_some());
    }

    #[test]
    fn other_runtimes_have_the_python_of_the_search_path() {
        for library in [None, Some(Path::new("/usr/lib/libopenvino_c.so"))] {
            let python = Python::of_runtime(library);
            assert_eq!(python.programs, ["python3"].map(PathBuf::from));
            assert_eq!(python.packages, None);
        }
    }

    #[test]
    fn the_next_program_is_tried_if_one_is_not_there() {
        let python = |last: &str| Python {
            programs: vec!["/nowhere/python".into(), last.into()],
            packages: Some("packages".into()),
        };
        let root = tempfile::tempdir().unwrap();
        let script = root.path().join("script");
        fs::write(
            &script,
            "case $PYTHONPATH in /*/packages*) ;; *) exit 1;; esac",
        )
        .unwrap();
        python("/bin/sh").run(&script, LONG).unwrap();
        let error = python("/nowhere/either").run(&script, LONG).unwrap_err();
        insta::assert_snapshot!(
            crate::error::chain(&error),
            @"it needs Python with the `openvino` package, and no Python runs (tried /nowhere/python, /nowhere/either); get both with `ovms setup`: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn what_goes_wrong_is_reported() {
        let error = |script| run(script, LONG).unwrap_err().to_string();
        insta::assert_snapshot!(
            error("echo 'Exception from a.cpp:1:' >&2; echo 'no such model' >&2; exit 1"),
            @"no such model"
        );
        insta::assert_snapshot!(
            error("echo 'No module named openvino' >&2; exit 3"),
            @"it needs the Python package `openvino`, which /bin/sh cannot import (No module named openvino); get it with `ovms setup` or `pip install openvino==2026.4.1`, with numpy"
        );
        insta::assert_snapshot!(error("exit 7"), @"/bin/sh ended with exit status: 7");
        insta::assert_snapshot!(
            error("echo 'reading' >&2; kill -SEGV $$"),
            @"reading; /bin/sh ended with signal: 11 (SIGSEGV)"
        );
    }

    #[test]
    fn only_the_end_of_a_long_text_is_reported() {
        let script = "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1";
        let said = run(script, LONG).unwrap_err().to_string();
        assert!(said.starts_with("line 1988; "), "{said}");
        assert!(said.ends_with("; line 1999"), "{said}");
    }

    #[test]
    fn what_does_not_end_is_ended_with_all_that_it_started() {
        let root = tempfile::tempdir().unwrap();
        let fifo = root.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        // Whoever opens it to read waits until somebody opens it to write: for ever here.
        let script = format!("cat {0} & cat {0}", fifo.display());
        let error = run(&script, Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.message(), "it did not end within 1 s");
        // Opening it to write fails when nobody is left who reads.
        let end = Instant::now() + LONG;
        let write = || {
            let mut options = fs::OpenOptions::new();
            let options = options.write(true).custom_flags(libc::O_NONBLOCK);
            options.open(&fifo)
        };
        while write().is_ok() {
            assert!(Instant::now() < end, "something still runs");
            std::thread::yield_now();
        }
    }
}
