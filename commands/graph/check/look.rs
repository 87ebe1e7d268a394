//! Checks of one graph: its file, its handlers, and its sessions.

use std::path::Path;

use ovms::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry},
    error::{chain, nearest},
    graph::{GraphNodeKind, GraphOutline, GraphOutlineNode, GraphRule, calculators, check},
    python::{self, HandlerLoadError, NodeFacts, PythonHandler},
};

use super::{
    Depth,
    report::{Entry, GraphReport, Verdict},
};
use crate::graph::source;

/// Checks a graph.
pub(super) fn at(graph: &GraphConfig, file: Option<&FileConfig>, depth: Depth) -> GraphReport {
    let path = graph.graph_path.display().to_string();
    let mut report = GraphReport {
        name: graph.name.clone(),
        file: path.clone(),
        verdict: Verdict::Ok,
        errors: Vec::new(),
        warnings: Vec::new(),
        unchecked: Vec::new(),
        lines: Vec::new(),
    };
    let text = match source::read(graph) {
        Ok(text) => text,
        Err(error) => {
            report.errors.push(Entry {
                rule: Some(GraphRule::File.number()),
                status: Some(GraphRule::File.status()),
                file: None,
                line: None,
                column: None,
                node: None,
                message: format!("{path}: {error}"),
                traceback: None,
                hint: Some(
                    "name a folder with a graph.pbtxt in base_path, or the file in graph_path"
                        .to_owned(),
                ),
            });
            return report.validated();
        }
    };
    report.lines = text.lines().map(str::to_owned).collect();
    let factories = calculators::all();
    match check(&text, &path, factories) {
        Ok(checked) => report
            .warnings
            .extend(checked.warnings.into_iter().map(Entry::from)),
        Err(errors) => {
            report
                .errors
                .extend(errors.errors.into_iter().map(Entry::from));
            report
                .warnings
                .extend(errors.warnings.into_iter().map(Entry::from));
        }
    }
    // Handlers and sessions are looked at whatever is wrong with the streams.
    let Ok(outline) = GraphOutline::read(&graph.name, &text, &path, factories, &|_| true) else {
        return report.validated();
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
    report.validated()
}

/// Checks the handler of a node.
fn handler(
    report: &mut GraphReport,
    base: &Path,
    node: &GraphOutlineNode,
    runs: &str,
    depth: Depth,
) {
    let path = base.join(runs);
    let failure = |message: String| Entry::of_node(&node.name, node.place, message);
    if !path.is_file() {
        let failure = failure(format!("there is no handler file {}", path.display()));
        let hint = "handler_path is relative to the folder of the graph";
        report
            .errors
            .push(failure.breaking(GraphRule::PythonFile).hint(hint));
        return;
    }
    let unchecked = |why: &str| {
        format!(
            "node `{}`: its handler {}: {why}",
            node.name,
            path.display()
        )
    };
    if depth == Depth::Nothing {
        report
            .unchecked
            .push(unchecked("handlers are not to be imported"));
        return;
    }
    if !python::AVAILABLE {
        report.unchecked.push(unchecked("this build has no Python"));
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
                report
                    .warnings
                    .push(Entry::of_node(&node.name, node.place, text).hint(
                    "`ovms graph new NAME --generative` writes a graph with what a generator takes",
                ));
            }
            return;
        }
    };
    let shown = path.display();
    let (rule, entry) = match &error {
        HandlerLoadError::NoInterpreter { reason, .. } => {
            report.unchecked.push(unchecked(reason));
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
    report.errors.push(entry.breaking(rule));
}

/// Checks the servable of a session.
fn session(
    report: &mut GraphReport,
    graph: &GraphConfig,
    file: Option<&FileConfig>,
    node: &GraphOutlineNode,
    name: &str,
) {
    let own = match config::read_subconfig(&graph.subconfig, &Defaults::default()) {
        Ok(own) => own,
        Err(error) => {
            let text = format!("{}: {}", graph.subconfig.display(), chain(&error));
            if !report.unchecked.contains(&text) {
                report.unchecked.push(text);
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
    let graphs = file.iter().flat_map(|file| &file.graphs);
    if graphs.clone().any(|graph| graph.name == *name) {
        let text = format!("`{name}` is a graph, and sessions are of models and pipelines");
        report.warnings.push(
            Entry::of_node(&node.name, node.place, text)
                .hint("name a model or pipeline in servable_name"),
        );
    } else if file.is_some() || has_own {
        let text = format!("no model or pipeline of the configuration is called `{name}`");
        let entry = Entry::of_node(&node.name, node.place, text);
        report
            .warnings
            .push(match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => entry.hint(format!("did you mean `{near}`?")),
                None => entry.hint("add it, or every request fails when its session is opened"),
            });
    } else {
        report.unchecked.push(format!(
            "node `{}`: whether there is a model or pipeline `{name}`, since no configuration file was named",
            node.name
        ));
    }
}
