//! `ovms doctor`: everything that a bug report needs, on one screen, with next steps.
//!
//! Each file below checks one subject and returns [`Check`]s; [`report`] writes them. Checks that
//! may crash or hang run in a process of their own, with a time limit.

mod environment;
mod folders;
mod ports;
mod python;
mod report;
mod runtime;
mod shell;
mod system;

pub(crate) use python::probe as probe_python;

use self::report::{Report, Status};
use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The report has no secrets: of variables that may hold some it has the names alone, and the home \
folder is written as ~. Nothing is changed, and nothing is asked of the network but of this \
machine.

Examples:
  ovms doctor
  ovms doctor --rest_port 8080
  ovms doctor --output json |
      jq -r '.checks[] | select(.status != \"ok\") | .text'

Exit codes: 0 all is well; 1 the report cannot be written; 2 something may need attention; 64 \
usage; 72 there is no OpenVINO runtime that works.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Port for gRPC to look at
    #[arg(long = "port", value_name = "PORT", default_value_t = 9000)]
    port: u16,
    /// Port for REST to look at
    #[arg(long = "rest_port", value_name = "PORT", default_value_t = 8000)]
    rest_port: u16,
    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Runs all checks and prints the report.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let mut checks = system::all();
    checks.extend(runtime::all());
    checks.push(python::check());
    checks.extend(ports::all(args.port, args.rest_port)?);
    checks.push(folders::check());
    checks.extend(environment::all());
    checks.extend(shell::all());
    let report = Report::new(checks);
    ui::print(match args.output.is_json() {
        true => report.json() + "\n",
        false => report.text(ui::Look::of_stdout(), ui::columns()),
    })?;
    match report.status {
        Status::Ok | Status::Note => Ok(()),
        Status::Warn => {
            let number = report.count(Status::Warn);
            let text = format!("{} may need attention", ui::counted(number, "thing"));
            Err(Failure::new(FailureKind::Warnings, text))
        }
        Status::Fail => Err(Failure::system("there is no OpenVINO runtime that works")),
    }
}
