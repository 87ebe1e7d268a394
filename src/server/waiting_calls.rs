//! The calls of a connection that have to wait, polled in the order in which they are woken.
//!
//! A task each would be simpler, but the runtime takes tasks in the order in which they were woken, whoever's they
//! are, and puts those that are too many for a thread into a queue that it rarely looks at: with four thousand calls
//! of other clients one call waited 50 ms for its first poll. Here the calls of a connection wait in a queue of the
//! connection, and no more tasks poll them than the runtime has threads.

use std::{
    collections::VecDeque,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, task::coop, time::Instant};

use super::poll_turns::{BusyTurns, MAX_TURN, PollTurns};
use crate::task::{PollScope, Task};

/// Time of a poll from which on others are worth another thread, which has to be woken.
const LONG: Duration = Duration::from_micros(20);

/// The calls of a connection that have to wait.
pub(super) struct WaitingCalls {
    runtime: Handle,
    max_pollers: usize,
    /// Turns of all tasks of the port that are busy.
    busy: Arc<PollTurns>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Waiting>>,
    /// Calls that have not ended.
    calls: usize,
    /// Tasks that poll what is ready; they end when no call is left.
    pollers: usize,
    /// Wakers of those of them that have nothing to poll.
    idle: Vec<Waker>,
    /// Indicates that the last poll took long enough to be worth another thread.
    is_long: bool,
}

impl WaitingCalls {
    /// Makes the queue of a connection, whose calls take turns with others that are busy.
    pub(super) fn new(busy: Arc<PollTurns>) -> Arc<Self> {
        let runtime = Handle::current();
        Arc::new(Self {
            max_pollers: runtime.metrics().num_workers(),
            runtime,
            busy,
            queue: Mutex::default(),
        })
    }

    /// Takes a call, and polls it when those that are ready before it were.
    pub(super) fn add(self: &Arc<Self>, call: BoxFuture<'static, ()>) {
        let call = Arc::new(Waiting {
            call: Mutex::new(Some(call)),
            state: AtomicU8::new(READY),
            calls: Arc::clone(self),
        });
        self.push(call, 1);
    }

    /// Queues a call that is ready, which may be new.
    fn push(self: &Arc<Self>, call: Arc<Waiting>, new: usize) {
        let mut queue = self.queue.lock();
        queue.calls += new;
        queue.ready.push_back(call);
        if queue.is_long || queue.pollers == queue.idle.len() {
            self.add_poller(queue);
        }
    }

    /// Wakes or starts one more task that polls ready calls, if the limit allows it.
    fn add_poller(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        if let Some(poller) = queue.idle.pop() {
            drop(queue);
            poller.wake();
            return;
        }
        if queue.pollers == self.max_pollers {
            return;
        }
        queue.pollers += 1;
        drop(queue);
        let busy = BusyTurns::new(Arc::clone(&self.busy));
        let calls = Arc::clone(self);
        // By a thread of an inference, perhaps.
        Task::spawn_on(&self.runtime, Poller { calls, busy }).detach();
    }

    /// Notes that a poll has taken long: others are for another task.
    fn took_long(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        queue.is_long = true;
        if !queue.ready.is_empty() {
            self.add_poller(queue);
        }
    }

    /// Returns the next call that is ready, waits for one, or ends a poller if no call is left. `was_short` says that
    /// the poll before has not taken long.
    fn poll_next(&self, context: &Context<'_>, was_short: bool) -> Poll<Option<Arc<Waiting>>> {
        let mut queue = self.queue.lock();
        if was_short {
            queue.is_long = false;
        }
        if let Some(call) = queue.ready.pop_front() {
            return Poll::Ready(Some(call));
        }
        if queue.calls > 0 {
            let waker = context.waker();
            if !queue.idle.iter().any(|idle| idle.will_wake(waker)) {
                queue.idle.push(waker.clone());
            }
            return Poll::Pending;
        }
        queue.pollers -= 1;
        let idle = std::mem::take(&mut queue.idle);
        drop(queue);
        idle.into_iter().for_each(Waker::wake);
        Poll::Ready(None)
    }

    /// Counts a call that has ended.
    fn ended(&self) {
        self.queue.lock().calls -= 1;
    }
}

/// A task that polls calls that are ready, until none is left.
struct Poller {
    calls: Arc<WaitingCalls>,
    busy: BusyTurns,
}

impl Future for Poller {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { calls, busy } = &mut *self;
        ready!(busy.poll_turn(context));
        let _scope = PollScope::enter();
        let begun = Instant::now();
        let mut last = begun;
        let mut was_short = false;
        loop {
            let call = match calls.poll_next(context, was_short) {
                Poll::Ready(Some(call)) => call,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {
                    busy.end_poll(false, context);
                    return Poll::Pending;
                }
            };
            call.poll();
            let now = Instant::now();
            was_short = now - last <= LONG;
            last = now;
            if !was_short {
                calls.took_long();
            }
            if now - begun > MAX_TURN || !coop::has_budget_remaining() {
                busy.end_poll(true, context);
                return Poll::Pending;
            }
        }
    }
}

/// The call has not been woken since its last poll.
const IDLE: u8 = 0;
/// The call is in the queue.
const READY: u8 = 1;
/// The call is being polled.
const POLLING: u8 = 2;
/// The call is being polled, and was woken meanwhile.
const WOKEN: u8 = 3;

/// A call that has to wait.
struct Waiting {
    /// `None` once it has ended.
    call: Mutex<Option<BoxFuture<'static, ()>>>,
    state: AtomicU8,
    calls: Arc<WaitingCalls>,
}

