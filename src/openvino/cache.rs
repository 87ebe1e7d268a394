//! The folder where compiled models are kept between starts.

use std::{fs, io, path::Path};

/// Makes the folder if it is not there and sees that it can be written to. What cannot be used is
/// told in the log, and the model is loaded without it: a cache only saves time.
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
        Ok(text) => Some(text.to_owned()),
        Err(error) => {
            tracing::warn!(
                "cannot use the cache folder {}: {error}; models are compiled at each start",
                folder.display()
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::prepare;

    #[test]
    fn a_folder_is_made_and_nothing_is_left_in_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        assert_eq!(prepare(&folder).as_deref(), folder.to_str());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_written_to_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(prepare(&file), None);
        assert_eq!(prepare(&file.join("below")), None);
    }
}
