//! `ovms graph`: write, draw, check and try graphs with Python nodes, without a server.

pub(crate) mod check;
mod new;
mod run;
mod show;
pub(crate) mod source;
mod stubs;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Subcommand;
use ovms::{
    config::Defaults,
    openvino::runtime,
    python::{self, HandlerTerminal},
};

use crate::{error::Failure, places, ui};

/// Text at the end of the help.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  ovms graph new echo
  ovms graph show echo
  ovms graph check echo
  ovms graph run echo -i input:FP32='[1,2,3]'

Exit codes: 0 done; 1 failed, or errors were found; 2 warnings only; 64 usage; 72 no OpenVINO \
runtime; 130 Ctrl-C.";

/// Subcommands of `ovms graph`.
#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Create a working graph with Python nodes and a test
    New(new::GraphNewArgs),
    /// Draw a graph
    Show(show::GraphShowArgs),
    /// Find all errors in a graph and its Python handlers
    Check(check::GraphCheckArgs),
    /// Run a graph once, in this process, and show each packet
    Run(run::GraphRunArgs),
    /// Install the `pyovms` module for tests and editors
    Stubs(stubs::GraphStubsArgs),
}

/// Runs a subcommand.
pub(crate) fn run(command: GraphCommand) -> Result<(), Failure> {
    match command {
        GraphCommand::New(args) => new::run(args),
        GraphCommand::Show(args) => show::run(args),
        GraphCommand::Check(args) => check::run(&args),
        GraphCommand::Run(args) => run::run(args),
        GraphCommand::Stubs(args) => stubs::run(&args),
    }
}

/// Time limit for flushing the output of handlers at the end.
pub(crate) const LIMIT: Duration = Duration::from_secs(1);

/// Configures the packages of handlers as the server does, and gives them this terminal. What they raise is shown there
/// by themselves, or in the report of a check.
pub(crate) fn environment(named: Option<PathBuf>, has_report: bool) {
    let found = runtime::find(&places::all()).ok();
    python::configure(named, found.map(|found| found.library));
    python::give_terminal(HandlerTerminal {
        show: |text| ui::print_aside(&format!("{}\n", ui::visible_lines(text))),
        clear: ui::clear_loading,
        has_keyboard: io::stdin().is_terminal(),
        shows_raised: !has_report,
    });
}

/// Notes that calls of handlers may take longer here than served.
pub(crate) fn note_waived(timeout: Option<Duration>) {
    if let Some(timeout) = timeout {
        ui::note(&format!(
            "note: python_timeout_ms ({}) is ignored at a terminal, where a `breakpoint()` may wait",
            timeout.as_millis()
        ));
    }
}

/// Returns the inputs of a graph by name, if it can be read; prints nothing.
pub(crate) fn inputs(path: &Path, name: Option<&str>) -> Option<Vec<String>> {
    // Neither a pipe nor a terminal, which somebody else is to read.
    (path.is_file() || path.is_dir()).then_some(())?;
    let found = source::find(path, name, &Defaults::default()).ok()?;
    let [graph] = &found.graphs[..] else {
        return None;
    };
    let inputs = show::spec(graph).ok()?.inputs;
    Some(inputs.iter().map(|input| input.name().to_owned()).collect())
}
