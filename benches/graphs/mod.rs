//! Cost of graphs: a Python node against a bare echo service, streams against single requests, a
//! generator, idle streams, workers that are killed; and in one process, large tensors on their way to Python and
//! from there, and nodes that do nothing.

mod files;
mod hop;
mod process;
mod python;
mod streams;
mod workers;

use std::path::{Path, PathBuf};

use ovms::client::{Request, TensorForm};
use tempfile::TempDir;

pub(crate) use self::hop::{Beyond, SharedHop, answer};
use self::{files::Node, hop::Hop};
use crate::{
    Model,
    awake::Awake,
    cells, inside,
    jobs::{self, Figure, Load, Pairs},
    meter::watched,
    peer::Peer,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// Measures graphs in this process, Python nodes, and streams.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let pairs = lengths.pairs.to_string();
    // In a process of its own with Python, of which nothing is left here.
    let mut rows = inside::rows(&["graphs".as_ref(), pairs.as_ref()]);
    let awake = Awake::start();
    for node in [Node::Echo, Node::Numpy] {
        rows.extend(echo(node, lengths));
    }
    for (beyond, name) in [(Beyond::Native, "hop"), (Beyond::Python, "plain")] {
        rows.extend(hop(beyond, name, lengths));
    }
    rows.extend(streams::run(lengths));
    // Calls of workers are long, and which processor takes one depends on which of them rest.
    drop(awake);
    rows.extend(workers::run(lengths));
    rows
}

/// Measures the parts that need no server.
pub(crate) fn in_process(pairs: usize) -> Vec<Row> {
    process::run(pairs)
}

/// Measures a graph of one Python node against a bare echo service.
fn echo(node: Node, lengths: &Lengths) -> Vec<Row> {
    let (_folder, peer) = serve(node);
    against_echo(&peer, node, node.name(), "graph", lengths)
}

/// Measures what a service that passes each request to another process adds to the bare one.
fn hop(beyond: Beyond, name: &str, lengths: &Lengths) -> Vec<Row> {
    let peer = Peer::hopping_echo(beyond);
    let mut rows = against_echo(&peer, Node::Echo, name, "a hop", lengths);
    rows.retain(|row| !row.id.ends_with("p50-1"));
    rows
}

/// Measures a service, whose name is `side` in the rows, against the bare echo.
fn against_echo(peer: &Peer, node: Node, name: &str, side: &str, lengths: &Lengths) -> Vec<Row> {
    let bare = Peer::echo();
    let runtime = jobs::runtime();
    let (ours, bares) = (
        jobs::connect(&runtime, peer),
        jobs::connect(&runtime, &bare),
    );
    let jobs = [vec![request(node)]];
    let load = || Load::new(peer, &runtime, &ours, &jobs);
    let bare = || Load::new(&bare, &runtime, &bares, &jobs);
    let id = |figure: &str| format!("python-{name}-{figure}");
    let sides = [side, "echo"];
    let mut hop = Hop::start();
    let mut rows = watched(|| {
        let (ours, bare, count) = (load().alone(), bare().alone(), lengths.requests / 4);
        // What is made at first is there afterwards.
        ours.run(count);
        bare.run(count);
        hop.p50_us(count);
        let mut hops = Vec::new();
        let pairs = Pairs(jobs::alternate(
            lengths.pairs,
            || ours.run(count),
            || {
                hops.push(hop.p50_us(count));
                bare.run(count)
            },
        ));
        let mut added = pairs.difference(&id("added"), Figure::P50, sides);
        for (value, hop) in added.values.iter_mut().zip(&hops) {
            *value -= hop;
        }
        added
            .sides
            .push(Side::new("a message and back", Unit::Micros, hops));
        vec![pairs.ratio(&id("p50-1"), Figure::P50, sides), added]
    });
    rows.extend(watched(|| {
        let pairs = jobs::in_turn([&load(), &bare()], [lengths.requests; 2], lengths.pairs);
        let mut row = pairs.ratio(&id("share-16"), Figure::Rate, sides);
        let cpu = format!("CPU a request: {side}");
        let cpu = pairs.sides(Figure::Cpu, [&cpu, "echo"]);
        row.sides.extend(cpu);
        vec![row]
    }));
    rows
}

/// Writes a graph whose node returns its input; returns the configuration file and a request.
pub(crate) fn echoing(folder: &Path) -> (PathBuf, Request) {
    (files::write(folder, Node::Echo), request(Node::Echo))
}

/// Starts a server with one graph of one node.
fn serve(node: Node) -> (TempDir, Peer) {
    serve_many(node, 1, 1)
}

/// Starts a server with graphs of one node, each with so many workers.
fn serve_many(node: Node, graphs: usize, workers: usize) -> (TempDir, Peer) {
    let folder = tempfile::tempdir().expect("a folder for the files");
    let config = files::write_many(folder.path(), node, graphs, workers);
    let peer = Peer::of_file(&config, &["--file_system_poll_wait_seconds", "0"]);
    (folder, peer)
}

/// Creates a request of ten numbers.
fn request(node: Node) -> Request {
    request_to(node.name())
}

/// Creates a request of ten numbers to a graph.
fn request_to(graph: &str) -> Request {
    let model = Model {
        name: "",
        input: files::INPUT,
        shape: &[1, 10],
        folder: "",
    };
    let data = (0..10_u8).flat_map(|number| f32::from(number).to_le_bytes());
    let mut request = cells::request_of(&model, data.collect(), TensorForm::Bytes);
    request.model.name = graph.to_owned();
    request
}
