//! Sequences of requests to stateful models.
//!
//! [`control`] reads what a request says about its sequence, [`Sequences`] knows which ones there
//! are and whose [`Turn`] it is, [`arrival`] keeps requests of one connection in the order in which
//! they came, and [`infer`] runs a request on the state of its sequence. [`cleaner`] removes those
//! that nobody uses.
//!
//! State is never saved or restored: it lives in an infer request of the runtime that belongs to
//! the sequence, and goes with it.

pub mod arrival;
pub mod cleaner;
pub mod control;
pub(crate) mod infer;
mod registry;
mod turn;

pub use arrival::{Arrival, Line};
pub use control::{CONTROL_INPUT, Echo, SEQUENCE_ID, SequenceCommand, SequenceControl};
pub use infer::{LoadedInstance, OfVersion};
pub use registry::{Bounds, SequenceRefusal, Sequences, StateHost};
pub use turn::{Begun, Turn, Waiting};
