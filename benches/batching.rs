//! Dynamic batching: a model that mostly reads weights, which batches make faster, and a convolution, which
//! they do not, each against the same server without.

use ovms::client::{Client, ModelId};
use tokio::runtime::Runtime;

use crate::{
    CLASSIFIER, Model, TINY, cells,
    jobs::{self, CONCURRENCY, Cost, Figure, Load},
    meter::watched,
    peer::{Peer, Raw},
    raw::Span,
    report::{
        catalog::batching::{BATCH_RATES, BOUND_TURN},
        row::{Row, Side, Unit},
    },
    run::Lengths,
    starts::{self, Extent},
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

/// A row: its id, its figure, the number of clients, and that of the requests of a turn.
type Measure = (&'static str, Figure, usize, usize);

/// Row of a client that is alone, whose requests no batch takes.
const ALONE: Measure = ("batch-p50-1", Figure::P50, 1, 100);

/// Two servers without batches, for how far apart these are.
const SAME: Measure = ("batch-rate-same", Figure::Rate, CONCURRENCY, 400);

/// Number of starts of both servers of a model that batches make no faster: where two with the same flags are up to a fifth
/// apart, longer turns of few servers decide nothing.
const STARTS: usize = 8;

/// Pairs of turns of each of these starts.
const PAIRS_OF_A_START: usize = 3;

/// Returns the rows of the catalog about the rates of a model.
fn rates(model: &Model) -> impl Iterator<Item = Measure> {
    let rates = BATCH_RATES.iter().filter(|rate| rate.model == model.name);
    rates.map(|rate| (rate.id, Figure::Rate, rate.clients, rate.turn))
}

/// Measures what batches give, and what they cost where they give nothing.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let runtime = jobs::runtime();
    let batches = ["auto", "off"];
    // Of long turns, half as many.
    let once = Extent {
        starts: 1,
        pairs: lengths.pairs.div_ceil(2),
    };
    let pays = [ALONE].into_iter().chain(rates(&PERCEPTRON));
    let starts = STARTS.min(lengths.pairs);
    let often = Extent {
        starts,
        pairs: starts * PAIRS_OF_A_START,
    };
    let parts: [(&Model, Vec<Measure>, _, _); 4] = [
        (&PERCEPTRON, pays.collect(), batches, once),
        (&LARGE, rates(&LARGE).collect(), batches, once),
        (&CLASSIFIER, rates(&CLASSIFIER).collect(), batches, often),
        (&CLASSIFIER, vec![SAME], ["off", "off"], often),
    ];
    let mut rows = Vec::new();
    for (model, measures, modes, extent) in parts {
        let measured = of_model(&runtime, model, &measures, (modes, extent), lengths);
        rows.extend(measured);
    }
    let ids = ["batch-rate-bound", "threads-cpu"];
    rows.extend(watched(|| bounds(&runtime, &PERCEPTRON, ids, lengths)));
    let ids = ["batch-rate-large-bound", "threads-cpu-large"];
    rows.extend(watched(|| bounds(&runtime, &LARGE, ids, lengths)));
    rows
}

/// Measures how near batches come to what the runtime gives in them, with all sides in turn.
fn bounds(runtime: &Runtime, model: &Model, ids: [&'static str; 2], lengths: &Lengths) -> Vec<Row> {
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
    let turn = lengths.turn(BOUND_TURN);
    let counts = [turn, turn, lengths.requests * 4];
    for (load, count) in loads.iter().zip(counts) {
        load.run(count);
    }
    let mut before = Rows::default();
    before.during(runtime, &clients[0], model, || loads[0].run(turn));
    let rounded = (before.of_an_inference().round() as usize).max(1);
    let batch = [&[rounded], &model.shape[1..]].concat();
    let mut raw = [
        Raw::load(&lengths.library, model, 1),
        Raw::load_shape(&lengths.library, model, &batch),
        Raw::load(&lengths.library, &TINY, 1),
    ];
    // One after the other they have no ends of a turn, so that fewer do.
    let spans = [turn / 5, turn / rounded + 2, counts[2]].map(Span::Inferences);
    let mut measured = Rows::default();
    let (mut gains, mut bounds, mut cpu) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    for pair in 0..lengths.pairs.div_ceil(2) {
        let mut costs: [Option<Cost>; 6] = [None; 6];
        for number in 0..costs.len() {
            // In an order that alternates, as elsewhere.
            let side = if pair % 2 == 0 {
                number
            } else {
                costs.len() - 1 - number
            };
            costs[side] = Some(match side.checked_sub(loads.len()) {
                None if side == 0 => {
                    measured.during(runtime, &clients[0], model, || loads[0].run(turn))
                }
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
        Row::ratio(ids[0], gain).noted(format!(
            "{:.1} rows an inference, raw batches of {rounded}",
            measured.of_an_inference()
        )),
        Row::ratio(ids[1], cpu),
    ]
}

/// Rows that inferences have had.
#[derive(Debug, Default)]
struct Rows {
    requests: u64,
    executions: u64,
}

impl Rows {
    /// Counts those of a turn.
    fn during(
        &mut self,
        runtime: &Runtime,
        client: &Client,
        model: &Model,
        turn: impl FnOnce() -> Cost,
    ) -> Cost {
        let model = ModelId::of(model.name);
        let counters = || {
            let asked = runtime.block_on(client.statistics(&model));
            asked.expect("the server has statistics")
        };
        let before = counters();
        let cost = turn();
        let split = counters().since(&before).expect("it was asked");
        self.requests += split.requests;
        self.executions += split.executions;
        cost
    }

    /// Returns how many an inference has had on average.
    fn of_an_inference(&self) -> f64 {
        self.requests as f64 / self.executions.max(1) as f64
    }
}

/// Measures a model with `modes` of batching on both sides, which are started anew for each part of the pairs.
fn of_model(
    runtime: &Runtime,
    model: &Model,
    rows: &[Measure],
    (modes, extent): ([&str; 2], Extent),
    lengths: &Lengths,
) -> Vec<Row> {
    let request = [vec![cells::request(model)]];
    let loads: Vec<_> = rows
        .iter()
        .map(|&(.., clients, turn)| (clients, lengths.turn(turn)))
        .collect();
    let serve = |side: usize| Peer::ovms_with(model, &["--dynamic_batching", modes[side]]);
    watched(|| {
        let measured = starts::of_servers(runtime, extent, serve, &request, &loads);
        let rows = rows.iter().zip(measured);
        rows.map(|(&(id, figure, ..), pairs)| pairs.ratio(id, figure, ["with", "without"]))
            .collect()
    })
}
