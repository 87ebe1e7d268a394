//! Configuration files with graphs, and requests to them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{Server, http::post, pipelines::Config};

/// The list of graphs.
pub(crate) const LIST: &str = "mediapipe_config_list";

/// A graph that answers with what it is given: `in` as `out`.
pub(crate) const PASS: &str = r#"input_stream: "OVTENSOR:in"
output_stream: "OVTENSOR:out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "OVTENSOR:in"
  output_stream: "OVTENSOR:out"
}
"#;

/// The same with two streams.
pub(crate) const TWO: &str = r#"input_stream: "OVTENSOR1:a"
input_stream: "OVTENSOR2:b"
output_stream: "OVTENSOR1:c"
output_stream: "OVTENSOR2:d"
node {
  calculator: "PassThroughCalculator"
  input_stream: "OVTENSOR1:a"
  input_stream: "OVTENSOR2:b"
  output_stream: "OVTENSOR1:c"
  output_stream: "OVTENSOR2:d"
}
"#;

/// A graph of one Python node with this handler beside it.
pub(crate) const PYTHON: &str = r#"input_stream: "OVMS_PY_TENSOR:in"
output_stream: "OVMS_PY_TENSOR:out"
node {
  name: "py"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:in"
  output_stream: "OUT:out"
  node_options: {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "handler.py" }
  }
}
"#;

/// Writes a graph into the folder of its name beside the file, and lists it.
pub(crate) fn add(config: &mut Config, name: &str, text: &str) -> PathBuf {
    let path = write(&config.beside(name), text);
    if config.json.get(LIST).is_none() {
        config.json[LIST] = json!([]);
    }
    config.put(LIST, json!({"name": name}));
    path
}

/// Writes a graph of one Python node, and lists it. Returns the path of the handler.
pub(crate) fn add_python(config: &mut Config, name: &str, handler: &str) -> PathBuf {
    let graph = add(config, name, PYTHON);
    let path = graph.with_file_name("handler.py");
    fs::write(&path, handler).unwrap();
    path
}

/// Writes the graph of a folder, in one step.
pub(crate) fn write(folder: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("graph.pbtxt");
    let next = folder.join("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, &path).unwrap();
    path
}

/// Asks for a reload without another configuration file; returns the status.
pub(crate) fn reload(server: &Server) -> u16 {
    post(server, "/v1/config/reload", b"").status
}

/// Returns the changes of state in the log: `STATE Event`.
pub(crate) fn changes(server: &Server, name: &str) -> Vec<String> {
    let begin = format!("Mediapipe: {name} state changed to: ");
    let log = server.log();
    let lines = log.lines().filter_map(|line| line.split_once(&begin));
    lines
        .map(|(_, rest)| rest.trim_end_matches(": ").replace(" after handling:", ""))
        .collect()
}
