//! Lock on the folder of an installation: one setup at a time.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

use ovms::stamps::is_at;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{error::Failure, ui};

/// File that a setup holds a lock on. It stays in the folder.
const LOCK: &str = "ovms-setup.lock";

/// Maximum number of tries to lock the file while somebody replaces it.
const MAX_TRIES: usize = 8;

/// Makes the folder if it is missing, and locks it as long as the file is open; waits for another setup that has it.
/// File systems without locks are used without.
pub(super) fn take(dir: &Path) -> Result<File, Failure> {
    take_as(dir, || {
        let shown = dir.display();
        ui::note(&format!(
            "another `ovms setup` is installing into {shown}; waiting for it to end"
        ));
    })
}

fn take_as(dir: &Path, note: impl Fn()) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::cannot("write to", dir, &error).hint("name another folder with --dir")
    };
    let place = dir.join(LOCK);
    for _ in 0..MAX_TRIES {
        fs::create_dir_all(dir).map_err(failed)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&place)
            .map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            note();
            while flock(&file, FlockOperation::LockExclusive) == Err(Errno::INTR) {}
        }
        // Whoever has deleted the folder meanwhile has deleted the lock.
        if is_at(&file, &place).is_ok_and(|is_there| is_there) {
            return Ok(file);
        }
    }
    Err(Failure::failed(format!(
        "cannot lock {}: it is replaced again and again",
        place.display()
    ))
    .hint("look for a program that deletes the folder, or name another one with --dir"))
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc, thread};

    use rustix::fs::{FlockOperation, flock};

    use super::{LOCK, is_at, take, take_as};

    #[test]
    fn a_folder_has_one_setup_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/runtime");
        let lock = take(&dir).unwrap();
        let other = fs::File::open(dir.join(LOCK)).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(lock);
        let lock = take_as(&dir, || panic!("nobody has it")).unwrap();
        drop(lock);
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
        let error = take(&dir.join(LOCK).join("below")).unwrap_err();
        assert!(error.message().starts_with("cannot write to "));
    }

    #[test]
    fn a_lock_that_was_deleted_during_the_wait_is_taken_anew() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("runtime");
        let held = take(&dir).unwrap();
        let (noted, waits) = mpsc::channel();
        let lock = thread::scope(|scope| {
            let other = scope.spawn(|| take_as(&dir, move || noted.send(()).unwrap()).unwrap());
            waits.recv().unwrap();
            fs::remove_dir_all(&dir).unwrap();
            drop(held);
            other.join().unwrap()
        });
        assert!(is_at(&lock, &dir.join(LOCK)).unwrap());
    }
}
