//! Cost of metrics: the server's processor time with the metrics page and without.

use crate::{
    TINY, cells,
    jobs::{self, Figure, Load},
    meter::watched,
    peer::Peer,
    report::row::Row,
    run::Lengths,
};

/// Measures metrics on against off. Many clients, so that threads count at the same time.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let runtime = jobs::runtime();
    let peers = [
        Peer::ovms_with(&TINY, &["--metrics_enable"]),
        Peer::ovms(&TINY),
    ];
    let clients = peers.each_ref().map(|peer| jobs::connect(&runtime, peer));
    let jobs = [vec![cells::request(&TINY)]];
    let load = |index: usize| Load::new(&peers[index], &runtime, &clients[index], &jobs);
    // The difference is small against the noise of a short turn.
    let count = lengths.requests * 3;
    watched(|| {
        let pairs = jobs::in_turn([&load(0), &load(1)], [count; 2], lengths.pairs);
        vec![pairs.ratio("metrics-cpu", Figure::Cpu, ["on", "off"])]
    })
}
