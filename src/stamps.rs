//! States of files, by which a change is seen without reading them.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Returns whether an open file is the one that has a path, or another one has taken its place; blocks meanwhile.
///
/// # Errors
///
/// Fails if there is nothing at the path.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let (held, found) = (file.metadata()?, fs::metadata(path)?);
    Ok((held.dev(), held.ino()) == (found.dev(), found.ino()))
}

/// States of several files, each `None` while it is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stamps(Vec<Option<Stamp>>);

/// Device, inode, size, and the times of the contents and of the file.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Stamps {
    /// Looks at files; blocks meanwhile.
    pub(crate) fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let stamp = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((
                found.dev(),
                found.ino(),
                found.size(),
                (found.mtime(), found.mtime_nsec()),
                (found.ctime(), found.ctime_nsec()),
            ))
        };
        Self(paths.into_iter().map(stamp).collect())
    }

    /// Adds those of further files.
    #[must_use]
    pub(crate) fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }
}

/// Decides when changed files are read.
#[derive(Debug)]
pub(crate) struct Changes {
    /// State of the files that were read last, whether they could be used or not.
    read: Stamps,
    /// State at the last look.
    seen: Stamps,
    /// Reason for which the files could not be used.
    refused: Option<String>,
}

impl Changes {
    pub(crate) fn new(read: Stamps) -> Self {
        Self {
            seen: read.clone(),
            read,
            refused: None,
        }
    }

    /// Returns whether the files are to be read now: when they have changed, and not since the last look, or could
    /// not be used when they were read. Files that belong together are often written one after the other.
    pub(crate) fn look(&mut self, found: &Stamps) -> bool {
        let is_steady = self.seen == *found;
        self.seen.clone_from(found);
        if !is_steady {
            return false;
        }
        let has_changed = self.read != *found;
        if has_changed {
            self.read.clone_from(found);
            self.refused = None;
        }
        has_changed || self.refused.is_some()
    }

    /// Notes that the files could not be used, so that they are read again: the reason may be another file, or the
    /// time. Returns whether it is not the one of the time before.
    pub(crate) fn refused(&mut self, reason: String) -> bool {
        let is_new = self.refused.as_ref() != Some(&reason);
        self.refused = Some(reason);
        is_new
    }

    /// Notes that the files are in use.
    pub(crate) fn taken(&mut self) {
        self.refused = None;
    }
}

/// Counts of the times that changed files were read, by whether they could be used.
#[derive(Debug, Default)]
pub(crate) struct FileReloads {
    success: AtomicU64,
    fail: AtomicU64,
}

impl FileReloads {
    /// Counts a reading.
    pub(crate) fn count(&self, well: bool) {
        let count = if well { &self.success } else { &self.fail };
        count.fetch_add(1, Relaxed);
    }

    /// Returns the results with their numbers.
    pub(crate) fn get(&self) -> [(&'static str, u64); 2] {
        [
            ("success", self.success.load(Relaxed)),
            ("fail", self.fail.load(Relaxed)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Stamps};

    #[test]
    fn changes_are_taken_when_nothing_more_changes() {
        let stamps = |number| Stamps(vec![Some((number, 0, 0, (0, 0), (0, 0))), None]);
        let mut changes = Changes::new(stamps(1));
        assert!(!changes.look(&stamps(1)));
        // The certificate, and at the next look the key.
        assert!(!changes.look(&stamps(2)));
        assert!(!changes.look(&stamps(3)));
        assert!(changes.look(&stamps(3)));
        changes.taken();
        assert!(!changes.look(&stamps(3)), "it is taken once");
        // Gone, and back as it was.
        assert!(!changes.look(&Stamps::default()));
        assert!(!changes.look(&stamps(3)));
        assert!(!changes.look(&stamps(3)));
    }

    #[test]
    fn refused_files_are_read_again_and_the_reason_is_new_once() {
        let stamps = |number| Stamps(vec![Some((number, 0, 0, (0, 0), (0, 0)))]);
        let mut changes = Changes::new(stamps(1));
        changes.look(&stamps(2));
        for is_new in [true, false, false] {
            assert!(changes.look(&stamps(2)));
            assert_eq!(changes.refused("there is no key".to_owned()), is_new);
        }
        assert!(changes.refused("it is empty".to_owned()));
        // The same reason is news for other files.
        changes.look(&stamps(3));
        assert!(changes.look(&stamps(3)));
        assert!(changes.refused("it is empty".to_owned()));
        assert!(changes.look(&stamps(3)));
        changes.taken();
        assert!(!changes.look(&stamps(3)));
    }
}
