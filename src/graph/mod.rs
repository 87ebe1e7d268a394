//! Graphs: calculators that pass packets with times to each other.
//!
//! A graph file becomes a [`Plan`], checked once. Each run has a state machine that knows packets, times
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
    Calculator, Context, Contract, Emit, Ending, Env, Factory, Flow, Later, Resources, Servables,
    Session,
};
pub use check::{Checked, Faults, FileFault, FileWarning, Rule, check};
pub use convert::VERSION;
pub use definition::{Definition, GraphSource, LoadFault, examine};
pub use fault::{Code, Fault, Step};
pub use fingerprint::Fingerprint;
pub use live::{Graph, Limits};
pub use node::{NodeSpec, Options, Port, Ports, TagIndex};
pub use outline::{Outline, OutlineEdge, OutlineKind, OutlineNode, Place, Way};
pub use packet::{Packet, PacketType, Payload, TensorKind};
pub use plan::{Form, GraphPort, Handler, Plan, PlanNode, PoolSize, Side, Source, Stream};
pub use run::Watch;
pub use scheduler::{Job, Scheduler, Ticket};
pub use session::{Answer, Session as StreamSession};
pub use spec::{
    ExecutorEntry, GraphSpec, HandlerEntry, InfoEntry, NodeEntry, NodePorts, PortEntry,
};
pub use timestamp::Timestamp;
pub use unary::{NoTally, Tally, is_within};
