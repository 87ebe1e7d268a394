//! Generators that have not ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pyo3::{Py, types::PyAny};

use super::calls::{Node, TraceHeaders};

/// Generators by their number.
#[derive(Default)]
pub(super) struct Generators(Mutex<HashMap<u64, Slot>>);

/// A generator, the node that gave it, and the trace of its request.
type Generator = (Arc<Py<PyAny>>, Arc<Node>, Option<Arc<TraceHeaders>>);

struct Slot {
    generator: Generator,
    /// Sets that it may give.
    credits: u32,
    is_running: bool,
    /// Indicates that it is to be closed when it has run.
    is_closing: bool,
}

/// Course of a generator after a set.
pub(super) enum After {
    /// The next set.
    GoOn,
    /// A wait for leave to make more.
    Wait,
    /// The end.
    Close,
}

impl Generators {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a generator, which has not begun.
    pub(super) fn add(
        &self,
        number: u64,
        object: Py<PyAny>,
        node: &Arc<Node>,
        trace: Option<Arc<TraceHeaders>>,
    ) {
        let slot = Slot {
            generator: (Arc::new(object), Arc::clone(node), trace),
            credits: 0,
            is_running: false,
            is_closing: false,
        };
        self.lock().insert(number, slot);
    }

    /// Adds leave for more sets; returns the generator, for this thread to run, if no other does.
    pub(super) fn begin(&self, number: u64, credits: u32) -> Option<Generator> {
        let mut all = self.lock();
        let slot = all.get_mut(&number)?;
        slot.credits += credits;
        if slot.is_running || slot.credits == 0 {
            return None;
        }
        slot.credits -= 1;
        slot.is_running = true;
        let (object, node, trace) = &slot.generator;
        Some((Arc::clone(object), Arc::clone(node), trace.clone()))
    }

    /// Returns what follows after a set of a generator that runs.
    pub(super) fn after_set(&self, number: u64) -> After {
        let mut all = self.lock();
        let Some(slot) = all.get_mut(&number).filter(|slot| !slot.is_closing) else {
            all.remove(&number);
            return After::Close;
        };
        if slot.credits == 0 {
            slot.is_running = false;
            return After::Wait;
        }
        slot.credits -= 1;
        After::GoOn
    }

    /// Takes out a generator that is to be closed; the thread that runs it does so, if one does.
    pub(super) fn close(&self, number: u64) -> Option<Generator> {
        let mut all = self.lock();
        let slot = all.get_mut(&number)?;
        if slot.is_running {
            slot.is_closing = true;
            return None;
        }
        all.remove(&number).map(|slot| slot.generator)
    }

    /// Forgets a generator that has ended.
    pub(super) fn remove(&self, number: u64) {
        let slot = self.lock().remove(&number);
        drop(slot);
    }
}
