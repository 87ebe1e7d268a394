//! `PythonExecutorCalculator`: a node that calls `execute` of a Python class.
//!
//! In regular use `execute` returns a list of tensors, each of which goes to the output of its name
//! at the timestamp of the inputs. In generative use it returns a generator: each of its sets is
//! sent one timestamp after the previous one, followed by a packet on `LOOPBACK`, which triggers
//! the node again for the next set once this one is sent.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    error::ErrorKind,
    graph::calculators::{
        calculator::{Calculator, CalculatorContext, Emit, Factory, Later, Resources, StepOutcome},
        contract::Contract,
        error::{AbseilCode, GraphRunError},
        node::{GENERATOR_NODE, LOOPBACK, NodeSpec, PYTHON},
        packet::{Packet, PacketType, Payload},
        timestamp::Timestamp,
    },
    python::{self, HandlerError, HandlerGenerator, HandlerInstance, Produced},
    trace::TraceContext,
};

/// Tag of the side packet of Python nodes.
pub(crate) const RESOURCES: &str = "PYTHON_NODE_RESOURCES";

/// Calls in flight to the worker, which runs one after the other. Measured with 16 requests in flight on a stream.
const PIPELINED: usize = 16;

/// Factory of the calculator.
pub(super) static FACTORY: Factory = Factory {
    name: PYTHON,
    about: "Runs the execute method of a Python class.",
    contract: |ask| ask.by_hand(contract),
    make,
};

fn contract(node: &NodeSpec) -> Result<Contract, String> {
    let is_loop = |port: &crate::graph::calculators::node::Port| port.at.tag == LOOPBACK;
    let taken = node.inputs.iter().filter(|port| !is_loop(port)).count();
    let given = node.outputs.iter().filter(|port| !is_loop(port)).count();
    if taken == 0 || given == 0 {
        return Err("it needs at least one input stream and one output stream".to_owned());
    }
    if node.inputs.find(LOOPBACK, 0).is_some() != node.outputs.find(LOOPBACK, 0).is_some() {
        return Err(
            "If LOOPBACK is used, it must be defined on both input and output of the node"
                .to_owned(),
        );
    }
    if node.side_inputs.find(RESOURCES, 0).is_none() {
        return Err(format!(
            "it needs input_side_packet: \"{RESOURCES}:py\", which the server gives"
        ));
    }
    let carries = |port: &crate::graph::calculators::node::Port| {
        if is_loop(port) {
            PacketType::Any
        } else {
            PacketType::Python
        }
    };
    Ok(Contract {
        inputs: node.inputs.iter().map(carries).collect(),
        outputs: node.outputs.iter().map(carries).collect(),
        side_inputs: vec![(PacketType::PythonResources, false); node.side_inputs.len()],
        pipelined: is_in_line(node).then_some(PIPELINED),
        ..Contract::any(node)
    })
}

/// Returns whether calls run one after the other, which is so unless the file says otherwise. One that generates goes
/// on before the next begins, so that they cannot be sent ahead.
fn is_in_line(node: &NodeSpec) -> bool {
    node.max_in_flight.is_none() && !node.is_generator()
}

fn make(node: &Arc<NodeSpec>, resources: &dyn Resources) -> Box<dyn Calculator> {
    let Some(mut instance) = resources.python(&node.name) else {
        return Box::new(Missing);
    };
    if is_in_line(node) {
        instance = instance.in_line();
    }
    let inputs = node.inputs.iter().enumerate();
    Box::new(PythonExecutor {
        inputs: inputs
            .filter(|(_, port)| port.at.tag != LOOPBACK)
            .map(|(place, _)| place)
            .collect(),
        loop_input: node.inputs.find(LOOPBACK, 0),
        is_abandoned: false,
        shared: Arc::new(Shared {
            loop_output: node.outputs.find(LOOPBACK, 0),
            node: Arc::clone(node),
            instance,
            generating: Mutex::default(),
            is_silent: resources.hides_python_errors(),
        }),
    })
}

