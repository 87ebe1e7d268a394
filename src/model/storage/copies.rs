//! Downloaded versions on disk: `<cache>/<source>/<number>-<identity>/<files>`.
//!
//! A folder gets its name only when all of its files are in it, so that one with that name is
//! whole. Whoever uses a folder holds a shared lock on it; it is deleted by whoever gets the
//! exclusive one, so that several servers may share a cache.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::{
    StorageError,
    listing::{FileIdentity, Object, RemoteVersion},
    options,
};
use crate::stamps;

/// Prefix of the names of folders that are being filled.
const UNFINISHED: &str = ".part-";
/// Prefix of the names of folders that are being deleted.
const UNWANTED: &str = ".gone-";

/// Maximum number of tries to lock a folder while others replace it.
const MAX_LOCK_TRIES: usize = 8;

/// The copies of one base path.
#[derive(Debug)]
pub(super) struct Copies {
    folder: PathBuf,
    /// The locks on the folders that were handed out.
    held: Mutex<BTreeMap<String, File>>,
}

/// A folder that is being filled; deleted unless it is finished, when nobody writes to it any more.
#[derive(Debug)]
pub(super) struct Unfinished {
    folder: FilledFolder,
    lock: File,
}

impl Unfinished {
    /// Returns the folder, for whoever writes to it.
    pub(super) fn path(&self) -> &FilledFolder {
        &self.folder
    }
}

/// Folder that is deleted with the last of its clones.
#[derive(Debug, Clone)]
pub(super) struct FilledFolder(Arc<TempDir>);

impl FilledFolder {
    /// Leaves the folder where it is. If it has other clones, it must have got another name.
    fn keep(self) {
        if let Some(folder) = Arc::into_inner(self.0) {
            let _ = folder.keep();
        }
    }
}

impl Deref for FilledFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl Copies {
    /// Opens the folder of a source, and clears away what others have left half done.
    pub(super) fn open(cache: &Path, source: &Source) -> Result<Self, StorageError> {
        let folder = cache.join(source.folder_name());
        options::make(&folder).map_err(|error| StorageError::cache(&folder, error))?;
        let copies = Self {
            folder,
            held: Mutex::default(),
        };
        for name in copies.names() {
            if name.starts_with(UNFINISHED) || name.starts_with(UNWANTED) {
                copies.remove(&name);
            }
        }
        Ok(copies)
    }

    /// Returns the folder of a version, if it is there with every file.
    pub(super) fn find(&self, version: &RemoteVersion, files: &[Object]) -> Option<PathBuf> {
        let name = name(version);
        let path = self.folder.join(&name);
        // If somebody is about to delete it, it is not there any more.
        let lock = locked(&path, share).ok()?;
        let is_whole = files.iter().all(|object| {
            path.join(&object.name)
                .metadata()
                .is_ok_and(|found| found.is_file() && found.len() == object.size)
        });
        if !is_whole {
            tracing::warn!(folder = %path.display(), "a downloaded version lacks files");
            drop(lock);
            self.release(&name);
            self.remove(&name);
            return None;
        }
        self.hold(name, lock);
        Some(path)
    }

    /// Makes a folder to be filled.
    pub(super) fn begin(&self) -> Result<Unfinished, StorageError> {
        let failed = |error| StorageError::cache(&self.folder, error);
        let folder = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempdir_in(&self.folder)
            .map_err(failed)?;
        let lock = File::open(folder.path()).map_err(failed)?;
        share(&lock).map_err(|errno| failed(errno.into()))?;
        let folder = FilledFolder(Arc::new(folder));
        Ok(Unfinished { folder, lock })
    }

    /// Gives a filled folder its name.
    pub(super) fn finish(
        &self,
        unfinished: Unfinished,
        version: &RemoteVersion,
        files: &[Object],
    ) -> Result<PathBuf, StorageError> {
        let name = name(version);
        let path = self.folder.join(&name);
        if let Err(error) = fs::rename::<&Path, _>(unfinished.path(), &path) {
            // Another server was faster.
            let found = self.find(version, files);
            return found.ok_or_else(|| StorageError::cache(&path, error));
        }
        let Unfinished { folder, lock } = unfinished;
        // It is elsewhere now, and stays.
        folder.keep();
        self.hold(name, lock);
        Ok(path)
    }

    /// Deletes every version but these.
    pub(super) fn keep_only(&self, versions: &[RemoteVersion]) {
        let kept: Vec<String> = versions.iter().map(name).collect();
        for name in self.names() {
            if number_of(&name).is_some() && !kept.contains(&name) {
                self.release(&name);
                self.remove(&name);
            }
        }
    }

    fn names(&self) -> Vec<String> {
        fs::read_dir(&self.folder)
            .map(|entries| {
                entries
                    .flatten()
                    .filter_map(|entry| entry.file_name().into_string().ok())
                    .collect()
            })
            .unwrap_or_default()
    }

