//! Cost of traces: the server's processor time with a collector and without.

use crate::{
    TINY, cells,
    collector::Collector,
    jobs::{self, Figure, Load},
    meter::watched,
    peer::Peer,
    report::row::Row,
    run::Lengths,
};

/// Measures traces of few requests and of all of them against none.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    // Turns of the first are so long that each has an export of spans, which come by hundreds.
    [("trace-cpu", "0.01", 20), ("trace-all-cpu", "1", 3)]
        .into_iter()
        .flat_map(|(id, share, times)| {
            watched(|| vec![row(id, share, lengths.requests * times, lengths)])
        })
        .collect()
}

/// Measures a server that samples such a share of its requests against one without a collector.
fn row(id: &str, share: &str, count: usize, lengths: &Lengths) -> Row {
    let collector = Collector::start();
    let sampler = [
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", share),
    ];
    // Without warnings of spans that are lost, which many are where all requests are sampled.
    let flags = ["--otlp_endpoint", &collector.url(), "--log_level=ERROR"];
    let pairs = {
        // They end before the collector, which they would miss.
        let peers = [Peer::ovms_in(&sampler, &TINY, &flags), Peer::ovms(&TINY)];
        let runtime = jobs::runtime();
        let clients = peers.each_ref().map(|peer| jobs::connect(&runtime, peer));
        let jobs = [vec![cells::request(&TINY)]];
        let load = |index: usize| Load::new(&peers[index], &runtime, &clients[index], &jobs);
        jobs::in_turn([&load(0), &load(1)], [count; 2], lengths.pairs)
    };
    // A turn of each does not count, and its spans come too.
    let requests = count * (lengths.pairs + 1);
    let note = format!("{} spans came of {requests} requests", collector.end());
    pairs.ratio(id, Figure::Cpu, ["on", "off"]).noted(note)
}
