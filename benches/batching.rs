//! Dynamic batching: a model that mostly reads weights, which batches make faster, and a convolution, which
//! they do not, each against the same server without.

use ovms::client::{Client, ModelId};
use tokio::runtime::Runtime;

use crate::{
    CLASSIFIER, Model, TINY, cells,
    jobs::{self, CONCURRENCY, Cost, Figure, Load, Pairs},
    meter::watched,
    peer::{Peer, Raw},
    raw::Span,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// A perceptron whose inference takes milliseconds, to read its weights.
const PERCEPTRON: Model = Model {
    name: "perceptron",
    input: "x",
    shape: &[1, 16],
    folder: "fixtures/models/perceptron",
};

/// The same with weights that no cache of the processor holds.
const LARGE: Model = Model {
    name: "perceptron_large",
    folder: "target/bench-models/perceptron_large",
    ..PERCEPTRON
};

/// A row: its id, its figure, the number of clients, and how many tiny requests one takes as long as.
type Measure = (&'static str, Figure, usize, usize);

const PAYS: [Measure; 6] = [
    ("batch-p50-1", Figure::P50, 1, 40),
    ("batch-rate-pays", Figure::Rate, CONCURRENCY, 20),
    ("batch-rate-pays-2", Figure::Rate, 2, 20),
    ("batch-rate-pays-4", Figure::Rate, 4, 20),
    ("batch-rate-pays-8", Figure::Rate, 8, 20),
    ("batch-rate-pays-64", Figure::Rate, 64, 10),
];

const LARGE_PAYS: [Measure; 2] = [
    ("batch-rate-large", Figure::Rate, CONCURRENCY, 80),
    ("batch-rate-large-4", Figure::Rate, 4, 80),
];

/// Number of times that both servers of a model without batches are started: two servers with the same flags are up to a
/// fifth apart, by where their memory lies, which is more than the rows look for.
const STARTS: usize = 6;

/// Two servers without batches, for how far apart these are.
const SAME: [Measure; 1] = [("batch-rate-same", Figure::Rate, CONCURRENCY, 5)];

const NEVER: [Measure; 5] = [
    ("batch-rate-never", Figure::Rate, CONCURRENCY, 5),
    ("batch-rate-never-2", Figure::Rate, 2, 5),
    ("batch-rate-never-4", Figure::Rate, 4, 5),
    ("batch-rate-never-8", Figure::Rate, 8, 5),
    ("batch-rate-never-64", Figure::Rate, 64, 5),
];

/// Measures what batches give, and what they cost where they give nothing.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let runtime = jobs::runtime();
    let batches = ["auto", "off"];
    let mut rows = of_model(&runtime, &PERCEPTRON, &PAYS, (batches, 1), lengths);
    rows.extend(of_model(
        &runtime,
        &LARGE,
        &LARGE_PAYS,
        (batches, 1),
        lengths,
    ));
    for (measures, modes) in [(&NEVER[..], batches), (&SAME[..], ["off", "off"])] {
        let measured = of_model(&runtime, &CLASSIFIER, measures, (modes, STARTS), lengths);
        rows.extend(measured);
    }
    let ids = ["batch-rate-bound", "threads-cpu"];
    rows.extend(watched(|| bounds(&runtime, &PERCEPTRON, ids, 20, lengths)));
    let ids = ["batch-rate-large-bound", "threads-cpu-large"];
    rows.extend(watched(|| bounds(&runtime, &LARGE, ids, 80, lengths)));
    rows
}

/// Measures how near batches come to what the runtime gives in them, with all sides in turn; an inference takes as long as
/// `weight` tiny ones.
fn bounds(
    runtime: &Runtime,
    model: &Model,
    ids: [&'static str; 2],
    weight: usize,
    lengths: &Lengths,
) -> Vec<Row> {
    let modes = [
        ["--dynamic_batching", "auto"],
        ["--dynamic_batching", "off"],
    ];
    let peers = modes.map(|mode| Peer::ovms_with(model, &mode));
    let tiny = Peer::ovms(&TINY);
    let clients = [&peers[0], &peers[1], &tiny].map(|peer| jobs::connect(runtime, peer));
    let requests = [model, &TINY].map(|model| [vec![cells::request(model)]]);
    let load = |peer, side: usize| Load::new(peer, runtime, &clients[side], &requests[side / 2]);
    let loads = [load(&peers[0], 0), load(&peers[1], 1), load(&tiny, 2)];
    let counts = [
        lengths.requests / weight,
        lengths.requests / weight,
        lengths.requests * 4,
    ];
    for (load, count) in loads.iter().zip(counts) {
        load.run(count);
    }
    let rows = rows_of_a_batch(runtime, &clients[0], model, || loads[0].run(counts[0] * 2));
    let rounded = (rows.round() as usize).max(1);
    let batch = [&[rounded], &model.shape[1..]].concat();
    let mut raw = [
        Raw::load(&lengths.library, model, 1),
        Raw::load_shape(&lengths.library, model, &batch),
        Raw::load(&lengths.library, &TINY, 1),
    ];
    let spans = [counts[0], counts[0] / rounded + 2, counts[2]].map(Span::Inferences);
    let (mut gains, mut bounds, mut cpu) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    for pair in 0..lengths.pairs {
        let mut costs: [Option<Cost>; 6] = [None; 6];
        for turn in 0..costs.len() {
            // In an order that alternates, as elsewhere.
            let side = if pair % 2 == 0 {
                turn
            } else {
                costs.len() - 1 - turn
            };
            costs[side] = Some(match side.checked_sub(loads.len()) {
                None => loads[side].run(counts[side]),
                Some(place) => raw[place].infer(spans[place]).cost(),
            });
        }
        let [with, without, tiny, alone, batch, tiny_alone] =
            costs.map(|cost| cost.expect("each had its turn"));
        let takes = |cost: Cost| 1e6 / cost.per_second;
        let frame = (takes(tiny) - takes(tiny_alone)).max(0.0);
        gains.push(with.per_second / without.per_second);
        bounds.push((frame + takes(alone)) / (frame + takes(batch) / rounded as f64));
        cpu[0].push(without.cpu_us);
        cpu[1].push(alone.cpu_us);
    }
    let [served, alone] = cpu;
    let gain = [
        Side::new("gain", Unit::Ratio, gains),
        Side::new("bound", Unit::Ratio, bounds),
    ];
    let cpu = [
        Side::new("request", Unit::Micros, served),
        Side::new("raw", Unit::Micros, alone),
    ];
    vec![
        Row::ratio(ids[0], gain).noted(format!("{rows:.1} rows an inference")),
        Row::ratio(ids[1], cpu),
    ]
}

/// Returns how many rows an inference has on average while something runs.
fn rows_of_a_batch(
    runtime: &Runtime,
    client: &Client,
    model: &Model,
    run: impl FnOnce() -> Cost,
) -> f64 {
    let model = ModelId::of(model.name);
    let counters = || {
        let asked = runtime.block_on(client.statistics(&model));
        asked.expect("the server has statistics")
    };
    let before = counters();
    run();
    let split = counters().since(&before).expect("it was asked");
    split.requests as f64 / split.executions.max(1) as f64
}

/// Measures a model with `modes` of batching on both sides, which are started anew for each part of the pairs.
fn of_model(
    runtime: &Runtime,
    model: &Model,
    rows: &[Measure],
    (modes, starts): ([&str; 2], usize),
    lengths: &Lengths,
) -> Vec<Row> {
    let request = [vec![cells::request(model)]];
    let mut found: Vec<_> = rows.iter().map(|_| Pairs(Default::default())).collect();
    let measure = || {
        for _ in 0..starts {
            let peers = modes.map(|mode| Peer::ovms_with(model, &["--dynamic_batching", mode]));
            let clients = [0, 1].map(|side: usize| jobs::connect(runtime, &peers[side]));
            for (&(.., clients_of_row, weight), found) in rows.iter().zip(&mut found) {
                let loads = [0, 1].map(|side| {
                    Load::new(&peers[side], runtime, &clients[side], &request).by(clients_of_row)
                });
                let count = lengths.requests / weight;
                let pairs = lengths.pairs.div_ceil(starts);
                let Pairs(costs) = jobs::in_turn([&loads[0], &loads[1]], [count; 2], pairs);
                for (found, costs) in found.0.iter_mut().zip(costs) {
                    found.extend(costs);
                }
            }
        }
        let rows = rows.iter().zip(&found);
        rows.map(|(&(id, figure, ..), pairs)| pairs.ratio(id, figure, ["with", "without"]))
            .collect()
    };
    watched(measure)
}
