//! Sequences of requests to stateful models.
//!
//! [`control`] reads the sequence controls of a request, [`Sequences`] knows the live ones and whose
//! turn it is, [`SequenceGuard`] is that turn, [`SequenceSummary`] is one of them in a list, and [`arrival`] keeps requests of one connection in the order in which they came.
//!
//! Nothing here knows models: the state of a sequence and the instance that it runs on are type
//! parameters. `src/model/stateful.rs` runs a step on them, and `src/model/cleaner.rs` ends those
//! that are idle. State belongs to the sequence, and goes with it; `src/model/snapshot/mod.rs` saves and restores it.

pub mod arrival;
pub mod control;
mod list;
mod registry;
mod turn;

pub use arrival::{Arrival, Line};
pub use control::{CONTROL_INPUT, Echo, SEQUENCE_ID, SequenceCommand, SequenceControl};
pub use list::SequenceSummary;
pub use registry::{Bounds, SequenceRefusal, Sequences};
pub use turn::{Begun, SequenceGuard, Waiting};
