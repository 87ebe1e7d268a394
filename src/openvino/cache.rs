//! The folder where compiled models are kept between starts.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

/// Folders that cannot be used, with the reason logged for each.
static REPORTED: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// Maximum number of folders that are remembered as reported.
const MAX_REPORTED: usize = 100;

/// Checks that a folder can be used, without creating it.
///
/// # Errors
///
/// Fails if the folder, or the nearest one above that exists, cannot be written to.
pub fn check(folder: &Path) -> io::Result<()> {
    let existing = folder.ancestors().find(|above| above.exists());
    let existing = existing.filter(|path| !path.as_os_str().is_empty());
    tempfile::tempfile_in(existing.unwrap_or(Path::new("."))).map(drop)
}

/// Makes the folder if it is not there and checks that it can be written to. A folder that cannot
/// be used is reported in the log, once for all loads, and the model is loaded without it: a cache
/// only saves time.
pub(super) fn prepare(folder: &Path) -> Option<String> {
    let usable = || -> io::Result<&str> {
        let Some(text) = folder.to_str().filter(|text| !text.contains('\0')) else {
            return Err(io::Error::other("the path is not UTF-8"));
        };
        fs::create_dir_all(folder)?;
        tempfile::tempfile_in(folder)?;
        Ok(text)
    };
    match usable() {
        Ok(text) => {
            is_news(folder, None);
            Some(text.to_owned())
        }
        Err(error) => {
            if is_news(folder, Some(error.to_string())) {
                tracing::warn!(
                    "cannot use the cache folder {}: {error}; models are compiled at each start",
                    folder.display()
                );
            }
            None
        }
    }
}

/// Remembers the error of a folder; returns whether it is new.
fn is_news(folder: &Path, error: Option<String>) -> bool {
    let mut reported = REPORTED.lock();
    let before = reported.remove(folder);
    if reported.len() >= MAX_REPORTED {
        reported.clear();
    }
    let is_news = before != error;
    if let Some(error) = error {
        reported.insert(folder.to_owned(), error);
    }
    is_news
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{check, is_news, prepare};

    #[test]
    fn a_folder_is_made_and_nothing_is_left_in_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        assert_eq!(prepare(&folder).as_deref(), folder.to_str());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_check_creates_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert!(check(&root.path().join("a/b")).is_ok());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(check(&file.join("below")).is_err());
        assert!(check(&file).is_err());
    }

    #[test]
    fn what_cannot_be_written_to_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(prepare(&file), None);
        assert_eq!(prepare(&file.join("below")), None);
    }

    #[test]
    fn a_error_is_reported_once_until_it_is_another_one_or_was_fixed() {
        let root = tempfile::tempdir().unwrap();
        let say = |error: &str| is_news(root.path(), Some(error.to_owned()));
        assert!(say("full"));
        assert!(!say("full"));
        assert!(say("read-only"));
        is_news(root.path(), None);
        assert!(say("read-only"));
    }
}
