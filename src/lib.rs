//! The OpenVINO Model Server as a library, on which the program `ovms` is built.
//!
//! In the order in which a request meets them: [`server`] owns the listeners, [`frontends`]
//! translate wire bytes into a [`request::InferRequest`], [`engine`] finds the servable, and
//! [`model`] checks the tensors and runs them on the slots of [`openvino`], [`sequence`] in turn
//! and on the state of their sequence. [`pipeline`] checks pipelines and orders their work,
//! [`graph`] does so for graphs of calculators, with Python nodes of [`python`]; [`draw`] shows both, and
//! [`scaffold`] writes new graphs. [`client`] is the other end of the wire. [`config`] turns flags into
//! checked settings.
//!
//! The library never prints, reads no flags and never ends the process: it returns values and
//! emits `tracing` events. `commands/` does the rest.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

pub mod auth;
pub mod budget;
pub mod byte_size;
pub mod client;
pub mod config;
pub mod custom_node;
pub mod diagnostic;
pub mod draw;
pub mod engine;
pub mod error;
pub mod frontends;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod graph;
pub mod https;
pub mod metrics;
pub mod model;
pub mod openvino;
mod order;
pub mod pipeline;
pub mod python;
pub mod quota;
pub mod request;
pub mod scaffold;
pub mod sequence;
pub mod servable;
pub mod server;
pub mod shared_memory;
pub mod stamps;
pub mod store;
pub mod task;
pub mod tensor;
pub mod text;
pub mod tls;
pub mod trace;
pub mod whole_file;
pub mod whole_lines;

pub use error::{Error, ErrorKind, Result};
pub use ovms_proto as proto;
