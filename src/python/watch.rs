//! What keeps the server answering while a call in place takes longer than it should.
//!
//! The async worker with the call may be the one that waited for the network, and the others may be
//! asleep: none of them looks at the network before the call ends. A thread sees that a call goes on
//! and gives the runtime something to do, which wakes another worker. It sleeps while there are no
//! calls in place.

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

/// How long a call goes on unseen.
const QUIET: u64 = 1_000_000;

/// How often the thread looks.
const LOOKS: Duration = Duration::from_millis(2);

/// For how long the thread looks without a call.
const AWAKE: u64 = 100_000_000;

/// When the last call in place began, in nanoseconds, times two; and one if it goes on.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Whether the thread sleeps until somebody wakes it.
static ASLEEP: AtomicBool = AtomicBool::new(false);

/// The runtime of the last call in place.
static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// The thread, once it runs.
static THREAD: OnceLock<Thread> = OnceLock::new();

/// A call in place, until it is dropped. There is one at a time.
pub(super) struct Watched(u64);

impl Watched {
    /// Has the runtime of this thread kept awake while a call goes on that begins now.
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

/// Nanoseconds since the first call.
fn since_start(at: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = at.saturating_duration_since(*START.get_or_init(|| at));
    u64::try_from(since.as_nanos()).unwrap_or_default()
}

/// Starts the thread with the first call. Without one, calls are as long as they are.
fn start() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        if let Err(error) = task::thread("python watch", watch) {
            tracing::warn!("no thread to watch the calls of Python handlers: {error}");
        }
    });
}

/// Looks for as long as the process lives.
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
            // Whoever begins a call sees this, or is seen here.
            ASLEEP.store(true, Ordering::SeqCst);
            while LAST.load(Ordering::SeqCst) == last && ASLEEP.load(Ordering::SeqCst) {
                std::thread::park();
            }
            ASLEEP.store(false, Ordering::SeqCst);
        }
    }
}
