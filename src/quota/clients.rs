//! The clients that are counted.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    client::{CountedClient, QuotaCounts},
    limits::ClientLimits,
};
use crate::budget::Budget;

/// Identities, and others, that are counted one by one; beyond them, all further ones count as one.
const MAX_CLIENTS: usize = 4096;

/// Time after which a client that has nothing in flight may be forgotten.
const IDLE: Duration = Duration::from_secs(60);

/// Time from one look for clients that may be forgotten to the next.
const SWEEP: Duration = Duration::from_secs(1);

/// A client, by what it is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An identity, and the subject of its token where each counts by itself.
    Identity(Arc<str>, Option<Arc<str>>),
    /// An address of IPv4, or a network of IPv6.
    Address(IpAddr),
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
            Self::Address(_) | Self::User(_) | Self::Others => "".into(),
        }
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(name, None) => f.write_str(name),
            Self::Identity(name, Some(subject)) => write!(f, "{name} ({subject})"),
            Self::Address(address) => address.fmt(f),
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
    /// Addresses and users, which nobody has to have a key for.
    others: Mutex<Known>,
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
            counts,
            all,
            epoch: Instant::now(),
        }
    }

    /// Finds a client; one whose limits have changed begins anew.
    pub fn find(&self, key: &ClientKey, limits: &Arc<ClientLimits>) -> Arc<CountedClient> {
        let mut known = match key {
            ClientKey::Identity(..) => self.identities.lock(),
            _ => self.others.lock(),
        };
        let Known {
            clients,
            others,
            swept,
        } = &mut *known;
        if let Some(client) = clients.get(key).filter(|it| it.limits() == limits) {
            return Arc::clone(client);
        }
        let new = |key: &ClientKey| {
            self.counts.begin(key);
            Arc::new(CountedClient::new(
                key.clone(),
                limits,
                &self.counts,
                &self.all,
            ))
        };
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(key) {
            if swept.is_none_or(|last| last.elapsed() >= SWEEP) {
                *swept = Some(Instant::now());
                clients.retain(|_, it| Arc::strong_count(it) > 1 || it.idle(self.epoch) < IDLE);
            }
            if clients.len() >= MAX_CLIENTS {
                if let Some(client) = others.iter().find(|it| it.limits() == limits) {
                    return Arc::clone(client);
                }
                // Limits that no file has any more.
                others.retain(|it| Arc::strong_count(it) > 1);
                let client = new(&ClientKey::Others);
                others.push(Arc::clone(&client));
                return client;
            }
        }
        let client = new(key);
        clients.insert(key.clone(), Arc::clone(&client));
        client
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
}
