//! Checks of one graph: its file, its handlers, and its sessions.

use std::path::Path;

use ovms::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry},
    error::{chain, nearest},
    graph::{GraphNodeKind, GraphOutline, GraphOutlineNode, GraphRule, calculators, check},
    python::{self, HandlerLoadError, NodeFacts, PythonHandler},
};

use super::Depth;
use crate::{
    check::{
        diagnostic::{Diagnostic, Severity},
        report::{CheckedKind, CheckedServable},
    },
    graph::source,
};

/// Checks a graph, its handlers and sessions.
pub(crate) fn at(graph: &GraphConfig, file: Option<&FileConfig>, depth: Depth) -> CheckedServable {
    let path = graph.graph_path.display().to_string();
    let mut report = CheckedServable::new(CheckedKind::Graph, &graph.name, &path);
    let text = match source::read(graph) {
        Ok(text) => text,
        Err(error) => {
            let found = Diagnostic::new(Severity::Error, &path, format!("{path}: {error}"))
                .breaking(GraphRule::File)
                .hint("name a folder with a graph.pbtxt in base_path, or the file in graph_path");
            report.add(found);
            return report;
        }
    };
    report.source.clone_from(&text);
    let factories = calculators::all();
    let (errors, warnings) = match check(&text, &path, factories) {
        Ok(checked) => (Vec::new(), checked.warnings),
        Err(found) => (found.errors, found.warnings),
    };
    let errors = errors.into_iter().map(Diagnostic::from);
    let warnings = warnings.into_iter().map(Diagnostic::from);
    errors.chain(warnings).for_each(|found| report.add(found));
    // Handlers and sessions are looked at whatever is wrong with the streams.
    let Ok(outline) = GraphOutline::read(&graph.name, &text, &path, factories, &|_| true) else {
        return report;
    };
    for node in &outline.nodes {
        let Some(runs) = &node.runs else { continue };
        match node.kind {
            GraphNodeKind::Python if !runs.is_empty() => {
                handler(&mut report, &graph.base_path, node, runs, depth);
            }
            GraphNodeKind::Model => session(&mut report, graph, file, node, runs),
            _ => {}
        }
    }
    report
}

/// Checks the handler of a node.
fn handler(
    report: &mut CheckedServable,
    base: &Path,
    node: &GraphOutlineNode,
    runs: &str,
    depth: Depth,
) {
    let path = base.join(runs);
    let file = report.file.clone();
    let failure = |message: String| {
        Diagnostic::new(Severity::Error, &file, message)
            .at(node.place)
            .node(&node.name)
    };
    if !path.is_file() {
        let failure = failure(format!("there is no handler file {}", path.display()));
        let hint = "handler_path is relative to the folder of the graph";
        report.add(failure.breaking(GraphRule::PythonFile).hint(hint));
        return;
    }
    let unchecked = |why: &str| {
        let path = path.display();
        let text = format!("node `{}`: its handler {path}: {why}", node.name);
        Diagnostic::new(Severity::Unchecked, &file, text)
    };
    if depth == Depth::Nothing {
        report.add(unchecked("handlers are not to be imported"));
        return;
    }
    if !python::AVAILABLE {
        report.add(unchecked("this build has no Python"));
        return;
    }
    let facts = NodeFacts {
        node_name: node.name.clone(),
        input_names: node.inputs.clone(),
        output_names: node.outputs.clone(),
        // Absolute, as in the server.
        handler_path: std::path::absolute(&path).unwrap_or_else(|_| path.clone()),
        params: None,
    };
    let looked = match depth {
        Depth::Initialize => PythonHandler::load(facts).map(|handler| {
            handler.finalize();
            false
        }),
        _ => PythonHandler::inspect(&facts),
    };
    let error = match looked {
        Err(error) => error,
        Ok(generates) => {
            if generates && !node.loops {
                let text = format!(
                    "`execute` in {} is a generator, and the node has no LOOPBACK: every request fails",
                    path.display()
                );
                let warning = Diagnostic {
                    severity: Severity::Warning,
                    ..failure(text)
                };
                report.add(warning.hint(
                    "`ovms graph new NAME --generative` writes a graph with what a generator takes",
                ));
            }
            return;
        }
    };
    let shown = path.display();
    let (rule, entry) = match &error {
        HandlerLoadError::NoInterpreter { reason, .. } => {
            report.add(unchecked(reason));
            return;
        }
        HandlerLoadError::NoFile(_) => (
            GraphRule::PythonFile,
            failure(format!("there is no {shown}")),
        ),
        HandlerLoadError::NoClass(_) => (
            GraphRule::PythonState,
            failure(format!("{shown} has no class OvmsPythonModel"))
                .hint("the handler is a class of that name with a method `execute(self, inputs)`"),
        ),
        HandlerLoadError::NoExecute(_) => (
            GraphRule::PythonState,
            failure(format!(
                "OvmsPythonModel in {shown} has no method `execute`"
            ))
            .hint("add `def execute(self, inputs: list) -> list:`"),
        ),
        HandlerLoadError::Raised { raised, .. } => {
            let mut entry = failure(format!("{shown} raises {raised}"));
            let traceback = raised.traceback.trim_end();
            entry.traceback = (!traceback.is_empty()).then(|| traceback.to_owned());
            if raised.kind == "ModuleNotFoundError" {
                entry = entry.hint(
                    "install it into the Python environment that the server is started with, or name \
                     another with --python_environment",
                );
            }
            (GraphRule::PythonState, entry)
        }
    };
    report.add(entry.breaking(rule));
}

