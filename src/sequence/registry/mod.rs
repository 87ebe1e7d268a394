//! Registry of the sequences of a model version, and of the turns in each.
//!
//! A sequence is one entry: its state, and the requests that wait for it in the order in which
//! they came. Whoever has the turn has the state, so no lock is held while a request runs. The
//! rules of starts and ends, their order and their texts are those of the C++ server, whose
//! clients match on them; the turns, and what becomes of a sequence whose request fails, are ours.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use rand::seq::IteratorRandom as _;
use tokio::sync::{Notify, oneshot};

use super::{
    control::{SequenceCommand, SequenceControl},
    turn::{Begun, SequenceGuard},
};
use crate::metrics::Reporter;

/// Reason why a request does not get a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceRefusal {
    /// A start, and there are as many sequences as there may be.
    Full,
    /// A start, and the sequence exists.
    Exists,
    /// A start, and the sequence exists until the request that ends it is done.
    Ending,
    /// A request other than a start, and the sequence does not exist, or not any more.
    Unknown,
    /// Too many requests that wait for their turns already: how many.
    Crowded(usize),
    /// The instance of the model has been replaced meanwhile.
    Replaced,
}

/// The bounds that an instance of a model sets.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum number of sequences at once.
    pub sequences: u32,
    /// Maximum number of requests that wait for a turn at once.
    pub waiting: usize,
}

impl Bounds {
    /// Returns how many entries go at once where one more is needed: each time costs a look at all.
    fn spare(self) -> usize {
        (self.sequences as usize).div_ceil(8)
    }
}

/// The sequences of one model version. `I` is the instance of the model that a sequence runs on
/// (two are equal if they are the same one), `S` its state.
pub struct Sequences<I: Clone + PartialEq, S> {
    inner: Mutex<Inner<I, S>>,
    pub(super) reporter: Arc<Reporter>,
    /// Notified whenever sequences go.
    pub(super) gone: Notify,
}

pub(super) struct Inner<I: Clone + PartialEq, S> {
    pub(super) entries: HashMap<u64, Entry<I, S>>,
    /// The instance that new sequences run on.
    current: Option<I>,
    /// Number of entries of each instance that has any.
    counts: Vec<(I, usize)>,
    /// Id at which the search for a free one begins.
    next_id: u64,
    /// Serial number of the next entry or request, unique even where ids repeat.
    next_serial: u64,
    /// Requests that wait for a turn.
    pub(super) waiting: usize,
}

pub(super) struct Entry<I: Clone + PartialEq, S> {
    pub(super) serial: u64,
    pub(super) instance: I,
    /// A request has come that ends it.
    pub(super) ending: bool,
    /// Indicates that no request has succeeded since the last scan.
    pub(super) idle: bool,
    /// Steps that have succeeded.
    pub(super) steps: u64,
    /// Time at which the last one ended.
    pub(super) used: Instant,
    /// A request has the turn.
    pub(super) busy: bool,
    /// Other servers may have it as well, so that it may exist although there is no state here.
    pub(super) shared: bool,
    /// State of the sequence, while no request has the turn. There is none before the first run.
    pub(super) state: Option<S>,
    pub(super) queue: VecDeque<Waiter<I, S>>,
}

pub(super) struct Waiter<I: Clone + PartialEq, S> {
    pub(super) serial: u64,
    pub(super) control: SequenceControl,
    pub(super) wake: oneshot::Sender<SequenceGuard<I, S>>,
}

