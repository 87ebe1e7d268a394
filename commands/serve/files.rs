//! Failure for a rejected configuration file.

use ovms::config::{ConfigurationError, FileError};

use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// Maximum number of characters shown on either side of an error.
const AROUND: usize = 60;

/// Returns the failure for a rejected file: each error with its line. `argument` is the flag that
/// named it.
pub(crate) fn explain(error: &FileError, argument: &str) -> Failure {
    let (path, errors, more) = match error {
        FileError::Read { path, source } => {
            return Failure::new(FailureKind::Failed, error.to_string())
                .caused_by(source)
                .hint(match source.kind() {
                    std::io::ErrorKind::PermissionDenied => format!(
                        "permission denied: let the user that runs ovms read {}",
                        path.display()
                    ),
                    _ => format!(
                        "{argument} names a JSON file; is {} the right one?",
                        path.display()
                    ),
                });
        }
        FileError::Syntax { path, .. } => (path, error.errors(), 0),
        FileError::Schema { path, more, .. } => (path, error.errors(), *more),
    };
    let number = errors.len() + more;
    let message = match error {
        FileError::Syntax { .. } => {
            format!("the configuration file {} is no JSON", path.display())
        }
        _ => format!(
            "the configuration file {} has {}",
            path.display(),
            ui::counted(number, "error")
        ),
    };
    let mut failure = Failure::new(FailureKind::Failed, message);
    for error in errors {
        failure = failure.detail(detail(error));
    }
    if more > 0 {
        failure = failure.detail(format!("and {more} more"));
    }
    failure
}

/// Writes an error and marks it in its line.
fn detail(error: &ConfigurationError) -> String {
    let ConfigurationError {
        place,
        excerpt,
        width,
        ..
    } = error;
    let [line, mark] = quote(place.line, excerpt, place.column, *width);
    format!("{error}\n  {line}\n  {mark}")
}

/// Quotes the text of a line around a column, both from 1, and marks `width` characters of it.
pub(crate) fn quote(number: usize, line: &str, column: usize, width: usize) -> [String; 2] {
    let number = number.to_string();
    let (line, column) = window(line, column.saturating_sub(1));
    let room = line.chars().count().saturating_sub(column).max(1);
    let mark = "^".repeat(width.clamp(1, room));
    let gutter = " ".repeat(number.len());
    [
        format!("{number} | {line}"),
        format!("{gutter} | {}{mark}", " ".repeat(column)),
    ]
}

/// Cuts a line to the text around a column; returns it with the new column.
fn window(line: &str, column: usize) -> (String, usize) {
    let line: Vec<char> = line
        .chars()
        .map(|c| if ui::steers(c) { ' ' } else { c })
        .collect();
    let blanks = line.iter().take_while(|c| c.is_whitespace()).count();
    let start = column.saturating_sub(AROUND).max(blanks.min(column));
    let end = line.len().min(column + AROUND);
    let text: String = line.get(start..end).unwrap_or_default().iter().collect();
    (text, column - start)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ovms::config::{Defaults, parse};

    use super::explain;

    fn explained(content: &[u8]) -> String {
        let path = Path::new("/models/config.json");
        let refused = parse(content, path, &Defaults::default()).unwrap_err();
        explain(&refused, "--config_path").text()
    }

    #[test]
    fn every_error_is_marked_in_its_line() {
        insta::assert_snapshot!(explained(br#"{
    "model_config_list": [
        {"config": {"name": "resnet", "base_path": "/models/resnet", "nireq": "4"}},
	{"config": {"name": "face", "base_pth": "/models/face"}}
    ]
}"#), @r#"
        error: the configuration file /models/config.json has 2 errors
          3:79 model_config_list[0].config.nireq: found the text "4"; expected a whole number from 0 to 4294967295
            3 |  {"name": "resnet", "base_path": "/models/resnet", "nireq": "4"}},
              |                                                             ^^^
          4:30 model_config_list[1].config.base_pth: found the unknown key `base_pth`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup (did you mean `base_path`?)
            4 | {"config": {"name": "face", "base_pth": "/models/face"}}
              |                             ^^^^^^^^^^
        "#);
        let long = format!("{{\"model_config_list\": [{}7]}}", " ".repeat(500));
        insta::assert_snapshot!(explained(long.as_bytes()), @"
        error: the configuration file /models/config.json has 1 error
          1:524 model_config_list[0]: found 7; expected an object with config
            1 |                                                             7]}
              |                                                             ^
        ");
        insta::assert_snapshot!(explained(b"{\n  \"model_config_list\": [\n"), @r#"
        error: the configuration file /models/config.json is no JSON
          2:24: found `[` (unterminated array); expected JSON
            2 | "model_config_list": [
              |                      ^
        "#);
        insta::assert_snapshot!(explained(b"\xFF"), @"
        error: the configuration file /models/config.json is no JSON
          1:1: found the byte 0xFF; expected text in UTF-8
            1 | 
              | ^
        ");
    }
}
