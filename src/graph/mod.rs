//! Graphs: calculators that exchange timestamped packets.
//!
//! A graph file becomes a [`GraphPlan`], checked once. Each run has a state machine that handles
//! packets, timestamps and bounds, but neither calculators nor waiting; a driver that runs the
//! calculators; and conversions of requests to packets and packets to responses.

pub mod calculators;
mod check;
mod diagram;
mod file;
mod runtime;
mod serving;

pub use calculators::{
    calculator::{Ending, Env},
    error::{CalculatorStep, lacks_inputs},
    node::{GENERATOR_NODE, NodeSpec},
    servables::{ServableSession, Servables},
    timestamp::{TIMESTAMP, Timestamp},
};
pub use check::{
    CheckedGraph, check,
    plan::{GraphPlan, GraphPort},
};
pub use diagram::diagram;
pub(crate) use file::pbtxt::{OutlineField, outline};
pub use file::{
    GraphSpec, NodeEntry, PortEntry, rules,
    source::{GraphSource, read_graph},
};
pub use runtime::run::GraphObserver;
pub use serving::{
    convert::VERSION,
    definition::{GraphDefinition, LoadError, examine},
    fingerprint::{Fingerprint, Written},
    live::{Graph, GraphLimits},
    session::{GraphResponse, GraphSession},
};
