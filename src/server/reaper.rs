//! Closes the connections of a port that are idle for too long, or whose clients take nothing.
//!
//! A connection is idle while it has no request, whatever else its client sends: after a request,
//! before the first, or with half a header. An open stream is not idle. When somebody waits for a
//! place, those that have been idle for the longest make room. Where one request is at work from one look to the next, its
//! client is [looked after](super::departure).

use std::{
    cmp::Reverse,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::watchdog::{Activity, Close, Watchdog};

/// The longest time from one look at all connections to the next.
const MAX_PERIOD: Duration = Duration::from_secs(1);

/// The same while somebody waits for a place.
const PERIOD_WAITING: Duration = Duration::from_millis(100);

/// Minimum time for which an idle connection is left open: a client may be about to send its first request, or
/// its next one.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// Time that a client has to close a connection after it was asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The connections of a port.
#[derive(Debug)]
pub(super) struct Reaper {
    idle: Duration,
    write: Duration,
    /// Number of connections that make room at a time.
    batch: usize,
    entries: Mutex<Vec<Entry>>,
    /// Number of those who wait for a place, one at most of each listener.
    waiting: AtomicUsize,
    look: Notify,
}

/// Wait for a place, until dropped.
pub(super) struct PlaceWait<'a>(&'a Reaper);

impl Drop for PlaceWait<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Entry {
    connection: Weak<Watchdog>,
    begun: u64,
    /// Time at which it was first seen to be idle.
    idle: Option<Instant>,
    /// Time at which it was asked to close for that.
    asked: Option<Instant>,
}

impl Reaper {
    /// Looks after as many connections; the limits are for those that are idle and those whose
    /// clients take nothing.
    pub(super) fn new(connections: usize, idle: Duration, write: Duration) -> Self {
        Self {
            idle,
            write,
            batch: connections / 64 + 1,
            entries: Mutex::default(),
            waiting: AtomicUsize::new(0),
            look: Notify::new(),
        }
    }

    /// Looks after a connection until it is dropped.
    pub(super) fn watch(&self, connection: &Arc<Watchdog>) {
        let entry = Entry {
            connection: Arc::downgrade(connection),
            begun: 0,
            idle: Some(Instant::now()),
            asked: None,
        };
        self.entries.lock().push(entry);
    }

    /// Notes that a connection waits for a place.
    pub(super) fn wait(&self) -> PlaceWait<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.look.notify_one();
        PlaceWait(self)
    }

    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Looks at all connections again and again.
    pub(super) async fn run(&self) {
        let usual = (self.idle.min(self.write) / 4).min(MAX_PERIOD);
        loop {
            let period = if self.is_full() {
                PERIOD_WAITING
            } else {
                usual
            };
            tokio::select! {
                () = sleep(period) => {}
                () = self.look.notified() => {}
            }
            self.look(Instant::now());
        }
    }

    fn look(&self, now: Instant) {
        let mut idle = Vec::new();
        let is_full = self.is_full();
        self.entries.lock().retain_mut(|entry| {
            let Some(connection) = entry.connection.upgrade() else {
                return false;
            };
            connection.check_writes(now, self.write);
            let activity = connection.activity();
            if activity.is_busy && activity.begun == entry.begun {
                // At work since the last look or longer.
                connection.look();
            }
            let Some(since) = entry.idle_since(activity, now) else {
                return true;
            };
            let time = now.duration_since(since);
            if time >= self.idle {
                let asked = *entry.asked.get_or_insert(now);
                let is_over = now.duration_since(asked) >= GRACE;
                connection.ask(if is_over {
                    Close::Now
                } else {
                    Close::Gracefully
                });
            }
            if is_full && time >= LEAST_IDLE {
                idle.push((Reverse(time), connection));
            }
            true
        });
        if idle.len() > self.batch {
            idle.select_nth_unstable_by_key(self.batch, |(time, _)| *time);
        }
        for (_, connection) in idle.iter().take(self.batch) {
            connection.ask(Close::Now);
        }
    }
}

impl Entry {
    /// Returns since when the connection has been idle, if it is.
    fn idle_since(&mut self, activity: Activity, now: Instant) -> Option<Instant> {
        if activity.is_busy || activity.begun != self.begun {
            self.begun = activity.begun;
            self.asked = None;
            self.idle = (!activity.is_busy).then_some(now);
        } else if self.idle.is_none() {
            self.idle = Some(now);
        }
        self.idle
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc, time::Duration};

