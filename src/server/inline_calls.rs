//! The calls of an HTTP/2 connection, tried within the connection's own task.
//!
//! hyper has a task started for each call. For a call that takes some microseconds that costs more
//! than the call: another thread is woken for it, and the connection's task once more for the
//! answer. Here calls are queued while the connection reads, then polled once, in the order in
//! which they came, and the connection writes the answers of all of them together. What has to wait
//! in that poll, for the rest of its message, an inference of some length, or another thread, goes
//! on outside of it ([`WaitingCalls`]), as does what asks for that ([`task::in_own_task`]).

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use futures::{future::BoxFuture, task::AtomicWaker};
use hyper::rt::Executor;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::{runtime::Handle, time::Instant};

use super::{
    poll_turns::{BusyTurns, MAX_TURN, PollTurns},
    waiting_calls::WaitingCalls,
    watchdog::{SharedStreams, Stream},
};
use crate::task::{self, PollScope};

/// Calls that are tried before the connection writes. Measured with a tiny model and 16 calls in
/// flight on one connection: with 32 the client waits for the server and the server for the client
/// (34,000 a second), with 4 most of the time is that of waking the client (31,000), with 8 both work
/// beside each other (55,000).
const MAX_CALLS: usize = 8;

/// Times that a connection reads, tries calls and writes before other tasks of its thread are next.
const MAX_ROUNDS: usize = 4;

/// The connection is not being polled: a wake-up has its task scheduled.
const IDLE: u8 = 0;
/// The connection is being polled: a wake-up only has to be remembered.
const POLLING: u8 = 1;
/// The connection is being polled, and was woken meanwhile.
const WOKEN: u8 = 2;

/// The executor of one connection's calls.
#[derive(Clone)]
pub(super) struct InlineCalls(Arc<Shared>);

struct Shared {
    streams: SharedStreams,
    queue: Mutex<VecDeque<BoxFuture<'static, ()>>>,
    waiting: Arc<WaitingCalls>,
    state: AtomicU8,
    /// The task of the connection.
    task: AtomicWaker,
}

impl InlineCalls {
    /// Runs calls of streams that have begun, in turn with others that are busy.
    pub(super) fn new(streams: SharedStreams, busy: Arc<PollTurns>) -> Self {
        Self(Arc::new(Shared {
            streams,
            queue: Mutex::default(),
            waiting: WaitingCalls::new(busy),
            state: AtomicU8::new(IDLE),
            task: AtomicWaker::new(),
        }))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InlineCalls {
    fn execute(&self, call: F) {
        let call: BoxFuture<'static, ()> = match Stream::claim(&self.0.streams) {
            Some(stream) => Box::pin(Watched { call, stream }),
            None => Box::pin(call),
        };
        self.0.queue.lock().push_back(call);
        // Nearly always within a poll of the connection, which then comes to it.
        self.0.woken();
    }
}

/// Makes turns for as many polls at a time as the runtime has threads.
pub(super) fn turns() -> Arc<PollTurns> {
    PollTurns::new(Handle::current().metrics().num_workers())
}

impl Shared {
    /// Wakes the connection for another poll.
    fn woken(&self) {
        let polling =
            self.state
                .compare_exchange(POLLING, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if polling == Err(IDLE) {
            self.task.wake();
        }
    }

    fn try_calls(&self) {
        for _ in 0..MAX_CALLS {
            let Some(call) = self.queue.lock().pop_front() else {
                return;
            };
            if let Some(call) = task::try_inline(call) {
                self.waiting.add(call);
            }
        }
        // The rest after the answers of these.
        self.woken();
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.woken();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken();
    }
}

pin_project! {
    /// A call that is given up when its client takes nothing, which resets its stream.
    struct Watched<F> {
        #[pin]
        call: F,
        stream: Stream,
    }
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let polled = this.call.poll(context);
        if polled.is_pending() && this.stream.is_stuck(context.waker()) {
            return Poll::Ready(());
        }
        polled
    }
}

/// Polls a connection, and tries its calls.
pub(super) struct InlineDriver {
    calls: InlineCalls,
    waker: Waker,
    busy: BusyTurns,
}

impl InlineDriver {
    /// Takes the executor that the connection was made with, and the turns of busy connections.
    pub(super) fn new(calls: InlineCalls, busy: Arc<PollTurns>) -> Self {
        let waker = Waker::from(Arc::clone(&calls.0));
        let busy = BusyTurns::new(busy);
        Self { calls, waker, busy }
    }

