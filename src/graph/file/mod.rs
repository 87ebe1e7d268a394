//! Specification of a graph, as in its file: nodes, ports and options, each with its position.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use prost_reflect::DynamicMessage;

use crate::{
    diagnostic::{Diagnostics, FilePosition},
    graph::calculators::node::{NodeOptions, NodeSpec, Port, Ports},
    proto::mediapipe::{
        CalculatorGraphConfig, InputStreamHandlerConfig, calculator_graph_config::Node,
    },
};

mod options;
pub(super) mod pbtxt;
mod pool;
pub mod rules;
pub(super) mod source;
mod spelling;
mod workers;

use pbtxt::{Field, TextError, Value, all, first};
pub(super) use pool::PoolSize;
use rules::Found;
use spelling::ports;
pub(super) use spelling::tag_index;
pub(super) use workers::WorkerOptionEntry;

/// Graph as specified in its file. Positions are the byte offsets where items begin.
#[derive(Debug)]
pub struct GraphSpec {
    /// Nodes.
    pub nodes: Vec<NodeEntry>,
    /// Inputs of the graph.
    pub inputs: Vec<PortEntry>,
    /// Outputs of the graph.
    pub outputs: Vec<PortEntry>,
    /// Input side packets of the graph.
    pub side_inputs: Vec<PortEntry>,
    /// Output side packets of the graph.
    pub side_outputs: Vec<PortEntry>,
    /// Executors of nodes.
    pub executors: Vec<ExecutorEntry>,
    /// Maximum number of packets in a queue, with its position.
    pub max_queue_size: Option<(i32, usize)>,
    /// Makes a deadlock caused by full queues an error.
    pub report_deadlock: bool,
    /// Input stream handler of nodes without one.
    pub handler: Option<HandlerEntry>,
    /// Number of pooled instances.
    pub pool: PoolSize,
}

/// Node as specified in the file.
#[derive(Debug)]
pub struct NodeEntry {
    /// Ports and options.
    pub spec: Arc<NodeSpec>,
    /// Position.
    pub at: usize,
    /// Position of the name of its calculator, or else its own.
    pub calculator_at: usize,
    /// Explicit name in the file.
    pub given: Option<String>,
    /// Ports with their positions, including invalid ones.
    pub written: NodePorts,
    /// Details of its inputs.
    pub infos: Vec<InfoEntry>,
    /// Input stream handler.
    pub handler: Option<HandlerEntry>,
    /// Name of its executor, with its position.
    pub executor: Option<(String, usize)>,
    /// Maximum number of concurrent `process` calls, with its position.
    pub max_in_flight: Option<(i32, usize)>,
    /// Options of workers, of a Python node.
    pub workers: Vec<WorkerOptionEntry>,
    /// Position of the path of its handler, of a Python node.
    pub handler_place: Option<FilePosition>,
    /// Indicates that no errors have been found in its ports so far.
    pub is_sound: bool,
}

/// Ports of a node, in the order of the file.
#[derive(Debug, Default)]
pub struct NodePorts {
    /// Input streams.
    pub inputs: Vec<PortEntry>,
    /// Output streams.
    pub outputs: Vec<PortEntry>,
    /// Input side packets.
    pub side_inputs: Vec<PortEntry>,
    /// Output side packets.
    pub side_outputs: Vec<PortEntry>,
}

/// Port as specified in the file.
#[derive(Debug)]
pub struct PortEntry {
    /// Text.
    pub text: String,
    /// Position.
    pub at: usize,
    /// Parsed port; `None` if it is invalid.
    pub port: Option<Port>,
}

/// Details of an input of a node.
#[derive(Debug)]
pub struct InfoEntry {
    /// Tag and index of the input.
    pub tag_index: String,
    /// Marks the end of a back edge.
    pub back_edge: bool,
    /// Position of the back edge flag.
    pub at: usize,
}

/// Input stream handler as specified in the file.
#[derive(Debug)]
pub struct HandlerEntry {
    /// Name of the handler.
    pub name: String,
    /// Options.
    pub options: NodeOptions,
    /// Position of its name.
    pub at: usize,
    /// Position of its options; that of its name if it has none.
    pub options_at: usize,
}

