//! `pipeline_config_list`.

use std::path::Path;

use super::{
    EntryError, FilePositions, Node, RefusedEntry,
    entry::{EntryKind, Names},
    graphs::workers,
};
use crate::{
    diagnostic::FilePosition,
    python::{WORKER_OPTIONS, WorkerOptions},
};

/// A pipeline of models and custom nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineConfig {
    /// The name that clients use.
    pub name: String,
    /// The names of its inputs.
    pub inputs: Vec<String>,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// Its outputs and their sources.
    pub outputs: Vec<Connection>,
    /// Number of parts that the request is split into; -1 for as many as it has.
    pub demultiply_count: Option<i32>,
    /// Result of a request in which a demultiplexer has nothing to split.
    pub empty_results: EmptyResults,
    /// Options of the workers of its Python nodes.
    pub workers: WorkerOptions,
    /// Position in the file: that of the entry and those of its keys.
    pub places: FilePositions,
}

impl PipelineConfig {
    /// Returns whether another pipeline is the same, regardless of its position in the file.
    pub fn is_same(&self, other: &Self) -> bool {
        self.unplaced() == other.unplaced()
    }

    /// Returns it without positions.
    fn unplaced(&self) -> Self {
        let mut pipeline = self.clone();
        pipeline.places = FilePositions::default();
        let mut connections: Vec<&mut Connection> = pipeline.outputs.iter_mut().collect();
        for node in &mut pipeline.nodes {
            node.places = FilePositions::default();
            connections.extend(&mut node.inputs);
            for output in &mut node.outputs {
                output.place = FilePosition::default();
            }
        }
        for connection in connections {
            connection.place = FilePosition::default();
        }
        pipeline
    }
}

/// Result of a request in which a demultiplexer has nothing to split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmptyResults {
    /// An error, as clients of model servers know it.
    #[default]
    Abort,
    /// Outputs of no parts.
    Allow,
}

/// One node of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// The name within the pipeline.
    pub name: String,
    /// Kind of node: a model or a custom node.
    pub kind: NodeKind,
    /// Its inputs and their sources.
    pub inputs: Vec<Connection>,
    /// Its outputs under the names that other nodes use.
    pub outputs: Vec<NodeOutput>,
    /// Number of parts that its outputs are split into; -1 for as many as they have.
    pub demultiply_count: Option<i32>,
    /// The node whose parts are collected before this one runs.
    pub gather_from_node: Option<String>,
    /// Position in the file: that of the entry and those of its keys.
    pub places: FilePositions,
}

impl NodeConfig {
    /// Returns the parameters of a custom node; none for a model.
    pub fn params(&self) -> &[(String, String)] {
        match &self.kind {
            NodeKind::Model { .. } => &[],
            NodeKind::Custom { params, .. } => params,
        }
    }
}

/// Kind of node: a model or a custom node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A model of the same file.
    Model {
        /// Name of the model.
        model_name: String,
        /// Version; the default one at the time of each request if `None`.
        version: Option<i64>,
    },
    /// A custom node.
    Custom {
        /// The name of its library.
        library_name: String,
        /// Parameters that the node is created with.
        params: Vec<(String, String)>,
    },
}

/// An input of a node, or an output of a pipeline, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The name of the input or output.
    pub name: String,
    /// The node that it comes from; `request` for the pipeline's inputs.
    pub node_name: String,
    /// The alias of that node's output.
    pub data_item: String,
    /// Converts type and axes to those of the input.
    pub convert: bool,
    /// Position in the file.
    pub place: FilePosition,
}

/// An output of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOutput {
    /// The output of the model or custom node.
    pub data_item: String,
    /// The name that other nodes use.
    pub alias: String,
    /// Position in the file.
    pub place: FilePosition,
}

/// The kinds of nodes.
const KINDS: [&str; 2] = ["DL model", "custom"];

/// Values of the setting for empty results.
const EMPTY_RESULTS: [(&str, EmptyResults); 2] = [
    ("abort", EmptyResults::Abort),
    ("allow", EmptyResults::Allow),
];

