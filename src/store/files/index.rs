//! Index of the records of a folder, in memory: which there are, whose they are, and when they expire.
//!
//! It knows no files and no clock, so that its lock is held for a look-up and never for longer.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    super::{OwnedSequence, SequenceKey, StartedSequence, StoredCount, StoredSequence},
    record::RecordHeader,
};

/// Phase of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordPhase {
    /// Begun, and not written yet: there is no file.
    Begun,
    /// The state is that of the last answer.
    Stored,
    /// The owner, which is this process, may have answered steps since.
    Ahead,
    /// An earlier process may have answered steps since.
    Lost,
    /// The sequence is over, and its last answer is kept.
    Ended,
    /// The file of the record is something else.
    Damaged,
}

impl RecordPhase {
    /// Returns whether the sequence goes on.
    const fn is_live(self) -> bool {
        matches!(self, Self::Begun | Self::Stored | Self::Ahead)
    }
}

/// One record.
#[derive(Debug, Clone)]
pub(super) struct RecordEntry {
    /// Epoch of the owner; 0 if nobody owns it.
    epoch: u64,
    pub(super) phase: RecordPhase,
    /// Number of steps behind the state.
    pub(super) step: u64,
    pub(super) idle: Option<u64>,
    /// Time at which it expires; the largest number for never.
    pub(super) expires: u64,
    pub(super) begun_with: Option<Arc<str>>,
}

impl RecordEntry {
    /// Entry of a file that is no record.
    pub(super) const DAMAGED: Self = Self {
        epoch: 0,
        phase: RecordPhase::Damaged,
        step: 0,
        idle: None,
        expires: u64::MAX,
        begun_with: None,
    };

    /// Makes the entry of a record that an earlier process has left, and that nobody owns.
    pub(super) fn found(header: &RecordHeader) -> Self {
        let mut entry = Self {
            epoch: 0,
            ..Self::of(header)
        };
        if entry.phase == RecordPhase::Ahead {
            entry.phase = RecordPhase::Lost;
        }
        entry
    }

    /// Makes the entry of a record with this header, whose owner is this process.
    pub(super) fn of(header: &RecordHeader) -> Self {
        Self {
            epoch: header.epoch,
            phase: match (header.ended, header.ahead) {
                (true, _) => RecordPhase::Ended,
                (false, true) => RecordPhase::Ahead,
                (false, false) => RecordPhase::Stored,
            },
            step: header.step,
            idle: header.idle,
            expires: header.expires.unwrap_or(u64::MAX),
            begun_with: header.begun_with.as_deref().map(Arc::from),
        }
    }
}

/// Records of all models.
#[derive(Debug, Default)]
pub(super) struct RecordIndex {
    models: HashMap<String, ModelRecords>,
    /// The last epoch.
    pub(super) epoch: u64,
}

/// Records of a model.
#[derive(Debug, Default)]
struct ModelRecords {
    entries: HashMap<u64, RecordEntry>,
    /// Number of records of sequences that go on.
    live: usize,
    /// Number of those that have expired since the last count.
    expired: u64,
    /// Expiry times of records, with their ids.
    expiries: BTreeSet<(u64, u64)>,
    /// Ids that starts with idempotency keys were given.
    begun_with: HashMap<Arc<str>, u64>,
    /// The lowest id that may be free.
    next_id: u64,
}

impl RecordIndex {
    /// Returns the record of a sequence.
    pub(super) fn get(&self, key: &SequenceKey) -> Option<&RecordEntry> {
        self.models.get(&key.model)?.entries.get(&key.id)
    }

    /// Returns the record of a sequence that goes on, if this is the epoch of its owner.
    pub(super) fn owned(&self, key: &SequenceKey, epoch: u64) -> Option<RecordEntry> {
        let entry = self.get(key)?;
        (entry.phase.is_live() && entry.epoch == epoch).then(|| entry.clone())
    }

    /// Returns those of these sequences whose owners have another epoch by now, or that do not go on.
    pub(super) fn passed(&self, model: &str, mut owned: Vec<OwnedSequence>) -> Vec<OwnedSequence> {
        let of = self.models.get(model);
        owned.retain(|OwnedSequence { id, epoch }| {
            let entry = of.and_then(|of| of.entries.get(id));
            !entry.is_some_and(|entry| entry.phase.is_live() && entry.epoch == *epoch)
        });
        owned
    }

