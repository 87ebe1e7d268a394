//! The root of the command line: subcommands, and arguments that mean `serve` without saying so.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};

use crate::{completions, doctor, error::Failure, graph, infer, pipeline, serve, setup, ui};

/// OpenVINO Model Server: serve models, and work with them by hand
#[derive(Debug, Parser)]
#[command(
    name = "ovms",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Arguments that begin with a server flag mean `serve`: \
                  `ovms --port 9000 …` is `ovms serve --port 9000 …`."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a model over gRPC and REST
    Serve(Box<serve::Args>),
    /// Send inference requests to a server, or ask what it serves
    Infer(Box<infer::Args>),
    /// Draw, check, try and write pipelines
    #[command(subcommand)]
    Pipeline(pipeline::Command),
    /// Write, draw, check and try graphs with Python nodes
    #[command(subcommand)]
    Graph(graph::Command),
    /// Find or install the OpenVINO runtime
    Setup(setup::Args),
    /// Look for what keeps the server from working, and report it
    Doctor(doctor::Args),
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions(completions::Args),
    /// Open one runtime and say its version; run by `setup` in a process of its own
    #[command(hide = true)]
    ProbeRuntime(setup::ProbeArgs),
    /// Start the interpreter and say what it is; run by `doctor` in a process of its own
    #[command(hide = true)]
    ProbePython,
}

/// Parses the arguments and runs the subcommand.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let args = with_subcommand(args.into_iter().collect());
    if args.get(1).is_some_and(|name| name == "serve") {
        serve::refuse_unmatched(&args[2..])?;
    }
    let cli = match Cli::command().try_get_matches_from(args) {
        Ok(matches) => Cli::from_arg_matches(&matches),
        Err(error) => Err(error),
    };
    match cli.map_err(explain)?.command {
        Command::Serve(args) => serve::run(*args),
        Command::Infer(args) => infer::run(*args),
        Command::Pipeline(command) => pipeline::run(command),
        Command::Graph(command) => graph::run(command),
        Command::Setup(args) => setup::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::ProbeRuntime(args) => setup::probe(&args),
        Command::ProbePython => doctor::probe_python(),
    }
}

/// Puts `serve` before arguments that begin with a server flag, so that start scripts of other
/// servers run as they are.
fn with_subcommand(mut args: Vec<OsString>) -> Vec<OsString> {
    let ours = ["--help", "--version"];
    let means_serve = args
        .get(1)
        .and_then(|first| first.to_str())
        .is_some_and(|first| first.starts_with("--") && first.len() > 2 && !ours.contains(&first));
    if means_serve {
        args.insert(1, "serve".into());
    }
    args
}

/// Turns clap's complaint into ours; help and version are printed and are no failure.
fn explain(error: clap::Error) -> Failure {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Always to stdout: no arguments ask for help as well. A closed pipe is a quiet end.
            let _ = ui::print(error.render().to_string());
            Failure::done()
        }
        _ => {
            let text = error.render().to_string();
            let text = text.trim_end();
            let text = text.strip_prefix("error: ").unwrap_or(text);
            let text = without_odd_tips(text);
            Failure::usage_verbatim(format!("error parsing options: {text}"))
        }
    }
}

/// Leaves out the tip to pass an unknown flag as a value: whoever mistypes one means no model.
fn without_odd_tips(text: &str) -> String {
    let parts = text.split("\n\n");
    let kept: Vec<&str> = parts
        .filter(|part| !part.starts_with("  tip: to pass '-"))
        .collect();
    kept.join("\n\n")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::with_subcommand;

    #[test]
    fn only_a_leading_server_flag_means_serve() {
        let given = |args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            with_subcommand(args)[1].clone()
        };
        assert_eq!(given(&["ovms", "--port", "9000"]), "serve");
        assert_eq!(given(&["ovms", "--port=9000", "infer"]), "serve");
        assert_eq!(given(&["ovms", "infer", "--port"]), "infer");
        assert_eq!(given(&["ovms", "--help"]), "--help");
        assert_eq!(given(&["ovms", "-h"]), "-h");
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        super::Cli::command().debug_assert();
    }
}
