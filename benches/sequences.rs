//! What sequences cost: a request in one against the same request without, one that lives and is
//! idle, many of them against few, and a start with an end.

use std::path::Path;

use ovms::{
    client::Request,
    request::Parameter,
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    tensor::{DataType, Tensor},
};

use crate::{
    Model, cells,
    jobs::{self, CONCURRENCY},
    peer::{Peer, Raw},
    process,
    report::Times,
    targets::{line, pairs},
};

/// Sound in, three variables of 1 KB together inside.
const VAD: Model = Model {
    name: "vad_stateful",
    input: "audio",
    shape: &[1, 512],
    folder: "fixtures/models/vad_stateful",
};

/// The bytes of its variables.
const STATE: f64 = 1024.0;

/// As many sequences as may live by default.
const USUAL: u64 = 500;

/// Few sequences. More requests than that are under way, so that some wait for others.
const FEW: u64 = 10;

/// Many sequences.
const MANY: u64 = 10_000;

/// Ids for sequences that start and end, so many that none comes round again before it is over.
const PASSING: u64 = 1000;

/// How a request says what sequence it is of.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Request parameters.
    Parameters,
    /// Special inputs.
    Inputs,
}

/// The place of a request in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Next,
    End,
}

/// Measures and prints the targets.
pub(crate) fn run(library: &Path, times: &Times) {
    extra(times);
    start_and_end(times);
    live(library, times);
}

fn extra(times: &Times) {
    for (form, name) in [
        (Form::Parameters, "parameters"),
        (Form::Inputs, "special inputs"),
    ] {
        let mut first = false;
        let extra = pairs(times.pairs * 2 + 1, || {
            first = !first;
            let stateless = || request_cost(times);
            let in_sequence = || {
                let peer = stateful(USUAL);
                start(&peer, 1..=USUAL);
                let jobs = round(1..=USUAL, form);
                jobs::load(&peer, &jobs, times.requests).cpu_us
            };
            difference(first, in_sequence, stateless)
        });
        line(
            &format!(
                "{}: server CPU time of a request in one of {USUAL} sequences, told by {name}, \
                 beyond that of the same request without, gRPC, concurrency {CONCURRENCY}",
                VAD.name
            ),
            "≤ 5 µs",
            &format!("{extra:.1} µs"),
            extra <= 5.0,
        );
    }
}

fn start_and_end(times: &Times) {
    let mut first = false;
    let beyond = pairs(times.pairs * 2 + 1, || {
        first = !first;
        let stateless = || 2.0 * request_cost(times);
        let both = || {
            let peer = stateful(USUAL);
            let jobs: Vec<_> = (1..=PASSING)
                .map(|id| [Place::Start, Place::End].map(|at| request(id, at, Form::Parameters)))
                .map(Vec::from)
                .collect();
            jobs::load(&peer, &jobs, times.requests / 2).cpu_us
        };
        difference(first, both, stateless)
    });
    line(
        &format!(
            "{}: server CPU time of a sequence of a start and an end beyond that of two requests \
             without, gRPC, concurrency {CONCURRENCY}",
            VAD.name
        ),
        "≤ 200 µs",
        &format!("{beyond:.1} µs"),
        beyond <= 200.0,
    );
}

