//! The clients that are counted.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    client::{CountedClient, QuotaCounts},
    limits::ClientLimits,
};
use crate::budget::Budget;

/// Identities, addresses of IPv4 and users, and networks of IPv6 that are counted one by one, each. Beyond them, networks of
/// IPv6 count by site, as many again, and all further ones as one.
const MAX_CLIENTS: usize = 4096;

/// Time after which a client that has nothing in flight may be forgotten, at least.
const IDLE: Duration = Duration::from_secs(60);

/// The same at most, however long it takes until it may send as much at once as a new one.
const MAX_IDLE: Duration = Duration::from_secs(3600);

/// Time from one look for clients that may be forgotten to the next.
const SWEEP: Duration = Duration::from_secs(1);

/// A client, by what it is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An identity, and the subject of its token where each counts by itself.
    Identity(Arc<str>, Option<Arc<str>>),
    /// An address of IPv4, or a network of IPv6.
    Address(IpAddr),
    /// The networks of a site of IPv6 that have no place of their own, by its first address.
    Site(Ipv6Addr),
    /// A user of this machine, over a Unix socket.
    User(u32),
    /// All clients that have no place of their own.
    Others,
}

impl ClientKey {
    /// Returns the name of the identity; empty if it is none.
    pub(super) fn name(&self) -> Arc<str> {
        match self {
            Self::Identity(name, _) => Arc::clone(name),
            Self::Address(_) | Self::Site(_) | Self::User(_) | Self::Others => "".into(),
        }
    }
}

/// The bits that tell sites of IPv6 from each other, which may have thousands of networks (RFC 6177).
const SITE: u128 = u128::MAX << 80;

/// Returns the first address of the site that an address is in, if it is one of IPv6.
pub(crate) fn site_of(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits() & SITE)),
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(name, None) => f.write_str(name),
            Self::Identity(name, Some(subject)) => write!(f, "{name} ({subject})"),
            Self::Address(address) => address.fmt(f),
            Self::Site(site) => write!(f, "further networks of {site}/48 together"),
            Self::User(user) => write!(f, "the user with id {user}"),
            Self::Others => f.write_str("all clients together that have no place in the table"),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    clients: HashMap<ClientKey, Arc<CountedClient>>,
    /// Counts shared by all clients without a place of their own, one for each set of limits.
    others: Vec<Arc<CountedClient>>,
    /// Time of the last look for those that may go.
    swept: Option<Instant>,
}

/// All clients that have limits.
#[derive(Debug)]
pub struct Clients {
    identities: Mutex<Known>,
    /// Addresses of IPv4 and users, which nobody has to have a key for.
    others: Mutex<Known>,
    /// Networks of IPv6, of which anyone may have thousands.
    networks: Mutex<Known>,
    /// Their sites; locked after them.
    sites: Mutex<Known>,
    counts: Arc<QuotaCounts>,
    /// Budget of all clients together.
    all: Budget,
    epoch: Instant,
}

impl Clients {
    /// Makes none; their bytes count for a budget as well.
    pub fn new(counts: Arc<QuotaCounts>, all: Budget) -> Self {
        Self {
            identities: Mutex::default(),
            others: Mutex::default(),
            networks: Mutex::default(),
            sites: Mutex::default(),
            counts,
            all,
            epoch: Instant::now(),
        }
    }

    /// Finds a client; one whose limits have changed begins anew.
    pub fn find(&self, key: &ClientKey, limits: &Arc<ClientLimits>) -> Arc<CountedClient> {
        let mut known = match key {
            ClientKey::Identity(..) => self.identities.lock(),
            ClientKey::Address(IpAddr::V6(_)) => self.networks.lock(),
            _ => self.others.lock(),
        };
        if let Some(client) = self.find_in(&mut known, key, limits) {
            return client;
        }
        if let ClientKey::Address(address) = key
            && let Some(site) = site_of(*address)
            && let Some(client) =
                self.find_in(&mut self.sites.lock(), &ClientKey::Site(site), limits)
        {
            return client;
        }
        let others = &mut known.others;
        if let Some(client) = others.iter().find(|it| it.limits() == limits) {
            return Arc::clone(client);
        }
        // Limits that no file has any more.
        others.retain(|it| Arc::strong_count(it) > 1);
        let client = self.begin(&ClientKey::Others, limits);
        others.push(Arc::clone(&client));
        client
    }

    /// Finds a client that has a place of its own, or gives it one, if there is any.
    fn find_in(
        &self,
        known: &mut Known,
        key: &ClientKey,
        limits: &Arc<ClientLimits>,
    ) -> Option<Arc<CountedClient>> {
        let Known { clients, swept, .. } = known;
        if let Some(client) = clients.get(key).filter(|it| it.limits() == limits) {
            return Some(Arc::clone(client));
        }
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(key) {
            if swept.is_none_or(|last| last.elapsed() >= SWEEP) {
                *swept = Some(Instant::now());
                // What was sent at once counts until it could be sent again.
                let most = |it: &CountedClient| it.limits().recovery().clamp(IDLE, MAX_IDLE);
                clients.retain(|_, it| Arc::strong_count(it) > 1 || it.idle(self.epoch) < most(it));
            }
            if clients.len() >= MAX_CLIENTS {
                return None;
            }
        }
        let client = self.begin(key, limits);
        clients.insert(key.clone(), Arc::clone(&client));
        Some(client)
    }

