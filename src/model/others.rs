//! Models of other servers, which none here reads, and what to do with them.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use super::repository::{files, versions};

/// Models of other servers: the ending of the file, or of the folder, whose they are, and how they come to be served.
const OTHERS: [(&str, &str, &str); 9] = [
    ("pt", "PyTorch", FROM_PYTORCH),
    ("pth", "PyTorch", FROM_PYTORCH),
    ("plan", "TensorRT", FROM_TENSORRT),
    ("engine", "TensorRT", FROM_TENSORRT),
    ("trt", "TensorRT", FROM_TENSORRT),
    (
        "savedmodel",
        "TensorFlow",
        "rename it to model.savedmodel, with saved_model.pb in it",
    ),
    ("graphdef", "TensorFlow", "rename it to *.pb"),
    (
        "keras",
        "Keras",
        "export it with `model.export`, which writes a SavedModel",
    ),
    (
        "h5",
        "Keras",
        "export it with `model.export`, which writes a SavedModel",
    ),
];

const FROM_PYTORCH: &str = "no PyTorch runs here; export it with `torch.onnx.export`, or convert it in Python with \
     `openvino.convert_model` and `openvino.save_model`";

const FROM_TENSORRT: &str =
    "it is for NVIDIA's GPUs alone; serve the ONNX file that it was built of";

/// Next step for a model of Triton's Python backend.
pub const TO_PIPELINE: &str =
    "make it a pipeline with `ovms pipeline new --python-node`, which keeps its names";
/// Next step for one that has any number of answers.
pub const TO_GRAPH: &str = "make it a graph with `ovms graph new --generative`, whose inputs and outputs have lower-case \
                            names";

/// Name of the handler of a model of Triton's Python backend.
const PYTHON_MODEL: &str = "model.py";

/// Name of Triton's file of a model, beside its versions.
const TRITON: &str = "config.pbtxt";

/// Maximum number of bytes that are looked at of that file.
const MAX_READ: u64 = 1 << 16;

/// Returns whether a folder is that of an ensemble of Triton's, and none of its versions has a model. Blocks.
pub fn is_ensemble(base_path: &Path) -> bool {
    let has_model = || {
        let versions = versions(base_path).unwrap_or_default();
        versions.iter().any(|(_, version)| files(version).is_ok())
    };
    is_of_ensemble(&base_path.join(TRITON)) && !has_model()
}

/// Returns whether the file of a model is that of an ensemble, which has no files of its own. Blocks.
fn is_of_ensemble(file: &Path) -> bool {
    text(file).lines().any(|line| {
        let is_platform = line.contains("platform") && line.contains("\"ensemble\"");
        is_platform || line.contains("ensemble_scheduling")
    })
}

/// Returns whether the file of a model says that a request has any number of answers. Blocks.
fn is_of_stream(file: &Path) -> bool {
    let blank = |letter: &char| !letter.is_whitespace();
    let text: String = text(file).chars().filter(blank).collect();
    text.to_lowercase().contains("decoupled:true")
}

