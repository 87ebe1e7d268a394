//! What pipelines cost: a chain against the same models run one after the other, a demultiplexer
//! against requests beside each other, and splitting and gathering against a copy; all against raw
//! OpenVINO in one process. Then a chain in the server against a client that makes its calls itself.

mod bytes;
mod raw;
mod served;

use std::{path::Path, process::Command, time::Instant};

use ovms::{
    client::{Form, Request},
    openvino::runtime,
    request::{Data, Declared, InferRequest, InputTensor},
    tensor::DataType,
};
use serde_json::{Value, json};

use self::{
    raw::{Chain, Parts, Step},
    served::{Served, model, node, pipeline},
};
use crate::{
    Model, TINY, cells,
    jobs::{self, Load},
    peer::Peer,
    report::{Times, places},
    targets::line,
};

/// Nodes of the chain.
const CHAIN: usize = 5;

/// Parts that a request is split into.
const PARTS: usize = 64;

/// Requests of one turn of the chain: some 50 ms.
const CHAINS: usize = 1000;

/// Requests of one turn of the demultiplexer.
const SPLITS: usize = 1;

/// The time of the model that parts run, in microseconds.
const BUSY_US: f64 = 1000.0;

/// A model that runs for as long as its first input says.
const BUSY: Model = Model {
    name: "busy",
    input: "x",
    shape: &[64, 64],
    folder: "fixtures/models/busy",
};

/// A model that gives what it takes.
const COPY: Model = Model {
    name: "passthrough_f32",
    input: "in",
    // 600 KB.
    shape: &[1, 150_528],
    folder: "fixtures/models/passthrough_f32",
};

/// Measures and prints the targets.
pub(crate) fn run(library: &Path, times: &Times) {
    // What is in one process with raw OpenVINO is in a process of its own, of which nothing is left
    // here.
    let measured = Command::new(std::env::current_exe().expect("a program has a path"))
        .arg("pipelines")
        .arg(library)
        .arg(times.slices.to_string())
        .status()
        .expect("the program starts again");
    assert!(measured.success());
    clients(times);
}

/// Measures and prints what needs no server.
pub(crate) fn in_process(library: &str, slices: usize) {
    runtime::open(&places()).expect("the runtime opens");
    chain(library, slices);
    bytes::run(slices);
    parts(library, slices);
    copies(library, slices);
}

/// A chain of tiny models against the same models one after the other.
fn chain(library: &str, slices: usize) {
    let served = Served::new(&chain_config());
    let mut raw = Chain::new(library, &TINY, CHAIN);
    let data = numbers(&TINY);
    let request = request(&[(TINY.input, DataType::F32, &[1, 10], data.clone())]);
    let added = in_turn(slices, |side| match side {
        Side::Raw => median_us(CHAINS, || {
            std::hint::black_box(raw.run(&data));
        }),
        Side::Ours => served.median_us("chain", &request, CHAINS),
    });
    let mut added: Vec<f64> = added
        .into_iter()
        .map(|(ours, raw)| (ours - raw) / CHAIN as f64)
        .collect();
    let added = median(&mut added);
    line(
        &format!(
            "{}: time of a chain of {CHAIN} beyond that of the same models one after the other with \
             raw OpenVINO, in one process, for each node",
            TINY.name
        ),
        "≤ 15 µs",
        &format!("{added:.1} µs"),
        added <= 15.0,
    );
}

