//! Answers of the store that are lost or late: what is asked again has not happened twice, nor to another sequence.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use super::{
    AWAY, LONG, LOST, MODEL, NONE, SOON, STEP, alone, ask, lose, path, refused, serve, start, step,
};
use crate::support::{
    Server, eventually, http,
    redis::Redis,
    relay::Relay,
    sequence::{Ask, Client, Wire, infer, of_infer},
    wire,
};

/// Ids of live sequences.
const LIVE: &str = "ovms:{running%5Ftotal}:live";

/// Parameter with an idempotency key.
const KEY: &str = "idempotency_key";

/// Time after which a test has failed.
const MAX_WAIT: Duration = Duration::from_secs(60);

fn address(relay: &Relay) -> String {
    format!("redis://127.0.0.1:{}", relay.port)
}

/// Returns where the answer of a script with this first word begins.
fn answer(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let word = bytes.windows(word.len()).position(|some| some == word)?;
    bytes[..word].iter().rposition(|byte| *byte == b'*')
}

/// A way to the store on which answers of scripts with this first word are lost, for as long as it is set so.
fn losing(redis: &Redis, word: &'static [u8]) -> (Relay, Arc<AtomicBool>) {
    let loses = Arc::new(AtomicBool::new(false));
    let lose = Arc::clone(&loses);
    let relay = Relay::changing(redis.port, move |bytes| {
        if lose.load(Ordering::Relaxed)
            && let Some(place) = answer(bytes, word)
        {
            // A number, with which the connection is given up.
            bytes[place] = b':';
        }
    });
    (relay, loses)
}

