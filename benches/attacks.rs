//! Attackers on one core, and their effect on a client of the same server.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use bytes::Bytes;
use ovms::{
    budget::Budget,
    client::{Api, ModelId, Request, TensorForm},
    tensor::{DataType, Tensor, TensorMap},
};

use crate::{
    TINY, cells,
    jobs::alternate,
    meter::watched,
    pace::{self, Outcome},
    peer::Peer,
    report::{
        catalog::ATTACKS,
        row::{Row, Side, Unit},
    },
    run::Lengths,
};

/// Requests per second of the client under observation.
const RATE: u32 = 200;

/// Turns of each side; each takes seconds.
const TURNS: usize = 3;

/// The budget of the server: a quarter of that of a container of 2 GiB.
const BUDGET: &str = "--max_bytes_in_flight=536870912";

/// Limits of each client.
const LIMITS: &str = "requests-per-second=500,concurrent-requests=16";

/// Models of the server, for the client and for attackers.
const MODELS: [&str; 5] = [
    "dummy",
    "image_any",
    "pair",
    "passthrough_string",
    "passthrough_u8",
];

/// A graph that needs both of its inputs to pass them on.
const TWO: &str = r#"
input_stream: "OVTENSOR_A:a"
input_stream: "OVTENSOR_B:b"
output_stream: "OVTENSOR_A:c"
output_stream: "OVTENSOR_B:d"
node {
  calculator: "PassThroughCalculator"
  input_stream: "A:a"
  input_stream: "B:b"
  output_stream: "A:c"
  output_stream: "B:d"
}
"#;

/// Charges per loop, and number of loops.
const CHARGES: (u32, usize) = (100_000, 11);

/// Measures the cost of charging, and a client beside each kind of attacker.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = watched(|| vec![Row::new("accounting", accounting())]);
    for (kind, _) in ATTACKS {
        rows.extend(watched(|| vec![beside(kind, lengths)]));
    }
    rows.extend(watched(|| vec![shapes(lengths)]));
    rows.extend(watched(|| vec![greedy(lengths)]));
    rows
}

/// Returns microseconds for the charges of one request: its call, its message before and after
/// decoding, its output, and its response, which is dropped.
fn accounting() -> Vec<f64> {
    let budget = Budget::new(1 << 30);
    let answer = Bytes::from_static(&[0; 100]);
    let (charges, loops) = CHARGES;
    (0..loops)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..charges {
                let mut call = budget.charge(8192).expect("there is room");
                call.add(150).expect("there is room");
                let decoded = budget.charge(400).expect("there is room");
                let output = budget.keep(answer.clone()).expect("there is room");
                call.grow(8500).expect("there is room");
                let kept = call.keep(answer.clone());
                drop((decoded, output));
                std::hint::black_box(kept);
            }
            begun.elapsed().as_secs_f64() * 1e6 / f64::from(charges)
        })
        .collect()
}

/// Starts a server with the models and the graph; returns it with the folder of its configuration file.
fn serve() -> (tempfile::TempDir, Peer) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let fixtures = Path::new(env!("WORKSPACE_ROOT")).join("fixtures/models");
    let models = MODELS.map(
        |name| serde_json::json!({"config": {"name": name, "base_path": fixtures.join(name)}}),
    );
    let config = serde_json::json!({
        "model_config_list": models,
        "mediapipe_config_list": [{"name": "two", "base_path": folder.path(), "graph_path": "two.pbtxt"}],
    });
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).expect("the folder is ours");
    std::fs::write(folder.path().join("two.pbtxt"), TWO).expect("the folder is ours");
    let peer = Peer::of_file(&path, &[BUDGET, "--log_level=ERROR"]);
    (folder, peer)
}

/// Attackers of a kind on the first core; killed on drop.
struct Attackers(Child);