    use futures::FutureExt as _;
    use tokio::time::{Instant, advance};

    use super::{GRACE, Reaper};
    use crate::server::watchdog::{Close, SharedStreams, Stream, Watchdog};

    const IDLE: Duration = Duration::from_secs(100);
    const WRITE: Duration = Duration::from_secs(60);

    fn reaper(places: usize) -> Reaper {
        Reaper::new(places, IDLE, WRITE)
    }

    fn connection(reaper: &Reaper) -> Arc<Watchdog> {
        connection_of(reaper, &SharedStreams::default())
    }

    fn connection_of(reaper: &Reaper, streams: &SharedStreams) -> Arc<Watchdog> {
        let connection = Arc::new(Watchdog::http2(Arc::clone(streams)));
        reaper.watch(&connection);
        connection
    }

    fn is_asked(connection: &Watchdog, close: Close) -> bool {
        let asked = poll_fn(|context| connection.poll_asked(close, context));
        asked.now_or_never().is_some()
    }

    /// Lets time pass, and looks.
    async fn after(reaper: &Reaper, time: Duration) {
        advance(time).await;
        reaper.look(Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_idle_is_reported_to_close_and_then_closed() {
        let reaper = reaper(64);
        let connection = connection(&reaper);
        after(&reaper, IDLE - Duration::from_secs(1)).await;
        assert!(!is_asked(&connection, Close::Gracefully));
        after(&reaper, Duration::from_secs(1)).await;
        assert!(is_asked(&connection, Close::Gracefully));
        assert!(!is_asked(&connection, Close::Now));
        after(&reaper, GRACE).await;
        assert!(is_asked(&connection, Close::Now));
    }

    #[tokio::test(start_paused = true)]
    async fn one_with_a_request_is_not_idle_and_begins_anew_after_it() {
        let reaper = reaper(64);
        let streams = SharedStreams::default();
        let connection = connection_of(&reaper, &streams);
        after(&reaper, IDLE / 2).await;
        streams.lock().begin();
        let stream = Stream::claim(&streams);
        after(&reaper, 10 * IDLE).await;
        assert!(!is_asked(&connection, Close::Gracefully));
        drop(stream);
        after(&reaper, IDLE / 2).await;
        // One between two looks.
        streams.lock().begin();
        drop(Stream::claim(&streams));
        after(&reaper, IDLE - Duration::from_secs(1)).await;
        after(&reaper, IDLE - Duration::from_secs(1)).await;
        assert!(!is_asked(&connection, Close::Gracefully));
        after(&reaper, Duration::from_secs(1)).await;
        assert!(is_asked(&connection, Close::Gracefully));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_make_room_for_one_that_waits() {
        let reaper = reaper(64);
        let streams = SharedStreams::default();
        let busy = connection_of(&reaper, &streams);
        streams.lock().begin();
        let _stream = Stream::claim(&streams);
        let mut idle = Vec::new();
        for _ in 0..4 {
            idle.push(connection(&reaper));
            after(&reaper, Duration::from_millis(600)).await;
        }
        assert!(!idle.iter().any(|it| is_asked(it, Close::Gracefully)));
        // Of two that wait, one has got its place.
        let _waits = reaper.wait();
        drop(reaper.wait());
        reaper.look(Instant::now());
        let asked: Vec<_> = idle.iter().map(|it| is_asked(it, Close::Now)).collect();
        assert_eq!(asked, [true, true, false, false]);
        assert!(!is_asked(&busy, Close::Gracefully));
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_is_new_is_left_to_its_client() {
        let reaper = reaper(1);
        let connection = connection(&reaper);
        let _waits = reaper.wait();
        after(&reaper, Duration::from_millis(900)).await;
        assert!(!is_asked(&connection, Close::Now));
        after(&reaper, Duration::from_millis(100)).await;
        assert!(is_asked(&connection, Close::Now));
    }

    #[tokio::test(start_paused = true)]
    async fn what_h2_alone_holds_ends_the_connection() {
        let reaper = reaper(64);
        let streams = SharedStreams::default();
        let connection = connection_of(&reaper, &streams);
        let stream = streams.lock().begin();
        streams.lock().made(stream);
        drop(Stream::claim(&streams));
        reaper.look(Instant::now());
        after(&reaper, WRITE - Duration::from_secs(1)).await;
        assert!(!is_asked(&connection, Close::Gracefully));
        after(&reaper, Duration::from_secs(1)).await;
        assert!(is_asked(&connection, Close::Now));
    }
}
