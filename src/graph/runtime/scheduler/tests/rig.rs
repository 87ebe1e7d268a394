//! Graphs of closures, and a driver that runs one job after the other.

use std::sync::Arc;

use crate::graph::{
    calculators::{
        calculator::{Emit, Factory, Later},
        contract::Contract,
        error::{CalculatorStep, GraphRunError},
        node::{NodeSpec, Ports},
        packet::{Packet, PacketType, Payload, TensorKind},
        timestamp::Timestamp,
    },
    check::plan::{
        GraphPlan, GraphPlanNode, GraphPort, InputHandler, SidePacketPlan, StreamPlan, StreamSource,
    },
    file::PoolSize,
    runtime::scheduler::{GraphJob, Scheduler, Ticket},
};

static FACTORY: Factory = Factory {
    name: "FakeCalculator",
    about: "",
    contract: |ask| ask,
    make: |_, _| unreachable!("fakes are not made"),
};

/// Step function of a fake node.
pub(super) type Fake = Box<dyn FnMut(&GraphJob) -> Result<Later, GraphRunError>>;

/// Node of a graph of fakes.
pub(super) struct Made {
    pub(super) planned: GraphPlanNode,
    fake: Fake,
}

/// Creates a node that emits these in `Process`, and nothing else.
pub(super) fn node(
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    mut process: impl FnMut(&GraphJob) -> Vec<Emit> + 'static,
) -> Made {
    full(name, inputs, outputs, move |job| {
        Ok(Later {
            emits: match job.ticket.step {
                CalculatorStep::Process => process(job),
                CalculatorStep::Open | CalculatorStep::Close => Vec::new(),
            },
            stop: false,
        })
    })
}

/// Creates a node with a function called for each step.
pub(super) fn full(
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    fake: impl FnMut(&GraphJob) -> Result<Later, GraphRunError> + 'static,
) -> Made {
    let spec = NodeSpec {
        name: name.to_owned(),
        inputs: Ports::of(inputs),
        outputs: Ports::of(outputs),
        ..NodeSpec::default()
    };
    Made {
        planned: GraphPlanNode {
            contract: Contract::any(&spec),
            factory: &FACTORY,
            inputs: Vec::new(),
            back_edges: vec![false; inputs.len()],
            outputs: Vec::new(),
            side_inputs: Vec::new(),
            side_outputs: Vec::new(),
            handler: InputHandler::Default,
            max_in_flight: 1,
            spec: Arc::new(spec),
        },
        fake: Box::new(fake),
    }
}

/// Creates a node that passes all packets on.
pub(super) fn pass(name: &str, inputs: &[&str], outputs: &[&str]) -> Made {
    node(name, inputs, outputs, through).offset(0)
}

/// Sends each input to the output of the same index.
pub(super) fn through(job: &GraphJob) -> Vec<Emit> {
    let inputs = job.inputs.iter().cloned().enumerate();
    let there = inputs.filter(|(_, packet)| !packet.is_empty());
    there
        .map(|(place, packet)| Emit::Packet(place, packet))
        .collect()
}

impl Made {
    pub(super) fn offset(mut self, offset: i64) -> Self {
        self.planned.contract.offset = Some(offset);
        self
    }

    pub(super) fn wants_bounds(mut self) -> Self {
        self.planned.contract.wants_bounds = true;
        self
    }

    pub(super) fn handler(mut self, handler: InputHandler) -> Self {
        self.planned.handler = handler;
        self
    }

    pub(super) fn in_flight(mut self, most: usize) -> Self {
        self.planned.max_in_flight = most;
        self
    }

    /// Allows steps in flight that run one after the other.
    pub(super) fn pipelined(mut self, most: usize) -> Self {
        self.planned.contract.pipelined = Some(most);
        self.in_flight(most)
    }

    /// Marks the input of a stream as the end of a back edge.
    pub(super) fn back(mut self, stream: &str) -> Self {
        let place = self.planned.spec.inputs.named(stream).unwrap();
        self.planned.back_edges[place] = true;
        self
    }

