//! Checks of one graph: its file, its handlers, and its sessions.

use std::path::Path;

use ovms::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry},
    diagnostic::{Diagnostic, Diagnostics, Severity},
    error::{chain, nearest},
    graph::{GraphSpec, NodeEntry, NodeSpec, PortEntry, calculators, check, rules},
    python::{self, HandlerLoadError, NodeFacts, PythonHandler},
};

use super::Depth;
use crate::{
    check::report::{CheckedKind, CheckedServable},
    graph::source,
};

/// Checks a graph, its handlers and sessions.
pub(crate) fn at(graph: &GraphConfig, file: Option<&FileConfig>, depth: Depth) -> CheckedServable {
    let path = graph.graph_path.display().to_string();
    let servable = |found: Diagnostics, text: &str| {
        CheckedServable::new(CheckedKind::Graph, &graph.name, &path, found, text)
    };
    let text = match source::read(graph) {
        Ok(text) => text,
        Err(error) => {
            let error = Diagnostic::error(rules::FILE, format!("{path}: {error}"));
            let error = error
                .file(&path)
                .hint("name a folder with a graph.pbtxt in base_path, or the file in graph_path");
            return servable(error.into(), "");
        }
    };
    let factories = calculators::all();
    let checked = check(&text, &path, factories);
    let mut found = checked.map_or_else(|found| found, |it| Diagnostics::of_warnings(it.warnings));
    // Handlers and sessions are looked at whatever is wrong with the streams.
    let Ok(spec) = GraphSpec::read(&text, &path) else {
        return servable(found, &text);
    };
    for node in &spec.nodes {
        let finding = match (node.spec.handler_path(), node.spec.servable()) {
            (Some(path), _) if !path.is_empty() => handler(&graph.base_path, node, &path, depth),
            (None, Some(name)) => session(graph, file, &node.spec, &name),
            _ => None,
        };
        // A file that cannot be read is reported once.
        if let Some(finding) = finding.map(|finding| finding.file(&path))
            && !found.unchecked.contains(&finding)
        {
            found.add(finding.severity, finding);
        }
    }
    servable(found, &text)
}

/// Checks the handler of a node.
fn handler(base: &Path, entry: &NodeEntry, runs: &str, depth: Depth) -> Option<Diagnostic> {
    let node = &entry.spec;
    let path = base.join(runs);
    let shown = path.display();
    let error = |rule, message: String| {
        Some(
            Diagnostic::error(rule, message)
                .at(node.place)
                .node(&node.name),
        )
    };
    if !path.is_file() {
        let error = error(
            rules::PYTHON_FILE,
            format!("there is no handler file {shown}"),
        )?;
        return Some(error.hint("handler_path is relative to the folder of the graph"));
    }
    let unchecked = |why: &str| {
        let text = format!("node `{}`: its handler {shown}: {why}", node.name);
        Some(Diagnostic::new(Severity::Unchecked, text))
    };
    if depth == Depth::Nothing {
        return unchecked("handlers are not to be imported");
    }
    if !python::AVAILABLE {
        return unchecked("this build has no Python");
    }
    let names = |ports: &[PortEntry]| ports.iter().map(|port| port.name().to_owned()).collect();
    let facts = NodeFacts {
        node_name: node.name.clone(),
        input_names: names(&entry.written.inputs),
        output_names: names(&entry.written.outputs),
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
    let failure = match looked {
        Ok(generates) if generates && node.inputs.tagged("LOOPBACK").next().is_none() => {
            let text = format!(
                "`execute` in {shown} is a generator, and the node has no LOOPBACK: every request fails"
            );
            return Some(warning(node, text).hint(
                "`ovms graph new NAME --generative` writes a graph with what a generator takes",
            ));
        }
        Ok(_) => return None,
        Err(failure) => failure,
    };
    let state = |message: String| error(rules::PYTHON_STATE, message);
    match failure {
        HandlerLoadError::NoInterpreter { reason, .. } => unchecked(&reason),
        HandlerLoadError::NoFile(_) => error(rules::PYTHON_FILE, format!("there is no {shown}")),
        HandlerLoadError::NoClass(_) => {
            let error = state(format!("{shown} has no class OvmsPythonModel"))?;
            let hint = "the handler is a class of that name with a method `execute(self, inputs)`";
            Some(error.hint(hint))
        }
        HandlerLoadError::NoExecute(_) => {
            let error = state(format!(
                "OvmsPythonModel in {shown} has no method `execute`"
            ))?;
            Some(error.hint("add `def execute(self, inputs: list) -> list:`"))
        }
        HandlerLoadError::Raised { raised, .. } => {
            let mut error = state(format!("{shown} raises {raised}"))?;
            let traceback = raised.traceback.trim_end();
            error.traceback = (!traceback.is_empty()).then(|| traceback.to_owned());
            let hint = "install it into the Python environment that the server is started with, or \
                        name another with --python_environment";
            let is_module = raised.kind == "ModuleNotFoundError";
            Some(error.may_hint(is_module.then(|| hint.to_owned())))
        }
    }
}

/// Creates a warning about a node.
fn warning(node: &NodeSpec, text: String) -> Diagnostic {
    Diagnostic::new(Severity::Warning, text)
        .at(node.place)
        .node(&node.name)
}

/// Checks the servable of a session.
fn session(
    graph: &GraphConfig,
    file: Option<&FileConfig>,
    node: &NodeSpec,
    name: &str,
) -> Option<Diagnostic> {
    let own = match config::read_subconfig(&graph.subconfig, &Defaults::default()) {
        Ok(own) => own,
        Err(error) => {
            let text = format!("{}: {}", graph.subconfig.display(), chain(&error));
            return Some(Diagnostic::new(Severity::Unchecked, text));
        }
    };
    let has_own = own.is_some();
    let others = file.map(|file| source::models_of_graphs(file, Some(&graph.name)));
    let models = own
        .iter()
        .flat_map(|own| &own.models)
        .chain(others.iter().flatten())
        .chain(file.iter().flat_map(|file| &file.models));
    let pipelines = file.iter().flat_map(|file| &file.pipelines);
    let names: Vec<&str> = models
        .map(ModelEntry::name)
        .chain(pipelines.map(|pipeline| &*pipeline.name))
        .collect();
    if names.contains(&name) {
        return None;
    }
    let mut graphs = file.iter().flat_map(|file| &file.graphs);
    Some(if graphs.any(|graph| graph.name == *name) {
        let text = format!("`{name}` is a graph, and sessions are of models and pipelines");
        warning(node, text).hint("name a model or pipeline in servable_name")
    } else if file.is_some() || has_own {
        let text = format!("no model or pipeline of the configuration is called `{name}`");
        warning(node, text).hint(match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add it, or every request fails when its session is opened".to_owned(),
        })
    } else {
        let text = format!(
            "node `{}`: whether there is a model or pipeline `{name}`, since no configuration file was named",
            node.name
        );
        Diagnostic::new(Severity::Unchecked, text)
    })
}
