//! A step of a sequence that other servers may have as well.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tokio::sync::oneshot;

use super::{Keeper, ModelTurn, Owned, Ownership, RecentKeys, answer, encode, unknown};
use crate::{
    error::{Error, ErrorKind, Result},
    metrics::{RequestRecord, RunEnd, Times},
    model::{
        infer::Failed,
        loaded::Loaded,
        stateful::{LiveState, Selection, explain, with_id},
        version::Version,
    },
    openvino::{Hold, RunError, SequenceState, SlotQueue, Work},
    quota::{ClientPlace, CountedClient},
    sequence::{SequenceCommand, SequenceRefusal},
    store::{
        NewSequence, SequenceDurability, SequenceKey, StartedSequence, StoredAnswer, WriteOutcome,
    },
    task::Task,
    tensor::{Tensor, TensorMap},
};

/// Maximum number of repetitions of a step after another server has taken its sequence over.
const MAX_ROUNDS: usize = 4;

/// A request to a sequence.
pub(crate) struct StepRequest {
    /// Validated inputs, and the outputs that are wanted, by port.
    pub(crate) validated: Work,
    /// The outputs that the request lists.
    pub(crate) selection: Selection,
    /// The idempotency key, if it has one.
    pub(crate) key: Option<String>,
    /// Time of arrival.
    pub(crate) arrived: Instant,
    /// Place of a sequence that begins.
    pub(crate) place: Option<ClientPlace>,
    /// Client of the request, which a sequence from elsewhere counts for.
    pub(crate) client: Option<Arc<CountedClient>>,
    /// Figures that the run counts in.
    pub(crate) call: RequestRecord,
}

/// A step that has its turn.
pub(crate) struct SharedStep {
    keeper: Arc<Keeper>,
    version: Arc<Version>,
    turn: ModelTurn,
    request: StepRequest,
    /// Indicates that the request begins the sequence.
    starts: bool,
    /// Indicates that the request ends the sequence.
    ends: bool,
    /// The sequence, if it has begun in the store already.
    begun: Option<BegunSequence>,
}

/// Outcome of a start in the store.
pub(crate) enum Start {
    /// The sequence has begun.
    Begun(BegunSequence),
    /// The request was there before: its sequence.
    Repeated(u64),
}

/// A sequence that has begun in the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BegunSequence {
    /// Its id.
    pub(crate) id: u64,
    /// The epoch of its record.
    pub(crate) epoch: u64,
    /// The life of this server before it began.
    life: Option<u64>,
}

/// Outcome of the preparation of a step.
enum Prepared {
    /// The state is here, and the step runs.
    Runs,
    /// The request was there before: its answer.
    Answered(TensorMap),
    /// The sequence of the start that the request repeats has gone meanwhile.
    Gone,
}

/// Outcome of a run.
enum Ran {
    Answered(TensorMap, RunEnd),
    /// Another server has the sequence.
    Overtaken,
}

impl Keeper {
    /// Begins a sequence in the store.
    ///
    /// # Errors
    ///
    /// Fails if it cannot begin, or the store fails.
    pub(crate) async fn start(
        &self,
        version: &Version,
        loaded: &Loaded,
        id: u64,
        key: Option<&str>,
    ) -> Result<Start> {
        let life = self.store.life();
        let started = self.store.start(NewSequence {
            model: version.model(),
            id,
            key,
            limit: loaded.bounds().sequences,
            ahead: self.durability != SequenceDurability::Step,
            idle: self.idle(loaded),
        });
        match started.await? {
            StartedSequence::Begun { id, epoch } => {
                Ok(Start::Begun(BegunSequence { id, epoch, life }))
            }
            StartedSequence::Repeated(id) => Ok(Start::Repeated(id)),
            StartedSequence::Exists => Err(explain(SequenceRefusal::Exists)),
            StartedSequence::Full => {
                version.reporter().sequences().refused();
                Err(explain(SequenceRefusal::Full))
            }
        }
    }

