//! Dynamic batching: a model that mostly reads weights, which batches make faster, and a convolution, which
//! they do not, each against the same server without.

use tokio::runtime::Runtime;

use crate::{
    CLASSIFIER, Model, cells,
    jobs::{self, CONCURRENCY, Figure, Load},
    meter::watched,
    peer::Peer,
    report::row::Row,
    run::Lengths,
};

/// A perceptron whose inference takes milliseconds, to read its weights.
const PERCEPTRON: Model = Model {
    name: "perceptron",
    input: "x",
    shape: &[1, 16],
    folder: "fixtures/models/perceptron",
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
    let mut rows = of_model(&runtime, &PERCEPTRON, &PAYS, lengths);
    rows.extend(of_model(&runtime, &CLASSIFIER, &NEVER, lengths));
    rows
}

fn of_model(runtime: &Runtime, model: &Model, rows: &[Measure], lengths: &Lengths) -> Vec<Row> {
    let peers = ["auto", "off"].map(|mode| Peer::ovms_with(model, &["--dynamic_batching", mode]));
    let clients = [0, 1].map(|side: usize| jobs::connect(runtime, &peers[side]));
    let request = [vec![cells::request(model)]];
    let row = |&(id, figure, clients_of_row, weight): &Measure| {
        let loads = [0, 1].map(|side| {
            Load::new(&peers[side], runtime, &clients[side], &request).by(clients_of_row)
        });
        let count = lengths.requests / weight;
        let pairs = jobs::in_turn([&loads[0], &loads[1]], [count; 2], lengths.pairs);
        pairs.ratio(id, figure, ["with", "without"])
    };
    rows.iter()
        .flat_map(|it| watched(|| vec![row(it)]))
        .collect()
}
