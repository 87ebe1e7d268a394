//! One version's objects to the files of a folder.

use std::{
    fs::{self, File},
    io::Write as _,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use object_store::{GetOptions, ObjectStore};
use tokio::sync::{mpsc, watch};

use super::{
    StorageError,
    answer::{Failure, InnermostCause},
    copies::FilledFolder,
    listing::{Object, plain},
};
use crate::task;

/// Number of concurrent object downloads: enough to hide the waits between small ones.
const AT_ONCE: usize = 4;

/// Number of parts of an object between the connection and the disk; a part has about 16 KB.
const PARTS_IN_FLIGHT: usize = 32;

/// Interval between log lines about a download.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// Progress of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DownloadProgress {
    /// The version; 0 before the first download.
    pub version: i64,
    /// Bytes received.
    pub received: u64,
    /// Bytes expected.
    pub expected: u64,
}

/// A download.
pub(super) struct Download<'a> {
    pub(super) store: &'a Arc<dyn ObjectStore>,
    pub(super) base_path: &'a str,
    pub(super) folder: &'a FilledFolder,
    pub(super) progress: &'a watch::Sender<DownloadProgress>,
    /// Time at which its progress was last logged.
    pub(super) logged: Mutex<Instant>,
    /// Function that turns a failure that is not about one object into the error.
    pub(super) explain: &'a (dyn Fn(object_store::Error) -> StorageError + Sync),
}

impl Download<'_> {
    /// Writes every object to its file.
    pub(super) async fn run(&self, objects: &[Object]) -> Result<(), StorageError> {
        // Boxed, or the compiler cannot tell that whoever awaits this may be sent to another thread.
        let downloads: Vec<_> = objects
            .iter()
            .map(|object| self.one(object).boxed())
            .collect();
        stream::iter(downloads)
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
    }

    async fn one(&self, object: &Object) -> Result<(), StorageError> {
        let (parts, writer) = write(self.folder.clone(), &object.name);
        let received = async {
            // An empty object may stand for a folder, which cannot be read.
            if object.size > 0 {
                self.receive(object, parts).await?;
            }
            Ok(())
        };
        let (received, written) = tokio::join!(received, writer);
        // A full disk is the cause if both failed.
        written?;
        received
    }

    async fn receive(
        &self,
        object: &Object,
        parts: mpsc::Sender<Bytes>,
    ) -> Result<(), StorageError> {
        let name = || object.path.to_string();
        let changed = || StorageError::Changed { object: name() };
        let answer = self
            .store
            .get_opts(&object.path, GetOptions::default())
            .await
            .map_err(|error| match Failure::of(&error) {
                // It was there when it was listed.
                Failure::Refused(refused) if refused.status == 404 => changed(),
                _ => (self.explain)(error),
            })?;
        let tag = answer.meta.e_tag.as_deref().map(plain);
        if answer.meta.size != object.size || (tag.is_some() && tag != object.tag) {
            return Err(changed());
        }
        let mut received = 0;
        let broken_off = |received| {
            let (name, expected) = (name(), object.size);
            format!("the download of `{name}` was interrupted after {received} of {expected} bytes")
        };
        let mut body = answer.into_stream();
        while let Some(part) = body.next().await {
            let part = part.map_err(|error| {
                StorageError::caused(broken_off(received), InnermostCause::of(&error))
            })?;
            let length = part.len() as u64;
            received += length;
            if received > object.size {
                return Err(changed());
            }
            if parts.send(part).await.is_err() {
                // The writer has failed, and says why.
                return Ok(());
            }
            self.count(length);
        }
        if received < object.size {
            return Err(StorageError::other(broken_off(received)));
        }
        Ok(())
    }

    fn count(&self, length: u64) {
        self.progress.send_modify(|progress| {
            progress.received += length;
        });
        let is_due = self.logged.lock().is_ok_and(|mut last| {
            let is_due = last.elapsed() >= LOG_EVERY;
            if is_due {
                *last = Instant::now();
            }
            is_due
        });
        if is_due {
            let DownloadProgress {
                version,
                received,
                expected,
            } = *self.progress.borrow();
            let percent = received.saturating_mul(100) / expected.max(1);
            tracing::info!(
                from = self.base_path,
                version,
                received,
                expected,
                "downloading, {percent} %"
            );
        }
    }
}

/// Starts to write a file on a thread for that; ends when the sender is dropped. A download that is given up leaves it
/// to the thread to delete the folder.
fn write(
    folder: FilledFolder,
    name: &str,
) -> (
    mpsc::Sender<Bytes>,
    impl Future<Output = Result<(), StorageError>>,
) {
    let (sender, mut parts) = mpsc::channel::<Bytes>(PARTS_IN_FLIGHT);
    let path = folder.join(name);
    let writer = task::blocking("storage write", move || {
        let _held = folder;
        let written = (|| {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = File::create_new(&path)?;
            while let Some(part) = parts.blocking_recv() {
                file.write_all(&part)?;
            }
            // The folder's name will say that it is whole, after a power failure as well.
            file.sync_all()
        })();
        written.map_err(|error| StorageError::cache(&path, error))
    });
    (sender, writer)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc};

    use futures::{future::join, poll};

    use super::{
        super::copies::{Copies, Source},
        write,
    };
    use crate::task;

    #[test]
    fn a_download_that_is_given_up_leaves_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let source = Source {
            server: "http://server",
            base_path: "s3://b/m",
        };
        let copies = Copies::open(cache.path(), &source).unwrap();
        let unfinished = copies.begin().unwrap();
        // Its only thread works on one thing after the other.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            let busy = task::blocking("busy", move || released.recv());
            let (parts, writer) = write(unfinished.path().clone(), "a/m.onnx");
            let mut begun = Box::pin(join(busy, writer));
            assert!(poll!(&mut begun).is_pending());
            // The file is begun when nobody wants it any more.
            drop((begun, parts, unfinished));
            drop(release);
            task::blocking("end", || ()).await;
        });
        let mut sources = fs::read_dir(cache.path()).unwrap();
        let folder = sources.next().unwrap().unwrap().path();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    }
}