    /// Fetches the state of a sequence, unless it is here.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, it is lost or of another model, or the store fails.
    pub(crate) async fn fetch(&self, turn: &mut ModelTurn, version: &Version) -> Result<()> {
        match self.own(turn, version, false, |_| false).await? {
            Owned::Here(_) => {
                Self::make_room(version, turn.instance());
                Ok(())
            }
            Owned::Ended(_) | Owned::Unknown => Err(unknown()),
        }
    }

    /// Begins a sequence with a state from elsewhere.
    ///
    /// # Errors
    ///
    /// Fails if it cannot begin, or the store fails.
    pub(crate) async fn begin_with(
        self: Arc<Self>,
        mut turn: ModelTurn,
        version: Arc<Version>,
        (state, place): (SequenceState, Option<ClientPlace>),
    ) -> Result<()> {
        let loaded = Arc::clone(turn.instance());
        let exists = || explain(SequenceRefusal::Exists);
        self.finish(&mut turn).await?;
        let is_here = turn.state().is_some();
        let started = self.start_in_turn(&version, &loaded, turn.id(), None, is_here);
        let Start::Begun(begun) = started.await? else {
            return Err(exists());
        };
        Self::make_room(&version, &loaded);
        let mut stored = self.ownership(version.model(), begun);
        (stored.step, stored.unsaved) = (1, true);
        let stored = Some(Box::new(stored));
        *turn.place() = Some(LiveState {
            state,
            stored,
            place,
        });
        if let Err(error) = self.save(&mut turn).await {
            // What cannot be stored has not begun, so that it may be sent again.
            if let Some(stored) = turn.place().take().and_then(|live| live.stored) {
                self.abandon(&stored.key, stored.epoch).await;
            }
            return Err(error);
        }
        turn.state().ok_or_else(exists)?;
        drop(turn.ended(true));
        Ok(())
    }

    /// Makes what is known of a sequence that has just begun.
    fn ownership(&self, model: &str, begun: BegunSequence) -> Ownership {
        let (model, id) = (model.to_owned(), begun.id);
        Ownership {
            key: SequenceKey { model, id },
            epoch: begun.epoch,
            step: 0,
            ahead: self.durability != SequenceDurability::Step,
            life: begun.life,
            unsaved: false,
            ending: false,
            answer: None,
            recent: RecentKeys::default(),
        }
    }
}

impl SharedStep {
    pub(crate) fn new(
        keeper: Arc<Keeper>,
        version: Arc<Version>,
        turn: ModelTurn,
        command: SequenceCommand,
        begun: Option<BegunSequence>,
        request: StepRequest,
    ) -> Self {
        Self {
            keeper,
            version,
            turn,
            request,
            starts: command.control.starts(),
            ends: command.control.ends(),
            begun,
        }
    }

    /// Runs the step, and stores what comes of it. Returns the outputs, the id of the sequence among them, the id,
    /// and when the run ended.
    ///
    /// # Errors
    ///
    /// Fails if there is no such sequence, no infer request comes free, the runtime or the store fails.
    pub(crate) async fn run(mut self) -> Result<(TensorMap, u64, RunEnd)> {
        let id = self.turn.id();
        for _ in 0..MAX_ROUNDS {
            match self.prepare().await? {
                Prepared::Runs => {}
                Prepared::Answered(outputs) => return Ok((outputs, id, Instant::now().into())),
                Prepared::Gone => continue,
            }
            match self.infer().await? {
                Ran::Answered(outputs, ended) => return Ok((outputs, id, ended)),
                // Another start of the same id; with a key it may be this one, sent again, whose answer is there by now.
                Ran::Overtaken if self.starts && self.request.key.is_none() => {
                    return Err(explain(SequenceRefusal::Exists));
                }
                Ran::Overtaken => self.keeper.hops.store(true, Ordering::Relaxed),
            }
        }
        Err(overtaken(id))
    }