impl Attackers {
    fn start(kind: &str, peer: &Peer) -> Self {
        let child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(std::env::current_exe().expect("a program has a path"))
            .args(["--inner", "attack", kind, &peer.port().to_string()])
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("taskset, of util-linux, is there"))
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        assert!(
            self.0.try_wait().expect("it is our child").is_none(),
            "the attackers have ended of their own accord"
        );
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures a client with attackers beside it, and without.
fn beside(kind: &str, lengths: &Lengths) -> Row {
    let load = |peer: &Peer| {
        let options = peer.options(Api::KserveGrpc, 16);
        pace::at_rate(&options, &cells::request(&TINY), RATE, lengths.rate)
    };
    let mut refused = Refused::default();
    let [attacked, quiet] = alternate(
        TURNS.min(lengths.restarts),
        || {
            // Of its own, so that what an attack leaves behind does not count as quiet.
            let (_folder, peer) = serve();
            load(&peer);
            let _attackers = Attackers::start(kind, &peer);
            refused.add(load(&peer))
        },
        || {
            let (_folder, peer) = serve();
            load(&peer);
            load(&peer).p99()
        },
    );
    let how = |attacked: f64, quiet: f64| attacked / (10.0 * quiet).max(20.0);
    Row::compared(&format!("attack-{kind}"), sides(attacked, quiet), how).noted(refused.note())
}

/// Measures clients of a model with variable shapes, beside one that sends shapes that do not fit.
fn shapes(lengths: &Lengths) -> Row {
    let request = pair();
    let seconds = lengths.rate * 20.0 / 3.0;
    let mut refused = Refused::default();
    let [attacked, quiet] = alternate(
        TURNS.min(lengths.restarts),
        || {
            let (_folder, peer) = serve();
            let options = peer.options(Api::KserveGrpc, 16);
            pace::by_clients(&options, &request, lengths.rate / 3.0);
            let _attackers = Attackers::start("shapes", &peer);
            refused.add(pace::by_clients(&options, &request, seconds))
        },
        || {
            let (_folder, peer) = serve();
            let options = peer.options(Api::KserveGrpc, 16);
            pace::by_clients(&options, &request, lengths.rate / 3.0);
            pace::by_clients(&options, &request, lengths.rate).p99()
        },
    );
    Row::ratio("attack-shapes", sides(attacked, quiet)).noted(refused.note())
}

/// Measures a client of a server with limits, beside a thousand connections that send all they can, and beside as many that
/// keep to the limits.
fn greedy(lengths: &Lengths) -> Row {
    let mut refused = Refused::default();
    let mut beside = |kind: &str| {
        let peer = Peer::ovms_with(&TINY, &["--client-limits", LIMITS, "--log_level=ERROR"]);
        let options = peer.options(Api::KserveGrpc, 16);
        let load = || pace::at_rate(&options, &cells::request(&TINY), RATE, lengths.rate);
        let _others = Attackers::start(kind, &peer);
        // The first while they connect.
        load();
        refused.add(load())
    };
    let mut values = [Vec::new(), Vec::new()];
    for turn in 0..2 * TURNS.min(lengths.restarts) {
        let kind = ["greedy", "modest"][turn % 2];
        values[turn % 2].push(beside(kind));
    }
    let [greedy, modest] = values;
    let sides = [("greedy", greedy), ("modest", modest)]
        .map(|(name, values)| Side::new(name, Unit::Millis, values));
    Row::ratio("fair-p99", sides).noted(refused.note())
}

fn sides(attacked: Vec<f64>, quiet: Vec<f64>) -> [Side; 2] {
    [("attacked", attacked), ("quiet", quiet)]
        .map(|(name, values)| Side::new(name, Unit::Millis, values))
}

/// Requests under attack that were answered with an error.
#[derive(Default)]
struct Refused {
    count: usize,
    all: usize,
}

impl Refused {
    /// Returns the 99th percentile.
    fn add(&mut self, outcome: Outcome) -> f64 {
        self.count += outcome.refused;
        self.all += outcome.count();
        outcome.p99()
    }

    fn note(&self) -> String {
        format!("{} of {} refused", self.count, self.all)
    }
}

/// Returns a valid request with two inputs of variable shape.
fn pair() -> Request {
    let mut inputs = TensorMap::default();
    for name in ["a", "b"] {
        let data = 1_i64.to_le_bytes().repeat(8);
        let tensor = Tensor::new(DataType::I64, vec![1, 8], data.into());
        inputs.push((
            name.into(),
            tensor.expect("as many bytes as the shape needs"),
        ));
    }
    Request {
        model: ModelId {
            name: "pair".to_owned(),
            version: None,
        },
        id: String::new(),
        parameters: Vec::new(),
        inputs,
        outputs: Vec::new(),
        form: TensorForm::Bytes,
        model_outputs: Vec::new(),
    }
}
