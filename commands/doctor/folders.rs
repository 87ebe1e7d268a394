//! Folders for files that the server writes.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::report::{Check, Status};
use crate::ui::listed;

/// Default folder of compiled models, used if it exists.
const COMPILED: &str = "/opt/cache";

/// Checks the folders for compiled models, for downloads, and for temporary files.
pub(super) fn all() -> Vec<Check> {
    let mut writable = Vec::new();
    let mut errors = Vec::new();
    let mut look = |what: &str, folder: &Path| match try_to_write(folder) {
        Ok(()) => writable.push(format!("{} ({what})", folder.display())),
        Err(error) => errors.push(format!("{} ({what}): {error}", folder.display())),
    };
    if Path::new(COMPILED).is_dir() {
        look("compiled", Path::new(COMPILED));
    }
    if let Some(folder) = downloads() {
        look("downloads", &folder);
    }
    look("temporary", &env::temp_dir());
    let text = match errors.is_empty() {
        true => format!("can write to {}", listed(&writable)),
        false => format!("cannot write to {}", listed(&errors)),
    };
    if errors.is_empty() {
        return vec![Check::new("folders", Status::Ok, text)];
    }
    let check = Check::new("folders", Status::Warn, text).hint(
        "--cache_dir names another folder for compiled models, OVMS_MODEL_CACHE one for \
         downloads, and TMPDIR one for temporary files",
    );
    vec![match writable.is_empty() {
        true => check,
        false => check.detail(format!("can write to {}", listed(&writable))),
    }]
}

/// Returns the folder of models downloaded from the cloud.
fn downloads() -> Option<PathBuf> {
    let path = |name: &str| {
        let value = env::var_os(name).filter(|value| !value.is_empty())?;
        Some(PathBuf::from(value))
    };
    if let Some(folder) = path("OVMS_MODEL_CACHE") {
        return Some(folder);
    }
    let caches = path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let caches = caches.or_else(|| Some(path("HOME")?.join(".cache")));
    Some(caches?.join("ovms/models"))
}

/// Writes a file and removes it, in the folder or its nearest existing ancestor.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let there = folder.ancestors().find(|folder| folder.exists());
    let there = there.unwrap_or(folder);
    if !fs::metadata(there)?.is_dir() {
        return Err(std::io::ErrorKind::NotADirectory.into());
    }
    tempfile::tempfile_in(there).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::try_to_write;

    #[test]
    fn a_folder_that_is_not_there_is_as_good_as_the_one_above_it() {
        let root = tempfile::tempdir().unwrap();
        assert!(try_to_write(&root.path().join("a/b")).is_ok());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(try_to_write(&file.join("below")).is_err());
    }
}
