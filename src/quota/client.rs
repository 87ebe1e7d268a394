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
use strum::EnumCount as _;
use tokio::time::Instant;

use super::{
    clients::ClientKey,
    limits::{ClientLimit, ClientLimits},
};
use crate::{
    budget::{Budget, BudgetOwner},
    error::{Error, ErrorKind},
};

/// Time after which a client that has too much in flight is told to try again.
const SOON: Duration = Duration::from_millis(100);

/// Time that a refusal is held back of a client that does not wait: on each of its connections a request at a time, it
/// then sends one a second.
const HOLD: Duration = Duration::from_secs(1);

/// Refusals in a second that are answered at once, of clients whose rate has no limit.
const USUAL_PATIENCE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// The most refusals of a client that are held back; further ones are answered at once.
const MAX_HELD: u32 = 16_384;

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

/// A client that is counted: an identity or an address, on all of its connections.
pub struct CountedClient {
    key: ClientKey,
    limits: Arc<ClientLimits>,
    pace: Option<DefaultDirectRateLimiter>,
    /// Rate of refusals from which on they are held back.
    patience: DefaultDirectRateLimiter,
    budget: Option<Budget>,
    requests: AtomicU32,
    streams: AtomicU32,
    sequences: AtomicU32,
    held: AtomicU32,
    /// Turn of the streams that wait for the rate.
    turn: tokio::sync::Mutex<()>,
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
        refusal(
            format_args!(
                "bytes in flight: {max}, the most that {} may have",
                self.key
            ),
            SOON,
        )
    }
}

/// Makes a rate of one in a period, with so many at once.
fn quota(period: Duration, burst: NonZeroU32) -> Quota {
    let quota = Quota::with_period(period).unwrap_or(Quota::per_second(NonZeroU32::MAX));
    quota.allow_burst(burst)
}

/// Makes the error of a client that has too much.
fn refusal(what: fmt::Arguments<'_>, wait: Duration) -> Error {
    let text = format!(
        "Too many requests - {what}; try again in {} ms",
        milliseconds(wait)
    );
    Error::new(ErrorKind::Throttled, text).retry_after(wait)
}

