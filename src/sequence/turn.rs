//! The turn of one request: how it is waited for, used, and passed on.

use std::{sync::Arc, time::Instant};

use tokio::sync::oneshot;

use super::{
    control::{SequenceCommand, SequenceControl},
    registry::{Entry, SequenceRefusal, Sequences, Waiter},
};

/// The turn of a request in its sequence: for as long as it lives, no other request of the
/// sequence runs. A turn that is dropped before its run has changed nothing; one that is dropped
/// during its run closes the sequence.
pub struct SequenceGuard<I: Clone + PartialEq, S> {
    /// The sequences, until the turn is passed on.
    pub(super) sequences: Option<Arc<Sequences<I, S>>>,
    pub(super) id: u64,
    /// Serial number, which later sequences with the same id do not have.
    pub(super) serial: u64,
    pub(super) control: SequenceControl,
    pub(super) instance: I,
    pub(super) state: Option<S>,
    pub(super) running: bool,
    /// Steps before the turn, if the state has come from elsewhere.
    pub(super) before: Option<u64>,
}

/// A place in the queue of a sequence; dropping it leaves the queue.
pub struct Waiting<I: Clone + PartialEq, S> {
    pub(super) sequences: Arc<Sequences<I, S>>,
    pub(super) id: u64,
    /// The sequence's serial.
    pub(super) entry: u64,
    /// Serial of the place.
    pub(super) serial: u64,
    pub(super) turn: oneshot::Receiver<SequenceGuard<I, S>>,
}

/// Turn of a request, or the wait for it.
#[must_use]
pub enum Begun<I: Clone + PartialEq, S> {
    /// The turn.
    Turn(SequenceGuard<I, S>),
    /// A place in the queue.
    Waiting(Waiting<I, S>),
}

impl<I: Clone + PartialEq, S> Begun<I, S> {
    /// Ends the turn of a start with a state from elsewhere.
    pub fn begin_with(self, state: S) {
        // A start waits for nobody.
        if let Self::Turn(mut turn) = self {
            *turn.run() = Some(state);
            drop(turn.ended(true));
        }
    }

    /// Waits for the turn.
    ///
    /// # Errors
    ///
    /// Fails if the sequence ends before.
    pub async fn turn(self) -> Result<SequenceGuard<I, S>, SequenceRefusal> {
        match self {
            Self::Turn(turn) => Ok(turn),
            Self::Waiting(mut waiting) => (&mut waiting.turn)
                .await
                .map_err(|_| SequenceRefusal::Unknown),
        }
    }
}

/// Outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The run has changed the state as it should.
    Succeeded,
    /// The run has left the state in doubt.
    Failed,
    /// The turn has ended without a run.
    Unused,
}

impl<I: Clone + PartialEq, S> SequenceGuard<I, S> {
    /// Returns the id of the sequence.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the instance that the sequence runs on.
    #[must_use]
    pub fn instance(&self) -> &I {
        &self.instance
    }

    /// Returns the state, if there has been a run.
    #[must_use]
    pub fn state(&self) -> Option<&S> {
        self.state.as_ref()
    }

    /// Begins the run: returns the place of the state, which is empty before the first run.
    pub fn run(&mut self) -> &mut Option<S> {
        self.running = true;
        &mut self.state
    }

    /// Returns the place of the state, for one that comes from another server, or is not to be used any more.
    pub fn place(&mut self) -> &mut Option<S> {
        self.running = false;
        &mut self.state
    }

    /// Continues with the instance that the sequence has been moved to; returns whether that is this one.
    pub fn follow(&mut self, instance: &I) -> bool {
        let Some(sequences) = &self.sequences else {
            return false;
        };
        let inner = sequences.lock();
        let entry = inner.entries.get(&self.id);
        let entry = entry.filter(|entry| entry.serial == self.serial);
        let follows = entry.is_some_and(|entry| entry.instance == *instance);
        if follows {
            self.instance = instance.clone();
        }
        follows
    }

    /// Sets the number of earlier steps of a sequence whose state has come from elsewhere.
    pub fn goes_on_after(&mut self, steps: u64) {
        self.before = Some(steps);
    }

    /// Returns the turn to hand on; what is left is none.
    #[must_use]
    pub fn lend(&mut self) -> Self {
        Self {
            sequences: self.sequences.take(),
            instance: self.instance.clone(),
            state: self.state.take(),
            ..*self
        }
    }

    /// Ends the run and passes the turn on. What is returned is no longer needed.
    pub fn ended(&mut self, success: bool) -> Option<S> {
        self.pass(match success {
            true => Outcome::Succeeded,
            false => Outcome::Failed,
        })
    }

