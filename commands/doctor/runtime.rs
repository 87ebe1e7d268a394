//! OpenVINO runtime: its location, state, and devices.

use std::time::Duration;

use ovms::{
    openvino::runtime::{self, FoundRuntime, PINNED_VERSION, SearchedPlace},
    python::{self, PythonSurvey},
};
use serde_json::json;

use super::{Check, Status};
use crate::{apart, error::Failure, places, setup, ui};

/// Checks the runtime and its devices.
pub(super) fn all() -> Vec<Check> {
    let search = places::all();
    let looked = runtime::survey(&search);
    let found = match runtime::find(&search) {
        Ok(found) => found,
        Err(error) => {
            let failure = setup::explain(&error);
            let check = Check::new("runtime", Status::Fail, failure.message());
            let check = with_places(check, &looked, None, false);
            return vec![failure.hints().iter().cloned().fold(check, Check::hint)];
        }
    };
    let library = format!("{}, {}", found.origin, found.library.display());
    // The environment shows the library's location as well, in one line.
    let place = places::environment_of(&found.library).unwrap_or_else(|| found.library.clone());
    let check = match setup::probe_apart(&found) {
        Ok(version) => {
            let text = format!("OpenVINO {version}, works");
            let place = format!("from {}, {}", found.origin, place.display());
            let check = Check::new("runtime", Status::Ok, text).detail(place);
            match version.starts_with(PINNED_VERSION) {
                true => check,
                false => check.detail(format!("this ovms is tested with {PINNED_VERSION}")),
            }
        }
        Err(failure) => {
            let check = Check::new("runtime", Status::Fail, failure.message());
            let check = check.detail(format!("from {library}"));
            let check = with_places(check, &looked, Some(&found), false);
            let hint = "fix or remove it, or run `ovms setup --dir DIR` and set \
                        OPENVINO_INSTALL_DIR to DIR";
            return vec![check.hint(hint)];
        }
    };
    let check = with_places(check, &looked, Some(&found), true);
    vec![check, devices(&found)]
}

fn devices(found: &FoundRuntime) -> Check {
    match setup::devices(found) {
        Ok(devices) if devices.is_empty() => {
            Check::new("devices", Status::Warn, "the runtime finds no device")
                .hint("the plugins belong next to the library; `ovms setup` gets all of them")
        }
        Ok(devices) => Check::new("devices", Status::Ok, setup::named(&devices).join(", ")),
        Err(failure) => Check::new("devices", Status::Warn, failure.message())
            .hint("the driver of a device may be broken; --target-device CPU does without"),
    }
}

/// Adds the other searched places to a check.
fn with_places(
    mut check: Check,
    looked: &[SearchedPlace],
    used: Option<&FoundRuntime>,
    works: bool,
) -> Check {
    let is_other = |place: &&SearchedPlace| used.is_none_or(|used| used.origin != place.origin);
    for place in looked.iter().filter(is_other) {
        let origin = &place.origin;
        let text = match (&place.unfinished, &place.library, &place.folder) {
            (Some(folder), ..) => {
                format!(
                    "an unfinished installation in {origin}, {}",
                    folder.display()
                )
            }
            (None, Some(library), _) => format!("another one in {origin}, {}", library.display()),
            // Nobody needs more than one.
            (None, None, _) if works => continue,
            (None, None, Some(folder)) => format!("none in {origin}, {}", folder.display()),
            (None, None, None) => format!("none in {origin}"),
        };
        check = check.detail(text);
    }
    check
}

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

/// Describes the interpreter in a process of its own.
fn survey() -> Result<PythonSurvey, String> {
    let said = apart::run(["probe-python"], LIMIT)
        .map_err(|error| format!("cannot be started: {error}"))?
        .ok_or_else(|| format!("no response within {} s", LIMIT.as_secs()))?
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
                .hint("Python nodes cannot load; everything else works");
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
             that has it with --python-environment",
        ),
    }
}
