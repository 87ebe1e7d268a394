//! States of files, by which a change is seen without reading them.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

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
}

impl Changes {
    pub(crate) fn new(read: Stamps) -> Self {
        Self {
            seen: read.clone(),
            read,
        }
    }

    /// Returns whether the files are to be read now: when they have changed, and not since the last look.
    /// Files that belong together are often written one after the other.
    pub(crate) fn look(&mut self, found: &Stamps) -> bool {
        let is_steady = self.seen == *found;
        self.seen.clone_from(found);
        let is_due = is_steady && self.read != *found;
        if is_due {
            self.read.clone_from(found);
        }
        is_due
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
        assert!(!changes.look(&stamps(3)), "it is taken, or refused, once");
        // Gone, and back as it was.
        assert!(!changes.look(&Stamps::default()));
        assert!(!changes.look(&stamps(3)));
        assert!(!changes.look(&stamps(3)));
    }
}
