//! Boundaries of a graph: requests become packets, and packets become outputs of responses.
//!
//! Requests are not copied: packets hold slices of the received data. The messages are those
//! that clients of graphs know.

mod answer;
mod image;
mod intake;
mod python;
mod side;
mod stamp;

pub use answer::{VERSION, output, response};
pub use intake::{RequestPackets, packets};
pub(super) use intake::{is_mp, is_tf};
pub use side::{PYTHON, side_packets};
pub use stamp::{TIMESTAMP, following, timestamp};

#[cfg(test)]
mod tests;
