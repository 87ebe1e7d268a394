//! Cost of graphs: a Python node against a bare echo service, streams against single requests, a
//! generator, idle streams; and in one process, a large input on its way to Python and nodes that do
//! nothing.

mod files;
mod process;
mod streams;

use ovms::client::{Request, TensorForm};
use tempfile::TempDir;

use self::files::Node;
use crate::{
    Model, cells, inside,
    jobs::{self, Figure, Load},
    meter::watched,
    peer::Peer,
    report::row::Row,
    run::Lengths,
};

/// Measures graphs in this process, Python nodes, and streams.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let pairs = lengths.pairs.to_string();
    // In a process of its own with Python, of which nothing is left here.
    let mut rows = inside::rows(&["graphs".as_ref(), pairs.as_ref()]);
    for node in [Node::Echo, Node::Numpy] {
        rows.extend(echo(node, lengths));
    }
    rows.extend(streams::run(lengths));
    rows
}

/// Measures the parts that need no server.
pub(crate) fn in_process(pairs: usize) -> Vec<Row> {
    process::run(pairs)
}

/// Measures a graph of one Python node against a bare echo service.
fn echo(node: Node, lengths: &Lengths) -> Vec<Row> {
    let (_folder, peer) = serve(node);
    let bare = Peer::echo();
    let runtime = jobs::runtime();
    let (ours, bares) = (
        jobs::connect(&runtime, &peer),
        jobs::connect(&runtime, &bare),
    );
    let jobs = [vec![request(node)]];
    let load = || Load::new(&peer, &runtime, &ours, &jobs);
    let bare = || Load::new(&bare, &runtime, &bares, &jobs);
    let id = |figure: &str| format!("python-{}-{figure}", node.name());
    let sides = ["graph", "echo"];
    let mut rows = watched(|| {
        let loads = [&load().alone(), &bare().alone()];
        let pairs = jobs::in_turn(loads, [lengths.requests / 4; 2], lengths.pairs);
        vec![
            pairs.ratio(&id("p50-1"), Figure::P50, sides),
            pairs.difference(&id("added"), Figure::P50, sides),
        ]
    });
    rows.extend(watched(|| {
        let pairs = jobs::in_turn([&load(), &bare()], [lengths.requests; 2], lengths.pairs);
        let mut row = pairs.ratio(&id("share-16"), Figure::Rate, sides);
        let cpu = pairs.sides(Figure::Cpu, ["CPU a request: graph", "echo"]);
        row.sides.extend(cpu);
        vec![row]
    }));
    rows
}

/// Starts a server with one graph of one node.
fn serve(node: Node) -> (TempDir, Peer) {
    let folder = tempfile::tempdir().expect("a folder for the files");
    let config = files::write(folder.path(), node);
    let peer = Peer::of_file(&config, &["--file_system_poll_wait_seconds", "0"]);
    (folder, peer)
}

/// Creates a request of ten numbers.
fn request(node: Node) -> Request {
    let model = Model {
        name: node.name(),
        input: files::INPUT,
        shape: &[1, 10],
        folder: "",
    };
    let data = (0..10_u8).flat_map(|number| f32::from(number).to_le_bytes());
    cells::request_of(&model, data.collect(), TensorForm::Bytes)
}