    /// Returns whether the answer that is here is that of this request.
    fn knows(&self) -> bool {
        let stored = self.turn.state().and_then(|live| live.stored.as_ref());
        let answer = stored.and_then(|stored| stored.answer.as_ref());
        answer.is_some_and(|answer| Some(&answer.key) == self.request.key.as_ref())
    }

    /// Fetches the state, unless the request was answered before.
    async fn prepare(&mut self) -> Result<Prepared> {
        if self.starts {
            let keeper = Arc::clone(&self.keeper);
            keeper.finish(&mut self.turn).await?;
            let started = match self.begun.take() {
                Some(begun) => Start::Begun(begun),
                None => {
                    let (loaded, key) = (
                        Arc::clone(self.turn.instance()),
                        self.request.key.as_deref(),
                    );
                    let (id, is_here) = (self.turn.id(), self.turn.state().is_some());
                    let (keeper, version) = (&self.keeper, &self.version);
                    let started = keeper.start_in_turn(version, &loaded, id, key, is_here);
                    match started.await {
                        // The store may not have the answer yet.
                        Err(error) if error.kind() == ErrorKind::AlreadyExists && self.knows() => {
                            Start::Repeated(id)
                        }
                        started => started?,
                    }
                }
            };
            if let Start::Begun(begun) = started {
                let stored = self.keeper.ownership(self.version.model(), begun);
                Keeper::make_room(&self.version, self.turn.instance());
                *self.turn.place() = Some(LiveState {
                    stored: Some(Box::new(stored)),
                    place: self.request.place.take(),
                    ..LiveState::default()
                });
                return Ok(Prepared::Runs);
            }
            // What is here is of another sequence, or of this one.
        }
        let asked = self.request.arrived.elapsed();
        let key = self.request.key.as_deref();
        let known = |answer: &StoredAnswer| Some(&*answer.key) == key;
        // An answer that is here is worth something only if the sequence still is this server's.
        let runs = |stored: &Ownership| !self.starts && !stored.answer.as_ref().is_some_and(known);
        let (keeper, version) = (&self.keeper, &self.version);
        let owned = keeper.own(&mut self.turn, version, true, runs).await?;
        if !matches!(owned, Owned::Unknown) {
            Keeper::make_room(&self.version, self.turn.instance());
        }
        if let (Some(live), Some(client)) = (self.turn.place(), &self.request.client) {
            live.place.get_or_insert_with(|| client.moved_sequence());
        }
        match owned {
            Owned::Ended(answer) if known(&answer) => {
                answer::decode(answer.outputs).map(Prepared::Answered)
            }
            // The sequence of the start that it repeats is over.
            Owned::Ended(_) if self.starts => Err(late(self.turn.id())),
            // That start has come to nothing, as its server has found out meanwhile.
            Owned::Unknown if self.starts => Ok(Prepared::Gone),
            Owned::Ended(_) | Owned::Unknown => Err(unknown()),
            Owned::Here(since) => {
                let stored = self.turn.state().and_then(|live| live.stored.as_ref());
                let answer = stored.and_then(|stored| stored.answer.as_ref());
                let is_old = |key| {
                    since.is_some_and(|since| since < asked)
                        || stored.is_some_and(|stored| stored.recent.contains(key))
                };
                match answer.filter(|answer| known(answer)) {
                    Some(answer) => answer::decode(answer.outputs.clone()).map(Prepared::Answered),
                    // The start that it repeats has been followed by other steps.
                    None if self.starts => Err(explain(SequenceRefusal::Exists)),
                    // Its client, which awaits each answer, has sent it again elsewhere and gone on.
                    None if key.is_some_and(is_old) => Err(late(self.turn.id())),
                    None => Ok(Prepared::Runs),
                }
            }
        }
    }

