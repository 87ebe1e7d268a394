//! Cost of pipelines: a chain against the same models run one after the other, a demultiplexer
//! against requests beside each other, and splitting and gathering against a copy; all against raw
//! OpenVINO in one process. Then a chain in the server against a client that makes its calls itself.

mod bytes;
mod raw;
mod served;

use std::time::Instant;

use ovms::{
    client::{Request, TensorForm},
    openvino::runtime,
    request::{Data, Declared, InferRequest, InputTensor},
    tensor::DataType,
};
use serde_json::{Value, json};

pub(crate) use self::served::model;
use self::{
    raw::{Chain, Parts, Step},
    served::{Served, node, pipeline},
};
use crate::{
    Model, TINY, cells, inside,
    jobs::{self, Figure, Load, alternate},
    meter::watched,
    peer::Peer,
    report::{
        row::{Row, Side, Unit},
        stats::median,
    },
    run::{Lengths, places},
};

/// Nodes of the chain.
const CHAIN: usize = 5;

/// Name of the chain pipeline.
pub(crate) const CHAIN_NAME: &str = "chain";

/// Number of parts of a split request.
const PARTS: usize = 64;

/// Requests of one turn of the chain: some 50 ms.
const CHAINS: usize = 1000;

/// Requests of one turn of the demultiplexer.
const SPLITS: usize = 1;

/// Time of the model that parts run, in microseconds.
const BUSY_US: f64 = 1000.0;

/// A model whose run time is set by its first input.
const BUSY: Model = Model {
    name: "busy",
    input: "x",
    shape: &[64, 64],
    folder: "fixtures/models/busy",
};

/// A model that returns its input.
const COPY: Model = Model {
    name: "passthrough_f32",
    input: "in",
    // 600 KB.
    shape: &[1, 150_528],
    folder: "fixtures/models/passthrough_f32",
};

/// Measures pipelines in this process, and clients of the server.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let library = lengths.library.as_os_str();
    let pairs = lengths.pairs.to_string();
    // In a process of its own, of which nothing is left here.
    let mut rows = inside::rows(&["pipelines".as_ref(), library, pairs.as_ref()]);
    rows.extend(clients(lengths));
    rows
}

/// Measures the parts that need no server.
pub(crate) fn in_process(library: &str, pairs: usize) -> Vec<Row> {
    runtime::open(&places()).expect("the runtime opens");
    let mut rows = watched(|| vec![chain(library, pairs)]);
    rows.extend(watched(|| bytes::run(pairs)));
    rows.extend(watched(|| vec![parts(library, pairs)]));
    rows.extend(watched(|| vec![copies(library, pairs)]));
    rows
}

/// Measures a chain of tiny models against the same models one after the other.
fn chain(library: &str, pairs: usize) -> Row {
    let served = Served::new(&chain_config(CHAIN));
    let mut raw = Chain::new(library, &TINY, CHAIN);
    let data = numbers(&TINY);
    let request = request(&[(TINY.input, DataType::F32, &[1, 10], data.clone())]);
    let [ours, raw] = in_turn(
        pairs,
        || served.median_us(CHAIN_NAME, &request, CHAINS),
        || {
            median_us(CHAINS, || {
                std::hint::black_box(raw.run(&data));
            })
        },
    );
    let sides = [
        Side::new("engine", Unit::Micros, ours),
        Side::new("raw", Unit::Micros, raw),
    ];
    Row::compared("chain-node", sides, |ours, raw| (ours - raw) / CHAIN as f64)
}

/// Measures a demultiplexer before a model of a millisecond against parallel requests.
fn parts(library: &str, pairs: usize) -> Row {
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
    let [ours, raw] = in_turn(
        pairs,
        || served.median_us("split", &request, SPLITS),
        || {
            median_us(SPLITS, || {
                std::hint::black_box(raw.run(&[("steps", &steps), ("x", &x)]));
            })
        },
    );
    let each = median(&raw) * cores as f64 / PARTS as f64 / 1e3;
    let sides = [in_ms("engine", &ours), in_ms("raw", &raw)];
    Row::compared("split-busy", sides, |ours, raw| raw / ours)
        .noted(format!("{cores} streams, {each:.2} ms a branch"))
}

