//! Selection of the thread for a call.
//!
//! A call of a few microseconds runs in place, on the async worker that has the work: handing it to
//! another thread would cost more than the call. The decision is based on a moving average of the
//! handler's calls, including the time that they wait for the interpreter's lock. A call that takes
//! long in place keeps its handler off the async workers, longer each time; not if the thread was
//! only preempted by others, as happens to any call now and then on a busy machine.
//!
//! A single long call in place does not keep the others from the network (`watch.rs`).
//!
//! Only one call at a time is in place, and none while calls that take long are on other threads,
//! because those may hold the lock.

use std::{
    sync::{
        Arc, Mutex, OnceLock, TryLockError,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::watch::Watched;

/// Average duration of calls below which a handler runs in place, as a model does.
const IN_PLACE: Duration = Duration::from_micros(200);

/// Duration above which a single call in place is too long.
const TOO_LONG: Duration = Duration::from_millis(2);

/// Number of calls for which a handler is kept off the async workers after the first call that took
/// too long; doubled after each further one.
const PENALTY: u64 = 1024;

/// Time that a thread waits for the call that is in place. Such calls are short, and a hand-over to
/// another thread takes longer than this.
const SPIN: Duration = Duration::from_micros(30);

/// Time for which short calls on other threads are assumed to be short.
const TRUST: Duration = Duration::from_micros(500);

/// Weight of one call in the moving average: 1/16.
const WEIGHT_SHIFT: u32 = 4;

/// Maximum number of concurrent calls of a handler.
static PER_HANDLER: AtomicUsize = AtomicUsize::new(64);

/// Maximum number of concurrent calls of all handlers.
static ALL: AtomicUsize = AtomicUsize::new(256);

/// Sets the maximum number of concurrent calls on other threads, of one handler and of all; further
/// calls wait. One handler should not have all of them, so that one with hanging calls leaves some
/// for the others. Applies to handlers loaded afterwards, and to all of them together only if set
/// before the first call.
pub fn set_limits(per_handler: usize, all: usize) {
    PER_HANDLER.store(per_handler.max(1), Ordering::Relaxed);
    ALL.store(all.max(1), Ordering::Relaxed);
}

/// Returns the semaphore shared by all handlers.
fn everyone() -> &'static Arc<Semaphore> {
    static EVERYONE: OnceLock<Arc<Semaphore>> = OnceLock::new();
    EVERYONE.get_or_init(|| Arc::new(Semaphore::new(ALL.load(Ordering::Relaxed))))
}

/// Lock of the single call that is in place.
static PLACE: Mutex<()> = Mutex::new(());

/// Number of long calls on other threads.
static LONG: AtomicUsize = AtomicUsize::new(0);

/// Number of short calls on other threads.
static SHORT: AtomicUsize = AtomicUsize::new(0);

/// Time at which the first of the short calls began, or the last of them ended; in nanoseconds.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// Statistics of the calls of one handler.
pub(super) struct Calls {
    /// Moving average in nanoseconds; starts high, so that the first calls run on other threads.
    average: AtomicU64,
    /// Number of calls for which the handler is still kept off the async workers.
    banned: AtomicU64,
    /// Number of calls that took too long in place.
    errors: AtomicU32,
    places: Arc<Semaphore>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            average: AtomicU64::new(nanoseconds(IN_PLACE) * 2),
            banned: AtomicU64::new(0),
            errors: AtomicU32::new(0),
            places: Arc::new(Semaphore::new(PER_HANDLER.load(Ordering::Relaxed))),
        }
    }

    fn short(&self) -> bool {
        self.average.load(Ordering::Relaxed) < nanoseconds(IN_PLACE)
    }

    /// Runs work on this thread, or returns it.
    pub(super) fn here<T, F: FnOnce() -> T>(&self, work: F) -> Result<T, F> {
        if !self.short() || LONG.load(Ordering::Relaxed) > 0 || !trusted() {
            return Err(work);
        }
        let banned = self.banned.load(Ordering::Relaxed);
        if banned > 0 {
            self.banned.store(banned - 1, Ordering::Relaxed);
            return Err(work);
        }
        let asked = Instant::now();
        let place = loop {
            match PLACE.try_lock() {
                Ok(place) => break place,
                // A call that panicked has left no invalid state.
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if asked.elapsed() < SPIN => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => return Err(work),
            }
        };
        // The system call is made only where it may matter.
        let effort = (self.errors.load(Ordering::Relaxed) > 0).then(Effort::now);
        let began = Instant::now();
        let watched = Watched::new(began);
        let done = work();
        drop(watched);
        drop(place);
        let took = began.elapsed();
        if took > TOO_LONG && effort.is_some_and(|effort| effort.is_little()) {
            return Ok(done);
        }
        self.learn(took);
        if took > TOO_LONG {
            let errors = self.errors.fetch_add(1, Ordering::Relaxed).min(40);
            self.banned.store(PENALTY << errors, Ordering::Relaxed);
        }
        Ok(done)
    }

    /// Waits for a slot on another thread.
    pub(super) async fn place(
        &self,
    ) -> (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>) {
        // The semaphores are never closed. The handler's slot comes first, so that a busy handler
        // holds no slot that others could use.
        let own = Arc::clone(&self.places).acquire_owned().await.ok();
        let shared = Arc::clone(everyone()).acquire_owned().await.ok();
        (own, shared)
    }

    /// Runs work on this thread, which may block.
    pub(super) fn away<T>(&self, work: impl FnOnce() -> T) -> T {
        let _away = Away::new(self.short());
        let began = Instant::now();
        let done = work();
        self.learn(began.elapsed());
        done
    }

    /// Adds a sample to the average. Two threads may lose one of two samples, which does no harm.
    fn learn(&self, took: Duration) {
        let old = self.average.load(Ordering::Relaxed);
        let new = old - (old >> WEIGHT_SHIFT) + (nanoseconds(took) >> WEIGHT_SHIFT);
        self.average.store(new, Ordering::Relaxed);
    }
}

