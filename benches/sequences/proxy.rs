//! Cost of a step through HAProxy: over replicas that share a store, against the same request without a sequence through
//! the same HAProxy.

use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ovms::client::{Address, Api, Client, ClientOptions, EncodedRequest, Request, SEQUENCE};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{
    Form, Place, request, serve,
    store::{Redis, p50, with_store},
};
use crate::{
    cells,
    jobs::alternate,
    meter::watched,
    peer::{Peer, free_ports},
    process,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// Way of HAProxy to the server that a sequence stays with.
const HELD: &str = "hdr(ovms-sequence-id)\n    hash-type consistent";

/// Rows, each with the number of its sequence and how HAProxy chooses a server.
const ROWS: [(&str, u64, &str); 2] = [
    ("sequences-proxy-step", 1, "roundrobin"),
    ("sequences-proxy-held", 2, HELD),
];

/// Row of bare services that write to Redis against those that do nothing.
const BARE: (&str, u64) = ("sequences-proxy-echo", 3);

/// Number of servers behind it.
const REPLICAS: usize = 3;

/// Measures a step of one sequence through HAProxy, in turn over the servers and with one that it stays with.
pub(super) fn run(runtime: &Runtime, lengths: &Lengths) -> Vec<Row> {
    let fleet = Redis::start().and_then(|redis| {
        let program = process::tool("haproxy").ok_or("no haproxy in target/tools/bin or PATH")?;
        let with = [(); REPLICAS].map(|()| with_store(&redis.url(), "step"));
        let without = [(); REPLICAS].map(|()| serve(&[]));
        Ok((redis, program, with, without))
    });
    let measure = |(id, sequence, balance)| -> Result<Row, String> {
        let (_, program, with, without) = fleet.as_ref().map_err(String::clone)?;
        let proxy = Proxy::start(program, balance, [with, without])?;
        Ok(row(runtime, lengths, &proxy, (id, sequence)))
    };
    let bare = || -> Result<Row, String> {
        let (redis, program, ..) = fleet.as_ref().map_err(String::clone)?;
        let with = [(); REPLICAS].map(|()| Peer::storing_echo(redis.port()));
        let without = [(); REPLICAS].map(|()| Peer::echo());
        let proxy = Proxy::start(program, HELD, [&with, &without])?;
        let (id, sequence) = BARE;
        let clients = proxy.ports.map(|port| connect(runtime, port, sequence));
        let plain = cells::request(&super::VAD);
        let calls = [0, 1].map(|side: usize| call(&clients[side], &plain));
        Ok(compared(runtime, lengths, id, &calls))
    };
    let or_missing =
        |id, row: Result<Row, String>| vec![row.unwrap_or_else(|reason| Row::missing(id, &reason))];
    let rows = ROWS.into_iter();
    let mut rows: Vec<Row> = rows
        .flat_map(|it| watched(|| or_missing(it.0, measure(it))))
        .collect();
    rows.extend(watched(|| or_missing(BARE.0, bare())));
    rows
}

/// Measures steps of a sequence against requests without.
fn row(runtime: &Runtime, lengths: &Lengths, proxy: &Proxy, (id, sequence): (&str, u64)) -> Row {
    let clients = proxy.ports.map(|port| connect(runtime, port, sequence));
    let [start, next] =
        [Place::Start, Place::Next].map(|place| request(sequence, place, Form::Parameters));
    let plain = cells::request(&super::VAD);
    p50(runtime, &[call(&clients[0], &start)], 1);
    let calls = [call(&clients[0], &next), call(&clients[1], &plain)];
    compared(runtime, lengths, id, &calls)
}

fn call<'a>(client: &'a Client, request: &Request) -> EncodedRequest<'a> {
    client.call(request).expect("it has a form")
}

/// Measures the first of two requests against the second.
fn compared(
    runtime: &Runtime,
    lengths: &Lengths,
    id: &str,
    [with, without]: &[EncodedRequest<'_>; 2],
) -> Row {
    let [with, without] = [with, without].map(std::slice::from_ref);
    let count = lengths.requests / 4;
    for calls in [with, without] {
        p50(runtime, calls, count);
    }
    let [with, without] = alternate(
        lengths.pairs,
        || p50(runtime, with, count),
        || p50(runtime, without, count),
    );
    let side = |name, values| Side::new(name, Unit::Micros, values);
    Row::difference(id, [side("with", with), side("without", without)])
}

/// Connects to a port of HAProxy, with the header by which it may choose a server.
fn connect(runtime: &Runtime, port: u16, sequence: u64) -> Client {
    let api = Api::KserveGrpc;
    let options = ClientOptions {
        address: Address::parse(&format!("127.0.0.1:{port}"), api).expect("a valid address"),
        api,
        timeout: Duration::from_secs(60),
        headers: [(SEQUENCE, sequence.into())].into_iter().collect(),
        concurrency: 1,
        tls: None,
    };
    let client = runtime.block_on(Client::connect(&options));
    client.expect("HAProxy listens")
}

/// HAProxy with a port for servers with sequences, and one for those without; killed on drop.
struct Proxy {
    child: Child,
    ports: [u16; 2],
    _folder: TempDir,
}

impl Proxy {
    fn start(
        program: &std::path::Path,
        balance: &str,
        sides: [&[Peer; REPLICAS]; 2],
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder for its file");
        let ports = free_ports();
        let mut text = include_str!("haproxy.cfg").replace("@BALANCE@", balance);
        let sides = [
            ("with", ports[0], sides[0]),
            ("without", ports[1], sides[1]),
        ];
        for (name, port, peers) in sides {
            let mut add = |line: String| text.extend([line, "\n".to_owned()]);
            add(format!("\nlisten {name}"));
            add(format!("    bind 127.0.0.1:{port} proto h2"));
            for (place, peer) in peers.iter().enumerate() {
                let port = peer.port();
                add(format!("    server s{place} 127.0.0.1:{port} proto h2"));
            }
        }
        let path = folder.path().join("haproxy.cfg");
        fs::write(&path, text).expect("the folder is ours");
        let child = Command::new(program)
            .args(["-db", "-q", "-f"])
            .arg(&path)
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let proxy = Self {
            child,
            ports,
            _folder: folder,
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", ports[1])).is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                return Err("haproxy does not listen within 10 s".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(proxy)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
