//! Checks of one graph: its file, its handlers, and its sessions.

use std::{path::Path, sync::Arc};

use ovms::{
    config::{self, Defaults, FileConfig, GraphConfig, ModelEntry},
    diagnostic::{Diagnostic, Diagnostics, Severity},
    error::{chain, nearest},
    graph::{
        GENERATOR_NODE, GraphSpec, NodeEntry, NodeSpec, PortEntry, calculators, check, read_graph,
        rules,
    },
    python::{
        self, HandlerFacts, HandlerLoad, HandlerLoadError, HandlerOutput, Misfit, NodeFacts,
        PythonHandler, Raised, WorkerGroup, WorkerOptions,
    },
};

use super::Depth;
use crate::{
    check::report::{CheckedKind, CheckedServable},
    graph::source,
    ui,
};

/// Results for one handler.
struct HandlerFindings {
    found: Vec<Diagnostic>,
    /// Indicates that `execute` generates, in a node that can.
    is_generator: bool,
}

impl From<Diagnostic> for HandlerFindings {
    fn from(found: Diagnostic) -> Self {
        Self {
            found: vec![found],
            is_generator: false,
        }
    }
}

/// Checks a graph, its handlers and sessions. Without a configuration file, `unused` is the reason why the one beside
/// the graph is not used.
pub(crate) fn at(
    graph: &GraphConfig,
    file: Option<&FileConfig>,
    unused: Option<&str>,
    depth: Depth,
) -> CheckedServable {
    let path = graph.graph_path.display().to_string();
    let servable = |found: Diagnostics, text: &str| {
        CheckedServable::new(CheckedKind::Graph, &graph.name, &path, found, text)
    };
    let text = match read_graph(&graph.graph_path) {
        Ok(text) => text,
        Err(error) => {
            let hint = "name a folder with a graph.pbtxt in base_path, or the file in graph_path";
            let error = Diagnostic::error(rules::FILE, format!("{path}: {error}"));
            return servable(error.file(&path).hint(hint).into(), "");
        }
    };
    let factories = calculators::all();
    let checked = check(&text, &path, factories);
    let mut found = checked.map_or_else(|found| found, |it| Diagnostics::of_warnings(it.warnings));
    // Handlers and sessions are looked at whatever is wrong with the streams.
    let Ok(spec) = GraphSpec::read(&text, &path) else {
        return servable(found, &text);
    };
    let workers = spec.workers(&graph.base_path, &graph.graph_path);
    let workers = graph.workers.clone().or(workers);
    let mut notes = Vec::new();
    for node in &spec.nodes {
        let findings = match (node.spec.handler_path(), node.spec.servable()) {
            (Some(path), _) if !path.is_empty() => {
                let looked = handler(&graph.base_path, node, &path, depth, &workers);
                notes.extend(
                    looked
                        .is_generator
                        .then(|| streamed(&node.spec, &graph.name)),
                );
                looked.found
            }
            (None, Some(name)) => {
                let is_pooled = spec.pool.is_kept();
                let missing = session(graph, file, unused, &node.spec, &name, is_pooled);
                missing.into_iter().collect()
            }
            _ => Vec::new(),
        };
        for finding in findings {
            // One of its own is that of a handler.
            let finding = match finding.file {
                Some(_) => finding,
                None => finding.file(&path),
            };
            // A file that cannot be read is reported once.
            if !found.unchecked.contains(&finding) && !found.errors.contains(&finding) {
                found.add(finding.severity, finding);
            }
        }
    }
    servable(found, &text).noted(notes)
}

/// Returns whether a handler of a graph seems to have a method `initialize`.
pub(crate) fn initializes(graph: &GraphConfig) -> bool {
    let path = graph.graph_path.display().to_string();
    let spec = read_graph(&graph.graph_path).ok();
    let spec = spec.and_then(|text| GraphSpec::read(&text, &path).ok());
    let nodes = spec.iter().flat_map(|spec| &spec.nodes);
    let mut handlers = nodes.filter_map(|node| node.spec.handler_path());
    handlers.any(|path| has_initialize(&graph.base_path.join(path)))
}

