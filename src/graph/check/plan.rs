//! Checked graph: nodes and streams as indices, shared by runs.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    graph::{
        calculators::{
            calculator::Factory,
            contract::Contract,
            node::{LOOPBACK, NodeSpec, Port},
            packet::PacketType,
        },
        file::PoolSize,
    },
    python::HandlerOutput,
};

/// Checked graph.
#[derive(Debug, Default)]
pub struct GraphPlan {
    /// Nodes, in the order of the file.
    pub nodes: Vec<GraphPlanNode>,
    /// Streams; a stream is identified by its index in here.
    pub streams: Vec<StreamPlan>,
    /// Side packets, likewise.
    pub sides: Vec<SidePacketPlan>,
    /// Inputs of the graph, in the order of the file.
    pub inputs: Vec<GraphPort>,
    /// Outputs of the graph, in the order of the file.
    pub outputs: Vec<GraphPort>,
    /// Maximum number of packets in one queue; `None` for no limit.
    pub max_queue: Option<usize>,
    /// Makes a deadlock an error, instead of a reason for longer queues.
    pub report_deadlock: bool,
    /// Pool size from the directive of the file.
    pub pool: PoolSize,
}

impl GraphPlan {
    /// Describes an output of the graph without a packet, if it comes from a Python node.
    pub fn unreturned(&self, output: &GraphPort) -> Option<String> {
        let (node, port) = self.python_source(output)?;
        let spec = &self.nodes[node].spec;
        let (node, output) = (&spec.name, &spec.outputs[port].name);
        Some(format!("node {node} returned no output \"{output}\""))
    }

    /// Returns the Python node that an output of the graph comes from, and the index of its output.
    pub(in crate::graph) fn python_source(&self, output: &GraphPort) -> Option<(usize, usize)> {
        match self.streams[output.stream].from {
            StreamSource::Node(node, port) => {
                let is_python = self.nodes[node].spec.is_python();
                is_python.then_some((node, port))
            }
            StreamSource::Graph(_) => None,
        }
    }

