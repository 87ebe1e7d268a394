//! On which thread a call runs.
//!
//! A call of a few microseconds runs in place, on the async worker that has the work: handing it to
//! another thread would cost more than the call. What decides is a moving average of the handler's
//! calls, with the time that they wait for the interpreter's lock. A call that takes long in place
//! keeps its handler off the async workers, longer each time; not if the thread was only kept from its
//! processor by others, as on a busy machine happens to any call now and then.
//!
//! A call that once takes long in place does not keep the others from the network (`watch.rs`).
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

/// A handler whose calls take less than this on average runs in place, as a model does.
const IN_PLACE: Duration = Duration::from_micros(200);

/// A single call in place that takes more than this is one too many.
const TOO_LONG: Duration = Duration::from_millis(2);

/// For how many calls a handler is kept off the async workers after the first call that took too
/// long; twice as many after each further one.
const PENALTY: u64 = 1024;

/// How long a thread waits for the call that is in place. Such calls are short, and a hand-over to
/// another thread takes longer than this.
const SPIN: Duration = Duration::from_micros(30);

/// Short calls on other threads are trusted to be short for this long.
const TRUST: Duration = Duration::from_micros(500);

/// The weight of one call in the moving average: 1/16.
const WEIGHT_SHIFT: u32 = 4;

/// The most calls at once of a handler.
static PER_HANDLER: AtomicUsize = AtomicUsize::new(64);

/// The most calls at once of all handlers.
static ALL: AtomicUsize = AtomicUsize::new(256);

/// Says how many calls of one handler and of all handlers run at once on other threads; more wait. One
/// handler should not have all of them, so that one whose calls hang leaves places for the others.
/// Counts for handlers that are loaded afterwards, and for all of them together once: before the first
/// call.
pub fn set_limits(per_handler: usize, all: usize) {
    PER_HANDLER.store(per_handler.max(1), Ordering::Relaxed);
    ALL.store(all.max(1), Ordering::Relaxed);
}

/// The places of all handlers.
fn everyone() -> &'static Arc<Semaphore> {
    static EVERYONE: OnceLock<Arc<Semaphore>> = OnceLock::new();
    EVERYONE.get_or_init(|| Arc::new(Semaphore::new(ALL.load(Ordering::Relaxed))))
}

/// The one call that is in place.
static PLACE: Mutex<()> = Mutex::new(());

/// Calls that take long and are on other threads now.
static LONG: AtomicUsize = AtomicUsize::new(0);

/// Calls that are short and are on other threads now.
static SHORT: AtomicUsize = AtomicUsize::new(0);

/// When the first of the short calls began, or the last of them ended; in nanoseconds.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// What is known of the calls of one handler.
pub(super) struct Calls {
    /// Moving average in nanoseconds; starts high, so that the first calls are on other threads.
    average: AtomicU64,
    /// Calls for which the handler is still kept off the async workers.
    banned: AtomicU64,
    /// How many calls took too long in place.
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

    /// Runs work on this thread, or gives it back.
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
                // A call that panicked has left nothing behind.
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if asked.elapsed() < SPIN => std::hint::spin_loop(),
                Err(TryLockError::WouldBlock) => return Err(work),
            }
        };
        // The system is asked only where that may matter.
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

    /// Waits for a place on another thread.
    pub(super) async fn place(
        &self,
    ) -> (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>) {
        // Nobody closes the semaphores. The handler's place comes first, so that a handler that is
        // busy keeps no place that others could use.
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

    /// Two threads that learn at once may lose one of the two samples, which does no harm.
    fn learn(&self, took: Duration) {
        let old = self.average.load(Ordering::Relaxed);
        let new = old - (old >> WEIGHT_SHIFT) + (nanoseconds(took) >> WEIGHT_SHIFT);
        self.average.store(new, Ordering::Relaxed);
    }
}

/// What a thread has done so far.
struct Effort {
    /// The time of a processor that it had.
    worked: Duration,
    /// How often it has waited for anything but a processor.
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

    /// Tells whether this thread has done little since, and waited for nothing but its processor.
    fn is_little(&self) -> bool {
        let now = Self::now();
        now.waits == self.waits && now.worked.saturating_sub(self.worked) < TOO_LONG / 2
    }
}

/// Tells whether the short calls on other threads get on.
fn trusted() -> bool {
    SHORT.load(Ordering::Relaxed) == 0
        || now().saturating_sub(MOVED.load(Ordering::Relaxed)) < nanoseconds(TRUST)
}

/// A call on another thread.
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

/// Nanoseconds since the first call.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanoseconds(START.get_or_init(Instant::now).elapsed())
}

/// Durations here are far below the 500 years that fit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
