//! Boundaries of a graph: requests become packets, and packets become outputs of responses.
//!
//! Requests are not copied: packets hold slices of the received data. The messages are those
//! that clients of graphs know.

mod answer;
mod image;
mod intake;
mod parameters;
mod python;

pub use answer::VERSION;
pub(super) use answer::response;
pub(super) use intake::packets;
pub(super) use parameters::{following, side_packets, timestamp};

#[cfg(test)]
mod tests;
