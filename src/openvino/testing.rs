//! The runtime of unit tests.

use super::runtime::{self, RuntimeSearchPath};

/// Opens the runtime that the tests run with.
pub(super) fn open() {
    let path = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let places = RuntimeSearchPath {
        own: None,
        install_dir: path("OPENVINO_INSTALL_DIR"),
        venv: path("VIRTUAL_ENV"),
        managed: path("HOME").map(|home| home.join(".local/share/ovms/runtime")),
        library_path: std::env::var_os("LD_LIBRARY_PATH"),
        system: true,
    };
    runtime::open(&places).expect("the tests need a runtime; `ovms setup` gets one");
}
