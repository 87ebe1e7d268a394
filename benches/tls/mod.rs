//! TLS of the server against TLS that nginx ends in front of a server without it, and against none.

mod client;
mod proxy;

use std::{
    cell::Cell,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use rustls::ClientConfig;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{
    INPUT_600K, Model,
    jobs::{self, CONCURRENCY, Cost, Figure, Pairs, alternate, cost},
    meter::watched,
    peer::Peer,
    process,
    report::row::Row,
    run::Lengths,
};

use self::{client::Connection, proxy::Nginx};

/// Requests of 600 KB in a turn: half a second or less.
const LARGE: usize = 250;

/// Names of the sides of all rows with nginx.
const SIDES: [&str; 2] = ["ovms", "nginx and ovms"];

/// Measures requests over kept connections, and handshakes.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let files = Files::new();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| files.folder.path().join(name));
    let [cert_text, key_text] = [&cert, &key].map(|path| path.display().to_string());
    // Of the REST port alone, so that readiness is asked for as of other servers.
    let flags = [
        "--rest_tls",
        "--tls_cert",
        &cert_text,
        "--tls_key",
        &key_text,
    ];
    let ours = Peer::ovms_with(&INPUT_600K, &flags);
    let plain = Peer::ovms(&INPUT_600K);
    let nginx = Nginx::start(&cert, &key, plain.rest_port());
    let request = request(&INPUT_600K);
    let runtime = jobs::runtime();
    let kept = |port, tls, ids| Kept::new(&runtime, &request, port, tls, ids);
    let count = LARGE.min(lengths.requests);
    let ours_kept = || kept(ours.rest_port(), Some(&files.tls), vec![ours.id()]);

    let mut rows = match &nginx {
        Ok(nginx) => watched(|| {
            let ids = [nginx.ids(), vec![plain.id()]].concat();
            let before = kept(nginx.port(), Some(&files.tls), ids);
            let pairs = in_turn([ours_kept(), before], count, lengths);
            let row = pairs.ratio("tls-cpu", Figure::Cpu, SIDES);
            vec![row.noted(client::NEGOTIATED.to_owned())]
        }),
        Err(reason) => vec![Row::missing("tls-cpu", reason)],
    };
    rows.extend(watched(|| {
        let without = kept(plain.rest_port(), None, vec![plain.id()]);
        let pairs = in_turn([ours_kept(), without], count, lengths);
        vec![pairs.ratio("tls-plain-cpu", Figure::Cpu, ["TLS", "plaintext"])]
    }));
    let names = ["tls-handshakes", "tls-handshake-cpu"];
    rows.extend(match &nginx {
        Ok(nginx) => watched(|| handshakes(&ours, nginx, &files.tls, lengths)),
        Err(reason) => names.map(|name| Row::missing(name, reason)).into(),
    });
    rows
}

/// A certificate of this machine, its key, and the settings of clients that trust it.
struct Files {
    folder: TempDir,
    tls: Arc<ClientConfig>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the files");
        // Of ECDSA with P-256, which is what the crate makes.
        let made = rcgen::generate_simple_self_signed([client::HOST.to_owned()]);
        let made = made.expect("a valid name");
        for (name, text) in [
            ("cert.pem", made.cert.pem()),
            ("key.pem", made.signing_key.serialize_pem()),
        ] {
            fs::write(folder.path().join(name), text).expect("the folder is ours");
        }
        let tls = client::config(made.cert.der().clone());
        Self { folder, tls }
    }
}

/// Makes the bytes of a request over REST, its tensor as binary data.
fn request(model: &Model) -> Vec<u8> {
    let elements: usize = model.shape.iter().product();
    let data = (0..elements).flat_map(|index| ((index % 251) as f32).to_le_bytes());
    let json = serde_json::json!({
        "inputs": [{
            "name": model.input,
            "shape": model.shape,
            "datatype": "FP32",
            "parameters": {"binary_data_size": elements * 4},
        }],
        "parameters": {"binary_data_output": true},
    })
    .to_string();
    let head = format!(
        "POST /v2/models/{}/infer HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\n\
         Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n{json}",
        model.name,
        client::HOST,
        json.len(),
        json.len() + elements * 4
    );
    head.into_bytes().into_iter().chain(data).collect()
}

