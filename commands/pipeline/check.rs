//! `ovms pipeline check`: all errors of the pipelines of a configuration file, without serving.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ovms::{
    config::{self, Defaults, EntryError, FileConfig, Flags},
    diagnostic::{Diagnostic, Diagnostics, FilePosition, Severity},
    pipeline::{rules, survey},
};

use super::{aside::Aside, config_of, facts::ConfigurationFacts};
use crate::{
    check::report::{CheckReport, CheckedKind, CheckedServable},
    completions::names,
    error::{Failure, FailureKind},
    infer,
    serve::hints,
    ui::{self, Look},
};

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineCheckArgs {
    /// Configuration file, or a folder with a config.json
    config: PathBuf,

    /// Name of the pipeline; all of the file without it
    #[arg(add = names::pipelines())]
    name: Option<String>,

    /// Do not open the libraries of custom nodes
    ///
    /// What depends on them is not checked then.
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
Models are read, not compiled, and libraries of custom nodes are opened. What cannot be looked \
at, because there is no runtime or a model is in the cloud, is listed, and is no error; so is what \
cannot be judged since a model or library is missing, beside that error.

Examples:
  ovms pipeline check config.json
  ovms pipeline check config.json ocr --no-custom-nodes
  ovms pipeline check config.json --output json

Exit codes: 0 no errors, also if there are no pipelines; 1 an error in any of the pipelines, or in \
the file; 2 no error, but warnings, or something that could not be checked; 64 usage, also a NAME \
that no pipeline of the file has.";

/// Runs the subcommand.
pub(super) fn run(args: PipelineCheckArgs) -> Result<(), Failure> {
    let look = Look::of_stdout();
    let mut stdout = Aside::take()?;
    let (path, name) = (&config_of(args.config), args.name.as_deref());
    let flags = Flags {
        cpu_extension: args.cpu_extension,
        ..Flags::default()
    };
    let defaults = Defaults {
        flags: Arc::new(flags),
        ..Defaults::default()
    };
    let file = match config::read(path, &defaults) {
        Ok(file) => file,
        Err(error) => {
            if args.output.is_json() {
                let report = CheckReport::refused(CheckedKind::Pipeline, path, &error);
                stdout.print(&report.json())?;
            }
            return Err(hints::explain(&error, "CONFIG"));
        }
    };
    if let Some(name) = name {
        named(path, &file, name)?;
    }
    let mut facts = ConfigurationFacts::new(&file);
    facts.runs_custom_nodes = !args.no_custom_nodes;
    facts.environment = args.python_environment;
    let report = report(path, &file, &facts, name);
    stdout.print(&match args.output.is_json() {
        true => report.json(),
        false => look.message(&report.text()),
    })?;
    match report.end() {
        Err(failure) if facts.lacks_runtime() => {
            Err(failure.hint("run `ovms setup` for a runtime, which models are looked at with"))
        }
        end => end,
    }
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
    let pipelines = pipelines.map(|(name, _, found)| checked(&shown, name, found, &source));
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
    let found = found.map(|found| found.file(file));
    CheckedServable::new(CheckedKind::Pipeline, name, file, found, source)
}

/// Returns the error of a pipeline with the name of a model, which is not checked.
fn clash(name: &str, place: &FilePosition) -> Diagnostic {
    let found = format!("the name `{name}`, which a model has");
    Diagnostic::error(rules::NAME_TAKEN, (found, "a name of its own"))
        .at(place.clone())
        .hint("rename the pipeline; the rest of it is looked at then")
}
