//! Streams to graphs: small requests against single ones, a generator, and idle streams.

use std::time::Instant;

use ovms::client::{Api, Client, RequestSender, ResponseReceiver, StreamEvent};
use tokio::runtime::Runtime;

use super::{
    Beyond,
    files::{Node, OUTPUTS},
    request, serve,
};
use crate::{
    jobs::{self, CONCURRENCY, Load, alternate},
    meter::watched,
    peer::Peer,
    process,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// Number of open, idle streams.
const IDLE: usize = 500;

/// Number of streams per connection; gRPC servers allow at least a hundred.
const TOGETHER: usize = 50;

/// Measures streams.
pub(super) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = watched(|| vec![small(lengths)]);
    for (id, beyond) in [
        ("hop-stream-unary", Beyond::Native),
        ("plain-stream-unary", Beyond::Python),
    ] {
        rows.extend(watched(|| vec![small_hop(id, beyond, lengths)]));
    }
    rows.extend(watched(|| generator(lengths)));
    rows.push(idle());
    rows
}

/// Measures a graph with one stream against single requests.
fn small(lengths: &Lengths) -> Row {
    let (_folder, peer) = serve(Node::Echo);
    against_single("stream-unary", &peer, lengths)
}

/// Measures the same of a bare service that passes each message to another process and back.
fn small_hop(id: &str, beyond: Beyond, lengths: &Lengths) -> Row {
    against_single(id, &Peer::hopping_echo(beyond), lengths)
}

/// Measures one stream with many requests in flight against as many single requests.
fn against_single(id: &str, peer: &Peer, lengths: &Lengths) -> Row {
    let runtime = jobs::runtime();
    let client = jobs::connect(&runtime, peer);
    let jobs = [vec![request(Node::Echo)]];
    let unary = Load::new(peer, &runtime, &client, &jobs);
    let (requests, mut answers) = client.stream().expect("KServe has streams");
    let count = lengths.requests;
    let mut stream = || {
        let begun = Instant::now();
        runtime.block_on(exchange(&requests, &mut answers, count));
        count as f64 / begun.elapsed().as_secs_f64()
    };
    let single = || unary.run(count).per_second;
    // To warm up.
    stream();
    single();
    let [stream, single] = alternate(lengths.pairs, stream, single);
    let sides = [("stream", stream), ("single", single)];
    let sides = sides.map(|(name, values)| Side::new(name, Unit::PerSecond, values));
    Row::ratio(id, sides)
}

/// Sends requests and receives their responses, with a fixed number in flight.
async fn exchange(requests: &RequestSender, answers: &mut ResponseReceiver<'_>, count: usize) {
    let request = request(Node::Echo);
    let room = tokio::sync::Semaphore::new(CONCURRENCY);
    let send = async {
        for _ in 0..count {
            room.acquire().await.expect("it stays open").forget();
            let sent = requests.send(&request).await;
            assert!(sent.expect("it has a form"), "the stream takes requests");
        }
    };
    let take = async {
        for _ in 0..count {
            answer(answers).await;
            room.add_permits(1);
        }
    };
    tokio::join!(send, take);
}

/// Waits for a response.
async fn answer(answers: &mut ResponseReceiver<'_>) {
    match answers.next().await.expect("the stream goes on") {
        Some(StreamEvent::Answer(_)) => {}
        other => panic!("expected an answer, got {other:?}"),
    }
}

/// Measures the responses of a generator, and the same from a bare service.
fn generator(lengths: &Lengths) -> Vec<Row> {
    let (_folder, peer) = serve(Node::Generator);
    let bare = Peer::echo();
    let runtime = jobs::runtime();
    let clients = [&peer, &bare].map(|peer| jobs::connect(&runtime, peer));
    let rate = |index: usize| generate(&runtime, &clients[index]);
    // To warm up.
    rate(0);
    rate(1);
    let [ours, bare] = alternate(lengths.pairs.min(21), || rate(0), || rate(1));
    let sides = [("ovms", ours.clone()), ("bare", bare)];
    let sides = sides.map(|(name, values)| Side::new(name, Unit::PerSecond, values));
    vec![
        Row::new("generator", ours),
        Row::ratio("generator-share", sides),
    ]
}

/// Returns responses per second, counted from the request.
fn generate(runtime: &Runtime, client: &Client) -> f64 {
    runtime.block_on(async {
        let (requests, mut answers) = client.stream().expect("KServe has streams");
        let request = request(Node::Generator);
        let begun = Instant::now();
        let send = async {
            assert!(requests.send(&request).await.expect("it has a form"));
        };
        let take = async {
            for _ in 0..OUTPUTS {
                answer(&mut answers).await;
            }
        };
        tokio::join!(send, take);
        OUTPUTS as f64 / begun.elapsed().as_secs_f64()
    })
}

/// Measures idle streams that have had a response.
fn idle() -> Row {
    let (_folder, peer) = serve(Node::Echo);
    let runtime = jobs::runtime();
    let options = peer.options(Api::KserveGrpc, 1);
    let connect = || runtime.block_on(Client::connect(&options));
    let connect = || connect().expect("the server listens");
    let clients: Vec<Client> = (0..=IDLE / TOGETHER).map(|_| connect()).collect();
    // What comes with the first streams stays.
    let first = clients.last().expect("there is one");
    let _first: Vec<_> = (0..10).map(|_| open(&runtime, first)).collect();
    let before = process::resident_mb(peer.id());
    let streams: Vec<_> = clients
        .iter()
        .take(IDLE / TOGETHER)
        .flat_map(|client| std::iter::repeat_n(client, TOGETHER))
        .map(|client| open(&runtime, client))
        .collect();
    let after = process::resident_mb(peer.id());
    assert_eq!(streams.len(), IDLE);
    let each = (after - before) * 1024.0 / IDLE as f64;
    Row::new("stream-idle", vec![each])
}

/// Opens a stream and waits for the response to one request.
fn open<'a>(runtime: &Runtime, client: &'a Client) -> (RequestSender, ResponseReceiver<'a>) {
    let (requests, mut answers) = client.stream().expect("KServe has streams");
    runtime.block_on(exchange(&requests, &mut answers, 1));
    (requests, answers)
}
