//! Many models in one configuration file. Fifty: time to ready, effect of the reload of one on the
//! others, and memory after many reloads. A thousand: time to ready, reload of one, and memory of each.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use ovms::client::{Api, Request, TensorForm};

use crate::{
    PROPERTIES, TINY, cells,
    jobs::alternate,
    meter::watched,
    pace,
    peer::{Peer, Raw},
    process,
    report::row::{Row, Side, Unit},
    run::Lengths,
};

/// Number of models in the file.
const MODELS: usize = 50;

/// Number of models in the largest file, and in one to compare it with.
const MANY: [usize; 2] = [1000, 100];

/// Number of reloads of one of them.
const RELOADS_AMONG_MANY: usize = 20;

/// Requests per second while a model is reloaded: at most a tenth of the capacity of one core.
const RATE: u32 = 500;

/// Time between two reloads meanwhile.
const PERIOD: Duration = Duration::from_millis(250);

/// Number of reloads before the first and the last measurement of memory.
const RELOADS: (usize, usize) = (20, 220);

/// A configuration file with models, the last of which can be changed.
struct File {
    folder: tempfile::TempDir,
    models: usize,
    changes: usize,
}

impl File {
    fn new(models: usize) -> Self {
        let file = Self {
            folder: tempfile::tempdir().expect("a folder for the file"),
            models,
            changes: 0,
        };
        file.write();
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config.json")
    }

    fn write(&self) {
        let properties: serde_json::Map<String, serde_json::Value> = PROPERTIES
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        let models: Vec<serde_json::Value> = (0..self.models)
            .map(|index| {
                let last = index + 1 == self.models;
                // Another number of infer requests is another configuration.
                let nireq = if last { 1 + self.changes % 2 } else { 1 };
                serde_json::json!({"config": {
                    "name": name(index),
                    "base_path": self.base_path(index),
                    "plugin_config": properties,
                    "nireq": nireq,
                }})
            })
            .collect();
        let config = serde_json::json!({"model_config_list": models});
        std::fs::write(self.path(), config.to_string()).expect("the folder is ours");
    }

    /// Returns the folder of a model: of many each has its own.
    fn base_path(&self, index: usize) -> PathBuf {
        let path = self.folder.path().join(name(index));
        if path.exists() { path } else { TINY.path() }
    }

    /// Gives each model a folder of its own.
    fn spread(self) -> Self {
        for index in 0..self.models {
            let to = self.folder.path().join(name(index)).join("1");
            std::fs::create_dir_all(&to).expect("the folder is ours");
            for file in ["model.xml", "model.bin"] {
                let from = TINY.path().join("1").join(file);
                std::fs::copy(from, to.join(file)).expect("the model is there");
            }
        }
        self.write();
        self
    }

    /// Changes the last model and waits until the change is in effect.
    fn change(&mut self, peer: &Peer) {
        self.changes += 1;
        self.write();
        let mut stream = TcpStream::connect(("127.0.0.1", peer.rest_port())).expect("it listens");
        let head = "POST /v1/config/reload HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\
                    Content-Length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    fn serve(&self) -> Peer {
        Peer::of_file(&self.path(), &["--file_system_poll_wait_seconds", "0"])
    }
}

fn name(index: usize) -> String {
    format!("model{index}")
}

fn request() -> Request {
    let data: Vec<u8> = (0..10_u8)
        .flat_map(|n| f32::from(n).to_le_bytes())
        .collect();
    let mut request = cells::request_of(&TINY, data, TensorForm::Bytes);
    request.model.name = name(0);
    request
}