/// Returns whether a handler file seems to have a method `initialize`.
pub(crate) fn has_initialize(handler: &Path) -> bool {
    let text = std::fs::read(handler).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("def initialize(")
}

/// Describes how clients get everything from a generator.
fn streamed(node: &NodeSpec, graph: &str) -> String {
    format!(
        "node `{}` is a generator: a unary request gets its first outputs; `ovms infer {graph} --stream`, \
         ModelStreamInfer, and generate_stream return all of them",
        node.name
    )
}

/// Checks the handler of a node.
fn handler(
    base: &Path,
    entry: &NodeEntry,
    runs: &str,
    depth: Depth,
    workers: &WorkerOptions,
) -> HandlerFindings {
    let node = &entry.spec;
    let path = base.join(runs);
    let shown = path.display();
    let error = |rule, message: String| {
        Diagnostic::error(rule, message)
            .at(node.place)
            .node(&node.name)
    };
    if !path.is_file() {
        return no_handler(entry, &path).into();
    }
    let unchecked = |why: &str| {
        let text = format!("node `{}`: its handler {shown}: {why}", node.name);
        HandlerFindings::from(Diagnostic::new(Severity::Unchecked, text))
    };
    if depth == Depth::Nothing {
        return unchecked("handlers are not imported");
    }
    if !python::AVAILABLE {
        return unchecked("this build has no Python");
    }
    let names = |ports: &[PortEntry]| {
        let names = ports.iter().map(|port| port.name().to_owned());
        names.collect::<Vec<String>>()
    };
    let facts = NodeFacts {
        node_name: node.name.clone(),
        input_names: names(&entry.written.inputs),
        outputs: names(&entry.written.outputs)
            .iter()
            .map(|name| HandlerOutput::outward(name))
            .collect(),
        // Absolute, as in the server.
        handler_path: std::path::absolute(&path).unwrap_or_else(|_| path.clone()),
        params: None,
    };
    let (class, ended, failure) = match depth {
        Depth::Initialize => initialized(&facts, workers),
        _ => match PythonHandler::inspect(&facts, workers.clone()) {
            Ok(class) => (class, None, None),
            Err(failure) => (HandlerFacts::default(), None, Some(failure)),
        },
    };
    let generates = class.generates;
    let has_loop = node.inputs.tagged("LOOPBACK").next().is_some();
    let mut findings = HandlerFindings {
        found: Vec::new(),
        is_generator: generates && has_loop,
    };
    if generates && !has_loop {
        let text = format!(
            "`execute` in {shown} is a generator, and the node has no LOOPBACK: every request fails"
        );
        findings
            .found
            .push(warning(node, text).hint(GENERATOR_NODE));
    }
    findings
        .found
        .extend(class.strays.iter().map(|it| stray(node, it)));
    if let Some(raised) = ended {
        let warned = warning(node, format!("`finalize` in {shown} raises {raised}"));
        findings.found.push(raised_at(warned, &raised, &path));
    }
    let Some(failure) = failure else {
        return findings;
    };
    let state = |message: String| error(rules::PYTHON_STATE, message);
    findings.found.push(match failure {
        HandlerLoadError::Misfits { misfits, .. } => {
            let all = misfits.iter().map(|misfit| {
                let error = state(misfit.to_string()).hint(misfit.help());
                match &misfit.place {
                    Some((file, line)) => error.file(&file.display().to_string()).at((*line, 1)),
                    None => error,
                }
            });
            findings.found.extend(all);
            return findings;
        }
        HandlerLoadError::NoInterpreter { reason, .. } => return unchecked(&reason),
        // It is that of all nodes.
        HandlerLoadError::Environment {
            environment,
            reason,
        } => Diagnostic::error(rules::PYTHON_STATE, reason)
            .file(&environment.file)
            .at(environment.place),
        HandlerLoadError::Worker { reason, line, .. } => at_line(state(reason), line, &path),
        HandlerLoadError::NoFile { .. } => no_handler(entry, &path),
        HandlerLoadError::NoClass(_) => state(format!("{shown} has no class OvmsPythonModel"))
            .file(&shown.to_string())
            .at((class_line(&path, ""), 1))
            .hint(match classes(&path) {
                _ if python::is_of_triton(&path) => python::OF_TRITON.to_owned(),
                names if names.is_empty() => {
                    "the handler is a class of that name with a method `execute(self, inputs)`".to_owned()
                }
                names => format!(
                    "it has {}; the handler is the class OvmsPythonModel, with a method `execute(self, inputs)`",
                    ui::quoted_names(&names)
                ),
            }),
        HandlerLoadError::NoExecute(_) => state(format!(
            "OvmsPythonModel in {shown} has no method `execute`"
        ))
        .file(&shown.to_string())
        .at((class_line(&path, "OvmsPythonModel"), 1))
        .hint("add `def execute(self, inputs: list) -> list:`"),
        HandlerLoadError::Raised { raised, .. } => {
            let error = state(format!("{shown} raises {raised}"));
            raised_at(error, &raised, &path).may_hint(raised.advice(&path).map(str::to_owned))
        }
    });
    findings
}

