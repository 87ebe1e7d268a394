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

/// Checks the interpreter.
pub(super) fn check() -> Check {
    const NAME: &str = "python";
    if !python::AVAILABLE {
        return Check::new(NAME, Status::Note, "this build has no Python nodes");
    }
    let cannot = |reason: String| {
        Check::new(NAME, Status::Warn, reason)
            .hint("Python nodes do not load; all else works without")
    };
    let said = match apart::run(["probe-python"], LIMIT) {
        Ok(Some(said)) => said,
        Ok(None) => return cannot(format!("no sign of work within {} s", LIMIT.as_secs())),
        Err(error) => return cannot(format!("cannot be started: {error}")),
    };
    let said = match said.success() {
        Ok(said) => said,
        Err(reason) => return cannot(reason),
    };
    // Modules that are imported at the start may print.
    let last = said.lines().next_back().unwrap_or_default();
    let reported: PythonSurvey = match serde_json::from_str(last) {
        Ok(reported) => reported,
        Err(error) => return cannot(format!("its answer cannot be read: {error}")),
    };
    let text = format!("Python {} for Python nodes", reported.version);
    let (status, numpy) = match &reported.numpy {
        Ok(version) => (Status::Ok, format!("numpy {version}")),
        Err(reason) => (Status::Note, format!("no numpy ({reason})")),
    };
    let mut check = Check::new(NAME, status, format!("{text}, {numpy}"));
    check = check.detail(format!("packages of {}", reported.prefix.display()));
    if let Some(library) = &reported.library {
        check = check.detail(format!("library {}", library.display()));
    }
    match reported.numpy {
        Ok(_) => check,
        Err(_) => check.hint(
            "handlers that import numpy do not load: install it there, or name an environment \
             that has it with --python_environment",
        ),
    }
}
