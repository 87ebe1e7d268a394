//! Configuration files with pipelines, and runs of `ovms pipeline check` on them.

use std::{fs, path::Path};

use tempfile::TempDir;

use super::{
    cli::{self, Run},
    model, repository,
};

/// A folder with a configuration file.
pub(crate) struct Case {
    folder: TempDir,
}

impl Case {
    /// Creates an empty case.
    pub(crate) fn new() -> Self {
        Self {
            folder: repository::folder(),
        }
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes the configuration file.
    pub(crate) fn config(&self, text: &str) {
        fs::write(self.path().join("config.json"), text).unwrap();
    }

    /// Checks with the runtime; paths are removed from the output.
    pub(crate) fn check(&self, args: &[&str]) -> Run {
        self.run(cli::command(), args)
    }

    /// Checks with a command of the program.
    pub(crate) fn run(&self, mut command: std::process::Command, args: &[&str]) -> Run {
        let mut run = cli::run(
            command
                .current_dir(self.path())
                .args(["pipeline", "check", "config.json"])
                .args(args),
        );
        let hidden = |text: &str| text.replace(self.path().to_str().unwrap(), "<folder>");
        run.stderr = hidden(&run.stderr);
        run.stdout = hidden(&String::from_utf8(run.stdout).unwrap()).into_bytes();
        run
    }
}

/// Returns the output and the exit code of a run.
pub(crate) fn shown(run: &Run) -> String {
    format!("{}{}", run.text(), run.failure())
}

/// Writes an entry of `model_config_list`; more settings follow.
pub(crate) fn entry(name: &str, base_path: &Path, more: &str) -> String {
    format!(
        r#"{{"config": {{"name": "{name}", "base_path": "{}"{more}}}}}"#,
        base_path.display()
    )
}

/// Writes a connection: `b < request.x`.
pub(crate) fn connection(text: &str) -> String {
    let (name, source) = text.split_once(" < ").unwrap();
    let (node, item) = source.split_once('.').unwrap();
    format!(r#"{{"{name}": {{"node_name": "{node}", "data_item": "{item}"}}}}"#)
}

/// Writes a list of connections.
pub(crate) fn connections(list: &[&str]) -> String {
    let list: Vec<String> = list.iter().map(|text| connection(text)).collect();
    list.join(", ")
}

/// Writes a node that runs a model, or a library if the name begins with `@`; more settings follow.
pub(crate) fn node(
    name: &str,
    runs: &str,
    inputs: &[&str],
    outputs: &[&str],
    more: &str,
) -> String {
    let runs = match runs.strip_prefix('@') {
        Some(library) => format!(r#""type": "custom", "library_name": "{library}""#),
        None => format!(r#""type": "DL model", "model_name": "{runs}""#),
    };
    let outputs: Vec<String> = outputs
        .iter()
        .map(|name| format!(r#"{{"data_item": "{name}", "alias": "{name}"}}"#))
        .collect();
    format!(
        "{{\"name\": \"{name}\", {runs}{more},\n \"inputs\": [{}],\n \"outputs\": [{}]}}",
        connections(inputs),
        outputs.join(", ")
    )
}

/// Writes a pipeline with the input `x`; more settings follow.
pub(crate) fn pipeline(name: &str, nodes: &[String], outputs: &[&str], more: &str) -> String {
    format!(
        "{{\"name\": \"{name}\", \"inputs\": [\"x\"]{more},\n\"nodes\": [\n{}],\n\"outputs\": [{}]}}",
        nodes.join(",\n"),
        connections(outputs)
    )
}

/// Writes a configuration file.
pub(crate) fn file(models: &[String], libraries: &[String], pipelines: &[String]) -> String {
    format!(
        "{{\"model_config_list\": [\n{}],\n\"custom_node_library_config_list\": \
         [\n{}],\n\"pipeline_config_list\": [\n{}]}}\n",
        models.join(",\n"),
        libraries.join(",\n"),
        pipelines.join(",\n")
    )
}

/// Writes an entry of `custom_node_library_config_list`.
pub(crate) fn library(name: &str, path: &Path) -> String {
    format!(r#"{{"name": "{name}", "base_path": "{}"}}"#, path.display())
}

/// Writes a valid pipeline of one node.
pub(crate) fn sound(name: &str) -> String {
    let inner = node("a", "dummy", &["b < request.x"], &["a"], "");
    pipeline(name, &[inner], &["y < a.a"], "")
}

/// Writes the entry of the model that most tests have.
pub(crate) fn dummy() -> String {
    entry("dummy", &model("dummy"), "")
}
