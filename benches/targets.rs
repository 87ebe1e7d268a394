//! The figures that the project sets itself, each measured so that the machine's noise falls on
//! both sides of the ratio.

use std::path::Path;

use ovms::client::Api;

use crate::{
    CLASSIFIER, CONVOLUTIONAL, INPUT_600K, Model, TINY,
    cells::{self, Length},
    peer::{Peer, Raw},
    process,
    report::Times,
};

/// What the echo service allocates with; see the feature in `Cargo.toml`.
const ALLOCATOR: &str = if cfg!(feature = "same-allocator") {
    "our allocator"
} else {
    "the system's allocator"
};

/// Measures and prints the targets.
pub(crate) fn run(library: &Path, times: &Times) {
    println!("| target | wanted | measured | |");
    println!("|---|---|---|---|");
    echo(times);
    for (model, most) in [(&TINY, 150.0), (&INPUT_600K, 600.0)] {
        let added = pairs(times.pairs, || added_latency(library, model, times.tiny));
        line(
            &format!(
                "{}: added p50 latency over raw inference, gRPC, concurrency 1",
                model.name
            ),
            &format!("≤ {most:.0} µs"),
            &format!("{added:.0} µs"),
            added <= most,
        );
    }
    for (model, seconds, most) in [
        (&CONVOLUTIONAL, times.large, Some(1.08)),
        (&CLASSIFIER, times.tiny, None),
    ] {
        let ratio = pairs(times.pairs, || cpu_ratio(library, model, seconds));
        let wanted = most.map_or("—".to_owned(), |most| format!("≤ {most}"));
        line(
            &format!(
                "{}: server CPU time per request against raw OpenVINO's, gRPC",
                model.name
            ),
            &wanted,
            &format!("{ratio:.3}"),
            most.is_none_or(|most| ratio <= most),
        );
    }
    memory(library, times);
}

/// Measures and prints the target against the echo service.
pub(crate) fn echo(times: &Times) {
    let ratio = pairs(times.pairs, || {
        let echo = Peer::echo();
        let ovms = Peer::ovms(&TINY);
        let rate = |peer: &Peer| {
            cells::served(
                peer,
                Api::KserveGrpc,
                &TINY,
                16,
                Length::Seconds(times.tiny),
            )
            .per_second
        };
        let echo = rate(&echo);
        rate(&ovms) / echo
    });
    line(
        &format!(
            "tiny model over gRPC, requests/s against the echo service with {ALLOCATOR}, concurrency 16"
        ),
        "≥ 0.80",
        &format!("{ratio:.3}"),
        ratio >= 0.80,
    );
}

/// Returns the median of alternating pairs of runs.
pub(crate) fn pairs(count: usize, mut measure: impl FnMut() -> f64) -> f64 {
    let mut ratios: Vec<f64> = (0..count).map(|_| measure()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn added_latency(library: &Path, model: &Model, seconds: f64) -> f64 {
    let raw = cells::raw(library, model, 1, seconds);
    let peer = Peer::ovms(model);
    let served = cells::served(&peer, Api::KserveGrpc, model, 1, Length::Seconds(seconds));
    served.p50_us - raw.p50_us
}

fn cpu_ratio(library: &Path, model: &Model, seconds: f64) -> f64 {
    let raw = cells::raw(library, model, 1, seconds);
    let peer = Peer::ovms(model);
    let served = cells::served(&peer, Api::KserveGrpc, model, 1, Length::Seconds(seconds));
    served.cpu_us / raw.cpu_us
}

fn memory(library: &Path, times: &Times) {
    let raw = Raw::load(library, &TINY, 1, 0.1).run().loaded_mb;
    let peer = Peer::ovms(&TINY);
    let load = |requests| {
        cells::served(
            &peer,
            Api::KserveGrpc,
            &TINY,
            16,
            Length::Requests(requests),
        );
        process::resident_mb(peer.id())
    };
    // One request first: the raw process has run one inference, too.
    load(1);
    let fresh = process::resident_mb(peer.id());
    line(
        "resident memory with the tiny model against a bare process with OpenVINO and the model",
        "≤ +25 MB",
        &format!("{fresh:.0} MB − {raw:.0} MB = {:+.1} MB", fresh - raw),
        fresh - raw <= 25.0,
    );
    let early = load(times.many / 10);
    let late = load(times.many - times.many / 10);
    let growth = (late / early - 1.0) * 100.0;
    line(
        &format!(
            "resident memory after {} requests against after {}",
            times.many,
            times.many / 10
        ),
        "≤ +3 %",
        &format!("{late:.1} MB / {early:.1} MB = {growth:+.1} %"),
        growth <= 3.0,
    );
}

pub(crate) fn line(target: &str, wanted: &str, measured: &str, met: bool) {
    let verdict = match (wanted, met) {
        ("—", _) => "",
        (_, true) => "met",
        (_, false) => "**missed**",
    };
    println!("| {target} | {wanted} | {measured} | {verdict} |");
}
