//! What a calculator is: a contract with the graph, and code that opens, processes and closes.
//!
//! Calculators know neither the scheduler nor each other. They are given packets and emit packets;
//! one that has to wait for anything returns a future ([`Flow::Later`]) that the driver of the run
//! awaits meanwhile, so that `process` itself never blocks.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::BoxFuture;

use super::{
    error::GraphRunError,
    node::NodeSpec,
    packet::{Packet, PacketType, Payload},
    timestamp::Timestamp,
};
use crate::{error, python, request::InferRequest, servable::ServableInfo, tensor::TensorMap};

/// One node of one run.
pub trait Calculator: Send {
    /// Begins, with the side packets; before any `process`.
    ///
    /// # Errors
    ///
    /// Fails the run.
    fn open(&mut self, _: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        Ok(StepOutcome::Next)
    }

    /// Takes the packets of a time.
    ///
    /// # Errors
    ///
    /// Fails the run.
    fn process(
        &mut self,
        context: &mut CalculatorContext<'_>,
    ) -> Result<StepOutcome, GraphRunError>;

    /// Ends, whether the run has failed or not; only if it was opened.
    ///
    /// # Errors
    ///
    /// Fails the run.
    fn close(&mut self, _: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        Ok(StepOutcome::Next)
    }
}

/// How a step of a calculator ends.
pub enum StepOutcome {
    /// It is done; what it emitted stands in the context.
    Next,
    /// It is done, and the node has nothing more to do: it is closed next.
    Stop,
    /// It goes on elsewhere. What the future gives is emitted after what stands in the context.
    Later(BoxFuture<'static, Result<Later, GraphRunError>>),
}

/// What came of a step that went on elsewhere.
#[derive(Debug, Default)]
pub struct Later {
    /// What is emitted.
    pub emits: Vec<Emit>,
    /// Whether the node has nothing more to do.
    pub stop: bool,
}

/// Something that a node does to one of its outputs, by its place among the [`super::node::Ports`].
#[derive(Debug, Clone)]
pub enum Emit {
    /// Sends a packet.
    Packet(usize, Packet),
    /// Says that no packet before this time will come.
    Bound(usize, Timestamp),
    /// Closes the output.
    Close(usize),
    /// Gives an output side packet; in `open`, or in `close`.
    Side(usize, Packet),
}

/// What a calculator is given in a step.
pub struct CalculatorContext<'a> {
    /// The node.
    pub node: &'a NodeSpec,
    /// The time of the inputs: [`Timestamp::UNSTARTED`] in `open`, [`Timestamp::DONE`] in `close`; of a
    /// node without inputs [`Timestamp::MIN`] (counted up by one at each `process`).
    pub at: Timestamp,
    /// The inputs, by place; empty packets where there is nothing.
    pub inputs: &'a [Packet],
    /// The side packets, by place; empty where an optional one is not given.
    pub side: &'a [Packet],
    /// What belongs to the run.
    pub env: &'a Env,
    /// Whether an input is closed, or will have nothing before or at this time any more, by place: the
    /// bound of the input. Empty in `open` and `close`.
    pub bounds: &'a [Timestamp],
    emits: Vec<Emit>,
}

impl<'a> CalculatorContext<'a> {
    /// Makes the context of a step.
    #[must_use]
    pub fn new(
        node: &'a NodeSpec,
        at: Timestamp,
        inputs: &'a [Packet],
        side: &'a [Packet],
        bounds: &'a [Timestamp],
        env: &'a Env,
    ) -> Self {
        Self {
            node,
            at,
            inputs,
            side,
            env,
            bounds,
            emits: Vec::new(),
        }
    }

    /// Returns the value of an input, if there is one.
    #[must_use]
    pub fn input(&self, place: usize) -> Option<&Payload> {
        self.inputs.get(place).and_then(Packet::payload)
    }

    /// Returns the value of a side packet, if there is one.
    #[must_use]
    pub fn side(&self, place: usize) -> Option<&Payload> {
        self.side.get(place).and_then(Packet::payload)
    }

    /// Sends a value at the time of the inputs.
    pub fn send(&mut self, output: usize, payload: Payload) {
        let at = self.at;
        self.send_packet(output, Packet::new(payload, at));
    }

    /// Sends a packet.
    pub fn send_packet(&mut self, output: usize, packet: Packet) {
        self.emits.push(Emit::Packet(output, packet));
    }

    /// Does something else to an output.
    pub fn emit(&mut self, emit: Emit) {
        self.emits.push(emit);
    }

