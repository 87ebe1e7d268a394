//! Cost of a store: a step that is answered once its state is stored, against one without a store.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ovms::client::{Client, EncodedRequest};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};

use super::{Form, Place, USUAL, request, serve, stateful};
use crate::{
    jobs::{self, alternate},
    meter::watched,
    peer::{Peer, free_ports},
    process,
    report::{
        row::{Row, Side, Unit},
        stats::median,
    },
    run::Lengths,
};

/// A row: its id, the durability, and the number of servers that the steps of the sequence go to in turn.
type Measure = (&'static str, &'static str, usize);

/// Rows with Redis.
const WITH_REDIS: [Measure; 4] = [
    ("sequences-store-step", "step", 1),
    ("sequences-store-hop", "step", 2),
    ("sequences-store-interval", "interval", 1),
    ("sequences-store-none", "none", 1),
];

/// Row of what no store in Redis is without.
const ROUND_TRIP: &str = "sequences-store-redis";

/// Size of a state in bytes.
const STATE: usize = 1024;

/// Measures a step of one sequence with each store.
pub(super) fn run(runtime: &Runtime, lengths: &Lengths) -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a folder for the store");
    let redis = Redis::start();
    let mut rows = match &redis {
        Ok(redis) => watched(|| vec![Row::new(ROUND_TRIP, redis.round_trips(lengths))]),
        Err(reason) => vec![Row::missing(ROUND_TRIP, reason)],
    };
    for (id, measure) in (1..).zip(WITH_REDIS) {
        rows.extend(match &redis {
            Ok(redis) => watched(|| vec![row(runtime, lengths, measure, id, &redis.url())]),
            Err(reason) => vec![Row::missing(measure.0, reason)],
        });
    }
    let files = format!("file://{}", folder.path().display());
    let of_files = ("sequences-store-file", "step", 1);
    rows.extend(watched(|| vec![row(runtime, lengths, of_files, 1, &files)]));
    rows
}

/// Measures steps of a sequence that go to so many servers in turn, against those to one without a
/// store.
fn row(
    runtime: &Runtime,
    lengths: &Lengths,
    (name, durability, replicas): Measure,
    id: u64,
    url: &str,
) -> Row {
    let with: Vec<Peer> = (0..replicas).map(|_| with_store(url, durability)).collect();
    let without = [stateful(USUAL)];
    let sides = [&with[..], &without].map(|peers| -> Vec<Client> {
        peers
            .iter()
            .map(|peer| jobs::connect(runtime, peer))
            .collect()
    });
    let [first, next] =
        [Place::Start, Place::Next].map(|place| request(id, place, Form::Parameters));
    let step = |side: usize| -> Vec<EncodedRequest<'_>> {
        let clients = sides[side].iter();
        clients
            .map(|client| client.call(&next).expect("it has a form"))
            .collect()
    };
    for clients in &sides {
        let start = clients[0].call(&first).expect("it has a form");
        p50(runtime, &[start], 1);
    }
    let [with, without] = [0, 1].map(step);
    let count = lengths.requests / 4;
    for calls in [&with, &without] {
        p50(runtime, calls, count);
    }
    let [with, without] = alternate(
        lengths.pairs,
        || p50(runtime, &with, count),
        || p50(runtime, &without, count),
    );
    let side = |name, values| Side::new(name, Unit::Micros, values);
    Row::difference(name, [side("with", with), side("without", without)])
}

/// Serves the model with a store.
pub(super) fn with_store(url: &str, durability: &str) -> Peer {
    serve(&[
        "--stateful",
        "--sequence_cleaner_poll_wait_minutes",
        "0",
        "--sequence_store",
        url,
        "--sequence_durability",
        durability,
    ])
}

/// Sends requests one after the other, to each server in turn; returns the median of their times.
pub(super) fn p50(runtime: &Runtime, calls: &[EncodedRequest<'_>], count: usize) -> f64 {
    runtime.block_on(async {
        let mut took = Vec::with_capacity(count);
        for call in calls.iter().cycle().take(count) {
            let sent = Instant::now();
            call.send(0).await.expect("it is answered");
            took.push(sent.elapsed().as_secs_f64() * 1e6);
        }
        median(&took)
    })
}

/// A Redis server that writes its log each second; killed on drop.
pub(super) struct Redis {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    /// Starts it, or says why there is none.
    pub(super) fn start() -> Result<Self, String> {
        let program =
            process::tool("redis-server").ok_or("no redis-server in target/tools/bin or PATH")?;
        let folder = tempfile::tempdir().expect("a folder for its log");
        let [port] = free_ports();
        let child = Command::new(&program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", "everysec", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let redis = Self {
            child,
            port,
            _folder: folder,
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                return Err("redis-server does not listen within 10 s".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    /// Writes values of the size of a state, one after the other; returns the medians of their times in microseconds.
    fn round_trips(&self, lengths: &Lengths) -> Vec<f64> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_nodelay(true).expect("a socket has options");
        let command = set_command();
        let mut set = || {
            let sent = Instant::now();
            stream.write_all(command.as_bytes()).expect("it reads");
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).expect("it answers");
            assert_eq!(&answer, b"+OK\r\n");
            sent.elapsed().as_secs_f64() * 1e6
        };
        let mut turn = || median(&(0..lengths.requests / 4).map(|_| set()).collect::<Vec<_>>());
        turn();
        (0..lengths.pairs).map(|_| turn()).collect()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command that writes a value of the size of a state.
fn set_command() -> String {
    let value = "x".repeat(STATE);
    format!("*3\r\n$3\r\nSET\r\n$5\r\nstate\r\n${STATE}\r\n{value}\r\n")
}

/// A connection of a bare service to Redis, which its requests take in turn.
pub(crate) struct RedisConnection {
    stream: tokio::sync::Mutex<tokio::net::TcpStream>,
    command: String,
}

impl RedisConnection {
    /// Connects to a port of loopback.
    pub(crate) async fn open(port: u16) -> Self {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        let stream = stream.expect("it listens");
        stream.set_nodelay(true).expect("a socket has options");
        Self {
            stream: stream.into(),
            command: set_command(),
        }
    }

    /// Writes a value of the size of a state, and waits for the answer.
    pub(crate) async fn set(&self) {
        let mut stream = self.stream.lock().await;
        let sent = stream.write_all(self.command.as_bytes()).await;
        sent.expect("it reads");
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.expect("it answers");
        assert_eq!(&answer, b"+OK\r\n");
    }
}
