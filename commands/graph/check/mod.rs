//! `ovms graph check`: all errors of a graph and of its handlers, without serving it.

mod look;
mod report;
mod text;

use std::path::PathBuf;

use clap::ValueEnum;
use ovms::{
    config::{Defaults, FileConfig, GraphConfig},
    python,
};

use self::report::{Entry, GraphReport, Report, Verdict};
use super::{environment, source};
use crate::{
    counts::Findings,
    error::{Failure, FailureKind},
    pipeline::aside::Aside,
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The graph file is read and judged as the server does: its text, streams, tags, side packets, \
options and what each calculator demands. Then each handler file is imported, which runs its \
code, and its class OvmsPythonModel is looked at. No object is made and `initialize` is not \
called, unless --initialize asks for that. What cannot be checked is listed, and is no error.

Models and pipelines that sessions name are looked for in the configuration file and in the \
graph's subconfig.json. Without either of them nobody can tell whether they are there.

Examples:
  ovms graph check my_graph
  ovms graph check config.json my_graph --initialize
  ovms graph check config.json --output json

Exit codes: 0 no errors; 1 an error in any of the graphs; 2 no error, but warnings, or something \
that could not be checked; 64 usage, also a NAME that no graph of the file has.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphCheckArgs {
    /// Folder with a graph.pbtxt, a graph file, or a configuration file (.json)
    path: PathBuf,

    /// Name of a graph of the configuration file; all of them without it
    name: Option<String>,

    /// Do not import handlers
    ///
    /// What depends on them is not checked then.
    #[arg(long)]
    no_python: bool,

    /// Make the objects of handlers, as the server does
    ///
    /// Their `initialize` and `finalize` are called.
    #[arg(long, conflicts_with = "no_python")]
    initialize: bool,

    /// Virtual environment with the packages of Python nodes [default: the active one]
    #[arg(long = "python_environment", value_name = "DIR")]
    python_environment: Option<PathBuf>,

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

/// Format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// The errors of each graph and handler, with their places
    #[value(alias = "text")]
    Table,
    /// The same as one JSON object
    Json,
}

/// Extent of the Python checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// No code is run.
    Nothing,
    /// Modules are imported.
    Import,
    /// Objects are created.
    Initialize,
}

/// Runs the subcommand.
pub(super) fn run(args: &GraphCheckArgs) -> Result<(), Failure> {
    let mut stdout = Aside::take()?;
    let defaults = Defaults::default();
    let found = source::find(&args.path, args.name.as_deref(), &defaults)?;
    let depth = match (args.no_python, args.initialize) {
        (true, _) => Depth::Nothing,
        (false, false) => Depth::Import,
        (false, true) => Depth::Initialize,
    };
    environment(args.python_environment.clone());
    let graphs = found.graphs.iter();
    let graphs = graphs.map(|graph| look::at(graph, found.file.as_ref(), depth));
    let report = Report::new(&args.path, graphs.collect());
    stdout.print(&match args.output {
        Output::Table => text::write(&report),
        Output::Json => report.json(),
    })?;
    python::stop(super::LIMIT);
    end(&report)
}

/// Checks a graph of a configuration and imports its handlers. Returns lines that begin with their
/// position; those of no line begin with `origin`.
pub(crate) fn findings(
    graph: &GraphConfig,
    file: &FileConfig,
    origin: &str,
    depth: Depth,
) -> Findings {
    let report = look::at(graph, Some(file), depth);
    let lines = |entries: &[Entry]| {
        let lines = entries.iter().map(|entry| line(&report, entry, origin));
        lines.collect()
    };
    let unchecked = report.unchecked.iter();
    Findings {
        errors: lines(&report.errors),
        warnings: lines(&report.warnings),
        unchecked: unchecked
            .map(|text| format!("{}: graph `{}`: {text}", report.file, report.name))
            .collect(),
    }
}

/// Writes an error or warning as one line.
fn line(report: &GraphReport, entry: &Entry, origin: &str) -> String {
    let file = entry.file.as_ref().unwrap_or(&report.file);
    let mut text = match (entry.line, entry.column) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        _ => origin.to_owned(),
    };
    text.extend([": graph `", &report.name, "`"]);
    if let Some(node) = &entry.node {
        text.extend([", node `", node, "`"]);
    }
    text.push_str(": ");
    if let Some(status) = entry.status {
        text.extend([status, " - "]);
    }
    text.push_str(&entry.message);
    if let Some(hint) = &entry.hint {
        text.extend(["; ", hint]);
    }
    text
}

/// Returns the result as an exit code, with a summary in one sentence.
fn end(report: &Report) -> Result<(), Failure> {
    let counts = report.counts();
    match report.verdict() {
        Verdict::Ok => Ok(()),
        Verdict::Errors => {
            let faulty = report
                .graphs
                .iter()
                .filter(|graph| !graph.errors.is_empty());
            let which = match &report.graphs[..] {
                [only] => format!("the graph `{}`", only.name),
                all => format!("{} of {} graphs", faulty.count(), all.len()),
            };
            let text = format!("{which} cannot be served: {counts}");
            Err(Failure::new(FailureKind::Failed, text))
        }
        Verdict::Warnings => Err(Failure::new(
            FailureKind::Warnings,
            format!("no errors were found, but {counts}"),
        )),
    }
}
