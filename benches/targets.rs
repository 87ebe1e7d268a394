//! A tiny model against a bare echo service, served inferences against raw OpenVINO, and the memory
//! of the server.

use std::{cell::RefCell, time::Duration};

use ovms::client::Api;
use tokio::runtime::Runtime;

use crate::{
    CLASSIFIER, CONVOLUTIONAL, CONVOLUTIONS, INPUT_600K, Model, TINY, cells,
    jobs::{self, CONCURRENCY, Cost, Figure, Load, Pairs, alternate},
    meter::watched,
    peer::{Peer, Raw},
    process,
    raw::Span,
    report::{
        row::{Row, Side, Unit},
        stats::median,
    },
    run::Lengths,
    shared::SharedLoad,
    starts::{self, Extent},
};

const SIDES: [&str; 2] = ["ovms", "echo"];

/// Measures against the echo service.
pub(crate) fn echo(lengths: &Lengths) -> Vec<Row> {
    let runtime = jobs::runtime();
    let (peer, bare) = (Peer::ovms(&TINY), Peer::echo());
    let clients = [&peer, &bare].map(|peer| jobs::connect(&runtime, peer));
    let rest = jobs::connect_by(&runtime, &peer, Api::KserveRest);
    let jobs = [vec![cells::request(&TINY)]];
    let ours = || Load::new(&peer, &runtime, &clients[0], &jobs);
    let echo = || Load::new(&bare, &runtime, &clients[1], &jobs);
    let rest = Load::new(&peer, &runtime, &rest, &jobs);
    let count = lengths.requests * 2;
    let mut rows = watched(|| {
        let pairs = jobs::in_turn([&ours(), &echo()], [count; 2], lengths.pairs);
        let mut raw = Raw::load(&lengths.library, &TINY, 1);
        let inference = raw.infer(Span::Inferences(10 * count)).cost().cpu_us;
        let beyond = Row::compared(
            "grpc-added-cpu",
            pairs.sides(Figure::Cpu, SIDES),
            |ours, echo| ours - echo - inference,
        );
        vec![
            pairs
                .ratio("echo-share-16", Figure::Rate, SIDES)
                .noted(ALLOCATOR.to_owned()),
            pairs.of("echo-cpu", Figure::Cpu, 1),
            beyond.noted(format!("a raw inference {}", Unit::Micros.text(inference))),
        ]
    });
    rows.extend(watched(|| {
        let pairs = jobs::in_turn([&ours(), &rest], [count; 2], lengths.pairs);
        vec![
            pairs.of("grpc-cpu", Figure::Cpu, 0),
            pairs.of("rest-cpu", Figure::Cpu, 1),
            pairs.ratio("grpc-over-rest-cpu", Figure::Cpu, ["gRPC", "REST"]),
        ]
    }));
    rows.extend(watched(|| bare_rest(&runtime, lengths)));
    rows.extend(watched(|| {
        let loads = [&ours().alone(), &echo().alone()];
        let pairs = jobs::in_turn(loads, [lengths.requests / 2; 2], lengths.pairs);
        vec![
            pairs.ratio("echo-p50-1", Figure::P50, SIDES),
            pairs.difference("echo-added-1", Figure::P50, SIDES),
        ]
    }));
    rows.extend(watched(|| {
        let least = Peer::inferring_echo(&lengths.library, &TINY);
        let client = jobs::connect(&runtime, &least);
        let loads = [
            &Load::new(&least, &runtime, &client, &jobs).alone(),
            &echo().alone(),
        ];
        let pairs = jobs::in_turn(loads, [lengths.requests / 2; 2], lengths.pairs);
        let sides = ["the echo with an inference", "echo"];
        vec![pairs.difference("echo-infers-1", Figure::P50, sides)]
    }));
    rows
}

