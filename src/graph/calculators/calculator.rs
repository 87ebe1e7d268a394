//! Interface of a calculator: a contract with the graph, and code that opens, processes and closes.
//!
//! Calculators know neither the scheduler nor each other. They receive packets and emit packets;
//! one that has to wait returns a future ([`StepOutcome::Later`]) that the driver of the run awaits
//! meanwhile, so that `process` itself never blocks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;

use super::{
    contract::{Ask, Contract},
    error::GraphRunError,
    node::NodeSpec,
    packet::{Packet, Payload},
    servables::Servables,
    timestamp::Timestamp,
};
use crate::{
    python,
    quota::RunOwner,
    request::{ApiFamily, Interface, RequestOrigin},
    trace::TraceContext,
};

/// Calculator of one node in one run.
pub trait Calculator: Send {
    /// Opens the node with its side packets; before any `process`.
    ///
    /// # Errors
    ///
    /// An error fails the run.
    fn open(&mut self, _: &mut CalculatorContext<'_>) -> StepResult {
        Ok(StepOutcome::Next)
    }

    /// Processes the packets of a timestamp. Without an own implementation, the node does all its
    /// work in `open`.
    ///
    /// # Errors
    ///
    /// An error fails the run.
    fn process(&mut self, _: &mut CalculatorContext<'_>) -> StepResult {
        Ok(StepOutcome::Stop)
    }

    /// Closes the node, whether the run has failed or not; only if it was opened.
    ///
    /// # Errors
    ///
    /// An error fails the run.
    fn close(&mut self, _: &mut CalculatorContext<'_>) -> StepResult {
        Ok(StepOutcome::Next)
    }

    /// Drops what it was to do, since the run has failed; steps in flight are waited for, and `close` follows.
    fn abandon(&mut self) {}
}

/// A function is a calculator that only processes.
impl<F> Calculator for F
where
    F: FnMut(&mut CalculatorContext<'_>) -> StepResult + Send,
{
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        self(context)
    }
}

/// Result of a step of a calculator.
pub(in crate::graph) type StepResult = Result<StepOutcome, GraphRunError>;

/// Outcome of a step of a calculator.
pub enum StepOutcome {
    /// The step is done; its emitted packets are in the context.
    Next,
    /// The step is done, and so is the node: it is closed next.
    Stop,
    /// The step continues asynchronously. The future's output is emitted after that of the context.
    Later(BoxFuture<'static, Result<Later, GraphRunError>>),
}

/// Result of an asynchronous step.
#[derive(Debug, Default)]
pub struct Later {
    /// Emitted packets and bounds.
    pub emits: Vec<Emit>,
    /// Indicates that the node is done.
    pub stop: bool,
}

/// Operation on an output of a node, by its index in the [`super::node::Ports`].
#[derive(Debug, Clone)]
pub enum Emit {
    /// Sends a packet.
    Packet(usize, Packet),
    /// Raises the bound: no earlier packet follows.
    Bound(usize, Timestamp),
    /// Closes the output.
    Close(usize),
    /// Sets an output side packet; in `open`, or in `close`.
    Side(usize, Packet),
}

/// Context of a step of a calculator.
pub struct CalculatorContext<'a> {
    /// Node.
    pub node: &'a NodeSpec,
    /// Timestamp of the inputs: [`Timestamp::UNSTARTED`] in `open`, [`Timestamp::DONE`] in `close`;
    /// of a node without inputs [`Timestamp::MIN`] (incremented by one at each `process`).
    pub at: Timestamp,
    /// Inputs, by index; empty packets where there are none.
    pub inputs: &'a [Packet],
    /// Side packets, by index; empty where an optional one is not given.
    pub side: &'a [Packet],
    /// Environment of the run.
    pub env: &'a Env,
    /// Span of the step, if the run is traced.
    pub trace: Option<&'a TraceContext>,
    /// Bounds of the inputs, by index: the lowest timestamp that may still arrive after this one.
    /// Empty in `open` and `close`.
    pub bounds: &'a [Timestamp],
    /// Emitted packets and bounds.
    pub emits: Vec<Emit>,
}