fn live(library: &Path, times: &Times) {
    let few = stateful(FEW);
    start(&few, 1..=FEW);
    let many = stateful(MANY + PASSING);
    // What does not belong to any one sequence is there before.
    start(&many, MANY + 1..=MANY + PASSING);
    end(&many, MANY + 1..=MANY + PASSING);
    let before = process::resident_mb(many.id());
    start(&many, 1..=MANY);
    let each = (process::resident_mb(many.id()) - before) * 1024.0 * 1024.0 / MANY as f64;
    let raw = |lent| Raw::requests(library, &VAD, MANY as usize, lent).bytes / 1024.0;
    line(
        &format!(
            "{}: resident memory for each of {MANY} sequences that are idle; an infer request of \
             raw OpenVINO that has run once takes {:.1} KB with its own tensors, and {:.1} KB with \
             lent ones",
            VAD.name,
            raw(false),
            raw(true)
        ),
        &format!("≤ {:.0} KB", STATE / 1024.0 + 16.0),
        &format!("{:.1} KB", each / 1024.0),
        each <= STATE + 16.0 * 1024.0,
    );
    let (round_few, round_many) = (
        round(1..=FEW, Form::Parameters),
        round(1..=MANY, Form::Parameters),
    );
    let mut ratios: Vec<(f64, f64)> = (0..times.pairs * 2 + 1)
        .map(|pair| {
            let cost = |few_first: bool| {
                if few_first {
                    jobs::load(&few, &round_few, times.requests)
                } else {
                    jobs::load(&many, &round_many, times.requests)
                }
            };
            let few_first = pair % 2 == 0;
            let (one, other) = (cost(few_first), cost(!few_first));
            let (few, many) = if few_first {
                (one, other)
            } else {
                (other, one)
            };
            (many.p50_us / few.p50_us, many.cpu_us / few.cpu_us)
        })
        .collect();
    let mut median = |of: fn(&(f64, f64)) -> f64| {
        ratios.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&ratios[ratios.len() / 2])
    };
    for (what, ratio) in [
        ("p50 latency", median(|ratio| ratio.0)),
        ("server CPU time per request", median(|ratio| ratio.1)),
    ] {
        line(
            &format!(
                "{}: {what} going round {MANY} sequences against {FEW}, gRPC, concurrency \
                 {CONCURRENCY}",
                VAD.name
            ),
            "≤ 1.10",
            &format!("{ratio:.3}"),
            ratio <= 1.1,
        );
    }
}

/// Returns what the one costs more than the other; which of them is measured first is for the
/// caller to change.
fn difference(first: bool, one: impl Fn() -> f64, other: impl Fn() -> f64) -> f64 {
    if first {
        let one = one();
        one - other()
    } else {
        let other = other();
        one() - other
    }
}

/// Returns the processor time of a request to the same model when it has no sequences.
fn request_cost(times: &Times) -> f64 {
    let peer = Peer::ovms(&VAD);
    jobs::load(&peer, &[vec![cells::request(&VAD)]], times.requests).cpu_us
}

/// Serves the model with sequences.
fn stateful(most: u64) -> Peer {
    let most = most.to_string();
    let flags = [
        "--stateful",
        "--max_sequence_number",
        most.as_str(),
        // Nothing is to go because the machine is slow.
        "--sequence_cleaner_poll_wait_minutes",
        "0",
    ];
    Peer::ovms_with(&VAD, &flags)
}

fn start(peer: &Peer, ids: impl Iterator<Item = u64>) {
    jobs::once(peer, &each(ids, Place::Start));
}

fn end(peer: &Peer, ids: impl Iterator<Item = u64>) {
    jobs::once(peer, &each(ids, Place::End));
}

fn round(ids: impl Iterator<Item = u64>, form: Form) -> Vec<Vec<Request>> {
    ids.map(|id| vec![request(id, Place::Next, form)]).collect()
}

fn each(ids: impl Iterator<Item = u64>, place: Place) -> Vec<Vec<Request>> {
    ids.map(|id| vec![request(id, place, Form::Parameters)])
        .collect()
}

fn request(id: u64, place: Place, form: Form) -> Request {
    let mut request = cells::request(&VAD);
    match form {
        Form::Parameters => {
            let number = i64::try_from(id).expect("ids are small here");
            let mut say = |name: &str, value| request.parameters.push((name.to_owned(), value));
            say(SEQUENCE_ID, Parameter::Int(number));
            match place {
                Place::Start => say("sequence_start", Parameter::Bool(true)),
                Place::Next => {}
                Place::End => say("sequence_end", Parameter::Bool(true)),
            }
        }
        Form::Inputs => {
            let mut say = |name: &str, dtype, bytes: &[u8]| {
                let value = Tensor::new(dtype, vec![1], bytes.to_vec().into());
                request.inputs.push(name, value.expect("one element"));
            };
            say(SEQUENCE_ID, DataType::U64, &id.to_le_bytes());
            let control: u32 = match place {
                Place::Start => 1,
                Place::Next => 0,
                Place::End => 2,
            };
            if control != 0 {
                say(CONTROL_INPUT, DataType::U32, &control.to_le_bytes());
            }
        }
    }
    request
}
