//! Workers of Python: two against one, the memory of many, and workers that are killed under load.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use futures::future::join_all;
use ovms::client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Notify;

use super::{
    files::{self, Node},
    python::{self, Python},
    request, request_to, serve, serve_many,
};
use crate::{
    jobs::{self, Figure, Load, alternate},
    meter::watched,
    peer::Peer,
    process,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// Graphs whose workers are measured.
const GRAPHS: usize = 20;

/// Workers that are killed.
const KILLS: usize = 100;

/// Workers of one graph that are killed; one that dies more often within a minute starts later.
const OF_ONE: usize = 2;

/// Pairs of turns of a handler that computes, which are long: at the end of each a worker may have nothing to do for as
/// long as the other one computes.
const COMPUTE_PAIRS: usize = 9;

/// Clients of a graph whose worker is killed, and of another one beside it.
const LANES: usize = 4;

/// Time of the load before a kill.
const AHEAD: Duration = Duration::from_millis(20);

/// Time in which an answer of the next worker comes, or the run is over.
const LIMIT: Duration = Duration::from_secs(30);

/// Measures workers.
pub(super) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = watched(|| vec![two(lengths), two_raw(lengths)]);
    rows.extend(killed());
    rows.push(private());
    rows
}

/// Measures a handler that computes in Python alone, with two workers against one.
fn two(lengths: &Lengths) -> Row {
    let (_folder, one) = serve(Node::Compute);
    let (_other, two) = serve_many(Node::Compute, 1, 2);
    let runtime = jobs::runtime();
    let clients = [&two, &one].map(|peer| jobs::connect(&runtime, peer));
    let jobs = [vec![request(Node::Compute)]];
    let loads = [
        Load::new(&two, &runtime, &clients[0], &jobs),
        Load::new(&one, &runtime, &clients[1], &jobs),
    ];
    let count = lengths.requests / 5;
    let turns = lengths.pairs.min(COMPUTE_PAIRS);
    let pairs = jobs::in_turn([&loads[0], &loads[1]], [count; 2], turns);
    pairs.ratio("python-two", Figure::Rate, ["2 workers", "1 worker"])
}

/// Measures two plain processes that compute the same, against one.
fn two_raw(lengths: &Lengths) -> Row {
    let count = lengths.requests / 5;
    let processes = RefCell::new([Python::start(), Python::start()]);
    let turn = |number: usize| python::rate(&mut processes.borrow_mut()[..number], count);
    turn(2);
    let [two, one] = alternate(lengths.pairs.min(COMPUTE_PAIRS), || turn(2), || turn(1));
    let sides = [("2 processes", two), ("1 process", one)];
    let sides = sides.map(|(name, values)| Side::new(name, Unit::PerSecond, values));
    Row::ratio("python-two-raw", sides)
}

/// Measures the memory of idle workers that have answered.
fn private() -> Row {
    let (_folder, peer) = serve_many(Node::Numpy, GRAPHS, 1);
    let runtime = jobs::runtime();
    let client = jobs::connect(&runtime, &peer);
    for index in 0..GRAPHS {
        let jobs = [vec![request_to(&files::name(Node::Numpy, index))]];
        Load::new(&peer, &runtime, &client, &jobs).once();
    }
    let below = |parents: &[u32]| -> Vec<u32> {
        let children = parents.iter().copied().flat_map(process::children);
        children.collect()
    };
    let keepers = below(&[peer.id()]);
    let forking = below(&keepers);
    let workers = below(&forking);
    assert_eq!(workers.len(), GRAPHS, "a worker for each graph");
    let each = workers.into_iter().map(process::private_mb).collect();
    let parents = keepers.into_iter().chain(forking);
    let parents: f64 = parents.map(process::private_mb).sum();
    Row::new("python-private", each).noted(format!("the two above them have {parents:.1} MB"))
}

/// Kills workers under load.
fn killed() -> Vec<Row> {
    let graphs = KILLS.div_ceil(OF_ONE);
    let folder = tempfile::tempdir().expect("a folder for the files");
    let config = files::write_many(folder.path(), Node::Process, graphs, 1);
    let peer = Peer::of_file_unheard(&config);
    let runtime = jobs::runtime();
    let client = jobs::connect(&runtime, &peer);
    let (mut lost, mut longest) = (0, Duration::ZERO);
    for kill in 0..KILLS {
        let names = [kill, kill + 1].map(|index| files::name(Node::Process, index % graphs));
        let kill = runtime.block_on(async {
            let kill = kill_one(&client, &names);
            let kill = tokio::time::timeout(LIMIT, kill).await;
            kill.expect("the next worker answers")
        });
        lost += kill.lost;
        longest = longest.max(kill.restart);
    }
    vec![
        Row::new("python-killed", vec![f64::from(lost)]),
        Row::new("python-restart", vec![longest.as_secs_f64()]),
    ]
}

/// Costs of a kill.
struct Kill {
    /// Requests that failed and were not in flight in the worker.
    lost: u32,
    /// Time until an answer of the next worker.
    restart: Duration,
}

/// Kills the worker of the first of two graphs, both under load, and waits for an answer of the next one.
async fn kill_one(client: &Client, names: &[String; 2]) -> Kill {
    let requests = names.each_ref().map(|name| request_to(name));
    let calls = requests
        .each_ref()
        .map(|request| client.call(request).expect("it has a form"));
    let (worker, killed, restart) = (Cell::new(0), Cell::new(None), Cell::new(None));
    let answered = Notify::new();
    let lanes = (0..2 * LANES).map(async |lane| {
        let graph = lane / LANES;
        let mut failed = 0;
        while restart.get().is_none() {
            let came = match calls[graph].send(lane).await {
                Ok(reply) => reply.read().expect("an answer"),
                Err(_) => {
                    failed += 1;
                    continue;
                }
            };
            if graph == 1 {
                continue;
            }
            let (_, tensor) = came.outputs.first().expect("an output");
            let bytes = tensor.data()[..8].try_into().expect("eight bytes");
            let id = u64::from_le_bytes(bytes);
            match killed.get() {
                None => {
                    worker.set(id);
                    answered.notify_one();
                }
                Some(killed) if worker.get() != id => {
                    restart.set(Some(Instant::elapsed(&killed)));
                }
                Some(_) => {}
            }
        }
        // A client of that graph has had one in flight, which may have failed.
        failed - u32::from(graph == 0).min(failed)
    });
    let killing = async {
        answered.notified().await;
        tokio::time::sleep(AHEAD).await;
        let id = i32::try_from(worker.get()).expect("ids of processes are small");
        let id = Pid::from_raw(id).expect("it has answered");
        killed.set(Some(Instant::now()));
        kill_process(id, Signal::KILL).expect("the worker runs");
    };
    let (lost, ()) = futures::join!(join_all(lanes), killing);
    Kill {
        lost: lost.into_iter().sum(),
        restart: restart.get().expect("the lanes ended with it"),
    }
}