impl<I: Clone + PartialEq, S> Sequences<I, S> {
    /// Makes an empty registry, whose events are counted in the figures of a version.
    #[must_use]
    pub fn new(reporter: Arc<Reporter>) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                entries: HashMap::new(),
                current: None,
                counts: Vec::new(),
                next_id: 1,
                next_serial: 0,
                waiting: 0,
            }),
            reporter,
            gone: Notify::new(),
        })
    }

    /// Takes a request: begins a sequence, or finds the one that the request goes on with. `taken`
    /// says of an id whether a new sequence cannot have it although it is not here.
    ///
    /// # Errors
    ///
    /// Refuses what the rules do not allow; then nothing has changed.
    pub fn begin(
        self: &Arc<Self>,
        command: SequenceCommand,
        instance: &I,
        bounds: Bounds,
        taken: &dyn Fn(u64) -> Option<SequenceRefusal>,
    ) -> Result<Begun<I, S>, SequenceRefusal> {
        let mut inner = self.lock();
        if command.control.starts() {
            let turn = self.start(&mut inner, command, instance, bounds, taken);
            return turn.map(Begun::Turn);
        }
        let inner = &mut *inner;
        let entry = inner
            .entries
            .get_mut(&command.id)
            .filter(|entry| !entry.ending)
            .ok_or(SequenceRefusal::Unknown)?;
        if entry.instance != *instance {
            return Err(SequenceRefusal::Replaced);
        }
        if entry.busy && inner.waiting >= bounds.waiting {
            return Err(SequenceRefusal::Crowded(inner.waiting));
        }
        entry.ending = command.control.ends();
        let serial = inner.next_serial;
        Ok(match entry.queue(self, command, serial) {
            Some(waiting) => {
                inner.next_serial += 1;
                inner.waiting += 1;
                Begun::Waiting(waiting)
            }
            None => Begun::Turn(entry.turn(self, command.id, command.control)),
        })
    }

    /// Takes a request to a sequence that other servers may have as well: whether it exists is found out by
    /// the one who has the turn, which has no state then. `spare` says whether a state is not needed here.
    ///
    /// # Errors
    ///
    /// Refuses what cannot be right whatever the others have; then nothing has changed.
    pub fn join(
        self: &Arc<Self>,
        command: SequenceCommand,
        instance: &I,
        bounds: Bounds,
        spare: &dyn Fn(&S) -> bool,
    ) -> Result<Begun<I, S>, SequenceRefusal> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let serial = inner.next_serial;
        inner.next_serial += 1;
        let known = inner.entries.get_mut(&command.id);
        if let Some(entry) = known {
            if entry.instance != *instance {
                return Err(SequenceRefusal::Replaced);
            }
            if entry.ending && command.control.starts() {
                return Err(SequenceRefusal::Ending);
            }
            if entry.busy && inner.waiting >= bounds.waiting {
                return Err(SequenceRefusal::Crowded(inner.waiting));
            }
            // Another end may be this one once more, whose answer is in the store.
            entry.ending |= command.control.ends();
            return Ok(match entry.queue(self, command, serial) {
                Some(waiting) => {
                    inner.waiting += 1;
                    Begun::Waiting(waiting)
                }
                None => Begun::Turn(entry.turn(self, command.id, command.control)),
            });
        }
        if inner.current.as_ref() != Some(instance) {
            return Err(SequenceRefusal::Replaced);
        }
        let most = bounds.sequences as usize;
        // Nothing has to go for one that may come to nothing, unless there are many of those. Where all are in use, as
        // many more as may wait find out from the store whether they are among the sequences that there may be.
        let in_use = most.saturating_add(bounds.spare());
        let here = inner.entries.len();
        let has_room = match here {
            _ if here < most => true,
            _ if here < in_use && inner.unused(spare).next().is_some() => true,
            _ if self.drop_unused(inner, bounds, spare) > 0 => true,
            _ => here < in_use.saturating_add(bounds.waiting),
        };
        if !has_room {
            if command.control.starts() {
                self.reporter.sequences().refused();
            }
            return Err(SequenceRefusal::Full);
        }
        let turn = self.add(inner, serial, command, instance, true);
        Ok(Begun::Turn(turn))
    }

    /// Removes unused sequences if there are more than there may be, once one that was let in beyond the bound is known
    /// to stay.
    pub fn make_room(&self, bounds: Bounds, spare: &dyn Fn(&S) -> bool) {
        let mut inner = self.lock();
        if inner.entries.len() > bounds.sequences as usize {
            self.drop_unused(&mut inner, bounds, spare);
        }
    }

    /// Removes some of the sequences whose states are not needed here; returns how many.
    fn drop_unused(
        &self,
        inner: &mut Inner<I, S>,
        bounds: Bounds,
        spare: &dyn Fn(&S) -> bool,
    ) -> usize {
        let unused: Vec<u64> = inner.unused(spare).take(bounds.spare()).collect();
        let removed = unused.iter().filter_map(|id| inner.remove(*id));
        let moved = removed.filter(|entry| entry.state.is_some()).count();
        let counts = self.reporter.sequences();
        counts.gone(unused.len());
        counts.moved(moved);
        unused.len()
    }

    /// Returns the sequences whose states are as `picked` says, which gets `None` for one that a request has.
    pub fn pick(&self, picked: impl Fn(Option<&S>) -> bool) -> Vec<(u64, I)> {
        let inner = self.lock();
        let entries = inner.entries.iter();
        entries
            .filter(|(_, entry)| picked(entry.state.as_ref()))
            .map(|(id, entry)| (*id, entry.instance.clone()))
            .collect()
    }

    /// Returns up to so many sequences that nobody has used for so long, at random, with what `seen` makes of their
    /// states.
    pub fn sample<T>(
        &self,
        most: usize,
        unused: Duration,
        seen: impl Fn(&S) -> Option<T>,
    ) -> Vec<(u64, T)> {
        let Some(before) = Instant::now().checked_sub(unused) else {
            return Vec::new();
        };
        let inner = self.lock();
        let entries = inner.entries.iter();
        let entries = entries.filter(|(_, entry)| entry.used <= before);
        let found = entries.filter_map(|(id, entry)| Some((*id, seen(entry.state.as_ref()?)?)));
        found.sample(&mut rand::rng(), most)
    }

    /// Removes those of these sequences whose states, while no request has them, are as `gone` says. Returns their
    /// states, for the caller to drop.
    pub fn drop_those<T>(
        &self,
        these: impl IntoIterator<Item = (u64, T)>,
        gone: impl Fn(&T, &S) -> bool,
    ) -> Vec<S> {
        let mut inner = self.lock();
        let mut states = Vec::new();
        for (id, of) in these {
            let entry = inner.entries.get(&id);
            let state = entry.and_then(|entry| entry.state.as_ref());
            if state.is_some_and(|state| gone(&of, state)) {
                states.extend(inner.remove(id).and_then(|entry| entry.state));
            }
        }
        if !states.is_empty() {
            self.reporter.sequences().gone(states.len());
            self.gone.notify_waiters();
        }
        states
    }

    fn start(
        self: &Arc<Self>,
        inner: &mut Inner<I, S>,
        command: SequenceCommand,
        instance: &I,
        bounds: Bounds,
        taken: &dyn Fn(u64) -> Option<SequenceRefusal>,
    ) -> Result<SequenceGuard<I, S>, SequenceRefusal> {
        if inner.current.as_ref() != Some(instance) {
            return Err(SequenceRefusal::Replaced);
        }
        if inner.count(instance) >= bounds.sequences as usize {
            self.reporter.sequences().refused();
            return Err(SequenceRefusal::Full);
        }
        let id = match command.id {
            0 => inner.free_id(taken),
            id => match inner.refusal(id).or_else(|| taken(id)) {
                Some(refusal) => return Err(refusal),
                None => id,
            },
        };
        let serial = inner.next_serial;
        inner.next_serial += 1;
        let command = SequenceCommand { id, ..command };
        Ok(self.add(inner, serial, command, instance, false))
    }

    /// Adds an entry, whose first turn is the caller's.
    fn add(
        self: &Arc<Self>,
        inner: &mut Inner<I, S>,
        serial: u64,
        command: SequenceCommand,
        instance: &I,
        shared: bool,
    ) -> SequenceGuard<I, S> {
        inner.add(instance);
        let mut entry = Entry {
            serial,
            instance: instance.clone(),
            ending: command.control.ends(),
            idle: false,
            steps: 0,
            used: Instant::now(),
            busy: true,
            shared,
            state: None,
            queue: VecDeque::new(),
        };
        let turn = entry.turn(self, command.id, command.control);
        inner.entries.insert(command.id, entry);
        self.reporter.sequences().begun();
        turn
    }

    /// Returns the instance that a sequence runs on, if there is such a sequence.
    #[must_use]
    pub fn instance(&self, id: u64) -> Option<I> {
        let inner = self.lock();
        inner.entries.get(&id).map(|entry| entry.instance.clone())
    }

    /// Returns an instance that sequences run on, if there are any.
    #[must_use]
    pub fn any_instance(&self) -> Option<I> {
        let inner = self.lock();
        inner.counts.first().map(|(instance, _)| instance.clone())
    }

    /// Returns the sequences that run on an instance.
    pub fn of(&self, instance: &I) -> Vec<u64> {
        let inner = self.lock();
        let of = inner
            .entries
            .iter()
            .filter(|(_, entry)| entry.instance == *instance);
        of.map(|(id, _)| *id).collect()
    }

    /// Returns how many sequences run on an instance.
    #[must_use]
    pub fn count(&self, instance: &I) -> usize {
        self.lock().count(instance)
    }

    /// Returns whether there are sequences on more than the current instance.
    #[must_use]
    pub fn has_replaced(&self) -> bool {
        let inner = self.lock();
        let mut instances = inner.counts.iter();
        instances.any(|(instance, _)| Some(instance) != inner.current.as_ref())
    }

    /// Returns the reason why a new sequence cannot have an id, if there is one.
    #[must_use]
    pub fn refusal(&self, id: u64) -> Option<SequenceRefusal> {
        self.lock().refusal(id)
    }

    /// Sets the instance on which sequences start from now on; none if `None`. Those that there are
    /// stay where they are.
    pub fn renew(&self, instance: Option<I>) {
        self.lock().current = instance;
    }

    /// Moves the sequences of an instance to the one that takes its place. Returns what `left` takes of their states, for the
    /// caller to drop.
    pub fn move_all(&self, from: &I, to: &I, left: impl Fn(&mut S) -> Option<S>) -> Vec<S> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let Some(place) = inner.place(from) else {
            return Vec::new();
        };
        let (_, moved) = inner.counts.swap_remove(place);
        match inner.place(to) {
            Some(place) => inner.counts[place].1 += moved,
            None => inner.counts.push((to.clone(), moved)),
        }
        let mut states = Vec::new();
        for entry in inner.entries.values_mut() {
            if entry.instance == *from {
                entry.instance = to.clone();
                states.extend(entry.state.as_mut().and_then(&left));
            }
        }
        self.gone.notify_waiters();
        states
    }

    /// Removes the sequences of an instance. Returns their states, for the caller to drop.
    pub fn drop_of(&self, instance: &I) -> Vec<S> {
        self.drop_where(|entry| entry.instance == *instance)
    }

    /// Performs a periodic scan: removes sequences that nobody has used since the one
    /// before, of instances that want it so. Returns their states, for the caller to drop.
    pub fn scan(&self, cleans: impl Fn(&I) -> bool) -> Vec<S> {
        self.drop_where(|entry| {
            if entry.busy || entry.ending || !cleans(&entry.instance) {
                return false;
            }
            std::mem::replace(&mut entry.idle, true)
        })
    }

    /// Removes sequences. Requests that wait for a turn in one fail since it does not exist;
    /// one that runs ends as it will.
    fn drop_where(&self, mut gone: impl FnMut(&mut Entry<I, S>) -> bool) -> Vec<S> {
        let mut inner = self.lock();
        let mut removed = Vec::new();
        let mut states = Vec::new();
        for (&id, entry) in &mut inner.entries {
            if gone(entry) {
                removed.push(id);
                states.extend(entry.state.take());
            }
        }
        for id in &removed {
            inner.remove(*id);
        }
        if !removed.is_empty() {
            // A table that has been large is not kept so.
            let room = inner.entries.len() * 2;
            inner.entries.shrink_to(room);
            self.reporter.sequences().gone(removed.len());
            self.gone.notify_waiters();
        }
        states
    }

    /// Waits until no sequence is left of an instance that `of` selects.
    pub async fn wait_gone(&self, of: impl Fn(&I) -> bool) {
        loop {
            let mut gone = std::pin::pin!(self.gone.notified());
            // Registered before the look, so that the last one is not missed.
            gone.as_mut().enable();
            if !self.lock().counts.iter().any(|(instance, _)| of(instance)) {
                return;
            }
            gone.await;
        }
    }

    /// Returns how many sequences there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Returns whether there is no sequence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<I, S>> {
        // No code of others runs under the lock, and what is changed is changed whole.
        self.inner.lock()
    }
}

