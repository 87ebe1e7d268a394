//! Harness for packet-level tests of a single calculator: packets are text, as `out 5 @3`.

use std::sync::Arc;

use prost::{Message, Name};

use crate::{
    error,
    graph::calculators::{
        calculator::{Calculator, CalculatorContext, Emit, Env, Factory, Resources, StepOutcome},
        contract::Contract,
        error::GraphRunError,
        node::{NodeOptions, NodeSpec, Ports},
        packet::{Packet, Payload},
        servables::{ServableSession, Servables},
        timestamp::Timestamp,
    },
};

/// Returns a list of numbers.
pub(in crate::graph::calculators::stock) fn list(values: &[i64]) -> Payload {
    Payload::List(values.iter().copied().map(Payload::Int).collect())
}

/// Returns a text.
pub(in crate::graph::calculators::stock) fn text(text: &str) -> Payload {
    Payload::Text(text.to_owned())
}

/// Node as in a graph file.
#[derive(Clone)]
pub(in crate::graph::calculators::stock) struct Node {
    spec: NodeSpec,
    side: Vec<(String, Payload)>,
}

impl Node {
    pub(in crate::graph::calculators::stock) fn of(calculator: &str) -> Self {
        let spec = NodeSpec {
            name: calculator.to_owned(),
            calculator: calculator.to_owned(),
            ..NodeSpec::default()
        };
        Self {
            spec,
            side: Vec::new(),
        }
    }

    pub(in crate::graph::calculators::stock) fn inputs(mut self, texts: &[&str]) -> Self {
        self.spec.inputs = Ports::of(texts);
        self
    }

    pub(in crate::graph::calculators::stock) fn outputs(mut self, texts: &[&str]) -> Self {
        self.spec.outputs = Ports::of(texts);
        self
    }

    pub(in crate::graph::calculators::stock) fn side_inputs(mut self, texts: &[&str]) -> Self {
        self.spec.side_inputs = Ports::of(texts);
        self
    }

    pub(in crate::graph::calculators::stock) fn side_outputs(mut self, texts: &[&str]) -> Self {
        self.spec.side_outputs = Ports::of(texts);
        self
    }

    pub(in crate::graph::calculators::stock) fn options<T: Message + Name>(
        mut self,
        options: &T,
    ) -> Self {
        self.spec.options = NodeOptions::of(options);
        self
    }

    /// Adds a side packet by its name.
    pub(in crate::graph::calculators::stock) fn side(
        mut self,
        name: &str,
        payload: Payload,
    ) -> Self {
        self.side.push((name.to_owned(), payload));
        self
    }

    fn factory(&self) -> &'static Factory {
        super::find(&self.spec.calculator).expect("a known calculator")
    }

    pub(in crate::graph::calculators::stock) fn contract(&self) -> Result<Contract, String> {
        self.factory().check(&self.spec)
    }

    /// Returns the error of the contract.
    pub(in crate::graph::calculators::stock) fn refused(&self) -> String {
        self.contract().expect_err("a broken contract")
    }

    /// Creates and opens the calculator.
    pub(in crate::graph::calculators::stock) fn start(&self) -> Run {
        let mut run = self.prepare();
        run.opened = run.step(Timestamp::UNSTARTED, Step::Open).expect("opens");
        run
    }

    /// Creates the calculator, and returns the error of opening it.
    pub(in crate::graph::calculators::stock) fn fails_to_open(&self) -> String {
        let mut run = self.prepare();
        let error = run.step(Timestamp::UNSTARTED, Step::Open);
        error.expect_err("does not open").to_string()
    }

    fn prepare(&self) -> Run {
        self.contract().expect("a kept contract");
        let spec = Arc::new(self.spec.clone());
        let given = |name: &str| {
            let mut side = self.side.iter();
            side.find(|(known, _)| known == name)
                .map_or(Packet::empty(Timestamp::UNSET), |(_, payload)| {
                    Packet::side(payload.clone())
                })
        };
        let inputs = spec.inputs.len();
        Run {
            calculator: (self.factory().make)(&spec, &Nothing),
            side: spec
                .side_inputs
                .iter()
                .map(|port| given(&port.name))
                .collect(),
            inputs: vec![Packet::empty(Timestamp::UNSET); inputs],
            bounds: vec![Timestamp::PRE_STREAM; inputs],
            opened: Vec::new(),
            stopped: false,
            spec,
        }
    }
}

enum Step {
    Open,
    Process,
    Close,
}

/// Running calculator.
pub(in crate::graph::calculators::stock) struct Run {
    spec: Arc<NodeSpec>,
    calculator: Box<dyn Calculator>,
    side: Vec<Packet>,
    inputs: Vec<Packet>,
    bounds: Vec<Timestamp>,
    opened: Vec<String>,
    stopped: bool,
}

