//! `ovms pipeline check`: all errors of the pipelines of a configuration file, without serving.

mod report;
mod text;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ovms::{
    config::{self, Defaults, EntryError, FileConfig},
    pipeline::survey,
};

use self::report::{PipelineReport, Report, Verdict};
use super::{
    aside::Aside,
    facts::{ConfigurationFacts, FactOptions},
};
use crate::{
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
                stdout.print(&Report::refused(&path, &error).json())?;
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
    match output {
        Output::Table => {
            let source = std::fs::read(&path).unwrap_or_default();
            stdout.print(&text::write(&report, &String::from_utf8_lossy(&source)))?;
        }
        Output::Json => stdout.print(&report.json())?,
    }
    let failure = end(&report);
    match failure {
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
    path: &std::path::Path,
    file: &FileConfig,
    facts: &ConfigurationFacts<'_>,
    name: Option<&str>,
) -> Report {
    let wanted = |other: &str| name.is_none_or(|name| name == other);
    let surveyed = file
        .pipelines
        .iter()
        .filter(|pipeline| wanted(&pipeline.name))
        .map(|pipeline| {
            let survey = survey(pipeline, facts);
            let place = &pipeline.places.own;
            (place.clone(), PipelineReport::of(path, pipeline, survey))
        });
    let clashing = clashes(file)
        .filter(|(name, _)| wanted(name))
        .map(|(name, place)| (place.clone(), PipelineReport::clashing(path, name, place)));
    let mut pipelines: Vec<_> = surveyed.chain(clashing).collect();
    pipelines.sort_by_key(|(place, _)| (place.line, place.column));
    let about = |warning: &&config::Warning| {
        let lists = ["pipeline_config_list", "custom_node_library_config_list"];
        name.is_none()
            && lists
                .iter()
                .any(|list| warning.place.path.starts_with(list))
    };
    Report::new(
        path,
        pipelines.into_iter().map(|(_, report)| report).collect(),
        file.warnings.iter().filter(about),
        facts.notes(),
    )
}

/// Returns the result as an exit code, with a summary in one sentence.
fn end(report: &Report) -> Result<(), Failure> {
    let counts = report.counts();
    match report.verdict() {
        Verdict::Ok => Ok(()),
        Verdict::Errors => {
            let which = match &report.pipelines[..] {
                [only] => format!("the pipeline `{}`", only.name),
                all => {
                    let faulty = all.iter().filter(|it| it.verdict == Verdict::Errors);
                    format!("{} of {} pipelines", faulty.count(), all.len())
                }
            };
            let text = format!("{which} cannot be served: {counts}");
            Err(Failure::new(FailureKind::Failed, text))
        }
        Verdict::Warnings | Verdict::Unchecked => Err(Failure::new(
            FailureKind::Warnings,
            format!("no errors were found, but {counts}"),
        )),
    }
}
