//! Sequences as files of a folder of this machine: `<folder>/<model>/<id>`.
//!
//! A record is written beside its file and renamed over it, so that a process that is killed leaves the old or the new one,
//! and both whole. All work on a file is done on the runtime's threads for that, from begin to end even if nobody
//! waits for it any more, as when its time is over: [`folder`]. [`index`] knows which records there are, and [`record`]
//! what a file has in it.

mod folder;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod index;
mod record;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use self::{folder::RecordFolder, record::RecordHeader};
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::{
    NewSequence, OwnedSequence, SequenceKey, SequenceWrite, StartedSequence, StoreError,
    StoredAnswer, StoredCount, StoredSequence, TakenSequence, WriteOutcome,
};
use crate::{error::chain, task};

/// Maximum amount of work on files at once, so that there are threads for all else if it hangs, as on a mount that does
/// not answer.
const MAX_AT_ONCE: usize = 64;

/// A folder of records, of one server at a time.
#[derive(Debug)]
pub struct FileStore {
    folder: Arc<RecordFolder>,
    path: PathBuf,
    /// Maximum time of a call.
    limit: Duration,
    /// Permits for work on files, which it has until it ends.
    places: Arc<Semaphore>,
    /// Returns the milliseconds since 1970.
    clock: fn() -> u64,
    /// Indicates that the last work on files has failed, so that the log reports it once.
    failing: AtomicBool,
}

impl FileStore {
    /// Opens a folder, and makes it if it is missing. With `fsync`, what is stored outlives the machine's power.
    ///
    /// # Errors
    ///
    /// Fails if another server has it, it does not answer within the time limit, or its files cannot be read or written.
    pub async fn open(folder: PathBuf, fsync: bool, limit: Duration) -> Result<Self, StoreError> {
        Self::open_with(folder, fsync, limit, unix_ms).await
    }

    async fn open_with(
        path: PathBuf,
        fsync: bool,
        limit: Duration,
        clock: fn() -> u64,
    ) -> Result<Self, StoreError> {
        let place = path.clone();
        let lock = task::blocking("store", move || RecordFolder::lock(&place));
        let lock = tokio::time::timeout(limit, lock).await;
        let lock = lock.unwrap_or_else(|_| Err(no_answer(&path, limit)))?;
        let (place, now) = (path.clone(), clock());
        let folder = move || RecordFolder::open(place, lock, fsync, now);
        let folder = Arc::new(task::blocking("store", folder).await?);
        Ok(Self {
            folder,
            path,
            limit,
            places: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            clock,
            failing: AtomicBool::new(false),
        })
    }

    /// Begins a sequence.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written.
    pub async fn start(&self, new: NewSequence<'_>) -> Result<StartedSequence, StoreError> {
        let key = SequenceKey {
            model: new.model.to_owned(),
            id: new.id,
        };
        let header = RecordHeader {
            ahead: new.ahead,
            ..RecordHeader::lasting(new.idle, (self.clock)())
        };
        let (request, limit) = (new.key.map(str::to_owned), new.limit);
        let model = key.model.clone();
        let start = move |folder: &RecordFolder, now, _: &dyn Fn() -> bool| {
            folder.start(key, request.as_deref(), limit, header, now)
        };
        // One that nobody knows of would stay in the way of the next with its id.
        let give_up = |folder: &RecordFolder, started, now| {
            if let StartedSequence::Begun { id, epoch } = started {
                drop(folder.end(&SequenceKey { model, id }, epoch, None, now));
            }
        };
        let done = self.run_or(start, give_up).await;
        self.note(done)
    }

    /// Takes a sequence over.
    ///
    /// # Errors
    ///
    /// Fails if its file cannot be read, or is something else.
    pub async fn take(&self, key: &SequenceKey) -> Result<TakenSequence, StoreError> {
        let key = key.clone();
        self.follow(move |folder, now| folder.take(&key, now)).await
    }

    /// Writes the record of a sequence.
    ///
    /// # Errors
    ///
    /// Fails if its file cannot be written; then the old record stays, unless only the wait for the disk failed.
    pub async fn write(&self, write: SequenceWrite<'_>) -> Result<WriteOutcome, StoreError> {
        let header = RecordHeader {
            epoch: write.epoch,
            step: write.step,
            ahead: write.ahead,
            recent: Bytes::copy_from_slice(write.recent),
            ..RecordHeader::lasting(write.idle, (self.clock)())
        };
        let header = header.with_answer(write.answer);
        let (key, epoch, state) = (write.key.clone(), write.epoch, write.state);
        let (file, renews) = (key.clone(), write.renews);
        let write = move |folder: &RecordFolder, now, is_over: &dyn Fn() -> bool| {
            folder.write(&file, header, state, renews, (now, is_over))
        };
        let written = self.note(self.run_or(write, |_, _, _| ()).await);
        written.inspect_err(|_| self.folder.give_up(&key, epoch))
    }

