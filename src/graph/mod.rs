//! Graphs: calculators that exchange timestamped packets.
//!
//! A graph file becomes a [`GraphPlan`], checked once. Each run has a state machine that handles
//! packets, timestamps and bounds, but neither calculators nor waiting; a driver that runs the
//! calculators; and conversions of requests to packets and packets to responses.

mod calculator;
pub mod calculators;
mod check;
mod contract;
pub mod convert;
mod definition;
mod diagram;
mod error;
mod file;
mod finals;
mod fingerprint;
mod handlers;
mod live;
mod node;
mod packet;
mod pbtxt;
mod plan;
mod remarks;
pub mod rules;
mod run;
mod scheduler;
mod servables;
mod session;
mod source;
mod timestamp;
mod unary;

pub use calculator::{Ending, Env};
pub use check::{CheckedGraph, check};
pub use convert::VERSION;
pub use definition::{GraphDefinition, LoadError, examine};
pub use diagram::diagram;
pub use error::{CalculatorStep, lacks_inputs};
pub use file::{GraphSpec, NodeEntry, PortEntry};
pub use fingerprint::{Fingerprint, Written};
pub use live::{Graph, GraphLimits};
pub use node::{GENERATOR_NODE, NodeSpec};
pub(crate) use pbtxt::{OutlineField, outline};
pub use plan::{GraphPlan, GraphPort};
pub use run::GraphObserver;
pub use servables::{ServableSession, Servables};
pub use session::GraphResponse;
pub use source::{GraphSource, read_graph};
pub use timestamp::Timestamp;
