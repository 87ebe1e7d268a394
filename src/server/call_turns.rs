//! Turns of the calls of one connection that run in tasks of their own.
//!
//! The runtime takes tasks in the order in which they were woken. Without turns, a client with a hundred
//! calls in flight has a hundred of them before the one of another client. Here no more calls of a
//! connection are polled at a time than there are threads to poll them; the others wait, first come, first
//! served, in a queue of the connection.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures::future::BoxFuture;

/// The turns of a connection.
pub(super) struct CallTurns {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls that have a turn.
    running: usize,
    waiting: VecDeque<(Arc<AtomicBool>, Waker)>,
}

impl CallTurns {
    /// Makes the turns of a connection: `max` at a time.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change can be left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn, or waits for one, of which the flag tells.
    fn take(&self, waker: &Waker) -> Result<(), Arc<AtomicBool>> {
        let mut state = self.state();
        if state.running < self.max {
            state.running += 1;
            return Ok(());
        }
        let given = Arc::<AtomicBool>::default();
        state.waiting.push_back((Arc::clone(&given), waker.clone()));
        Err(given)
    }

    /// Gives a turn back, to the next that waits.
    fn give(&self) {
        let mut state = self.state();
        let Some((given, waker)) = state.waiting.pop_front() else {
            state.running -= 1;
            return;
        };
        drop(state);
        given.store(true, Ordering::Release);
        waker.wake();
    }

    /// Takes one that waits out of the queue; one that was given a turn gives it back.
    fn leave(&self, own: &Arc<AtomicBool>) {
        let mut state = self.state();
        let before = state.waiting.len();
        state.waiting.retain(|(given, _)| !Arc::ptr_eq(given, own));
        let is_given = state.waiting.len() == before;
        drop(state);
        if is_given {
            self.give();
        }
    }
}

/// A call that is polled in turn.
pub(super) struct InTurn {
    call: BoxFuture<'static, ()>,
    turns: Arc<CallTurns>,
    waits: Option<Arc<AtomicBool>>,
}

impl InTurn {
    /// Takes a call of a connection.
    pub(super) fn new(call: BoxFuture<'static, ()>, turns: Arc<CallTurns>) -> Self {
        let waits = None;
        Self { call, turns, waits }
    }
}

/// A turn, given back on drop: also when the call panics.
struct Turn<'a>(&'a CallTurns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}

impl Future for InTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { call, turns, waits } = &mut *self;
        match waits {
            // Woken for something else; the turn wakes it again.
            Some(given) if !given.load(Ordering::Acquire) => return Poll::Pending,
            Some(_) => *waits = None,
            None => {
                if let Err(given) = turns.take(context.waker()) {
                    *waits = Some(given);
                    return Poll::Pending;
                }
            }
        }
        let _turn = Turn(turns);
        call.as_mut().poll(context)
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        if let Some(given) = self.waits.take() {
            self.turns.leave(&given);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::{FutureExt as _, future::poll_fn, task::noop_waker};

    use super::*;

    /// Calls that are polled; each holds its turn while another is polled within it.
    fn poll(call: &mut InTurn) -> Poll<()> {
        Pin::new(call).poll(&mut Context::from_waker(&noop_waker()))
    }

    fn counted(count: &Arc<AtomicUsize>) -> BoxFuture<'static, ()> {
        let count = Arc::clone(count);
        poll_fn(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Poll::Pending
        })
        .boxed()
    }

    #[test]
    fn no_more_are_polled_at_a_time_than_there_are_turns() {
        let turns = CallTurns::new(1);
        let count = Arc::<AtomicUsize>::default();
        let mut second = InTurn::new(counted(&count), Arc::clone(&turns));
        let mut third = InTurn::new(counted(&count), Arc::clone(&turns));
        let polled = Arc::clone(&count);
        let (turns_within, mut first_poll) = (Arc::clone(&turns), true);
        let mut first = InTurn::new(
            poll_fn(move |_| {
                if std::mem::take(&mut first_poll) {
                    assert!(poll(&mut second).is_pending());
                    assert!(poll(&mut third).is_pending());
                    assert!(poll(&mut second).is_pending());
                    assert_eq!(polled.load(Ordering::Relaxed), 0, "there is no turn left");
                    assert_eq!(turns_within.state().waiting.len(), 2);
                    // One that is given up leaves its place to the next.
                    let waker = noop_waker();
                    let mut cancelled = InTurn::new(counted(&polled), Arc::clone(&turns_within));
                    assert!(poll(&mut cancelled).is_pending());
                    drop(cancelled);
                    assert_eq!(turns_within.state().waiting.len(), 2);
                    turns_within.give();
                    assert!(poll(&mut second).is_pending());
                    assert_eq!(polled.load(Ordering::Relaxed), 1);
                    // Given on by the second.
                    assert!(poll(&mut third).is_pending());
                    assert_eq!(polled.load(Ordering::Relaxed), 2);
                    assert!(turns_within.take(&waker).is_ok());
                }
                Poll::Ready(())
            })
            .boxed(),
            Arc::clone(&turns),
        );
        assert!(poll(&mut first).is_ready());
        assert_eq!(turns.state().running, 0);
        assert!(turns.state().waiting.is_empty());
    }

    #[test]
    fn a_call_that_was_given_a_turn_and_is_dropped_passes_it_on() {
        let turns = CallTurns::new(1);
        let count = Arc::<AtomicUsize>::default();
        turns.take(&noop_waker()).unwrap();
        let mut calls = [(); 2].map(|()| InTurn::new(counted(&count), Arc::clone(&turns)));
        for call in &mut calls {
            assert!(poll(call).is_pending());
        }
        let [first, mut second] = calls;
        turns.give();
        drop(first);
        assert!(poll(&mut second).is_pending());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(turns.state().running, 0);
    }

    #[test]
    fn a_call_that_panics_gives_its_turn_back() {
        let turns = CallTurns::new(1);
        let mut call = InTurn::new(async { panic!("as it does") }.boxed(), Arc::clone(&turns));
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(&mut call)));
        assert!(polled.is_err());
        assert_eq!(turns.state().running, 0);
    }
}