/// Checks the servable of a session.
fn session(
    report: &mut CheckedServable,
    graph: &GraphConfig,
    file: Option<&FileConfig>,
    node: &GraphOutlineNode,
    name: &str,
) {
    let own = match config::read_subconfig(&graph.subconfig, &Defaults::default()) {
        Ok(own) => own,
        Err(error) => {
            let text = format!("{}: {}", graph.subconfig.display(), chain(&error));
            let is_same = |found: &Diagnostic| found.message.to_string() == text;
            if !report.unchecked.iter().any(is_same) {
                let file = report.file.clone();
                report.add(Diagnostic::new(Severity::Unchecked, &file, text));
            }
            return;
        }
    };
    let has_own = own.is_some();
    let others = file.map(|file| source::models_of_graphs(file, Some(&graph.name)));
    let models = own
        .iter()
        .flat_map(|own| &own.models)
        .chain(others.iter().flatten())
        .chain(file.iter().flat_map(|file| &file.models));
    let mut names: Vec<String> = models
        .map(|entry| match entry {
            ModelEntry::Model(model) => model.name.clone(),
            ModelEntry::Refused { name, .. } => name.clone(),
        })
        .collect();
    let pipelines = file.iter().flat_map(|file| &file.pipelines);
    names.extend(pipelines.map(|pipeline| pipeline.name.clone()));
    if names.iter().any(|known| known == name) {
        return;
    }
    let file_name = report.file.clone();
    let warning = |text: String| {
        Diagnostic::new(Severity::Warning, &file_name, text)
            .at(node.place)
            .node(&node.name)
    };
    let mut graphs = file.iter().flat_map(|file| &file.graphs);
    report.add(if graphs.any(|graph| graph.name == *name) {
        let text = format!("`{name}` is a graph, and sessions are of models and pipelines");
        warning(text).hint("name a model or pipeline in servable_name")
    } else if file.is_some() || has_own {
        let text = format!("no model or pipeline of the configuration is called `{name}`");
        warning(text).hint(match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add it, or every request fails when its session is opened".to_owned(),
        })
    } else {
        let text = format!(
            "node `{}`: whether there is a model or pipeline `{name}`, since no configuration file was named",
            node.name
        );
        Diagnostic::new(Severity::Unchecked, &file_name, text)
    });
}
