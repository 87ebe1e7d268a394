//! Graphs under measurement, and their handlers.

use std::{
    borrow::Cow,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;

/// Name of the input of every graph.
pub(super) const INPUT: &str = "input";

/// Number of outputs of the generator.
pub(super) const OUTPUTS: usize = 10_000;

/// Expression that takes Python some 10 ms.
pub(super) const COMPUTE: &str = "sum(n * n % 7 for n in range(200_000))";

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
    /// Gives a tensor of `pyovms.empty` as large as its input.
    Empty,
    /// Gives as much of bytes of its own.
    Own,
    /// Copies these into a tensor of `pyovms.empty`.
    Copied,
    /// Returns the number of its process.
    Process,
    /// Computes in Python alone, for some 10 ms.
    Compute,
}

impl Node {
    /// Returns the name of the graph.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Numpy => "numpy",
            Self::Generator => "generator",
            Self::Look => "look",
            Self::Empty => "empty",
            Self::Own => "own",
            Self::Copied => "copied",
            Self::Process => "process",
            Self::Compute => "compute",
        }
    }

    fn execute(self) -> Cow<'static, str> {
        let text = match self {
            Self::Echo => "return [Tensor('output', inputs[0])]",
            Self::Numpy => "return [Tensor('output', numpy.asarray(inputs[0]))]",
            Self::Generator => {
                "return ([Tensor('output', number.to_bytes(4, 'little'))] for number in \
                 range(10_000))"
            }
            Self::Look => "return [Tensor('output', inputs[0].size.to_bytes(8, 'little'))]",
            Self::Empty => "return [pyovms.empty('output', inputs[0].shape, 'UINT8')]",
            Self::Own => {
                "return [Tensor('output', OWN[:inputs[0].size], shape=inputs[0].shape, \
                 datatype='UINT8')]"
            }
            Self::Copied => {
                "output = pyovms.empty('output', inputs[0].shape, 'UINT8')\n        \
                 numpy.asarray(output)[0] = OWN[:inputs[0].size]\n        return [output]"
            }
            Self::Process => "return [Tensor('output', os.getpid().to_bytes(8, 'little'))]",
            Self::Compute => {
                return format!("return [Tensor('output', {COMPUTE}.to_bytes(8, 'little'))]")
                    .into();
            }
        };
        text.into()
    }

    fn handler(self) -> String {
        let import = match self {
            Self::Numpy => "import numpy\n",
            Self::Empty => "import pyovms\n",
            Self::Own => "OWN = memoryview(b'7' * 10_000_000)\n",
            Self::Copied => "import numpy\nimport pyovms\nOWN = memoryview(b'7' * 10_000_000)\n",
            Self::Process => "import os\n",
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
    write_many(folder, node, 1, 1)
}

/// Writes a graph of one node into a folder, to be served under so many names with so many workers each; returns the
/// configuration file.
pub(super) fn write_many(folder: &Path, node: Node, graphs: usize, workers: usize) -> PathBuf {
    put(folder, "handler.py", &node.handler());
    put(folder, "graph.pbtxt", &node.graph());
    let graphs = (0..graphs).map(|index| {
        json!({
            "name": name(node, index),
            "base_path": folder,
            "graph_path": "graph.pbtxt",
            "python_workers": workers,
        })
    });
    let graphs: Vec<_> = graphs.collect();
    let config = json!({ "model_config_list": [], "mediapipe_config_list": graphs });
    put(folder, "config.json", &config.to_string())
}

/// Returns the name of one of several graphs; the first is called as its node.
pub(super) fn name(node: Node, index: usize) -> String {
    match index {
        0 => node.name().to_owned(),
        _ => format!("{}{index}", node.name()),
    }
}

/// A Python node, a model, and a Python node.
const AROUND: &str = r#"
input_stream: "OVMS_PY_TENSOR:input"
output_stream: "OVMS_PY_TENSOR:last"
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: { servable_name: "model" }
  }
}
node {
  name: "first"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:input"
  output_stream: "OUT:output"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "first.py" }
  }
}
node {
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "OVMS_PY_TENSOR:output"
  output_stream: "OVTENSOR:question"
}
node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:session"
  input_stream: "IN:question"
  output_stream: "OUT:answer"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOInferenceCalculatorOptions]: {
      tag_to_input_tensor_names { key: "IN" value: "in" }
      tag_to_output_tensor_names { key: "OUT" value: "out" }
    }
  }
}
node {
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "OVTENSOR:answer"
  output_stream: "OVMS_PY_TENSOR:taken"
  node_options: {
    [type.googleapis.com / mediapipe.PyTensorOvTensorConverterCalculatorOptions]: {
      tag_to_output_tensor_names { key: "OVMS_PY_TENSOR" value: "taken" }
    }
  }
}
node {
  name: "last"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:taken"
  output_stream: "OUT:last"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "last.py" }
  }
}
"#;

/// Writes a graph of a Python node, a model, and a Python node that reads the size; returns the graph file.
pub(super) fn write_around(folder: &Path, first: Node) -> PathBuf {
    put(folder, "first.py", &first.handler());
    let last = Node::Look.handler().replace("'output'", "'last'");
    put(folder, "last.py", &last);
    put(folder, "around.pbtxt", AROUND)
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