    /// Returns whether a node is none of Python, and takes anything that comes from one.
    pub(in crate::graph) fn is_behind_python(&self, node: usize) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut left = vec![node];
        while let Some(node) = left.pop() {
            if std::mem::replace(&mut seen[node], true) {
                continue;
            }
            for stream in &self.nodes[node].inputs {
                if let StreamSource::Node(from, _) = self.streams[*stream].from {
                    left.push(from);
                }
            }
        }
        let is_python = |node: usize| self.nodes[node].spec.is_python();
        !is_python(node) && (0..seen.len()).any(|node| seen[node] && is_python(node))
    }

    /// Checks that the requested outputs exist, and that none is requested twice.
    ///
    /// # Errors
    ///
    /// Fails with the first name of which this is not so.
    pub fn validate_outputs(&self, wanted: &[String]) -> Result<()> {
        let outputs = &self.outputs;
        for (index, name) in wanted.iter().enumerate() {
            if wanted[..index].contains(name) {
                return Err(Error::invalid(format!(
                    "Invalid output name - Requested output: {name} is listed twice"
                )));
            }
            if outputs.iter().all(|output| output.port.name != *name) {
                let known: Vec<&str> = outputs.iter().map(|it| it.port.name.as_str()).collect();
                return Err(Error::invalid(format!(
                    "Invalid output name - Requested output: {name}; the graph has: {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Describes an output of a Python node, for its worker: contents that only other Python nodes take stay there.
    pub(in crate::graph) fn python_output(&self, node: usize, place: usize) -> HandlerOutput {
        let node = &self.nodes[node];
        let stream = &self.streams[node.outputs[place]];
        let mut takers = stream.to.iter().map(|(taker, _)| &self.nodes[*taker].spec);
        HandlerOutput {
            name: node.spec.outputs[place].name.clone(),
            has_object: !stream.to.is_empty(),
            has_contents: !stream.outputs.is_empty() || takers.any(|taker| !taker.is_python()),
        }
    }
}

/// Node of a checked graph.
#[derive(Debug)]
pub struct GraphPlanNode {
    /// Node as specified in the file.
    pub spec: Arc<NodeSpec>,
    /// Calculator.
    pub factory: &'static Factory,
    /// Types of its ports.
    pub contract: Contract,
    /// Stream of each input, by the indices of `spec.inputs`.
    pub inputs: Vec<usize>,
    /// Flag of each input, set if it is the end of a back edge.
    pub back_edges: Vec<bool>,
    /// Stream of each output.
    pub outputs: Vec<usize>,
    /// Side packet of each input.
    pub side_inputs: Vec<usize>,
    /// Side packet of each output.
    pub side_outputs: Vec<usize>,
    /// Input stream handler.
    pub handler: InputHandler,
    /// Maximum number of concurrent `process` calls.
    pub max_in_flight: usize,
}

impl GraphPlanNode {
    /// Returns whether its steps are one after the other, however many are in flight.
    pub(in crate::graph) fn is_pipelined(&self) -> bool {
        self.spec.max_in_flight.is_none() && self.contract.pipelined.is_some()
    }
}

/// Policy for when a node runs, and with which inputs; indices are those of its inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputHandler {
    /// Runs at the lowest timestamp at which all inputs are settled and any has a packet.
    Default,
    /// Runs as soon as any input has a packet.
    Immediate,
    /// Applies `Default` to each of these sets separately. Every input is in exactly one.
    SyncSet(Vec<Vec<usize>>),
    /// Runs as soon as all inputs have a packet, of any timestamp.
    Barrier,
    /// Applies `Default`, and closes the node when any input is done.
    EarlyClose,
    /// The last input selects which of the others is taken.
    Mux,
    /// Applies `Default`, and drops packets when queues grow.
    FixedSize {
        /// Queue size at which packets are dropped.
        trigger: usize,
        /// Queue size after dropping.
        target: usize,
        /// Lets the shortest queue decide, instead of requiring all to be at the size.
        fixed_min: bool,
    },
    /// Applies `Default`, with the other inputs' timestamps shifted to align their first packets with
    /// that of this one.
    TimestampAlign(usize),
}

/// Stream of a checked graph.
#[derive(Debug)]
pub struct StreamPlan {
    /// Name.
    pub name: String,
    /// Producer.
    pub from: StreamSource,
    /// Consumers: nodes and the indices of their inputs.
    pub to: Vec<(usize, usize)>,
    /// Indices of the graph's outputs that it feeds.
    pub outputs: Vec<usize>,
    /// Packet type, as far as known.
    pub carries: PacketType,
}

/// Side packet of a checked graph.
#[derive(Debug)]
pub struct SidePacketPlan {
    /// Name.
    pub name: String,
    /// Producing node and the index of its output; `None` if it comes from the request or the server.
    pub from: Option<(usize, usize)>,
    /// Consuming nodes, and the indices of their inputs.
    pub to: Vec<(usize, usize)>,
}

/// Producer of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSource {
    /// Input of the graph, by index.
    Graph(usize),
    /// Node, and the index of its output.
    Node(usize, usize),
}

/// Input or output of a graph.
#[derive(Debug, Clone)]
pub struct GraphPort {
    /// Tag, index and name, as used by clients.
    pub port: Port,
    /// Index of the stream.
    pub stream: usize,
    /// Type of its packets to clients, which are converted from requests, or to responses.
    pub form: PacketType,
}

impl GraphPlan {
    /// Returns the streams by which generating nodes trigger themselves.
    pub fn loops(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().filter(|node| node.spec.is_python());
        nodes.filter_map(|node| {
            let place = node.spec.inputs.find(LOOPBACK, 0)?;
            Some(node.inputs[place])
        })
    }

    /// Finds an input by the name used by clients.
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.port.name == name)
    }
}