/// Node without its Python object, which occurs only in a definition that was not loaded.
struct Missing;

impl Calculator for Missing {
    fn process(
        &mut self,
        context: &mut CalculatorContext<'_>,
    ) -> Result<StepOutcome, GraphRunError> {
        let name = &context.node.name;
        Err(GraphRunError::internal(format!(
            "no Python object for node {name}"
        )))
    }
}

struct PythonExecutor {
    shared: Arc<Shared>,
    /// Indices of the inputs passed to `execute`, by tag.
    inputs: Vec<usize>,
    loop_input: Option<usize>,
    is_abandoned: bool,
}

/// State needed by a step on any thread.
struct Shared {
    node: Arc<NodeSpec>,
    instance: HandlerInstance,
    loop_output: Option<usize>,
    generating: Mutex<Generating>,
    is_silent: bool,
}

/// State of the generator of a node.
#[derive(Default)]
enum Generating {
    /// No generator.
    #[default]
    Not,
    /// The next set can be taken.
    Ready(Series),
    /// The next set is being produced, possibly on another thread.
    Busy,
}

/// Generator in progress.
struct Series {
    generator: HandlerGenerator,
    /// Timestamp of the next set.
    next: Timestamp,
}

/// Work of a step.
enum Work {
    Open,
    Execute {
        inputs: Vec<python::HandlerTensor>,
        is_complete: bool,
        at: Timestamp,
        trace: Option<TraceContext>,
    },
    Next(Series),
    /// Closes the node; a series that has no time left must have no more sets.
    Close(Option<Series>),
}

impl PythonExecutor {
    /// Runs a step in the worker.
    fn step(&self, work: Work) -> StepOutcome {
        let shared = Arc::clone(&self.shared);
        StepOutcome::Later(Box::pin(async move {
            let ran = shared.run(work).await;
            if ran.is_err() {
                shared.instance.abandon();
            }
            ran
        }))
    }
}

impl Calculator for PythonExecutor {
    fn open(&mut self, _: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        Ok(match self.shared.instance.has_state() {
            true => self.step(Work::Open),
            false => StepOutcome::Next,
        })
    }

    fn process(
        &mut self,
        context: &mut CalculatorContext<'_>,
    ) -> Result<StepOutcome, GraphRunError> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for place in &self.inputs {
            match context.input(*place) {
                Some(Payload::Python(tensor)) => inputs.push(tensor.clone()),
                Some(other) => {
                    let port = &context.node.inputs[*place];
                    let (name, kind) = (&port.name, other.kind());
                    let text = format!("input {name}: expected a Python tensor, got {kind}");
                    return Err(GraphRunError::invalid(text));
                }
                None => {}
            }
        }
        if inputs.is_empty() {
            let is_back = self
                .loop_input
                .is_some_and(|place| context.input(place).is_some());
            // What comes to another index of LOOPBACK is ignored.
            if !is_back {
                return Ok(StepOutcome::Next);
            }
            // Dropped, and thereby closed, if the rest is not wanted.
            let next = self.shared.next(!context.env.is_ending());
            return Ok(next.map_or(StepOutcome::Next, |series| self.step(Work::Next(series))));
        }
        if !matches!(*self.shared.generating.lock(), Generating::Not) {
            return Err(GraphRunError::new(AbseilCode::ResourceExhausted, BUSY));
        }
        let is_complete = inputs.len() == self.inputs.len();
        let at = context.at;
        Ok(self.step(Work::Execute {
            inputs,
            is_complete,
            at,
            trace: context.trace.cloned(),
        }))
    }

    fn close(&mut self, context: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        let last = match std::mem::take(&mut *self.shared.generating.lock()) {
            Generating::Ready(series) if !series.next.is_ordinary() => Some(series),
            _ => None,
        };
        let last = last.filter(|_| !self.is_abandoned && !context.env.is_ending());
        Ok(match last.is_some() || self.shared.instance.has_state() {
            true => self.step(Work::Close(last)),
            false => StepOutcome::Next,
        })
    }

    fn abandon(&mut self) {
        self.is_abandoned = true;
        self.shared.instance.abandon();
    }
}