/// Returns the number of steps in which the model takes [`BUSY_US`].
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

/// Measures 600 KB per branch through a model that returns its input, against the same with raw
/// OpenVINO and a copy of each result to its place in the whole.
fn copies(library: &str, pairs: usize) -> Row {
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
    let mut copied = Vec::with_capacity(pairs);
    let [ours, raw] = in_turn(
        pairs,
        || served.median_us("split", &request, SPLITS),
        || {
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
        },
    );
    let copied = in_ms("one copy", &copied);
    let one = median(&copied.values);
    let sides = [in_ms("engine", &ours), in_ms("raw", &raw)];
    let mut row = Row::compared("split-copies", sides, |ours, raw| (ours - raw) / one);
    row.sides.push(copied);
    row
}

/// Copies into new memory, as gathering does.
fn copy(bytes: &[u8]) -> Vec<u8> {
    let mut copied = Vec::with_capacity(bytes.len());
    copied.extend_from_slice(bytes);
    copied
}

/// Measures a chain in the server against a client that makes its calls one after the other.
fn clients(lengths: &Lengths) -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("config.json");
    std::fs::write(&path, chain_config(CHAIN).to_string()).expect("the folder is ours");
    let peer = Peer::of_file(&path, &["--file_system_poll_wait_seconds", "0"]);
    let runtime = jobs::runtime();
    let client = jobs::connect(&runtime, &peer);
    let request = |name: String| {
        let mut request: Request = cells::request_of(&TINY, numbers(&TINY), TensorForm::Bytes);
        request.model.name = name;
        request
    };
    let one = [vec![request(CHAIN_NAME.to_owned())]];
    let calls = [(0..CHAIN).map(|at| request(format!("model{at}"))).collect()];
    let measure = |clients| {
        let load = |jobs: &[Vec<Request>]| Load::new(&peer, &runtime, &client, jobs).by(clients);
        let count = lengths.requests / if clients == 1 { 8 } else { 2 };
        let loads = [&load(&one), &load(&calls)];
        let pairs = jobs::in_turn(loads, [count, count / 2], lengths.pairs);
        let id = format!("chain-calls-{clients}");
        vec![pairs.ratio(&id, Figure::Rate, ["pipeline", "calls"])]
    };
    let rows = [1, 4, 16].map(|clients| watched(|| measure(clients)));
    rows.into_iter().flatten().collect()
}

/// Returns a configuration of models, each loaded separately, and a pipeline of all of them.
pub(crate) fn chain_config(nodes: usize) -> Value {
    let models: Vec<Value> = (0..nodes)
        .map(|at| model(&format!("model{at}"), &TINY, &[], None))
        .collect();
    let steps: Vec<Value> = (0..nodes)
        .map(|at| {
            let from = match at.checked_sub(1) {
                None => json!({"node_name": "request", "data_item": "b"}),
                Some(before) => json!({"node_name": format!("node{before}"), "data_item": "a"}),
            };
            let inputs = json!([{ "b": from }]);
            node(&format!("node{at}"), &format!("model{at}"), &inputs, "a")
        })
        .collect();
    let last = format!("node{}", nodes - 1);
    json!({
        "model_config_list": models,
        "pipeline_config_list": [pipeline(CHAIN_NAME, &["b"], &steps, (&last, "a"), None)],
    })
}

/// Returns the configuration of a pipeline that splits a request and runs the parts in one model.
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

/// Creates the side of a row from times in microseconds.
fn in_ms(name: &str, took: &[f64]) -> Side {
    let values = took.iter().map(|us| us / 1e3).collect();
    Side::new(name, Unit::Millis, values)
}

/// Measures both in turn, in microseconds, after a warm-up turn of each.
fn in_turn(
    pairs: usize,
    mut ours: impl FnMut() -> f64,
    mut raw: impl FnMut() -> f64,
) -> [Vec<f64>; 2] {
    ours();
    raw();
    alternate(pairs, ours, raw)
}

/// Returns the median time of some work, in microseconds.
fn median_us(count: usize, mut work: impl FnMut()) -> f64 {
    let took: Vec<f64> = (0..count)
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    median(&took)
}