    fn pass(&mut self, outcome: Outcome) -> Option<S> {
        let sequences = self.sequences.take()?;
        sequences.pass(self, outcome)
    }
}

impl<I: Clone + PartialEq, S> Drop for SequenceGuard<I, S> {
    fn drop(&mut self) {
        drop(self.pass(match self.running {
            true => Outcome::Failed,
            false => Outcome::Unused,
        }));
    }
}

impl<I: Clone + PartialEq, S> Drop for Waiting<I, S> {
    fn drop(&mut self) {
        // What may have been sent meanwhile passes itself on when the receiver goes.
        self.turn.close();
        let mut inner = self.sequences.lock();
        inner.waiting -= 1;
        let Some(entry) = inner.entries.get_mut(&self.id) else {
            return;
        };
        if entry.serial != self.entry {
            return;
        }
        let place = entry
            .queue
            .iter()
            .position(|waiter| waiter.serial == self.serial);
        if let Some(waiter) = place.and_then(|place| entry.queue.remove(place))
            && waiter.control.ends()
        {
            // The end does not happen.
            entry.ending = false;
        }
    }
}

impl<I: Clone + PartialEq, S> Sequences<I, S> {
    /// Takes a turn back and gives it to the next, or removes the sequence.
    fn pass(self: &Arc<Self>, turn: &mut SequenceGuard<I, S>, outcome: Outcome) -> Option<S> {
        let state = turn.state.take();
        let control = turn.control;
        let mut inner = self.lock();
        let Some(entry) = inner
            .entries
            .get_mut(&turn.id)
            .filter(|entry| entry.serial == turn.serial)
        else {
            // Removed meanwhile, by a reload.
            return state;
        };
        let counts = self.reporter.sequences();
        if outcome == Outcome::Succeeded && control.starts() {
            counts.started();
        }
        let goes = match outcome {
            Outcome::Succeeded => control.ends(),
            Outcome::Failed => true,
            Outcome::Unused if entry.shared => state.is_none() && entry.queue.is_empty(),
            Outcome::Unused => control.starts(),
        };
        if goes {
            let entry = inner.remove(turn.id);
            drop(inner);
            counts.gone(1);
            if outcome == Outcome::Succeeded {
                counts.ended();
            }
            self.gone.notify_waiters();
            drop(entry);
            return state;
        }
        entry.steps = turn.before.take().unwrap_or(entry.steps);
        if outcome == Outcome::Unused {
            entry.ending &= !control.ends();
        } else {
            entry.idle = false;
            entry.steps = entry.steps.saturating_add(1);
            entry.used = Instant::now();
        }
        entry.state = state;
        entry.pass_on(self, turn.id);
        None
    }
}

impl<I: Clone + PartialEq, S> Entry<I, S> {
    /// Gives the turn, with the state, to a request.
    pub(super) fn turn(
        &mut self,
        sequences: &Arc<Sequences<I, S>>,
        id: u64,
        control: SequenceControl,
    ) -> SequenceGuard<I, S> {
        self.busy = true;
        SequenceGuard {
            sequences: Some(Arc::clone(sequences)),
            id,
            serial: self.serial,
            control,
            instance: self.instance.clone(),
            state: self.state.take(),
            running: false,
            before: None,
        }
    }

    /// Puts a request into the queue, if another one has the turn.
    pub(super) fn queue(
        &mut self,
        sequences: &Arc<Sequences<I, S>>,
        command: SequenceCommand,
        serial: u64,
    ) -> Option<Waiting<I, S>> {
        if !self.busy {
            return None;
        }
        let SequenceCommand { id, control } = command;
        let (wake, turn) = oneshot::channel();
        self.queue.push_back(Waiter {
            serial,
            control,
            wake,
        });
        Some(Waiting {
            sequences: Arc::clone(sequences),
            id,
            entry: self.serial,
            serial,
            turn,
        })
    }

    /// Gives the turn to the first that still waits, or keeps the state until somebody comes.
    fn pass_on(&mut self, sequences: &Arc<Sequences<I, S>>, id: u64) {
        while let Some(Waiter { control, wake, .. }) = self.queue.pop_front() {
            let Err(mut unwanted) = wake.send(self.turn(sequences, id, control)) else {
                return;
            };
            // Its client has left. Taken apart, so that its drop does nothing.
            unwanted.sequences = None;
            self.state = unwanted.state.take();
            self.ending &= !control.ends();
        }
        self.busy = false;
    }
}
