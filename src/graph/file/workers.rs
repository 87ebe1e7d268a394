//! Options of workers, which Python nodes give: one for all of the graph.

use std::path::Path;

use super::{Found, GraphSpec, Value};
use crate::{
    diagnostic::FilePosition,
    graph::calculators::node::NodeSpec,
    proto::mediapipe::PythonExecutorCalculatorOptions,
    python::{PythonEnvironment, WORKER_OPTIONS, WorkerOptions},
};

/// Option of the workers of a graph, as a node gives it.
#[derive(Debug)]
pub struct WorkerOptionEntry {
    /// Name.
    pub option: &'static str,
    /// Value: a number, or the path of an environment.
    pub value: String,
    /// Position.
    pub at: usize,
    /// The same in the file.
    pub place: FilePosition,
}

/// Reads the options of a node; a node of another kind has none.
pub(super) fn of_node(found: &Found<'_>, node: &NodeSpec, value: &Value) -> Vec<WorkerOptionEntry> {
    let options: Option<PythonExecutorCalculatorOptions> =
        node.is_python().then(|| node.options.get()).flatten();
    let options = options.unwrap_or_default();
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let given = [
        number(options.python_workers),
        options.python_environment.filter(|path| !path.is_empty()),
        number(options.python_timeout_ms),
        number(options.python_memory_limit),
    ];
    let given = WORKER_OPTIONS.into_iter().zip(given);
    let given = given.filter_map(|(option, given)| {
        let at = value.find(option).unwrap_or(value).at;
        Some(WorkerOptionEntry {
            option,
            value: given?,
            at,
            place: found.position(at),
        })
    });
    given.collect()
}

impl GraphSpec {
    /// Returns how the workers of its Python nodes are run, as far as these say so. Paths are relative to a folder;
    /// `file` is that of the graph.
    pub fn workers(&self, folder: &Path, file: &Path) -> WorkerOptions {
        let find = |option: &str| {
            let mut all = self.nodes.iter().flat_map(|entry| &entry.workers);
            all.find(|entry| entry.option == option)
        };
        let number = |option| find(option).and_then(|entry| entry.value.parse().ok());
        WorkerOptions {
            workers: number("python_workers"),
            environment: find("python_environment").map(|entry| PythonEnvironment {
                folder: folder.join(&entry.value),
                file: file.display().to_string(),
                place: entry.place.clone(),
            }),
            timeout_ms: number("python_timeout_ms"),
            memory_limit: number("python_memory_limit"),
        }
    }
}