    /// Ends a sequence, and keeps its last answer for a while.
    ///
    /// # Errors
    ///
    /// Fails if its file cannot be written or deleted.
    pub async fn end(
        &self,
        key: &SequenceKey,
        epoch: u64,
        answer: Option<&StoredAnswer>,
    ) -> Result<WriteOutcome, StoreError> {
        let (file, answer) = (key.clone(), answer.cloned());
        let ended = self.follow(move |folder, now| folder.end(&file, epoch, answer.as_ref(), now));
        let ended = ended.await;
        ended.inspect_err(|_| self.folder.give_up(key, epoch))
    }

    /// Lets others begin with the id of a sequence whose state is nowhere, and whose file stays for now.
    pub(super) fn end_later(&self, key: &SequenceKey, epoch: u64) {
        self.folder.lose(key, epoch);
    }

    /// Deletes the record of a sequence that is damaged, and returns how; any other stays as it is. `damage` looks at the
    /// state of one that can be read.
    ///
    /// # Errors
    ///
    /// Fails if the system does not let it be read or deleted.
    pub async fn discard(
        &self,
        key: &SequenceKey,
        damage: impl FnOnce(&Bytes) -> Option<String> + Send + 'static,
    ) -> Result<Option<String>, StoreError> {
        let key = key.clone();
        self.run(move |folder, _| folder.discard(&key, damage))
            .await
    }

    /// Counts the sequences of a model, and deletes the files of those that have expired.
    ///
    /// # Errors
    ///
    /// Fails if other work on files takes too long.
    pub async fn count(&self, model: &str) -> Result<StoredCount, StoreError> {
        let model = model.to_owned();
        self.run(move |folder, now| Ok(folder.count(&model, now)))
            .await
    }

    /// Lists sequences of a model.
    ///
    /// # Errors
    ///
    /// Fails if other work on files takes too long.
    pub async fn list(&self, model: &str, most: usize) -> Result<Vec<StoredSequence>, StoreError> {
        let model = model.to_owned();
        self.run(move |folder, now| Ok(folder.list(&model, most, now)))
            .await
    }

    /// Returns those of these sequences that somebody else has taken over, or that are over.
    ///
    /// # Errors
    ///
    /// Fails if other work on files takes too long.
    pub async fn passed(
        &self,
        model: &str,
        owned: &[OwnedSequence],
    ) -> Result<Vec<OwnedSequence>, StoreError> {
        let (model, owned) = (model.to_owned(), owned.to_vec());
        self.run(move |folder, _| Ok(folder.passed(&model, owned)))
            .await
    }

    /// Runs work on files, and logs when it begins to fail, and when it works again.
    async fn follow<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RecordFolder, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.run(work).await;
        self.note(done)
    }

    fn note<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        match &done {
            Err(error @ (StoreError::Files { .. } | StoreError::Unreachable { .. })) => {
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!("sequence store: {}", chain(error));
                }
            }
            Err(_) => {}
            Ok(_) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("the sequence store works again");
                }
            }
        }
        done
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RecordFolder, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = move |folder: &RecordFolder, now, _: &dyn Fn() -> bool| work(folder, now);
        self.run_or(work, |_, _, _| ()).await
    }

    /// Runs work on files within the time limit; it can ask whether nobody waits for it any more. Its result
    /// then goes to `unheard`.
    async fn run_or<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RecordFolder, u64, &dyn Fn() -> bool) -> Result<T, StoreError>
        + Send
        + 'static,
        unheard: impl FnOnce(&RecordFolder, T, u64) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (folder, now) = (Arc::clone(&self.folder), (self.clock)());
        let (reply, mut answer) = oneshot::channel();
        let run = async {
            // Until the end of the work, however long that takes.
            let place = Arc::clone(&self.places).acquire_owned().await;
            task::blocking("store", move || {
                let _place = place;
                let done = work(&folder, now, &|| reply.is_closed());
                if let Err(Ok(done)) = reply.send(done) {
                    unheard(&folder, done, now);
                }
            })
            .await;
        };
        drop(tokio::time::timeout(self.limit, run).await);
        // Also what has come at the last moment; nothing comes from here on.
        answer.close();
        let done = answer.try_recv();
        done.unwrap_or_else(|_| Err(no_answer(&self.path, self.limit)))
    }
}

/// Makes the error of files that do not answer.
fn no_answer(path: &Path, limit: Duration) -> StoreError {
    StoreError::Unreachable {
        address: path.display().to_string(),
        limit,
        reason: "the system is not done with its files".to_owned(),
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
