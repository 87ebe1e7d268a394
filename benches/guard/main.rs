//! `make guard`: cost of a request in instructions and allocations, which needs no quiet machine.
//!
//! Server, engine and runtime are in this process and on one thread, and so is the connection: a
//! client's bytes are recorded before anything is counted ([`record`]), and the server then gets them
//! again from memory ([`wire`]). Valgrind counts instructions of the server between the first byte of
//! the first request and the last byte of the last response; allocations are those of this program,
//! without the runtime's. `compare.py` compares both with `figures.json`.

#![expect(missing_docs, reason = "what the macros make has none")]

mod cases;
mod record;
mod served;
mod wire;

use std::{env, fs, path::PathBuf};

use allocation_counter::AllocationInfo;
use gungraun::{
    Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};

use self::{cases::Case, record::Recorded, served::Side, wire::Answered};

/// Number of warm-up steps: the connection preface, and requests that fill caches and tables.
const WARM: usize = 1 + 20;

/// Number of counted requests; `compare.py` reads the number here.
const COUNTED: usize = 50;

#[library_benchmark(setup = prepare, teardown = check)]
#[bench::grpc_tiny(Case::GrpcTiny)]
#[bench::grpc_600k(Case::GrpcLarge)]
#[bench::rest_json(Case::RestJson)]
#[bench::rest_binary(Case::RestBinary)]
#[bench::tfs_grpc(Case::TfsGrpc)]
#[bench::sequence_step(Case::SequenceStep)]
#[bench::pipeline_two(Case::PipelineTwo)]
#[bench::stream_step(Case::StreamStep)]
#[bench::grpc_unsampled(Case::GrpcUnsampled)]
fn requests(mut ready: Ready) -> Ready {
    let answered = &mut ready.answered;
    ready.allocated = allocation_counter::measure(|| answered.run(WARM..WARM + COUNTED));
    ready
}

/// A warm connection, with the requests to count.
struct Ready {
    case: Case,
    answered: Answered,
    recorded: Recorded,
    /// Allocations of the counted requests.
    allocated: AllocationInfo,
}

/// Environment variable with the folder for allocation counts; without it they are not written.
const ALLOCATIONS: &str = "GUARD_ALLOCATIONS";

/// Loads the models, records the client, and warms up the connection.
fn prepare(case: Case) -> Ready {
    let served = served::Served::new(&case.config(), case.is_traced());
    let recorded = record::record(&served, case, WARM - 1 + COUNTED);
    let mut answered = Answered::new(served, case.side(), recorded.steps.clone());
    answered.run(0..WARM);
    Ready {
        case,
        answered,
        recorded,
        allocated: AllocationInfo::default(),
    }
}

/// Checks that the counted responses equal those that the recorded client received, which were
/// successes, and writes their allocations.
fn check(ready: Ready) {
    if let Some(folder) = env::var_os(ALLOCATIONS) {
        let path = PathBuf::from(folder).join(ready.case.name());
        let count = ready.allocated.count_total.to_string();
        fs::write(path, count).expect("the folder is there");
    }
    let (recorded, counted) = (ready.recorded.answers, ready.answered.answers());
    match ready.recorded.side {
        Side::Rest => assert!(lasting(&recorded) == lasting(&counted), "other answers"),
        Side::Grpc => {
            let (recorded, counted) = (frames(&recorded), frames(&counted));
            assert_eq!(recorded.len(), counted.len(), "frames of answers");
            for (recorded, counted) in recorded.into_iter().zip(counted) {
                assert_eq!(recorded, counted, "a frame of an answer");
            }
        }
    }
}

/// Returns the frames of responses on an HTTP/2 connection, without connection-level frames, whose
/// order depends on task scheduling.
fn frames(mut answers: &[u8]) -> Vec<&[u8]> {
    const HEAD: usize = 9;
    let mut frames = Vec::new();
    while let [a, b, c, kind, ..] = *answers {
        let length = u32::from_be_bytes([0, a, b, c]);
        let length = HEAD + usize::try_from(length).expect("frames fit into memory");
        let (frame, rest) = answers.split_at(length);
        // DATA and HEADERS.
        if kind <= 1 {
            frames.push(frame);
        }
        answers = rest;
    }
    frames
}

/// Removes the varying part of responses: the time of an HTTP response.
fn lasting(answers: &[u8]) -> Vec<u8> {
    const DATE: &[u8] = b"date: ";
    let mut answers = answers.to_vec();
    let mut at = 0;
    while let Some(found) = answers[at..]
        .windows(DATE.len())
        .position(|window| window == DATE)
    {
        at += found + DATE.len();
        let end = answers
            .len()
            .min(at + "Sun, 06 Nov 1994 08:49:37 GMT".len());
        answers[at..end].fill(b'-');
    }
    answers
}

library_benchmark_group!(name = guard, benchmarks = requests);

main!(
    config = LibraryBenchmarkConfig::default()
        .pass_through_envs(["OPENVINO_INSTALL_DIR", ALLOCATIONS])
        .tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = guard
);