/// Executor as specified in the file.
#[derive(Debug)]
pub struct ExecutorEntry {
    /// Name; empty for the default one.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// Position.
    pub at: usize,
}

impl PortEntry {
    /// Returns the part before the first colon: the tag; empty if there is no colon.
    pub fn tag(&self) -> &str {
        self.text.split_once(':').map_or("", |(tag, _)| tag)
    }

    /// Returns the part behind the last colon: the name, also of an invalid port.
    pub fn name(&self) -> &str {
        self.text.rsplit(':').next().unwrap_or_default()
    }
}

impl GraphSpec {
    /// Reads the text of a graph file, whatever the errors in its nodes and streams.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a graph file.
    pub fn read(text: &str, file: &str) -> Result<Self, Diagnostics> {
        let found = Found::new(text, file);
        let spec = Self::new(&found);
        // A text that makes no graph has errors.
        spec.ok_or_else(|| found.end().err().unwrap_or_default())
    }

    /// Builds the specification of a text; errors in single ports and options are reported, and
    /// the rest is built without them.
    pub(super) fn new(found: &Found<'_>) -> Option<Self> {
        let pool = pool(found);
        let text = found.text;
        let read = pbtxt::read(text);
        let reported =
            |errors: Vec<TextError>| errors.into_iter().for_each(|it| found.add_text(it));
        let document = read.map_err(reported).ok()?;
        // The bytes are of a message just decoded with its own descriptor.
        let graph: CalculatorGraphConfig = document.message.transcode_to().ok()?;
        let fields = &document.fields;
        let names = unique_names(&graph.node);
        let messages = document.message.get_field_by_name("node");
        let messages = messages.as_ref().and_then(|list| list.as_list());
        let messages = messages.unwrap_or_default().iter();
        let values = all(fields, "node");
        let mut nodes = Vec::with_capacity(graph.node.len());
        for (((node, name), message), value) in
            graph.node.iter().zip(names).zip(messages).zip(values)
        {
            nodes.push(read_node(found, node, name, message.as_message()?, value));
        }
        let top = |field: &'static str, texts: &[String]| {
            ports(found, field, None, texts, all(fields, field)).0
        };
        let handler = graph.input_stream_handler.as_ref();
        let handler = handler.and_then(|it| read_handler(it, &document.message, fields));
        let executors = graph.executor.iter().zip(all(fields, "executor"));
        Some(Self {
            inputs: top("input_stream", &graph.input_stream),
            outputs: top("output_stream", &graph.output_stream),
            side_inputs: top("input_side_packet", &graph.input_side_packet),
            side_outputs: top("output_side_packet", &graph.output_side_packet),
            executors: executors
                .map(|(executor, value)| ExecutorEntry {
                    name: executor.name().to_owned(),
                    kind: executor.r#type().to_owned(),
                    at: value.at,
                })
                .collect(),
            max_queue_size: with(graph.max_queue_size, fields, "max_queue_size"),
            report_deadlock: graph.report_deadlock(),
            handler,
            pool,
            nodes,
        })
    }
}

/// Reads the number of pooled instances.
fn pool(found: &Found<'_>) -> PoolSize {
    let mut directives = pbtxt::directives(found.text);
    let Some((at, value)) = directives.next() else {
        return PoolSize::Off;
    };
    if let Some((again, _)) = directives.next() {
        let message = "OVMS_GRAPH_QUEUE_MAX_SIZE is set again, and the first one counts";
        found.warn(again, None, message.to_owned());
    }
    pbtxt::pool_size(value).unwrap_or_else(|| {
        let message = format!("Invalid OVMS_GRAPH_QUEUE_MAX_SIZE value: \"{value}\"");
        let error = found.error(rules::POOL, at, message);
        found.add(error.hint("write a number from 0 on, or AUTO"));
        PoolSize::Off
    })
}

