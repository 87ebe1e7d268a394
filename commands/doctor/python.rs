//! Interpreter of Python nodes.

use std::time::Duration;

use ovms::python::{self, PythonSurvey};
use serde_json::json;

use super::report::{Check, Status};
use crate::{apart, error::Failure, places, ui};

/// Time limit for starting the interpreter and importing numpy.
const LIMIT: Duration = Duration::from_secs(20);

/// Starts the interpreter as `ovms serve` would and describes it.
pub(crate) fn probe() -> Result<(), Failure> {
    let runtime = ovms::openvino::runtime::find(&places::all()).ok();
    let environment = runtime.and_then(|found| places::environment_of(&found.library));
    python::configure(None, environment);
    let survey = python::survey().map_err(Failure::system)?;
    ui::print_json(&json!(survey))
}

/// Has the interpreter described by a process of its own.
fn survey() -> Result<PythonSurvey, String> {
    let said = apart::run(["probe-python"], LIMIT)
        .map_err(|error| format!("cannot be started: {error}"))?
        .ok_or_else(|| format!("no sign of work within {} s", LIMIT.as_secs()))?
        .success()?;
    // Modules that are imported at the start may print.
    let last = said.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("its answer cannot be read: {error}"))
}

/// Checks the interpreter.
pub(super) fn check() -> Check {
    const NAME: &str = "python";
    if !python::AVAILABLE {
        return Check::new(NAME, Status::Note, "this build has no Python nodes");
    }
    let reported = match survey() {
        Ok(reported) => reported,
        Err(reason) => {
            return Check::new(NAME, Status::Warn, reason)
                .hint("Python nodes do not load; all else works without");
        }
    };
    let text = format!("Python {} for Python nodes", reported.version);
    let (status, numpy) = match &reported.numpy {
        Ok(version) => (Status::Ok, format!("numpy {version}")),
        Err(reason) => (Status::Note, format!("no numpy ({reason})")),
    };
    let check = Check::new(NAME, status, format!("{text}, {numpy}"))
        .detail(format!("packages of {}", reported.prefix.display()))
        .detail(format!("interpreter {}", reported.program.display()));
    match reported.numpy {
        Ok(_) => check,
        Err(_) => check.hint(
            "handlers that import numpy do not load: install it there, or name an environment \
             that has it with --python_environment",
        ),
    }
}