/// Reads the file of a model without its comments; empty if it cannot be read.
fn text(file: &Path) -> String {
    let mut text = String::new();
    // Opening a pipe would wait for its other end.
    let read = file.is_file()
        && std::fs::File::open(file)
            .and_then(|file| file.take(MAX_READ).read_to_string(&mut text))
            .is_ok();
    if !read {
        return String::new();
    }
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns whose models the versions of a base path are, and what to do with them, if no server here reads any of them.
/// Blocks.
pub fn of_no_server_here(base_path: &Path) -> Option<String> {
    let versions = versions(base_path).ok()?;
    let (_, last) = versions.last()?;
    if versions.iter().any(|(_, version)| files(version).is_ok()) {
        return None;
    }
    let found = of_others(last);
    found.strip_prefix("; ").map(str::to_owned)
}

/// Returns whether a version of a base path is of Triton's Python backend. Blocks.
pub fn is_of_python(base_path: &Path) -> bool {
    let versions = versions(base_path).unwrap_or_default();
    let mut folders = versions.iter().map(|(_, folder)| folder);
    folders.any(|folder| folder.join(PYTHON_MODEL).is_file())
}

/// Returns what to add to the error of a folder without a model, if there is one in a form of other servers; empty if there
/// is none. Blocks.
pub(super) fn of_others(folder: &Path) -> String {
    let file = folder.parent().map(|parent| parent.join(TRITON));
    if file.as_deref().is_some_and(is_of_ensemble) {
        return format!(
            "; {TRITON} is that of an ensemble: define a pipeline in a configuration file"
        );
    }
    if folder.join(PYTHON_MODEL).is_file() {
        let is_decoupled = file.is_some_and(|file| is_of_stream(&file));
        let next = if is_decoupled { TO_GRAPH } else { TO_PIPELINE };
        return format!("; found {PYTHON_MODEL} of Triton's Python backend: {next}");
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    names.sort();
    let mut found = names.iter().filter_map(|path| of_other_server(path));
    found
        .next()
        .map_or_else(String::new, |found| format!("; found {found}"))
}

/// Returns whose a model is that no server here reads, by the name of its file or folder, and what to do with it.
pub fn of_other_server(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    let (_, whose, next) = OTHERS.iter().find(|(other, ..)| *other == ending)?;
    let name = path.file_name()?.to_string_lossy();
    Some(format!("{name} of {whose}: {next}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::repository::{files, tests::touch};

    #[test]
    fn models_of_other_servers_are_reported_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let said = |folder: &str, name: &str| {
            let folder = root.path().join(folder);
            touch(&folder, &[name]);
            let said = files(&folder).unwrap_err().to_string();
            let (before, said) = said.split_once("or *.tflite").unwrap();
            assert!(before.contains("no model in"), "{before}");
            said.to_owned()
        };
        assert_eq!(said("1", "notes.txt"), "");
        assert_eq!(
            said("2", "model.pt"),
            "; found model.pt of PyTorch: no PyTorch runs here; export it with `torch.onnx.export`, or convert it in Python with \
             `openvino.convert_model` and `openvino.save_model`"
        );
        assert_eq!(
            said("3", "model.plan"),
            "; found model.plan of TensorRT: it is for NVIDIA's GPUs alone; serve the ONNX file that it was built of"
        );
        assert_eq!(
            said("python/1", "model.py"),
            "; found model.py of Triton's Python backend: make it a pipeline with `ovms pipeline new --python-node`, which \
             keeps its names"
        );
        let text = "model_transaction_policy {\n  decoupled: false # decoupled: true\n}";
        let file = root.path().join("python/config.pbtxt");
        fs::write(&file, text).unwrap();
        assert!(said("python/1", "model.py").contains("pipeline"));
        fs::write(&file, text.replace("false #", "True #")).unwrap();
        assert_eq!(
            said("python/1", "model.py"),
            "; found model.py of Triton's Python backend: make it a graph with `ovms graph new --generative`, whose inputs \
             and outputs have lower-case names"
        );
        let of_python = super::of_no_server_here(&root.path().join("python"));
        assert!(of_python.is_some_and(|it| it.starts_with("found model.py")));
        touch(&root.path().join("python/2"), &["model.onnx"]);
        assert_eq!(super::of_no_server_here(&root.path().join("python")), None);
        touch(&root.path().join("ensemble"), &["config.pbtxt"]);
        let write =
            |text: &str| fs::write(root.path().join("ensemble/config.pbtxt"), text).unwrap();
        for text in ["platform: \"ensemble\"", "ensemble_scheduling { step [ ] }"] {
            write(text);
            assert_eq!(
                said("ensemble/1", "notes.txt"),
                "; config.pbtxt is that of an ensemble: define a pipeline in a configuration file",
                "{text}"
            );
        }
        write("name: \"ensemble_of_trees\"\n# ensemble_scheduling { }");
        assert_eq!(said("ensemble/1", "notes.txt"), "");
        assert_eq!(
            said("4", "model.graphdef"),
            "; found model.graphdef of TensorFlow: rename it to *.pb"
        );
        let saved = root.path().join("5/other.savedmodel");
        touch(&saved, &["saved_model.pb"]);
        assert_eq!(
            said("5", "notes.txt"),
            "; found other.savedmodel of TensorFlow: rename it to model.savedmodel, with saved_model.pb in it"
        );
    }
}
