//! Condition of a compiled model, which its slots look at as well.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Sound: no inference has failed.
pub(super) const SOUND: u8 = 0;
/// Made since one before it failed: shapes are tried before they run.
pub(super) const WATCHED: u8 = 1;
/// Tainted: an inference has failed nevertheless. It keeps running until it is replaced.
pub(super) const TAINTED: u8 = 2;
/// Closed: it takes no requests any more, until it is replaced or cannot be; a stateful one until it is replaced.
pub(super) const CLOSED: u8 = 3;

/// Condition of a compiled model; sound at first.
#[derive(Debug, Default)]
pub(super) struct Condition(AtomicU8);

impl Condition {
    pub(super) fn get(&self) -> u8 {
        self.0.load(Relaxed)
    }

    /// Returns whether it takes no requests any more.
    pub(super) fn is_closed(&self) -> bool {
        self.get() == CLOSED
    }

    pub(super) fn close(&self) {
        self.0.store(CLOSED, Relaxed);
    }

    /// Changes from one condition to another; fails with that in which it is otherwise.
    pub(super) fn change(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.0.compare_exchange(from, to, Relaxed, Relaxed)
    }
}