/// Error of a node that receives inputs while it still generates.
const BUSY: &str = "Node is already processing data. Create new stream for another request.";

/// Error of a generator in a node that is not made for one.
const NO_LOOPBACK: &str = "Execute yielded, but LOOPBACK is not defined in the node";

/// Prefix of errors raised by Python code, as reported to clients.
const FAILED: &str = "Error occurred during graph execution";

impl Shared {
    /// Marks the node as busy with a generator, unless it has one.
    fn is_free_then_busy(&self) -> bool {
        let mut generating = self.generating.lock();
        let is_free = matches!(*generating, Generating::Not);
        if is_free {
            *generating = Generating::Busy;
        }
        is_free
    }

    /// Takes the generator that is ready for its next set; marks the node as busy if that is wanted.
    fn next(&self, is_wanted: bool) -> Option<Series> {
        let mut generating = self.generating.lock();
        if matches!(*generating, Generating::Busy) {
            return None;
        }
        let next = if is_wanted && matches!(*generating, Generating::Ready(_)) {
            Generating::Busy
        } else {
            Generating::Not
        };
        match std::mem::replace(&mut *generating, next) {
            Generating::Ready(series) if is_wanted => Some(series),
            _ => None,
        }
    }

    /// Runs a step.
    async fn run(&self, work: Work) -> Result<Later, GraphRunError> {
        let mut later = Later::default();
        match work {
            Work::Open => self
                .instance
                .open()
                .await
                .map_err(|error| self.error(error))?,
            Work::Close(last) => {
                let ended = match last {
                    Some(series) => self.validate_end(series).await,
                    None => Ok(()),
                };
                self.instance.close().await;
                ended?;
            }
            Work::Next(series) => self.advance(series, &mut later).await?,
            Work::Execute {
                inputs,
                is_complete,
                at,
                trace,
            } => {
                let generates = self.loop_output.is_some();
                let trace = trace.as_ref();
                let produced = (self.instance).execute(&inputs, is_complete, generates, trace);
                match produced.await.map_err(|error| self.error(error))? {
                    Produced::Nothing => {}
                    Produced::Outputs(tensors) => self.send(tensors, at, &mut later)?,
                    Produced::Generator(_) if self.loop_output.is_none() => {
                        return Err(
                            self.refuse_hinting(NO_LOOPBACK.to_owned(), Some(GENERATOR_NODE))
                        );
                    }
                    Produced::Generator(generator) => {
                        if !self.is_free_then_busy() {
                            return Err(GraphRunError::new(AbseilCode::ResourceExhausted, BUSY));
                        }
                        let series = Series {
                            generator,
                            next: at,
                        };
                        self.advance(series, &mut later).await?;
                    }
                }
            }
        }
        Ok(later)
    }

    /// Takes the next set of a generator that the node is busy with.
    async fn advance(&self, series: Series, later: &mut Later) -> Result<(), GraphRunError> {
        let rest = self.set(series, later).await;
        let (next, outcome) = match rest {
            Ok(Some(series)) => (Generating::Ready(series), Ok(())),
            Ok(None) => (Generating::Not, Ok(())),
            Err(error) => (Generating::Not, Err(error)),
        };
        *self.generating.lock() = next;
        outcome
    }

