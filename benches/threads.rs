//! Threads of inferences: the server's default, all processors for one inference, against other settings, under more clients
//! than either has infer requests.

use crate::{
    CLASSIFIER, CONVOLUTIONS, Model, cells,
    jobs::{self, CONCURRENCY, Figure},
    meter::watched,
    peer::Peer,
    report::{
        catalog::batching::{THREAD_MODELS, THREAD_SETTINGS},
        row::Row,
    },
    run::Lengths,
    starts::{self, Extent},
};

/// Number of starts of both servers.
const STARTS: usize = 4;

/// Measures each model with each setting.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = Vec::new();
    for (model, (name, turn)) in [&CLASSIFIER, &CONVOLUTIONS].into_iter().zip(THREAD_MODELS) {
        assert_eq!(model.name, name);
        for (setting, ..) in THREAD_SETTINGS {
            rows.extend(watched(|| compared(model, setting, turn, lengths)));
        }
    }
    rows
}

/// Returns the properties of a setting.
fn properties<'a>(setting: &str, cores: &'a str) -> Vec<(&'static str, &'a str)> {
    match setting {
        "streams" => vec![("NUM_STREAMS", cores), ("INFERENCE_NUM_THREADS", cores)],
        "one" => vec![("INFERENCE_NUM_THREADS", "1")],
        other => unreachable!("the catalog has no setting {other}"),
    }
}

/// Measures the default against a setting.
fn compared(model: &Model, setting: &str, turn: usize, lengths: &Lengths) -> Vec<Row> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = cores.to_string();
    let sides = [Vec::new(), properties(setting, &cores)];
    let extent = Extent {
        starts: STARTS,
        pairs: lengths.pairs.div_ceil(2),
    };
    let measured = starts::of_servers(
        &jobs::runtime(),
        extent,
        |side| Peer::ovms_on(model, &sides[side], &[]),
        &[vec![cells::request(model)]],
        &[(CONCURRENCY, lengths.turn(turn))],
    );
    let row = |(name, figure)| {
        let id = format!("threads-{setting}-{}-{name}", model.name);
        measured[0].ratio(&id, figure, ["the default", setting])
    };
    [("rate", Figure::Rate), ("cpu", Figure::Cpu)]
        .map(row)
        .into()
}
