//! States of sequences between this server and a store that others use as well.
//!
//! [`SharedStep`] runs a step of a sequence that may be anywhere. The [`Keeper`] stores states that are newer here
//! than in the store: in intervals, when another server asks for one, and at a stop.

mod answer;
mod count;
mod damaged;
mod end;
mod passed;
mod recent;
mod step;
mod unclaimed;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep, timeout},
};

use self::{damaged::damaged, recent::RecentKeys, unclaimed::UnclaimedStarts};
pub(crate) use self::{
    step::{BegunSequence, SharedStep, Start, StepRequest},
    unclaimed::UnclaimedStart,
};
use super::{
    loaded::Loaded,
    snapshot::Snapshot,
    stateful::{LiveState, explain},
    version::Version,
};
use crate::{
    error::{Error, ErrorKind, Result},
    openvino::SequenceState,
    sequence::{Bounds, SequenceCommand, SequenceControl, SequenceGuard, SequenceRefusal},
    store::{
        SequenceDurability, SequenceKey, SequenceRecord, SequenceStore, SequenceWrite,
        StoredAnswer, TakenSequence, WriteOutcome,
    },
    task,
};

/// States that are stored at once.
const AT_ONCE: usize = 32;

/// Maximum number of sequences that other servers ask for and that wait for their turn here.
const MAX_HANDOVERS: usize = 4096;

/// Time for which the periodic save waits for a step of a sequence, which it leaves for the next time then.
const MAX_TURN: Duration = Duration::from_secs(1);

/// Maximum number of attempts at what others may undo meanwhile: to store what is left of an instance that goes,
/// and to own a sequence.
const MAX_ROUNDS: usize = 100;

/// Pause after the first attempt to store what is left of an instance that goes and that fails; each later one is twice as
/// long, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest of these pauses.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Time for which these attempts go on, unless that for the end of sequences is longer.
const MAX_LEAVE: Duration = Duration::from_secs(60);

/// The turn of a request in a sequence of a model.
pub(crate) type ModelTurn = SequenceGuard<Arc<Loaded>, LiveState>;

/// Record of a sequence that this server owns, as far as it knows.
#[derive(Debug)]
pub(crate) struct Ownership {
    key: SequenceKey,
    epoch: u64,
    /// Number of steps behind the state here.
    step: u64,
    /// Indicates that, by the record, steps may have been answered that are not stored.
    ahead: bool,
    /// The life of this server in which it wrote that to the record.
    life: Option<u64>,
    /// Indicates that the state here is newer than the stored one.
    unsaved: bool,
    /// Indicates that the request that ends the sequence has run, and the store has failed to end it.
    ending: bool,
    /// The last answer, if its request had a key.
    answer: Option<StoredAnswer>,
    /// The keys of the requests before, and of that one.
    recent: RecentKeys,
}

impl LiveState {
    /// Returns whether the state is newer than the stored one.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.unsaved)
    }

    /// Returns whether the store can do without this server.
    pub(crate) fn is_spare(&self) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|stored| !stored.needs_store())
    }

    /// Keeps the answer to the request that ends the sequence until the store has it, if the stored state is older; the state
    /// is of no use any more. Returns whether it is kept.
    fn keep_end(&mut self) -> bool {
        let Some(stored) = self.stored.as_mut().filter(|stored| stored.ahead) else {
            return false;
        };
        stored.ending = true;
        self.state = SequenceState::default();
        true
    }

    /// Returns whether the store cannot do without this server.
    fn needs_store(&self) -> bool {
        self.stored
            .as_ref()
            .is_some_and(|stored| stored.needs_store())
    }
}

/// Keeps the states of sequences in a store.
#[derive(Debug)]
pub struct Keeper {
    store: SequenceStore,
    durability: SequenceDurability,
    /// Time for which an unused record is kept.
    idle: Option<Duration>,
    /// Indicates that sequences have lately moved between servers, so that what is here is likely to be old.
    hops: AtomicBool,
    /// Number of starts without id that the store has accepted, or may have, and that have no turn yet.
    unclaimed: Arc<UnclaimedStarts>,
    /// Places of those that have their turn and are being stored.
    storing: Semaphore,
}

/// Reason to store a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettleReason {
    /// It is time; one that is in use is left for the next time.
    Interval,
    /// Another server asks for it, or this one stops.
    Handover,
    /// An instance that has been replaced is not to have it any more.
    Leave,
}