/// Reads the list.
pub(super) fn list(
    node: &Node<'_>,
    folder: &Path,
    names: &mut Names,
) -> (Vec<PipelineConfig>, Vec<RefusedEntry>) {
    let (mut pipelines, mut refused) = (Vec::new(), Vec::new());
    for entry in node.list("pipelines").unwrap_or_default() {
        let Some(pipeline) = pipeline(&entry, folder) else {
            continue;
        };
        match names.take(&pipeline.name, EntryKind::Pipeline, || entry.place()) {
            Ok(()) => pipelines.push(pipeline),
            Err(EntryKind::Pipeline) => entry.warn(format!(
                "Duplicated pipeline names - `{}` is listed above; this one is left out",
                pipeline.name
            )),
            Err(EntryKind::Model | EntryKind::Graph) => refused.push(RefusedEntry {
                name: pipeline.name,
                reason: EntryError::PipelineName,
                place: entry.place(),
            }),
        }
    }
    (pipelines, refused)
}

fn pipeline(node: &Node<'_>, folder: &Path) -> Option<PipelineConfig> {
    let needed = ["name", "inputs", "nodes", "outputs"];
    let more = ["demultiply_count", "empty_results"];
    let fields = node.fields(&[&needed[..], &more, &WORKER_OPTIONS].concat(), &needed)?;
    let name = fields.get("name").and_then(Node::name);
    let inputs = fields.get("inputs").map(|list| {
        let inputs = list.list("input names").unwrap_or_default();
        let inputs = inputs.iter().filter_map(Node::text);
        inputs.map(str::to_owned).collect()
    });
    let nodes = fields.get("nodes").map(|list| {
        let nodes = list.list("nodes").unwrap_or_default();
        nodes.iter().filter_map(pipeline_node).collect()
    });
    let outputs = fields.get("outputs").map(outputs);
    let demultiply_count = fields.get("demultiply_count").and_then(demultiply_count);
    let empty_results = fields.get("empty_results").and_then(empty_results);
    let empty_results = empty_results.unwrap_or_default();
    let nodes: Vec<NodeConfig> = nodes?;
    let mut counts = nodes.iter().map(|node| node.demultiply_count);
    if empty_results == EmptyResults::Allow
        && demultiply_count != Some(-1)
        && !counts.any(|count| count == Some(-1))
    {
        node.warn(
            "empty_results has no effect: no demultiply_count is -1, so that none may be empty",
        );
    }
    Some(PipelineConfig {
        name: name?.to_owned(),
        inputs: inputs?,
        nodes,
        outputs: outputs?,
        demultiply_count,
        empty_results,
        workers: workers(&fields, folder),
        places: node.places(&fields),
    })
}

fn pipeline_node(node: &Node<'_>) -> Option<NodeConfig> {
    let fields = node.fields(
        &[
            "name",
            "type",
            "model_name",
            "version",
            "library_name",
            "params",
            "inputs",
            "outputs",
            "demultiply_count",
            "gather_from_node",
        ],
        &["name", "type", "inputs", "outputs"],
    )?;
    let name = fields.get("name").and_then(Node::name);
    let inputs = fields.get("inputs").map(inputs);
    let outputs = fields.get("outputs").map(|list| {
        let outputs = list.list("outputs").unwrap_or_default();
        outputs.iter().filter_map(node_output).collect()
    });
    let demultiply_count = fields.get("demultiply_count").and_then(demultiply_count);
    let gather_from_node = fields.text("gather_from_node");
    let version = fields
        .get("version")
        .and_then(|version| version.whole(1, i64::MAX));
    let params = fields.get("params").and_then(params).unwrap_or_default();
    let (model, library) = (fields.get("model_name"), fields.get("library_name"));
    let (model_name, library_name) = (model.and_then(Node::name), library.and_then(Node::name));

    let kind = fields.get("type")?;
    let text = kind.text()?;
    let (needed, forbidden) = match text {
        "DL model" => (("model_name", model), ("library_name", library)),
        "custom" => (("library_name", library), ("model_name", model)),
        _ => {
            kind.expected(format!("one of \"{}\"", KINDS.join("\", \"")));
            return None;
        }
    };
    if let (key, Some(forbidden)) = forbidden {
        forbidden.expected(format!("no `{key}` in a node of type \"{text}\""));
    }
    if let (key, None) = needed
        && !fields.is_misspelled(key)
    {
        node.expected(format!("the key `{key}` in a node of type \"{text}\""));
    }
    let kind = if text == "custom" {
        NodeKind::Custom {
            library_name: library_name?.to_owned(),
            params,
        }
    } else {
        NodeKind::Model {
            model_name: model_name?.to_owned(),
            version,
        }
    };
    Some(NodeConfig {
        name: name?.to_owned(),
        kind,
        inputs: inputs?,
        outputs: outputs?,
        demultiply_count,
        gather_from_node: gather_from_node.map(str::to_owned),
        places: node.places(&fields),
    })
}

