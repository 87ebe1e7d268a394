//! A checked graph: nodes and streams as indices. Runs share it.

use std::sync::Arc;

use super::{
    calculator::{Contract, Factory},
    calculators::{LOOPBACK, is_python},
    node::{NodeSpec, Port, TagIndex},
    packet::PacketType,
};

/// A checked graph.
#[derive(Debug)]
pub struct GraphPlan {
    /// The nodes, in the order of the file.
    pub nodes: Vec<GraphPlanNode>,
    /// The streams; a stream is meant by its place in here.
    pub streams: Vec<StreamPlan>,
    /// The side packets, likewise.
    pub sides: Vec<SidePacketPlan>,
    /// The inputs of the graph, in the order of the file.
    pub inputs: Vec<GraphPort>,
    /// The outputs of the graph, in the order of the file.
    pub outputs: Vec<GraphPort>,
    /// The most packets that wait in one queue; `None` for no limit.
    pub max_queue: Option<usize>,
    /// Whether it is an error if all wait for each other, instead of a reason for longer queues.
    pub report_deadlock: bool,
    /// What the pool directive of the file says.
    pub pool: PoolSize,
}

/// What a graph file says of instances that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolSize {
    /// None: a new graph for each request.
    #[default]
    Off,
    /// So many.
    Fixed(usize),
    /// As many as the machine has threads.
    Auto,
}

/// A node of a checked graph.
#[derive(Debug)]
pub struct GraphPlanNode {
    /// The node as the file has it.
    pub spec: Arc<NodeSpec>,
    /// Its calculator.
    pub factory: &'static Factory,
    /// What it takes and gives.
    pub contract: Contract,
    /// The stream of each input, by the places of `spec.inputs`.
    pub inputs: Vec<usize>,
    /// Whether each input is the end of a back edge.
    pub back_edges: Vec<bool>,
    /// The stream of each output.
    pub outputs: Vec<usize>,
    /// The side packet of each input.
    pub side_inputs: Vec<usize>,
    /// The side packet of each output.
    pub side_outputs: Vec<usize>,
    /// When it runs, and with what.
    pub handler: InputHandler,
    /// The most `process` at once.
    pub max_in_flight: usize,
}

/// When a node runs, and which inputs it is given; indices are places of its inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputHandler {
    /// At the lowest time at which all inputs are settled and any has a packet.
    Default,
    /// As soon as any input has a packet.
    Immediate,
    /// As `Default`, for each of these sets apart. Every input is in exactly one.
    SyncSet(Vec<Vec<usize>>),
    /// When all inputs have a packet, of whatever time.
    Barrier,
    /// As `Default`; the node closes when any input is done.
    EarlyClose,
    /// The last input says which of the others is taken.
    Mux,
    /// As `Default`, but packets are dropped where queues grow.
    FixedSize {
        /// The size at which packets are dropped.
        trigger: usize,
        /// The size to which they are dropped.
        target: usize,
        /// Whether the shortest queue decides, instead of all having to be at the size.
        fixed_min: bool,
    },
    /// As `Default`, with the other inputs' times moved so that their first packets meet that of
    /// this one.
    TimestampAlign(usize),
}

/// A stream of a checked graph.
#[derive(Debug)]
pub struct StreamPlan {
    /// The name.
    pub name: String,
    /// Who sends on it.
    pub from: StreamSource,
    /// Who takes from it: nodes and the places of their inputs.
    pub to: Vec<(usize, usize)>,
    /// The places among the graph's outputs that it feeds.
    pub outputs: Vec<usize>,
    /// What it carries, as far as is known.
    pub carries: PacketType,
}

/// A side packet of a checked graph.
#[derive(Debug)]
pub struct SidePacketPlan {
    /// The name.
    pub name: String,
    /// The node that gives it and the place among its outputs; `None` if the request or the server does.
    pub from: Option<(usize, usize)>,
    /// The nodes that take it, and the places of their inputs.
    pub to: Vec<(usize, usize)>,
}

/// Who sends on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSource {
    /// An input of the graph, by its place.
    Graph(usize),
    /// A node, and the place of its output.
    Node(usize, usize),
}

/// An input or output of a graph.
#[derive(Debug, Clone)]
pub struct GraphPort {
    /// Tag, index and name, which is what clients call it.
    pub port: Port,
    /// The stream.
    pub stream: usize,
    /// What of a request becomes of it, or it becomes of in a response.
    pub form: PacketForm,
}

/// What a packet is to clients, as the tag of an input or output of the graph says by what it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketForm {
    /// OpenVINO's tensor: `OVTENSOR`, no tag, or any other one.
    OvTensor,
    /// MediaPipe's tensor: `TENSOR`.
    MpTensor,
    /// TensorFlow's tensor: `TFTENSOR`.
    TfTensor,
    /// A picture: `IMAGE`.
    Image,
    /// A Python tensor: `OVMS_PY_TENSOR`.
    Python,
    /// The whole request: `REQUEST`.
    Request,
    /// The whole response: `RESPONSE`.
    Response,
}

impl GraphPort {
    /// Returns the tag and index.
    #[must_use]
    pub fn at(&self) -> &TagIndex {
        &self.port.at
    }
}

impl GraphPlan {
    /// Goes through the streams that bring generating nodes back to themselves.
    pub fn loops(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().filter(|node| is_python(&node.spec));
        nodes.filter_map(|node| {
            let place = node.spec.inputs.find(LOOPBACK, 0)?;
            Some(node.inputs[place])
        })
    }

    /// Finds an input by the name that clients use.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.port.name == name)
    }
}
