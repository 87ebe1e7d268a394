//! `SyncSetInputStreamHandler`: sets of inputs, each independently.

use super::{Input, Look, Rule, together};
use crate::graph::{packet::Packet, timestamp::Timestamp};

/// Handler that runs the node for the set ready at the lowest timestamp; the first set if several
/// are.
#[derive(Debug)]
pub(in crate::graph) struct SyncSet {
    sets: Vec<Set>,
    ready: usize,
    wants_bounds: bool,
}

#[derive(Debug)]
struct Set {
    places: Vec<usize>,
    processed: Timestamp,
}

impl SyncSet {
    /// Creates a handler that has taken no packets.
    pub(super) fn new(sets: &[Vec<usize>], wants_bounds: bool) -> Self {
        let sets = sets.iter().map(|places| Set {
            places: places.clone(),
            processed: Timestamp::UNSTARTED,
        });
        Self {
            sets: sets.collect(),
            ready: 0,
            wants_bounds,
        }
    }
}

impl Rule for SyncSet {
    fn look(&mut self, inputs: &mut [Input]) -> Look {
        let mut best = Look::Done;
        for (place, set) in self.sets.iter().enumerate() {
            let members = set.places.iter().map(|place| &inputs[*place]);
            match (together(members, self.wants_bounds, set.processed), best) {
                (Look::At(at), Look::At(known)) if known <= at => {}
                (Look::At(at), _) => {
                    best = Look::At(at);
                    self.ready = place;
                }
                (Look::Wait, Look::Done) => best = Look::Wait,
                (Look::Wait | Look::Done, _) => {}
            }
        }
        best
    }

    fn take(&mut self, at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
        let mut packets = vec![Packet::empty(at); inputs.len()];
        let set = &mut self.sets[self.ready];
        set.processed = at;
        for place in &set.places {
            packets[*place] = inputs[*place].take(at);
        }
        packets
    }
}
