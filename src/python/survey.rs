//! Description of the interpreter, for troubleshooting.

use std::process::Command;

use super::{PythonSurvey, environment::Wish};

/// Script that describes the interpreter.
const QUESTION: &str = r#"
import json, platform, sys
try:
    import numpy
    found = {"Ok": numpy.__version__}
except BaseException as error:
    found = {"Err": f"{type(error).__name__}: {error}"}
print(json.dumps({"version": platform.python_version(), "prefix": sys.prefix, "program": sys.executable, "numpy": found}))
"#;

/// Describes the interpreter that handlers run in. Blocks for as long as `import numpy` takes.
///
/// # Errors
///
/// Fails if there is none, or it does not start.
pub fn survey() -> Result<PythonSurvey, String> {
    let program = Wish::with(None).program()?;
    let failed =
        |error: &dyn std::fmt::Display| format!("{} does not start: {error}", program.display());
    let output = Command::new(&program).args(["-c", QUESTION]).output();
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
}
