//! `ovms pipeline check`: all errors of the pipelines of a configuration file, without serving.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ovms::{
    config::{self, Defaults, EntryError, FileConfig, FilePosition, PipelineConfig},
    pipeline::{PipelineError, PipelineRule, PipelineSurvey, survey},
};

use super::{
    aside::Aside,
    facts::{ConfigurationFacts, FactOptions},
};
use crate::{
    check::{
        diagnostic::{ConnectionEnds, Diagnostic, Severity},
        report::{CheckReport, CheckedKind, CheckedServable},
    },
    error::{Failure, FailureKind},
    serve::files,
};

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineCheckArgs {
    /// Configuration file
    config: PathBuf,

    /// Name of the pipeline; all of the file without it
    name: Option<String>,

    /// Do not open the libraries of custom nodes
    ///
    /// What depends on them is not checked then.
    #[arg(long)]
    no_custom_nodes: bool,

    /// Shared library with custom operations for the CPU
    #[arg(long = "cpu_extension", value_name = "FILE")]
    cpu_extension: Option<PathBuf>,

    /// Output format
    #[arg(
        long,
        value_enum,
        default_value_t = Output::Table,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    output: Output,
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

/// Format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The errors of each pipeline, with their places in the file
    #[value(alias = "text")]
    Table,
    /// The same as one JSON object
    Json,
}

/// Runs the subcommand.
pub(super) fn run(args: PipelineCheckArgs) -> Result<(), Failure> {
    let mut stdout = Aside::take()?;
    let PipelineCheckArgs {
        config: path,
        name,
        no_custom_nodes,
        output,
        cpu_extension,
    } = args;
    let defaults = Defaults {
        cpu_extension,
        ..Defaults::default()
    };
    let file = match config::read(&path, &defaults) {
        Ok(file) => file,
        Err(error) => {
            if output == Output::Json {
                let report = CheckReport::refused(CheckedKind::Pipeline, &path, &error);
                stdout.print(&report.json())?;
            }
            return Err(files::explain(&error, "CONFIG"));
        }
    };
    if let Some(name) = &name {
        named(&path, &file, name)?;
    }
    let options = FactOptions {
        custom_nodes: !no_custom_nodes,
    };
    let facts = ConfigurationFacts::new(&file, options);
    let report = look(&path, &file, &facts, name.as_deref());
    stdout.print(&match output {
        Output::Table => report.text(),
        Output::Json => report.json(),
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
    let names: Vec<&str> = pipelines
        .chain(clashes(file).map(|(name, _)| name))
        .collect();
    if names.contains(&name) {
        return Ok(());
    }
    Err(super::unknown(FailureKind::Usage, path, name, &names))
}

/// Returns the pipelines with the name of a model.
fn clashes(file: &FileConfig) -> impl Iterator<Item = (&str, &config::FilePosition)> {
    let refused = file.refused.iter();
    refused
        .filter(|refused| refused.reason == EntryError::PipelineName)
        .map(|refused| (&*refused.name, &refused.place))
}

/// Checks the pipelines of a file, or one of them by name, in the order of the file.
fn look(
    path: &Path,
    file: &FileConfig,
    facts: &ConfigurationFacts<'_>,
    name: Option<&str>,
) -> CheckReport {
    let source = std::fs::read(path).unwrap_or_default();
    let source = String::from_utf8_lossy(&source).into_owned();
    let wanted = |other: &str| name.is_none_or(|name| name == other);
    let surveyed = file
        .pipelines
        .iter()
        .filter(|pipeline| wanted(&pipeline.name))
        .map(|pipeline| {
            let checked = checked(path, pipeline, survey(pipeline, facts));
            (&pipeline.places.own, checked)
        });
    let clashing = clashes(file)
        .filter(|(name, _)| wanted(name))
        .map(|(name, place)| (place, clashing(path, name, place)));
    let mut pipelines: Vec<_> = surveyed.chain(clashing).collect();
    pipelines.sort_by_key(|(place, _)| (place.line, place.column));
    let pipelines = pipelines.into_iter().map(|(_, mut checked)| {
        checked.source.clone_from(&source);
        checked
    });
    let about = |warning: &&config::Warning| {
        let lists = ["pipeline_config_list", "custom_node_library_config_list"];
        name.is_none()
            && lists
                .iter()
                .any(|list| warning.place.path.starts_with(list))
    };
    let warnings = file.warnings.iter().filter(about);
    let warnings = warnings.map(|warning| Diagnostic::of_warning(path, warning));
    let notes = facts.notes().into_iter().map(|text| Diagnostic {
        file: None,
        ..Diagnostic::new(Severity::Warning, "", text)
    });
    CheckReport::new(CheckedKind::Pipeline, path, pipelines.collect())
        .about_file(warnings.chain(notes).collect(), source)
}

/// Returns the results of a checked pipeline of `file`.
pub(crate) fn checked(
    file: &Path,
    config: &PipelineConfig,
    survey: PipelineSurvey,
) -> CheckedServable {
    let shown = file.display().to_string();
    let mut checked = CheckedServable::new(CheckedKind::Pipeline, &config.name, &shown);
    for error in survey.errors {
        let connection = connection(config, &error.place);
        checked.add(Diagnostic::of_pipeline(file, error, connection));
    }
    for warning in &survey.warnings {
        checked.add(Diagnostic::of_warning(file, warning));
    }
    for unchecked in survey.unchecked {
        checked.add(Diagnostic::of_unchecked(file, unchecked));
    }
    checked
}

/// Returns the results of a pipeline with the name of a model, which is not checked.
fn clashing(file: &Path, name: &str, place: &FilePosition) -> CheckedServable {
    let error = PipelineError {
        rule: PipelineRule::NameTaken,
        node: None,
        place: place.clone(),
        found: format!("the name `{name}`, which a model has"),
        expected: "a name of its own".to_owned(),
        next: "rename the pipeline; the rest of it is looked at then".to_owned(),
    };
    let shown = file.display().to_string();
    let mut checked = CheckedServable::new(CheckedKind::Pipeline, name, &shown);
    checked.add(Diagnostic::of_pipeline(file, error, None));
    checked
}

/// Finds the connection at a position.
fn connection(config: &PipelineConfig, place: &FilePosition) -> Option<ConnectionEnds> {
    let of_nodes = config.nodes.iter().map(|node| (&*node.name, &node.inputs));
    let mut ends = of_nodes.chain([("response", &config.outputs)]);
    ends.find_map(|(to, connections)| {
        let found = connections.iter().find(|found| found.place == *place)?;
        Some(ConnectionEnds {
            from: found.node_name.clone(),
            data_item: found.data_item.clone(),
            to: to.to_owned(),
            input: found.name.clone(),
        })
    })
}
