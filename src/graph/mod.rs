//! Graphs: calculators that pass packets with times to each other.
//!
//! A graph file becomes a [`GraphPlan`], checked once. Each run has a state machine that knows packets, times
//! and bounds, but neither calculators nor waiting; a driver that runs the calculators; and ends
//! that turn requests into packets and packets into responses.

mod calculator;
pub mod calculators;
mod check;
pub mod convert;
mod definition;
mod fault;
mod fingerprint;
mod handlers;
mod live;
mod node;
mod outline;
mod packet;
mod pbtxt;
mod plan;
mod pool;
mod run;
mod scheduler;
mod session;
mod spec;
mod timestamp;
mod unary;

pub use calculator::{
    Calculator, CalculatorContext, Contract, Emit, Ending, Env, Factory, StepOutcome, Later, Resources, Servables,
    ServableSession,
};
pub use check::{CheckedGraph, GraphErrors, FileFault, FileWarning, GraphRule, check};
pub use convert::VERSION;
pub use definition::{GraphDefinition, GraphSource, LoadFault, examine};
pub use fault::{AbseilCode, GraphRunError, CalculatorStep};
pub use fingerprint::Fingerprint;
pub use live::{Graph, GraphLimits};
pub use node::{NodeSpec, NodeOptions, Port, Ports, TagIndex};
pub use outline::{GraphOutline, GraphEdge, GraphNodeKind, GraphOutlineNode, StreamEnd, Way};
pub use packet::{Packet, PacketType, Payload, TensorKind};
pub use plan::{PacketForm, GraphPort, InputHandler, GraphPlan, GraphPlanNode, PoolSize, SidePacketPlan, StreamSource, StreamPlan};
pub use run::GraphObserver;
pub use scheduler::{GraphJob, Scheduler, Ticket};
pub use session::{GraphResponse, GraphSession as StreamSession};
pub use spec::{
    ExecutorEntry, GraphSpec, HandlerEntry, InfoEntry, NodeEntry, NodePorts, PortEntry,
};
pub use timestamp::Timestamp;
pub use unary::{NoTally, Tally, is_within};
