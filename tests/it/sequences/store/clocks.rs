//! Servers whose clocks differ, as far as they have any: a server asks the store for the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use super::{LONG, LOST, MODEL, STEP, ask, refused, serve, start, step};
use crate::support::{
    redis::Redis,
    relay::Relay,
    sequence::{Client, Wire},
};

/// Seconds by which clocks are off: more than leases, and than unused sequences are kept.
const HOURS: i64 = 7200;

/// Answer to `TIME`, up to its ten digits of seconds.
const TIME: &[u8] = b"*2\r\n$10\r\n";

/// A way to a store, on which its time is wrong.
struct Off {
    relay: Relay,
    changed: Arc<AtomicUsize>,
}

impl Off {
    fn by(seconds: i64, redis: &Redis) -> Self {
        let changed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&changed);
        let relay = Relay::changing(redis.port, move |bytes| {
            let found = bytes.windows(TIME.len()).position(|it| it == TIME);
            let digits = found.and_then(|at| bytes.get_mut(at + TIME.len()..at + TIME.len() + 10));
            let Some(digits) = digits else { return };
            let time = std::str::from_utf8(digits).ok();
            if let Some(time) = time.and_then(|it| it.parse::<i64>().ok()) {
                digits.copy_from_slice((time + seconds).to_string().as_bytes());
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { relay, changed }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.relay.port)
    }
}

#[test]
fn clocks_that_are_hours_apart_change_nothing() {
    const LEASE: Duration = Duration::from_secs(5);
    let redis = found!(Redis::start(&[]));
    let ways = [-HOURS, HOURS].map(|seconds| Off::by(seconds, &redis));
    for flags in [&STEP[..], &LONG] {
        redis.ask::<()>("FLUSHALL");
        let [behind] = serve(MODEL, &ways[0].url(), flags);
        let [mut ahead] = serve(MODEL, &ways[1].url(), flags);
        let [right] = serve(MODEL, &redis.url(), flags);
        let clients = [&behind, &ahead, &right].map(Client::connect);
        // In turn, and each takes over from each.
        start(&clients[0], 1);
        let order = [1, 2, 0, 2, 1, 0];
        for (place, total) in order.into_iter().zip(2_u8..) {
            assert_eq!(step(&clients[place], 1), f32::from(total), "{place}");
        }
        // Whoever lives is known to, also after the time of a lease.
        start(&clients[1], 2);
        sleep(LEASE + LEASE / 5);
        for (place, total) in [(0, 2.0), (1, 3.0), (2, 4.0), (1, 5.0)] {
            assert_eq!(step(&clients[place], 2), total, "{place}");
        }
        // One that is killed is found out, whatever time it has said.
        drop(clients);
        ahead.signal("KILL");
        ahead.wait();
        let clients = [&behind, &right].map(Client::connect);
        if flags == STEP {
            assert_eq!(step(&clients[0], 2), 6.0);
        } else {
            assert_eq!(refused(&clients[0], 2), LOST);
            start(&clients[1], 2);
        }
        assert_eq!(clients[1].total(Wire::Raw, &ask(1).end()), (1, 8.0));
    }
    for way in &ways {
        assert!(
            way.changed.load(Ordering::Relaxed) > 10,
            "it gets the wrong time"
        );
    }
}
