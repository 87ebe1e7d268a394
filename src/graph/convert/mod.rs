//! Boundaries of a graph: requests become packets, and packets become outputs of responses.
//!
//! Requests are not copied: packets hold slices of the received data. The messages are those
//! that clients of graphs know.

mod answer;
mod image;
mod intake;
mod parameters;
mod python;

pub(super) use answer::lengths;
pub use answer::{VERSION, output, response};
pub use intake::packets;
pub(super) use intake::{is_mp, is_tf};
pub use parameters::{PYTHON, TIMESTAMP, following, side_packets, timestamp};

#[cfg(test)]
mod tests;