/// Pairs the value of a field with its position.
fn with<T>(value: Option<T>, fields: &[Field<'_>], name: &str) -> Option<(T, usize)> {
    Some((value?, first(fields, name)?.at))
}

fn read_node(
    found: &Found<'_>,
    node: &Node,
    name: String,
    message: &DynamicMessage,
    value: &Value<'_>,
) -> NodeEntry {
    let fields = value.fields();
    let mut is_sound = true;
    let mut read = |field: &'static str, texts: &[String]| {
        let (entries, sound) = ports(found, field, Some(&name), texts, all(fields, field));
        is_sound &= sound;
        entries
    };
    let written = NodePorts {
        inputs: read("input_stream", &node.input_stream),
        outputs: read("output_stream", &node.output_stream),
        side_inputs: read("input_side_packet", &node.input_side_packet),
        side_outputs: read("output_side_packet", &node.output_side_packet),
    };
    let sorted = |entries: &[PortEntry]| {
        let ports = entries.iter().filter_map(|entry| entry.port.clone());
        Ports::new(ports.collect())
    };
    let spec = NodeSpec {
        calculator: node.calculator().to_owned(),
        inputs: sorted(&written.inputs),
        outputs: sorted(&written.outputs),
        side_inputs: sorted(&written.side_inputs),
        side_outputs: sorted(&written.side_outputs),
        options: options::of_node(found, &name, node, message, fields),
        max_in_flight: node
            .max_in_flight
            .and_then(|given| usize::try_from(given).ok()),
        place: found.lines.place(value.at),
        name,
    };
    let handler = node.input_stream_handler.as_ref();
    let handler = handler.and_then(|handler| read_handler(handler, message, fields));
    let infos = node.input_stream_info.iter();
    let infos = infos.zip(all(fields, "input_stream_info"));
    NodeEntry {
        at: value.at,
        calculator_at: first(fields, "calculator").map_or(value.at, |calculator| calculator.at),
        given: node.name.clone().filter(|name| !name.is_empty()),
        infos: infos
            .map(|(info, value)| InfoEntry {
                tag_index: info.tag_index().to_owned(),
                back_edge: info.back_edge(),
                at: value.at,
            })
            .collect(),
        handler,
        executor: with(node.executor.clone(), fields, "executor")
            .filter(|(name, _)| !name.is_empty()),
        max_in_flight: with(node.max_in_flight, fields, "max_in_flight"),
        workers: workers::of_node(found, &spec, value),
        handler_place: spec
            .is_python()
            .then(|| value.find("handler_path"))
            .flatten()
            .map(|value| found.position(value.at)),
        written,
        is_sound,
        spec: Arc::new(spec),
    }
}

fn read_handler(
    handler: &InputStreamHandlerConfig,
    message: &DynamicMessage,
    fields: &[Field<'_>],
) -> Option<HandlerEntry> {
    let value = first(fields, "input_stream_handler")?;
    let message = message.get_field_by_name("input_stream_handler")?;
    let fields = value.fields();
    let name = first(fields, "input_stream_handler");
    let at = name.map_or(value.at, |name| name.at);
    let options = first(fields, "options");
    let first = options.and_then(|options| options.fields().first());
    Some(HandlerEntry {
        name: handler.input_stream_handler().to_owned(),
        options: options::of_extensions(message.as_message()?),
        at,
        options_at: first.map_or(at, |field| field.at),
    })
}

/// Returns a unique name for each node: its own or that of its calculator, numbered if several
/// share it.
fn unique_names(nodes: &[Node]) -> Vec<String> {
    fn own(node: &Node) -> &str {
        let name = Some(node.name()).filter(|name| !name.is_empty());
        name.unwrap_or(node.calculator())
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for node in nodes {
        *counts.entry(own(node)).or_default() += 1;
    }
    let single = counts.iter().filter(|(_, count)| **count == 1);
    let mut taken: HashSet<String> = single.map(|(name, _)| (*name).to_owned()).collect();
    let mut next: HashMap<&str, usize> = HashMap::new();
    let names = nodes.iter().map(|node| {
        let name = own(node);
        if counts[name] == 1 {
            return name.to_owned();
        }
        let next = next.entry(name).or_insert(1);
        loop {
            let numbered = format!("{name}_{next}");
            *next += 1;
            if taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    });
    names.collect()
}
