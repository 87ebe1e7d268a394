//! Cores that this process keeps busy while a request runs.
//!
//! A thread looks at the processor time of the process, so that nothing on the way of the request does.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use ovms::task;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(1);

/// Maximum number of looks. Of a longer request every other one is dropped, and the next ones are as far apart.
const MAX_LOOKS: usize = 10_000;

/// A moment, and the processor time of the process until then.
type Sample = (Instant, Duration);

/// Processor time of this process over a request.
#[derive(Debug)]
pub(super) struct CoreUsage {
    looks: Vec<Sample>,
    /// Threads of it that were ready to run and had no core, on average.
    pub(super) queued: f64,
}

/// Looks at the processor time, until it is dropped or ended.
pub(super) struct CoreWatch {
    looks: Arc<Mutex<Vec<Sample>>>,
    queued: Duration,
    /// Ends the thread when it is dropped.
    open: Sender<()>,
}

impl CoreWatch {
    /// Begins to look.
    pub(super) fn begin() -> Self {
        let queued = queued();
        let looks = Arc::new(Mutex::new(vec![look()]));
        let (open, is_open) = mpsc::channel();
        let shared = Arc::clone(&looks);
        // Without it the average of the request is known.
        let _ = task::thread("core usage", move || {
            let mut interval = INTERVAL;
            while is_open.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let mut looks = shared.lock();
                looks.push(look());
                if thin_out(&mut looks, MAX_LOOKS) {
                    interval *= 2;
                }
            }
        });
        Self {
            looks,
            queued,
            open,
        }
    }

    /// Ends, with a last look.
    pub(super) fn end(self) -> CoreUsage {
        drop(self.open);
        let mut looks = std::mem::take(&mut *self.looks.lock());
        let (begin, end) = (looks[0].0, look());
        looks.push(end);
        let whole = end.0.saturating_duration_since(begin).as_secs_f64();
        let queued = queued().saturating_sub(self.queued).as_secs_f64() / whole;
        CoreUsage {
            looks,
            queued: if queued.is_finite() { queued } else { 0.0 },
        }
    }
}

/// Drops every other look if there are as many as there may be; returns whether it did.
fn thin_out(looks: &mut Vec<Sample>, most: usize) -> bool {
    if looks.len() < most {
        return false;
    }
    let mut is_kept = false;
    looks.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
    true
}

fn look() -> Sample {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (Instant::now(), Duration::try_from(time).unwrap_or_default())
}

/// Returns how long the threads of this process have been ready to run without a core in all, as far as the kernel
/// counts it.
fn queued() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task");
    let times = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| {
            // Nanoseconds on a core, those in the queue for one, and turns.
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse::<u64>().ok()
        });
    Duration::from_nanos(times.sum())
}

impl CoreUsage {
    /// Returns how many cores were busy from one moment to another, on average.
    pub(super) fn busy(&self, from: Instant, to: Instant) -> f64 {
        let whole = to.saturating_duration_since(from).as_secs_f64();
        match whole > 0.0 {
            true => (self.until(to) - self.until(from)) / whole,
            false => 0.0,
        }
    }

    /// Returns the seconds of processor time until a moment: in proportion between two looks.
    fn until(&self, moment: Instant) -> f64 {
        let after = self.looks.partition_point(|(at, _)| *at < moment);
        let before = after.checked_sub(1).map(|place| self.looks[place]);
        match (before, self.looks.get(after)) {
            (Some((from, spent)), Some((to, more))) => {
                let whole = to.saturating_duration_since(from).as_secs_f64();
                let part = moment.saturating_duration_since(from).as_secs_f64();
                let more = more.saturating_sub(spent).as_secs_f64();
                spent.as_secs_f64() + more * part / whole
            }
            (Some((_, spent)), None) | (None, Some(&(_, spent))) => spent.as_secs_f64(),
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
impl CoreUsage {
    /// Makes it of milliseconds since a moment.
    pub(super) fn of(begin: Instant, looks: &[(u64, u64)]) -> Self {
        let looks = looks.iter().map(|&(at, spent)| {
            let at = begin + Duration::from_millis(at);
            (at, Duration::from_millis(spent))
        });
        Self {
            looks: looks.collect(),
            queued: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{CoreUsage, CoreWatch, thin_out};

    #[test]
    fn cores_are_counted_between_any_two_moments() {
        let begin = Instant::now();
        // Two cores for 10 ms, none for 10 ms, and one for 10 ms.
        let usage = CoreUsage::of(begin, &[(0, 5), (10, 25), (20, 25), (30, 35)]);
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        for (from, to, busy) in [
            (0, 30, 1.0),
            (0, 10, 2.0),
            (2, 8, 2.0),
            (5, 15, 1.0),
            (10, 20, 0.0),
            (20, 22, 1.0),
            (4, 4, 0.0),
            (9, 3, 0.0),
        ] {
            let found = usage.busy(at(from), at(to));
            assert!((found - busy).abs() < 1e-9, "{from} to {to}: {found}");
        }
    }

    #[test]
    fn a_long_request_has_fewer_looks() {
        let begin = Instant::now();
        let CoreUsage { mut looks, .. } = CoreUsage::of(begin, &[(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert!(!thin_out(&mut looks, 5));
        assert!(thin_out(&mut looks, 4));
        assert_eq!(looks, CoreUsage::of(begin, &[(0, 0), (2, 2)]).looks);
    }

    #[test]
    fn what_this_thread_does_is_seen() {
        let watch = CoreWatch::begin();
        let begin = Instant::now();
        let mut number = 0_u64;
        while begin.elapsed() < Duration::from_millis(30) {
            number = std::hint::black_box(number.wrapping_add(1));
        }
        let end = Instant::now();
        let usage = watch.end();
        // Others may have the core meanwhile.
        assert!(usage.busy(begin, end) > 0.0, "{usage:?}");
    }
}
