//! The run as a whole, and the tables that it prints.

use std::path::PathBuf;

use ovms::{
    client::Api,
    openvino::runtime::{self, Places},
};

use crate::{
    CLASSIFIER, CONVOLUTIONAL, INPUT_600K, Model, TINY,
    cells::{self, Cell, Length},
    graphs, metrics,
    peer::Peer,
    pipelines, reload, rest, sequences, targets,
};

const CONCURRENCY: [usize; 3] = [1, 4, 16];

/// How long each cell is measured.
pub(crate) struct Times {
    pub(crate) tiny: f64,
    pub(crate) large: f64,
    pub(crate) pairs: usize,
    pub(crate) many: u64,
    /// Requests of one turn where two loads take turns.
    pub(crate) requests: usize,
    /// Pairs of such turns.
    pub(crate) slices: usize,
}

/// One row of the table.
pub(crate) struct Row {
    pub(crate) model: &'static str,
    pub(crate) side: Side,
    pub(crate) concurrency: usize,
    pub(crate) cell: Cell,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Raw,
    Echo,
    Grpc,
    Rest,
}

impl Side {
    const fn text(self) -> &'static str {
        match self {
            Self::Raw => "raw OpenVINO",
            Self::Echo => "tonic echo",
            Self::Grpc => "ovms gRPC",
            Self::Rest => "ovms REST",
        }
    }
}

/// Measures everything and prints it as Markdown.
pub(crate) fn run(quick: bool) {
    let times = times(quick);
    let library = library();
    println!("{}\n", machine());
    let rows = table(&library, &times);
    print_table(&rows);
    targets::run(&library, &times);
    rest::run(&times);
    reload::tfs(&times, &[&TINY, &INPUT_600K]);
    metrics::run(&times);
    reload::run(&times);
    sequences::run(&library, &times);
    pipelines::run(&library, &times);
    graphs::run(&times);
}

/// Measures graphs alone.
pub(crate) fn run_graphs(quick: bool) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    graphs::run(&times(quick));
}

/// Measures pipelines alone.
pub(crate) fn run_pipelines(quick: bool) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    pipelines::run(&library(), &times(quick));
}

/// Measures sequences alone.
pub(crate) fn run_sequences(quick: bool) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    sequences::run(&library(), &times(quick));
}

/// Measures reloads and TensorFlow Serving alone.
pub(crate) fn run_reload(quick: bool) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    let times = times(quick);
    reload::tfs(&times, &[&TINY, &INPUT_600K]);
    reload::run(&times);
}

/// Measures what counting costs, alone.
pub(crate) fn run_metrics(quick: bool) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    metrics::run(&times(quick));
}

/// Measures REST alone.
pub(crate) fn run_rest(quick: bool) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    rest::run(&times(quick));
}

fn times(quick: bool) -> Times {
    if quick { QUICK } else { FULL }
}

/// Measures against the echo service alone.
pub(crate) fn run_echo() {
    let times = FULL;
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    targets::echo(&times);
}

/// The lengths of a run that only shows that all of it works.
const QUICK: Times = Times {
    tiny: 0.5,
    large: 0.5,
    pairs: 1,
    many: 20_000,
    requests: 500,
    slices: 5,
};

/// The lengths of a full run.
const FULL: Times = Times {
    tiny: 2.0,
    large: 4.0,
    pairs: 5,
    many: 200_000,
    requests: 1_000,
    slices: 41,
};

fn table(library: &std::path::Path, times: &Times) -> Vec<Row> {
    let mut rows = Vec::new();
    for (model, seconds) in [
        (&TINY, times.tiny),
        (&INPUT_600K, times.tiny),
        (&CLASSIFIER, times.tiny),
        (&CONVOLUTIONAL, times.large),
    ] {
        for concurrency in CONCURRENCY {
            let cell = cells::raw(library, model, concurrency, seconds);
            rows.push(row(model, Side::Raw, concurrency, cell));
        }
        let with_echo = [TINY.name, INPUT_600K.name].contains(&model.name);
        for (side, api) in [
            (Side::Echo, Api::KserveGrpc),
            (Side::Grpc, Api::KserveGrpc),
            (Side::Rest, Api::KserveRest),
        ] {
            if side == Side::Echo && !with_echo {
                continue;
            }
            for concurrency in CONCURRENCY {
                // A process for each cell, so that its peak of memory is its own.
                let peer = match side {
                    Side::Echo => Peer::echo(),
                    _ => Peer::ovms(model),
                };
                let cell = cells::served(&peer, api, model, concurrency, Length::Seconds(seconds));
                rows.push(row(model, side, concurrency, cell));
            }
        }
    }
    rows
}

fn row(model: &Model, side: Side, concurrency: usize, cell: Cell) -> Row {
    Row {
        model: model.name,
        side,
        concurrency,
        cell,
    }
}

fn print_table(rows: &[Row]) {
    println!(
        "| model | measured | concurrency | requests/s | p50 µs | p99 µs | CPU µs/request | peak MB |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for row in rows {
        let cell = &row.cell;
        println!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} |",
            row.model,
            row.side.text(),
            row.concurrency,
            cell.per_second,
            cell.p50_us,
            cell.p99_us,
            cell.cpu_us,
            cell.peak_mb
        );
    }
    println!();
}

/// Finds the runtime as the program does.
fn library() -> PathBuf {
    match runtime::find(&places()) {
        Ok(found) => found.library,
        Err(error) => {
            eprintln!("{error}; `make bench` brings one");
            std::process::exit(72);
        }
    }
}

/// Returns where the runtime is searched.
pub(crate) fn places() -> Places {
    Places {
        install_dir: std::env::var_os("OPENVINO_INSTALL_DIR").map(PathBuf::from),
        system: true,
        ..Places::default()
    }
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(": "))
        .map_or("an unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{name}, {cores} cores, OpenVINO {}.",
        runtime::PINNED_VERSION
    )
}