    /// Runs the step on the state, again if an inference of another one was in its way.
    async fn run_step(&mut self, mut work: Work) -> Result<StepRun> {
        let mut rounds = 0;
        loop {
            let loaded = Arc::clone(self.turn.instance());
            let (back, returned) = oneshot::channel();
            let stored = self.turn.state().and_then(|live| live.stored.as_ref());
            let epoch = stored.map(|stored| stored.epoch);
            let lent = Lent {
                turn: Some((self.turn.lend(), back)),
                ran: false,
            };
            let call = &self.request.call;
            let ran = match loaded.run(work, lent, call, SlotQueue::Bounded).await {
                Err(failed) if failed.is_late() => {
                    return Err(self.close_late(&loaded, failed, (epoch, returned)).await);
                }
                ran => ran,
            };
            let (turn, succeeded) = returned
                .await
                .map_err(|_| Error::internal("Internal error"))?;
            self.turn = turn;
            let failed = match ran {
                Err(failed) if succeeded != Some(true) && rounds < MAX_ROUNDS => failed,
                ran => return Ok((loaded, ran, succeeded)),
            };
            rounds += 1;
            match self.version.recover(&loaded, failed).await {
                Ok((fresh, again)) if self.turn.follow(&fresh) => work = again,
                // It stays where it was until it is stored, and goes on with what is loaded now.
                Ok((_, work)) => {
                    let failed = Failed::Run(RunError::Spoilt(None, work));
                    return Ok((loaded, Err(failed), None));
                }
                Err(failed) => return Ok((loaded, Err(failed), succeeded)),
            }
        }
    }

    /// Closes the sequence of a step that takes longer than it may, and leaves its turn to the inference, which goes on.
    async fn close_late(
        &mut self,
        loaded: &Arc<Loaded>,
        failed: Failed,
        (epoch, returned): (Option<u64>, oneshot::Receiver<(ModelTurn, Option<bool>)>),
    ) -> Error {
        self.version.tend(loaded);
        let id = self.turn.id();
        // What is stored is older than what the inference makes of it.
        if let Some(epoch) = epoch {
            self.keeper.give_up(&self.version, id, epoch).await;
        }
        Task::spawn(async move {
            if let Ok((mut turn, _)) = returned.await {
                turn.run();
                drop(turn.ended(false));
            }
        })
        .detach();
        let error = loaded.explain(failed);
        error.with_more(&format!(" - sequence {id} has been closed"))
    }

    /// Runs the step, and stores what comes of it.
    async fn infer(&mut self) -> Result<Ran> {
        let mut work = self.request.validated.clone();
        if self.request.selection.alone {
            work.wanted.clear();
        }
        let ports = work.wanted.clone();
        let (loaded, ran, succeeded) = self.run_step(work).await?;
        let (outputs, ended) = match ran {
            Ok((outputs, times)) => (loaded.named(ports, outputs).await, times.end()),
            // The state has changed although there is no response.
            Err(failed) if succeeded == Some(true) => {
                (Err(loaded.explain(failed)), Instant::now().into())
            }
            Err(failed) => return Err(self.failed(failed, succeeded.is_some()).await),
        };
        let (id, selection) = (self.turn.id(), self.request.selection);
        let outputs = outputs.and_then(|outputs| with_id(outputs, id, selection));
        let answer = match (&outputs, &self.request.key) {
            (Ok(outputs), Some(key)) => Some(StoredAnswer {
                key: key.clone(),
                outputs: answer::encode(outputs),
            }),
            _ => None,
        };
        match self.store(answer).await? {
            WriteOutcome::Stored => {
                drop(self.turn.ended(true));
                Ok(Ran::Answered(outputs?, ended))
            }
            WriteOutcome::Fenced => {
                *self.turn.place() = None;
                Ok(Ran::Overtaken)
            }
        }
    }