/// Adds to a finding where in a handler file an exception passed, and its traceback.
fn raised_at(mut finding: Diagnostic, raised: &Raised, path: &Path) -> Diagnostic {
    finding = at_line(finding, raised.line, path);
    let traceback = raised.traceback.trim_end();
    finding.traceback = (!traceback.is_empty()).then(|| traceback.to_owned());
    finding
}

/// Adds to a finding the line of a handler file that it is about, if that is known.
fn at_line(finding: Diagnostic, line: Option<u32>, path: &Path) -> Diagnostic {
    let Some(line) = line else { return finding };
    let line = usize::try_from(line).unwrap_or(usize::MAX);
    finding.file(&path.display().to_string()).at((line, 1))
}

/// Creates the warning about a method that the server does not call, with the name that may be meant.
fn stray(node: &NodeSpec, stray: &Misfit) -> Diagnostic {
    let text = format!(
        "`{}` is not a method that the server calls, and there is no `{}`",
        stray.found, stray.method
    );
    let warned = warning(node, text).hint(format!("did you mean `{}`?", stray.expected));
    match &stray.place {
        Some((file, line)) => warned.file(&file.display().to_string()).at((*line, 1)),
        None => warned,
    }
}

/// Returns the classes at the margin of a handler file.
fn classes(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let names = text.lines().filter_map(|line| {
        let name = line.strip_prefix("class ")?.trim_start();
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
        Some(name[..end.unwrap_or(name.len())].to_owned())
    });
    names.filter(|name| !name.is_empty()).take(4).collect()
}

/// Returns the line of the class at the margin of a handler file whose name begins so, or the first.
fn class_line(path: &Path, name: &str) -> usize {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let begins = |line: &str| {
        let class = line.strip_prefix("class ");
        class.is_some_and(|class| class.trim_start().starts_with(name))
    };
    text.lines().position(begins).unwrap_or_default() + 1
}

/// Returns the error for a handler file that is not there, with the whole path and the file that may be meant.
fn no_handler(entry: &NodeEntry, path: &Path) -> Diagnostic {
    let node = &entry.spec;
    let looked = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let relative = "handler_path is relative to the folder of the graph";
    let text = format!("there is no handler file {}", looked.display());
    Diagnostic::error(rules::PYTHON_FILE, text)
        .at(entry
            .handler_place
            .clone()
            .unwrap_or_else(|| node.place.into()))
        .node(&node.name)
        .hint(match python::handler_near(path) {
            Some(meant) => format!("did you mean `{meant}`? {relative}"),
            None => relative.to_owned(),
        })
}