    /// Makes a client that has nothing yet.
    fn begin(&self, key: &ClientKey, limits: &Arc<ClientLimits>) -> Arc<CountedClient> {
        self.counts.begin(key);
        let (counts, all) = (&self.counts, &self.all);
        Arc::new(CountedClient::new(key.clone(), limits, counts, all))
    }

    /// Notes that a client has sent a request.
    pub fn seen(&self, client: &CountedClient) {
        client.seen(self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: usize) -> ClientKey {
        let number = u32::try_from(number).unwrap();
        ClientKey::Address(Ipv4Addr::from_bits(number).into())
    }

    fn limits(text: &str) -> Arc<ClientLimits> {
        Arc::new(text.parse().unwrap())
    }

    #[test]
    fn a_client_is_the_same_until_its_limits_change() {
        let clients = Clients::new(Arc::default(), Budget::default());
        let one = clients.find(&address(1), &limits("streams=1"));
        assert!(Arc::ptr_eq(
            &one,
            &clients.find(&address(1), &limits("streams=1"))
        ));
        assert!(!Arc::ptr_eq(
            &one,
            &clients.find(&address(2), &limits("streams=1"))
        ));
        assert!(!Arc::ptr_eq(
            &one,
            &clients.find(&address(1), &limits("streams=2"))
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_has_a_bound() {
        let clients = Clients::new(Arc::default(), Budget::default());
        let limits = limits("streams=1");
        let held = clients.find(&address(0), &limits);
        for number in 1..2 * MAX_CLIENTS {
            clients.find(&address(number), &limits);
        }
        assert_eq!(clients.others.lock().clients.len(), MAX_CLIENTS);
        let identity = ClientKey::Identity("camera".into(), None);
        let camera = clients.find(&identity, &limits);
        assert!(Arc::ptr_eq(&camera, &clients.find(&identity, &limits)));
        assert_eq!(
            clients.identities.lock().clients.len(),
            1,
            "it has a place of its own"
        );
        let other = clients.find(&address(3 * MAX_CLIENTS), &limits);
        assert!(Arc::ptr_eq(
            &other,
            &clients.find(&address(3 * MAX_CLIENTS + 1), &limits)
        ));
        assert_eq!(clients.others.lock().others.len(), 1);
        drop(other);
        tokio::time::advance(IDLE).await;
        clients.find(&address(3 * MAX_CLIENTS), &limits);
        assert_eq!(clients.others.lock().clients.len(), 2);
        assert!(Arc::ptr_eq(&held, &clients.find(&address(0), &limits)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_remembered_until_it_could_be_sent_again() {
        let clients = Clients::new(Arc::default(), Budget::default());
        let limits = limits("requests_per_second=0.1,burst=20");
        let first = clients.find(&address(0), &limits);
        clients.seen(&first);
        let held = first;
        let first = Arc::downgrade(&held);
        drop(held);
        for number in 1..MAX_CLIENTS {
            clients.find(&address(number), &limits);
        }
        tokio::time::advance(2 * IDLE).await;
        assert!(clients.find(&address(MAX_CLIENTS), &limits).is_shared());
        assert!(first.upgrade().is_some());
        tokio::time::advance(2 * IDLE).await;
        assert!(!clients.find(&address(MAX_CLIENTS), &limits).is_shared());
        assert!(first.upgrade().is_none());
    }

    #[test]
    fn a_site_of_ipv6_fills_the_table_of_nobody_else() {
        let clients = Clients::new(Arc::default(), Budget::default());
        let limits = limits("streams=1");
        let network = |site: u128, network: u128| {
            let bits = (0x2001_0db8 << 96) | (site << 80) | (network << 64);
            ClientKey::Address(IpAddr::V6(bits.into()))
        };
        for number in 0..2 * MAX_CLIENTS as u128 {
            clients.find(&network(1, number), &limits);
        }
        assert_eq!(clients.networks.lock().clients.len(), MAX_CLIENTS);
        assert_eq!(clients.sites.lock().clients.len(), 1);
        let rest = clients.find(&network(1, 0xffff), &limits);
        let refused = format!("{rest:?}");
        assert!(refused.contains("Site(2001:db8:1::)"), "{refused}");
        assert!(rest.is_shared(), "it is looked for again");
        let other = clients.find(&network(2, 0), &limits);
        assert!(!Arc::ptr_eq(&rest, &other));
        assert!(!clients.find(&address(1), &limits).is_shared());
    }
}
