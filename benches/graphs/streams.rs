//! Streams to graphs: small requests against single ones, a generator, and streams that are idle.

use std::time::Instant;

use ovms::client::{Answers, Api, Client, Event, Requests};
use tokio::runtime::Runtime;

use super::{
    files::{Node, OUTPUTS},
    request, serve,
};
use crate::{
    jobs::{self, CONCURRENCY, Load},
    peer::Peer,
    process,
    report::Times,
    targets::line,
};

/// Streams that are open and idle.
const IDLE: usize = 500;

/// Streams of one connection: servers of gRPC allow a hundred at least.
const TOGETHER: usize = 50;

/// Measures and prints the targets.
pub(super) fn run(times: &Times) {
    small(times);
    generator(times);
    idle();
}

/// One stream with so many requests under way against as many single requests.
fn small(times: &Times) {
    let (_folder, peer) = serve(Node::Echo);
    let runtime = jobs::runtime();
    let client = jobs::connect(&runtime, &peer);
    let jobs = [vec![request(Node::Echo)]];
    let unary = Load::new(&peer, &runtime, &client, &jobs);
    let (requests, mut answers) = client.stream().expect("KServe has streams");
    let mut stream = || {
        let begun = Instant::now();
        runtime.block_on(exchange(&requests, &mut answers, times.requests));
        times.requests as f64 / begun.elapsed().as_secs_f64()
    };
    // To warm up.
    stream();
    unary.run(times.requests);
    let mut ratios: Vec<f64> = (0..times.slices)
        .map(|slice| {
            if slice % 2 == 0 {
                let one = stream();
                one / unary.run(times.requests).per_second
            } else {
                let other = unary.run(times.requests).per_second;
                stream() / other
            }
        })
        .collect();
    let ratio = median(&mut ratios);
    line(
        &format!(
            "{}: requests/s on one stream with {CONCURRENCY} under way against single requests, as \
             many at once, on one connection",
            Node::Echo.text()
        ),
        "≥ 1.5",
        &format!("{ratio:.2}"),
        ratio >= 1.5,
    );
}

/// Sends requests and takes their answers, with so many under way at once.
async fn exchange(requests: &Requests, answers: &mut Answers<'_>, count: usize) {
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

/// Waits for an answer.
async fn answer(answers: &mut Answers<'_>) {
    match answers.next().await.expect("the stream goes on") {
        Some(Event::Answer(_)) => {}
        other => panic!("expected an answer, got {other:?}"),
    }
}

/// One client that takes what a generator gives, and the same from a bare service.
fn generator(times: &Times) {
    let (_folder, peer) = serve(Node::Generator);
    let bare = Peer::echo();
    let runtime = jobs::runtime();
    let clients = [&peer, &bare].map(|peer| jobs::connect(&runtime, peer));
    let rates = || clients.each_ref().map(|client| generate(&runtime, client));
    // To warm up.
    rates();
    let rounds: Vec<[f64; 2]> = (0..times.slices.min(21)).map(|_| rates()).collect();
    let mut ours: Vec<f64> = rounds.iter().map(|[ours, _]| *ours).collect();
    let mut ratios: Vec<f64> = rounds.iter().map(|[ours, bare]| ours / bare).collect();
    let (rate, ratio) = (median(&mut ours), median(&mut ratios));
    line(
        &format!(
            "a generator of {OUTPUTS} outputs of 4 bytes: responses/s to one client; {ratio:.2} of a \
             bare service that sends as many messages"
        ),
        "≥ 20000",
        &format!("{rate:.0}"),
        rate >= 20_000.0,
    );
}

/// Returns the responses of a second, from the request on.
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

/// Streams that have had an answer and wait.
fn idle() {
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
    line(
        &format!(
            "resident memory of the server for each of {IDLE} streams to a graph of one Python node \
             that are open and idle"
        ),
        "≤ 100 KB",
        &format!("{each:.1} KB"),
        each <= 100.0,
    );
}

/// Opens a stream and has one request answered.
fn open<'a>(runtime: &Runtime, client: &'a Client) -> (Requests, Answers<'a>) {
    let (requests, mut answers) = client.stream().expect("KServe has streams");
    runtime.block_on(exchange(&requests, &mut answers, 1));
    (requests, answers)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
