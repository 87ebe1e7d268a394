//! Interpreter of the process: its start, access to it, and deferred drops.
//!
//! A thread of its own starts it and then stays: Python treats it as the main thread, so that no
//! handler runs on it and none can replace the signal handlers of the server. It drops objects for
//! threads that must not wait for the interpreter's lock. The interpreter never shuts down, because
//! threads of handlers may still run.

use std::{
    cell::OnceCell,
    ffi::{CStr, CString, OsStr},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use pyo3::{ffi, prelude::*};

use super::{
    class::pyovms,
    environment::{Wish, own_version},
    loading,
};
use crate::task;

/// Job for the thread of the interpreter.
type Job = Box<dyn FnOnce(Python<'_>) + Send>;

struct Interpreter {
    /// Version and paths.
    description: String,
    jobs: mpsc::Sender<Job>,
}

static INTERPRETER: OnceLock<Result<Interpreter, String>> = OnceLock::new();

/// Whether the process is about to exit, so that no thread waits for the interpreter any more.
static STOPPING: AtomicBool = AtomicBool::new(false);

/// Sets the environment whose packages handlers see: the one named by the operator; else the active
/// one (`VIRTUAL_ENV`); else the one in which the inference runtime was found; else the
/// installation. `PYTHONPATH` applies in addition.
///
/// Has no effect once the interpreter has started.
pub fn configure(environment: Option<PathBuf>, runtime: Option<PathBuf>) {
    Wish {
        environment,
        runtime,
    }
    .set();
}

/// Returns version and paths of the interpreter, once it has started.
#[must_use]
pub fn describe() -> Option<String> {
    let interpreter = INTERPRETER.get()?.as_ref().ok()?;
    Some(interpreter.description.clone())
}

/// Flushes the output of handlers, within the time limit; for the exit of the process. Handlers may
/// be used afterwards, but threads that end leave their traces.
pub fn stop(limit: Duration) {
    let Some(Ok(_)) = INTERPRETER.get() else {
        return;
    };
    STOPPING.store(true, Ordering::Relaxed);
    let (done, waits) = mpsc::channel();
    let flush = move || {
        attach(|py| {
            for name in ["stdout", "stderr"] {
                // Output that cannot be flushed is lost in any case.
                let _ = py
                    .import("sys")
                    .and_then(|sys| sys.getattr(name))
                    .and_then(|stream| stream.call_method0("flush"));
            }
        });
        let _ = done.send(());
    };
    if task::thread("python stop", flush).is_ok() {
        // A thread that holds the lock for longer is left behind.
        let _ = waits.recv_timeout(limit);
    }
}

/// Starts the interpreter unless it is running.
pub(super) fn start() -> Result<(), String> {
    let interpreter = INTERPRETER.get_or_init(|| {
        let (reported, answer) = mpsc::channel();
        let program = Wish::get().program()?;
        let run = move || match initialize(program.as_deref()) {
            Ok(description) => {
                tracing::info!("Python interpreter has started: {description}");
                let (jobs, queue) = mpsc::channel::<Job>();
                // The thread that starts it waits.
                let _ = reported.send(Ok(Interpreter { description, jobs }));
                while let Ok(job) = queue.recv() {
                    Python::attach(|py| {
                        job(py);
                        // As many as are queued while the lock is held.
                        while let Ok(job) = queue.try_recv() {
                            job(py);
                        }
                    });
                }
            }
            Err(reason) => {
                let _ = reported.send(Err(reason));
            }
        };
        task::thread("python", run).map_err(|error| format!("no thread for Python: {error}"))?;
        answer
            .recv()
            .unwrap_or_else(|_| Err("the interpreter did not start".to_owned()))
    });
    interpreter.as_ref().map(|_| ()).map_err(Clone::clone)
}

/// Runs work with the interpreter's lock. Blocks until the lock is there.
///
/// The interpreter must have started, as is the case wherever there is a handler.
pub(super) fn attach<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    // A thread that is about to end has nothing to keep.
    let _ = STAY.try_with(|stay| {
        stay.get_or_init(Stay::new);
    });
    Python::attach(work)
}

/// Queues a job for the thread of the interpreter, which may wait for the lock.
pub(super) fn later(job: impl FnOnce(Python<'_>) + Send + 'static) {
    if let Some(Ok(interpreter)) = INTERPRETER.get() {
        // The thread lives as long as the process.
        let _ = interpreter.jobs.send(Box::new(job));
    }
}

thread_local! {
    static STAY: OnceCell<Stay> = const { OnceCell::new() };
}

/// Keeps the Python state of a thread between calls: creating it costs more than a short call, and
/// the `threading.local` of handlers lives in it.
struct Stay(Option<(ffi::PyGILState_STATE, *mut ffi::PyThreadState)>);

impl Stay {
    fn new() -> Self {
        // SAFETY: the interpreter has started. If this thread already has the lock, somebody else
        // keeps its state.
        unsafe {
            if ffi::PyGILState_Check() == 1 {
                return Self(None);
            }
            let state = ffi::PyGILState_Ensure();
            Self(Some((state, ffi::PyEval_SaveThread())))
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let Some((state, thread)) = self.0 else {
            return;
        };
        if STOPPING.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the state is this thread's, made in `new`, and nothing runs in it any more.
        unsafe {
            ffi::PyEval_RestoreThread(thread);
            ffi::PyGILState_Release(state);
        }
    }
}

/// Starts the interpreter on this thread, and returns its description. The lock is free afterwards.
fn initialize(program: Option<&Path>) -> Result<String, String> {
    pyo3::append_to_inittab!(pyovms);
    let program = program.map(Path::to_owned).or_else(of_library);
    configured(program.as_deref())?;
    // SAFETY: this thread has the lock since the interpreter started on it.
    let set_up =
        unsafe { Python::attach_unchecked(|py| prepare(py).map_err(|error| error.to_string())) };
    // SAFETY: as above; from here on the lock is taken anew for each use.
    unsafe { ffi::PyEval_SaveThread() };
    set_up
}

/// Starts the interpreter in embedded mode: no arguments read, no signal handlers, no change of the
/// process's streams.
fn configured(program: Option<&Path>) -> Result<(), String> {
    let program = program
        .map(|path| CString::new(OsStr::as_bytes(path.as_os_str())))
        .transpose()
        .map_err(|_| "the path of the Python environment has a zero byte".to_owned())?;
    // SAFETY: the structures are made by the functions for that before they are read, and the
    // strings are copied by the calls that take them.
    unsafe {
        let mut before = std::mem::zeroed::<ffi::PyPreConfig>();
        ffi::PyPreConfig_InitPythonConfig(&raw mut before);
        before.parse_argv = 0;
        // It would change the environment of a process with many threads.
        before.coerce_c_locale = 0;
        validated(ffi::Py_PreInitialize(&raw const before))?;

        let mut config = std::mem::zeroed::<ffi::PyConfig>();
        ffi::PyConfig_InitPythonConfig(&raw mut config);
        config.parse_argv = 0;
        config.install_signal_handlers = 0;
        config.configure_c_stdio = 0;
        let mut status = ffi::PyStatus_Ok();
        if let Some(program) = &program {
            status = ffi::PyConfig_SetBytesString(
                &raw mut config,
                &raw mut config.program_name,
                program.as_ptr(),
            );
            if ffi::PyStatus_Exception(status) == 0 {
                status = ffi::PyConfig_SetBytesString(
                    &raw mut config,
                    &raw mut config.executable,
                    program.as_ptr(),
                );
            }
        }
        if ffi::PyStatus_Exception(status) == 0 {
            status = ffi::Py_InitializeFromConfig(&raw const config);
        }
        ffi::PyConfig_Clear(&raw mut config);
        validated(status)
    }
}

fn validated(status: ffi::PyStatus) -> Result<(), String> {
    // SAFETY: a status may always be asked, and its text is static.
    unsafe {
        if ffi::PyStatus_Exception(status) == 0 {
            return Ok(());
        }
        let reason = if status.err_msg.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(status.err_msg).to_string_lossy()
        };
        Err(format!("the Python interpreter cannot start: {reason}"))
    }
}

/// Returns the path of the interpreter's shared library.
pub(super) fn library() -> Option<PathBuf> {
    // SAFETY: the address is one of the library, and the answer is static while it is loaded.
    unsafe {
        let mut info = std::mem::zeroed::<libc::Dl_info>();
        let found = libc::dladdr(ffi::Py_IsInitialized as *const libc::c_void, &raw mut info);
        if found == 0 || info.dli_fname.is_null() {
            return None;
        }
        let path = CStr::from_ptr(info.dli_fname).to_bytes();
        Some(PathBuf::from(OsStr::from_bytes(path)))
    }
}

/// Returns the executable that belongs to the library of the interpreter, so that its standard
/// modules are found whatever the search path of the shell.
fn of_library() -> Option<PathBuf> {
    let program = format!("bin/python{}", own_version());
    std::path::absolute(library()?)
        .ok()?
        .ancestors()
        .map(|folder| folder.join(&program))
        .find(|program| program.is_file())
}

/// Disables buffering of prints, loads the loader, and returns version and paths.
fn prepare(py: Python<'_>) -> PyResult<String> {
    let sys = py.import("sys")?;
    for name in ["stdout", "stderr"] {
        let stream = sys.getattr(name)?;
        if !stream.is_none() {
            let how = pyo3::types::PyDict::new(py);
            how.set_item("line_buffering", true)?;
            stream.call_method("reconfigure", (), Some(&how))?;
        }
    }
    loading::prepare(py)?;
    let paths: Vec<String> = sys.getattr("path")?.extract()?;
    Ok(format!(
        "Python {} of {}; sys.path: {}",
        Python::version_str()
            .split_whitespace()
            .next()
            .unwrap_or_default(),
        sys.getattr("prefix")?,
        paths.join(":")
    ))
}
