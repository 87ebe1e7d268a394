//! Work on the folder, for threads that may block.

use std::{
    fs::{self, DirBuilder, File, FileType, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rustix::fs::{FlockOperation, flock};

use super::{
    super::{
        OwnedSequence, SequenceKey, SequenceRecord, StartedSequence, StoreError, StoredAnswer,
        StoredCount, StoredSequence, TakenSequence, WriteOutcome,
    },
    index::{RecordEntry, RecordIndex, RecordPhase},
    record::{RecordFile, RecordHeader, garbage},
};
use crate::{error::chain, stamps};

/// The file that the server holds a lock on. It has the number of times that the folder was opened.
pub(super) const LOCK: &str = "ovms.lock";

/// Extension of unfinished files.
const UNFINISHED: &str = "part";

/// Bits of an epoch below the number of times that the folder was opened.
const EPOCH_BITS: u32 = 40;

/// The longest that an answer is kept after the end of its sequence, whose id may be used again before.
const MAX_KEPT: Duration = Duration::from_secs(300);

/// Characters that are escaped in names of folders.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// The folder, as threads that may block use it.
#[derive(Debug)]
pub(super) struct RecordFolder {
    path: PathBuf,
    fsync: bool,
    index: Mutex<RecordIndex>,
    /// Each for the files of some ids; held during work on one. The index is locked after it, and never before.
    busy: [Mutex<()>; 64],
    /// The lock of the server, for as long as this lives.
    lock: File,
}

impl RecordFolder {
    /// Makes the folder if it is missing, and locks it; returns how many times it was opened before, too.
    pub(super) fn lock(path: &Path) -> Result<(File, u64), StoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| failed("create", path, error))?;
        let place = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&place)
            .map_err(|error| failed("open", &place, error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let folder = path.to_owned();
                return Err(StoreError::Taken { folder });
            }
            Err(errno) => return Err(failed("lock", &place, errno.into())),
        }
        let mut opened = Vec::new();
        let read = lock.read_to_end(&mut opened);
        read.map_err(|error| failed("read", &place, error))?;
        let opened = match String::from_utf8_lossy(&opened).trim() {
            "" => 0,
            text => text
                .parse()
                .map_err(|_| garbage(&place, format!("{text:?}; expected a whole number")))?,
        };
        Ok((lock, opened))
    }

    /// Reads which records there are in a folder with this lock, which takes the longer the more there are.
    pub(super) fn open(
        path: PathBuf,
        (lock, opened): (File, u64),
        fsync: bool,
        now: u64,
    ) -> Result<Self, StoreError> {
        let place = path.join(LOCK);
        let mut index = RecordIndex::default();
        scan(&path, now, &mut index)?;
        // Also larger than all that are there, should somebody have deleted the file with the number.
        let opened = u64::max(opened, index.epoch >> EPOCH_BITS) + 1;
        index.epoch = opened << EPOCH_BITS;
        let number = format!("{opened:>20}\n");
        let written = lock.write_all_at(number.as_bytes(), 0);
        let written = written.and_then(|()| lock.sync_all());
        written.map_err(|error| failed("write", &place, error))?;
        Ok(Self {
            path,
            fsync,
            index: Mutex::new(index),
            busy: [const { Mutex::new(()) }; 64],
            lock,
        })
    }

    pub(super) fn start(
        &self,
        mut key: SequenceKey,
        request: Option<&str>,
        limit: u32,
        mut header: RecordHeader,
        now: u64,
    ) -> Result<StartedSequence, StoreError> {
        self.expire(&key.model, now);
        let mut busy = (key.id != 0).then(|| self.busy(key.id));
        if let Some(request) = request
            && let Some(phase) = self.phase(&key)
            && !matches!(phase, RecordPhase::Begun | RecordPhase::Lost)
            && let Some(file) = unless_damaged(RecordFile::open(&self.place(&key)))?
            && file.header.repeats(request)
        {
            return Ok(StartedSequence::Repeated(key.id));
        }
        let (started, before) = self.index().begin(&key, request, limit, &mut header);
        let StartedSequence::Begun { id, .. } = started else {
            return Ok(started);
        };
        key.id = id;
        busy.get_or_insert_with(|| self.busy(id));
        // As long as each step is stored before its answer, there is nothing to remember of a start.
        let stored = if header.ahead {
            self.commit(&key, header, &[]).map(drop)
        } else {
            self.delete(&key)
        };
        if let Err(error) = stored {
            let mut index = self.index();
            index.remove(&key);
            if let Some(before) = before {
                index.put(key, before);
            }
            return Err(error);
        }
        Ok(started)
    }

    pub(super) fn take(&self, key: &SequenceKey, now: u64) -> Result<TakenSequence, StoreError> {
        self.expire(&key.model, now);
        let _busy = self.busy(key.id);
        let known = self.index().get(key).map(|entry| (entry.phase, entry.step));
        let step = match known {
            None => return Ok(TakenSequence::Unknown),
            Some((RecordPhase::Ahead, _)) => {
                return Ok(TakenSequence::Held("this server".to_owned()));
            }
            Some((RecordPhase::Begun, _)) => {
                self.forget(key)?;
                return Ok(TakenSequence::Unknown);
            }
            Some((_, step)) => step,
        };
        let Some(mut file) = self.record(key)? else {
            self.forget(key)?;
            return Ok(TakenSequence::Unknown);
        };
        let answer = file.header.take_answer();
        // Of a step before, if somebody has put an older file in its place.
        let is_old = !file.header.ended && file.header.step < step;
        if file.header.ahead || is_old {
            self.forget(key)?;
            return Ok(TakenSequence::Lost);
        }
        if file.header.ended {
            return Ok(answer.map_or(TakenSequence::Unknown, TakenSequence::Ended));
        }
        let header = file.header.clone();
        let state = file.state()?;
        Ok(TakenSequence::Taken(SequenceRecord {
            epoch: self.index().renew(key, &header),
            step: header.step,
            state,
            answer,
            recent: header.recent,
            before: header.epoch,
            since: None,
        }))
    }

    /// Writes a record, unless its write is over: a later one may have been answered meanwhile. If it does not `renew`
    /// the record, that expires when it would have.
    pub(super) fn write(
        &self,
        key: &SequenceKey,
        mut header: RecordHeader,
        state: Option<Bytes>,
        renews: bool,
        (now, is_over): (u64, &dyn Fn() -> bool),
    ) -> Result<WriteOutcome, StoreError> {
        self.expire(&key.model, now);
        let _busy = self.busy(key.id);
        if is_over() {
            return Ok(WriteOutcome::Fenced);
        }
        let Some(entry) = self.index().owned(key, header.epoch) else {
            return Ok(WriteOutcome::Fenced);
        };
        let state = match state {
            Some(state) => state,
            None if entry.phase == RecordPhase::Begun => Bytes::new(),
            None => match self.record(key)? {
                Some(file) => file.state()?,
                None => return Ok(WriteOutcome::Fenced),
            },
        };
        header.begun_with = entry.begun_with.as_deref().map(str::to_owned);
        if !renews {
            header.idle = entry.idle;
            header.expires = (entry.expires != u64::MAX).then_some(entry.expires);
        }
        let written = self.commit(key, header, &state);
        if written.is_err() && entry.phase == RecordPhase::Begun {
            // A sequence of which nothing could be stored has not begun; only a wait for the disk leaves a file, which
            // must not come back.
            let _ = self.delete(key);
            self.index().remove(key);
        }
        written
    }

    /// Gives a sequence up of which nothing is written, if its owner has this epoch; touches no file.
    pub(super) fn give_up(&self, key: &SequenceKey, epoch: u64) {
        let mut index = self.index();
        let entry = index.owned(key, epoch);
        if entry.is_some_and(|entry| entry.phase == RecordPhase::Begun) {
            index.remove(key);
        }
    }

    /// Marks a sequence as lost if its owner, with this epoch, was ahead; touches no file.
    pub(super) fn lose(&self, key: &SequenceKey, epoch: u64) {
        self.index().lose(key, epoch);
    }

    pub(super) fn end(
        &self,
        key: &SequenceKey,
        epoch: u64,
        answer: Option<&StoredAnswer>,
        now: u64,
    ) -> Result<WriteOutcome, StoreError> {
        self.expire(&key.model, now);
        let _busy = self.busy(key.id);
        let Some(entry) = self.index().owned(key, epoch) else {
            return Ok(WriteOutcome::Fenced);
        };
        if answer.is_none() {
            self.forget(key)?;
            return Ok(WriteOutcome::Stored);
        }
        let header = RecordHeader {
            epoch,
            ended: true,
            begun_with: entry.begun_with.as_deref().map(str::to_owned),
            ..RecordHeader::lasting(Some(MAX_KEPT), now)
        };
        self.commit(key, header.with_answer(answer), &[])
    }

    /// Deletes a record that is damaged, and returns how: it cannot be read, or its state is as `damage` says. Any other
    /// stays as it is, and whose it is.
    pub(super) fn discard(
        &self,
        key: &SequenceKey,
        damage: impl FnOnce(&Bytes) -> Option<String>,
    ) -> Result<Option<String>, StoreError> {
        let _busy = self.busy(key.id);
        let phase = self.phase(key);
        if !matches!(phase, Some(RecordPhase::Stored | RecordPhase::Damaged)) {
            return Ok(None);
        }
        let state = RecordFile::open(&self.place(key)).and_then(|file| match file {
            Some(file) if !file.header.ahead && !file.header.ended => file.state().map(Some),
            _ => Ok(None),
        });
        let found = match state {
            Ok(state) => state.and_then(|state| damage(&state)),
            Err(error @ StoreError::Garbage { .. }) => Some(chain(&error)),
            Err(error) => return Err(error),
        };
        if found.is_some() {
            self.forget(key)?;
        }
        Ok(found)
    }

    pub(super) fn count(&self, model: &str, now: u64) -> StoredCount {
        self.expire(model, now);
        self.index().count(model)
    }

    pub(super) fn list(&self, model: &str, most: usize, now: u64) -> Vec<StoredSequence> {
        self.expire(model, now);
        self.index().list(model, most, now)
    }

    pub(super) fn passed(&self, model: &str, owned: Vec<OwnedSequence>) -> Vec<OwnedSequence> {
        self.index().passed(model, owned)
    }

    /// Stores the record of the owner that the header names. Called while the id is busy.
    fn commit(
        &self,
        key: &SequenceKey,
        mut header: RecordHeader,
        state: &[u8],
    ) -> Result<WriteOutcome, StoreError> {
        let place = self.place(key);
        let before = header.encode_before(state);
        let before = before.map_err(|error| failed("write", &place, error))?;
        self.replace(&place, [&before, state])
            .map_err(|error| failed("write", &place, error))?;
        let mut index = self.index();
        if index.owned(key, header.epoch).is_some() {
            index.put(key.clone(), RecordEntry::of(&header));
            return Ok(WriteOutcome::Stored);
        }
        // It has expired meanwhile.
        drop(index);
        self.delete(key)?;
        Ok(WriteOutcome::Fenced)
    }

    /// Writes a file, or leaves it as it was.
    fn replace(&self, place: &Path, parts: [&[u8]; 2]) -> io::Result<()> {
        let Some(folder) = place.parent() else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {
                // In another folder, as that below a mount that has gone, nobody would find it, or somebody else as well.
                self.find_lock()
                    .inspect_err(|_| drop(fs::remove_dir(folder)))?;
                self.sync(&self.path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let unfinished = place.with_extension(UNFINISHED);
        let written = (|| {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            for part in parts {
                file.write_all(part)?;
            }
            if self.fsync {
                file.sync_all()?;
            }
            fs::rename(&unfinished, place)
        })();
        if written.is_err() {
            // It makes room; that it cannot be deleted says nothing that the first error does not.
            let _ = fs::remove_file(&unfinished);
        }
        written.and_then(|()| self.sync(folder))
    }

    /// Opens the file of a record that there is to be; `None` if somebody has deleted it.
    fn record(&self, key: &SequenceKey) -> Result<Option<RecordFile>, StoreError> {
        let file = RecordFile::open(&self.place(key))?;
        if file.is_none() {
            self.validate_folder()?;
        }
        Ok(file)
    }

    /// Fails if the folder is away, as when it is no longer mounted: then nothing is known of its files.
    fn validate_folder(&self) -> Result<(), StoreError> {
        let found = self.find_lock();
        found.map_err(|error| failed("read", &self.path.join(LOCK), error))
    }

    /// Finds the file that the server holds a lock on.
    fn find_lock(&self) -> io::Result<()> {
        if stamps::is_at(&self.lock, &self.path.join(LOCK))? {
            return Ok(());
        }
        let other = "the folder is another one now";
        Err(io::Error::new(io::ErrorKind::NotFound, other))
    }

    /// Deletes a file, if there is one, and then forgets the record.
    fn forget(&self, key: &SequenceKey) -> Result<(), StoreError> {
        self.delete(key)?;
        self.index().remove(key);
        Ok(())
    }

    fn delete(&self, key: &SequenceKey) -> Result<(), StoreError> {
        let place = self.place(key);
        let deleted = match fs::remove_file(&place) {
            Ok(()) => place.parent().map_or(Ok(()), |folder| self.sync(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.validate_folder();
            }
            Err(error) => Err(error),
        };
        deleted.map_err(|error| failed("delete", &place, error))
    }

    /// Removes the records of a model that have expired.
    fn expire(&self, model: &str, now: u64) {
        let expired = self.index().expire(model, now);
        for id in expired {
            let model = model.to_owned();
            let key = SequenceKey { model, id };
            let _busy = self.busy(id);
            // Another may have begun with the id.
            if self.phase(&key).is_none()
                && let Err(error) = self.delete(&key)
            {
                tracing::warn!(%error, "a stored sequence has expired and stays");
            }
        }
    }

    fn phase(&self, key: &SequenceKey) -> Option<RecordPhase> {
        self.index().get(key).map(|entry| entry.phase)
    }

    fn place(&self, key: &SequenceKey) -> PathBuf {
        self.path.join(escaped(&key.model)).join(key.id.to_string())
    }

    fn sync(&self, folder: &Path) -> io::Result<()> {
        if self.fsync {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn index(&self) -> MutexGuard<'_, RecordIndex> {
        self.index.lock()
    }

    fn busy(&self, id: u64) -> MutexGuard<'_, ()> {
        let one = &self.busy[(id % self.busy.len() as u64) as usize];
        one.lock()
    }
}

/// Leaves out a file that is no record.
fn unless_damaged<T>(opened: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match opened {
        Err(StoreError::Garbage { .. }) => Ok(None),
        opened => opened,
    }
}

/// Reads which records a folder has, and deletes those that have expired and files that were not finished. All other
/// files stay.
fn scan(folder: &Path, now: u64, index: &mut RecordIndex) -> Result<(), StoreError> {
    for (name, path) in names(folder, FileType::is_dir)? {
        let model = percent_decode_str(&name).decode_utf8_lossy().into_owned();
        if escaped(&model) != name {
            continue;
        }
        for (name, path) in names(&path, FileType::is_file)? {
            let (name, unfinished) = match name.split_once('.') {
                Some((id, UNFINISHED)) => (id.to_owned(), true),
                _ => (name, false),
            };
            let id: u64 = name.parse().unwrap_or_default();
            if id == 0 || id.to_string() != name {
                continue;
            }
            let entry = match RecordFile::open(&path) {
                _ if unfinished => None,
                Ok(file) => file.map(|RecordFile { header, .. }| {
                    index.epoch = index.epoch.max(header.epoch);
                    RecordEntry::found(&header)
                }),
                Err(error @ StoreError::Garbage { .. }) => {
                    tracing::error!(%error, "a stored sequence is damaged");
                    Some(RecordEntry::DAMAGED)
                }
                Err(error) => return Err(error),
            };
            match entry.filter(|entry| entry.expires > now) {
                Some(entry) => {
                    let model = model.clone();
                    index.put(SequenceKey { model, id }, entry);
                }
                None => fs::remove_file(&path).map_err(|error| failed("delete", &path, error))?,
            }
        }
    }
    Ok(())
}

/// Lists what a folder has of one type.
fn names(folder: &Path, of: fn(&FileType) -> bool) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let list = || {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && of(&entry.file_type()?)
            {
                names.push((name, entry.path()));
            }
        }
        Ok(names)
    };
    list().map_err(|error| failed("read", folder, error))
}

/// Returns the name of the folder of a model.
fn escaped(model: &str) -> String {
    utf8_percent_encode(model, ESCAPED).to_string()
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    let path = path.to_owned();
    StoreError::Files {
        action,
        path,
        source,
    }
}
