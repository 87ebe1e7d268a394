//! How many connections each address has.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// The bits of an IPv6 address that tell networks from each other; a client may have all addresses
/// of its network.
const NETWORK: u128 = u128::MAX << 64;

/// Counts connections, if there is a bound.
#[derive(Debug, Clone)]
pub(super) struct Addresses(Option<Arc<Bounded>>);

#[derive(Debug)]
struct Bounded {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that is counted.
#[derive(Debug)]
pub(super) struct Counted(Option<(Arc<Bounded>, IpAddr)>);

impl Addresses {
    pub(super) fn new(most: Option<usize>) -> Self {
        Self(most.map(|most| {
            Arc::new(Bounded {
                most,
                open: Mutex::default(),
            })
        }))
    }

    /// Counts a connection; `None` if its address has as many as it may.
    pub(super) fn count(&self, address: IpAddr) -> Option<Counted> {
        let Some(bounded) = &self.0 else {
            return Some(Counted(None));
        };
        let address = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        };
        // A count cannot be left half done.
        let mut all = bounded.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = all.entry(address).or_default();
        if *open >= bounded.most {
            return None;
        }
        *open += 1;
        Some(Counted(Some((Arc::clone(bounded), address))))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((bounded, address)) = &self.0 else {
            return;
        };
        let mut all = bounded.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = all.get_mut(address) {
            *open -= 1;
            if *open == 0 {
                all.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Addresses;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_address_has_as_many_as_it_may() {
        let addresses = Addresses::new(Some(2));
        let one = addresses.count(ip("10.0.0.1")).unwrap();
        let _two = addresses.count(ip("10.0.0.1")).unwrap();
        assert!(addresses.count(ip("10.0.0.1")).is_none());
        assert!(addresses.count(ip("10.0.0.2")).is_some());
        drop(one);
        assert!(addresses.count(ip("10.0.0.1")).is_some());
        // Only those that have any are remembered.
        assert_eq!(addresses.0.unwrap().open.lock().unwrap().len(), 1);
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let addresses = Addresses::new(Some(1));
        let _one = addresses.count(ip("2001:db8::1")).unwrap();
        assert!(addresses.count(ip("2001:db8::ffff:1")).is_none());
        assert!(addresses.count(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn without_a_bound_nothing_is_counted() {
        let addresses = Addresses::new(None);
        let all: Vec<_> = (0..100)
            .map(|_| addresses.count(ip("10.0.0.1")).unwrap())
            .collect();
        assert_eq!(all.len(), 100);
    }
}
