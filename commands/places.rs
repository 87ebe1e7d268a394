//! Locations given by the environment.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use ovms::{
    config::Flags,
    openvino::runtime::{self, RuntimeSearchPath},
    python,
};

use crate::error::Failure;

/// Returns the default folder of `ovms setup`: `ovms/runtime` below the user's data folder (XDG
/// base directories).
pub(crate) fn managed_runtime() -> Option<PathBuf> {
    Some(data()?.join("ovms/runtime"))
}

/// Returns the user's data folder.
pub(crate) fn data() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share")
}

/// Returns the user's configuration folder.
pub(crate) fn configuration() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config")
}

/// Returns the user's folder for what can be had again.
pub(crate) fn cache() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache")
}

/// Returns a folder of the user: that of a variable, or else one below the home folder.
fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    path(variable)
        .filter(|path| path.is_absolute())
        .or_else(|| path("HOME").map(|home| home.join(below_home)))
}

/// Returns all places to search for a runtime.
pub(crate) fn all() -> RuntimeSearchPath {
    RuntimeSearchPath {
        install_dir: path("OPENVINO_INSTALL_DIR"),
        own: std::env::current_exe()
            .ok()
            .and_then(|program| runtime::own_environment(&program)),
        venv: path("VIRTUAL_ENV").or_else(|| path("CONDA_PREFIX")),
        managed: managed_runtime(),
        library_path: std::env::var_os("LD_LIBRARY_PATH"),
        system: true,
    }
}

/// Returns the Python environment that a runtime's library was installed into, if any.
pub(crate) fn environment_of(library: &Path) -> Option<PathBuf> {
    let mut above = library.ancestors();
    above
        .find(|folder| folder.join("pyvenv.cfg").is_file())
        .map(Path::to_path_buf)
}

/// Sets the packages that Python handlers see, and the maximum number of concurrent runs.
pub(crate) fn prepare_python(flags: &Flags, library: Option<&Path>) {
    let environment = library.and_then(environment_of);
    python::configure(flags.python_environment.clone(), environment);
    // A quarter each: a node whose calls hang leaves places for the others.
    python::set_limits(flags.max_python_runs / 4, flags.max_python_runs);
}

/// Rejects an environment without Python, or with another one.
pub(crate) fn check_python(flags: &Flags) -> Result<(), Failure> {
    let named = flags.python_environment.as_deref();
    match named.and_then(python::environment_error) {
        Some(error) => Err(Failure::usage_verbatim(format!(
            "python_environment is not usable: {error}"
        ))),
        None => Ok(()),
    }
}

/// Returns a path, or that of the current folder in the place of an empty one.
pub(crate) fn or_here(path: &Path) -> &Path {
    match path == Path::new("") {
        true => Path::new("."),
        false => path,
    }
}

/// Returns the folder that a file is in.
pub(crate) fn folder_of(file: &Path) -> &Path {
    or_here(file.parent().unwrap_or(Path::new("")))
}

/// Returns the absolute path of what may have to be made yet, without `..`, through which the server takes no path, and
/// without links.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(or_here(path))?;
    let mut above = whole.ancestors();
    let found = above.find_map(|there| Some((there, there.canonicalize().ok()?)));
    let (there, found) = found.unwrap_or((Path::new("/"), PathBuf::from("/")));
    // What does not exist yet has no links to follow.
    let rest = whole.strip_prefix(there).unwrap_or(&whole);
    Ok(rest.components().fold(found, |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
        path
    }))
}

/// Returns whether a path goes through `..`.
pub(crate) fn has_parent(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Reads an environment variable as a path; empty counts as absent.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::resolved;

    #[test]
    fn a_path_that_is_not_there_yet_is_resolved_as_far_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::create_dir_all(folder.join("a/b")).unwrap();
        symlink(folder.join("a/b"), folder.join("link")).unwrap();
        for (path, expected) in [
            ("a/b", "a/b"),
            ("a/../a/./b", "a/b"),
            ("a/b/../new", "a/new"),
            ("new/../other", "other"),
            ("a/new/../../x/y", "x/y"),
            ("link/../new", "a/new"),
            ("link", "a/b"),
        ] {
            let found = resolved(&folder.join(path)).unwrap();
            assert_eq!(found, folder.join(expected), "{path}");
        }
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(resolved("".as_ref()).unwrap(), here);
    }
}
