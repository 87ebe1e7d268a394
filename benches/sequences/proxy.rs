//! Cost of a step through HAProxy: over replicas that share a store, against the same request without a sequence through
//! the same HAProxy.

use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ovms::client::{Address, Api, Client, ClientOptions, SEQUENCE};
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

/// Rows, each with the number of its sequence and how HAProxy chooses a server.
const ROWS: [(&str, u64, &str); 2] = [
    ("sequences-proxy-step", 1, "roundrobin"),
    (
        "sequences-proxy-held",
        2,
        "hdr(ovms-sequence-id)\n    hash-type consistent",
    ),
];

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
    let measure = |(id, sequence, balance)| {
        let (_, program, with, without) = fleet.as_ref().map_err(String::clone)?;
        let proxy = Proxy::start(program, balance, [with, without])?;
        Ok(row(runtime, lengths, &proxy, (id, sequence)))
    };
    let rows = ROWS.into_iter().flat_map(|it| {
        watched(|| {
            let row = measure(it);
            vec![row.unwrap_or_else(|reason: String| Row::missing(it.0, &reason))]
        })
    });
    rows.collect()
}

/// Measures steps of a sequence against requests without.
fn row(runtime: &Runtime, lengths: &Lengths, proxy: &Proxy, (id, sequence): (&str, u64)) -> Row {
    let clients = proxy.ports.map(|port| connect(runtime, port, sequence));
    let [start, next] =
        [Place::Start, Place::Next].map(|place| request(sequence, place, Form::Parameters));
    let plain = cells::request(&super::VAD);
    let call = |side: usize, request| [clients[side].call(request).expect("it has a form")];
    p50(runtime, &call(0, &start), 1);
    let (with, without) = (call(0, &next), call(1, &plain));
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
