//! Shared libraries of custom nodes.

use std::{
    mem::ManuallyDrop,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use libloading::os::unix::{Library as Shared, RTLD_LAZY, RTLD_LOCAL};

use super::{
    abi::{Deinitialize, Execute, GetInfo, Initialize, Release},
    error::LibraryError,
    file,
};

/// An open library that has all six functions.
///
/// It is closed when dropped, unless a node was ever made of it: then it stays for the life of the
/// process. Nodes may have started threads that go on after `deinitialize` (OpenMP's and TBB's
/// do), or have left destructors with threads of this process, and these would run into the void.
pub struct Library {
    name: String,
    path: PathBuf,
    /// Functions, which may be called for as long as the library lives.
    pub(super) functions: Functions,
    shared: ManuallyDrop<Shared>,
    is_used: AtomicBool,
}

/// The functions of a library; valid while it is open.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub(super) initialize: Initialize,
    pub(super) deinitialize: Deinitialize,
    pub(super) execute: Execute,
    pub(super) inputs: GetInfo,
    pub(super) outputs: GetInfo,
    pub(super) release: Release,
}

impl Library {
    /// Opens a library. Takes the time of a file, and runs the library's constructors: not for an
    /// async worker.
    ///
    /// A path is taken as it is: a name without a folder is a file of the current folder, not of
    /// those where the system looks for libraries.
    ///
    /// # Errors
    ///
    /// Fails if the path goes through `..`, if there is no library, or if it lacks a function. The
    /// texts are those for the log, which the caller writes.
    pub fn open(name: &str, path: &Path) -> Result<Arc<Self>, LibraryError> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(LibraryError::Escape(path.to_owned()));
        }
        let refuse = |reason: String| LibraryError::Open {
            name: name.to_owned(),
            path: path.to_owned(),
            reason,
        };
        // The system would wait for somebody to write to a pipe. What is not there at all, it
        // describes itself.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(refuse(format!("{}: not a regular file", path.display())));
        }
        let file = if path.is_absolute() {
            path.to_owned()
        } else {
            Path::new(".").join(path)
        };
        if file::is_cut_short(&file) {
            let reason = format!(
                "{}: the file ends early; is it still being written?",
                path.display()
            );
            return Err(refuse(reason));
        }
        // SAFETY: constructors of the library run here, and whatever of it is called later: whoever
        // configures a library trusts it with the process.
        let shared = unsafe { Shared::open(Some(&file), RTLD_LAZY | RTLD_LOCAL) }
            .map_err(|error| refuse(error.to_string()))?;
        // If one is missing, the library is closed here: no function of it has run.
        let functions = Functions::find(&shared).map_err(|reason| LibraryError::Symbol {
            name: name.to_owned(),
            reason,
        })?;
        tracing::info!(
            "Successfully loaded custom node library name: {name}; base_path: {}",
            path.display()
        );
        Ok(Arc::new(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            functions,
            shared: ManuallyDrop::new(shared),
            is_used: AtomicBool::new(false),
        }))
    }

    /// Returns the name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that the library does not leave the process any more.
    pub(super) fn keep(&self) {
        self.is_used.store(true, Ordering::Release);
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if !*self.is_used.get_mut() {
            // SAFETY: `self` is being dropped, so that this is the only time and nobody has it
            // after it. Nodes hold the library, so that none is left to call a function.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        }
    }
}

impl Functions {
    fn find(shared: &Shared) -> Result<Self, String> {
        // SAFETY: a library that has all six names implements the interface of custom nodes, and
        // these are its types. `Functions` is kept beside the library, never longer.
        unsafe {
            Ok(Self {
                initialize: symbol(shared, c"initialize")?,
                deinitialize: symbol(shared, c"deinitialize")?,
                execute: symbol(shared, c"execute")?,
                inputs: symbol(shared, c"getInputsInfo")?,
                outputs: symbol(shared, c"getOutputsInfo")?,
                release: symbol(shared, c"release")?,
            })
        }
    }
}

/// Finds a function.
///
/// # Safety
///
/// `F` is the type of the function, and the caller stops calling it when the library is closed.
unsafe fn symbol<F: Copy>(shared: &Shared, name: &std::ffi::CStr) -> Result<F, String> {
    // SAFETY: as the caller promises; an `Option` of a function has the null pointer for `None`,
    // so that a symbol without an address is read as such.
    let found = unsafe { shared.get::<Option<F>>(name.to_bytes_with_nul()) };
    let found = found.map_err(|error| error.to_string())?;
    found.ok_or_else(|| format!("symbol {} has no address", name.to_string_lossy()))
}