    /// Stores the state after a run, at once or later. What cannot be stored has not happened.
    async fn store(&mut self, answer: Option<StoredAnswer>) -> Result<WriteOutcome> {
        let keeper = Arc::clone(&self.keeper);
        let file = match (self.ends, keeper.durability) {
            (false, SequenceDurability::Step) => Some(encode(&mut self.turn).await?),
            _ => None,
        };
        let idle = keeper.idle(self.turn.instance());
        let live = self.turn.place().as_mut();
        let Some(stored) = live.and_then(|live| live.stored.as_mut()) else {
            return Ok(WriteOutcome::Stored);
        };
        stored.step = stored.step.saturating_add(1);
        if let Some(answer) = &answer {
            stored.recent.add(&answer.key);
        }
        stored.answer = answer;
        let outcome = if self.ends {
            let answer = stored.answer.as_ref();
            keeper.store.end(&stored.key, stored.epoch, answer).await
        } else if file.is_some() {
            keeper.store.write(stored.write(file, false, idle)).await
        } else {
            stored.unsaved = true;
            if keeper.is_sure(stored) {
                return Ok(WriteOutcome::Stored);
            }
            // It has been away: others may take it for dead, and the sequence for lost.
            let written = keeper.store.write(stored.write(None, true, idle)).await;
            return Ok(written.unwrap_or(WriteOutcome::Stored));
        };
        if outcome.is_err() {
            let ends = self.ends;
            let place = self.turn.place();
            // Whether it is stored, nobody knows: what is stored is what counts. Unless nobody could go on with that.
            if !ends || !place.as_mut().is_some_and(LiveState::keep_end) {
                *place = None;
            }
        }
        Ok(outcome?)
    }

    /// Ends a sequence whose state is unknown, or that has not begun.
    async fn failed(&mut self, failed: Failed, ran: bool) -> Error {
        let id = self.turn.id();
        let broke_off = ran || failed.broke_off();
        let error = self.turn.instance().explain(failed);
        if !(broke_off || self.starts) {
            return error;
        }
        if let Some(stored) = self.turn.place().take().and_then(|live| live.stored) {
            self.keeper.abandon(&stored.key, stored.epoch).await;
        }
        if broke_off {
            self.turn.run();
            drop(self.turn.ended(false));
            return error.with_more(&format!(" - sequence {id} has been closed"));
        }
        error
    }
}

/// Makes the error of a request that other servers get ahead of.
pub(super) fn overtaken(id: u64) -> Error {
    let text = format!("Sequence {id} is used by other servers at the same time - try again");
    // The kind that clients send a request again for.
    Error::new(ErrorKind::Overloaded, text)
}

/// Makes the error of a request that its client, which awaits each answer, has sent before, and gone on after.
fn late(id: u64) -> Error {
    let text = format!(
        "Sequence {id} has gone on since a request with this idempotency key - it is not run again; a request of its own \
         has another key"
    );
    Error::new(ErrorKind::Aborted, text)
}

/// A turn on its way through a run, which comes back however that ends; with whether it has succeeded, if
/// there was one.
struct Lent {
    turn: Option<(ModelTurn, TurnBack)>,
    ran: bool,
}

/// The load that a step ran on last, what came of it, and whether it has changed the state, if it has run to its end.
type StepRun = (
    Arc<Loaded>,
    Result<(Vec<Tensor>, Times), Failed>,
    Option<bool>,
);

/// The way back of a turn.
type TurnBack = oneshot::Sender<(ModelTurn, Option<bool>)>;

impl Lent {
    fn give_back(&mut self, success: Option<bool>) {
        if let Some((turn, back)) = self.turn.take() {
            drop(back.send((turn, success)));
        }
    }
}

impl Hold for Lent {
    fn state(&mut self) -> Option<&mut SequenceState> {
        self.ran = true;
        let (turn, _) = self.turn.as_mut()?;
        Some(&mut turn.run().get_or_insert_default().state)
    }

    fn ended(&mut self, success: bool) {
        self.give_back(Some(success));
    }

    fn undone(&mut self) {
        if let Some((turn, _)) = &mut self.turn {
            turn.place();
        }
        self.give_back(None);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let ran = self.ran.then_some(false);
        self.give_back(ran);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_may_be_tried_again_has_another_kind_than_one_that_may_not() {
        assert_eq!(overtaken(7).kind(), ErrorKind::Overloaded);
        assert_eq!(late(7).kind(), ErrorKind::Aborted);
    }
}