impl Waiting {
    fn poll(self: Arc<Self>) {
        self.state.swap(POLLING, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&self));
        let mut context = Context::from_waker(&waker);
        let mut call = self.call.lock();
        let Some(future) = &mut *call else {
            return;
        };
        // A panic ends the call, as it would end a task, and not those that are polled with it.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            // So does one of what it holds.
            let _ = catch_unwind(AssertUnwindSafe(|| *call = None));
            drop(call);
            self.calls.ended();
            return;
        }
        drop(call);
        let slept = self
            .state
            .compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_err() {
            self.state.swap(READY, Ordering::AcqRel);
            self.calls.push(Arc::clone(&self), 0);
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken =
            self.state
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
                    IDLE => Some(READY),
                    POLLING => Some(WOKEN),
                    _ => None,
                });
        if woken == Ok(IDLE) {
            self.calls.push(Arc::clone(self), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{Arc, Mutex},
        task::Poll,
        time::Duration,
    };

    use futures::FutureExt as _;
    use tokio::sync::{mpsc, oneshot};

    use super::{PollTurns, WaitingCalls};

    fn calls() -> Arc<WaitingCalls> {
        WaitingCalls::new(PollTurns::new(1))
    }

    #[tokio::test]
    async fn calls_end_in_the_order_in_which_they_are_woken() {
        let calls = calls();
        let (ended, mut order) = mpsc::unbounded_channel();
        let wakes = [0, 1, 2].map(|number| {
            let (wake, waits) = oneshot::channel::<()>();
            let ended = ended.clone();
            calls.add(
                async move {
                    waits.await.unwrap();
                    ended.send(number).unwrap();
                }
                .boxed(),
            );
            wake
        });
        let [first, second, third] = wakes;
        for (wake, number) in [(third, 2), (first, 0), (second, 1)] {
            // From outside the runtime, as a thread of an inference does.
            crate::task::thread("test", move || wake.send(()).unwrap()).unwrap();
            assert_eq!(order.recv().await, Some(number));
        }
        drop(ended);
        assert_eq!(order.recv().await, None, "ended calls are dropped");
    }

    #[tokio::test]
    async fn one_that_wakes_itself_is_polled_behind_those_that_are_ready() {
        let calls = calls();
        let polls = Arc::<Mutex<Vec<usize>>>::default();
        let (end, ended) = oneshot::channel();
        let mut end = Some(end);
        for number in 0..2 {
            let (polls, mut left) = (polls.clone(), 2);
            let mut end = end.take_if(|_| number == 1);
            let call = poll_fn(move |context| {
                polls.lock().unwrap().push(number);
                left -= 1;
                if left > 0 {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let Some(end) = end.take() {
                    end.send(()).unwrap();
                }
                Poll::Ready(())
            });
            calls.add(call.boxed());
        }
        ended.await.unwrap();
        assert_eq!(*polls.lock().unwrap(), [0, 1, 0, 1]);
        while calls.queue.lock().pollers > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn another_thread_is_woken_only_where_polls_take_long() {
        let mut calls = calls();
        Arc::get_mut(&mut calls).unwrap().max_pollers = 2;
        let (pollers, mut seen) = mpsc::unbounded_channel();
        for _ in 0..3 {
            let (pollers, queue) = (pollers.clone(), Arc::clone(&calls));
            let call = async move {
                // Work of a call.
                std::thread::sleep(Duration::from_millis(1));
                pollers.send(queue.queue.lock().pollers).unwrap();
            };
            calls.add(call.boxed());
        }
        assert_eq!(calls.queue.lock().pollers, 1, "it comes to all of them");
        for expected in [1, 2, 2] {
            assert_eq!(seen.recv().await, Some(expected));
        }
    }

    #[tokio::test]
    async fn one_that_panics_ends_alone() {
        let calls = calls();
        let (reply, answer) = oneshot::channel();
        calls.add(async { panic!("a test") }.boxed());
        calls.add(async move { reply.send(1).unwrap() }.boxed());
        assert_eq!(answer.await, Ok(1));
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a test");
        }
    }

    #[tokio::test]
    async fn one_whose_end_panics_ends_alone() {
        let calls = calls();
        let (reply, answer) = oneshot::channel();
        let held = PanicsOnDrop;
        let mut is_over = false;
        calls.add(
            poll_fn(move |_| {
                let _holds = &held;
                assert!(!std::mem::replace(&mut is_over, true));
                Poll::Ready(())
            })
            .boxed(),
        );
        calls.add(async move { reply.send(1).unwrap() }.boxed());
        assert_eq!(answer.await, Ok(1));
    }

    #[tokio::test]
    async fn a_poller_stays_while_calls_wait_and_goes_with_the_last() {
        let calls = calls();
        let alive = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let (wakes, mut waits) = mpsc::channel::<()>(1);
        let (reply, mut replies) = mpsc::unbounded_channel();
        calls.add(
            async move {
                while waits.recv().await.is_some() {
                    reply.send(alive()).unwrap();
                }
            }
            .boxed(),
        );
        for _ in 0..3 {
            wakes.send(()).await.unwrap();
            assert_eq!(replies.recv().await, Some(1));
        }
        drop(wakes);
        assert_eq!(replies.recv().await, None);
        while alive() > 0 {
            tokio::task::yield_now().await;
        }
        let queue = calls.queue.lock();
        assert_eq!((queue.calls, queue.pollers, queue.idle.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn calls_of_a_connection_have_no_more_tasks_than_there_are_threads() {
        let calls = calls();
        for _ in 0..100 {
            calls.add(std::future::pending().boxed());
        }
        let queue = calls.queue.lock();
        assert_eq!((queue.pollers, queue.ready.len()), (1, 100));
    }
}
