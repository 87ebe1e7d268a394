//! Selection of the interpreter whose packages handlers see.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

/// The oldest version of Python that has what the package needs of it.
const OLDEST: (u32, u32) = (3, 11);

/// Settings made before the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// Environment named by the operator.
    pub(super) environment: Option<PathBuf>,
    /// Location of the inference runtime.
    pub(super) runtime: Option<PathBuf>,
}

static WISH: Mutex<Wish> = Mutex::new(Wish {
    environment: None,
    runtime: None,
});

/// Sets the environment whose packages handlers see: the one named by the operator; else the active one
/// (`VIRTUAL_ENV`); else the one in which the inference runtime was found; else the installation that the shell finds.
/// `PYTHONPATH` applies in addition. Applies to what is loaded afterwards.
pub fn configure(environment: Option<PathBuf>, runtime: Option<PathBuf>) {
    *WISH.lock() = Wish {
        environment,
        runtime,
    };
}

impl Wish {
    /// Returns the settings, with an environment of its own for a graph or a pipeline that names one.
    pub(super) fn with(environment: Option<&Path>) -> Self {
        let wish = WISH.lock().clone();
        match environment {
            Some(own) => Self {
                environment: Some(own.to_owned()),
                ..wish
            },
            None => wish,
        }
    }

    /// Returns the interpreter.
    ///
    /// # Errors
    ///
    /// Fails if the environment named by the operator is invalid, or there is no interpreter.
    pub(super) fn program(&self) -> Result<PathBuf, String> {
        let active = env::var_os("VIRTUAL_ENV").filter(|folder| !folder.is_empty());
        if let Some(program) = self.choose(active.as_deref().map(Path::new))? {
            return Ok(program);
        }
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut programs = env::split_paths(&folders).map(|folder| folder.join("python3"));
        programs.find(|program| program.is_file()).ok_or_else(|| {
            let (major, minor) = OLDEST;
            format!(
                "there is no python3 in PATH; install Python {major}.{minor} or later, or name an environment with \
                 --python-environment"
            )
        })
    }

    fn choose(&self, active: Option<&Path>) -> Result<Option<PathBuf>, String> {
        if let Some(folder) = &self.environment {
            return match program_in(folder) {
                Some(program) => match too_old(folder) {
                    None => Ok(Some(program)),
                    Some(version) => Err(format!(
                        "{} is for Python {version}; {}",
                        folder.display(),
                        needed()
                    )),
                },
                None => Err(no_environment(folder)),
            };
        }
        let of_runtime = || {
            let runtime = self.runtime.as_deref()?;
            let runtime = std::path::absolute(runtime).ok()?;
            runtime
                .ancestors()
                .find(|folder| folder.join("pyvenv.cfg").is_file())
                .and_then(usable)
        };
        Ok(active.and_then(usable).or_else(of_runtime))
    }
}

/// Returns what is needed of an interpreter.
pub(super) fn needed() -> String {
    let (major, minor) = OLDEST;
    format!("handlers need Python {major}.{minor} or later")
}

/// Returns the error in an environment named by the operator, if any.
pub fn environment_error(folder: &Path) -> Option<String> {
    let wish = Wish {
        environment: Some(folder.to_owned()),
        runtime: None,
    };
    wish.choose(None).err()
}

/// Returns why a path is no environment, with the one that may be meant.
fn no_environment(path: &Path) -> String {
    let shown = path.display();
    if !path.is_file() {
        return format!(
            "{shown} is no Python environment: expected {shown}/bin/python3; make one with `python3 -m venv {shown}`"
        );
    }
    let meant = path.parent().and_then(Path::parent);
    match meant.filter(|folder| program_in(folder).is_some()) {
        Some(folder) => format!(
            "{shown} is a file of a Python environment: expected its folder, {}",
            folder.display()
        ),
        None => format!(
            "{shown} is a file: expected the folder of a Python environment, which has bin/python3"
        ),
    }
}

/// Returns the interpreter of an environment that was found automatically, if it is suitable.
fn usable(folder: &Path) -> Option<PathBuf> {
    if let Some(version) = too_old(folder) {
        tracing::warn!(
            "Python packages of {} are not used: it is for Python {version}; {}",
            folder.display(),
            needed()
        );
        return None;
    }
    program_in(folder)
}

/// Returns the version of an environment if that is too old.
fn too_old(folder: &Path) -> Option<String> {
    let settings = fs::read_to_string(folder.join("pyvenv.cfg")).ok()?;
    let version = settings.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        matches!(key.trim(), "version" | "version_info").then(|| value.trim())
    })?;
    let mut parts = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or_default());
    let found = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    (found < OLDEST).then(|| version.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an environment with the settings that `venv` would write.
    fn environment(version: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/python3"), "").unwrap();
        fs::write(
            folder.path().join("pyvenv.cfg"),
            format!("home = /usr/bin\nversion = {version}\n"),
        )
        .unwrap();
        folder
    }

    fn own() -> tempfile::TempDir {
        environment("3.12.1")
    }

    fn wish(environment: Option<&Path>, runtime: Option<&Path>) -> Wish {
        Wish {
            environment: environment.map(Path::to_owned),
            runtime: runtime.map(Path::to_owned),
        }
    }

    #[test]
    fn an_interpreter_names_its_environment() {
        let folder = own();
        let error = |path: &str| environment_error(&folder.path().join(path)).unwrap();
        let (root, file) = (folder.path().display(), "pyvenv.cfg");
        assert_eq!(
            error("bin/python3"),
            format!(
                "{root}/bin/python3 is a file of a Python environment: expected its folder, {root}"
            )
        );
        assert_eq!(
            error(file),
            format!(
                "{root}/{file} is a file: expected the folder of a Python environment, which has bin/python3"
            )
        );
    }

    #[test]
    fn the_environment_that_is_named_comes_first() {
        let (named, active, runtime) = (own(), own(), own());
        let program = |folder: &tempfile::TempDir| Ok(Some(folder.path().join("bin/python3")));
        let library = runtime
            .path()
            .join("lib/site-packages/openvino/libs/lib.so");
        let all = wish(Some(named.path()), Some(&library));
        assert_eq!(all.choose(Some(active.path())), program(&named));
        let implied = wish(None, Some(&library));
        assert_eq!(implied.choose(Some(active.path())), program(&active));
        assert_eq!(implied.choose(None), program(&runtime));
        assert_eq!(wish(None, None).choose(None), Ok(None));
        assert_eq!(
            wish(None, Some(Path::new("/usr/lib"))).choose(None),
            Ok(None)
        );
    }

    #[test]
    fn a_folder_without_an_interpreter_is_no_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        assert_eq!(
            wish(Some(folder.path()), None).choose(None),
            Err(format!(
                "{path} is no Python environment: expected {path}/bin/python3; make one with `python3 -m venv {path}`"
            ))
        );
        assert_eq!(wish(None, None).choose(Some(folder.path())), Ok(None));
    }

    #[test]
    fn an_environment_of_another_version_is_not_used() {
        let other = environment("3.7.1");
        let reported = wish(Some(other.path()), None).choose(None).unwrap_err();
        assert_eq!(
            reported,
            format!(
                "{} is for Python 3.7.1; handlers need Python 3.11 or later",
                other.path().display()
            )
        );
        assert_eq!(
            wish(None, Some(other.path())).choose(Some(other.path())),
            Ok(None)
        );
    }
}
