//! Watchdog that keeps the server responsive while a call in place takes too long.
//!
//! The async worker with the call may be the one that waited for the network, and the others may be
//! asleep: none of them polls the network before the call ends. A thread notices the long call and
//! spawns a task on the runtime, which wakes another worker. It sleeps while there are no calls in
//! place.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::Thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use crate::task::{self, Task};

/// Duration in nanoseconds up to which a call is ignored.
const QUIET: u64 = 1_000_000;

/// Interval of the thread's checks.
const LOOKS: Duration = Duration::from_millis(2);

/// Time in nanoseconds for which the thread keeps checking without a call.
const AWAKE: u64 = 100_000_000;

/// Start time of the last call in place, in nanoseconds, times two; plus one if it is running.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Whether the thread sleeps until it is woken.
static ASLEEP: AtomicBool = AtomicBool::new(false);

/// Runtime of the last call in place.
static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// Watchdog thread, once it runs.
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Call in place, until it is dropped. There is one at a time.
pub(super) struct Watched(u64);

impl Watched {
    /// Keeps the runtime of this thread awake during a call that begins now.
    pub(super) fn new(began: Instant) -> Self {
        start();
        *runtime() = Handle::try_current().ok();
        let call = since_start(began) << 1;
        LAST.store(call | 1, Ordering::SeqCst);
        if ASLEEP.load(Ordering::SeqCst)
            && ASLEEP.swap(false, Ordering::SeqCst)
            && let Some(thread) = THREAD.get()
        {
            thread.unpark();
        }
        Self(call)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        LAST.store(self.0, Ordering::Release);
    }
}

fn runtime() -> MutexGuard<'static, Option<Handle>> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the nanoseconds since the first call.
fn since_start(at: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = at.saturating_duration_since(*START.get_or_init(|| at));
    u64::try_from(since.as_nanos()).unwrap_or_default()
}

/// Starts the thread with the first call. Without it, long calls are not noticed.
fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        if let Err(error) = task::thread("python watch", watch) {
            tracing::warn!("no thread to watch the calls of Python handlers: {error}");
        }
    });
}

/// Checks for as long as the process lives.
fn watch() {
    THREAD.get_or_init(std::thread::current);
    // Two of them while a task waits for a worker: there is one task at a time.
    let ball = Arc::new(());
    loop {
        std::thread::park_timeout(LOOKS);
        let last = LAST.load(Ordering::SeqCst);
        let age = since_start(Instant::now()).saturating_sub(last >> 1);
        if last & 1 == 1 {
            if age > QUIET && Arc::strong_count(&ball) == 1 {
                let handle = runtime().clone();
                if let Some(handle) = handle {
                    let _entered = handle.enter();
                    let ball = Arc::clone(&ball);
                    Task::spawn(async move { drop(ball) }).detach();
                }
            }
        } else if age > AWAKE {
            // A call that begins either sees this, or is seen here.
            ASLEEP.store(true, Ordering::SeqCst);
            while LAST.load(Ordering::SeqCst) == last && ASLEEP.load(Ordering::SeqCst) {
                std::thread::park();
            }
            ASLEEP.store(false, Ordering::SeqCst);
        }
    }
}
