//! What the runtime said, in one line.

use std::ffi::CStr;

use openvino::{InferenceError, SetupError};
use openvino_sys::ov_get_last_err_msg;

/// An error of the runtime. Its text leaves out where in the runtime's own sources it arose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(String);

impl Fault {
    pub(super) fn new(text: &str) -> Self {
        let mut lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_place(line))
            .collect();
        lines.dedup();
        Self(lines.join("; "))
    }
}

impl Fault {
    /// Returns what the runtime said of the call before on this thread, or else a text.
    pub(super) fn last(otherwise: &str) -> Self {
        // SAFETY: the runtime returns null or a string of its own that stays until the next call on
        // this thread, and there is none before it is copied.
        let said = unsafe {
            let text = ov_get_last_err_msg();
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Self::new(said.as_deref().unwrap_or(otherwise))
    }
}

/// Tells whether a line only says where in the runtime's sources something was noticed.
fn is_place(line: &str) -> bool {
    let line = line.strip_prefix("general error: ").unwrap_or(line);
    line.starts_with("Exception from ")
        || (line.starts_with("Check '") && line.contains("failed at"))
}

impl From<InferenceError> for Fault {
    fn from(error: InferenceError) -> Self {
        let fault = Self::new(error.message.as_deref().unwrap_or_default());
        if fault.0.is_empty() {
            // The message had nothing but places, or there was none.
            Self(error.kind.to_string())
        } else {
            fault
        }
    }
}

impl From<SetupError> for Fault {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Inference(error) => error.into(),
            SetupError::Loading(error) => Self::new(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn places_in_the_sources_are_left_out() {
        let said = "Exception from src/inference/src/cpp/core.cpp:84:\n\
                    Check 'res.status == pugi::status_ok' failed at src/frontends/x.cpp:219:\n\
                    Error parsing element attribute at offset 748\n\n";
        assert_eq!(
            Fault::new(said).to_string(),
            "Error parsing element attribute at offset 748"
        );
    }
}
