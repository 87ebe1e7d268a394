//! Model repositories in private folders of tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::model;

/// Creates a folder for one test; deleted on drop.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("ovms-test-")
        .tempdir()
        .expect("the system's folder for temporary files takes another one")
}

/// Makes a repository of version folders, each a copy of a fixture model's version 1.
pub(crate) fn of(versions: &[(&str, &str)]) -> TempDir {
    let root = folder();
    for (version, fixture) in versions {
        copy(&model(fixture).join("1"), &root.path().join(version));
    }
    root
}

/// Creates a repository whose version 1 never finishes loading: the model file is a pipe
/// without a writer.
pub(crate) fn endless() -> TempDir {
    let root = of(&[("1", "dummy")]);
    let graph = graph(root.path());
    fs::remove_file(&graph).expect("the copy has one");
    let made = Command::new("mkfifo").arg(&graph).status();
    assert!(made.expect("mkfifo is there").success());
    root
}

/// Returns the path of version 1's IR graph.
pub(crate) fn graph(root: &Path) -> PathBuf {
    root.join("1/model.xml")
}

/// Copies the files of a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is ours");
    for entry in fs::read_dir(from).expect("the fixture is there").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("the folder is ours");
    }
}
