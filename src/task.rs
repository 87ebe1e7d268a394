//! The only places that start tasks and threads.
//!
//! A [`Task`] ends when its handle is dropped, so that a client that leaves stops the work done
//! for it; [`blocking`] takes file and load work off the async workers; [`thread`] starts a named
//! thread whose owner says how it ends. Work of a poll that is better done once at its end than at each of several
//! places waits there ([`at_poll_end`]).

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock, mpsc},
    task::{Context, Poll, Waker},
};

use futures::future::{BoxFuture, Either, Ready, ready};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::{JoinError, JoinHandle},
};

/// A task that is aborted when the handle is dropped.
#[derive(Debug)]
#[must_use = "a task ends when its handle is dropped"]
pub struct Task<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Task<T> {
    /// Starts a task on the current runtime.
    #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
    pub fn spawn(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(future)))
    }

    /// Starts a task on a runtime, from any thread.
    pub fn spawn_on(runtime: &Handle, future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(runtime.spawn(future)))
    }

    /// Lets the task go on without a handle; only for what ends by itself and is bounded, such as
    /// a connection.
    pub fn detach(mut self) {
        drop(self.0.take());
    }
}

impl<T> Task<T> {
    /// Ends the task, and waits until it has ended.
    pub async fn end(mut self) {
        if let Some(handle) = self.0.take() {
            handle.abort();
            // How it went does not matter any more.
            let _ = handle.await;
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Some(handle) => Pin::new(handle).poll(context),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

/// Work that goes on in a task of its own if whoever awaits it leaves, see [`to_its_end`].
pub struct ToItsEnd<T: Send + 'static>(Option<BoxFuture<'static, T>>);

/// Makes work that is done whole once it has begun; only for what ends by itself and is bounded.
pub fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> ToItsEnd<T> {
    ToItsEnd(Some(Box::pin(work)))
}

impl<T: Send + 'static> ToItsEnd<T> {
    /// Leaves undone what has not begun.
    pub fn cancel(mut self) {
        self.0 = None;
    }
}

impl<T: Send + 'static> Future for ToItsEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for ToItsEnd<T> {
    fn drop(&mut self) {
        // At the end of the process there is no runtime any more.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            let work = async move { drop(work.await) };
            Task::spawn_on(&runtime, work).detach();
        }
    }
}

thread_local! {
    /// Marks a thread that is within [`try_inline`].
    static INLINE: Cell<bool> = const { Cell::new(false) };
}