/// Resource usage of a thread so far.
struct Effort {
    /// Processor time.
    worked: Duration,
    /// Number of waits for anything but a processor.
    waits: libc::c_long,
}

impl Effort {
    fn now() -> Self {
        // SAFETY: zeros are a valid value, and the call fills it; with these arguments it cannot fail.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        let time = |time: libc::timeval| {
            // Neither is negative.
            let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
            Duration::from_secs(seconds)
                + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or_default())
        };
        Self {
            worked: time(usage.ru_utime) + time(usage.ru_stime),
            waits: usage.ru_nvcsw,
        }
    }

    /// Returns whether this thread has done little since, and waited for nothing but its processor.
    fn is_little(&self) -> bool {
        let now = Self::now();
        now.waits == self.waits && now.worked.saturating_sub(self.worked) < TOO_LONG / 2
    }
}

/// Returns whether the short calls on other threads make progress.
fn trusted() -> bool {
    SHORT.load(Ordering::Relaxed) == 0
        || now().saturating_sub(MOVED.load(Ordering::Relaxed)) < nanoseconds(TRUST)
}

/// Call on another thread.
struct Away {
    short: bool,
}

impl Away {
    fn new(short: bool) -> Self {
        if !short {
            LONG.fetch_add(1, Ordering::Relaxed);
        } else if SHORT.fetch_add(1, Ordering::Relaxed) == 0 {
            MOVED.store(now(), Ordering::Relaxed);
        }
        Self { short }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if self.short {
            MOVED.store(now(), Ordering::Relaxed);
            SHORT.fetch_sub(1, Ordering::Relaxed);
        } else {
            LONG.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns the nanoseconds since the first call.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanoseconds(START.get_or_init(Instant::now).elapsed())
}

/// Converts a duration; those here are far below the 500 years that fit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
