//! Failure for a rejected configuration file.

use ovms::config::FileError;

use crate::{
    check::excerpt,
    error::{Failure, FailureKind},
    ui,
};

/// Returns the failure for a rejected file: each error with its line. `argument` is the flag that
/// named it.
pub(crate) fn explain(error: &FileError, argument: &str) -> Failure {
    let (path, text, more) = match error {
        FileError::Read { path, source } => {
            return Failure::of(FailureKind::Failed, error).hint(match source.kind() {
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
        FileError::Syntax { path, text, .. } => (path, text, 0),
        FileError::Schema {
            path, text, more, ..
        } => (path, text, *more),
    };
    let errors = error.errors();
    let what = match error {
        FileError::Syntax { .. } => "is no JSON".to_owned(),
        _ => format!("has {}", ui::counted(errors.len() + more, "error")),
    };
    let file = path.display().to_string();
    let failure = Failure::failed(format!("the configuration file {file} {what}"));
    let errors = errors.iter().cloned().map(|error| error.file(&file));
    let details = errors.map(|error| excerpt::show(&error, text));
    let more = (more > 0).then(|| format!("and {more} more"));
    details.chain(more).fold(failure, Failure::detail)
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
          model_config_list[0].config.nireq: found the text "4"; expected a whole number from 0 to 4294967295
           --> /models/config.json:3:79
            |
          3 |         {"config": {"name": "resnet", "base_path": "/models/resnet", "nireq": "4"}},
            |                                                                               ^^^
          model_config_list[1].config.base_pth: found the unknown key `base_pth`; expected one of name, base_path, batch_size, shape, layout, mean, scale, color_format, precision, model_version_policy, nireq, inference_timeout_ms, target_device, plugin_config, stateful, idle_sequence_cleanup, low_latency_transformation, max_sequence_number, drain_sequences_seconds, cache_dir, allow_cache, custom_loader_options, graph_path, subconfig, warmup
           --> /models/config.json:4:30
            |
          4 |     {"config": {"name": "face", "base_pth": "/models/face"}}
            |                                 ^^^^^^^^^^
            |
            = help: did you mean `base_path`?
        "#);
        let long = format!("{{\"model_config_list\": [{}7]}}", " ".repeat(500));
        insta::assert_snapshot!(explained(long.as_bytes()), @"
        error: the configuration file /models/config.json has 1 error
          model_config_list[0]: found 7; expected an object with config
           --> /models/config.json:1:524
            |
          1 | ...                                                                7]}
            |                                                                    ^
        ");
        insta::assert_snapshot!(explained(b"{\n  \"model_config_list\": [\n"), @r#"
        error: the configuration file /models/config.json is no JSON
          found `[` (unterminated array); expected JSON
           --> /models/config.json:2:24
            |
          2 |   "model_config_list": [
            |                        ^
        "#);
        insta::assert_snapshot!(explained(b"\xFF"), @"
        error: the configuration file /models/config.json is no JSON
          found the byte 0xFF; expected text in UTF-8
           --> /models/config.json:1:1
            |
          1 | �
            | ^
        ");
    }
}
