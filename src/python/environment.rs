//! Whose packages handlers see.

use std::{
    env,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// What was asked for before the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// The environment that the operator names.
    pub(super) environment: Option<PathBuf>,
    /// Where the inference runtime was found.
    pub(super) runtime: Option<PathBuf>,
}

static WISH: Mutex<Wish> = Mutex::new(Wish {
    environment: None,
    runtime: None,
});

impl Wish {
    /// Remembers what is asked for.
    pub(super) fn set(self) {
        *WISH.lock().unwrap_or_else(PoisonError::into_inner) = self;
    }

    /// Returns what was asked for.
    pub(super) fn get() -> Self {
        WISH.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the program that the interpreter takes itself for, which decides about its packages;
    /// `None` if there is no environment.
    ///
    /// # Errors
    ///
    /// Fails if the environment that the operator names is none.
    pub(super) fn program(&self) -> Result<Option<PathBuf>, String> {
        if let Some(folder) = &self.environment {
            return match program_in(folder) {
                Some(program) => Ok(Some(program)),
                None => Err(format!(
                    "{} is no Python environment: expected {}/bin/python3; make one with `python3 -m venv {}`",
                    folder.display(),
                    folder.display(),
                    folder.display()
                )),
            };
        }
        let active = env::var_os("VIRTUAL_ENV")
            .filter(|folder| !folder.is_empty())
            .and_then(|folder| program_in(Path::new(&folder)));
        let of_runtime = || {
            let runtime = self.runtime.as_deref()?;
            let runtime = std::path::absolute(runtime).ok()?;
            runtime
                .ancestors()
                .find(|folder| folder.join("pyvenv.cfg").is_file())
                .and_then(program_in)
        };
        Ok(active.or_else(of_runtime))
    }
}

/// Returns the interpreter of an environment. The path is absolute and its links stay, since the
/// interpreter looks for its packages beside it.
fn program_in(folder: &Path) -> Option<PathBuf> {
    let folder = std::path::absolute(folder).ok()?;
    ["bin/python", "bin/python3"]
        .iter()
        .map(|program| folder.join(program))
        .find(|program| program.exists())
}