/// Measures the start, requests beside reloads, and memory.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = watched(|| {
        let seconds = (0..lengths.restarts).map(|_| {
            let file = File::new(MODELS);
            let started = Instant::now();
            let _peer = file.serve();
            started.elapsed().as_secs_f64()
        });
        let seconds = seconds.collect();
        let mut raw = Raw::compiling(&lengths.library, &TINY);
        let compiled = (0..lengths.restarts).map(|_| raw.compile(MODELS)).collect();
        vec![
            Row::new("reload-start", seconds),
            Row::new("reload-start-raw", compiled),
        ]
    });
    rows.extend(watched(|| {
        let mut file = File::new(MODELS);
        let peer = file.serve();
        let seconds = lengths.rate;
        let quiet = || p99(&peer, seconds, None);
        quiet();
        let mut raw = Raw::compiling(&lengths.library, &TINY);
        let compared = |id, names: [&str; 2], values: [Vec<f64>; 2]| {
            let [one, other] = values;
            let sides = [(names[0], one), (names[1], other)];
            let sides = sides.map(|(name, values)| Side::new(name, Unit::Millis, values));
            Row::ratio(id, sides)
        };
        let mut change = || file.change(&peer);
        let beside = || p99(&peer, seconds, Some(&mut change));
        let reloads = alternate(lengths.restarts, beside, quiet);
        let mut compile = || {
            raw.compile(1);
        };
        let beside = || p99(&peer, seconds, Some(&mut compile));
        let compiles = alternate(lengths.restarts, beside, quiet);
        vec![
            compared("reload-p99", ["beside reloads", "quiet"], reloads),
            compared("reload-p99-raw", ["beside raw OpenVINO", "quiet"], compiles),
        ]
    }));
    rows.extend(memory());
    rows.extend(watched(many));
    rows
}

/// Measures a thousand models, and a hundred to compare them with.
fn many() -> Vec<Row> {
    let measured = MANY.map(|models| {
        let mut file = File::new(models).spread();
        let started = Instant::now();
        let peer = file.serve();
        let start = started.elapsed().as_secs_f64() * 1e3 / models as f64;
        let mb = settled_mb(&peer);
        let reloads = (0..RELOADS_AMONG_MANY).map(|_| {
            let cpu = process::cpu(peer.id());
            file.change(&peer);
            (process::cpu(peer.id()) - cpu).as_secs_f64() * 1e3
        });
        (start, reloads.collect::<Vec<_>>(), mb)
    });
    let [(start, reload, mb), (few_start, few_reload, few_mb)] = measured;
    let names = MANY.map(|models| format!("among {models}"));
    let sides = |unit, [many, few]: [Vec<f64>; 2]| {
        vec![
            Side::new(&names[0], unit, many),
            Side::new(&names[1], unit, few),
        ]
    };
    let row = |id, values, sides| Row {
        sides,
        ..Row::new(id, values)
    };
    let each_kb = (mb - few_mb) * 1024.0 / (MANY[0] - MANY[1]) as f64;
    vec![
        row(
            "models-1000-start",
            vec![start * MANY[0] as f64 / 1e3],
            sides(Unit::Millis, [vec![start], vec![few_start]]),
        ),
        row(
            "models-1000-reload",
            reload.clone(),
            sides(Unit::Millis, [reload, few_reload]),
        ),
        row(
            "models-1000-memory",
            vec![each_kb],
            sides(Unit::Megabytes, [vec![mb], vec![few_mb]]),
        ),
    ]
}

/// Sends requests at a fixed rate and returns the 99th percentile of their times in milliseconds,
/// each from the moment it was due. Something else is done four times a second meanwhile.
fn p99(peer: &Peer, seconds: f64, beside: Option<&mut dyn FnMut()>) -> f64 {
    let options = peer.options(Api::KserveGrpc, 16);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| pace::at_rate(&options, &request(), RATE, seconds));
        if let Some(work) = beside {
            while !load.is_finished() {
                let next = Instant::now() + PERIOD;
                work();
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
        let outcome = load.join().expect("the load ends well");
        assert_eq!(outcome.refused, 0);
        outcome.p99()
    })
}

fn memory() -> Vec<Row> {
    let mut file = File::new(MODELS);
    let peer = file.serve();
    let mut done = 0;
    let mut after = |reloads| {
        while done < reloads {
            file.change(&peer);
            done += 1;
        }
        settled_mb(&peer)
    };
    let (early, late) = (after(RELOADS.0), after(RELOADS.1));
    let side = |name, value| Side::new(name, Unit::Megabytes, vec![value]);
    let sides = [side("late", late), side("early", early)];
    vec![Row::ratio("reload-memory", sides)]
}

/// Returns the resident memory after replaced models are freed: the minimum within a second.
fn settled_mb(peer: &Peer) -> f64 {
    (0..20)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            process::resident_mb(peer.id())
        })
        .fold(f64::INFINITY, f64::min)
}