/// Measures a bare service over HTTP/1, without an inference in its handler and with one.
fn bare_rest(runtime: &Runtime, lengths: &Lengths) -> Vec<Row> {
    let peers = [
        Peer::rest_echo(),
        Peer::inferring_rest_echo(&lengths.library, &TINY),
    ];
    let clients =
        [0, 1].map(|side: usize| jobs::connect_by(runtime, &peers[side], Api::KserveRest));
    let jobs = [vec![cells::request(&TINY)]];
    let load = |side: usize| Load::new(&peers[side], runtime, &clients[side], &jobs);
    let count = lengths.requests * 2;
    let pairs = jobs::in_turn([&load(0), &load(1)], [count; 2], lengths.pairs);
    vec![
        pairs.of("rest-echo-cpu", Figure::Cpu, 0),
        pairs.of("rest-infers-cpu", Figure::Cpu, 1),
    ]
}

/// Allocator of the echo service; see the feature in `Cargo.toml`.
const ALLOCATOR: &str = if cfg!(feature = "same-allocator") {
    "the echo with the server's allocator"
} else {
    "the echo with the system's allocator"
};

/// Measures against raw OpenVINO.
pub(crate) fn raw(lengths: &Lengths) -> Vec<Row> {
    let sides = ["ovms", "raw"];
    let mut rows = Vec::new();
    for (id, model, turn, figure) in [
        // Turns of a quarter of a second at most.
        ("resnet50-cpu", &CONVOLUTIONAL, (8, STARTS), Figure::Cpu),
        ("classifier-cpu", &CLASSIFIER, (150, 1), Figure::Cpu),
        ("dummy-added", &TINY, (500, 1), Figure::P50),
        ("fullsize-added", &INPUT_600K, (300, 1), Figure::P50),
    ] {
        rows.extend(watched(|| {
            let pairs = beside_raw(lengths, model, turn, 1);
            let mut rows = vec![match figure {
                Figure::P50 => pairs.difference(id, figure, sides),
                _ => pairs.ratio(id, figure, sides),
            }];
            if id == "resnet50-cpu" {
                rows.push(apart(lengths, model, turn.0, &pairs));
            }
            rows
        }));
    }
    let turn = (64, STARTS);
    rows.extend(watched(|| {
        let pairs = beside_raw(lengths, &CONVOLUTIONS, turn, CONCURRENCY);
        vec![
            pairs.ratio("conv-cpu", Figure::Cpu, sides),
            pairs.ratio("conv-share", Figure::Rate, sides),
        ]
    }));
    rows.extend(watched(|| {
        let start = || SharedLoad::new(&CONVOLUTIONS, CONCURRENCY);
        let pairs = against_raw(lengths, &CONVOLUTIONS, turn, start, |ours| ours.run(turn.0));
        vec![
            pairs.ratio("conv-shm-cpu", Figure::Cpu, sides),
            pairs.ratio("conv-shm-share", Figure::Rate, sides),
        ]
    }));
    let library = &lengths.library;
    rows.extend(watched(|| {
        let start = || Peer::inferring_echo(library, &CONVOLUTIONS);
        infers(lengths, "conv-infers", start, &CONVOLUTIONS)
    }));
    rows.extend(watched(|| {
        let start = || Peer::reading_echo(library, &CONVOLUTIONS);
        infers(lengths, "conv-infers-shm", start, &TINY)
    }));
    rows
}

/// Measures the bare echo with a raw inference of `conv` in its handler against raw inferences: what clients beside the
/// runtime and the copy of an input cost, whatever a server does. `request` is the model whose request is sent.
fn infers(lengths: &Lengths, id: &str, start: impl Fn() -> Peer, request: &Model) -> Vec<Row> {
    let turn = (64, STARTS);
    let pairs = served_against_raw(lengths, &CONVOLUTIONS, turn, (start, request, CONCURRENCY));
    let sides = ["the echo with an inference", "raw"];
    vec![
        pairs.ratio(&format!("{id}-cpu"), Figure::Cpu, sides),
        pairs.ratio(&format!("{id}-share"), Figure::Rate, sides),
    ]
}

