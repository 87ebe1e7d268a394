//! Pool of graph instances kept between requests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::{run::Run, timestamp::Timestamp};

/// Instance of the pool: started, with its current timestamp.
pub(super) struct Seat {
    pub(super) run: Run,
    /// Timestamp of the last request.
    pub(super) last: Option<Timestamp>,
}

/// Started instances of a graph. Each slot has one, or starts one when it is next needed.
pub(super) struct Pool {
    places: Semaphore,
    idle: Mutex<Vec<Seat>>,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Self {
            places: Semaphore::new(size),
            idle: Mutex::default(),
        }
    }

    /// Waits in turn for a slot; the number of waiters is bounded by admission.
    pub(super) async fn take(&self) -> Place<'_> {
        // Never closed.
        let permit = self.places.acquire().await.ok();
        let seat = self.idle().pop();
        Place {
            pool: self,
            seat,
            _permit: permit,
        }
    }

    /// Adds a started instance.
    pub(super) fn add(&self, seat: Seat) {
        self.idle().push(seat);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Seat>> {
        // A push or a pop cannot be left half done.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slot of the pool, held by a request.
pub(super) struct Place<'a> {
    pool: &'a Pool,
    seat: Option<Seat>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Place<'_> {
    /// Takes the instance, if there is one.
    pub(super) fn take(&mut self) -> Option<Seat> {
        self.seat.take()
    }

    /// Returns a reusable instance to the pool.
    pub(super) fn put(self, seat: Seat) {
        self.pool.add(seat);
    }
}
