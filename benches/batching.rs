//! Dynamic batching: a model that mostly reads weights, which batches make faster, and a convolution, which
//! they do not, each against the same server without.

use tokio::runtime::Runtime;

use crate::{
    CLASSIFIER, Model, cells,
    jobs::{self, Figure, Load},
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

/// A row: its id, its figure, whether one client is alone, and how many tiny requests one takes as long as.
type Measure = (&'static str, Figure, bool, usize);

const PAYS: [Measure; 2] = [
    ("batch-p50-1", Figure::P50, true, 40),
    ("batch-rate-pays", Figure::Rate, false, 20),
];

const NEVER: [Measure; 1] = [("batch-rate-never", Figure::Rate, false, 5)];

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
    let row = |&(id, figure, is_alone, weight): &Measure| {
        let loads = [0, 1].map(|side| {
            let load = Load::new(&peers[side], runtime, &clients[side], &request);
            if is_alone { load.alone() } else { load }
        });
        let count = lengths.requests / weight;
        let pairs = jobs::in_turn([&loads[0], &loads[1]], [count; 2], lengths.pairs);
        pairs.ratio(id, figure, ["with", "without"])
    };
    rows.iter()
        .flat_map(|it| watched(|| vec![row(it)]))
        .collect()
}
