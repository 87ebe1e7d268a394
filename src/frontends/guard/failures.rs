//! Failed attempts to be known, counted by address.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::frontends::access::Source;

/// Addresses that are counted one by one; beyond them, all others count as one.
const MAX_ADDRESSES: usize = 4096;

/// Time in which as many attempts may fail as are allowed.
const PERIOD: Duration = Duration::from_secs(60);

/// Failed attempts of the last minute.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<Option<Source>, Count>>);

/// Attempts of a period; `None` for a source stands for all that have no place of their own.
#[derive(Debug, Clone, Copy)]
struct Count {
    since: Instant,
    failed: u32,
}

impl Count {
    /// Returns how long the period goes on; `None` if it is over.
    fn left(&self, now: Instant) -> Option<Duration> {
        PERIOD
            .checked_sub(now.duration_since(self.since))
            .filter(|left| !left.is_zero())
    }
}

impl Failures {
    /// Returns how long an address has to wait; `None` if it may try now. `most` may fail in a minute, any number
    /// if it is 0.
    pub(super) fn wait(&self, source: Source, most: u32) -> Option<Duration> {
        if most == 0 {
            return None;
        }
        let counts = self.0.lock();
        if counts.is_empty() {
            return None;
        }
        let count = counts.get(&Some(source.network())).or_else(|| {
            // Whoever has no place while there is none shares one.
            (counts.len() >= MAX_ADDRESSES)
                .then(|| counts.get(&None))
                .flatten()
        })?;
        count.left(Instant::now()).filter(|_| count.failed >= most)
    }

    /// Counts a failed attempt; returns whether it is the last that the address may have.
    pub(super) fn add(&self, source: Source, most: u32) -> bool {
        if most == 0 {
            return false;
        }
        let now = Instant::now();
        let mut counts = self.0.lock();
        let mut key = Some(source.network());
        if counts.len() >= MAX_ADDRESSES && !counts.contains_key(&key) {
            counts.retain(|_, count| count.left(now).is_some());
            if counts.len() >= MAX_ADDRESSES {
                key = None;
            }
        }
        let fresh = Count {
            since: now,
            failed: 0,
        };
        let count = counts.entry(key).or_insert(fresh);
        if count.left(now).is_none() {
            *count = fresh;
        }
        count.failed += 1;
        count.failed == most
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::time::advance;

    use super::{Failures, MAX_ADDRESSES, PERIOD, Source};

    fn address(number: usize) -> Source {
        let number = u32::try_from(number).unwrap();
        Source::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_and_others_do_not() {
        let failures = Failures::default();
        let (one, other) = (address(1), address(2));
        assert!(!failures.add(one, 2));
        assert_eq!(failures.wait(one, 2), None);
        advance(PERIOD / 2).await;
        assert!(failures.add(one, 2), "the last");
        assert!(!failures.add(one, 2), "said once");
        assert_eq!(failures.wait(one, 2), Some(PERIOD / 2));
        assert_eq!(failures.wait(other, 2), None);
        assert_eq!(failures.wait(one, 0), None, "no bound");
        advance(PERIOD / 2).await;
        assert_eq!(failures.wait(one, 2), None);
        assert!(!failures.add(one, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_has_a_bound() {
        let failures = Failures::default();
        for number in 0..2 * MAX_ADDRESSES {
            failures.add(address(number), 10);
        }
        assert_eq!(failures.0.lock().len(), MAX_ADDRESSES + 1);
        // The others have had their attempts together.
        assert!(failures.wait(address(3 * MAX_ADDRESSES), 10).is_some());
        assert_eq!(failures.wait(address(1), 10), None);
        advance(PERIOD).await;
        failures.add(address(3 * MAX_ADDRESSES), 10);
        assert_eq!(failures.0.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_place_that_others_share_counts_as_one() {
        let failures = Failures::default();
        failures.add(address(0), 1);
        advance(PERIOD / 2).await;
        for number in 1..=MAX_ADDRESSES {
            failures.add(address(number), 1);
        }
        // The first is forgotten, and the table is full without it.
        advance(PERIOD / 2).await;
        let new = address(2 * MAX_ADDRESSES);
        failures.add(new, 1);
        assert_eq!(failures.0.lock().len(), MAX_ADDRESSES);
        assert!(failures.wait(new, 1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn networks_of_ipv6_count_as_one() {
        let failures = Failures::default();
        let ip = |text: &str| Source::Address(text.parse().unwrap());
        failures.add(ip("2001:db8::1"), 1);
        assert!(failures.wait(ip("2001:db8::2"), 1).is_some());
        assert!(failures.wait(ip("2001:db8:0:1::1"), 1).is_none());
    }
}
