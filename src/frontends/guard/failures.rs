//! Failed attempts to be known, counted by address.

use std::{collections::HashMap, net::Ipv6Addr, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::frontends::access::Source;

/// Addresses that are counted one by one; beyond them, all others count as one.
const MAX_ADDRESSES: usize = 4096;

/// Networks of a site of IPv6 that are counted one by one; beyond them, the rest of the site counts as one.
const MAX_NETWORKS_OF_SITE: usize = 64;

/// Time in which as many attempts may fail as are allowed.
const PERIOD: Duration = Duration::from_secs(60);

/// Failed attempts of the last minute.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<Place, Count>>);

/// Clients whose attempts are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// An address of IPv4, a network of IPv6, or a user.
    Source(Source),
    /// The other networks of a site of IPv6.
    Site(Ipv6Addr),
    /// All that have no place of their own.
    Others,
}

/// Attempts of a period.
#[derive(Debug, Clone, Copy)]
struct Count {
    since: Instant,
    failed: u32,
}

/// Time that attempts have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// All of the address, which has failed itself.
    All(Duration),
    /// Tokens alone, whose signatures take time: others have failed that count as one with the address.
    Tokens(Duration),
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
    pub(super) fn wait(&self, source: Source, most: u32) -> Option<Wait> {
        if most == 0 {
            return None;
        }
        let counts = self.0.lock();
        if counts.is_empty() {
            return None;
        }
        let now = Instant::now();
        let left = |place: Place| {
            let count = counts.get(&place)?;
            count.left(now).filter(|_| count.failed >= most)
        };
        if counts.contains_key(&Place::Source(source.network())) {
            return left(Place::Source(source.network())).map(Wait::All);
        }
        // Whoever has no place while there is none shares one, with strangers who could keep it out.
        let of_site = source.site().and_then(|site| left(Place::Site(site)));
        let of_others = || {
            (counts.len() >= MAX_ADDRESSES)
                .then(|| left(Place::Others))
                .flatten()
        };
        of_site.or_else(of_others).map(Wait::Tokens)
    }

    /// Counts a failed attempt; returns whether it is the last that the address may have.
    pub(super) fn add(&self, source: Source, most: u32) -> bool {
        if most == 0 {
            return false;
        }
        let now = Instant::now();
        let mut counts = self.0.lock();
        let mut place = Place::Source(source.network());
        if !counts.contains_key(&place)
            && let Some(site) = source.site()
        {
            let of_site = counts.iter().filter(|(place, count)| {
                matches!(place, Place::Source(other) if other.site() == Some(site))
                    && count.left(now).is_some()
            });
            if of_site.count() >= MAX_NETWORKS_OF_SITE {
                place = Place::Site(site);
            }
        }
        if counts.len() >= MAX_ADDRESSES && !counts.contains_key(&place) {
            counts.retain(|_, count| count.left(now).is_some());
            if counts.len() >= MAX_ADDRESSES {
                place = Place::Others;
            }
        }
        let fresh = Count {
            since: now,
            failed: 0,
        };
        let count = counts.entry(place).or_insert(fresh);
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

    use super::{Failures, MAX_ADDRESSES, MAX_NETWORKS_OF_SITE, PERIOD, Source, Wait};

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
        assert_eq!(failures.wait(one, 2), Some(Wait::All(PERIOD / 2)));
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
        // The others have had their attempts together, but those that have not failed themselves wait with
        // tokens alone.
        let waits = failures.wait(address(3 * MAX_ADDRESSES), 10);
        assert_eq!(waits, Some(Wait::Tokens(PERIOD)));
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
        assert_eq!(failures.wait(new, 1), Some(Wait::Tokens(PERIOD / 2)));
    }

    #[tokio::test(start_paused = true)]
    async fn networks_of_ipv6_count_as_one() {
        let failures = Failures::default();
        let ip = |text: &str| Source::Address(text.parse().unwrap());
        failures.add(ip("2001:db8::1"), 1);
        assert!(failures.wait(ip("2001:db8::2"), 1).is_some());
        assert!(failures.wait(ip("2001:db8:0:1::1"), 1).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_site_of_ipv6_does_not_fill_the_table() {
        let failures = Failures::default();
        let ip = |site: u128, network: u128| {
            let bits = (0x2001_0db8 << 96) | (site << 80) | (network << 64);
            Source::Address(IpAddr::V6(bits.into()))
        };
        for network in 0..0x1_0000 {
            failures.add(ip(1, network), 10);
        }
        assert_eq!(failures.0.lock().len(), MAX_NETWORKS_OF_SITE + 1);
        let others = failures.wait(ip(1, 0xffff), 10);
        assert_eq!(others, Some(Wait::Tokens(PERIOD)));
        assert_eq!(failures.wait(ip(1, 0), 10), None, "it has failed once");
        assert_eq!(failures.wait(ip(2, 0), 10), None);
        assert_eq!(failures.wait(address(1), 10), None);
        // A site's own first network is another thing than the site.
        failures.add(ip(2, 0), 1);
        assert_eq!(failures.wait(ip(2, 1), 1), None);
    }
}