    pub(super) fn sides(mut self, takes: &[&str], gives: &[&str]) -> Self {
        let mut spec = (*self.planned.spec).clone();
        spec.side_inputs = Ports::of(takes);
        spec.side_outputs = Ports::of(gives);
        self.planned.contract.side_inputs = vec![(PacketType::Any, false); takes.len()];
        self.planned.spec = Arc::new(spec);
        self
    }

    /// Makes the side packets of the node optional.
    pub(super) fn optional(mut self) -> Self {
        for (_, is_optional) in &mut self.planned.contract.side_inputs {
            *is_optional = true;
        }
        self
    }
}

/// Builds the plan of nodes.
pub(super) fn plan(inputs: &[&str], outputs: &[&str], nodes: Vec<Made>) -> (GraphPlan, Vec<Fake>) {
    let (mut planned, fakes): (Vec<GraphPlanNode>, Vec<Fake>) = nodes
        .into_iter()
        .map(|made| (made.planned, made.fake))
        .unzip();
    let mut streams: Vec<StreamPlan> = Vec::new();
    let mut sides: Vec<SidePacketPlan> = Vec::new();
    let mut add = |name: &str, from| {
        streams.push(StreamPlan {
            name: name.to_owned(),
            from,
            to: Vec::new(),
            outputs: Vec::new(),
            carries: PacketType::Any,
        });
    };
    for (place, name) in inputs.iter().enumerate() {
        add(name, StreamSource::Graph(place));
    }
    for (node, known) in planned.iter().enumerate() {
        for (place, port) in known.spec.outputs.iter().enumerate() {
            add(&port.name, StreamSource::Node(node, place));
        }
    }
    let find = |streams: &[StreamPlan], name: &str| {
        let mut names = streams.iter().map(|stream| &stream.name);
        names.position(|known| known == name).unwrap()
    };
    for (node, known) in planned.iter().enumerate() {
        for (place, port) in known.spec.side_outputs.iter().enumerate() {
            sides.push(SidePacketPlan {
                name: port.name.clone(),
                from: Some((node, place)),
                to: Vec::new(),
            });
        }
    }
    for (node, known) in planned.iter_mut().enumerate() {
        let spec = Arc::clone(&known.spec);
        for (place, port) in spec.inputs.iter().enumerate() {
            let stream = find(&streams, &port.name);
            streams[stream].to.push((node, place));
            known.inputs.push(stream);
        }
        for port in spec.outputs.iter() {
            known.outputs.push(find(&streams, &port.name));
        }
        for (place, port) in spec.side_inputs.iter().enumerate() {
            let found = sides.iter().position(|side| side.name == port.name);
            let side = found.unwrap_or_else(|| {
                sides.push(SidePacketPlan {
                    name: port.name.clone(),
                    from: None,
                    to: Vec::new(),
                });
                sides.len() - 1
            });
            sides[side].to.push((node, place));
            known.side_inputs.push(side);
        }
        for port in spec.side_outputs.iter() {
            let side = sides.iter().position(|side| side.name == port.name);
            known.side_outputs.push(side.unwrap());
        }
    }
    let mut ports = |names: &[&str], is_output: bool| -> Vec<GraphPort> {
        let ports = names.iter().enumerate().map(|(place, name)| {
            let stream = find(&streams, name);
            if is_output {
                streams[stream].outputs.push(place);
            }
            GraphPort {
                port: Ports::of(&[name])[0].clone(),
                stream,
                form: PacketType::Tensor(TensorKind::OpenVino),
            }
        });
        ports.collect()
    };
    let (inputs, outputs) = (ports(inputs, false), ports(outputs, true));
    let plan = GraphPlan {
        nodes: planned,
        streams,
        sides,
        inputs,
        outputs,
        max_queue: Some(100),
        report_deadlock: false,
        pool: PoolSize::Off,
    };
    (plan, fakes)
}

