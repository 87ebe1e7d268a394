//! Sides that are started several times: two servers with the same flags are up to a fifth apart, by where their memory lies
//! and by which of them is started first, which is more than some rows look for.

use ovms::client::Request;
use tokio::runtime::Runtime;

use crate::{
    jobs::{self, Cost, Load, Pairs, alternate},
    peer::Peer,
};

/// Length of a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Number of starts of both sides.
    pub(crate) starts: usize,
    /// Number of pairs of turns, of all starts together.
    pub(crate) pairs: usize,
}

/// Load of a row: its number of clients, and that of the requests of a turn.
pub(crate) type TurnLoad = (usize, usize);

/// Measures two servers under several loads, both started anew for each part of the pairs, by turns the one and the other first.
pub(crate) fn of_servers(
    runtime: &Runtime,
    extent: Extent,
    serve: impl Fn(usize) -> Peer,
    jobs: &[Vec<Request>],
    loads: &[TurnLoad],
) -> Vec<Pairs> {
    let mut all: Vec<Pairs> = loads.iter().map(|_| Pairs::default()).collect();
    for start in 0..extent.starts {
        let peers = both(start, &serve);
        let clients = [0, 1].map(|side: usize| jobs::connect(runtime, &peers[side]));
        for (&(number, count), all) in loads.iter().zip(&mut all) {
            let [one, other] = [0, 1]
                .map(|side| Load::new(&peers[side], runtime, &clients[side], jobs).by(number));
            all.extend(turns(extent, start, || one.run(count), || other.run(count)));
        }
    }
    all
}

/// Measures the pairs of one start, after a turn of each that does not count.
pub(crate) fn turns(
    extent: Extent,
    start: usize,
    mut one: impl FnMut() -> Cost,
    mut other: impl FnMut() -> Cost,
) -> [Vec<Cost>; 2] {
    let pairs = extent.pairs.div_ceil(extent.starts);
    // What is made at first is there afterwards.
    one();
    other();
    if is_reversed(start) {
        let [other, one] = alternate(pairs, other, one);
        [one, other]
    } else {
        alternate(pairs, one, other)
    }
}

/// Makes both sides, the second one first in every other start.
pub(crate) fn both<T>(start: usize, mut make: impl FnMut(usize) -> T) -> [T; 2] {
    if is_reversed(start) {
        let second = make(1);
        [make(0), second]
    } else {
        [make(0), make(1)]
    }
}

/// Returns whether the second side goes first in a start.
pub(crate) fn is_reversed(start: usize) -> bool {
    start % 2 == 1
}
