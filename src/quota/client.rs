//! One client, and what it has at the moment.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock as _};
use parking_lot::Mutex;
use strum::EnumCount;
use tokio::{sync::Semaphore, time::Instant};

use super::{
    clients::ClientKey,
    limits::{ClientLimit, ClientLimits},
};
use crate::{
    budget::{Budget, BudgetOwner},
    error::{Error, ErrorKind, whole_milliseconds},
    task::Task,
};

/// Time after which a client that has too much in flight is asked to try again.
const SOON: Duration = Duration::from_millis(100);

/// Time that a refusal is held back of a client that does not wait: on each of its connections a request at a time, it
/// then sends one a second.
const HOLD: Duration = Duration::from_secs(1);

/// Refusals in a second that are answered at once, of clients whose rate has no limit.
const USUAL_PATIENCE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// Maximum number of refusals of a client that are held back; further ones are answered at once.
const MAX_DELAYED: u32 = 16_384;

/// Requests that were refused: by the name of the identity, which is empty for addresses, and by limit.
#[derive(Debug, Default)]
pub struct QuotaCounts(Mutex<BTreeMap<Arc<str>, [u64; ClientLimit::COUNT]>>);

impl QuotaCounts {
    /// Returns how many requests each limit of an identity has refused, in the order of the limits.
    pub fn get(&self) -> BTreeMap<Arc<str>, [u64; ClientLimit::COUNT]> {
        self.0.lock().clone()
    }

    /// Begins to count for an identity, or for addresses.
    pub(super) fn begin(&self, key: &ClientKey) {
        self.0.lock().entry(key.name()).or_default();
    }

    fn add(&self, key: &ClientKey, limit: ClientLimit) {
        self.0.lock().entry(key.name()).or_default()[limit as usize] += 1;
    }
}

/// Things of a client that are there for a time.
#[derive(Debug, Clone, Copy, EnumCount)]
enum Held {
    Request,
    Stream,
    Sequence,
}

impl Held {
    /// Returns its limit, the number that this is, and its name in texts.
    fn bound(self, limits: &ClientLimits) -> (ClientLimit, Option<NonZeroU32>, &'static str) {
        match self {
            Self::Request => (
                ClientLimit::ConcurrentRequests,
                limits.concurrent_requests,
                "requests in flight",
            ),
            Self::Stream => (ClientLimit::Streams, limits.streams, "open streams"),
            Self::Sequence => (ClientLimit::Sequences, limits.sequences, "live sequences"),
        }
    }
}

/// A client that is counted: an identity or an address, on all of its connections.
pub struct CountedClient {
    key: ClientKey,
    limits: Arc<ClientLimits>,
    pace: Option<DefaultDirectRateLimiter>,
    /// Rate of refusals from which on they are held back.
    patience: DefaultDirectRateLimiter,
    budget: Option<Budget>,
    /// Requests, streams, and sequences.
    held: [AtomicU32; Held::COUNT],
    /// Refusals that are held back.
    delayed: AtomicU32,
    /// Turn of the streams that wait for the rate.
    turn: Semaphore,
    /// Time of its last request.
    last: AtomicU64,
    counts: Arc<QuotaCounts>,
}

/// Refusals of the bytes of a client.
struct BytesOwner {
    key: ClientKey,
    counts: Arc<QuotaCounts>,
}

impl BudgetOwner for BytesOwner {
    fn exhausted(&self, max: usize) -> Error {
        self.counts.add(&self.key, ClientLimit::BytesInFlight);
        refusal(&self.key, format_args!("{max} bytes in flight"), SOON)
    }

    fn too_large(&self, max: usize) -> Error {
        self.counts.add(&self.key, ClientLimit::BytesInFlight);
        let key = &self.key;
        let text = format!(
            "Request is too large - the limit of {key} is {max} bytes in flight; send less at once"
        );
        Error::new(ErrorKind::TooLarge, text)
    }
}

/// Makes a rate of one in a period, with so many at once.
fn quota(period: Duration, burst: NonZeroU32) -> Quota {
    let quota = Quota::with_period(period).unwrap_or(Quota::per_second(NonZeroU32::MAX));
    quota.allow_burst(burst)
}

/// Makes the error of a client that is above a limit.
fn refusal(key: &ClientKey, limit: fmt::Arguments<'_>, wait: Duration) -> Error {
    let milliseconds = whole_milliseconds(wait);
    let text = format!(
        "Too many requests - the limit of {key} is {limit}; try again in {milliseconds} ms"
    );
    Error::new(ErrorKind::Throttled, text).retry_after(wait)
}

