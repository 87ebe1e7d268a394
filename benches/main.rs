//! `make bench`: how close the server is to raw OpenVINO and to a bare echo service.
//!
//! Everything is measured in one run on one machine; the results are ratios within that run, of
//! pairs of turns that alternate. [`report::catalog`] lists the figures.
//! Four kinds of process take part, all on loopback: raw OpenVINO (this program again, [`raw`]),
//! a bare tonic echo service (this program again, [`echo`]), `ovms serve`, and the load (this
//! process, through the crate's own client). Some rows have others: a bare service over HTTP/1 (this program
//! again, [`rest_echo`]), nginx in front of the server ([`tls`]), and a collector of traces (this program
//! again, [`collector`]). Processor time and
//! memory are the kernel's figures for the process that serves.

mod against;
mod attackers;
mod attacks;
mod awake;
mod batching;
mod cells;
mod collector;
mod curves;
mod echo;
mod graphs;
mod inside;
mod jobs;
mod meter;
mod metrics;
mod pace;
mod peer;
mod pipelines;
mod process;
mod raw;
mod raw_requests;
mod reload;
mod report;
mod rest;
mod rest_echo;
mod run;
mod sequences;
mod shared;
mod starts;
mod targets;
mod threads;
mod tls;
mod traces;

use std::path::{Path, PathBuf};

use self::{
    echo::{InputSource, Work},
    graphs::Beyond,
};

/// Allocator of the server, for an echo service that differs in nothing but its work. Without it
/// the echo service is a plain tonic program.
#[cfg(feature = "same-allocator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A model of the benchmark and its one input.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) input: &'static str,
    pub(crate) shape: &'static [usize],
    /// Path below the project's folder.
    pub(crate) folder: &'static str,
}

/// Ten numbers in, ten out.
pub(crate) const TINY: Model = Model {
    name: "dummy",
    input: "b",
    shape: &[1, 10],
    folder: "fixtures/models/dummy",
};

/// An image of 600 KB in, three numbers out: next to no work for much input.
pub(crate) const INPUT_600K: Model = Model {
    name: "fullsize",
    input: "image",
    shape: &[1, 3, 224, 224],
    folder: "fixtures/models/fullsize",
};

/// A ResNet-50 with meaningless weights.
pub(crate) const CONVOLUTIONAL: Model = Model {
    name: "resnet50",
    input: "image",
    shape: &[1, 3, 224, 224],
    folder: "target/bench-models/resnet50",
};

/// Stem and first stage of it: some milliseconds for an image of 600 KB.
pub(crate) const CONVOLUTIONS: Model = Model {
    name: "conv",
    input: "image",
    shape: &[1, 3, 224, 224],
    folder: "target/bench-models/conv",
};

/// Example model built into the program; an inference takes well below a millisecond.
pub(crate) const CLASSIFIER: Model = Model {
    name: "classifier",
    input: "image",
    shape: &[1, 3, 224, 224],
    folder: "fixtures/models/classifier",
};

impl Model {
    pub(crate) fn path(&self) -> PathBuf {
        Path::new(env!("WORKSPACE_ROOT")).join(self.folder)
    }
}

/// Compile properties of every side: the server's defaults, and single precision, so that all sides
/// compute the same.
pub(crate) const PROPERTIES: [(&str, &str); 3] = [
    ("PERFORMANCE_HINT", "LATENCY"),
    ("ENABLE_CPU_PINNING", "NO"),
    ("INFERENCE_PRECISION_HINT", "f32"),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["--inner", "raw", library, model, threads, properties @ ..] => {
            raw::run(library, model, number(threads), properties);
        }
        ["--inner", "raw-shape", library, model, shape] => raw::run_shape(library, model, shape),
        ["--inner", "compile", library, model] => raw::compile_many(library, model),
        ["--inner", "requests", library, model, count, lent] => {
            raw_requests::run(library, model, number(count), *lent == "lent");
        }
        ["--inner", "pipelines", library, pairs] => {
            inside::say(&pipelines::in_process(library, number(pairs)));
        }
        ["--inner", "graphs", pairs] => inside::say(&graphs::in_process(number(pairs))),
        ["--inner", "echo", port] => echo::run(number(port), Work::Nothing),
        ["--inner", "echo", port, "hop"] => echo::run(number(port), Work::Hop(Beyond::Native)),
        ["--inner", "echo", port, "hop", "python"] => {
            echo::run(number(port), Work::Hop(Beyond::Python));
        }
        ["--inner", "echo", port, "redis", redis] => {
            echo::run(number(port), Work::Store(number(redis)));
        }
        ["--inner", "echo", port, library, model, more @ ..] => {
            let source = match more {
                ["shared"] => InputSource::Shared,
                _ => InputSource::Request,
            };
            let work = Work::Inference {
                library,
                model,
                source,
            };
            echo::run(number(port), work);
        }
        ["--inner", "rest-echo", port] => rest_echo::run(number(port), None),
        ["--inner", "rest-echo", port, library, model] => {
            rest_echo::run(number(port), Some((library, model)));
        }
        ["--inner", "collector", port] => collector::run(number(port)),
        ["--inner", "hop"] => graphs::answer(),
        ["--inner", "attack", kind, port] => attackers::run(kind, number(port)),
        ["curves", args @ ..] => alone(|| curves::run(args)),
        args => alone(|| run::run(args)),
    }
}

/// Measures with all processes below this one.
fn alone(measure: impl FnOnce()) {
    // Processes that outlive their parents are still ours, and so is their time.
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).expect("Linux has it");
    measure();
}

fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse()
        .unwrap_or_else(|_| panic!("`{text}` is not a number"))
}
