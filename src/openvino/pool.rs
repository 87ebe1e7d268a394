//! The slots of one model version, lent to one request each, with a bounded wait in turn.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Semaphore;

use super::slot::Slot;

/// Why no slot was lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// As many requests as allowed are waiting already.
    #[error("all {slots} infer requests are busy and {waiting} requests are waiting")]
    Full {
        /// Slots of the model version.
        slots: usize,
        /// The longest queue allowed.
        waiting: usize,
    },
}

/// A fixed number of slots and the queue for them.
pub(super) struct Pool {
    slots: Mutex<Vec<Slot>>,
    /// One permit for each slot in `slots`; waiters are served in the order in which they came.
    free: Semaphore,
    size: usize,
    waiting: AtomicUsize,
    most_waiting: usize,
}

impl Pool {
    /// Takes the slots in; at most `most_waiting` requests wait for one at a time.
    pub(super) fn new(slots: Vec<Slot>, most_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            size: slots.len(),
            free: Semaphore::new(slots.len()),
            slots: Mutex::new(slots),
            waiting: AtomicUsize::new(0),
            most_waiting,
        })
    }

    /// Returns the number of slots.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Lends a slot, after waiting for one if need be. Dropping the future leaves the queue.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, PoolError> {
        if let Ok(permit) = self.free.try_acquire() {
            permit.forget();
        } else {
            let _place = self.queue()?;
            // The semaphore is never closed.
            if let Ok(permit) = self.free.acquire().await {
                permit.forget();
            }
        }
        let slot = self.slots().pop();
        Ok(Lease {
            slot,
            pool: Arc::clone(self),
        })
    }

    /// Takes a place in the queue, given back on drop.
    fn queue(&self) -> Result<Place<'_>, PoolError> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Place(&self.waiting);
        if before >= self.most_waiting {
            return Err(PoolError::Full {
                slots: self.size,
                waiting: self.most_waiting,
            });
        }
        Ok(place)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        // A push or pop cannot leave the list half done.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A slot on loan; goes back on drop.
pub(super) struct Lease {
    slot: Option<Slot>,
    pool: Arc<Pool>,
}

impl Lease {
    /// Returns the slot.
    pub(super) fn slot(&mut self) -> &mut Slot {
        self.slot
            .as_mut()
            .expect("a permit was taken, and there are as many slots as permits")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.pool.slots().push(slot);
        }
        self.pool.free.add_permits(1);
    }
}