impl<I: Clone + PartialEq, S> Inner<I, S> {
    /// Finds an id that nobody has: the lowest from where the search begins. 0 is none.
    fn free_id(&mut self, taken: &dyn Fn(u64) -> Option<SequenceRefusal>) -> u64 {
        while self.next_id == 0
            || self.entries.contains_key(&self.next_id)
            || taken(self.next_id).is_some()
        {
            self.next_id = self.next_id.wrapping_add(1);
        }
        self.next_id
    }

    /// Returns the sequences that no request has and whose states are not needed here.
    fn unused<'a>(&'a self, spare: &'a dyn Fn(&S) -> bool) -> impl Iterator<Item = u64> + 'a {
        let unused = self.entries.iter();
        let unused =
            unused.filter(move |(_, entry)| !entry.busy && entry.state.as_ref().is_none_or(spare));
        unused.map(|(id, _)| *id)
    }

    /// Removes an entry, and with it the requests that wait.
    pub(super) fn remove(&mut self, id: u64) -> Option<Entry<I, S>> {
        let entry = self.entries.remove(&id)?;
        if let Some(place) = self.place(&entry.instance) {
            self.counts[place].1 -= 1;
            if self.counts[place].1 == 0 {
                self.counts.swap_remove(place);
            }
        }
        Some(entry)
    }

    fn add(&mut self, instance: &I) {
        match self.place(instance) {
            Some(place) => self.counts[place].1 += 1,
            None => self.counts.push((instance.clone(), 1)),
        }
    }

    fn count(&self, instance: &I) -> usize {
        self.place(instance).map_or(0, |place| self.counts[place].1)
    }

    fn place(&self, instance: &I) -> Option<usize> {
        self.counts.iter().position(|(known, _)| known == instance)
    }

    fn refusal(&self, id: u64) -> Option<SequenceRefusal> {
        self.entries.get(&id).map(|entry| match entry.ending {
            true => SequenceRefusal::Ending,
            false => SequenceRefusal::Exists,
        })
    }
}

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;