/// Returns the processor time of processes together.
fn cpu(ids: &[u32]) -> Duration {
    ids.iter().map(|&id| process::cpu(id)).sum()
}

/// A load over connections that are kept, to a port that some processes serve.
struct Kept<'a> {
    runtime: &'a Runtime,
    request: &'a [u8],
    connections: Vec<Connection>,
    ids: Vec<u32>,
}

impl<'a> Kept<'a> {
    fn new(
        runtime: &'a Runtime,
        request: &'a [u8],
        port: u16,
        tls: Option<&Arc<ClientConfig>>,
        ids: Vec<u32>,
    ) -> Self {
        let connections = (0..CONCURRENCY).map(|_| Connection::open(port, tls));
        Self {
            connections: runtime.block_on(join_all(connections)),
            runtime,
            request,
            ids,
        }
    }

    /// Sends so many requests.
    fn run(&mut self, count: usize) -> Cost {
        let sent = Cell::new(0);
        let before = cpu(&self.ids);
        let begun = Instant::now();
        let took = self.runtime.block_on(async {
            let clients = self.connections.iter_mut().map(async |connection| {
                let mut took = Vec::new();
                while sent.get() < count {
                    sent.set(sent.get() + 1);
                    let begun = Instant::now();
                    connection.send(self.request).await;
                    took.push(begun.elapsed());
                }
                took
            });
            join_all(clients).await.concat()
        });
        cost(took, begun.elapsed(), cpu(&self.ids) - before)
    }
}

/// Runs two loads in turn, after one turn of each that does not count.
fn in_turn(mut loads: [Kept<'_>; 2], count: usize, lengths: &Lengths) -> Pairs {
    for load in &mut loads {
        load.run(count);
    }
    let [one, other] = &mut loads;
    Pairs(alternate(
        lengths.pairs,
        || one.run(count),
        || other.run(count),
    ))
}

/// Measures full handshakes, by clients on as many threads as there are cores, so that the machine has nothing left to give.
fn handshakes(ours: &Peer, nginx: &Nginx, tls: &Arc<ClientConfig>, lengths: &Lengths) -> Vec<Row> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("threads can be had");
    let count = lengths.requests / 4;
    let sides = [
        (ours.rest_port(), vec![ours.id()]),
        (nginx.port(), nginx.ids()),
    ];
    let turn = |side: usize| {
        let (port, ids) = &sides[side];
        shake(&runtime, *port, ids, tls, count)
    };
    turn(0);
    turn(1);
    let pairs = Pairs(alternate(lengths.pairs, || turn(0), || turn(1)));
    let names = ["ovms", "nginx"];
    vec![
        pairs.ratio("tls-handshakes", Figure::Rate, names),
        pairs.ratio("tls-handshake-cpu", Figure::Cpu, names),
    ]
}

/// Makes so many handshakes.
fn shake(runtime: &Runtime, port: u16, ids: &[u32], tls: &Arc<ClientConfig>, count: usize) -> Cost {
    let taken = Arc::new(AtomicUsize::new(0));
    let before = cpu(ids);
    let begun = Instant::now();
    let clients = (0..CONCURRENCY).map(|_| {
        let (tls, taken) = (Arc::clone(tls), Arc::clone(&taken));
        runtime.spawn(async move {
            let mut took = Vec::new();
            while taken.fetch_add(1, Ordering::Relaxed) < count {
                let begun = Instant::now();
                client::handshake(port, &tls).await;
                took.push(begun.elapsed());
            }
            took
        })
    });
    let clients: Vec<_> = clients.collect();
    let took = runtime.block_on(join_all(clients));
    let took = took.into_iter().flat_map(|took| took.expect("none fails"));
    let took = took.collect();
    cost(took, begun.elapsed(), cpu(ids) - before)
}