/// A demultiplexer before a model of a millisecond against requests beside each other.
fn parts(library: &str, slices: usize) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let streams = cores.to_string();
    // As many streams as threads, and as many infer requests.
    let properties = [
        ("NUM_STREAMS", streams.as_str()),
        ("INFERENCE_NUM_THREADS", streams.as_str()),
    ];
    let steps = steps(library, &properties);
    let x = numbers(&BUSY);
    let mut raw = Parts::new(library, &BUSY, &properties, PARTS);
    let config = split_config(
        model(BUSY.name, &BUSY, &properties, Some(cores)),
        &["steps", "x"],
        "y",
    );
    let served = Served::new(&config);
    let request = request(&[
        ("steps", DataType::I64, &[PARTS, 1], steps.repeat(PARTS)),
        ("x", DataType::F32, &[PARTS, 64, 64], x.repeat(PARTS)),
    ]);
    let both = in_turn(slices, |side| match side {
        Side::Raw => median_us(SPLITS, || {
            std::hint::black_box(raw.run(&[("steps", &steps), ("x", &x)]));
        }),
        Side::Ours => served.median_us("split", &request, SPLITS),
    });
    let usual = median(&mut both.iter().map(|(_, raw)| *raw).collect::<Vec<_>>());
    let mut ratios: Vec<f64> = both.into_iter().map(|(ours, raw)| raw / ours).collect();
    let ratio = median(&mut ratios);
    line(
        &format!(
            "{}: throughput of a demultiplexer with {PARTS} branches against {PARTS} raw requests \
             beside each other, {cores} streams on both sides, {:.2} ms for each on a stream",
            BUSY.name,
            usual * cores as f64 / PARTS as f64 / 1e3
        ),
        "≥ 0.95",
        &format!("{ratio:.3}"),
        ratio >= 0.95,
    );
}

/// Returns how many steps of the model take the time that is asked for.
fn steps(library: &str, properties: &[(&str, &str)]) -> Vec<u8> {
    const TRIAL: i64 = 200;
    let mut step = Step::new(library, &BUSY, properties);
    let x = numbers(&BUSY);
    let mut time = |steps: i64| {
        let steps = steps.to_le_bytes();
        median_us(200, || step.run(&[("steps", &steps), ("x", &x)]))
    };
    time(TRIAL);
    let steps = TRIAL as f64 * BUSY_US / time(TRIAL);
    (steps as i64).to_le_bytes().to_vec()
}

/// 600 KB for each branch through a model that gives what it takes, against the same with raw
/// OpenVINO, which has each result copied to its place in the whole.
fn copies(library: &str, slices: usize) {
    let properties = [("NUM_STREAMS", "1"), ("INFERENCE_NUM_THREADS", "1")];
    let config = split_config(
        model(COPY.name, &COPY, &properties, Some(1)),
        &["in"],
        "out",
    );
    let served = Served::new(&config);
    let mut raw = Step::new(library, &COPY, &properties);
    let data = numbers(&COPY);
    let whole = data.repeat(PARTS);
    let shape = [PARTS, 1, COPY.shape[1]];
    let request = request(&[("in", DataType::F32, &shape, whole.clone())]);
    let mut copied = Vec::with_capacity(slices);
    let both = in_turn(slices, |side| match side {
        Side::Raw => {
            copied.push(median_us(SPLITS, || {
                std::hint::black_box(copy(&whole));
            }));
            median_us(SPLITS, || {
                let mut result = Vec::with_capacity(whole.len());
                for part in whole.chunks_exact(data.len()) {
                    raw.run(&[("in", part)]);
                    raw.output_to(&mut result);
                }
                std::hint::black_box(result);
            })
        }
        Side::Ours => served.median_us("split", &request, SPLITS),
    });
    let memcpy = median(&mut copied);
    let mut beyond: Vec<f64> = both.into_iter().map(|(ours, raw)| ours - raw).collect();
    let beyond = median(&mut beyond);
    line(
        &format!(
            "{}: time of {PARTS} branches of {} KB in and out beyond that of as many inferences \
             with raw OpenVINO, one stream, against one copy of all ({:.1} ms)",
            COPY.name,
            data.len() / 1000,
            memcpy / 1e3
        ),
        "—",
        &format!("{:.1} ms = {:.2}", beyond / 1e3, beyond / memcpy),
        true,
    );
}

/// Copies into new memory, as gathering does.
fn copy(bytes: &[u8]) -> Vec<u8> {
    let mut copied = Vec::with_capacity(bytes.len());
    copied.extend_from_slice(bytes);
    copied
}

