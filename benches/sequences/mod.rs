//! Cost of sequences: a request in one against the same request without, an idle sequence, many
//! sequences against few, a start with an end, steps of several as one inference, a store, and replicas behind a
//! proxy.
//!
//! Here each inference is computed by the thread that requests it. Several threads on one
//! inference spin while they wait for each other, and on a machine with other work that takes far
//! more time than the work under measurement, with sequences and without.

mod proxy;
mod store;

use ovms::{
    client::Request,
    request::Parameter,
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    tensor::{DataType, Tensor},
};

use tokio::runtime::Runtime;

pub(crate) use self::store::RedisConnection;

use crate::{
    Model, cells,
    jobs::{self, CONCURRENCY, Figure, Load, Pairs, alternate},
    meter::watched,
    peer::{Peer, Raw},
    process,
    raw::Span,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// Sound in, three state variables of [`STATE_KB`] together.
const VAD: Model = Model {
    name: "vad_stateful",
    input: "audio",
    shape: &[1, 512],
    folder: "fixtures/models/vad_stateful",
};

/// The same with its variables as inputs and outputs.
const VAD_TENSORS: Model = Model {
    name: "vad_tensors",
    input: "audio",
    shape: &[1, 512],
    folder: "target/bench-models/vad_tensors",
};

/// A recurrent layer whose steps take over a millisecond, to read its weights.
const HEAVY: Model = Model {
    name: "running_heavy",
    input: "x",
    shape: &[1, 4],
    folder: "fixtures/models/running_heavy",
};

/// A step of it takes as long as so many of the other one.
const HEAVY_STEPS: usize = 10;

/// Starts of the servers of the row with one client: where the weights of a process lie in memory, and how soon they
/// are there, differs from start to start.
const STARTS: usize = 3;

/// One sequence per client, as for clients that wait for their responses.
const CLIENTS: u64 = CONCURRENCY as u64;

/// Default maximum number of sequences.
const USUAL: u64 = 500;

/// State of a sequence in kilobytes.
const STATE_KB: f64 = 1.0;

/// Many sequences.
const MANY: u64 = 100_000;

/// Number of raw infer requests beside them.
const RAW: usize = 10_000;

/// Number of ids for sequences that start and end; none is reused before its sequence has ended.
const PASSING: u64 = 1000;

/// Form in which a request carries its sequence id.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Request parameters.
    Parameters,
    /// Special inputs.
    Inputs,
}

/// Position of a request in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Next,
    End,
}

/// Measures requests in sequences, starts and ends, and many sequences.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let runtime = jobs::runtime();
    let stateless = serve(&[]);
    let client = jobs::connect(&runtime, &stateless);
    let request = [vec![cells::request(&VAD)]];
    let load = || Load::new(&stateless, &runtime, &client, &request);
    let mut rows = extra(&runtime, [&load().alone(), &load()], lengths);
    rows.extend(watched(|| vec![ports(lengths)]));
    rows.extend(watched(|| vec![start_and_end(&runtime, &load(), lengths)]));
    rows.extend(live(&runtime, lengths));
    rows.extend(batched(&runtime, lengths));
    rows.extend(store::run(&runtime, lengths));
    rows.extend(proxy::run(&runtime, lengths));
    rows
}

