//! Errors of the runtime, in one line.

use openvino::{InferenceError, SetupError};

use crate::text::first_chars;

/// An error of the runtime. Its text leaves out where in the runtime's own sources it arose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OpenVinoError(String);

impl OpenVinoError {
    pub(super) fn new(text: &str) -> Self {
        let mut lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_place(line))
            .collect();
        lines.dedup();
        Self(lines.join("; "))
    }

    /// Returns the operators that the runtime says it does not have; none if it says something else.
    pub(super) fn operators(&self) -> Vec<String> {
        // Converters of other formats say it in the one way, the reader of IR in the other.
        const BEGINS: [&str; 2] = [
            "No conversion rule found for operations:",
            "doesn't contain the operation with type:",
        ];
        let named = |begin: &&str| Some(self.0.split_once(*begin)?.1);
        let Some(rest) = BEGINS.iter().find_map(named) else {
            return Vec::new();
        };
        let names = rest.split(';').next().unwrap_or_default();
        let names = names
            .split(',')
            .map(|name| name.trim().trim_end_matches('.'));
        names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the file beside an ONNX model that the runtime names as that of some weights, as the model has it.
    pub(super) fn stored_file(&self) -> Option<&str> {
        let (_, file) = self.0.split_once("externally stored data in file (")?;
        let (file, _) = file.split_once(", offset:")?;
        Some(file)
    }
}

/// Maximum length of a reason sent to a client, in characters.
const MAX_REASON_LEN: usize = 1000;

impl OpenVinoError {
    /// Returns the text for a client: without the places in the runtime's sources, and without paths
    /// of this machine.
    pub fn reason(&self) -> String {
        let mut text = String::new();
        let mut rest = self.0.as_str();
        // `Check '<condition>' failed at <file>:<line>:` is a place within a line.
        while let Some((before, check)) = rest.split_once("Check '")
            && let Some((_, place)) = check.split_once("' failed at ")
        {
            text.push_str(before);
            rest = place.split_once(' ').map_or("", |(_, after)| after);
            // The colon behind the place stands behind what was before it then.
            text.truncate(text.trim_end().len());
            if !text.is_empty() && !rest.is_empty() && text.ends_with(|c: char| !is_separator(c)) {
                text.push(':');
            }
            text.push(' ');
        }
        text.push_str(rest);
        let words = text.split_whitespace().filter(|word| !is_path(word));
        let text = words.collect::<Vec<_>>().join(" ").replace(":;", ":");
        let text = text.trim_end_matches(|c| is_separator(c) || c == ' ');
        first_chars(text, MAX_REASON_LEN).to_owned()
    }
}

fn is_separator(character: char) -> bool {
    matches!(character, ':' | ';' | ',')
}

/// Returns whether a word is the path of a file: absolute, or with a line, as in the runtime's sources.
fn is_path(word: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '/' && c != '_');
    let Some((_, file)) = word.rsplit_once('/') else {
        return false;
    };
    let Some((_, ending)) = file.rsplit_once('.') else {
        return false;
    };
    let kind = ending.split(':').next().unwrap_or_default();
    let is_source = ["c", "cc", "cpp", "cxx", "h", "hpp"].contains(&kind);
    // Operations have names such as `/model.0/conv/Conv`, which have no such ending.
    is_source || (word.starts_with('/') && kind.chars().all(char::is_alphabetic))
}

/// Returns whether a line only names the place in the runtime's sources at which an error arose.
fn is_place(line: &str) -> bool {
    let line = line.strip_prefix("general error: ").unwrap_or(line);
    line.starts_with("Exception from ")
        || (line.starts_with("Check '") && line.contains("failed at"))
}

impl From<InferenceError> for OpenVinoError {
    fn from(error: InferenceError) -> Self {
        let failure = Self::new(error.message.as_deref().unwrap_or_default());
        if failure.0.is_empty() {
            // The message had nothing but places, or there was none.
            Self(error.kind.to_string())
        } else {
            failure
        }
    }
}

impl From<SetupError> for OpenVinoError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Inference(error) => error.into(),
            SetupError::Loading(error) => Self::new(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OpenVinoError;

    #[test]
    fn places_in_the_sources_are_left_out() {
        let said = "Exception from src/inference/src/cpp/core.cpp:84:\n\
                    Check 'res.status == pugi::status_ok' failed at src/frontends/x.cpp:219:\n\
                    Error parsing element attribute at offset 748\n\n";
        assert_eq!(
            OpenVinoError::new(said).to_string(),
            "Error parsing element attribute at offset 748"
        );
    }

    #[test]
    fn the_file_of_weights_is_the_one_that_the_model_names() {
        let said = OpenVinoError::new(
            "Loading input model\nInvalid usage of method for externally stored data in file (parts/m.data, offset: 0, \
             data_length: 48)",
        );
        assert_eq!(said.stored_file(), Some("parts/m.data"));
        assert_eq!(
            OpenVinoError::new("Unable to read the model").stored_file(),
            None
        );
    }

    #[test]
    fn operators_that_the_runtime_does_not_have_are_named() {
        let onnx = OpenVinoError::new(
            "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted.\nSummary:\n\
             -- No conversion rule found for operations: FancyOp-13, com.acme.OtherOp\n",
        );
        assert_eq!(onnx.operators(), ["FancyOp-13", "com.acme.OtherOp"]);
        let ir =
            OpenVinoError::new("Opset opset1 doesn't contain the operation with type: FancyOp\n\n");
        assert_eq!(ir.operators(), ["FancyOp"]);
        for other in [
            "Unable to read the model",
            "No conversion rule found for operations:",
            "doesn't contain the operation with type: ;",
        ] {
            assert!(OpenVinoError::new(other).operators().is_empty(), "{other}");
        }
    }

    #[test]
    fn a_reason_has_no_paths_and_keeps_names() {
        let said = "Exception from src/inference/src/cpp/infer_request.cpp:224:\n\
                    Exception from src/plugins/intel_cpu/src/node.cpp:794:\n\
                    [CPU] Add node with name '/model.0/Add_5.0' Check 'input_shape[j] == 1' failed \
                    at src/plugins/intel_cpu/src/shape_inference/custom/eltwise.cpp:52:\n\
                    Eltwise shape infer input shapes dim index: 1 mismatch\n";
        assert_eq!(
            OpenVinoError::new(said).reason(),
            "[CPU] Add node with name '/model.0/Add_5.0': \
             Eltwise shape infer input shapes dim index: 1 mismatch"
        );
        let said = "cannot read '/srv/models/a.bin' of i64/f32 in core/src/model.cpp:12: no";
        assert_eq!(
            OpenVinoError::new(said).reason(),
            "cannot read of i64/f32 in no"
        );
        assert_eq!(OpenVinoError::new("Check 'a").reason(), "Check 'a");
        let long = "x".repeat(5000);
        assert_eq!(OpenVinoError::new(&long).reason().len(), 1000);
    }
}
