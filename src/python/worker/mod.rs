//! Worker processes: where the code of handlers runs.
//!
//! A [`Zygote`](zygote) forks them, a [`Link`](link) talks to one, and a [`WorkerGroup`] has those of a graph or a
//! pipeline, and replaces one that has died.

pub(super) mod group;
pub(super) mod handler_load;
pub(super) mod held;
pub(super) mod link;
mod memory;
mod options;
mod output;
mod package;
mod process;
mod seat;
mod stacks;
pub(super) mod waiting;
mod zygote;

pub use group::WorkerGroup;
pub use handler_load::{HandlerLoad, end_loads};
pub use options::{PythonEnvironment, WORKER_OPTIONS, WorkerOptions};
pub use package::FILES as PACKAGE;
pub(crate) use seat::WorkerSeat;
pub(super) use zygote::stop;