/// Outcome of an attempt to have the state of a sequence here.
enum Owned {
    /// The state is here; how long ago the last step was stored, if it has just come from the store.
    Here(Option<Duration>),
    /// The sequence is over; the answer of its last request.
    Ended(StoredAnswer),
    /// Unknown sequence.
    Unknown,
}

impl Keeper {
    /// Makes a keeper; sequences that nobody uses are removed after `scan` to twice that.
    #[must_use]
    pub fn new(
        store: SequenceStore,
        durability: SequenceDurability,
        scan: Option<Duration>,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            durability,
            idle: scan.map(|period| 2 * period),
            hops: AtomicBool::new(false),
            unclaimed: Arc::default(),
            storing: Semaphore::new(AT_ONCE),
        })
    }

    /// Counts a start without id until it has its turn: before that, nothing here says that its sequence is in use.
    pub(crate) fn claim(&self) -> UnclaimedStart {
        self.unclaimed.add()
    }

    /// Returns whether nobody can have taken a sequence since its record was said to be ahead.
    fn is_sure(&self, stored: &Ownership) -> bool {
        stored.life.is_some() && stored.life == self.store.life()
    }

    /// Returns how long a record of a model stays unused.
    fn idle(&self, loaded: &Loaded) -> Option<Duration> {
        self.idle.filter(|_| loaded.cleans_sequences())
    }

    /// Ensures that the state of a sequence is here, and that it is the newest. `runs` says whether a step will
    /// run on it: if each is stored, the store is not asked before, since it refuses a step on an older state. Unless it
    /// `renews`, that is no use of the sequence.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, it is lost or of another model, or the store fails.
    async fn own(
        &self,
        turn: &mut ModelTurn,
        version: &Version,
        renews: bool,
        runs: impl Fn(&Ownership) -> bool,
    ) -> Result<Owned> {
        let loaded = Arc::clone(turn.instance());
        let key = SequenceKey {
            model: version.model().to_owned(),
            id: turn.id(),
        };
        let mut since = None;
        let mut epoch = None;
        if self.durability == SequenceDurability::Step && self.hops.load(Ordering::Relaxed) {
            // The store has it as well, and is asked once instead of twice: before the run, not in vain after it.
            let dropped = turn.place().take();
            epoch = dropped.and_then(|live| Some(live.stored?.epoch));
        }
        for _ in 0..MAX_ROUNDS {
            self.finish(turn).await?;
            if turn.state().is_none() {
                let record = match self.take(&key).await? {
                    Ok(record) => record,
                    Err(gone) => return Ok(gone),
                };
                since = record.since;
                if let Some(epoch) = epoch.take() {
                    self.hops.store(epoch != record.before, Ordering::Relaxed);
                }
                let (size, file, instance) =
                    (record.state.len(), record.state, Arc::clone(&loaded));
                let next_step = self.next_step(&key);
                let restore = move || restore(&file, &instance, &next_step);
                let state = task::sized("restore the state of a sequence", size, restore).await?;
                turn.goes_on_after(record.step);
                *turn.place() = Some(LiveState {
                    state,
                    place: None,
                    stored: Some(Box::new(Ownership {
                        key: key.clone(),
                        epoch: record.epoch,
                        step: record.step,
                        ahead: false,
                        life: None,
                        unsaved: false,
                        ending: false,
                        recent: RecentKeys::of_record(&record.recent, record.answer.as_ref()),
                        answer: record.answer,
                    })),
                });
            }
            let Some(stored) = turn.place().as_mut().and_then(|live| live.stored.as_mut()) else {
                // It began before there was a store.
                return Ok(Owned::Here(None));
            };
            let is_step = self.durability == SequenceDurability::Step;
            let runs = runs(stored);
            // What is stored late says nothing about when it was answered.
            let since = since.filter(|_| is_step);
            if (runs && is_step) || (stored.ahead && self.is_sure(stored)) {
                return Ok(Owned::Here(since));
            }
            // Once a step may be answered that is not stored, nobody may go on without asking this server.
            let ahead = stored.ahead || (runs && !is_step);
            let life = self.store.life();
            // It may be written although that fails, or nobody waits for it any more.
            (stored.life, stored.ahead) = (None, ahead);
            let write = SequenceWrite {
                renews,
                ..stored.write(None, ahead, self.idle(&loaded))
            };
            match self.store.write(write).await? {
                WriteOutcome::Stored => {
                    stored.life = life;
                    return Ok(Owned::Here(since));
                }
                WriteOutcome::Fenced => *turn.place() = None,
            }
        }
        Err(step::overtaken(key.id))
    }

    /// Ends a sequence in the store whose last request has run here, while the store failed.
    ///
    /// # Errors
    ///
    /// Fails if the store does again.
    async fn finish(&self, turn: &mut ModelTurn) -> Result<()> {
        let stored = turn.place().as_mut().and_then(|live| live.stored.as_mut());
        let Some(stored) = stored.filter(|stored| stored.ending) else {
            return Ok(());
        };
        let answer = stored.answer.as_ref();
        // If it is another's by now, or over, that is what counts.
        self.store.end(&stored.key, stored.epoch, answer).await?;
        *turn.place() = None;
        Ok(())
    }

    /// Takes a sequence over, or returns why there is nothing to take.
    ///
    /// # Errors
    ///
    /// Fails if it is lost or held by another server, or the store fails.
    async fn take(&self, key: &SequenceKey) -> Result<Result<SequenceRecord, Owned>> {
        let taken = self.store.take(key).await;
        match taken.map_err(|error| self.not_taken(error, key))? {
            TakenSequence::Taken(record) => Ok(Ok(record)),
            TakenSequence::Ended(answer) => Ok(Err(Owned::Ended(answer))),
            TakenSequence::Unknown => Ok(Err(Owned::Unknown)),
            TakenSequence::Lost => {
                self.warn_of_loss(key);
                Err(unknown().with_more(LOST))
            }
            TakenSequence::Held(server) => {
                let text = format!(
                    "Sequence {} is held by another server, {server} - try again",
                    key.id
                );
                Err(Error::new(ErrorKind::Overloaded, text))
            }
        }
    }

    fn warn_of_loss(&self, key: &SequenceKey) {
        let hint = match self.durability {
            SequenceDurability::Step => {
                "the store was restarted or replaced, and may lack what was written last"
            }
            _ => "with --sequence-durability step each state is stored before its answer",
        };
        tracing::warn!(
            model = key.model,
            sequence = key.id,
            "sequence is lost: its stored state may be older than its last answer; {hint}"
        );
    }

    /// Lets unused sequences go if one that has come to stay is one too many.
    fn make_room(version: &Version, loaded: &Loaded) {
        let sequences = version.sequences();
        sequences.make_room(loaded.bounds(), &LiveState::is_spare);
    }

    /// Stores the state of a sequence if it is newer than the stored one. What another server has taken over
    /// meanwhile is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the store does; the state is kept then.
    async fn save(&self, turn: &mut ModelTurn) -> Result<()> {
        self.finish(turn).await?;
        let file = match turn.state().is_some_and(LiveState::is_unsaved) {
            true => Some(encode(turn).await?),
            false => None,
        };
        let idle = self.idle(turn.instance());
        let stored = turn.place().as_mut().and_then(|live| live.stored.as_mut());
        let Some(stored) = stored.filter(|stored| stored.needs_store()) else {
            return Ok(());
        };
        let write = stored.write(file, false, idle);
        let written = self.store.write(write).await;
        if written.is_err() {
            // It may have been written all the same, and another server may go on from there.
            stored.life = None;
        }
        match written? {
            WriteOutcome::Stored => (stored.ahead, stored.unsaved) = (false, false),
            WriteOutcome::Fenced => *turn.place() = None,
        }
        Ok(())
    }

    /// Stores what is newer here than in the store, of all sequences or one, once it is its turn.
    async fn save_all(
        &self,
        versions: &[Arc<Version>],
        only: Option<&SequenceKey>,
        reason: SettleReason,
    ) {
        let mut found = Vec::new();
        for version in versions {
            let sequences = version.sequences();
            let here = match only {
                None => sequences.pick(|live| live.is_some_and(LiveState::needs_store)),
                Some(key) if key.model != version.model() => continue,
                Some(key) => Vec::from_iter(sequences.instance(key.id).map(|it| (key.id, it))),
            };
            found.extend(here.into_iter().map(|here| (here, Arc::clone(version))));
        }
        let saves = found.into_iter();
        let saves = saves.map(|((id, loaded), version)| self.save_one(id, loaded, version, reason));
        let saves = futures::stream::iter(saves).buffer_unordered(AT_ONCE);
        // What has failed is logged.
        saves.for_each(|_| std::future::ready(())).await;
    }

    /// Stores a sequence, as [`Self::settle`]; returns whether that has not failed.
    async fn save_one(
        &self,
        id: u64,
        loaded: Arc<Loaded>,
        version: Arc<Version>,
        reason: SettleReason,
    ) -> bool {
        let settled = self.settle(id, &loaded, &version, reason).await;
        if let Err(error) = &settled {
            let model = version.model();
            tracing::warn!(
                model,
                sequence = id,
                "the state of a sequence is not stored: {error}"
            );
        }
        settled.is_ok()
    }

    /// Stores a sequence once it is its turn.
    ///
    /// # Errors
    ///
    /// Fails if the store does; the state is kept then.
    pub(crate) async fn settle(
        &self,
        id: u64,
        loaded: &Arc<Loaded>,
        version: &Version,
        reason: SettleReason,
    ) -> Result<()> {
        let control = SequenceControl::Next;
        let command = SequenceCommand { id, control };
        let sequences = version.sequences();
        // No request of a client's, of which there is a bound.
        let bounds = Bounds {
            waiting: usize::MAX,
            ..loaded.bounds()
        };
        let Ok(begun) = sequences.join(command, loaded, bounds, &LiveState::is_spare) else {
            return Ok(());
        };
        let turn = match reason {
            SettleReason::Interval => timeout(MAX_TURN, begun.turn()).await,
            SettleReason::Handover | SettleReason::Leave => Ok(begun.turn().await),
        };
        let Ok(Ok(mut turn)) = turn else {
            return Ok(());
        };
        // It is never closed.
        let _place = self.storing.acquire().await;
        self.save(&mut turn).await?;
        if reason == SettleReason::Leave {
            *turn.place() = None;
        }
        Ok(())
    }

    /// Stores states in intervals, and those that other servers ask for.
    pub async fn run(&self, interval: Duration, versions: impl Fn() -> Vec<Arc<Version>>) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut wanted = self.store.wanted();
        // Each may wait for a step that is running, and holds up no other.
        let (mut saving, mut handing) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut going = HashSet::new();
        let mut counts = tokio::time::interval(count::PERIOD);
        counts.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut counting = FuturesUnordered::new();
        loop {
            tokio::select! {
                _ = ticks.tick(), if saving.is_empty() && self.durability == SequenceDurability::Interval => {
                    let versions = versions();
                    saving.push(async move { self.save_all(&versions, None, SettleReason::Interval).await });
                }
                Some(()) = saving.next() => {}
                _ = counts.tick(), if counting.is_empty() => {
                    let versions = versions();
                    counting.push(async move {
                        self.count(&versions).await;
                        self.let_passed_go(&versions).await;
                    });
                }
                Some(()) = counting.next() => {}
                key = next(&mut wanted) => {
                    // Those who wait ask again.
                    if going.len() < MAX_HANDOVERS && going.insert(key.clone()) {
                        handing.push(self.hand_over(key, versions()));
                    }
                }
                Some(key) = handing.next() => drop(going.take(&key)),
            }
        }
    }

    /// Lets another server have a sequence.
    async fn hand_over(&self, key: SequenceKey, versions: Vec<Arc<Version>>) -> SequenceKey {
        let is_here = || {
            let mut of_model = versions.iter().filter(|it| it.model() == key.model);
            of_model.any(|version| version.sequences().instance(key.id).is_some())
        };
        if is_here() {
            self.save_all(&versions, Some(&key), SettleReason::Handover)
                .await;
        } else if let SequenceStore::Redis(store) = &self.store {
            // A request began it and left, or its state was dropped: what is stored is all that there is. Those who wait
            // ask again.
            let is_in_use = async {
                self.unclaimed.settled().await;
                is_here()
            };
            drop(store.let_go(&key, is_in_use).await);
        }
        key
    }

    /// Stores all that is newer here, also what running steps leave, and says that this server is gone.
    pub async fn close(&self, versions: &[Arc<Version>]) {
        self.save_all(versions, None, SettleReason::Handover).await;
        // Then those that requests have, which may take longer than the caller waits.
        let busy = versions.iter().flat_map(|version| {
            let sequences = version.sequences();
            let busy = sequences.pick(|live| live.is_none_or(LiveState::needs_store));
            let busy = busy.into_iter();
            busy.filter(|(_, loaded)| loaded.shares_sequences())
                .map(|(id, loaded)| {
                    self.save_one(id, loaded, Arc::clone(version), SettleReason::Handover)
                })
        });
        futures::future::join_all(busy).await;
        self.store.close().await;
    }

    /// Stores what an instance has that is newer here, and forgets it, before the instance goes. While the store fails, that
    /// is tried again until the limit, a minute at least, is over.
    pub(crate) async fn leave(&self, version: &Arc<Version>, old: &Arc<Loaded>, limit: Duration) {
        let began = Instant::now();
        let limit = limit.max(MAX_LEAVE);
        let mut pause = FIRST_PAUSE;
        let mut rounds = 0;
        // Requests that have found it before may still come.
        while rounds < MAX_ROUNDS {
            let ids = version.sequences().of(old);
            if ids.is_empty() {
                return;
            }
            let saves = ids.into_iter().map(|id| {
                self.save_one(
                    id,
                    Arc::clone(old),
                    Arc::clone(version),
                    SettleReason::Leave,
                )
            });
            let saves = futures::stream::iter(saves).buffer_unordered(AT_ONCE);
            let all = saves.fold(true, |all, stored| std::future::ready(all & stored));
            if all.await {
                rounds += 1;
                continue;
            }
            if began.elapsed() + pause > limit {
                return;
            }
            sleep(pause).await;
            pause = (2 * pause).min(MAX_PAUSE);
        }
    }

    /// Ends sequences that nobody uses any more.
    pub(crate) fn forget(&self, states: &[LiveState]) -> impl Future<Output = ()> + use<'_> {
        let stored = states.iter().filter_map(|live| live.stored.as_ref());
        let newer = stored.filter(|stored| stored.needs_store());
        let newer: Vec<_> = newer
            .map(|stored| (stored.key.clone(), stored.epoch))
            .collect();
        async move {
            for (key, epoch) in newer {
                self.abandon(&key, epoch).await;
            }
        }
    }
}

