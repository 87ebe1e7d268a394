//! The OpenVINO runtime: the only folder that names the `openvino` crate.
//!
//! [`runtime`] finds and opens the shared library, [`load`] turns a model file into a
//! [`Compiled`] model, [`slot`] runs one infer request, [`pool`] lends slots, and [`run`] decides
//! on which thread a slot runs. What the rest of the crate sees is [`Runner`] and the tensors of
//! [`crate::tensor`].

mod convert;
mod fault;
mod load;
mod pool;
mod run;
pub mod runtime;
mod slot;

pub use fault::Fault;
pub use load::{Compiled, LoadError, LoadOptions, NIREQ_LIMIT, load};
pub use pool::PoolError;
pub use run::{RunError, Runner};
pub use slot::{SlotError, SlotInput};