/// Runs raw OpenVINO with pauses between inferences, as long as the server's responses took longer
/// than raw inferences: threads of the runtime spin meanwhile, which is no work of the server's.
fn apart(lengths: &Lengths, model: &Model, count: usize, beside: &Pairs) -> Row {
    let [ours, raw] = beside.sides(Figure::P50, ["", ""]);
    let longer = (median(&ours.values) - median(&raw.values)).max(0.0);
    let pause = Duration::from_secs_f64(longer / 1e6);
    let raw = RefCell::new(Raw::load(&lengths.library, model, 1));
    let infer = |span| raw.borrow_mut().infer(span).cost();
    infer(Span::Inferences(count));
    let pairs = Pairs(alternate(
        lengths.pairs,
        || infer(Span::Apart { count, pause }),
        || infer(Span::Inferences(count)),
    ));
    pairs.ratio("resnet50-apart-cpu", Figure::Cpu, ["apart", "raw"])
}

/// Starts of both sides of the rows that look for a few percent: of two copies of one program, the one that is started first
/// takes up to 2 % more.
const STARTS: usize = 6;

/// Number of inferences of a turn, and of starts of both sides.
type Turn = (usize, usize);

/// Infers with the server and with raw OpenVINO in turn: the one with so many clients, the other one after the other.
fn beside_raw(lengths: &Lengths, model: &Model, turn: Turn, clients: usize) -> Pairs {
    served_against_raw(lengths, model, turn, (|| Peer::ovms(model), model, clients))
}

/// Does the same with any process that is started so, asked for the request of a model by so many clients.
fn served_against_raw(
    lengths: &Lengths,
    model: &Model,
    turn: Turn,
    (start, request, clients): (impl Fn() -> Peer, &Model, usize),
) -> Pairs {
    let runtime = jobs::runtime();
    let jobs = [vec![cells::request(request)]];
    let start = || {
        let peer = start();
        let client = jobs::connect(&runtime, &peer);
        (peer, client)
    };
    against_raw(lengths, model, turn, start, |(peer, client)| {
        let load = Load::new(peer, &runtime, client, &jobs).by(clients);
        load.run(turn.0)
    })
}

/// Runs turns of a side and of raw OpenVINO, both started anew for each part of the pairs, by turns the one and the other first.
fn against_raw<T>(
    lengths: &Lengths,
    model: &Model,
    (count, starts): Turn,
    start: impl Fn() -> T,
    run: impl Fn(&T) -> Cost,
) -> Pairs {
    let extent = Extent {
        starts,
        pairs: lengths.pairs,
    };
    let mut all = Pairs::default();
    for number in 0..starts {
        let raw = || Raw::load(&lengths.library, model, 1);
        let (ours, mut raw) = if starts::is_reversed(number) {
            let raw = raw();
            (start(), raw)
        } else {
            (start(), raw())
        };
        let raw = || raw.infer(Span::Inferences(count)).cost();
        all.extend(starts::turns(extent, number, || run(&ours), raw));
    }
    all
}

/// Measures resident memory.
pub(crate) fn memory(lengths: &Lengths) -> Vec<Row> {
    let side = |name: &str, values| Side::new(name, Unit::Megabytes, values);
    let [ours, raw] = alternate(lengths.restarts, fresh_mb, || {
        Raw::load(&lengths.library, &TINY, 1).loaded_mb
    });
    let sides = [side("ovms", ours), side("raw", raw)];
    let beyond = Row::difference("memory-tiny", sides);
    let runtime = jobs::runtime();
    let peer = Peer::ovms(&TINY);
    let client = jobs::connect(&runtime, &peer);
    let load = Load::new(&peer, &runtime, &client, &[vec![cells::request(&TINY)]]);
    let after = |requests| {
        load.run(requests);
        process::own_mb(peer.id())
    };
    let early = after(lengths.many / 10);
    let late = after(lengths.many - lengths.many / 10);
    let sides = [side("late", vec![late]), side("early", vec![early])];
    vec![beyond, Row::ratio("memory-growth", sides)]
}

/// Returns the resident memory of a server after one request, to match the one inference of the raw
/// process.
fn fresh_mb() -> f64 {
    let runtime = jobs::runtime();
    let peer = Peer::ovms(&TINY);
    let client = jobs::connect(&runtime, &peer);
    Load::new(&peer, &runtime, &client, &[vec![cells::request(&TINY)]]).run(1);
    process::resident_mb(peer.id())
}