impl CountedClient {
    /// Makes one that has nothing yet. What it has counts for `all` as well.
    pub(super) fn new(
        key: ClientKey,
        limits: &Arc<ClientLimits>,
        counts: &Arc<QuotaCounts>,
        all: &Budget,
    ) -> Self {
        let pace = limits.requests_per_second.map(|rate| {
            let burst = limits.burst.unwrap_or_else(|| rate.burst());
            RateLimiter::direct(quota(rate.period(), burst))
        });
        let patience = limits
            .requests_per_second
            .map(|rate| quota(rate.period(), rate.burst()));
        let patience = patience.unwrap_or(Quota::per_second(USUAL_PATIENCE));
        let budget = limits.bytes_in_flight.map(|most| {
            let owner = BytesOwner {
                key: key.clone(),
                counts: Arc::clone(counts),
            };
            all.part(most.get(), Arc::new(owner))
        });
        Self {
            key,
            limits: Arc::clone(limits),
            pace,
            patience: RateLimiter::direct(patience),
            budget,
            held: Default::default(),
            delayed: AtomicU32::new(0),
            turn: Semaphore::new(1),
            last: AtomicU64::new(0),
            counts: Arc::clone(counts),
        }
    }

    /// Returns its limits.
    pub(super) fn limits(&self) -> &Arc<ClientLimits> {
        &self.limits
    }

    /// Returns whether it stands for all that have no place of their own.
    pub fn is_shared(&self) -> bool {
        matches!(self.key, ClientKey::Site(_) | ClientKey::Others)
    }

    /// Returns the budget of its bytes, if they have a limit.
    pub fn budget(&self) -> Option<&Budget> {
        self.budget.as_ref()
    }

    /// Returns how long its last request was ago, `epoch` being the begin of the time that requests are noted by.
    pub(super) fn idle(&self, epoch: Instant) -> Duration {
        let last = Duration::from_millis(self.last.load(Relaxed));
        epoch.elapsed().saturating_sub(last)
    }

    /// Notes the time of a request.
    pub(super) fn seen(&self, epoch: Instant) {
        let now = u64::try_from(epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Relaxed);
    }

    /// Takes a request in.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::Throttled`] if it has sent too many lately, or has too many in flight.
    pub fn request(self: &Arc<Self>) -> Result<ClientPlace, Error> {
        let place = self.place(Held::Request)?;
        if let (Some(wait), Some(rate)) = (self.wait(), self.limits.requests_per_second) {
            self.counts.add(&self.key, ClientLimit::RequestsPerSecond);
            return Err(refusal(&self.key, format_args!("{rate} requests/s"), wait));
        }
        Ok(place)
    }

    /// Waits before a refusal is answered, if it has had as many of late as it may send requests: one that goes on at
    /// once when it is refused is not to take the time of others.
    pub async fn hold(self: Arc<Self>) {
        struct Delayed<'a>(&'a AtomicU32);
        impl Drop for Delayed<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        if self.patience.check().is_ok() {
            return;
        }
        let before = self.delayed.fetch_add(1, Relaxed);
        let _delayed = Delayed(&self.delayed);
        if before < MAX_DELAYED {
            tokio::time::sleep(HOLD).await;
        }
    }

    /// Waits until it may send another message of a stream.
    pub async fn pace(self: &Arc<Self>) {
        let may_go = || {
            let turn = self.turn.try_acquire();
            turn.is_ok() && self.wait().is_none()
        };
        if self.pace.is_none() || may_go() {
            return;
        }
        let this = Arc::clone(self);
        // In a task of its own: a stream that waits for its client would keep the turn from the others of this one.
        let paced = Task::spawn(async move {
            // One waits for the time, and the others of the client for this one.
            let _turn = this.turn.acquire().await;
            while let Some(wait) = this.wait() {
                tokio::time::sleep(wait).await;
            }
        });
        // It ends early only with the server.
        drop(paced.await);
    }

    /// Counts a request for the rate; returns how long it has to wait if it is one too many, and is not counted.
    fn wait(&self) -> Option<Duration> {
        let pace = self.pace.as_ref()?;
        let refused = pace.check().err()?;
        Some(refused.wait_time_from(pace.clock().now()))
    }

    /// Takes a stream in.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::Throttled`] if it has as many as it may.
    pub fn stream(self: &Arc<Self>) -> Result<ClientPlace, Error> {
        self.place(Held::Stream)
    }

    /// Takes in a sequence that begins.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::Throttled`] if it has as many as it may.
    pub fn sequence(self: &Arc<Self>) -> Result<ClientPlace, Error> {
        self.place(Held::Sequence)
    }

    /// Takes in a sequence that has begun elsewhere, and cannot be refused.
    pub fn moved_sequence(self: &Arc<Self>) -> ClientPlace {
        self.held(Held::Sequence).fetch_add(1, Relaxed);
        ClientPlace {
            client: Arc::clone(self),
            held: Held::Sequence,
        }
    }

    /// Returns how many of a kind it has.
    fn held(&self, held: Held) -> &AtomicU32 {
        &self.held[held as usize]
    }

    fn place(self: &Arc<Self>, held: Held) -> Result<ClientPlace, Error> {
        let (limit, most, name) = held.bound(&self.limits);
        let most = most.map_or(u32::MAX, u32::from);
        let add = |count| (count < most).then_some(count + 1);
        if self.held(held).fetch_update(Relaxed, Relaxed, add).is_err() {
            self.counts.add(&self.key, limit);
            return Err(refusal(&self.key, format_args!("{most} {name}"), SOON));
        }
        Ok(ClientPlace {
            client: Arc::clone(self),
            held,
        })
    }
}

