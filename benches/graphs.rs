//! What graphs cost: a Python node against a bare echo service, streams against single requests, a
//! generator, streams that are idle; and in one process, a large input on its way to Python and nodes
//! that do nothing.

mod files;
mod inside;
mod streams;

use std::process::Command;

use ovms::client::{Form, Request};
use tempfile::TempDir;

use self::files::Node;
use crate::{
    Model, cells,
    jobs::{self, Load},
    peer::Peer,
    report::Times,
    targets::line,
};

/// Measures and prints the targets.
pub(crate) fn run(times: &Times) {
    // What is in one process with Python is in a process of its own, of which nothing is left here.
    let measured = Command::new(std::env::current_exe().expect("a program has a path"))
        .arg("graphs")
        .arg(times.slices.to_string())
        .status()
        .expect("the program starts again");
    assert!(measured.success());
    for (node, least) in [(Node::Echo, 0.6), (Node::Numpy, 0.5)] {
        echo(node, least, times);
    }
    streams::run(times);
}

/// Measures and prints what needs no server.
pub(crate) fn in_process(slices: usize) {
    inside::run(slices);
}

/// A graph of one Python node against a bare echo service.
fn echo(node: Node, least: f64, times: &Times) {
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
    let alone = times.requests / 4;
    let [added] = jobs::in_turn(
        [&load().alone(), &bare().alone()],
        [alone; 2],
        times.slices,
        |ours, bare| [ours.p50_us - bare.p50_us],
    );
    line(
        &format!(
            "{}: p50 latency that a graph of one Python node adds to the bare echo service, gRPC, \
             concurrency 1",
            node.text()
        ),
        "≤ 60 µs",
        &format!("{added:.0} µs"),
        added <= 60.0,
    );
    let [ratio, cpu] = jobs::in_turn(
        [&load(), &bare()],
        [times.requests; 2],
        times.slices,
        |ours, bare| [ours.per_second / bare.per_second, ours.cpu_us - bare.cpu_us],
    );
    line(
        &format!(
            "{}: requests/s of a graph of one Python node against the bare echo service, gRPC, \
             concurrency {}; server CPU time {cpu:+.0} µs a request",
            node.text(),
            jobs::CONCURRENCY
        ),
        &format!("≥ {least}"),
        &format!("{ratio:.3}"),
        ratio >= least,
    );
}

/// Starts a server with one graph of one node.
fn serve(node: Node) -> (TempDir, Peer) {
    let folder = tempfile::tempdir().expect("a folder for the files");
    let config = files::write(folder.path(), node);
    let peer = Peer::of_file(&config, &["--file_system_poll_wait_seconds", "0"]);
    (folder, peer)
}

/// Makes a request of ten numbers.
fn request(node: Node) -> Request {
    let model = Model {
        name: node.name(),
        input: files::INPUT,
        shape: &[1, 10],
        folder: "",
    };
    let data = (0..10_u8).flat_map(|number| f32::from(number).to_le_bytes());
    cells::request_of(&model, data.collect(), Form::Bytes)
}
