//! `ovms pipeline check`: all errors of the pipelines of a configuration file, without serving.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ovms::{
    config::{
        self, Connection, Defaults, EntryError, FileConfig, Flags, NodeConfig, NodeKind,
        PipelineConfig,
    },
    diagnostic::{Diagnostic, Diagnostics, FilePosition, Severity},
    pipeline::{Sources, rules, survey},
};

use super::{config_of, facts::ConfigurationFacts};
use crate::{
    check::{
        interrupt::CheckInterrupt,
        report::{CheckReport, CheckedKind, CheckedServable},
    },
    completions::names,
    error::{Failure, FailureKind, unless_unread},
    graph::source::add_models_of_graphs,
    infer,
    serve::hints,
    stdout_guard::StdoutGuard,
    ui::{self, Look},
};

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineCheckArgs {
    /// Configuration file, or a folder with a config.json
    config: PathBuf,

    /// Name of the pipeline [default: all in the file]
    #[arg(add = names::pipelines())]
    name: Option<String>,

    /// Do not open the libraries of custom nodes
    ///
    /// Anything that depends on them is skipped.
    #[arg(long)]
    no_custom_nodes: bool,

    /// Shared library with custom operations for the CPU
    #[arg(long = "cpu-extension", value_name = "FILE")]
    cpu_extension: Option<PathBuf>,

    /// Virtual environment with the packages of Python nodes [default: the active one]
    #[arg(long = "python-environment", value_name = "DIR")]
    python_environment: Option<PathBuf>,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Text at the end of the help.
const AFTER_HELP: &str = "\
Models are read, not compiled, and libraries of custom nodes are opened. Parts that cannot be \
checked (no runtime, a model in the cloud, behind a missing model or library) are listed as not \
checked; they are not errors.

Examples:
  ovms pipeline check config.json
  ovms pipeline check config.json ocr --no-custom-nodes
  ovms pipeline check config.json --output json

Exit codes: 0 no errors; 1 an error in any pipeline or in the file, or no pipelines to check; 2 no \
errors, but warnings or parts that could not be checked; 64 usage, or a NAME that no pipeline of the \
file has.";

/// Runs the subcommand.
pub(super) fn run(args: PipelineCheckArgs) -> Result<(), Failure> {
    let look = Look::of_stdout();
    let mut stdout = StdoutGuard::take()?;
    let (path, name) = (&config_of(args.config), args.name.as_deref());
    let flags = Flags {
        cpu_extension: args.cpu_extension,
        ..Flags::default()
    };
    let defaults = Defaults {
        flags: Arc::new(flags),
        ..Defaults::default()
    };
    let mut file = match config::read(path, &defaults) {
        Ok(file) => file,
        Err(error) => {
            if args.output.is_json() {
                let report = CheckReport::refused(CheckedKind::Pipeline, path, &error);
                unless_unread(stdout.print(&report.json()))?;
            }
            return Err(hints::explain(&error, "CONFIG"));
        }
    };
    if let Some(name) = name
        && let Err(failure) = named(path, &file, name)
    {
        if args.output.is_json() {
            let report = CheckReport::absent(CheckedKind::Pipeline, path, &failure);
            unless_unread(stdout.print(&report.json()))?;
        }
        return Err(failure);
    }
    add_models_of_graphs(&mut file, &defaults);
    let mut facts = ConfigurationFacts::new(&file);
    facts.runs_custom_nodes = !args.no_custom_nodes;
    facts.environment = args.python_environment;
    let interrupt = CheckInterrupt::listen()?;
    let mut report = report(path, &file, &facts, name);
    if let Some(failure) = interrupt.failure() {
        return Err(failure);
    }
    if report.is_empty() {
        let failure = no_pipelines(path, &file);
        unless_unread(stdout.print(&if args.output.is_json() {
            report.add(&failure);
            report.json()
        } else {
            look.message(&report.text())
        }))?;
        return Err(failure);
    }
    unless_unread(stdout.print(&match args.output.is_json() {
        true => report.json(),
        false => look.message(&report.text()),
    }))?;
    match report.end() {
        Err(failure) if facts.lacks_runtime() => {
            Err(failure.hint("run `ovms setup`: a runtime is needed to check models"))
        }
        end => end,
    }
}

/// Returns the failure for a file without pipelines: a check of nothing has not passed.
fn no_pipelines(path: &Path, file: &FileConfig) -> Failure {
    let text = format!(
        "the configuration file {} has no pipelines to check",
        path.display()
    );
    super::refused(file, Failure::failed(text)).hint(
        "they are listed in pipeline_config_list; `ovms serve --check` checks all of a configuration file",
    )
}

/// Rejects a name that no pipeline of the file has.
fn named(path: &Path, file: &FileConfig, name: &str) -> Result<(), Failure> {
    let pipelines = file.pipelines.iter().map(|pipeline| &*pipeline.name);
    let names = pipelines.chain(clashes(file).map(|(name, _)| name));
    let names: Vec<&str> = names.collect();
    match names.contains(&name) {
        true => Ok(()),
        false => Err(super::unknown(
            FailureKind::Usage,
            "pipeline",
            path,
            name,
            &names,
        )),
    }
}

/// Returns the pipelines with the name of a model.
fn clashes(file: &FileConfig) -> impl Iterator<Item = (&str, &FilePosition)> {
    let refused = file.refused.iter();
    refused
        .filter(|refused| refused.reason == EntryError::PipelineName)
        .map(|refused| (&*refused.name, &refused.place))
}

/// Checks the pipelines of a file, or one of them by name, in the order of the file.
fn report(
    path: &Path,
    file: &FileConfig,
    facts: &ConfigurationFacts<'_>,
    name: Option<&str>,
) -> CheckReport {
    let source = std::fs::read(path).unwrap_or_default();
    let mut source = String::from_utf8_lossy(&source).into_owned();
    infer::strip_mark(&mut source);
    let wanted = |other: &str| name.is_none_or(|name| name == other);
    let own = file.pipelines.iter().filter(|it| wanted(&it.name));
    let own = own.map(|it| (&*it.name, &it.places.own, survey(it, facts)));
    let clashing = clashes(file).filter(|(name, _)| wanted(name));
    let clashing = clashing.map(|(name, place)| (name, place, clash(name, place).into()));
    let mut pipelines: Vec<_> = own.chain(clashing).collect();
    pipelines.sort_by_key(|(_, place, _)| (place.line, place.column));
    let shown = path.display().to_string();
    let pipelines = pipelines.into_iter();
    let pipelines = pipelines.map(|(name, _, found)| {
        let own = file.pipelines.iter().filter(|it| it.name == name);
        let notes = own.flat_map(|it| undeclared(it, &found, facts));
        let notes: Vec<String> = notes.collect();
        checked(&shown, name, found, &source).noted(notes)
    });
    let lists = ["pipeline_config_list", "custom_node_library_config_list"];
    let is_about = |warning: &&Diagnostic| {
        let place = warning.place.as_ref();
        place.is_some_and(|place| lists.iter().any(|list| place.path.starts_with(list)))
    };
    let warnings = file.warnings.iter().filter(|_| name.is_none());
    let warnings = warnings.filter(is_about).cloned();
    let notes = facts.notes().into_iter();
    let notes = notes.map(|text| Diagnostic::new(Severity::Warning, text));
    let warnings = warnings.map(|warning| warning.file(&shown)).chain(notes);
    let kind = CheckedKind::Pipeline;
    CheckReport::new(kind, path, pipelines.collect(), warnings.collect()).with_source(&source)
}

/// Returns the results of a checked pipeline of a file with this text.
pub(crate) fn checked(file: &str, name: &str, found: Diagnostics, source: &str) -> CheckedServable {
    // One of its own is that of a handler.
    let found = found.map(|found| match found.file {
        Some(_) => found,
        None => found.file(file),
    });
    CheckedServable::new(CheckedKind::Pipeline, name, file, found, source)
}

/// Describes what is not compared behind Python nodes, whose handlers declare no types and shapes. It counts as no
/// warning, as nothing in the file could change it.
fn undeclared(
    pipeline: &PipelineConfig,
    found: &Diagnostics,
    facts: &ConfigurationFacts<'_>,
) -> Vec<String> {
    // That nothing is known of one that was not run, or does not load, is reported.
    let is_reported = |node: &NodeConfig| {
        let mut unchecked = found.unchecked.iter();
        unchecked.any(|it| it.node.as_ref() == Some(&node.name))
    };
    let is_python = |node: &&NodeConfig| match &node.kind {
        NodeKind::Custom { library_name, .. } => facts.is_python(library_name),
        NodeKind::Model { .. } => false,
    };
    let sources = pipeline.nodes.iter().filter(is_python);
    let sources = sources.filter(|node| !is_reported(node));
    let notes = sources.filter_map(|source| {
        let takers = pipeline.nodes.iter().filter(|node| !is_python(node));
        let taken = takers.flat_map(|node| {
            let inputs = node.inputs.iter();
            let inputs = inputs.filter(move |input| input.node_name == source.name);
            inputs.map(move |input| taken(source, node, input, facts))
        });
        let taken: Vec<String> = taken.collect();
        (!taken.is_empty()).then(|| {
            format!(
                "the Python node `{}` declares no types and shapes, so they were not compared with the inputs that \
                 take them: {}; `ovms pipeline run` shows them",
                source.name,
                taken.join("; ")
            )
        })
    });
    notes.collect()
}

/// Describes an input that a node has from another one, as far as it is known.
fn taken(
    source: &NodeConfig,
    node: &NodeConfig,
    input: &Connection,
    facts: &ConfigurationFacts<'_>,
) -> String {
    let tensor = match &node.kind {
        NodeKind::Model {
            model_name,
            version,
        } => {
            let model = facts.model(model_name, *version).ok();
            let mut inputs = model.into_iter().flat_map(|model| model.info.inputs);
            inputs.find(|known| known.name == input.name)
        }
        NodeKind::Custom { .. } => None,
    };
    let name = format!("`{}` of `{}`", input.name, node.name);
    let Some(tensor) = tensor else {
        return name;
    };
    let gathers = node.gather_from_node.as_ref() == Some(&source.name);
    let parts = match source.demultiply_count {
        Some(_) if !gathers => " for each part",
        _ => "",
    };
    let (dtype, shape) = (tensor.dtype.kserve(), tensor.shape);
    format!("{name}, {dtype} {shape}{parts}")
}

/// Returns the error of a pipeline with the name of a model, which is not checked.
fn clash(name: &str, place: &FilePosition) -> Diagnostic {
    let found = format!("the name `{name}`, which a model has");
    Diagnostic::error(rules::NAME_TAKEN, (found, "a name of its own"))
        .at(place.clone())
        .hint("rename the pipeline, then check again")
}