    /// Returns what was emitted.
    #[must_use]
    pub fn into_emits(self) -> Vec<Emit> {
        self.emits
    }
}

/// What belongs to a run, whichever node asks.
pub struct Env {
    /// Models and pipelines.
    pub servables: Arc<dyn Servables>,
    ending: Ending,
}

/// Whether a run is to come to an end.
#[derive(Debug, Clone, Default)]
pub struct Ending(Arc<Ends>);

#[derive(Debug, Default)]
struct Ends {
    is_asked: AtomicBool,
    is_heeded: AtomicBool,
}

impl Ending {
    /// Says that nothing more is wanted of the run: whoever would go on by itself stops.
    pub fn end(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
    }

    /// Tells whether anything has stopped for that.
    #[must_use]
    pub fn is_heeded(&self) -> bool {
        self.0.is_heeded.load(Ordering::Relaxed)
    }
}

impl Env {
    /// Makes the surroundings of a run.
    #[must_use]
    pub fn new(servables: Arc<dyn Servables>) -> Self {
        Self {
            servables,
            ending: Ending::default(),
        }
    }

    /// Says that nothing more is wanted of the run: whoever would go on by itself stops.
    pub fn end(&self) {
        self.ending.end();
    }

    /// Returns what ends the run from elsewhere.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending.clone()
    }

    /// Tells whether nothing more is wanted of the run. Who would go on by itself asks, and stops.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        let is_asked = self.ending.0.is_asked.load(Ordering::Relaxed);
        if is_asked {
            self.ending.0.is_heeded.store(true, Ordering::Relaxed);
        }
        is_asked
    }
}

/// Finds what sessions are of.
pub trait Servables: Send + Sync {
    /// Finds a model or pipeline, the default version if none is named. The session is of the name: it
    /// finds what serves at each inference.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or it does not serve.
    fn session(&self, name: &str, version: Option<i64>) -> error::Result<Arc<dyn ServableSession>>;
}

/// A model or pipeline as nodes use it.
pub trait ServableSession: Send + Sync {
    /// Returns inputs and outputs as they were when the session was opened.
    fn info(&self) -> &ServableInfo;

    /// Runs a request, which is judged as one of a client is.
    fn infer(&self, request: InferRequest) -> BoxFuture<'static, error::Result<TensorMap>>;
}

/// What a node takes, gives and needs.
#[derive(Debug, Clone, Default)]
pub struct Contract {
    /// What each input carries, by place.
    pub inputs: Vec<PacketType>,
    /// What each output carries.
    pub outputs: Vec<PacketType>,
    /// What each input side packet is, and whether it may be missing.
    pub side_inputs: Vec<(PacketType, bool)>,
    /// What each output side packet is.
    pub side_outputs: Vec<PacketType>,
    /// With `Some(n)`, outputs are settled up to the time of the inputs plus n after each `process`.
    pub offset: Option<i64>,
    /// The input stream handler, if the calculator has its own and the node names none.
    pub handler: Option<&'static str>,
    /// Whether `process` is called also when only bounds have risen (with all inputs empty).
    pub wants_bounds: bool,
}

impl Contract {
    /// Makes a contract of one type for everything, which calculators then narrow.
    #[must_use]
    pub fn any(node: &NodeSpec) -> Self {
        Self {
            inputs: vec![PacketType::Any; node.inputs.len()],
            outputs: vec![PacketType::Any; node.outputs.len()],
            side_inputs: vec![(PacketType::Any, false); node.side_inputs.len()],
            side_outputs: vec![PacketType::Any; node.side_outputs.len()],
            offset: None,
            handler: None,
            wants_bounds: false,
        }
    }
}

/// What is there to make calculators of: by the nodes of one definition of a graph.
pub trait Resources: Send + Sync {
    /// Returns the Python object of a node.
    fn python(&self, node: &str) -> Option<&Arc<python::PythonHandler>>;

    /// Tells whether clients are not told what Python code has raised.
    fn hides_python_errors(&self) -> bool;
}

/// A kind of calculator.
pub struct Factory {
    /// The name in graph files.
    pub name: &'static str,
    /// What it does, in a sentence, for people.
    pub about: &'static str,
    /// Judges a node, and says what it takes and gives. The error is a text for whoever wrote the file.
    pub contract: fn(&NodeSpec) -> Result<Contract, String>,
    /// Makes it for a run. The contract was kept.
    pub make: fn(&Arc<NodeSpec>, &dyn Resources) -> Box<dyn Calculator>,
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