    /// Sends the next set of a generator, and returns the generator if it has more.
    async fn set(
        &self,
        mut series: Series,
        later: &mut Later,
    ) -> Result<Option<Series>, GraphRunError> {
        let set = self.instance.next(&mut series.generator).await;
        let Some(tensors) = set.map_err(|error| self.error(error))? else {
            return Ok(None);
        };
        let at = series.next;
        self.send(tensors, at, later)?;
        let next = at.next_allowed();
        series.next = next;
        // Without a time there is no next step; the end of the node shows whether this was the last set.
        if let Some(output) = self.loop_output.filter(|_| next.is_ordinary()) {
            let wake = Packet::new(Payload::Token, next);
            later.emits.push(Emit::Packet(output, wake));
        }
        Ok(Some(series))
    }

    /// Refuses another set of a generator that has used the highest time.
    async fn validate_end(&self, mut series: Series) -> Result<(), GraphRunError> {
        let more = self.instance.next(&mut series.generator).await;
        match more.map_err(|error| self.error(error))? {
            None => Ok(()),
            Some(_) => {
                let last = Timestamp::MAX;
                Err(self.refuse(format!("the sets have no time left after {last}")))
            }
        }
    }

    /// Refuses a tensor that goes to no output.
    fn refuse_name(&self, name: &str) -> GraphRunError {
        let outputs = self.node.outputs.iter();
        let (back, known): (Vec<_>, Vec<_>) = outputs.partition(|output| output.at.tag == LOOPBACK);
        let known: Vec<&str> = known.iter().map(|output| output.name.as_str()).collect();
        let reason = match back.iter().any(|output| output.name == name) {
            true => "which comes back to the node by itself; its outputs",
            false => "which is not an output of the node",
        };
        let (name, known) = (python::brief(name), known.join(", "));
        self.refuse(format!(
            "execute gave a tensor named {name:?}, {reason}: {known}"
        ))
    }

    /// Sends each tensor to the output of its name.
    fn send(
        &self,
        tensors: Vec<python::HandlerTensor>,
        at: Timestamp,
        later: &mut Later,
    ) -> Result<(), GraphRunError> {
        let mut sent = vec![false; self.node.outputs.len()];
        for tensor in tensors {
            let output = self.node.outputs.named(tensor.name());
            let output = output.filter(|output| self.node.outputs[*output].at.tag != LOOPBACK);
            let Some(output) = output else {
                return Err(self.refuse_name(tensor.name()));
            };
            if std::mem::replace(&mut sent[output], true) {
                return Err(self.refuse(format!(
                    "execute gave two tensors named {:?} at one time",
                    tensor.name()
                )));
            }
            let packet = Packet::new(Payload::Python(tensor), at);
            later.emits.push(Emit::Packet(output, packet));
        }
        Ok(())
    }

    /// Converts the error of a call; the traceback of an exception is already logged.
    fn error(&self, error: HandlerError) -> GraphRunError {
        match error {
            HandlerError::Raised(raised) => {
                self.reported(&format!("{}: {}", raised.kind, raised.message))
            }
            HandlerError::Worker(text) => GraphRunError::new(AbseilCode::Aborted, text),
            HandlerError::Memory(ErrorKind::TooLarge, text) => {
                GraphRunError::new(AbseilCode::TooLarge, text)
            }
            HandlerError::Memory(_, text) => GraphRunError::new(AbseilCode::NoRoom, text),
        }
    }

    /// Creates an error for an invalid result of Python code.
    fn refuse(&self, text: String) -> GraphRunError {
        self.refuse_hinting(text, None)
    }

    /// Refuses as [`Self::refuse`], with the next step for the author in the log.
    fn refuse_hinting(&self, text: String, hint: Option<&str>) -> GraphRunError {
        let name = &self.node.name;
        tracing::error!(
            of = self.instance.owner(),
            node = name,
            hint,
            "Error occurred during node execution: {name} - {text}"
        );
        self.reported(&text)
    }

    fn reported(&self, detail: &str) -> GraphRunError {
        if self.is_silent {
            GraphRunError::internal(FAILED)
        } else {
            GraphRunError::internal(format!("{FAILED} - {detail}"))
        }
    }
}