/// Rounds up, so that an early retry is none.
fn milliseconds(wait: Duration) -> u128 {
    wait.as_micros().div_ceil(1000)
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
            requests: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            sequences: AtomicU32::new(0),
            held: AtomicU32::new(0),
            turn: tokio::sync::Mutex::default(),
            last: AtomicU64::new(0),
            counts: Arc::clone(counts),
        }
    }

    /// Returns its limits.
    pub(super) fn limits(&self) -> &Arc<ClientLimits> {
        &self.limits
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
        let place = self.place(ClientLimit::ConcurrentRequests)?;
        if let Some(wait) = self.wait() {
            let rate = self.limits.requests_per_second;
            let rate = rate.map_or_else(String::new, |rate| rate.to_string());
            self.counts.add(&self.key, ClientLimit::RequestsPerSecond);
            let key = &self.key;
            return Err(refusal(
                format_args!("{rate} in a second, the most that {key} may send"),
                wait,
            ));
        }
        Ok(place)
    }

    /// Waits before a refusal is answered, if it has had as many of late as it may send requests: one that goes on at
    /// once when it is refused is not to take the time of others.
    pub async fn hold(self: Arc<Self>) {
        struct Held<'a>(&'a AtomicU32);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        if self.patience.check().is_ok() {
            return;
        }
        let before = self.held.fetch_add(1, Relaxed);
        let _held = Held(&self.held);
        if before < MAX_HELD {
            tokio::time::sleep(HOLD).await;
        }
    }

    /// Waits until it may send another message of a stream.
    pub async fn pace(&self) {
        // One waits for the time, and the others of the client for this one.
        let _turn = self.turn.lock().await;
        while let Some(wait) = self.wait() {
            tokio::time::sleep(wait).await;
        }
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
        self.place(ClientLimit::Streams)
    }

    /// Takes in a sequence that begins.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::Throttled`] if it has as many as it may.
    pub fn sequence(self: &Arc<Self>) -> Result<ClientPlace, Error> {
        self.place(ClientLimit::Sequences)
    }

    /// Takes in a sequence that has begun elsewhere, and cannot be refused.
    pub fn moved_sequence(self: &Arc<Self>) -> ClientPlace {
        self.sequences.fetch_add(1, Relaxed);
        ClientPlace {
            client: Arc::clone(self),
            limit: ClientLimit::Sequences,
        }
    }

    /// Returns a count, with its bound and its name in texts.
    fn counted(&self, limit: ClientLimit) -> Option<(&AtomicU32, Option<u32>, &'static str)> {
        let (count, most, name) = match limit {
            ClientLimit::ConcurrentRequests => (
                &self.requests,
                self.limits.concurrent_requests,
                "requests in flight",
            ),
            ClientLimit::Streams => (&self.streams, self.limits.streams, "open streams"),
            ClientLimit::Sequences => (&self.sequences, self.limits.sequences, "live sequences"),
            ClientLimit::RequestsPerSecond | ClientLimit::BytesInFlight => return None,
        };
        Some((count, most.map(u32::from), name))
    }

    fn place(self: &Arc<Self>, limit: ClientLimit) -> Result<ClientPlace, Error> {
        if let Some((count, most, name)) = self.counted(limit) {
            let most = most.unwrap_or(u32::MAX);
            let taken =
                count.fetch_update(Relaxed, Relaxed, |held| (held < most).then_some(held + 1));
            if taken.is_err() {
                self.counts.add(&self.key, limit);
                let key = &self.key;
                return Err(refusal(
                    format_args!("{name}: {most}, the most that {key} may have"),
                    SOON,
                ));
            }
        }
        Ok(ClientPlace {
            client: Arc::clone(self),
            limit,
        })
    }
}

impl fmt::Debug for CountedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// A request, a stream, or a sequence of a client, which is counted until this is dropped.
#[derive(Debug)]
pub struct ClientPlace {
    client: Arc<CountedClient>,
    limit: ClientLimit,
}

impl ClientPlace {
    /// Returns whose it is.
    pub fn client(&self) -> &Arc<CountedClient> {
        &self.client
    }
}

impl PartialEq for ClientPlace {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        if let Some((count, ..)) = self.client.counted(self.limit) {
            count.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ClientKey, ClientLimit, CountedClient, QuotaCounts};
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
        insta::assert_snapshot!(refused, @"Too many requests - requests in flight: 2, the most that batch may have; try again in 100 ms");
        let stream = client.stream().unwrap();
        insta::assert_snapshot!(client.stream().unwrap_err(), @"Too many requests - open streams: 1, the most that batch may have; try again in 100 ms");
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
                .contains("1 in a second, the most that batch may send")
        );
        let wait = refused.wait().unwrap();
        assert!(
            wait.as_millis() > 900 && wait.as_millis() <= 1000,
            "{wait:?}"
        );
        assert_eq!(count(&counts, ClientLimit::RequestsPerSecond), 1);
        let held = client.requests.load(super::Relaxed);
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
        insta::assert_snapshot!(refused, @"Too many requests - bytes in flight: 100, the most that batch may have; try again in 100 ms");
        assert_eq!((budget.charged(), all.charged()), (80, 80));
        drop(charge);
        let _others = all.charge(950).unwrap();
        let refused = budget.charge(60).unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::Exhausted,
            "it is not the client's fault"
        );
        assert_eq!((budget.charged(), all.charged()), (0, 950));
        assert_eq!(count(&counts, ClientLimit::BytesInFlight), 1);
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
        let all = (0..2 * super::MAX_HELD).map(|_| Arc::clone(&client).hold());
        futures::future::join_all(all).await;
        assert_eq!(begun.elapsed().as_secs(), 2);
        assert_eq!(client.held.load(super::Relaxed), 0);
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
