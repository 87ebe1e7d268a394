//! Bounds on what one client may cause: how many connections its address has, and how often the same
//! warning is logged.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::frontends::access::Source;

/// Counts the connections of each address.
#[derive(Debug)]
pub(super) struct Addresses {
    /// Maximum number of connections of one address; 0 for any number.
    most: usize,
    open: Arc<Mutex<HashMap<Source, usize>>>,
}

/// A connection that is counted.
#[derive(Debug)]
pub(super) struct Counted {
    open: Arc<Mutex<HashMap<Source, usize>>>,
    source: Source,
}

impl Addresses {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            open: Arc::default(),
        }
    }

    /// Counts a connection; `None` if its address has as many as it may.
    pub(super) fn count(&self, source: Source) -> Option<Counted> {
        let source = source.network();
        let mut all = self.open.lock();
        let open = all.entry(source).or_default();
        if self.most > 0 && *open >= self.most {
            return None;
        }
        *open += 1;
        let open = Arc::clone(&self.open);
        Some(Counted { open, source })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.open.lock();
        if let Entry::Occupied(mut open) = all.entry(self.source) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

/// The shortest time from one line to the next.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts what a line would say again, so that one line says it for all.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// Returns how many lines were left out since the last, if there is to be one now.
    pub(super) fn next(&self) -> Option<u64> {
        let mut state = self.0.lock();
        let now = Instant::now();
        match state.last {
            Some(last) if now.duration_since(last) < PERIOD => {
                state.left_out += 1;
                None
            }
            _ => {
                state.last = Some(now);
                Some(std::mem::take(&mut state.left_out))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::{Addresses, LogLimit, PERIOD, Source};

    fn ip(text: &str) -> Source {
        Source::Address(text.parse().unwrap())
    }

    #[test]
    fn each_address_has_as_many_as_it_may() {
        let addresses = Addresses::new(2);
        let one = addresses.count(ip("10.0.0.1")).unwrap();
        let _two = addresses.count(ip("10.0.0.1")).unwrap();
        assert!(addresses.count(ip("10.0.0.1")).is_none());
        assert!(addresses.count(ip("10.0.0.2")).is_some());
        drop(one);
        assert!(addresses.count(ip("10.0.0.1")).is_some());
        // Only those that have any are remembered.
        assert_eq!(addresses.open.lock().len(), 1);
    }

    #[test]
    fn a_user_of_a_unix_socket_counts_as_one() {
        let addresses = Addresses::new(1);
        let _one = addresses.count(Source::User(1000)).unwrap();
        assert!(addresses.count(Source::User(1000)).is_none());
        assert!(addresses.count(Source::User(0)).is_some());
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let addresses = Addresses::new(1);
        let _one = addresses.count(ip("2001:db8::1")).unwrap();
        assert!(addresses.count(ip("2001:db8::ffff:1")).is_none());
        assert!(addresses.count(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn without_a_bound_any_number_is_open() {
        let addresses = Addresses::new(0);
        let all: Vec<_> = (0..100)
            .map(|_| addresses.count(ip("10.0.0.1")).unwrap())
            .collect();
        assert_eq!(all.len(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn one_line_a_minute_says_how_many_were_left_out() {
        let limit = LogLimit::default();
        assert_eq!(limit.next(), Some(0));
        for _ in 0..1000 {
            assert_eq!(limit.next(), None);
        }
        advance(PERIOD).await;
        assert_eq!(limit.next(), Some(1000));
        assert_eq!(limit.next(), None);
        advance(PERIOD).await;
        assert_eq!(limit.next(), Some(1));
    }
}
