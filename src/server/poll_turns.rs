//! Turns of polls, first come, first served.
//!
//! The runtime takes tasks in the order in which they were woken. Without turns, forty connections that are
//! read without an end all come before one that has a single request. Here no more tasks that are busy are polled
//! at a time than there are threads to poll them; the others wait in a queue of their own, and not in that of the
//! runtime.

use std::{
    collections::VecDeque,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;

/// Time after which others are next: some polls take far longer than most. With half of it a tiny model with 16
/// calls in flight on one connection is answered a quarter less often.
pub(super) const MAX_TURN: Duration = Duration::from_micros(200);

/// Turns that are given to so many at a time.
pub(super) struct PollTurns {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Turns that are taken.
    running: usize,
    waiting: VecDeque<(Arc<AtomicBool>, Waker)>,
}

impl PollTurns {
    /// Makes turns, `max` at a time.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            state: Mutex::default(),
        })
    }

    /// Takes a turn, or waits for one, as the flag says.
    fn take(&self, waker: &Waker) -> Result<(), Arc<AtomicBool>> {
        let mut state = self.state.lock();
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
        let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|(given, _)| !Arc::ptr_eq(given, own));
        let is_given = state.waiting.len() == before;
        drop(state);
        if is_given {
            self.give();
        }
    }
}

/// Place of a task.
enum Place {
    /// Outside the line.
    Out,
    /// A place in line; the flag is set when its turn has come.
    Waiting(Arc<AtomicBool>),
    /// The turn itself.
    First,
}

/// Polls of a task that are in turn while each of them leaves work to do, or takes long.
///
/// A turn ends with the next poll and not with its own: the runtime comes to that one after it has looked for
/// what else has come, which it otherwise does every 61 polls.
pub(super) struct BusyTurns {
    turns: Arc<PollTurns>,
    place: Place,
    /// Indicates that the last poll left work to do, or took long.
    was_busy: bool,
    /// Indicates that the last two did. One may have taken long because the system ran other threads meanwhile.
    is_busy: bool,
}

impl BusyTurns {
    /// Takes the turns of all that are busy.
    pub(super) fn new(turns: Arc<PollTurns>) -> Self {
        Self {
            turns,
            place: Place::Out,
            was_busy: false,
            is_busy: false,
        }
    }

    /// Ready when the task may do its work. One that is busy waits for a turn in line; if it has one, it first gives
    /// it to the next.
    pub(super) fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        if !self.is_busy {
            return Poll::Ready(());
        }
        match &self.place {
            // Woken for something else; the turn wakes it again.
            Place::Waiting(given) if !given.load(Ordering::Acquire) => return Poll::Pending,
            Place::Waiting(_) => {}
            Place::First | Place::Out => {
                self.leave();
                if let Err(given) = self.turns.take(context.waker()) {
                    self.place = Place::Waiting(given);
                    return Poll::Pending;
                }
            }
        }
        self.place = Place::First;
        Poll::Ready(())
    }

    /// Ends the poll of a task, which is polled again at once if it is busy.
    pub(super) fn end_poll(&mut self, is_busy: bool, context: &mut Context<'_>) {
        self.is_busy = is_busy && self.was_busy;
        self.was_busy = is_busy;
        match is_busy {
            true => {
                let _ = pin!(tokio::task::yield_now()).poll(context);
            }
            false => self.leave(),
        }
    }

    /// Gives back a turn, or the place in line.
    fn leave(&mut self) {
        match std::mem::replace(&mut self.place, Place::Out) {
            Place::Out => {}
            Place::Waiting(given) => self.turns.leave(&given),
            Place::First => self.turns.give(),
        }
    }
}

impl Drop for BusyTurns {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, task::Poll};

    use futures::{FutureExt as _, poll};

    use super::{BusyTurns, PollTurns};

    /// Takes a turn, as a task whose polls before were all busy.
    async fn turn(turns: &mut BusyTurns) -> bool {
        poll_fn(|context| Poll::Ready(turns.poll_turn(context).is_ready())).await
    }

    async fn end(turns: &mut BusyTurns, is_busy: bool) {
        let ended = poll_fn(|context| {
            turns.end_poll(is_busy, context);
            Poll::Ready(())
        });
        ended.await;
    }

    /// Makes the turns of several tasks that are all busy.
    async fn busy<const COUNT: usize>(turns: &std::sync::Arc<PollTurns>) -> [BusyTurns; COUNT] {
        let mut all = [(); COUNT].map(|()| BusyTurns::new(turns.clone()));
        for one in &mut all {
            for _ in 0..2 {
                assert!(turn(one).await);
                end(one, true).await;
            }
        }
        all
    }

    #[tokio::test]
    async fn one_is_busy_after_two_such_polls() {
        let turns = PollTurns::new(0);
        let mut task = BusyTurns::new(turns.clone());
        for is_busy in [true, false, true, true] {
            assert!(turn(&mut task).await, "there is no need of a turn");
            end(&mut task, is_busy).await;
        }
        assert!(!turn(&mut task).await);
        drop(task);
        assert!(turns.state.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn a_turn_lasts_until_the_next_poll_and_goes_to_the_longest_waiting() {
        let turns = PollTurns::new(1);
        let [mut first, mut second, mut third] = busy(&turns).await;
        assert!(turn(&mut first).await);
        assert!(!turn(&mut second).await);
        assert!(!turn(&mut third).await);
        end(&mut first, true).await;
        assert!(!turn(&mut second).await, "the first has it still");
        assert!(!turn(&mut first).await, "it gives it to the second");
        assert!(!turn(&mut third).await);
        assert!(turn(&mut second).await);
        end(&mut second, false).await;
        assert!(turn(&mut third).await);
        drop(third);
        assert!(turn(&mut first).await);
        drop(first);
        assert_eq!(turns.state.lock().running, 0);
    }

    #[tokio::test]
    async fn one_that_waits_and_is_dropped_passes_its_turn_on() {
        let turns = PollTurns::new(1);
        let [mut first, mut second, mut third] = busy(&turns).await;
        assert!(turn(&mut first).await);
        assert!(!turn(&mut second).await);
        assert!(!turn(&mut third).await);
        drop(first);
        drop(second);
        assert!(turn(&mut third).await);
        drop(third);
        assert_eq!(turns.state.lock().running, 0);
    }

    #[tokio::test]
    async fn one_that_waits_is_woken_by_its_turn() {
        let turns = PollTurns::new(1);
        let [mut first, mut second] = busy(&turns).await;
        assert!(turn(&mut first).await);
        let mut waits = pin!(poll_fn(|context| second.poll_turn(context)));
        assert!(poll!(&mut waits).is_pending());
        end(&mut first, false).await;
        assert_eq!(waits.now_or_never(), Some(()));
    }
}
