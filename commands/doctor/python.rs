//! Interpreter of Python nodes.

use std::{path::PathBuf, time::Duration};

use ovms::{openvino::runtime::FoundRuntime, python};
use serde::{Deserialize, Serialize};

use super::report::{Check, Status};
use crate::{
    apart,
    error::{Failure, FailureKind},
    places, ui,
};

/// Time limit for starting the interpreter and importing numpy.
const LIMIT: Duration = Duration::from_secs(20);

/// Interpreter as reported by one process to another.
#[derive(Debug, Serialize, Deserialize)]
struct Reported {
    version: String,
    prefix: PathBuf,
    library: Option<PathBuf>,
    /// Version of numpy, or the reason for its absence.
    numpy: Result<String, String>,
}

/// Starts the interpreter as `ovms serve` would and describes it.
pub(crate) fn probe() -> Result<(), Failure> {
    let runtime = ovms::openvino::runtime::find(&places::all()).ok();
    let environment = runtime.and_then(|found| places::environment_of(&found.library));
    python::configure(None, environment);
    let failed = |text: String| Failure::new(FailureKind::SystemPart, text);
    let survey = python::survey().map_err(failed)?;
    let reported = Reported {
        version: survey.version,
        prefix: survey.prefix,
        library: survey.library,
        numpy: survey.numpy,
    };
    let text = serde_json::to_string(&reported).map_err(|error| failed(error.to_string()))?;
    ui::print(text + "\n")
}

/// Checks the interpreter.
pub(super) fn check(runtime: Option<&FoundRuntime>) -> Check {
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
    if !said.status.success() {
        return cannot(said.reason());
    }
    // Modules that are imported at the start may print.
    let last = said.stdout.lines().next_back().unwrap_or_default();
    let reported: Reported = match serde_json::from_str(last) {
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
    match (reported.numpy, runtime) {
        (Ok(_), _) => check,
        (Err(_), _) => check.hint(
            "handlers that import numpy do not load: install it there, or name an environment \
             that has it with --python_environment",
        ),
    }
}