fn extra(runtime: &Runtime, [one, many]: [&Load<'_>; 2], lengths: &Lengths) -> Vec<Row> {
    let measure = |(id, form, sequences, stateless): (&str, Form, u64, &Load<'_>)| {
        let peer = stateful(sequences);
        let client = jobs::connect(runtime, &peer);
        let load = |jobs: &[Vec<Request>]| Load::new(&peer, runtime, &client, jobs);
        load(&each(1..=sequences, Place::Start)).once();
        let mut within = load(&round(1..=sequences, form));
        if sequences == 1 {
            within = within.alone();
        }
        // One client alone takes longer for as many.
        let count = lengths.requests / if sequences == 1 { 4 } else { 1 };
        let pairs = jobs::in_turn([&within, stateless], [count; 2], lengths.pairs);
        pairs.difference(id, Figure::Cpu, ["with", "without"])
    };
    [
        ("sequences-1", Form::Parameters, 1, one),
        ("sequences-16", Form::Parameters, CLIENTS, many),
        ("sequences-16-inputs", Form::Inputs, CLIENTS, many),
        ("sequences-500", Form::Parameters, USUAL, many),
    ]
    .into_iter()
    .flat_map(|row| watched(|| vec![measure(row)]))
    .collect()
}

/// Measures what the runtime takes for the variables as inputs and outputs, without a server.
fn ports(lengths: &Lengths) -> Row {
    let cores = cores();
    let load = |model| Raw::load_with(&lengths.library, model, 1, &streams(&cores));
    let [mut tensors, mut variables] = [&VAD_TENSORS, &VAD].map(load);
    let count = Span::Inferences(lengths.requests);
    let mut infer = [&mut tensors, &mut variables].map(|raw| move || raw.infer(count).cost());
    for infer in &mut infer {
        infer();
    }
    let [tensors, variables] = infer;
    let pairs = Pairs(alternate(lengths.pairs, tensors, variables));
    pairs.difference("sequences-ports", Figure::Cpu, ["tensors", "variables"])
}

fn start_and_end(runtime: &Runtime, stateless: &Load<'_>, lengths: &Lengths) -> Row {
    let peer = stateful(USUAL);
    let client = jobs::connect(runtime, &peer);
    let jobs: Vec<_> = (1..=PASSING)
        .map(|id| [Place::Start, Place::End].map(|at| request(id, at, Form::Parameters)))
        .map(Vec::from)
        .collect();
    let both = Load::new(&peer, runtime, &client, &jobs);
    let count = lengths.requests;
    let pairs = jobs::in_turn([&both, stateless], [count / 2, count], lengths.pairs);
    let sides = pairs.sides(Figure::Cpu, ["both", "a request without"]);
    Row::compared("sequences-start-end", sides, |both, stateless| {
        both - 2.0 * stateless
    })
}

fn live(runtime: &Runtime, lengths: &Lengths) -> Vec<Row> {
    let peer = stateful(MANY + PASSING);
    let client = jobs::connect(runtime, &peer);
    let load = |jobs: &[Vec<Request>]| Load::new(&peer, runtime, &client, jobs);
    // What does not belong to any one sequence is there before.
    load(&each(MANY + 1..=MANY + PASSING, Place::Start)).once();
    load(&each(MANY + 1..=MANY + PASSING, Place::End)).once();
    let before = process::resident_mb(peer.id());
    load(&each(1..=MANY, Place::Start)).once();
    let more = process::resident_mb(peer.id()) - before;
    let each_kb = more * 1024.0 / MANY as f64 - STATE_KB;
    let raw = |lent| {
        let outcome = Raw::requests(&lengths.library, &VAD, RAW, lent);
        Side::new(
            if lent {
                "with lent tensors"
            } else {
                "a raw infer request"
            },
            Unit::Kilobytes,
            vec![outcome.bytes / 1024.0],
        )
    };
    let mut rows = vec![
        Row {
            sides: vec![raw(false), raw(true)],
            ..Row::new("sequences-idle", vec![each_kb])
        },
        Row::new("sequences-live", vec![more]),
    ];
    let many = load(&round(1..=MANY, Form::Parameters));
    let other = stateful(CLIENTS);
    let client = jobs::connect(runtime, &other);
    let few = |jobs: &[Vec<Request>]| Load::new(&other, runtime, &client, jobs);
    few(&each(1..=CLIENTS, Place::Start)).once();
    let few = few(&round(1..=CLIENTS, Form::Parameters));
    rows.extend(watched(|| {
        let count = lengths.requests;
        let pairs = jobs::in_turn([&many, &few], [count; 2], lengths.pairs);
        let figures = [("p50", Figure::P50), ("cpu", Figure::Cpu)];
        let row = |(name, figure)| {
            let id = format!("sequences-round-{name}");
            pairs.ratio(&id, figure, ["many", "few"])
        };
        figures.map(row).into()
    }));
    rows
}

/// Measures batches of the steps of different sequences against one after the other.
fn batched(runtime: &Runtime, lengths: &Lengths) -> Vec<Row> {
    let names = ["with", "without"];
    let mut rows = watched(|| {
        let pairs = batches(runtime, lengths, lengths.pairs, false);
        vec![pairs.ratio("sequences-batch-rate", Figure::Rate, names)]
    });
    rows.extend(watched(|| {
        let mut all = Pairs::default();
        for _ in 0..STARTS {
            let pairs = batches(runtime, lengths, lengths.pairs.div_ceil(STARTS), true);
            all.extend(pairs.0);
        }
        vec![all.ratio("sequences-batch-p50", Figure::P50, names)]
    }));
    rows
}

/// Measures pairs of turns of two new servers, with batches and without; of 16 clients, or of one that is alone.
fn batches(runtime: &Runtime, lengths: &Lengths, pairs: usize, is_alone: bool) -> Pairs {
    let serve = |flags: &[&str]| Peer::ovms_with(&HEAVY, &[&["--stateful"], flags].concat());
    let peers = [serve(&["--sequence_batch", "8"]), serve(&[])];
    let clients = [0, 1].map(|side: usize| jobs::connect(runtime, &peers[side]));
    let load = |side: usize, place| {
        let jobs = (1..=CLIENTS).map(|id| vec![request_of(&HEAVY, id, place, Form::Parameters)]);
        Load::new(&peers[side], runtime, &clients[side], &Vec::from_iter(jobs))
    };
    let [with, without] = [0, 1].map(|side| {
        load(side, Place::Start).once();
        let load = load(side, Place::Next);
        if is_alone { load.alone() } else { load }
    });
    let count = lengths.requests / HEAVY_STEPS;
    jobs::in_turn([&with, &without], [count; 2], pairs)
}

/// Serves the model with sequences.
pub(crate) fn stateful(most: u64) -> Peer {
    let most = most.to_string();
    serve(&[
        "--stateful",
        "--max_sequence_number",
        &most,
        // Nothing is to go because the machine is slow.
        "--sequence_cleaner_poll_wait_minutes",
        "0",
    ])
}

fn serve(flags: &[&str]) -> Peer {
    Peer::ovms_on(&VAD, &streams(&cores()), flags)
}

fn cores() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.to_string()
}