/// A chain in the server against its calls one after the other.
fn clients(times: &Times) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("config.json");
    std::fs::write(&path, chain_config().to_string()).expect("the folder is ours");
    let peer = Peer::of_file(&path, &["--file_system_poll_wait_seconds", "0"]);
    let runtime = jobs::runtime();
    let client = jobs::connect(&runtime, &peer);
    let request = |name: String| {
        let mut request: Request = cells::request_of(&TINY, numbers(&TINY), Form::Bytes);
        request.model.name = name;
        request
    };
    let one = [vec![request("chain".to_owned())]];
    let calls = [(0..CHAIN).map(|at| request(format!("model{at}"))).collect()];
    for clients in [1, 4, 16] {
        let load = |jobs: &[Vec<Request>]| Load::new(&peer, &runtime, &client, jobs).by(clients);
        let count = times.requests / if clients == 1 { 8 } else { 2 };
        let [faster] = jobs::in_turn(
            [&load(&one), &load(&calls)],
            [count, count / 2],
            times.slices,
            |chain, calls| [chain.per_second / calls.per_second],
        );
        line(
            &format!(
                "{}: chains of {CHAIN} a second as a pipeline against a client's calls one after \
                 the other, gRPC, concurrency {clients}",
                TINY.name
            ),
            "> 1.0",
            &format!("{faster:.2}"),
            faster > 1.0,
        );
    }
}

/// Five models, each a load of its own, and a pipeline of all of them.
fn chain_config() -> Value {
    let models: Vec<Value> = (0..CHAIN)
        .map(|at| model(&format!("model{at}"), &TINY, &[], None))
        .collect();
    let nodes: Vec<Value> = (0..CHAIN)
        .map(|at| {
            let from = match at.checked_sub(1) {
                None => json!({"node_name": "request", "data_item": "b"}),
                Some(before) => json!({"node_name": format!("node{before}"), "data_item": "a"}),
            };
            let inputs = json!([{ "b": from }]);
            node(&format!("node{at}"), &format!("model{at}"), &inputs, "a")
        })
        .collect();
    let last = format!("node{}", CHAIN - 1);
    json!({
        "model_config_list": models,
        "pipeline_config_list": [pipeline("chain", &["b"], &nodes, (&last, "a"), None)],
    })
}

/// A request that is split, the parts of which run in one model.
fn split_config(model: Value, inputs: &[&str], output: &str) -> Value {
    let name = model["config"]["name"].as_str().expect("it has one");
    let connections: Vec<Value> = inputs
        .iter()
        .map(|input| json!({*input: {"node_name": "request", "data_item": input}}))
        .collect();
    let nodes = [node("part", name, &json!(connections), output)];
    let split = pipeline("split", inputs, &nodes, ("part", output), Some(PARTS));
    json!({"model_config_list": [model], "pipeline_config_list": [split]})
}

fn numbers(model: &Model) -> Vec<u8> {
    let elements: usize = model.shape.iter().product();
    (0..elements)
        .flat_map(|index| ((index % 251) as f32).to_le_bytes())
        .collect()
}

fn request(inputs: &[(&str, DataType, &[usize], Vec<u8>)]) -> InferRequest {
    let inputs = inputs.iter().map(|(name, dtype, shape, data)| InputTensor {
        name: (*name).to_owned(),
        datatype: Declared::Known(*dtype),
        shape: shape.iter().map(|&length| length as i64).collect(),
        data: Data::Raw(data.clone().into()),
    });
    InferRequest {
        inputs: inputs.collect(),
        ..InferRequest::default()
    }
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Raw,
}

/// Measures both in turn, so that what disturbs the machine falls on both; which is the first
/// changes. Returns pairs of ours and raw.
fn in_turn(slices: usize, mut measure: impl FnMut(Side) -> f64) -> Vec<(f64, f64)> {
    for side in [Side::Ours, Side::Raw] {
        // To warm up.
        measure(side);
    }
    (0..slices)
        .map(|slice| {
            if slice % 2 == 0 {
                let ours = measure(Side::Ours);
                (ours, measure(Side::Raw))
            } else {
                let raw = measure(Side::Raw);
                (measure(Side::Ours), raw)
            }
        })
        .collect()
}

/// Returns the median time of some work, in microseconds.
fn median_us(count: usize, mut work: impl FnMut()) -> f64 {
    let mut took: Vec<f64> = (0..count)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    median(&mut took)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