/// Polls a future once, here and now; returns it if it is not done, for a task of its own.
pub fn try_inline(mut future: BoxFuture<'static, ()>) -> Option<BoxFuture<'static, ()>> {
    let before = INLINE.replace(true);
    // Whatever it waits for learns of the task's waker in the poll after this one.
    let mut context = Context::from_waker(Waker::noop());
    // A panic ends the future, as it would end a task, and not whoever polls it.
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
    INLINE.set(before);
    if matches!(polled, Ok(Poll::Pending)) {
        return Some(future);
    }
    // So does a panic of what it holds.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    None
}

/// Waits for a task of its own if the caller is within [`try_inline`]: what follows takes long enough
/// to be worth one.
pub async fn in_own_task() {
    std::future::poll_fn(|context| {
        if INLINE.get() {
            // Whoever polls this among others has to do so again.
            context.waker().wake_by_ref();
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

/// Runs work that blocks (files, model loads) on the runtime's threads for that.
///
/// # Panics
///
/// Passes on a panic of the work.
#[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
pub async fn blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let span = tracing::debug_span!("blocking", name);
    joined(tokio::task::spawn_blocking(move || span.in_scope(work))).await
}

/// Awaits a task.
///
/// # Panics
///
/// Passes on a panic of the task.
pub async fn joined<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    match task.await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and nobody waits for the answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Runs a load or an unload of a model, on one of a few threads that do nothing else.
///
/// The system's allocator keeps memory apart by thread: with any thread of the runtime's pool, what
/// one load leaves behind is not what the next one takes. Measured with reloads of one of 50
/// models: after 420 of them the process had 146 MB on the pool's threads, and 114 MB on these.
///
/// # Panics
///
/// Passes on a panic of the work.
pub async fn heavy<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let span = tracing::debug_span!("heavy", name);
    let (reply, answer) = oneshot::channel();
    let job = move || {
        let done = catch_unwind(AssertUnwindSafe(|| span.in_scope(work)));
        // Nobody may be waiting any more.
        let _ = reply.send(done);
    };
    match heavy_threads() {
        Some(threads) => {
            // The threads live as long as the process, so that it does not fail.
            let _ = threads.send(Box::new(job));
        }
        // The system gave no thread.
        None => blocking(name, job).await,
    }
    match answer.await {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => std::future::pending().await,
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Starts the threads when they are first needed: one for each core.
fn heavy_threads() -> Option<&'static mpsc::Sender<Job>> {
    static THREADS: OnceLock<Option<mpsc::Sender<Job>>> = OnceLock::new();
    THREADS
        .get_or_init(|| {
            let (sender, jobs) = mpsc::channel::<Job>();
            let jobs = Arc::new(Mutex::new(jobs));
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let started = (0..cores).filter(|_| {
                let jobs = Arc::clone(&jobs);
                thread("load", move || {
                    loop {
                        // Held only until a job is there; whoever waits next has the one after.
                        let job = jobs.lock().recv();
                        match job {
                            Ok(job) => job(),
                            Err(_) => return,
                        }
                    }
                })
                .is_ok()
            });
            (started.count() > 0).then_some(sender)
        })
        .as_ref()
}

/// Runs work whose time grows with its input: at once if the input is small, else as
/// [`blocking`], so that one large request does not hold up an async worker.
pub fn sized<T: Send + 'static>(
    name: &'static str,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Either<Ready<T>, BoxFuture<'static, T>> {
    if bytes <= MAX_AT_ONCE {
        Either::Left(ready(work()))
    } else {
        Either::Right(Box::pin(blocking(name, work)))
    }
}

/// Maximum number of bytes that are parsed, packed or written at once. An estimate, not measured: JSON is
/// the slowest of them, and at 100 MB/s this would take 600 microseconds.
const MAX_AT_ONCE: usize = 1 << 16;

/// Starts a named thread; the caller keeps whatever makes it end.
///
/// # Errors
///
/// Fails if the system refuses another thread.
pub fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
}

/// Work of a poll, in its order.
type LeftWork = Vec<Box<dyn FnOnce()>>;

thread_local! {
    /// Work left to the end of the poll that this thread is at, if that has a scope.
    static LEFT: RefCell<Option<LeftWork>> = const { RefCell::new(None) };
}

/// Scope of a poll: what was left to its end ([`at_poll_end`]) runs when it is dropped, on the same thread.
#[derive(Debug)]
pub struct PollScope(PhantomData<*const ()>);

impl PollScope {
    /// Begins a scope, unless this thread is in one.
    pub fn enter() -> Option<Self> {
        LEFT.with_borrow_mut(|left| {
            let is_outermost = left.is_none();
            is_outermost.then(|| {
                *left = Some(Vec::new());
                Self(PhantomData)
            })
        })
    }
}

impl Drop for PollScope {
    fn drop(&mut self) {
        for work in LEFT.take().into_iter().flatten() {
            work();
        }
    }
}

/// Leaves short work to the end of the poll that this thread is at; returns `false`, without the work, if that has no
/// scope.
pub fn at_poll_end(work: impl FnOnce() + 'static) -> bool {
    LEFT.with_borrow_mut(|left| {
        left.as_mut()
            .map(|left| left.push(Box::new(work)))
            .is_some()
    })
}

/// Polls a future in a scope each time. No `async fn`, which would have room for the future twice.
pub fn in_poll_scope<F: Future + Unpin>(mut future: F) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let _scope = PollScope::enter();
        Pin::new(&mut future).poll(context)
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use tokio::task::yield_now;

    use super::{PollScope, at_poll_end, in_poll_scope};

    #[test]
    fn work_is_left_to_the_end_of_the_outermost_scope_on_the_thread() {
        let done = Rc::<RefCell<Vec<u8>>>::default();
        let leave = |number| {
            let done = Rc::clone(&done);
            at_poll_end(move || done.borrow_mut().push(number))
        };
        assert!(!leave(1), "there is no scope");
        let outer = PollScope::enter();
        assert!(leave(2));
        drop(PollScope::enter());
        assert!(leave(3) && done.borrow().is_empty());
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| at_poll_end(|| ()));
            assert!(!elsewhere.join().unwrap());
        });
        drop(outer);
        assert_eq!(*done.borrow(), [2, 3]);
        assert!(!leave(4));
    }

    #[tokio::test]
    async fn each_poll_of_a_future_has_a_scope() {
        let done = Rc::<RefCell<Vec<u8>>>::default();
        in_poll_scope(Box::pin(async {
            for number in 0..3 {
                let of_poll = Rc::clone(&done);
                assert!(at_poll_end(move || of_poll.borrow_mut().push(number)));
                assert_eq!(done.borrow().len(), usize::from(number));
                yield_now().await;
            }
        }))
        .await;
        assert_eq!(*done.borrow(), [0, 1, 2]);
        assert!(!at_poll_end(|| ()));
    }

    #[test]
    fn work_is_done_behind_a_panic_and_may_leave_none_itself() {
        let done = Rc::<RefCell<Vec<bool>>>::default();
        let of_work = Rc::clone(&done);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _scope = PollScope::enter();
            at_poll_end(move || of_work.borrow_mut().push(at_poll_end(|| ())));
            panic!("on purpose");
        }));
        assert!(caught.is_err());
        assert_eq!(*done.borrow(), [false]);
    }
}
