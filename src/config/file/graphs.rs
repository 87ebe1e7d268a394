//! Graphs: `mediapipe_config_list`, and entries of `model_config_list` whose folder holds one.

use std::path::{Path, PathBuf};

use super::{
    EntryError, Node, RefusedEntry,
    entry::{EntryKind, Names},
    node::Fields,
    sections::resolve,
};
use crate::{
    diagnostic::FilePosition,
    error::nearest,
    python::{PythonEnvironment, WORKER_OPTIONS, WorkerOptions},
};

/// The file of a graph, unless another is named.
const GRAPH: &str = "graph.pbtxt";

/// The file with the models of a graph, unless another is named.
const SUBCONFIG: &str = "subconfig.json";

/// Alternative name of the subconfig file in the folder of version 1.
const CONFIG: &str = "config.json";

/// File of Triton's settings of a model, which has the ending of graph files.
const SETTINGS_OF_TRITON: &str = "config.pbtxt";

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphConfig {
    /// The name that clients use.
    pub name: String,
    /// The folder of the graph, resolved.
    pub base_path: PathBuf,
    /// The graph, resolved.
    pub graph_path: PathBuf,
    /// The file with the models of the graph, resolved; it need not be there.
    pub subconfig: PathBuf,
    /// Options of the workers of its Python nodes.
    pub workers: WorkerOptions,
    /// Position in the server's configuration file.
    pub place: FilePosition,
}

impl GraphConfig {
    /// Returns whether another graph would load the same, regardless of its position in the file.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.base_path == other.base_path
            && self.graph_path == other.graph_path
            && self.subconfig == other.subconfig
            && self.workers == other.workers
    }

    /// Returns the files of which the first that is there is the graph of a folder.
    pub(super) fn places(base_path: &Path, graph_path: Option<&str>) -> [PathBuf; 2] {
        let graph_path = graph_path.filter(|path| !path.is_empty());
        let own = base_path.join(graph_path.unwrap_or(GRAPH));
        [own, base_path.join("1").join(GRAPH)]
    }

    /// Finds the graph of a folder: under the given name or the usual one, else in the folder of
    /// version 1.
    pub(in crate::config) fn find(
        name: &str,
        base_path: &Path,
        graph_path: Option<&str>,
        subconfig: Option<&str>,
    ) -> Option<Self> {
        let subconfig = subconfig.filter(|path| !path.is_empty());
        let [own, graph_path] = Self::places(base_path, graph_path);
        let config = |base_path: PathBuf, graph_path, subconfig| Self {
            name: name.to_owned(),
            base_path,
            graph_path,
            subconfig,
            workers: WorkerOptions::default(),
            place: FilePosition::default(),
        };
        if own.is_file() {
            let subconfig = base_path.join(subconfig.unwrap_or(SUBCONFIG));
            return Some(config(base_path.to_owned(), own, subconfig));
        }
        let first = base_path.join("1");
        if !graph_path.is_file() {
            return None;
        }
        let subconfig = match subconfig {
            Some(given) => first.join(given),
            None => {
                let (usual, other) = (first.join(SUBCONFIG), first.join(CONFIG));
                match !usual.is_file() && other.is_file() {
                    true => other,
                    false => usual,
                }
            }
        };
        Some(config(first, graph_path, subconfig))
    }
}

/// The graphs of a file, gathered from both lists, and the names that are taken.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    pub(super) names: Names,
    pub(super) graphs: Vec<GraphConfig>,
    pub(super) refused: Vec<RefusedEntry>,
}

impl Graphs {
    /// Adds a graph, unless its name is taken. `node` is its entry.
    pub(super) fn add(&mut self, graph: GraphConfig, node: &Node<'_>) {
        let place = node.place();
        match self
            .names
            .take(&graph.name, EntryKind::Graph, || place.clone())
        {
            Ok(()) => self.graphs.push(GraphConfig { place, ..graph }),
            Err(EntryKind::Graph) => node.warn(format!(
                "Duplicated mediapipe names: {} defined in config file. Only first graph will be \
                 loaded.",
                graph.name
            )),
            Err(EntryKind::Model | EntryKind::Pipeline) => self.refused.push(RefusedEntry {
                name: graph.name,
                reason: EntryError::GraphName,
                place,
            }),
        }
    }

    /// Reads `mediapipe_config_list`.
    pub(super) fn list(&mut self, node: &Node<'_>, folder: &Path) {
        for entry in node.list("graphs").unwrap_or_default() {
            let keys = ["name", "base_path", "graph_path", "subconfig"];
            let keys = [&keys[..], &WORKER_OPTIONS].concat();
            let Some(fields) = entry.fields(&keys, &["name"]) else {
                continue;
            };
            let workers = workers(&fields, folder);
            let given = |key| fields.text(key).filter(|text| !text.is_empty());
            let (base_path, graph_path) = (given("base_path"), given("graph_path"));
            let subconfig = given("subconfig");
            let Some(name) = fields.get("name").and_then(Node::name) else {
                continue;
            };
            let base_path = resolve(folder, base_path.unwrap_or(name));
            let graph = GraphConfig {
                name: name.to_owned(),
                graph_path: base_path.join(graph_path.unwrap_or(GRAPH)),
                subconfig: base_path.join(subconfig.unwrap_or(SUBCONFIG)),
                base_path,
                workers,
                place: FilePosition::default(),
            };
            self.add(graph, &entry);
        }
    }
}

/// Warns of a graph file that an entry of `model_config_list` gives below its folder, and that is not there: the entry is
/// another graph or a model.
pub(super) fn warn_of_absent(
    node: &Node<'_>,
    (folder, given): (&Path, &str),
    graph: Option<&GraphConfig>,
) {
    let is_it = |graph: &GraphConfig| graph.graph_path == graph.base_path.join(given);
    if given.is_empty() || graph.is_some_and(is_it) {
        return;
    }
    let path = folder.join(given);
    let next = match (graph, graph_beside(&path)) {
        (_, Some(name)) => {
            let meant = Path::new(given).with_file_name(name);
            format!("did you mean `{}`?", meant.display())
        }
        (Some(graph), None) => format!("{} is served", graph.graph_path.display()),
        (None, None) => "the entry is taken for that of a model".to_owned(),
    };
    node.warn(format!("there is no graph file {}; {next}", path.display()));
}

/// Finds the graph file that is beside a path: that with the nearest name, or else any.
fn graph_beside(path: &Path) -> Option<String> {
    let entries = std::fs::read_dir(path.parent()?).ok()?.flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".pbtxt") && name != SETTINGS_OF_TRITON)
        .collect();
    names.sort_unstable();
    let typed = path.file_name()?.to_string_lossy();
    let near = nearest(&typed, names.iter().map(String::as_str));
    near.or(names.first().map(String::as_str))
        .map(str::to_owned)
}

/// Reads how the workers of an entry are run. The file of an environment is set when that is read as a whole.
pub(super) fn workers(fields: &Fields<'_>, folder: &Path) -> WorkerOptions {
    let whole = |key| {
        let (least, most) = WorkerOptions::bounds(key);
        let number = fields.get(key)?.whole(least, most)?;
        u64::try_from(number).ok()
    };
    let environment = fields.get("python_environment").and_then(|node| {
        let text = node.text().filter(|text| !text.is_empty())?;
        Some(PythonEnvironment {
            folder: resolve(folder, text),
            file: String::new(),
            place: node.place(),
        })
    });
    WorkerOptions {
        workers: whole("python_workers"),
        environment,
        timeout_ms: whole("python_timeout_ms"),
        memory_limit: fields.get("python_memory_limit").and_then(Node::bytes),
    }
}
