//! Places for handshakes in progress, of which no network keeps others out.

use std::{collections::HashMap, future::pending, pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout},
};

use crate::frontends::access::Source;

/// Time that a handshake always has once it has a place; after it, it can lose that to another network.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The places of a port. Where there are none left, a newcomer has that of the oldest handshake of the network with the most,
/// if that has more than its own.
#[derive(Debug)]
pub(super) struct HandshakePlaces {
    room: Arc<Semaphore>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    places: HashMap<u64, Holder>,
}

/// A handshake that has a place.
#[derive(Debug)]
struct Holder {
    network: Source,
    since: Instant,
    permit: OwnedSemaphorePermit,
    /// Closed once another has the place.
    _lost: oneshot::Sender<()>,
}

/// The place of a handshake, until this is dropped.
#[derive(Debug)]
pub(super) struct HandshakePlace {
    places: Arc<HandshakePlaces>,
    number: u64,
    lost: oneshot::Receiver<()>,
}

impl HandshakePlaces {
    /// Makes so many.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            taken: Mutex::default(),
        })
    }

    /// Waits for a place for a client.
    pub(super) async fn enter(self: &Arc<Self>, source: Source) -> HandshakePlace {
        let network = source.network();
        // It keeps its turn among those that wait.
        let mut turn = pin!(Arc::clone(&self.room).acquire_owned());
        let mut again = Duration::ZERO;
        loop {
            match timeout(again, &mut turn).await {
                Ok(Ok(permit)) => return self.take(network, permit),
                // It is never closed.
                Ok(Err(_)) => pending().await,
                Err(_) => {}
            }
            again = match self.oust(network) {
                Ok(permit) => return self.take(network, permit),
                Err(again) => again,
            };
        }
    }

    fn take(self: &Arc<Self>, network: Source, permit: OwnedSemaphorePermit) -> HandshakePlace {
        let (sender, lost) = oneshot::channel();
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        taken.places.insert(
            number,
            Holder {
                network,
                since: Instant::now(),
                permit,
                _lost: sender,
            },
        );
        drop(taken);
        HandshakePlace {
            places: Arc::clone(self),
            number,
            lost,
        }
    }

    /// Takes the place of another network, or returns the time after which to look again.
    fn oust(&self, network: Source) -> Result<OwnedSemaphorePermit, Duration> {
        let mut taken = self.taken.lock();
        let mut held: HashMap<Source, usize> = HashMap::new();
        for holder in taken.places.values() {
            *held.entry(holder.network).or_default() += 1;
        }
        let own = held.get(&network).copied().unwrap_or_default();
        let most = held.values().copied().max().unwrap_or_default();
        if most <= own {
            return Err(GRACE);
        }
        let of_most = taken.places.iter();
        let of_most = of_most.filter(|(_, holder)| held.get(&holder.network) == Some(&most));
        let oldest = of_most.min_by_key(|(_, holder)| holder.since);
        let Some((number, since)) = oldest.map(|(number, holder)| (*number, holder.since)) else {
            return Err(GRACE);
        };
        match GRACE.saturating_sub(since.elapsed()) {
            Duration::ZERO => {
                let holder = taken.places.remove(&number);
                holder.map(|holder| holder.permit).ok_or(GRACE)
            }
            left => Err(left),
        }
    }
}

impl HandshakePlace {
    /// Waits until the place is another's.
    pub(super) async fn lost(&mut self) {
        // Nothing is ever sent.
        drop((&mut self.lost).await);
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        self.places.taken.lock().places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures::FutureExt as _;
    use tokio::time::{advance, sleep};

    use super::*;

    fn source(number: u32) -> Source {
        Source::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_has_the_oldest_place_of_the_network_with_the_most() {
        let places = HandshakePlaces::new(4);
        let mut other = places.enter(source(2)).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            advance(GRACE / 8).await;
            held.push(places.enter(source(1)).await);
        }
        let began = Instant::now();
        let mut third = places.enter(source(3)).await;
        assert_eq!(began.elapsed(), GRACE * 3 / 4, "the oldest has its time");
        assert!(held[0].lost().now_or_never().is_some());
        assert!(held[1].lost().now_or_never().is_none());
        assert!(other.lost().now_or_never().is_none());
        assert!(third.lost().now_or_never().is_none());
        assert_eq!(places.taken.lock().places.len(), 4);
        drop(held.remove(0));
        assert_eq!(places.taken.lock().places.len(), 4, "it has none to return");
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_takes_no_place_from_one_that_has_as_few() {
        let places = HandshakePlaces::new(2);
        let one = places.enter(source(1)).await;
        let _two = places.enter(source(2)).await;
        advance(2 * GRACE).await;
        let again = timeout(10 * GRACE, places.enter(source(1))).await;
        assert!(again.is_err());
        let waiting = places.enter(source(1));
        let freed = async {
            sleep(GRACE / 2).await;
            drop(one);
        };
        let (_again, ()) = tokio::join!(waiting, freed);
        assert_eq!(places.taken.lock().places.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_new_networks_keeps_nobody_out() {
        let places = HandshakePlaces::new(8);
        let mut held = Vec::new();
        for number in 10..18 {
            held.push(places.enter(source(number)).await);
        }
        let began = Instant::now();
        let _place = places.enter(source(1)).await;
        assert_eq!(began.elapsed(), GRACE);
    }
}
