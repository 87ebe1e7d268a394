//! `ovms setup`: finds the OpenVINO runtime, or installs it into a virtual environment.

mod install;
mod lock;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    time::Duration,
};

use ovms::{
    openvino::runtime::{
        self, Device, FoundRuntime, RuntimeError, RuntimeOrigin, RuntimeSearchPath,
    },
    task,
};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::{apart, error::Failure, places, ui};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
An existing runtime is used as it is, and nothing is installed: from OPENVINO_INSTALL_DIR, next to the \
wheel of ovms, from the active virtual environment, from an earlier `ovms setup`, or from the system.

Examples:
  ovms setup
  ovms setup --dir ~/openvino --python python3.12

Exit codes: 0 a runtime is found or installed, and works; 1 it cannot be installed; 64 usage; 72 no \
Python to install it with, or the runtime does not work.";

/// Time limit for a runtime to show that it works.
const PROBE: Duration = Duration::from_secs(60);

/// Time limit for listing the devices.
const LIST: Duration = Duration::from_secs(20);

/// Arguments of `ovms setup`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct SetupArgs {
    /// Folder for the virtual environment with the runtime
    ///
    /// Only this folder is searched. The default is `ovms/runtime` in the user's data folder, which is
    /// only used if no other runtime is found.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Python for the virtual environment, 3.11 or newer
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Arguments of the hidden `ovms probe-runtime`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// The folder with the library
    folder: PathBuf,
    /// List the devices, and compile nothing
    #[arg(long)]
    devices: bool,
}

/// Finds or installs the runtime and reports its location.
pub(crate) fn run(args: &SetupArgs) -> Result<(), Failure> {
    let (dir, search) = match &args.dir {
        Some(dir) => {
            let dir = std::path::absolute(dir)?;
            (Some(dir.clone()), only(dir))
        }
        None => (places::managed_runtime(), places::all()),
    };
    if let Existing::Works(found, version) = existing(&search, dir.as_deref())? {
        return report(&found, &version, false, args);
    }
    // Only needed now: a runtime that is there already wants no folder.
    let dir = dir.ok_or_else(|| {
        Failure::system("there is no home folder to install into").hint("name a folder with --dir")
    })?;
    install::check_python(&args.python)?;
    // Held until the end. Another setup may have installed it while this one waited.
    let _lock = lock::take(&dir)?;
    match existing(&search, Some(&dir))? {
        Existing::Works(found, version) => return report(&found, &version, false, args),
        Existing::Unfinished => ui::note("an earlier setup has not finished; resuming it"),
        Existing::Broken(reason) => ui::note(&format!(
            "the installed runtime does not work ({reason}); installing it again"
        )),
        Existing::Missing => {}
    }
    install::install(&dir, &args.python)?;
    let found = runtime::find_managed(&dir).map_err(|error| explain(&error))?;
    let version = probe_apart(&found)?;
    install::finished(&dir)?;
    report(&found, &version, true, args)
}

/// Returns one folder as the only place to search.
fn only(folder: PathBuf) -> RuntimeSearchPath {
    RuntimeSearchPath {
        managed: Some(folder),
        ..RuntimeSearchPath::default()
    }
}

/// Runtime before an installation.
enum Existing {
    /// A runtime that works, with its version.
    Works(FoundRuntime, String),
    /// An installation into our folder that is running, or that was interrupted.
    Unfinished,
    /// A runtime in our folder that does not work, with the reason.
    Broken(String),
    /// No runtime at all.
    Missing,
}

/// Looks for a runtime and tries it. A broken or unfinished one of another place than the folder for installations is
/// an error.
fn existing(search: &RuntimeSearchPath, dir: Option<&Path>) -> Result<Existing, Failure> {
    let found = match runtime::find(search) {
        Ok(found) => found,
        Err(RuntimeError::Missing) => return Ok(Existing::Missing),
        Err(RuntimeError::Unfinished(folder)) if dir == Some(folder.as_path()) => {
            return Ok(Existing::Unfinished);
        }
        Err(error) => return Err(explain(&error)),
    };
    match probe_apart(&found) {
        Ok(version) => Ok(Existing::Works(found, version)),
        Err(failure) if found.origin == RuntimeOrigin::Managed => {
            Ok(Existing::Broken(failure.message().to_owned()))
        }
        Err(failure) => Err(failure.hint(format!(
            "this runtime is taken from {}; fix or remove it, or run `ovms setup --dir DIR` and \
             set OPENVINO_INSTALL_DIR to DIR",
            found.origin
        ))),
    }
}

/// Reports the runtime, which is installed now or was there.
fn report(
    found: &FoundRuntime,
    version: &str,
    is_installed: bool,
    args: &SetupArgs,
) -> Result<(), Failure> {
    if args.output.is_json() {
        return ui::print_json(&json!({
            "version": version,
            "library": found.library.display().to_string(),
            "origin": match found.origin {
                RuntimeOrigin::InstallDir => "install_dir",
                RuntimeOrigin::OwnEnvironment => "own_environment",
                RuntimeOrigin::ActiveVenv => "virtual_environment",
                RuntimeOrigin::Managed => "managed",
                RuntimeOrigin::System => "system",
            },
            "installed": is_installed,
        }));
    }
    let verb = if is_installed { "installed" } else { "found" };
    ui::print(format!(
        "OpenVINO {version} {verb} and working: {}\n",
        found.library.display()
    ))?;
    ui::note(&match &args.dir {
        Some(dir) => {
            let dir = std::path::absolute(dir)?;
            format!("to use it: export OPENVINO_INSTALL_DIR={}", dir.display())
        }
        None => format!("from {}; next: ovms serve --demo", found.origin),
    });
    Ok(())
}