/// Run of a graph of fakes.
pub(super) struct Rig {
    pub(super) plan: Arc<GraphPlan>,
    pub(super) scheduler: Scheduler,
    pub(super) fakes: Vec<Fake>,
    /// Calls made: the node and the step.
    pub(super) calls: Vec<(String, CalculatorStep)>,
    /// Output packets: the name, the value and the timestamp.
    pub(super) reported: Vec<(String, i64, i64)>,
}

impl Rig {
    pub(super) fn new(inputs: &[&str], outputs: &[&str], nodes: Vec<Made>) -> Self {
        Self::tuned(inputs, outputs, nodes, |_| {})
    }

    pub(super) fn tuned(
        inputs: &[&str],
        outputs: &[&str],
        nodes: Vec<Made>,
        tune: impl FnOnce(&mut GraphPlan),
    ) -> Self {
        let (mut plan, fakes) = plan(inputs, outputs, nodes);
        tune(&mut plan);
        let plan = Arc::new(plan);
        let scheduler = Scheduler::new(Arc::clone(&plan), Vec::new()).unwrap();
        Self {
            plan,
            scheduler,
            fakes,
            calls: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Pushes a number.
    pub(super) fn push(&mut self, input: &str, value: i64, at: i64) -> Result<(), GraphRunError> {
        let input = self.plan.input(input).unwrap();
        self.scheduler.push(input, int(value, at))
    }

    /// Pushes numbers as their own timestamps, and runs all steps.
    pub(super) fn feed(&mut self, input: &str, values: impl IntoIterator<Item = i64>) {
        for value in values {
            self.push(input, value, value).unwrap();
        }
        self.run();
    }

    /// Runs a job, and returns its outcome.
    pub(super) fn call(&mut self, job: GraphJob) -> (Ticket, Result<Later, GraphRunError>) {
        let name = self.plan.nodes[job.ticket.node].spec.name.clone();
        self.calls.push((name, job.ticket.step));
        let outcome = (self.fakes[job.ticket.node])(&job);
        (job.ticket, outcome)
    }

    /// Takes the output packets.
    pub(super) fn take(&mut self) {
        while let Some((output, packet)) = self.scheduler.take_output() {
            let name = self.plan.outputs[output].port.name.clone();
            self.reported
                .push((name, value(&packet), packet.at().value()));
        }
    }

    /// Runs all possible steps.
    pub(super) fn run(&mut self) {
        loop {
            self.take();
            let Some(job) = self.scheduler.next_job() else {
                break;
            };
            let (ticket, outcome) = self.call(job);
            self.scheduler.done(ticket, outcome);
        }
        self.take();
        assert!(self.scheduler.is_idle());
    }

    /// Closes the inputs, and runs to the end.
    pub(super) fn end(&mut self) {
        self.scheduler.close_inputs();
        self.run();
        assert!(self.scheduler.is_finished());
    }

    /// Returns values and timestamps of an output.
    pub(super) fn reported(&self, output: &str) -> Vec<(i64, i64)> {
        let reported = self.reported.iter().filter(|(name, ..)| name == output);
        reported.map(|(_, value, at)| (*value, *at)).collect()
    }

    /// Returns the number of calls of a step of a node.
    pub(super) fn count(&self, node: &str, step: CalculatorStep) -> usize {
        let wanted = (node.to_owned(), step);
        self.calls.iter().filter(|call| **call == wanted).count()
    }
}

/// Creates a packet of a number.
pub(super) fn int(value: i64, at: i64) -> Packet {
    Packet::new(Payload::Int(value), Timestamp::new(at))
}

/// Returns the number of a packet; -1 if it has none.
pub(super) fn value(packet: &Packet) -> i64 {
    match packet.payload() {
        Some(Payload::Int(value)) => *value,
        _ => -1,
    }
}

/// Builds the outcome of a step.
pub(super) fn later(emits: Vec<Emit>, stop: bool) -> Result<Later, GraphRunError> {
    Ok(Later { emits, stop })
}