impl CalculatorContext<'_> {
    /// Returns the value of an input, if there is one.
    pub fn input(&self, place: usize) -> Option<&Payload> {
        self.inputs.get(place).and_then(Packet::payload)
    }

    /// Returns the value of a side packet, if there is one.
    pub fn side(&self, place: usize) -> Option<&Payload> {
        self.side.get(place).and_then(Packet::payload)
    }

    /// Sends a value at the timestamp of the inputs.
    pub fn send(&mut self, output: usize, payload: Payload) {
        let at = self.at;
        self.send_packet(output, Packet::new(payload, at));
    }

    /// Sends a packet.
    pub fn send_packet(&mut self, output: usize, packet: Packet) {
        self.emits.push(Emit::Packet(output, packet));
    }

    /// Passes the packet of an input on to an output, and returns whether there was one.
    pub fn forward(&mut self, input: usize, output: usize) -> bool {
        let packet = &self.inputs[input];
        if !packet.is_empty() {
            self.send_packet(output, packet.clone());
        }
        !packet.is_empty()
    }

    /// Performs another operation on an output.
    pub fn emit(&mut self, emit: Emit) {
        self.emits.push(emit);
    }
}

/// Environment of a run, shared by its nodes.
pub struct Env {
    /// Models and pipelines.
    pub servables: Arc<dyn Servables>,
    /// Handle to end the run from outside.
    pub ending: Arc<Ending>,
    /// Parent context of the spans of its steps, if its request is traced.
    pub trace: Option<TraceContext>,
    /// Owner of the inferences of its nodes.
    pub owner: Option<RunOwner>,
    /// Origin of the request that it runs for.
    pub origin: RequestOrigin,
}

/// Request to end a run, shared with the run.
#[derive(Debug, Default)]
pub struct Ending {
    is_asked: AtomicBool,
    is_heeded: AtomicBool,
}

impl Ending {
    /// Requests the end of the run: nodes that generate on their own stop.
    pub fn end(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
    }

    /// Returns whether a node has stopped for that reason.
    pub fn is_heeded(&self) -> bool {
        self.is_heeded.load(Ordering::Relaxed)
    }
}

impl Env {
    /// Creates the environment of a run.
    pub fn new(servables: Arc<dyn Servables>) -> Self {
        Self {
            servables,
            ending: Arc::default(),
            trace: None,
            owner: None,
            origin: RequestOrigin {
                api: ApiFamily::KServe,
                interface: Interface::Grpc,
            },
        }
    }

    /// Sets the origin of its request; without, it is that of KServe over gRPC.
    #[must_use]
    pub fn of(self, origin: RequestOrigin) -> Self {
        Self { origin, ..self }
    }

    /// Takes over what belongs to another request, for which the run continues.
    pub(in crate::graph) fn begin_request(&mut self, other: Self) {
        (self.trace, self.owner, self.origin) = (other.trace, other.owner, other.origin);
    }

    /// Drops what belongs to the request.
    pub(in crate::graph) fn end_request(&mut self) {
        (self.trace, self.owner) = (None, None);
    }

    /// Sets the parent context of the spans of its steps.
    #[must_use]
    pub fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// Sets the owner of the inferences of its nodes.
    #[must_use]
    pub fn owned(self, owner: Option<RunOwner>) -> Self {
        Self { owner, ..self }
    }

    /// Returns whether the end of the run is requested. Nodes that generate on their own call this,
    /// and stop.
    pub fn is_ending(&self) -> bool {
        let is_asked = self.ending.is_asked.load(Ordering::Relaxed);
        if is_asked {
            self.ending.is_heeded.store(true, Ordering::Relaxed);
        }
        is_asked
    }
}

/// Resources for creating calculators: by the nodes of one definition of a graph.
pub trait Resources: Send + Sync {
    /// Creates the use of a node's Python object by this run.
    fn python(&self, node: &str) -> Option<python::HandlerInstance>;

    /// Returns whether errors raised by Python code are hidden from clients.
    fn hides_python_errors(&self) -> bool;
}

/// Kind of calculator.
#[derive(Debug)]
pub struct Factory {
    /// Name in graph files.
    pub name: &'static str,
    /// Description of its purpose, in a sentence.
    pub about: &'static str,
    /// Declares what a node has to be like.
    pub contract: for<'a> fn(Ask<'a>) -> Ask<'a>,
    /// Creates the calculator for a run. The contract holds.
    pub make: fn(&Arc<NodeSpec>, &dyn Resources) -> Box<dyn Calculator>,
}

impl Factory {
    /// Validates a node, and returns its contract.
    ///
    /// # Errors
    ///
    /// Fails with a message for the author of the file.
    pub fn check(&self, node: &NodeSpec) -> Result<Contract, String> {
        (self.contract)(Ask::new(node)).contract()
    }
}