/// Returns properties for as many streams as threads.
fn streams(cores: &str) -> [(&str, &str); 2] {
    [("NUM_STREAMS", cores), ("INFERENCE_NUM_THREADS", cores)]
}

pub(crate) fn round(ids: impl Iterator<Item = u64>, form: Form) -> Vec<Vec<Request>> {
    ids.map(|id| vec![request(id, Place::Next, form)]).collect()
}

pub(crate) fn each(ids: impl Iterator<Item = u64>, place: Place) -> Vec<Vec<Request>> {
    ids.map(|id| vec![request(id, place, Form::Parameters)])
        .collect()
}

fn request(id: u64, place: Place, form: Form) -> Request {
    request_of(&VAD, id, place, form)
}

fn request_of(model: &Model, id: u64, place: Place, form: Form) -> Request {
    let mut request = cells::request(model);
    match form {
        Form::Parameters => {
            let number = i64::try_from(id).expect("ids are small here");
            let mut say = |name: &str, value| request.parameters.push((name.to_owned(), value));
            say(SEQUENCE_ID, Parameter::Int(number));
            match place {
                Place::Start => say("sequence_start", Parameter::Bool(true)),
                Place::Next => {}
                Place::End => say("sequence_end", Parameter::Bool(true)),
            }
        }
        Form::Inputs => {
            let mut say = |name: &str, dtype, bytes: &[u8]| {
                let value = Tensor::new(dtype, vec![1], bytes.to_vec().into());
                request
                    .inputs
                    .push((name.into(), value.expect("one element")));
            };
            say(SEQUENCE_ID, DataType::U64, &id.to_le_bytes());
            let control: u32 = match place {
                Place::Start => 1,
                Place::Next => 0,
                Place::End => 2,
            };
            if control != 0 {
                say(CONTROL_INPUT, DataType::U32, &control.to_le_bytes());
            }
        }
    }
    request
}