/// Creates the object of a handler and finalizes it. Returns what is known of its class, what `finalize` has raised,
/// and the error if there is one.
fn initialized(
    facts: &NodeFacts,
    workers: &WorkerOptions,
) -> (HandlerFacts, Option<Raised>, Option<HandlerLoadError>) {
    let of = format!("node {}", facts.node_name);
    let group = WorkerGroup::new(of, workers.clone(), Arc::default(), &HandlerLoad::default());
    match PythonHandler::load(&group, facts.clone()) {
        Ok(handler) => {
            let ended = handler.finalize();
            (handler.class().clone(), ended, handler.fits().err())
        }
        // It would end the next worker as well.
        Err(
            failure @ HandlerLoadError::Worker {
                is_import: true, ..
            },
        ) => (HandlerFacts::default(), None, Some(failure)),
        // What is known without an object is reported all the same.
        Err(failure) => match PythonHandler::inspect(facts, workers.clone()) {
            // It is why the call has failed, and says more.
            Err(misfits @ HandlerLoadError::Misfits { .. }) => {
                (HandlerFacts::default(), None, Some(misfits))
            }
            class => (class.unwrap_or_default(), None, Some(failure)),
        },
    }
}

/// Creates a warning about a node.
fn warning(node: &NodeSpec, text: String) -> Diagnostic {
    Diagnostic::new(Severity::Warning, text)
        .at(node.place)
        .node(&node.name)
}

/// Checks the servable of a session, which `is_pooled` if instances of the graph open it when that is loaded.
fn session(
    graph: &GraphConfig,
    file: Option<&FileConfig>,
    unused: Option<&str>,
    node: &NodeSpec,
    name: &str,
    is_pooled: bool,
) -> Option<Diagnostic> {
    let own = match config::read_subconfig(&graph.subconfig, &Defaults::default()) {
        Ok(own) => own,
        Err(error) => {
            let text = format!("{}: {}", graph.subconfig.display(), chain(&error));
            return Some(Diagnostic::new(Severity::Unchecked, text));
        }
    };
    let has_own = own.is_some();
    let others =
        file.map(|file| source::models_of_graphs(file, Some(&graph.name), &Defaults::default()));
    let models = own
        .iter()
        .flat_map(|own| &own.models)
        .chain(others.iter().flatten());
    let models = models.chain(file.iter().flat_map(|file| &file.models));
    let pipelines = file.iter().flat_map(|file| &file.pipelines);
    let names = models
        .map(ModelEntry::name)
        .chain(pipelines.map(|it| &*it.name));
    let names: Vec<&str> = names.collect();
    if names.contains(&name) {
        return None;
    }
    let absent = |text: String| match is_pooled {
        true => Diagnostic::error(rules::WIRING, text)
            .at(node.place)
            .node(&node.name),
        false => warning(node, text),
    };
    let mut graphs = file.iter().flat_map(|file| &file.graphs);
    Some(if graphs.any(|graph| graph.name == *name) {
        let text = format!("`{name}` is a graph, and sessions need a model or pipeline");
        absent(text).hint("name a model or pipeline in servable_name")
    } else if file.is_some() || has_own {
        let text = format!("no model or pipeline of the configuration is called `{name}`");
        absent(text).hint(match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None if is_pooled => "add it, or the graph does not load".to_owned(),
            None => "add it, or every request fails when its session is opened".to_owned(),
        })
    } else {
        let mut text = format!(
            "node `{}`: whether there is a model or pipeline `{name}`, since no configuration file was named",
            node.name
        );
        text.extend(unused.map(|reason| format!(", and {reason}")));
        Diagnostic::new(Severity::Unchecked, text)
    })
}
