//! Files that are not written over by accident.

use std::{fs::OpenOptions, io::Write, path::Path};

use crate::error::{Failure, FailureKind};

/// Refuses a file that is there, unless it is to be replaced.
pub(super) fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    // A link that leads nowhere is something, too.
    if !force && path.symlink_metadata().is_ok() {
        return Err(taken(path));
    }
    Ok(())
}

/// Writes a file that is not there, or replaces one.
pub(super) fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    if force {
        options.write(true).create(true).truncate(true);
    } else {
        options.write(true).create_new(true);
    }
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => taken(path),
        _ => Failure::new(
            FailureKind::Failed,
            format!("cannot write {}", path.display()),
        )
        .caused_by(&error),
    })
}

fn taken(path: &Path) -> Failure {
    let text = format!("{} is there already", path.display());
    Failure::new(FailureKind::Failed, text).hint("choose another place, or replace it with --force")
}
