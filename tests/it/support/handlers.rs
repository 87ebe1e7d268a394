//! Tests that `ovms` writes beside handlers.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use super::{cli, repository};

/// Runs the tests of a folder in a plain Python interpreter, with the module that `ovms graph stubs` installs.
pub(crate) fn test_handlers(folder: &Path) {
    let modules = repository::folder();
    let into = modules.path().to_str().unwrap();
    let run = cli::run(cli::command().args(["graph", "stubs", "--into", into]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut command = Command::new(python());
    command.args(["-m", "unittest", "-v"]).current_dir(folder);
    command
        .env("PYTHONPATH", into)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let run = cli::run(&mut command);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("\nOK"), "{}", run.stderr);
    assert!(!run.stderr.contains("Ran 0"), "{}", run.stderr);
}

/// Returns an interpreter with NumPy.
pub(crate) fn python() -> PathBuf {
    let folder = env::var_os("OPENVINO_INSTALL_DIR").map(PathBuf::from);
    let program = folder.map(|folder| folder.join("bin/python"));
    let found = program.filter(|program| program.is_file());
    found.unwrap_or_else(|| PathBuf::from("python3"))
}
