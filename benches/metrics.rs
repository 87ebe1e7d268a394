//! What it costs to count: the server's processor time with a page of figures against without.

use ovms::client::Api;

use crate::{
    TINY,
    cells::{self, Length},
    peer::Peer,
    report::Times,
    targets::{line, pairs},
};

/// Clients at once. Many, so that threads count at the same time, and little of a request's time
/// is that of waking up.
const CONCURRENCY: usize = 16;

/// Measures and prints the target. The difference is far below the noise of one pair, so there are
/// more of them than elsewhere.
pub(crate) fn run(times: &Times) {
    let mut first = false;
    let ratio = pairs(times.pairs * 4 + 1, || {
        // Which of the two comes first changes from pair to pair.
        first = !first;
        let (one, other) = (cost(first, times.tiny), cost(!first, times.tiny));
        if first { one / other } else { other / one }
    });
    line(
        &format!(
            "{}: server CPU time per request with metrics on against off, gRPC, concurrency \
             {CONCURRENCY}",
            TINY.name
        ),
        "≤ 1.02",
        &format!("{ratio:.3}"),
        ratio <= 1.02,
    );
}

fn cost(on: bool, seconds: f64) -> f64 {
    let flags: &[&str] = if on { &["--metrics_enable"] } else { &[] };
    let peer = Peer::ovms_with(&TINY, flags);
    let length = Length::Seconds(seconds);
    cells::served(&peer, Api::KserveGrpc, &TINY, CONCURRENCY, length).cpu_us
}
