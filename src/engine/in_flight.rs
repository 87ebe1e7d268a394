//! Count of the requests in flight, which a stop waits for.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// Counter of requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) count: AtomicUsize,
    none: Notify,
}

impl InFlight {
    pub(super) fn enter(this: &Arc<Self>) -> RequestInFlight {
        this.count.fetch_add(1, Ordering::SeqCst);
        RequestInFlight(Arc::clone(this))
    }

    pub(super) async fn idle(&self) {
        loop {
            // Registered before the count is read, so that the last leave is not missed.
            let none = self.none.notified();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}

/// Request in flight, until dropped.
#[derive(Debug)]
pub(crate) struct RequestInFlight(Arc<InFlight>);

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