    /// Polls the connection until neither it nor its calls can go on, or others are next.
    pub(super) fn poll<C: Future>(
        &mut self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        let shared = &*self.calls.0;
        shared.task.register(context.waker());
        ready!(self.busy.poll_turn(context));
        let mut own = Context::from_waker(&self.waker);
        let begun = Instant::now();
        let mut is_asleep = false;
        for _ in 0..MAX_ROUNDS {
            let _scope = PollScope::enter();
            shared.state.store(POLLING, Ordering::Release);
            if let Poll::Ready(ended) = connection.as_mut().poll(&mut own) {
                return Poll::Ready(ended);
            }
            shared.try_calls();
            // A call that was answered has woken the connection, which now writes the answer.
            is_asleep = shared
                .state
                .compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
            if is_asleep || begun.elapsed() > MAX_TURN {
                break;
            }
        }
        if !is_asleep {
            shared.state.store(IDLE, Ordering::Release);
        }
        self.busy
            .end_poll(!is_asleep || begun.elapsed() > MAX_TURN, context);
        Poll::Pending
    }
}

impl Drop for InlineDriver {
    /// Drops the calls that were not tried: each holds the executor, which holds them.
    fn drop(&mut self) {
        // Not under the lock: what a call has may wake the connection.
        let calls = std::mem::take(&mut *self.calls.0.queue.lock());
        drop(calls);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use futures::{StreamExt, poll, stream::FuturesUnordered};
    use tokio::{runtime::Handle, sync::oneshot};

    use super::*;
    use crate::{server::watchdog::Watchdog, task::Task};

    /// Drives a connection that is never at its end.
    struct Driven(InlineDriver);

    impl Driven {
        fn new() -> Self {
            Self::among(turns())
        }

        /// Drives a connection that takes these turns when it is busy.
        fn among(busy: Arc<PollTurns>) -> Self {
            let calls = InlineCalls::new(SharedStreams::default(), Arc::clone(&busy));
            Self(InlineDriver::new(calls, busy))
        }

        /// Polls once, and returns how often that polled the connection.
        async fn turn(&mut self) -> usize {
            let mut polled = 0;
            let mut connection = pin!(poll_fn(|_| {
                polled += 1;
                Poll::<()>::Pending
            }));
            let turn = poll_fn(|context| Poll::Ready(self.0.poll(connection.as_mut(), context)));
            assert!(turn.await.is_pending());
            polled
        }

        fn call(&self, call: impl Future<Output = ()> + Send + 'static) {
            self.0.calls.execute(call);
        }
    }

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test]
    async fn what_does_not_wait_is_done_in_order_and_needs_no_task() {
        let mut driven = Driven::new();
        let done = Arc::<Mutex<Vec<usize>>>::default();
        for number in 0..MAX_CALLS {
            let done = done.clone();
            driven.call(async move { done.lock().unwrap().push(number) });
        }
        driven.turn().await;
        assert!(done.lock().unwrap().iter().copied().eq(0..MAX_CALLS));
        assert_eq!(tasks(), 0);
    }

    #[tokio::test]
    async fn what_was_not_tried_ends_with_the_connection() {
        let driven = Driven::new();
        let (held, dropped) = oneshot::channel::<()>();
        // As hyper's calls do, it holds the executor that holds it.
        let executor = driven.0.calls.clone();
        driven.call(async move {
            let _holds = (executor, held);
            std::future::pending::<()>().await;
        });
        drop(driven);
        let ended = tokio::time::timeout(Duration::from_secs(10), dropped).await;
        assert!(ended.expect("the call is dropped").is_err());
    }

