//! Folders for files that the server writes.

use std::{env, fs, path::Path};

use super::report::{Check, Status};
use crate::{places, ui::listed};

/// Default folder of compiled models, used if it exists.
const COMPILED: &str = "/opt/cache";

/// Checks the folders for compiled models, for downloads, and for temporary files.
pub(super) fn check() -> Check {
    let compiled = Path::new(COMPILED);
    let downloads = places::path("OVMS_MODEL_CACHE");
    let folders = [
        ("compiled", compiled.is_dir().then(|| compiled.to_owned())),
        (
            "downloads",
            downloads.or_else(|| Some(places::cache()?.join("ovms/models"))),
        ),
        ("temporary", Some(env::temp_dir())),
    ];
    let (mut writable, mut errors) = (Vec::new(), Vec::new());
    for (what, folder) in folders {
        let Some(folder) = folder else { continue };
        let shown = format!("{} ({what})", folder.display());
        match try_to_write(&folder) {
            Ok(()) => writable.push(shown),
            Err(error) => errors.push(format!("{shown}: {error}")),
        }
    }
    let can = format!("can write to {}", listed(&writable));
    if errors.is_empty() {
        return Check::new("folders", Status::Ok, can);
    }
    let text = format!("cannot write to {}", listed(&errors));
    let check = Check::new("folders", Status::Warn, text).hint(
        "--cache_dir names another folder for compiled models, OVMS_MODEL_CACHE one for \
         downloads, and TMPDIR one for temporary files",
    );
    match writable.is_empty() {
        true => check,
        false => check.detail(can),
    }
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