    /// Deletes a folder that nobody uses.
    fn remove(&self, name: &str) {
        let path = self.folder.join(name);
        let exclusive = |folder: &File| flock(folder, FlockOperation::NonBlockingLockExclusive);
        let _lock = match locked(&path, exclusive) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::debug!(folder = %path.display(), %error, "a downloaded version is in use");
                return;
            }
        };
        // First out of the way, so that nobody finds it half deleted.
        let removed = tempfile::Builder::new()
            .prefix(UNWANTED)
            .tempdir_in(&self.folder)
            .and_then(|away| {
                fs::rename(&path, away.path().join("copy"))?;
                away.close()
            });
        match removed {
            Ok(()) => tracing::debug!(folder = %path.display(), "deleted a downloaded version"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(folder = %path.display(), %error, "cannot delete a downloaded version");
            }
        }
    }

    fn hold(&self, name: String, lock: File) {
        if let Ok(mut held) = self.held.lock() {
            held.insert(name, lock);
        }
    }

    fn release(&self, name: &str) {
        if let Ok(mut held) = self.held.lock() {
            held.remove(name);
        }
    }
}

/// Opens a folder and locks it. Another process may have deleted it before it was locked, and made it anew; the lock is
/// on the one that has the name.
fn locked(path: &Path, mut lock: impl FnMut(&File) -> rustix::io::Result<()>) -> io::Result<File> {
    for _ in 0..MAX_LOCK_TRIES {
        let folder = File::open(path)?;
        lock(&folder)?;
        if stamps::is_at(&folder, path)? {
            return Ok(folder);
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Takes a shared lock at once or not at all; file systems without locks are used without.
fn share(folder: &File) -> rustix::io::Result<()> {
    match flock(folder, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(rustix::io::Errno::WOULDBLOCK),
        _ => Ok(()),
    }
}

fn name(version: &RemoteVersion) -> String {
    format!("{}-{}", version.number, version.identity)
}

/// Returns the number of the version that a folder holds.
fn number_of(name: &str) -> Option<i64> {
    name.split_once('-')?.0.parse().ok()
}

/// Identity of a base path: the same bucket's name on another server, or under another account, is
/// another bucket.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) server: &'a str,
    pub(super) base_path: &'a str,
}

impl Source<'_> {
    /// Returns a name that people recognise and no other source has.
    fn folder_name(&self) -> String {
        let digest = FileIdentity::of([self.server.to_owned(), self.base_path.to_owned()]);
        let readable: String = self
            .base_path
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(80)
            .collect();
        format!("{readable}-{digest}")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

    use object_store::{ObjectMeta, path::Path as ObjectPath};

    use super::{Copies, MAX_LOCK_TRIES, Source, Unfinished, locked, share};
    use crate::model::storage::{
        StorageLimits,
        listing::{RemoteVersion, files, sorted},
        location::Location,
    };

    const SOURCE: Source<'_> = Source {
        server: "http://server",
        base_path: "s3://b/m",
    };

    fn version(tag: &str) -> RemoteVersion {
        let meta = ObjectMeta {
            location: ObjectPath::parse("1/m.onnx").unwrap(),
            last_modified: "2026-01-01T00:00:00Z".parse().unwrap(),
            size: 5,
            e_tag: Some(tag.to_owned()),
            version: None,
        };
        sorted(&ObjectPath::default(), vec![meta])
            .versions
            .remove(0)
    }

    /// Finds a version, or writes it.
    fn get(copies: &Copies, version: &RemoteVersion) -> (bool, std::path::PathBuf) {
        let location = Location::parse("s3://b/m").unwrap();
        let files = files(&location, version, &StorageLimits::default()).unwrap();
        if let Some(path) = copies.find(version, &files) {
            return (false, path);
        }
        let unfinished = copies.begin().unwrap();
        fs::write(unfinished.path().join("m.onnx"), "model").unwrap();
        (true, copies.finish(unfinished, version, &files).unwrap())
    }

    fn entries(cache: &Path) -> usize {
        let source = fs::read_dir(cache).unwrap().next().unwrap().unwrap();
        fs::read_dir(source.path()).unwrap().count()
    }

    #[test]
    fn a_finished_copy_is_found_again_and_not_after_a_change() {
        let cache = tempfile::tempdir().unwrap();
        let copies = Copies::open(cache.path(), &SOURCE).unwrap();
        let (written, path) = get(&copies, &version("a"));
        assert!(written);
        assert_eq!(fs::read(path.join("m.onnx")).unwrap(), b"model");
        assert_eq!(get(&copies, &version("a")), (false, path.clone()));
        let again = Copies::open(cache.path(), &SOURCE).unwrap();
        assert_eq!(get(&again, &version("a")), (false, path));
        assert!(get(&again, &version("b")).0);
    }

    #[test]
    fn a_copy_that_has_lost_bytes_is_not_used() {
        let cache = tempfile::tempdir().unwrap();
        let copies = Copies::open(cache.path(), &SOURCE).unwrap();
        let (_, path) = get(&copies, &version("a"));
        drop(copies);
        fs::write(path.join("m.onnx"), "mo").unwrap();
        let copies = Copies::open(cache.path(), &SOURCE).unwrap();
        assert!(get(&copies, &version("a")).0);
        assert_eq!(fs::read(path.join("m.onnx")).unwrap(), b"model");
    }

    #[test]
    fn what_is_left_half_done_is_cleared_and_what_is_in_use_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let copies = Copies::open(cache.path(), &SOURCE).unwrap();
        let running = copies.begin().unwrap();
        let Unfinished { folder, lock } = copies.begin().unwrap();
        let left = folder.to_path_buf();
        folder.keep();
        drop(lock);
        assert!(left.exists());
        let other = Copies::open(cache.path(), &SOURCE).unwrap();
        assert!(!left.exists());
        assert!(running.path().exists());
        drop(running);
        drop(other);
        assert_eq!(entries(cache.path()), 0);
    }

    #[test]
    fn a_version_is_deleted_unless_another_server_uses_it() {
        let cache = tempfile::tempdir().unwrap();
        let one = Copies::open(cache.path(), &SOURCE).unwrap();
        let other = Copies::open(cache.path(), &SOURCE).unwrap();
        let (_, path) = get(&one, &version("a"));
        let (_, changed) = get(&one, &version("b"));
        assert!(!get(&other, &version("a")).0);
        one.keep_only(&[]);
        assert!(path.exists());
        assert!(!changed.exists());
        other.keep_only(&[version("a")]);
        assert!(path.exists());
        other.keep_only(&[]);
        assert!(!path.exists());
        assert_eq!(entries(cache.path()), 0);
    }

    #[test]
    fn all_but_what_is_served_is_deleted() {
        let cache = tempfile::tempdir().unwrap();
        let copies = Copies::open(cache.path(), &SOURCE).unwrap();
        let (_, old) = get(&copies, &version("a"));
        let (_, new) = get(&copies, &version("b"));
        copies.keep_only(&[version("b")]);
        assert!(!old.exists());
        assert!(new.exists());
    }

    #[test]
    fn two_at_once_end_in_one_copy() {
        let cache = tempfile::tempdir().unwrap();
        let one = Copies::open(cache.path(), &SOURCE).unwrap();
        let unfinished = one.begin().unwrap();
        let other = Copies::open(cache.path(), &SOURCE).unwrap();
        let (_, path) = get(&other, &version("a"));
        assert_eq!(one.finish(unfinished, &version("a"), &[]).unwrap(), path);
        assert_eq!(entries(cache.path()), 1);
    }

    #[test]
    fn the_lock_is_on_the_folder_that_has_the_name() {
        let cache = tempfile::tempdir().unwrap();
        let (path, away) = (cache.path().join("1-a"), cache.path().join("away"));
        fs::create_dir(&path).unwrap();
        // Another server deletes it, and makes it anew, before it is locked.
        let mut tries = 0;
        let lock = locked(&path, |folder| {
            tries += 1;
            if tries == 1 {
                fs::rename(&path, &away).unwrap();
                fs::create_dir(&path).unwrap();
            }
            share(folder)
        });
        let (held, found) = (lock.unwrap().metadata().unwrap(), path.metadata().unwrap());
        assert_eq!((held.ino(), tries), (found.ino(), 2));
        // Or only deletes it.
        let lock = locked(&path, |folder| {
            fs::remove_dir(&path).unwrap();
            share(folder)
        });
        assert_eq!(lock.unwrap_err().kind(), io::ErrorKind::NotFound);
        // Or does so each time.
        let mut tries = 0;
        fs::create_dir(&path).unwrap();
        let lock = locked(&path, |folder| {
            tries += 1;
            fs::rename(&path, cache.path().join(tries.to_string())).unwrap();
            fs::create_dir(&path).unwrap();
            share(folder)
        });
        assert_eq!(lock.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(tries, MAX_LOCK_TRIES);
    }

    #[test]
    fn a_folder_is_deleted_when_nobody_writes_to_it() {
        let cache = tempfile::tempdir().unwrap();
        let copies = Copies::open(cache.path(), &SOURCE).unwrap();
        let unfinished = copies.begin().unwrap();
        let writer = unfinished.path().clone();
        drop(unfinished);
        fs::create_dir_all(writer.join("a")).unwrap();
        assert_eq!(entries(cache.path()), 1);
        drop(writer);
        assert_eq!(entries(cache.path()), 0);
        // One that is finished stays, whoever held it.
        let unfinished = copies.begin().unwrap();
        let writer = unfinished.path().clone();
        let path = copies.finish(unfinished, &version("a"), &[]).unwrap();
        drop(writer);
        assert!(path.exists());
    }

    #[test]
    fn another_server_is_another_source() {
        let other = Source {
            server: "http://other",
            ..SOURCE
        };
        assert_ne!(SOURCE.folder_name(), other.folder_name());
        assert!(SOURCE.folder_name().starts_with("s3---b-m-"));
    }
}