impl Run {
    /// Returns the packets emitted by `open`.
    pub(in crate::graph::calculators::stock) fn opened(&self) -> &[String] {
        &self.opened
    }

    /// Returns whether the calculator has stopped.
    pub(in crate::graph::calculators::stock) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Passes packets of a timestamp, by the names of the streams; all other inputs are empty.
    pub(in crate::graph::calculators::stock) fn at(
        &mut self,
        at: i64,
        packets: &[(&str, Payload)],
    ) -> Vec<String> {
        self.try_at(Timestamp::new(at), packets).expect("processes")
    }

    /// Calls the node as `at` does, with a special timestamp.
    pub(in crate::graph::calculators::stock) fn at_time(
        &mut self,
        at: Timestamp,
        packets: &[(&str, Payload)],
    ) -> Vec<String> {
        self.try_at(at, packets).expect("processes")
    }

    /// Calls the node as `at` does, and returns the error.
    pub(in crate::graph::calculators::stock) fn error_at(
        &mut self,
        at: i64,
        packets: &[(&str, Payload)],
    ) -> String {
        let emits = self.try_at(Timestamp::new(at), packets);
        emits.expect_err("an error").to_string()
    }

    /// Raises bounds of inputs, and calls `process` without packets.
    pub(in crate::graph::calculators::stock) fn bound(
        &mut self,
        at: i64,
        streams: &[(&str, Timestamp)],
    ) -> Vec<String> {
        for (name, bound) in streams {
            let place = self.spec.inputs.named(name).expect("a stream of the node");
            self.bounds[place] = *bound;
        }
        self.inputs.fill(Packet::empty(Timestamp::UNSET));
        self.step(Timestamp::new(at), Step::Process)
            .expect("processes")
    }

    pub(in crate::graph::calculators::stock) fn close(&mut self) -> Vec<String> {
        self.bounds.clear();
        self.inputs.clear();
        self.step(Timestamp::DONE, Step::Close).expect("closes")
    }

    /// Closes the calculator, and returns the error.
    pub(in crate::graph::calculators::stock) fn error_at_close(&mut self) -> String {
        let emits = self.step(Timestamp::DONE, Step::Close);
        emits.expect_err("an error").to_string()
    }

    fn try_at(
        &mut self,
        at: Timestamp,
        packets: &[(&str, Payload)],
    ) -> Result<Vec<String>, GraphRunError> {
        self.inputs.fill(Packet::empty(Timestamp::UNSET));
        for (name, payload) in packets {
            let place = self.spec.inputs.named(name).expect("a stream of the node");
            self.inputs[place] = Packet::new(payload.clone(), at);
            self.bounds[place] = at.next_allowed();
        }
        self.step(at, Step::Process)
    }

    fn step(&mut self, at: Timestamp, step: Step) -> Result<Vec<String>, GraphRunError> {
        let env = Env::new(Arc::new(Nothing));
        let mut context = CalculatorContext {
            node: &self.spec,
            at,
            inputs: &self.inputs,
            side: &self.side,
            env: &env,
            trace: None,
            bounds: &self.bounds,
            emits: Vec::new(),
        };
        let flow = match step {
            Step::Open => self.calculator.open(&mut context),
            Step::Process => self.calculator.process(&mut context),
            Step::Close => self.calculator.close(&mut context),
        };
        match flow? {
            StepOutcome::Next => {}
            StepOutcome::Stop => self.stopped = true,
            StepOutcome::Later(_) => panic!("these calculators do not wait"),
        }
        let emits = context.emits;
        Ok(emits.iter().map(|emit| self.reported(emit)).collect())
    }

    fn reported(&self, emit: &Emit) -> String {
        let output = |place: &usize| &self.spec.outputs[*place].name;
        match emit {
            Emit::Packet(place, packet) => {
                let value = packet.payload().expect("no empty packets");
                format!("{} {value:?} @{}", output(place), packet.at())
            }
            Emit::Bound(place, bound) => format!("{} bound {bound}", output(place)),
            Emit::Close(place) => format!("{} closed", output(place)),
            Emit::Side(place, packet) => {
                let value = packet.payload().expect("no empty packets");
                format!("side {} {value:?}", self.spec.side_outputs[*place].name)
            }
        }
    }
}

/// Resources without models and Python.
pub(in crate::graph::calculators::stock) struct Nothing;

impl Resources for Nothing {
    fn hides_python_errors(&self) -> bool {
        false
    }

    fn python(&self, _: &str) -> Option<crate::python::HandlerInstance> {
        None
    }
}

impl Servables for Nothing {
    fn session(&self, name: &str, _: Option<i64>) -> error::Result<Arc<dyn ServableSession>> {
        panic!("no calculator here asks for {name}")
    }
}
