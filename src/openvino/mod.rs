//! The OpenVINO runtime: the only folder that names the `openvino` crate.
//!
//! [`ffi`] owns the runtime's objects, [`runtime`] finds and opens the shared library, [`load`] turns a [`model_file`] into a [`Compiled`]
//! model with the configured names, shapes and layouts, [`cores`] keeps runtimes for the next load,
//! [`loader`] schedules threads that load, [`binding`] is about the processors of inference
//! threads, [`slot`] runs one infer request,
//! [`low_latency`] has loops unrolled before that, [`state`] is the state of sequences, [`strings`] reads and writes the runtime's
//! strings, [`pool`] lends slots, [`batch`] has
//! requests that wait for one run together, [`run`] decides on which thread a slot runs, and [`health`] and
//! [`guard`] see to it that failed inferences do no harm to others. The rest of the crate sees
//! [`Runner`] and the tensors of [`crate::tensor`].

mod batch;
mod binding;
mod cache;
mod condition;
mod convert;
mod cores;
mod describe;
mod device;
mod error;
mod ffi;
mod guard;
mod health;
mod layouts;
mod leftovers;
mod limit;
mod load;
mod loader;
mod low_latency;
mod model_file;
mod names;
mod options;
mod pool;
mod prepare;
mod preprocessing;
mod run;
pub mod runtime;
mod runtime_error;
mod shapes;
mod slot;
mod slot_error;
mod slot_input;
mod slot_output;
mod state;
mod strings;
#[cfg(test)]
mod testing;
mod workers;

pub use batch::{BatchOutcome, BatchingFacts, batch_budget};
pub use binding::spare_binding;
pub use cache::check as check_cache;
pub use error::ModelLoadError;
pub use guard::Guard;
pub use health::Health;
pub use load::{Compiled, Inspected, MAX_NIREQ, inspect, load};
pub use model_file::Load;
pub use names::{Side, TensorNames};
pub use options::{
    BatchOption, Batching, ColorFormat, Conversion, LayoutOption, LoadOptions, PerChannel,
    PerTensor, Placement, Precision, Preprocessing, ShapeOption, StateMode,
};
pub use pool::{PoolError, SlotQueue, WaitingCount, WaitingPlace};
pub use run::{RunError, Runner, Work};
pub use runtime_error::OpenVinoError;
pub use slot_error::SlotError;
pub use slot_input::{InputData, SlotInput};
pub use state::{Hold, SavedVariables, SequenceState, xml_attribute};
