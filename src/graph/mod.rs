//! Graphs: calculators that exchange timestamped packets.
//!
//! A graph file becomes a [`GraphPlan`], checked once. Each run has a state machine that handles
//! packets, timestamps and bounds, but neither calculators nor waiting; a driver that runs the
//! calculators; and conversions of requests to packets and packets to responses.

mod calculator;
pub mod calculators;
mod check;
pub mod convert;
mod definition;
mod diagram;
mod error;
mod file;
mod fingerprint;
mod handlers;
mod live;
mod node;
mod packet;
mod pbtxt;
mod plan;
mod pool;
pub mod rules;
mod run;
mod scheduler;
mod servables;
mod session;
mod source;
mod timestamp;
mod unary;

pub use calculator::{
    Calculator, CalculatorContext, Contract, Emit, Ending, Env, Factory, Later, Resources,
    StepOutcome,
};
pub use check::{CheckedGraph, check};
pub use convert::VERSION;
pub use definition::{GraphDefinition, LoadError, examine};
pub use diagram::diagram;
pub use error::{AbseilCode, CalculatorStep, GraphRunError, is_within};
pub use file::{
    ExecutorEntry, GraphSpec, HandlerEntry, InfoEntry, NodeEntry, NodePorts, PortEntry,
};
pub use fingerprint::Fingerprint;
pub use live::{Graph, GraphLimits};
pub use node::{NodeOptions, NodeSpec, Port, Ports, TagIndex};
pub use packet::{Packet, PacketType, Payload, TensorKind};
pub use plan::{
    GraphPlan, GraphPlanNode, GraphPort, InputHandler, PacketForm, PoolSize, SidePacketPlan,
    StreamPlan, StreamSource,
};
pub use run::GraphObserver;
pub use scheduler::{GraphJob, Scheduler, Ticket};
pub use servables::{ServableSession, Servables};
pub use session::{GraphResponse, GraphSession as StreamSession};
pub use source::GraphSource;
pub use timestamp::Timestamp;
pub use unary::{NoTally, Tally};