/// Reads the outputs of a pipeline.
fn outputs(list: &Node<'_>) -> Vec<Connection> {
    // Known, so that what is wrong with it can be said.
    let refuse = |convert: &Node<'_>| {
        convert.expected(
            "no `convert` in an output of the pipeline: no input says what to convert to; it goes \
             to the inputs of nodes",
        );
        false
    };
    connections(list, refuse)
}

/// Reads the inputs of a node.
fn inputs(list: &Node<'_>) -> Vec<Connection> {
    connections(list, |convert| convert.flag().unwrap_or_default())
}

/// Reads objects of one key: `{"input": {"node_name": …, "data_item": …}}`.
fn connections(list: &Node<'_>, convert: impl Fn(&Node<'_>) -> bool) -> Vec<Connection> {
    let entries = list.list("connections").unwrap_or_default();
    let entries = entries.iter().filter_map(|entry| {
        let pairs = entry.pairs("one connection")?;
        let [(name, source)] = &pairs[..] else {
            entry.expected("an object of exactly one key");
            return None;
        };
        let fields = source.fields(
            &["node_name", "data_item", "convert"],
            &["node_name", "data_item"],
        )?;
        let convert = fields.get("convert").is_some_and(&convert);
        let (node_name, data_item) = (fields.text("node_name"), fields.text("data_item"));
        Some(Connection {
            name: name.clone(),
            node_name: node_name?.to_owned(),
            data_item: data_item?.to_owned(),
            convert,
            place: entry.place(),
        })
    });
    entries.collect()
}

fn node_output(node: &Node<'_>) -> Option<NodeOutput> {
    let keys = ["data_item", "alias"];
    let fields = node.fields(&keys, &keys)?;
    let (data_item, alias) = (fields.text("data_item"), fields.text("alias"));
    Some(NodeOutput {
        data_item: data_item?.to_owned(),
        alias: alias?.to_owned(),
        place: node.place(),
    })
}

fn params(node: &Node<'_>) -> Option<Vec<(String, String)>> {
    let pairs = node.pairs("texts")?;
    let pairs = pairs
        .into_iter()
        .filter_map(|(key, node)| Some((key, node.text()?.to_owned())));
    Some(pairs.collect())
}

/// Reads what comes of nothing.
fn empty_results(node: &Node<'_>) -> Option<EmptyResults> {
    let text = node.text()?;
    let found = EMPTY_RESULTS.iter().find(|(known, _)| *known == text);
    if found.is_none() {
        node.expected(format!(
            "one of \"{}\"",
            EMPTY_RESULTS.map(|(known, _)| known).join("\", \"")
        ));
    }
    found.map(|(_, empty_results)| *empty_results)
}

/// Reads a number of parts; 0 is how older files write -1.
fn demultiply_count(node: &Node<'_>) -> Option<i32> {
    let count = node.whole(-1, 10_000)?;
    if count == 0 {
        node.warn("a demultiply_count of 0 is read as -1, which is how it is written now");
        return Some(-1);
    }
    i32::try_from(count).ok()
}
