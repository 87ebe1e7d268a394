//! `ovms graph check`: all errors of a graph and of its handlers, without serving it.

mod look;

use std::path::PathBuf;

use ovms::{config::Defaults, python};

pub(crate) use self::look::{at as checked, has_initialize, initializes};
use super::{
    environment,
    source::{self, AdjacentConfig},
};
use crate::{
    check::{
        interrupt::CheckInterrupt,
        report::{CheckReport, CheckedKind},
    },
    completions::names,
    error::{Failure, FailureKind, unless_unread},
    stdout_guard::StdoutGuard,
    ui::{self, Look},
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The graph file is read and validated as by the server: its syntax, streams, tags, side packets, \
options, and the requirements of each calculator. Then each handler file is imported, which runs its \
code, and its class OvmsPythonModel is inspected. No object is created and `initialize` is not \
called, unless --initialize is given. Parts that cannot be checked are listed; they are not errors.

Models and pipelines that sessions name are looked up in the configuration file and in the graph's \
subconfig.json. For a folder or a graph file, the configuration file is the config.json in the folder \
of the graph, or else next to that folder, if it lists the graph; a note says which file was used. \
Without either file they cannot be checked.

Examples:
  ovms graph check my_graph
  ovms graph check config.json my_graph --initialize
  ovms graph check config.json --output json

Exit codes: 0 no errors; 1 an error in any graph; 2 no errors, but warnings or parts that could not \
be checked; 64 usage, or a NAME that no graph of the file has.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphCheckArgs {
    /// Graph file, configuration file (.json), or a folder with one
    ///
    /// In a folder, that is graph.pbtxt or config.json.
    path: PathBuf,

    /// Name of the graph [default: all in the configuration file]
    #[arg(add = names::graphs())]
    name: Option<String>,

    /// Do not import handlers
    ///
    /// Anything that depends on them is skipped.
    #[arg(long)]
    no_python: bool,

    /// Create the objects of handlers, as the server does
    ///
    /// This calls `initialize` and `finalize`, in addition to all other checks.
    #[arg(long, conflicts_with = "no_python")]
    initialize: bool,

    /// Virtual environment with the packages of Python nodes [default: the active one]
    #[arg(long = "python-environment", value_name = "DIR")]
    python_environment: Option<PathBuf>,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Extent of the Python checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Check without running code.
    Nothing,
    /// Modules are imported.
    Import,
    /// Objects are created.
    Initialize,
}

/// Runs the subcommand.
pub(super) fn run(args: &GraphCheckArgs) -> Result<(), Failure> {
    let look = Look::of_stdout();
    let mut stdout = StdoutGuard::take()?;
    let defaults = Defaults::default();
    let found = source::find(&args.path, args.name.as_deref(), &defaults);
    let found = found.and_then(|mut found| {
        let adjacent = found.take_adjacent_config(&defaults)?;
        Ok((found, adjacent))
    });
    let (found, adjacent) = match found {
        Ok(found) => found,
        Err(failure) => {
            if args.output.is_json() {
                let report = CheckReport::absent(CheckedKind::Graph, &args.path, &failure);
                unless_unread(stdout.print(&report.json()))?;
            }
            return Err(failure);
        }
    };
    let depth = match (args.no_python, args.initialize) {
        (true, _) => Depth::Nothing,
        (false, false) => Depth::Import,
        (false, true) => Depth::Initialize,
    };
    let (used, unused) = match adjacent {
        AdjacentConfig::Used(path) => {
            let text = format!("the configuration file {} was used", path.display());
            (Some(text), None)
        }
        AdjacentConfig::Unused(reason) => (None, Some(reason)),
        AdjacentConfig::Absent => (None, None),
    };
    environment(args.python_environment.clone(), true);
    let interrupt = CheckInterrupt::listen()?;
    let graphs = found.graphs.iter().map(|graph| {
        let checked = checked(graph, found.file.as_ref(), unused.as_deref(), depth);
        checked.noted(used.clone())
    });
    let graphs = graphs
        .take_while(|_| interrupt.failure().is_none())
        .collect();
    if let Some(failure) = interrupt.failure() {
        python::stop(super::LIMIT);
        return Err(failure);
    }
    let report = CheckReport::new(CheckedKind::Graph, &args.path, graphs, Vec::new());
    unless_unread(stdout.print(&match args.output.is_json() {
        true => report.json(),
        false => look.message(&report.text()),
    }))?;
    python::stop(super::LIMIT);
    let ended = report.end();
    let has_errors = matches!(&ended, Err(failure) if failure.kind() == FailureKind::Failed);
    if depth == Depth::Import
        && !args.output.is_json()
        && !has_errors
        && found.graphs.iter().any(look::initializes)
    {
        ui::note(
            "note: `initialize` was not called; add `--initialize` to call it, as the server does",
        );
    }
    ended
}
