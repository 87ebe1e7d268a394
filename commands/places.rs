//! Where the environment says that things are.

use std::path::PathBuf;

use ovms::openvino::runtime::Places;

/// The folder that `ovms setup` uses unless told otherwise: `ovms/runtime` below the user's data
/// folder (XDG base directories).
pub(crate) fn managed_runtime() -> Option<PathBuf> {
    let data = path("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| path("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("ovms/runtime"))
}

/// Every place where a runtime may be.
pub(crate) fn all() -> Places {
    Places {
        install_dir: path("OPENVINO_INSTALL_DIR"),
        venv: path("VIRTUAL_ENV").or_else(|| path("CONDA_PREFIX")),
        managed: managed_runtime(),
        library_path: std::env::var_os("LD_LIBRARY_PATH"),
        system: true,
    }
}

/// An environment variable as a path; empty counts as absent.
fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