/// A way to the store on which one answer is held up, if wanted, until the test lets it go.
struct Held {
    relay: Relay,
    wanted: Arc<AtomicBool>,
    held: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Held {
    fn to(redis: &Redis, is_it: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        let wanted = Arc::new(AtomicBool::new(false));
        let (holds, held) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let ways = Mutex::new((holds, goes));
        let hold = Arc::clone(&wanted);
        let relay = Relay::changing(redis.port, move |bytes| {
            if is_it(bytes) && hold.swap(false, Ordering::Relaxed) {
                let (holds, goes) = &*ways.lock().unwrap();
                holds.send(()).unwrap();
                let _ = goes.recv_timeout(MAX_WAIT);
            }
        });
        Self {
            relay,
            wanted,
            held,
            go,
        }
    }

    fn hold(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    fn wait(&self) {
        self.held.recv_timeout(MAX_WAIT).expect("it is asked for");
    }

    fn let_go(&self) {
        self.go.send(()).unwrap();
    }
}

#[test]
fn a_start_whose_answer_is_lost_begins_one_sequence() {
    let redis = found!(Redis::start(&[]));
    let loses = Arc::new(AtomicBool::new(false));
    let lose = Arc::clone(&loses);
    let relay = Relay::changing(redis.port, move |bytes| {
        if let Some(place) = answer(bytes, b"begun")
            && lose.swap(false, Ordering::Relaxed)
        {
            // A number, with which the connection is given up.
            bytes[place] = b':';
        }
    });
    for flags in [&STEP[..], &LONG, &NONE] {
        redis.ask::<()>("FLUSHALL");
        let [server]: [Server; 1] = serve(MODEL, &address(&relay), flags);
        let client = Client::connect(&server);
        let begin = || Ask::new(MODEL, 1.0).start();
        let asks = [
            ask(7).start(),
            ask(8).start().key("a"),
            begin().key("b"),
            begin(),
        ];
        for ask in &asks {
            loses.store(true, Ordering::Relaxed);
            let (id, total) = client.total(Wire::Raw, ask);
            assert!(!loses.load(Ordering::Relaxed), "an answer was lost");
            assert_eq!(total, 1.0, "{flags:?} {ask:?}");
            assert_eq!(step(&client, id), 2.0, "{flags:?} {ask:?}");
        }
        assert_eq!(redis.ask::<usize>(&format!("ZCARD {LIVE}")), asks.len());
        let tokens = redis.ask::<Vec<String>>("KEYS ovms:*:t:*");
        let [token] = &tokens[..] else {
            panic!("{tokens:?}");
        };
        let rest = redis.ask::<i64>(&format!("PTTL {token}"));
        // The limit of a call, which is ten seconds, and a minute in which it can be taken back.
        assert!((60_001..=70_000).contains(&rest), "{rest}");
    }
}

#[test]
fn a_start_of_which_nothing_was_heard_is_taken_back() {
    let redis = found!(Redis::start(&[]));
    let (relay, loses) = losing(&redis, b"begun");
    for flags in [&STEP[..], &LONG] {
        redis.ask::<()>("FLUSHALL");
        let flags = [flags, &SOON].concat();
        let [server]: [Server; 1] = serve(MODEL, &address(&relay), &flags);
        let client = Client::connect(&server);
        let live = || redis.ask::<usize>(&format!("ZCARD {LIVE}"));
        // One by itself, by which Redis has the scripts: an answer of another call in place of that of a script that is
        // being loaded ends a debug build of the client of Redis.
        loses.store(true, Ordering::Relaxed);
        let first = client.tfs.grpc.call(infer(&ask(9).start(), true));
        assert!(first.wait().is_err());
        loses.store(false, Ordering::Relaxed);
        eventually("it is gone", || (live() == 0).then_some(()));
        let begin = Ask::new(MODEL, 1.0).start();
        let asks = [
            ask(7).start(),
            ask(8).start().parameter(KEY, "a"),
            begin.clone().parameter(KEY, "b"),
            begin,
        ];
        loses.store(true, Ordering::Relaxed);
        let calls = asks
            .each_ref()
            .map(|ask| client.tfs.grpc.call(infer(ask, true)));
        for call in calls {
            let away = call.wait().unwrap_err();
            assert_eq!(format!("{:?}: {}", away.code(), away.message()), AWAY);
        }
        loses.store(false, Ordering::Relaxed);
        for ask in &asks {
            let (id, total) = client.total(Wire::Raw, ask);
            assert_eq!(total, 1.0, "{flags:?} {ask:?}");
            assert_eq!(step(&client, id), 2.0, "{flags:?} {ask:?}");
        }
        // Nobody asks again for the one with neither id nor key.
        eventually("those that nobody has are gone", || {
            (live() == asks.len()).then_some(())
        });
    }
}

#[test]
fn a_state_that_could_not_be_stored_may_be_sent_again() {
    let redis = found!(Redis::start(&[]));
    let (relay, loses) = losing(&redis, b"stored");
    for flags in [&STEP[..], &LONG] {
        redis.ask::<()>("FLUSHALL");
        let flags = [flags, &SOON].concat();
        let [server]: [Server; 1] = serve(MODEL, &address(&relay), &flags);
        let client = Client::connect(&server);
        start(&client, 7);
        let file = http::get(&server, &path(7)).body;
        let put = || http::send(&server, "PUT", &path(8), &[], &file).status;
        loses.store(true, Ordering::Relaxed);
        assert_eq!(put(), 503, "{flags:?}");
        loses.store(false, Ordering::Relaxed);
        assert_eq!(put(), 201, "{flags:?}");
        assert_eq!(step(&client, 8), 2.0);
    }
}

#[test]
fn a_start_that_is_sent_again_elsewhere_before_it_has_its_turn_is_one() {
    let redis = found!(Redis::start(&[]));
    let held = Held::to(&redis, |bytes| answer(bytes, b"begun").is_some());
    let other = Relay::to(redis.port);
    let [first]: [Server; 1] = serve(MODEL, &address(&held.relay), &LONG);
    let [second]: [Server; 1] = serve(MODEL, &address(&other), &LONG);
    let clients = [&first, &second].map(Client::connect);
    let begin = infer(&Ask::new(MODEL, 1.0).start().parameter(KEY, "k"), true);
    held.hold();
    let early = clients[0].tfs.grpc.call(begin.clone());
    held.wait();
    let again = clients[1].tfs.grpc.call(begin);
    eventually("the first server is asked for it", || {
        let (sent, model) = (other.sent(), MODEL.as_bytes());
        let asks = |some: &[u8]| some.ends_with(model) && some.contains(&b' ');
        let mut lines = sent.split(|byte| *byte == b'\r');
        lines.any(asks).then_some(())
    });
    held.let_go();
    let [early, again] = [early, again].map(|call| of_infer(&call.wait().unwrap()).total());
    assert_eq!((early.1, again), (1.0, early));
    assert_eq!(step(&clients[0], early.0), 2.0);
}

#[test]
fn a_start_whose_client_has_left_leaves_no_sequence() {
    let redis = found!(Redis::start(&[]));
    let held = Held::to(&redis, |bytes| answer(bytes, b"begun").is_some());
    for flags in [&STEP[..], &LONG] {
        let [server]: [Server; 1] = serve(MODEL, &address(&held.relay), flags);
        held.hold();
        let start = infer(&Ask::new(MODEL, 1.0).start(), true);
        let start = wire::Call::infer(&start).within("300m");
        let answers = wire::send(&server, &[start]);
        let late = answers[0].as_ref().unwrap_err();
        assert_eq!(late.code(), tonic::Code::DeadlineExceeded, "{late}");
        held.wait();
        assert_eq!(redis.ask::<usize>(&format!("ZCARD {LIVE}")), 1);
        held.let_go();
        eventually("it is given up", || {
            let live = redis.ask::<usize>(&format!("ZCARD {LIVE}"));
            (live == 0).then_some(())
        });
    }
}

#[test]
fn a_sequence_is_not_taken_from_an_owner_that_has_come_after_the_one_that_is_gone() {
    let redis = found!(Redis::start(&[]));
    let (first, lease) = alone(&redis, 7);
    lose(first, &redis, &lease);
    // A number by itself is that of servers with the name, of which there is none.
    let is_none = |bytes: &[u8]| {
        let is_line = |at: usize| at == 0 || bytes[at - 1] == b'\n';
        (0..bytes.len()).any(|at| is_line(at) && bytes[at..].starts_with(b":0\r\n"))
    };
    let held = Held::to(&redis, is_none);
    let [second] = serve(MODEL, &redis.url(), &LONG);
    let [third] = serve(MODEL, &address(&held.relay), &LONG);
    let clients = [&second, &third].map(Client::connect);
    held.hold();
    let late = clients[1].tfs.grpc.call(infer(&ask(7), true));
    held.wait();
    // It knows that the owner is gone, and meanwhile there is another one.
    assert_eq!(refused(&clients[0], 7), LOST);
    start(&clients[0], 7);
    held.let_go();
    let late = of_infer(&late.wait().unwrap());
    assert_eq!(late.total(), (7, 2.0));
    assert_eq!(step(&clients[0], 7), 3.0);
}