    /// Begins a sequence, with the id or with a free one if it is 0. The header gets the epoch. Returns the record that
    /// was in its place, too.
    pub(super) fn begin(
        &mut self,
        SequenceKey { model, id }: &SequenceKey,
        request: Option<&str>,
        limit: u32,
        header: &mut RecordHeader,
    ) -> (StartedSequence, Option<RecordEntry>) {
        let of = self.models.entry(model.clone()).or_default();
        let mut id = *id;
        if id == 0
            && let Some(id) = request.and_then(|request| of.begun_with.get(request))
        {
            return (StartedSequence::Repeated(*id), None);
        }
        if of.live >= limit as usize {
            return (StartedSequence::Full, None);
        }
        if id == 0 {
            header.begun_with = request.map(str::to_owned);
            while of.next_id == 0 || of.entries.contains_key(&of.next_id) {
                of.next_id = of.next_id.wrapping_add(1);
            }
            id = of.next_id;
        }
        // One that nobody can go on with makes room.
        let is_over = |phase| matches!(phase, RecordPhase::Ended | RecordPhase::Lost);
        if of
            .entries
            .get(&id)
            .is_some_and(|entry| !is_over(entry.phase))
        {
            return (StartedSequence::Exists, None);
        }
        self.epoch += 1;
        let epoch = self.epoch;
        header.epoch = epoch;
        let mut entry = RecordEntry::of(header);
        if !header.ahead {
            entry.phase = RecordPhase::Begun;
        }
        (StartedSequence::Begun { id, epoch }, of.put(id, entry))
    }

    /// Takes a record over that has this header. Returns its new epoch.
    pub(super) fn renew(&mut self, key: &SequenceKey, header: &RecordHeader) -> u64 {
        self.epoch += 1;
        let entry = RecordEntry {
            epoch: self.epoch,
            ..RecordEntry::of(header)
        };
        self.put(key.clone(), entry);
        self.epoch
    }

    pub(super) fn put(&mut self, key: SequenceKey, entry: RecordEntry) {
        self.models.entry(key.model).or_default().put(key.id, entry);
    }

    pub(super) fn remove(&mut self, key: &SequenceKey) {
        if let Some(of) = self.models.get_mut(&key.model) {
            of.remove(key.id);
        }
    }

    /// Marks a record as lost, if its owner has this epoch and was ahead.
    pub(super) fn lose(&mut self, key: &SequenceKey, epoch: u64) {
        let entry = self.owned(key, epoch);
        if let Some(mut entry) = entry.filter(|entry| entry.phase == RecordPhase::Ahead) {
            entry.phase = RecordPhase::Lost;
            self.put(key.clone(), entry);
        }
    }

    /// Removes the records of a model that have expired. Returns their ids.
    pub(super) fn expire(&mut self, model: &str, now: u64) -> Vec<u64> {
        let mut expired = Vec::new();
        if let Some(of) = self.models.get_mut(model) {
            while let Some(&(expires, id)) = of.expiries.first()
                && expires <= now
            {
                let gone = of.remove(id);
                of.expired += u64::from(gone.is_some_and(|entry| entry.phase.is_live()));
                expired.push(id);
            }
        }
        expired
    }

    /// Counts the records of a model that go on, and those that have expired since the last time.
    pub(super) fn count(&mut self, model: &str) -> StoredCount {
        let Some(of) = self.models.get_mut(model) else {
            return StoredCount::default();
        };
        StoredCount {
            live: of.live as u64,
            expired: std::mem::take(&mut of.expired),
        }
    }

    /// Returns some of the records of a model that go on.
    pub(super) fn list(&self, model: &str, most: usize, now: u64) -> Vec<StoredSequence> {
        let Some(of) = self.models.get(model) else {
            return Vec::new();
        };
        let live = of.entries.iter().filter(|(_, it)| it.phase.is_live());
        let listed = live.take(most).map(|(id, entry)| StoredSequence {
            id: *id,
            steps: entry.step,
            idle: entry.idle.map(|idle| {
                let written = entry.expires.saturating_sub(idle);
                Duration::from_millis(now.saturating_sub(written))
            }),
        });
        listed.collect()
    }
}

impl ModelRecords {
    fn put(&mut self, id: u64, entry: RecordEntry) -> Option<RecordEntry> {
        let before = self.remove(id);
        self.live += usize::from(entry.phase.is_live());
        self.expiries.insert((entry.expires, id));
        if let Some(key) = &entry.begun_with
            && entry.phase != RecordPhase::Lost
        {
            self.begun_with.insert(Arc::clone(key), id);
        }
        self.entries.insert(id, entry);
        before
    }

    fn remove(&mut self, id: u64) -> Option<RecordEntry> {
        let entry = self.entries.remove(&id)?;
        self.live -= usize::from(entry.phase.is_live());
        self.expiries.remove(&(entry.expires, id));
        if let Some(key) = &entry.begun_with
            && self.begun_with.get(key) == Some(&id)
        {
            self.begun_with.remove(key);
        }
        Some(entry)
    }
}
