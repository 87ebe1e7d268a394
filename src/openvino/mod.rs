//! The OpenVINO runtime: the only folder that names the `openvino` crate.
//!
//! [`runtime`] finds and opens the shared library, [`load`] turns a model file into a
//! [`Compiled`] model with the names, shapes and layouts that are wanted, [`cores`] keeps what loads
//! have in common, [`loader`] says how their threads run and [`binding`] where those of inferences do, [`inspect`] only tells what a model would
//! be, [`slot`] runs one infer request, [`low_latency`] has loops unrolled before that, [`strings`]
//! knows how the runtime keeps strings, [`pool`] lends slots, [`run`] decides on which thread a
//! slot runs, and [`health`] and [`guard`] see to it that failed inferences do no harm to others. What the rest of the crate sees is [`Runner`] and the
//! tensors of [`crate::tensor`].

mod binding;
mod cache;
mod convert;
mod cores;
mod describe;
mod device;
mod error;
mod extension;
mod fault;
mod guard;
mod health;
mod inspect;
mod layouts;
mod load;
mod loader;
mod low_latency;
mod names;
mod node;
mod options;
mod pool;
mod prepare;
mod preprocessing;
mod run;
pub mod runtime;
mod shapes;
mod slot;
mod state;
mod strings;
#[cfg(test)]
mod testing;
mod workers;

pub use binding::spare_binding;
pub use error::ModelLoadError;
pub use fault::OpenVinoError;
pub use guard::Guard;
pub use inspect::inspect;
pub use layouts::LayoutFault;
pub use load::{Compiled, Load, NIREQ_LIMIT, load};
pub use low_latency::LowLatencyError;
pub use names::{TensorNames, NamesError};
pub use options::{
    BatchOption, ColorFormat, Conversion, LayoutOption, LoadOptions, PerChannel, PerTensor,
    Placement, Precision, Preprocessing, ShapeOption,
};
pub use pool::PoolError;
pub use run::{RunError, Runner, Work};
pub use shapes::ShapeMismatch;
pub use slot::{SlotError, SlotInput};
pub use state::{Hold, SequenceState};
pub use strings::StringsError;