/// Appended to the text of a sequence that does not exist any more.
const LOST: &str = " - its stored state may be older than its last answer";

impl Ownership {
    /// Returns whether another server could not go on with what the store has.
    fn needs_store(&self) -> bool {
        self.ahead || self.unsaved
    }

    fn write(
        &self,
        state: Option<Bytes>,
        ahead: bool,
        idle: Option<Duration>,
    ) -> SequenceWrite<'_> {
        SequenceWrite {
            key: &self.key,
            epoch: self.epoch,
            step: self.step,
            state,
            answer: self.answer.as_ref(),
            recent: self.recent.as_bytes(),
            ahead,
            idle,
            renews: true,
        }
    }
}

fn unknown() -> Error {
    explain(SequenceRefusal::Unknown)
}

async fn next(wanted: &mut Option<mpsc::Receiver<SequenceKey>>) -> SequenceKey {
    if let Some(wanted) = wanted
        && let Some(key) = wanted.recv().await
    {
        return key;
    }
    std::future::pending().await
}

/// Writes the state of a sequence as a file.
async fn encode(turn: &mut ModelTurn) -> Result<Bytes> {
    let (loaded, id) = (Arc::clone(turn.instance()), turn.id());
    let Some(live) = turn.place().take() else {
        return Ok(Bytes::new());
    };
    let size = loaded.variables()?.size(&live.state);
    let write = move || {
        let model = live.stored.as_ref().map_or("", |stored| &*stored.key.model);
        let snapshot = loaded
            .variables()
            .and_then(|variables| Snapshot::new((model, 0), id, variables, &live.state));
        let file = snapshot.and_then(|snapshot| snapshot.encode());
        (live, file)
    };
    let (live, file) = task::sized("store the state of a sequence", size, write).await;
    *turn.place() = Some(live);
    file.map(Bytes::from)
}

fn restore(file: &Bytes, loaded: &Loaded, next_step: &str) -> Result<SequenceState> {
    let snapshot = Snapshot::decode(file).map_err(|error| damaged(error, next_step))?;
    // Versions of a model may go on with each other's sequences if they are the same model.
    let model = snapshot.model.clone();
    let restored = snapshot.restore((&model, snapshot.version), loaded.variables()?);
    restored.map_err(|error| Error::new(ErrorKind::FailedPrecondition, error.message()))
}
