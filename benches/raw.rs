//! Raw OpenVINO in a process of its own: the lower bound of every server.
//!
//! Uses the `openvino` crate directly, so that nothing of the server's own wrapping is in it.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use openvino::{CompiledModel, Core, DeviceType, InferRequest, PartialShape, RwPropertyKey};
use serde::{Deserialize, Serialize};

use crate::{PROPERTIES, jobs::Cost, process};

/// Length of a turn of inferences.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Span {
    Seconds(f64),
    /// Number of inferences on each thread.
    Inferences(usize),
    /// Number of inferences on each thread, each after a pause.
    Apart {
        count: usize,
        pause: Duration,
    },
}

/// Report of a process after loading its model.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// Resident memory after the load and one inference.
    pub(crate) resident_mb: f64,
}

/// Report after a turn of inferences.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us: f64,
    pub(crate) peak_mb: f64,
}

impl Outcome {
    /// Returns the outcome as the cost of a load.
    pub(crate) fn cost(&self) -> Cost {
        Cost {
            p50_us: self.p50_us,
            p99_us: self.p99_us,
            cpu_us: self.cpu_us,
            per_second: self.requests as f64 / self.seconds,
        }
    }
}

/// Compiles a model as every side does.
pub(crate) fn compile(library: &str, model: &str) -> CompiledModel {
    compile_with(library, model, &[])
}

/// Compiles a model, and returns an infer request of it that has run once.
pub(crate) fn warm_request(library: &str, model: &str) -> InferRequest {
    let request = compile(library, model).create_infer_request();
    let mut request = request.expect("a request");
    request.infer().expect("an inference");
    request
}

/// Compiles a model with more properties.
pub(crate) fn compile_with(
    library: &str,
    model: &str,
    properties: &[(&str, &str)],
) -> CompiledModel {
    read_and_compile(&mut core(library, properties), model, &[])
}

fn core(library: &str, properties: &[(&str, &str)]) -> Core {
    openvino_sys::library::load_from(library).expect("the runtime opens");
    let mut core = Core::new().expect("the runtime starts");
    for (key, value) in PROPERTIES.iter().chain(properties) {
        core.set_property(
            &DeviceType::CPU,
            &RwPropertyKey::Other((*key).to_owned().into()),
            value,
        )
        .expect("the properties are known");
    }
    core
}

/// Compiles a model for a shape of its input; for its own if there is none.
fn read_and_compile(core: &mut Core, model: &str, shape: &[i64]) -> CompiledModel {
    let mut read = core
        .read_model_from_file(
            &format!("{model}/1/model.xml"),
            &format!("{model}/1/model.bin"),
        )
        .expect("the model is there");
    if !shape.is_empty() {
        let shape = PartialShape::new_static(shape.len() as i64, shape).expect("lengths are known");
        read.reshape_single_input(&shape).expect("it has one input");
    }
    core.compile_model(&read, DeviceType::CPU)
        .expect("the model compiles")
}

/// Compiles a model as many times as each line of standard input says, on as many threads as there are processors, and
/// reports the seconds that it took.
pub(crate) fn compile_many(library: &str, model: &str) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut cores: Vec<Core> = (0..threads).map(|_| core(library, &[])).collect();
    // What the first one alone costs is over when the parent goes on.
    drop(read_and_compile(&mut cores[0], model, &[]));
    say(&0.0);
    for line in std::io::stdin().lines() {
        let line = line.expect("the parent writes text");
        let count: usize = line.parse().expect("a number");
        let started = Instant::now();
        std::thread::scope(|scope| {
            for (thread, core) in cores.iter_mut().enumerate() {
                scope.spawn(move || {
                    let mine = (thread..count).step_by(threads);
                    let models: Vec<_> = mine.map(|_| read_and_compile(core, model, &[])).collect();
                    drop(models);
                });
            }
        });
        say(&started.elapsed().as_secs_f64());
    }
}

/// Loads a model with properties of the form `KEY=VALUE`, reports it, and runs one turn of inferences per line of
/// standard input.
pub(crate) fn run(library: &str, model: &str, threads: usize, properties: &[&str]) {
    let properties = properties.iter().map(|text| text.split_once('='));
    let properties: Option<Vec<_>> = properties.collect();
    let compiled = compile_with(library, model, &properties.expect("keys have values"));
    answer(compiled, threads);
}

/// Measures a model compiled for a shape, such as `8,16`, on one thread.
pub(crate) fn run_shape(library: &str, model: &str, shape: &str) {
    let lengths = shape.split(',').map(|it| it.parse().expect("a length"));
    let shape: Vec<i64> = lengths.collect();
    answer(read_and_compile(&mut core(library, &[]), model, &shape), 1);
}

/// Reports that a model is loaded, and runs a turn of inferences for each line.
fn answer(mut compiled: CompiledModel, threads: usize) {
    let mut requests: Vec<InferRequest> = (0..threads)
        .map(|_| compiled.create_infer_request().expect("a request"))
        .collect();
    for request in &mut requests {
        request.infer().expect("an inference");
    }
    say(&Loaded {
        resident_mb: process::resident_mb(std::process::id()),
    });
    for line in std::io::stdin().lines() {
        let line = line.expect("the parent writes text");
        let span = serde_json::from_str(&line).expect("as it was written");
        say(&infer(&mut requests, span));
    }
}

fn say(what: &impl Serialize) {
    let line = serde_json::to_string(what).expect("plain numbers");
    println!("{line}");
    std::io::stdout().flush().expect("the parent reads");
}

fn infer(requests: &mut [InferRequest], span: Span) -> Outcome {
    let cpu = process::cpu(std::process::id());
    let started = Instant::now();
    let latencies = match requests {
        [request] => infer_for(request, span),
        requests => std::thread::scope(|scope| {
            let threads: Vec<_> = requests
                .iter_mut()
                .map(|request| scope.spawn(move || infer_for(request, span)))
                .collect();
            let mut all = new_histogram();
            for thread in threads {
                all.add(thread.join().expect("no thread fails"))
                    .expect("same bounds");
            }
            all
        }),
    };
    let seconds = started.elapsed().as_secs_f64();
    let cpu = process::cpu(std::process::id()) - cpu;
    let micros = |quantile| nanoseconds_to_us(latencies.value_at_quantile(quantile));
    Outcome {
        requests: latencies.len(),
        seconds,
        p50_us: micros(0.5),
        p99_us: micros(0.99),
        cpu_us: cpu.as_secs_f64() * 1e6 / latencies.len() as f64,
        peak_mb: process::peak_mb(std::process::id()),
    }
}

fn infer_for(request: &mut InferRequest, span: Span) -> Histogram<u64> {
    let mut latencies = new_histogram();
    let (end, most, pause) = match span {
        Span::Seconds(seconds) => {
            let end = Instant::now() + Duration::from_secs_f64(seconds);
            (Some(end), u64::MAX, None)
        }
        Span::Inferences(count) => (None, count as u64, None),
        Span::Apart { count, pause } => (None, count as u64, Some(pause)),
    };
    while latencies.len() < most {
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
        let started = Instant::now();
        if end.is_some_and(|end| started >= end) {
            break;
        }
        request.infer().expect("an inference");
        let took = started.elapsed().as_nanos();
        latencies.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
    }
    latencies
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

fn nanoseconds_to_us(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
