//! `MuxInputStreamHandler`: the last input selects which of the others is taken. It runs the node when
//! the last input has a number and the input of that number is settled.

use super::{Input, Look, wait_unless};
use crate::graph::calculators::{
    packet::{Packet, Payload},
    timestamp::Timestamp,
};

/// Returns the input selected by a control packet, if it exists: errors in the packet are reported
/// by the calculator.
fn chosen(control: &Packet, data: usize) -> Option<usize> {
    match control.payload() {
        Some(Payload::Int(place)) => usize::try_from(*place).ok().filter(|place| *place < data),
        _ => None,
    }
}

/// Returns the state of the queues.
pub(super) fn look(inputs: &mut [Input]) -> Look {
    let Some((control, data)) = inputs.split_last_mut() else {
        return Look::Done;
    };
    let at = control.time();
    for input in &mut *data {
        input.drop_before(at);
    }
    let Some(head) = control.head() else {
        return wait_unless(control.is_done());
    };
    match chosen(head, data.len()).map(|place| &data[place]) {
        Some(input) if input.len() == 0 && input.bound() <= at => Look::Wait,
        _ => Look::At(at),
    }
}

/// Takes the packets of a timestamp.
pub(super) fn take(at: Timestamp, inputs: &mut [Input]) -> Vec<Packet> {
    let mut packets = vec![Packet::empty(at); inputs.len()];
    if let Some((control, data)) = inputs.split_last_mut() {
        let control = control.take(at);
        if let Some(place) = chosen(&control, data.len()) {
            packets[place] = data[place].take(at);
        }
        for input in data {
            input.drop_before(at.next_allowed());
        }
        packets[inputs.len() - 1] = control;
    }
    packets
}