/// Opens a runtime in a process of its own, so that a crash ends only that process. Returns its
/// version.
pub(crate) fn probe_apart(found: &FoundRuntime) -> Result<String, Failure> {
    let library = found.library.display();
    let Some(said) = apart::run(probe_command(found), PROBE)? else {
        let seconds = PROBE.as_secs();
        let text = format!("{library} does not respond within {seconds} s");
        return Err(Failure::system(text));
    };
    Err(Failure::system(match said.stderr.trim() {
        _ if said.status.success() => return Ok(said.stdout.trim().to_owned()),
        "" => format!("{library} crashes the process: {}", said.status),
        _ => said.reason(),
    }))
}

/// Lists the devices of a runtime, in a process of its own as well.
pub(crate) fn devices(found: &FoundRuntime) -> Result<Vec<Device>, Failure> {
    let [probe, folder] = probe_command(found);
    let said = apart::run([probe, folder, OsStr::new("--devices")], LIST)?;
    let late = || format!("the runtime lists no devices within {} s", LIST.as_secs());
    let listed = said.ok_or_else(late).and_then(apart::Said::success);
    listed
        .and_then(|listed| {
            serde_json::from_str(&listed)
                .map_err(|error| format!("the list of devices cannot be read: {error}"))
        })
        .map_err(Failure::system)
}

/// Returns the names of devices, with what they are in full.
pub(crate) fn named(devices: &[Device]) -> Vec<String> {
    let named = devices
        .iter()
        .map(|device| match device.full_name.as_str() {
            "" => device.name.clone(),
            full => format!("{} ({full})", device.name),
        });
    named.collect()
}

fn probe_command(found: &FoundRuntime) -> [&OsStr; 2] {
    let folder = found.library.parent().unwrap_or(Path::new("/"));
    [OsStr::new("probe-runtime"), folder.as_os_str()]
}

/// Opens one runtime, compiles a tiny model, and prints the version; or the devices.
pub(crate) fn probe(args: &ProbeArgs) -> Result<(), Failure> {
    let failed = |error: RuntimeError| Failure::system(error.to_string());
    // Setup tries what it has not finished yet.
    let found = runtime::find_managed(&args.folder);
    let opened = found.and_then(runtime::open_found).map_err(failed)?;
    if args.devices {
        let devices = runtime::devices(&opened).map_err(failed)?;
        return ui::print_json(&json!(devices));
    }
    runtime::check(&opened).map_err(failed)?;
    ui::print(format!("{}\n", opened.version))
}

/// Returns the failure for a missing runtime, with the next step.
pub(crate) fn explain(error: &RuntimeError) -> Failure {
    let failure = Failure::system(error.to_string());
    match error {
        RuntimeError::Missing => {
            failure.hint("run `ovms setup`; it finds one, or installs one for you")
        }
        RuntimeError::InstallDir(_) => failure
            .hint("unset OPENVINO_INSTALL_DIR, or point it to a folder made by `ovms setup --dir`"),
        RuntimeError::Unfinished(folder) => {
            let dir = match places::managed_runtime().as_ref() == Some(folder) {
                true => String::new(),
                false => format!(" --dir {}", ui::shell_word(&folder.display().to_string())),
            };
            failure.hint(format!(
                "run `ovms setup{dir}` again; it waits for one that is running, and otherwise resumes the last one"
            ))
        }
        RuntimeError::Open { .. } | RuntimeError::Broken { .. } => {
            failure.hint("run `ovms setup` to check it")
        }
    }
}

/// Arguments of the hidden `ovms supervise`.
#[derive(Debug, clap::Args)]
pub(crate) struct SuperviseArgs {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Subprocess that ends with this program, however it ends.
///
/// A killed program cannot end its subprocesses. So a supervisor stands between: this program
/// again, with a pipe from its caller that is never written to. When the pipe is closed, as the
/// system does after the death of the caller, the supervisor kills the subprocess and its whole
/// process group.
struct Supervised {
    child: Child,
    /// Pipe that ends the subprocess when it is closed.
    alive: Option<ChildStdin>,
}

impl Supervised {
    /// Starts a program with arguments and piped output.
    fn start(program: &OsStr, args: &[&OsStr]) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["supervise", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What Python prints is read as it comes, not in blocks.
            .env("PYTHONUNBUFFERED", "1")
            // A Ctrl-C is for the caller alone: the supervisor has to see its end.
            .process_group(0)
            .spawn()?;
        let alive = child.stdin.take();
        Ok(Self { child, alive })
    }

    /// Waits for the end, and returns the rest of the output.
    fn output(self) -> io::Result<Output> {
        let Self { child, alive } = self;
        let output = child.wait_with_output();
        drop(alive);
        output
    }
}

/// Runs a program until its end, or until stdin is closed.
pub(crate) fn supervise(args: &SuperviseArgs) -> Result<(), Failure> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Failure::usage("no program is named"));
    };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = started.map_err(|error| {
        let text = format!("cannot run {}", program.display());
        Failure::system(text).caused_by(&error)
    })?;
    let group = Pid::from_child(&child);
    task::thread("caller", move || {
        // The end of the pipe, or an error, which is as good as one.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        // It may have ended by itself.
        let _ = kill_process_group(group, Signal::KILL);
    })?;
    let status = child.wait()?;
    let killed = || 128 + status.signal().unwrap_or_default();
    std::process::exit(status.code().unwrap_or_else(killed));
}