    #[tokio::test]
    async fn what_waits_goes_on_in_a_task() {
        let mut driven = Driven::new();
        let (wake, waits) = oneshot::channel::<()>();
        let (reply, answer) = oneshot::channel();
        driven.call(async move {
            waits.await.unwrap();
            reply.send(1).unwrap();
        });
        driven.turn().await;
        assert_eq!(tasks(), 1);
        wake.send(()).unwrap();
        assert_eq!(answer.await, Ok(1));
    }

    #[tokio::test]
    async fn what_asks_for_a_task_of_its_own_gets_one() {
        let mut driven = Driven::new();
        let (reply, answer) = oneshot::channel();
        driven.call(async move {
            task::in_own_task().await;
            reply.send(1).unwrap();
        });
        driven.turn().await;
        assert_eq!(tasks(), 1);
        assert_eq!(answer.await, Ok(1));
        // Nobody else waits for one.
        task::in_own_task().await;
    }

    #[tokio::test]
    async fn one_of_several_that_asks_for_a_task_is_not_forgotten() {
        let mut driven = Driven::new();
        let (reply, answer) = oneshot::channel();
        driven.call(async move {
            let several = (0..3).map(|_| task::in_own_task());
            several.collect::<FuturesUnordered<_>>().count().await;
            reply.send(1).unwrap();
        });
        driven.turn().await;
        assert_eq!(answer.await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_writes_between_calls_and_then_others_of_its_thread_are_next() {
        let mut driven = Driven::new();
        let done = Arc::new(AtomicU8::new(0));
        let calls = MAX_CALLS * MAX_ROUNDS + 1;
        for _ in 0..calls {
            let done = done.clone();
            driven.call(async move {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(driven.turn().await, MAX_ROUNDS);
        assert_eq!(usize::from(done.load(Ordering::Relaxed)), calls - 1);
        driven.turn().await;
        assert_eq!(usize::from(done.load(Ordering::Relaxed)), calls);
    }

    #[tokio::test(start_paused = true)]
    async fn others_are_next_sooner_after_calls_that_take_long() {
        let mut driven = Driven::new();
        driven.call(tokio::time::advance(2 * MAX_TURN));
        for _ in 0..MAX_CALLS {
            driven.call(async {});
        }
        assert_eq!(driven.turn().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_takes_nothing_is_dropped() {
        let mut driven = Driven::new();
        let streams = driven.0.calls.0.streams.clone();
        let watchdog = Watchdog::http2(streams.clone());
        let stream = streams.lock().begin();
        let (held, dropped) = oneshot::channel::<()>();
        let (piece, name) = (streams.clone(), stream);
        driven.call(async move {
            piece.lock().made(name);
            std::future::pending::<()>().await;
            drop(held);
        });
        driven.turn().await;
        let limit = Duration::from_secs(60);
        for _ in 0..2 {
            // The task waits by now.
            tokio::time::advance(limit).await;
            watchdog.check_writes(Instant::now(), limit);
        }
        assert!(dropped.await.is_err());
        streams.lock().left(stream);
        assert!(!watchdog.activity().is_busy);
    }

    #[tokio::test]
    async fn a_call_that_panics_ends_alone() {
        let mut driven = Driven::new();
        let (reply, answer) = oneshot::channel();
        driven.call(async { panic!("a test") });
        driven.call(async move { reply.send(1).unwrap() });
        driven.turn().await;
        assert_eq!(answer.await, Ok(1));
    }

    #[tokio::test]
    async fn a_wake_up_is_not_lost_whenever_it_comes() {
        let mut driver = Driven::new().0;
        let waker = Arc::<Mutex<Option<Waker>>>::default();
        let mut polled = 0;
        let mut connection = pin!(poll_fn(|context| {
            polled += 1;
            *waker.lock().unwrap() = Some(context.waker().clone());
            match polled {
                // Woken within its own poll.
                1 => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                2 => Poll::Pending,
                _ => Poll::Ready(polled),
            }
        }));
        let mut driven = pin!(poll_fn(|context| driver.poll(connection.as_mut(), context)));
        assert!(poll!(driven.as_mut()).is_pending());
        // From elsewhere, while nobody polls it.
        let wake = waker.lock().unwrap().take().unwrap();
        let woken = Task::spawn(async move { wake.wake() });
        assert_eq!(driven.await, 3);
        woken.await.unwrap();
    }
}