impl fmt::Debug for CountedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedClient")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// A request, a stream, or a sequence of a client, which is counted until this is dropped.
#[derive(Debug)]
pub struct ClientPlace {
    client: Arc<CountedClient>,
    held: Held,
}

impl PartialEq for ClientPlace {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.client.held(self.held).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ClientKey, ClientLimit, CountedClient, Held, QuotaCounts};
    use crate::{budget::Budget, error::ErrorKind};

    fn client(limits: &str, all: &Budget) -> (Arc<CountedClient>, Arc<QuotaCounts>) {
        let counts = Arc::default();
        let limits = Arc::new(limits.parse().unwrap());
        let key = ClientKey::Identity("batch".into(), None);
        (
            Arc::new(CountedClient::new(key, &limits, &counts, all)),
            counts,
        )
    }

    fn count(counts: &QuotaCounts, limit: ClientLimit) -> u64 {
        counts.get().get("batch").map_or(0, |it| it[limit as usize])
    }

    #[test]
    fn places_are_given_back() {
        let (client, counts) = client("concurrent_requests=2,streams=1", &Budget::default());
        let held = (client.request().unwrap(), client.request().unwrap());
        let refused = client.request().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Throttled);
        insta::assert_snapshot!(refused, @"Too many requests - the limit of batch is 2 requests in flight; try again in 100 ms");
        let stream = client.stream().unwrap();
        insta::assert_snapshot!(client.stream().unwrap_err(), @"Too many requests - the limit of batch is 1 open streams; try again in 100 ms");
        drop((held, stream));
        assert!(client.request().is_ok() && client.stream().is_ok());
        assert_eq!(count(&counts, ClientLimit::ConcurrentRequests), 1);
        assert_eq!(count(&counts, ClientLimit::Streams), 1);
        // There is no limit of these.
        let _many: Vec<_> = (0..100).map(|_| client.sequence().unwrap()).collect();
    }

    #[test]
    fn a_burst_is_followed_by_the_rate() {
        let (client, counts) = client("requests_per_second=1,burst=3", &Budget::default());
        for _ in 0..3 {
            client.request().unwrap();
        }
        let refused = client.request().unwrap_err();
        assert!(
            refused
                .message()
                .contains("the limit of batch is 1 requests/s")
        );
        let wait = refused.wait().unwrap();
        assert!(
            wait.as_millis() > 900 && wait.as_millis() <= 1000,
            "{wait:?}"
        );
        assert_eq!(count(&counts, ClientLimit::RequestsPerSecond), 1);
        let held = client.held(Held::Request).load(super::Relaxed);
        assert_eq!(held, 0, "a request that is refused has no place");
    }

    #[test]
    fn bytes_count_for_the_client_and_for_all() {
        let all = Budget::new(1000);
        let (client, counts) = client("bytes_in_flight=100", &all);
        let budget = client.budget().unwrap();
        let charge = budget.charge(80).unwrap();
        assert_eq!((budget.charged(), all.charged()), (80, 80));
        let refused = budget.charge(30).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Throttled);
        insta::assert_snapshot!(refused, @"Too many requests - the limit of batch is 100 bytes in flight; try again in 100 ms");
        assert_eq!((budget.charged(), all.charged()), (80, 80));
        drop(charge);
        let _others = all.charge(950).unwrap();
        let refused = budget.charge(60).unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::Exhausted,
            "the client is not the cause"
        );
        assert_eq!((budget.charged(), all.charged()), (0, 950));
        assert_eq!(count(&counts, ClientLimit::BytesInFlight), 1);
        let refused = budget.charge(101).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        assert_eq!(count(&counts, ClientLimit::BytesInFlight), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_one_that_does_not_wait_are_held_back() {
        let (client, _) = client("requests_per_second=3", &Budget::default());
        let begun = tokio::time::Instant::now();
        for _ in 0..3 {
            Arc::clone(&client).hold().await;
        }
        assert!(begun.elapsed().is_zero());
        Arc::clone(&client).hold().await;
        assert_eq!(begun.elapsed().as_secs(), 1);
        let all = (0..2 * super::MAX_DELAYED).map(|_| Arc::clone(&client).hold());
        futures::future::join_all(all).await;
        assert_eq!(begun.elapsed().as_secs(), 2);
        assert_eq!(client.delayed.load(super::Relaxed), 0);
    }

    #[tokio::test]
    async fn streams_go_at_the_rate() {
        let (client, counts) = client("requests_per_second=100,burst=1", &Budget::default());
        let begun = std::time::Instant::now();
        for _ in 0..4 {
            client.pace().await;
        }
        assert!(begun.elapsed().as_millis() >= 29);
        assert_eq!(
            count(&counts, ClientLimit::RequestsPerSecond),
            0,
            "nothing is refused"
        );
    }
}
