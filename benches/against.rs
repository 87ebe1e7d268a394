//! Comparison of two server programs, for regressions in any API or feature.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use ovms::client::{Api, Request};

use crate::{
    CONVOLUTIONAL, INPUT_600K, Model, TINY, cells, graphs,
    jobs::{self, Figure, Load},
    meter::watched,
    peer::{self, Peer},
    pipelines, process,
    report::{
        catalog::AGAINST_LOADS,
        row::{Row, Side, Unit},
    },
    run::Lengths,
};

/// Environment variable with the path of the other program.
pub(crate) const BASELINE: &str = "BENCH_BASELINE";

const SIDES: [&str; 2] = ["program", "baseline"];

/// Load on both programs: a servable, and the requests to it.
struct Setting {
    model: &'static Model,
    api: Api,
    clients: usize,
    flags: &'static [&'static str],
    kind: Kind,
    /// Requests of a turn.
    count: usize,
}

/// Kind of a servable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Pipeline,
    Graph,
}

/// Measures all loads on both programs.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let baseline = std::env::var_os(BASELINE).expect("it was looked at before");
    let programs = [peer::program(), baseline];
    let mut rows = Vec::new();
    let mut resident = None;
    for (name, _) in AGAINST_LOADS {
        let setting = setting(name, lengths.requests);
        rows.extend(watched(|| {
            let (measured, memory) = measure(name, &setting, &programs, lengths.pairs);
            resident.get_or_insert(memory);
            measured
        }));
    }
    let side = |index: usize, mb| Side::new(SIDES[index], Unit::Megabytes, vec![mb]);
    let [ours, other] = resident.expect("there are loads");
    rows.push(Row::ratio(
        "against-memory",
        [side(0, ours), side(1, other)],
    ));
    rows
}

fn setting(name: &str, requests: usize) -> Setting {
    let usual = Setting {
        model: &TINY,
        api: Api::KserveGrpc,
        clients: 16,
        flags: &[],
        kind: Kind::Model,
        count: requests * 2,
    };
    match name {
        "tiny-16" => usual,
        "tiny-1" => Setting {
            clients: 1,
            count: requests / 2,
            ..usual
        },
        "600k-16" => Setting {
            model: &INPUT_600K,
            count: requests / 2,
            ..usual
        },
        "rest-16" => Setting {
            api: Api::KserveRest,
            ..usual
        },
        "resnet50-1" => Setting {
            model: &CONVOLUTIONAL,
            clients: 1,
            count: 8,
            ..usual
        },
        "metrics-16" => Setting {
            flags: &["--metrics_enable"],
            ..usual
        },
        "pipeline-16" => Setting {
            kind: Kind::Pipeline,
            ..usual
        },
        "python-1" => Setting {
            kind: Kind::Graph,
            clients: 1,
            count: requests / 2,
            ..usual
        },
        other => unreachable!("the catalog has no load {other}"),
    }
}

/// Runs a load on both programs in turn. Returns its rows, and the resident memory of both.
fn measure(
    name: &str,
    setting: &Setting,
    programs: &[OsString; 2],
    pairs: usize,
) -> (Vec<Row>, [f64; 2]) {
    let folder = tempfile::tempdir().expect("a folder for the files");
    let (config, request) = served(setting, folder.path());
    let peers = programs.each_ref().map(|program| {
        let program = program.clone();
        match &config {
            None => Peer::ovms_by(program, setting.model, &[], setting.flags),
            Some(path) => {
                let flags = ["--file_system_poll_wait_seconds", "0"];
                Peer::of_file_by(program, path, &flags)
            }
        }
    });
    let peers = peers.each_ref();
    let runtime = jobs::runtime();
    let clients = peers.map(|peer| jobs::connect_by(&runtime, peer, setting.api));
    let jobs = [vec![request]];
    let load = |index: usize| {
        Load::new(peers[index], &runtime, &clients[index], &jobs).by(setting.clients)
    };
    let measured = jobs::in_turn([&load(0), &load(1)], [setting.count; 2], pairs);
    let figures = [
        ("cpu", Figure::Cpu),
        ("rate", Figure::Rate),
        ("p50", Figure::P50),
    ];
    let row = |(figure, of)| measured.ratio(&format!("against-{name}-{figure}"), of, SIDES);
    let memory = peers.map(|peer| process::resident_mb(peer.id()));
    (figures.map(row).into(), memory)
}

/// Returns the configuration file of what is not a model, and the request.
fn served(setting: &Setting, folder: &Path) -> (Option<PathBuf>, Request) {
    let mut request = cells::request(setting.model);
    match setting.kind {
        Kind::Model => (None, request),
        Kind::Pipeline => {
            let path = folder.join("config.json");
            let config = pipelines::chain_config(2).to_string();
            fs::write(&path, config).expect("the folder is ours");
            request.model.name = pipelines::CHAIN_NAME.to_owned();
            (Some(path), request)
        }
        Kind::Graph => {
            let (path, request) = graphs::echoing(folder);
            (Some(path), request)
        }
    }
}
