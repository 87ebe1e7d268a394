//! Graphs under measurement, and their handlers.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

/// Name of the input of every graph.
pub(super) const INPUT: &str = "input";

/// Number of outputs of the generator.
pub(super) const OUTPUTS: usize = 10_000;

/// Kind of the Python node of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// Returns its input.
    Echo,
    /// Returns its input by way of a NumPy array.
    Numpy,
    /// Yields many small outputs, one after the other.
    Generator,
    /// Reads only the size of its input.
    Look,
}

impl Node {
    /// Returns the name of the graph.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Numpy => "numpy",
            Self::Generator => "generator",
            Self::Look => "look",
        }
    }

    const fn execute(self) -> &'static str {
        match self {
            Self::Echo => "return [Tensor('output', inputs[0])]",
            Self::Numpy => "return [Tensor('output', numpy.asarray(inputs[0]))]",
            Self::Generator => {
                "return ([Tensor('output', number.to_bytes(4, 'little'))] for number in \
                 range(10_000))"
            }
            Self::Look => "return [Tensor('output', inputs[0].size.to_bytes(8, 'little'))]",
        }
    }

    fn handler(self) -> String {
        let import = match self {
            Self::Numpy => "import numpy\n",
            _ => "",
        };
        format!(
            "{import}from pyovms import Tensor\n\n\n\
             class OvmsPythonModel:\n    def execute(self, inputs):\n        {}\n",
            self.execute()
        )
    }

    fn graph(self) -> String {
        let (sets, back) = if self == Self::Generator {
            (
                "  input_stream: \"LOOPBACK:loopback\"\n  \
                 input_stream_info: { tag_index: \"LOOPBACK:0\" back_edge: true }\n  \
                 input_stream_handler {\n    \
                 input_stream_handler: \"SyncSetInputStreamHandler\"\n    \
                 options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { \
                 sync_set { tag_index: \"LOOPBACK:0\" } } }\n  }\n",
                "  output_stream: \"LOOPBACK:loopback\"\n",
            )
        } else {
            ("", "")
        };
        format!(
            "input_stream: \"OVMS_PY_TENSOR:input\"\noutput_stream: \"OVMS_PY_TENSOR:output\"\n\
             node {{\n  name: \"node\"\n  calculator: \"PythonExecutorCalculator\"\n  \
             input_side_packet: \"PYTHON_NODE_RESOURCES:py\"\n  input_stream: \"IN:input\"\n{sets}  \
             output_stream: \"OUT:output\"\n{back}  node_options: {{\n    \
             [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {{\n      \
             handler_path: \"handler.py\"\n    }}\n  }}\n}}\n"
        )
    }
}

/// Writes a graph of one node into a folder; returns its configuration file.
pub(super) fn write(folder: &Path, node: Node) -> PathBuf {
    put(folder, "handler.py", &node.handler());
    put(folder, "graph.pbtxt", &node.graph());
    let graph = json!({
        "name": node.name(),
        "base_path": folder,
        "graph_path": "graph.pbtxt",
    });
    let config = json!({ "model_config_list": [], "mediapipe_config_list": [graph] });
    put(folder, "config.json", &config.to_string())
}

/// Writes a graph of a number of nodes that pass on their input; returns the graph file.
pub(super) fn write_chain(folder: &Path, nodes: usize) -> PathBuf {
    let mut graph =
        format!("input_stream: \"OVTENSOR:stream0\"\noutput_stream: \"OVTENSOR:stream{nodes}\"\n");
    for node in 0..nodes {
        writeln!(
            graph,
            "node {{ calculator: \"PassThroughCalculator\" input_stream: \"stream{node}\" \
             output_stream: \"stream{}\" }}",
            node + 1
        )
        .expect("text can be written to");
    }
    put(folder, &format!("chain{nodes}.pbtxt"), &graph)
}

fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder is ours");
    path
}
