//! The places of the workers of a group, and which of them a run takes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{WorkerGroup, link::Link};
use crate::python::error::HandlerError;

/// Time that a request waits for a worker that restarts.
const RESTART: Duration = Duration::from_secs(2);

/// A worker, or the place of one.
#[derive(Default)]
pub(super) struct WorkerSlot {
    pub(super) state: Mutex<WorkerSlotState>,
    changed: Notify,
    /// Runs that are bound to it.
    runs: AtomicUsize,
}

#[derive(Default)]
pub(super) struct WorkerSlotState {
    pub(super) link: Option<Arc<Link>>,
    /// Reason why there is no worker, and why none comes soon.
    pub(super) down: Option<String>,
    /// Time of the last worker's death, until the next is there.
    pub(super) died: Option<Instant>,
    /// The deaths of the last minute, and how they came.
    pub(super) deaths: Vec<(Instant, String)>,
    /// Number of the worker among those that had the place.
    pub(super) generation: u64,
}

impl WorkerSlot {
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.state.lock().link.clone()
    }

    pub(super) fn set(&self, link: Result<Arc<Link>, String>) {
        let mut state = self.state.lock();
        match link {
            Ok(link) => {
                state.link = Some(link);
                (state.down, state.died) = (None, None);
            }
            Err(reason) => state.down = Some(reason),
        }
        drop(state);
        self.notify();
    }

    /// Returns why requests do not get a worker here, if so; `of` is the graph or pipeline.
    pub(super) fn obstacle(&self, of: &str) -> Option<String> {
        let state = self.state.lock();
        let is_long = |died: Instant| died.elapsed() >= RESTART;
        let is_late = || state.died.is_some_and(is_long).then(|| late(of));
        state.down.clone().or_else(is_late)
    }

    /// Wakes the calls that wait for a worker.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Returns how many calls go on there; more than any if there is no worker, or only one that has died.
    fn calls(&self) -> usize {
        let link = self.link().filter(|link| link.is_alive());
        link.map_or(usize::MAX, |link| link.busy())
    }
}

/// The worker of a run.
pub(crate) struct WorkerSeat {
    group: Arc<WorkerGroup>,
    index: usize,
    generation: u64,
}

impl WorkerGroup {
    /// Chooses the worker of a run: with the fewest calls, or with the fewest runs if this one `lasts`.
    pub(crate) fn seat(self: &Arc<Self>, lasts: bool) -> Arc<WorkerSeat> {
        let _choice = self.choice.lock();
        let least = (0..self.slots.len()).min_by_key(|&index| {
            let slot = &self.slots[index];
            let (calls, runs) = (slot.calls(), slot.runs.load(Ordering::Relaxed));
            match lasts {
                true => (calls == usize::MAX, runs, calls),
                false => (calls == usize::MAX, calls, runs),
            }
        });
        let index = least.unwrap_or_default();
        self.slots[index].runs.fetch_add(1, Ordering::Relaxed);
        Arc::new(WorkerSeat {
            group: Arc::clone(self),
            index,
            generation: self.slots[index].state.lock().generation,
        })
    }
}

impl WorkerSeat {
    fn slot(&self) -> &WorkerSlot {
        &self.group.slots[self.index]
    }

    /// Returns how many calls go on in the worker, and which of the group it is.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.slot().calls(), self.index)
    }

    /// Returns whether the worker is there that was, or was to come, when the run began.
    pub(crate) fn is_current(&self) -> bool {
        let state = self.slot().state.lock();
        state.link.is_some() && state.generation == self.generation
    }

    /// Returns the worker that is there now.
    pub(in crate::python) fn current(&self) -> Option<Arc<Link>> {
        self.slot().link()
    }

    /// Returns the worker that is there; waits for one that restarts.
    pub(in crate::python) async fn link(&self) -> Result<Arc<Link>, HandlerError> {
        let slot = self.slot();
        let end = Instant::now() + RESTART;
        loop {
            let changed = slot.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            {
                let state = slot.state.lock();
                if let Some(link) = state.link.as_ref().filter(|link| link.is_alive()) {
                    return Ok(Arc::clone(link));
                }
                if let Some(down) = &state.down {
                    return Err(HandlerError::Worker(down.clone()));
                }
            }
            if tokio::time::timeout_at(end, changed).await.is_err() {
                return Err(HandlerError::Worker(late(&self.group.of)));
            }
        }
    }
}

/// Returns the error for those who have waited for a worker.
fn late(of: &str) -> String {
    let limit = RESTART.as_secs();
    format!("worker of {of} has not started within {limit} s")
}

impl Drop for WorkerSeat {
    fn drop(&mut self) {
        self.slot().runs.fetch_sub(1, Ordering::Relaxed);
    }
}
