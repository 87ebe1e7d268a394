//! Starts without id between the store and their turn: until then nothing here says that their sequences are in use.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Starts without id that the store has accepted, or may have, and that have no turn yet.
#[derive(Debug, Default)]
pub(super) struct UnclaimedStarts {
    numbers: Mutex<Numbers>,
    gone: Notify,
}

/// Numbers of starts, in their order.
#[derive(Debug, Default)]
struct Numbers {
    last: u64,
    unclaimed: BTreeSet<u64>,
}

/// A start without id, until it has its turn.
#[derive(Debug)]
pub(crate) struct UnclaimedStart {
    number: u64,
    starts: Arc<UnclaimedStarts>,
}

impl UnclaimedStarts {
    /// Counts a start until what is returned is dropped.
    pub(super) fn add(self: &Arc<Self>) -> UnclaimedStart {
        let mut numbers = self.numbers.lock();
        numbers.last += 1;
        let number = numbers.last;
        numbers.unclaimed.insert(number);
        UnclaimedStart {
            number,
            starts: Arc::clone(self),
        }
    }

    /// Waits for the starts that there are now to have their turns, or to come to nothing; for none that comes later.
    pub(super) async fn settled(&self) {
        let last = self.numbers.lock().last;
        loop {
            let mut gone = std::pin::pin!(self.gone.notified());
            gone.as_mut().enable();
            let first = self.numbers.lock().unclaimed.first().copied();
            if first.is_none_or(|first| first > last) {
                return;
            }
            gone.await;
        }
    }
}

impl Drop for UnclaimedStart {
    fn drop(&mut self) {
        self.starts.numbers.lock().unclaimed.remove(&self.number);
        self.starts.gone.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn starts_that_were_there_are_waited_for_and_no_others() {
        let starts = Arc::<UnclaimedStarts>::default();
        assert_eq!(starts.settled().now_or_never(), Some(()));
        let (first, second) = (starts.add(), starts.add());
        let mut settled = Box::pin(starts.settled());
        assert_eq!(settled.as_mut().now_or_never(), None);
        let _later = starts.add();
        drop(first);
        assert_eq!(settled.as_mut().now_or_never(), None);
        drop(second);
        assert_eq!(settled.as_mut().now_or_never(), Some(()));
    }
}
