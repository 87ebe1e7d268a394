//! Next steps for a model that the runtime does not load.

use std::{io, path::Path};

use ovms::openvino::ModelLoadError;

/// Domain of the operators of classical machine learning, which converters of scikit-learn write.
const CLASSICAL: &str = "ai.onnx.ml.";

/// Returns the next step for a model that the runtime rejects.
pub(crate) fn of_load(error: &ModelLoadError) -> Option<String> {
    match error {
        ModelLoadError::Device { device, known, .. } | ModelLoadError::Compile { device, known, .. }
            if is_unknown(device, known) =>
        {
            Some(format!(
                "target_device takes the devices of this machine ({}), or AUTO, HETERO and MULTI \
                 with a list of them",
                known.join(", ")
            ))
        }
        ModelLoadError::Property { key, .. } | ModelLoadError::UnknownProperty { key, .. } => Some(format!(
            "fix or leave out {key} in plugin_config; its keys are properties of OpenVINO"
        )),
        ModelLoadError::Weights { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Some(format!("put {} next to the model, under that name", name(path)))
        }
        ModelLoadError::Unreadable { path, source } | ModelLoadError::Weights { path, source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            let path = path.display();
            Some(format!("let the user of the server read {path}"))
        }
        ModelLoadError::Operators { operators, .. }
            if operators.iter().any(|it| it.starts_with(CLASSICAL)) =>
        {
            Some(
                "operators of ai.onnx.ml are not supported: export the scores of a linear model or neural network of \
                 scikit-learn without them (docs/serve.md, \"Models of scikit-learn\"), or run the model in a \
                 Python node (docs/graphs.md)"
                    .to_owned(),
            )
        }
        ModelLoadError::Operators { .. } => Some(
            "export the model without such operators, or give a library that has them as --cpu-extension"
                .to_owned(),
        ),
        ModelLoadError::Read { source, .. } => Some(of_text(&source.to_string())),
        _ => None,
    }
}

/// Returns the next step for a file that the runtime does not read, by what it says.
fn of_text(text: &str) -> String {
    let maps = text.split_once("Unsupported value_info type: ");
    let output = maps.and_then(|(_, rest)| rest.split([';', ' ']).next());
    match output {
        Some(output) => format!(
            "`{output}` is not a tensor, but a list of maps or similar: skl2onnx writes tensors with \
             `options={{\"zipmap\": False}}` (docs/serve.md, \"Models of scikit-learn\")"
        ),
        None if text.contains("externally stored data") => {
            "the weights are in files next to it, one of which is incomplete: copy all files of one export".to_owned()
        }
        None => "check that the file is complete, for example by exporting it again".to_owned(),
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.display().to_string()
}

/// Returns whether a device is unknown; `GPU.1` counts as `GPU`, and `AUTO:CPU` is composed of
/// others.
fn is_unknown(device: &str, known: &[String]) -> bool {
    let base = device.split([':', '.']).next().unwrap_or_default();
    let composed = ["AUTO", "HETERO", "MULTI", "BATCH"];
    !known.is_empty()
        && !composed.contains(&base)
        && !known
            .iter()
            .any(|known| known.split('.').next() == Some(base))
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn texts_of_the_runtime_lead_to_the_next_step() {
        for (text, expected) in [
            (
                "Loading input model; Unsupported value_info type: output_probability",
                "`output_probability` is not a tensor, but a list of maps or similar: skl2onnx writes tensors with \
                 `options={\"zipmap\": False}` (docs/serve.md, \"Models of scikit-learn\")",
            ),
            (
                "Invalid usage of method for externally stored data in file (m.onnx.data, offset: 0, data_length: 48)",
                "the weights are in files next to it, one of which is incomplete: copy all files of one export",
            ),
            (
                "Error parsing element attribute at offset 748",
                "check that the file is complete, for example by exporting it again",
            ),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }
}
