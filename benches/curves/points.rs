//! Points of each curve.

use std::time::Instant;

use ovms::client::{Api, Client, Request, TensorForm};
use serde_json::{Value, json};

use super::Extent;
use crate::{
    Model, TINY, cells,
    jobs::{self, CONCURRENCY, Cost, Load},
    peer::Peer,
    pipelines::{CHAIN_NAME, chain_config, model},
    process,
    report::curve::Point,
    sequences::{Form, Place, each, round, stateful},
};

/// A model that returns its input, of any length.
const COPY: Model = Model {
    name: "passthrough_f32",
    input: "in",
    shape: &[1, 10],
    folder: "fixtures/models/passthrough_f32",
};

/// Calls that the client puts on one connection.
const CALLS_PER_CONNECTION: usize = 16;

/// Number of requests of a turn at least, for a median.
const LEAST: usize = 5;

/// Measures one tiny model with each client on a connection of its own.
pub(super) fn connections(points: &[u64], extent: Extent) -> Vec<Point> {
    let runtime = jobs::runtime();
    let measure = |&count: &u64| {
        let clients = count as usize;
        let peer = Peer::ovms(&TINY);
        let options = peer.options(Api::KserveGrpc, clients * CALLS_PER_CONNECTION);
        let client = runtime.block_on(Client::connect(&options));
        let client = client.expect("the server listens");
        let jobs = [vec![cells::request(&TINY)]];
        let load = Load::new(&peer, &runtime, &client, &jobs).by(clients);
        let (cost, p99) = turns(&load, clients, extent);
        let memory = process::resident_mb(peer.id());
        let figures = vec![cost.per_second, cost.p50_us, p99, cost.cpu_us, memory];
        (count, figures)
    };
    points.iter().map(measure).collect()
}

/// Measures a model that returns its input, with one client.
pub(super) fn bytes(points: &[u64], extent: Extent) -> Vec<Point> {
    let runtime = jobs::runtime();
    let measure = |&bytes: &u64| {
        let request = |form| {
            let elements = bytes as usize / size_of::<f32>();
            let data: Vec<u8> = (0..elements)
                .flat_map(|index| ((index % 251) as f32).to_le_bytes())
                .collect();
            let shape: &[usize] = &[1, elements];
            cells::request_with(&COPY, shape, data, form)
        };
        let cost = |peer: &Peer, api, form| {
            let client = jobs::connect_by(&runtime, peer, api);
            let jobs = [vec![request(form)]];
            let load = Load::new(peer, &runtime, &client, &jobs).alone();
            turns(&load, 1, extent).0
        };
        let peer = Peer::ovms(&COPY);
        let grpc = cost(&peer, Api::KserveGrpc, TensorForm::Bytes);
        let peak = process::peak_mb(peer.id());
        let rest = cost(&peer, Api::KserveRest, TensorForm::Bytes);
        let json = cost(&peer, Api::KserveRest, TensorForm::Values);
        (
            bytes,
            vec![grpc.p50_us, grpc.cpu_us, rest.p50_us, json.p50_us, peak],
        )
    };
    points.iter().map(measure).collect()
}

/// Measures tiny models of one configuration file, which requests name in turn.
pub(super) fn models(points: &[u64], extent: Extent) -> Vec<Point> {
    let runtime = jobs::runtime();
    let measure = |&count: &u64| {
        let names: Vec<String> = (0..count).map(|index| format!("model{index}")).collect();
        let models = names.iter().map(|name| model(name, &TINY, &[], None));
        let config = json!({"model_config_list": models.collect::<Vec<Value>>()});
        let begun = Instant::now();
        let (_folder, peer) = serve(&config);
        let start = begun.elapsed().as_secs_f64();
        let client = jobs::connect(&runtime, &peer);
        let jobs: Vec<_> = names.iter().map(|name| vec![named(name)]).collect();
        let load = Load::new(&peer, &runtime, &client, &jobs);
        // Each has been used, or its memory is not all there.
        load.once();
        let cost = turns(&load, CONCURRENCY, extent).0;
        let memory = process::resident_mb(peer.id());
        (count, vec![start, memory, cost.p50_us, cost.cpu_us])
    };
    points.iter().map(measure).collect()
}

/// Measures steps of sequences in turn, more and more of them on one server.
pub(super) fn sequences(points: &[u64], extent: Extent) -> Vec<Point> {
    let runtime = jobs::runtime();
    let most = points.iter().copied().max().expect("there are points");
    let peer = stateful(most);
    let client = jobs::connect(&runtime, &peer);
    let load = |jobs: &[Vec<Request>]| Load::new(&peer, &runtime, &client, jobs);
    let mut live = 0;
    let measure = |&count: &u64| {
        load(&each(live + 1..=count, Place::Start)).once();
        live = count;
        let steps = load(&round(1..=count, Form::Parameters));
        let clients = CONCURRENCY.min(count as usize);
        let cost = turns(&steps.by(clients), clients, extent).0;
        let memory = process::resident_mb(peer.id());
        (
            count,
            vec![memory, cost.p50_us, cost.cpu_us, cost.per_second],
        )
    };
    points.iter().map(measure).collect()
}

/// Measures chains of tiny models, each node with a model of its own.
pub(super) fn nodes(points: &[u64], extent: Extent) -> Vec<Point> {
    let runtime = jobs::runtime();
    let measure = |&count: &u64| {
        let (_folder, peer) = serve(&chain_config(count as usize));
        let client = jobs::connect(&runtime, &peer);
        let jobs = [vec![named(CHAIN_NAME)]];
        let load = || Load::new(&peer, &runtime, &client, &jobs);
        let one = turns(&load().alone(), 1, extent).0;
        let many = turns(&load(), CONCURRENCY, extent).0;
        let memory = process::resident_mb(peer.id());
        (count, vec![one.p50_us, one.cpu_us, many.per_second, memory])
    };
    points.iter().map(measure).collect()
}

/// Starts the server with a configuration.
fn serve(config: &Value) -> (tempfile::TempDir, Peer) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).expect("the folder is ours");
    let peer = Peer::of_file(&path, &["--file_system_poll_wait_seconds", "0"]);
    (folder, peer)
}

/// Creates a request of ten numbers to a servable.
fn named(name: &str) -> Request {
    let mut request = cells::request(&TINY);
    name.clone_into(&mut request.model.name);
    request
}

/// Runs a load for the turns of a point; returns the turn with the median latency, and the median of
/// the 99th percentiles.
fn turns(load: &Load<'_>, clients: usize, extent: Extent) -> (Cost, f64) {
    let least = LEAST.max(clients);
    // A first look at how many fit into a turn.
    let mut count = least;
    loop {
        let cost = load.run(count);
        let fit = (cost.per_second * extent.seconds) as usize;
        if count * 4 >= fit {
            count = fit.max(least);
            break;
        }
        count *= 4;
    }
    let mut costs: Vec<Cost> = (0..extent.turns).map(|_| load.run(count)).collect();
    costs.sort_by(|one, other| one.p50_us.total_cmp(&other.p50_us));
    let middle = costs.len() / 2;
    let median = costs[middle];
    costs.sort_by(|one, other| one.p99_us.total_cmp(&other.p99_us));
    (median, costs[middle].p99_us)
}
