//! Graphs: calculators that pass packets with times to each other.
//!
//! A graph file becomes a [`Plan`], checked once. Each run has a state machine that knows packets, times
//! and bounds, but neither calculators nor waiting; a driver that runs the calculators; and ends
//! that turn requests into packets and packets into responses.

mod calculator;
pub mod calculators;
mod fault;
mod node;
mod packet;
mod plan;
mod timestamp;

pub use calculator::{
    Calculator, Context, Contract, Emit, Env, Factory, Flow, Later, Resources, Servables, Session,
};
pub use fault::{Code, Fault, Step};
pub use node::{NodeSpec, Options, Port, Ports, TagIndex};
pub use packet::{Packet, PacketType, Payload, TensorKind};
pub use plan::{Form, GraphPort, Handler, Plan, PlanNode, PoolSize, Side, Source, Stream};
pub use timestamp::Timestamp;

/// The Python object of a node.
pub type PythonHandler = ();
