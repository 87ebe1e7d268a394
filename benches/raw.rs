//! Raw OpenVINO in a process of its own: the loop that nobody can beat.
//!
//! Uses the `openvino` crate directly, so that nothing of the server's own wrapping is in it.

use std::{
    io::{BufRead, Write},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use openvino::{CompiledModel, Core, DeviceType, InferRequest, RwPropertyKey};
use serde::{Deserialize, Serialize};

use crate::{PROPERTIES, process};

/// What a raw run says on its last line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us: f64,
    pub(crate) peak_mb: f64,
    /// Resident memory after the load and one inference, before the loop.
    pub(crate) loaded_mb: f64,
}

/// Compiles a model as every side does.
pub(crate) fn compile(library: &str, model: &str) -> CompiledModel {
    compile_with(library, model, &[])
}

/// Compiles a model with more properties.
pub(crate) fn compile_with(
    library: &str,
    model: &str,
    properties: &[(&str, &str)],
) -> CompiledModel {
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
    let read = core
        .read_model_from_file(
            &format!("{model}/1/model.xml"),
            &format!("{model}/1/model.bin"),
        )
        .expect("the model is there");
    core.compile_model(&read, DeviceType::CPU)
        .expect("the model compiles")
}

/// Loads a model, says so, waits for a line, and infers in a loop.
pub(crate) fn run(library: &str, model: &str, threads: usize, seconds: f64) {
    let mut compiled = compile(library, model);
    let mut requests: Vec<InferRequest> = (0..threads)
        .map(|_| compiled.create_infer_request().expect("a request"))
        .collect();
    for request in &mut requests {
        request.infer().expect("an inference");
    }
    let loaded_mb = process::resident_mb(std::process::id());
    println!("loaded");
    std::io::stdout().flush().expect("the parent reads");
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .expect("the parent writes");

    let cpu = process::cpu(std::process::id());
    let started = Instant::now();
    let limit = Duration::from_secs_f64(seconds);
    let latencies = std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter_mut()
            .map(|request| scope.spawn(move || infer_for(request, limit)))
            .collect();
        let mut all = new_histogram();
        for thread in threads {
            all.add(thread.join().expect("no thread fails"))
                .expect("same bounds");
        }
        all
    });
    let seconds = started.elapsed().as_secs_f64();
    let cpu = process::cpu(std::process::id()) - cpu;
    let micros = |quantile| nanoseconds_to_us(latencies.value_at_quantile(quantile));
    let outcome = Outcome {
        requests: latencies.len(),
        seconds,
        p50_us: micros(0.5),
        p99_us: micros(0.99),
        cpu_us: cpu.as_secs_f64() * 1e6 / latencies.len() as f64,
        peak_mb: process::peak_mb(std::process::id()),
        loaded_mb,
    };
    println!(
        "{}",
        serde_json::to_string(&outcome).expect("plain numbers")
    );
}

fn infer_for(request: &mut InferRequest, limit: Duration) -> Histogram<u64> {
    let mut latencies = new_histogram();
    let end = Instant::now() + limit;
    loop {
        let started = Instant::now();
        if started >= end {
            return latencies;
        }
        request.infer().expect("an inference");
        let took = started.elapsed().as_nanos();
        latencies.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
    }
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

fn nanoseconds_to_us(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
