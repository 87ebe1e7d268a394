//! Node as specified in the graph file: its ports and its options.

use std::{fmt, ops::Deref};

use bytes::Bytes;
use prost::{Message, Name};

use crate::proto::mediapipe::{
    OpenVinoModelServerSessionCalculatorOptions, PythonExecutorCalculatorOptions,
};

/// Tag of the streams by which a generating node triggers itself.
pub(crate) const LOOPBACK: &str = "LOOPBACK";

/// Next step where `execute` is a generator and the node has no [`LOOPBACK`].
pub const GENERATOR_NODE: &str = "give the node `input_stream: \"LOOPBACK:loopback\"`, `output_stream: \"LOOPBACK:loopback\"`, \
                                  `input_stream_info: { tag_index: \"LOOPBACK:0\" back_edge: true }`, and the \
                                  `input_stream_handler` that is in a graph of `ovms graph new NAME --generative`";

/// Calculator that runs a Python class.
pub(in crate::graph) const PYTHON: &str = "PythonExecutorCalculator";

/// Position of a port among those of a node: `TAG`, `TAG:index` or, without a tag, `:index`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TagIndex {
    /// Tag; empty if there is none.
    pub tag: String,
    /// Index among the ports with the tag.
    pub index: usize,
}

impl fmt::Display for TagIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tag, self.index)
    }
}

/// Input, output or side packet of a node or graph: `TAG:index:name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Tag and index.
    pub at: TagIndex,
    /// Name of the stream or side packet.
    pub name: String,
    /// Position in the file, among the ports of its kind.
    pub written: usize,
}

/// Ports of a kind, sorted by tag and index. A port is identified by its index in here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports(Vec<Port>);

impl Ports {
    /// Creates the ports of a kind, given in the order of the file.
    pub fn new(mut ports: Vec<Port>) -> Self {
        ports.sort_by(|a, b| a.at.cmp(&b.at));
        Self(ports)
    }

    /// Parses `TAG:index:name`, `TAG:name` and `name`, without checking the spelling.
    #[cfg(test)]
    pub(in crate::graph) fn of(texts: &[&str]) -> Self {
        let mut untagged = 0;
        let ports = texts.iter().enumerate().map(|(written, text)| {
            let parts: Vec<&str> = text.split(':').collect();
            let (tag, index, name) = match parts[..] {
                [tag, index, name] => (tag, index.parse().unwrap_or_default(), name),
                [tag, name] => (tag, 0, name),
                _ => {
                    untagged += 1;
                    ("", untagged - 1, *text)
                }
            };
            Port {
                at: TagIndex {
                    tag: tag.to_owned(),
                    index,
                },
                name: name.to_owned(),
                written,
            }
        });
        Self::new(ports.collect())
    }

    /// Finds the index of a port by tag.
    pub fn find(&self, tag: &str, index: usize) -> Option<usize> {
        let mut ports = self.0.iter();
        ports.position(|port| port.at.tag == tag && port.at.index == index)
    }

    /// Finds the index of a port by the name of its stream.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|port| port.name == name)
    }

    /// Returns the indices of the ports with a tag, in order.
    pub fn tagged(&self, tag: &str) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(move |place| self[*place].at.tag == tag)
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.0
    }
}

/// Options of a node or of a handler: messages by their type, written as `node_options` or as an
/// extension of `options`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeOptions(Vec<(String, Bytes)>);

impl NodeOptions {
    /// Adds an encoded message by its full name (`mediapipe.GateCalculatorOptions`).
    pub fn push(&mut self, name: impl Into<String>, encoded: Bytes) {
        self.0.push((name.into(), encoded));
    }

    /// Creates options of one message.
    #[cfg(test)]
    pub(in crate::graph) fn of<T: Message + Name>(message: &T) -> Self {
        Self(vec![(T::full_name(), message.encode_to_vec().into())])
    }

    /// Returns the message of a type; `None` if it is absent or cannot be decoded as that type,
    /// which reading the file rules out.
    pub fn get<T: Message + Name + Default>(&self) -> Option<T> {
        let name = T::full_name();
        let found = self.0.iter().find(|(known, _)| *known == name)?;
        T::decode(found.1.clone()).ok()
    }

    /// Returns the names of the messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// Node as specified in the graph file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeSpec {
    /// Name, unique in the graph: that of the file, else that of the calculator, with a suffix
    /// `_1`, `_2` where needed.
    pub name: String,
    /// Name of the calculator.
    pub calculator: String,
    /// Input streams.
    pub inputs: Ports,
    /// Output streams.
    pub outputs: Ports,
    /// Input side packets.
    pub side_inputs: Ports,
    /// Output side packets.
    pub side_outputs: Ports,
    /// Options.
    pub options: NodeOptions,
    /// Maximum number of concurrent `process` calls, if the file names one.
    pub max_in_flight: Option<usize>,
    /// Location in the file: line and column, from 1; zeros if unknown.
    pub place: (usize, usize),
}

impl NodeSpec {
    /// Returns whether the node runs a Python class.
    pub(in crate::graph) fn is_python(&self) -> bool {
        self.calculator == PYTHON
    }

    /// Returns whether the node is made for generators: it triggers itself for the next set.
    pub(in crate::graph) fn is_generator(&self) -> bool {
        self.is_python() && self.outputs.find(LOOPBACK, 0).is_some()
    }

    /// Returns the path of the handler file of a Python node, as in the file.
    pub fn handler_path(&self) -> Option<String> {
        let options: PythonExecutorCalculatorOptions =
            self.is_python().then(|| self.options.get())??;
        Some(options.handler_path)
    }

    /// Returns the name of the model or pipeline of a session.
    pub fn servable(&self) -> Option<String> {
        let options: OpenVinoModelServerSessionCalculatorOptions = self.options.get()?;
        Some(options.servable_name)
    }
}
