//! Complete graphs as written by users, and large ones.

use std::{fmt::Write, time::Instant};

use super::{sound, validate};
use crate::{
    graph::check::plan::InputHandler,
    proto::mediapipe::{
        PyTensorOvTensorConverterCalculatorOptions, PythonExecutorCalculatorOptions,
    },
};

/// Python nodes before and after a model.
const AROUND_A_MODEL: &str = r#"
input_stream: "OVMS_PY_TENSOR:input"
output_stream: "OVMS_PY_TENSOR:output"

node {
  name: "PythonPreprocess"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:input"
  output_stream: "OUTPUT:preprocessed_py"
  node_options: {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "/ovms/workspace/preprocess.py"
    }
  }
}

node {
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "OVMS_PY_TENSOR:preprocessed_py"
  output_stream: "OVTENSOR:preprocessed_ov"
}

node {
  calculator: "OpenVINOInferenceCalculator"
  input_side_packet: "SESSION:session" # inference session
  input_stream: "OVTENSOR:preprocessed_ov"
  output_stream: "OVTENSOR:result_ov"
}

node {
  calculator: "PyTensorOvTensorConverterCalculator"
  input_stream: "OVTENSOR:result_ov"
  output_stream: "OVMS_PY_TENSOR:result_py"
  node_options: {
    [type.googleapis.com/mediapipe.PyTensorOvTensorConverterCalculatorOptions]: {
      tag_to_output_tensor_names {
        key: "OVMS_PY_TENSOR"
        value: "result_py"
      }
    }
  }
}

node {
  name: "PythonPostprocess"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:result_py"
  output_stream: "OUTPUT:output"
  node_options: {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "/ovms/workspace/postprocess.py"
    }
  }
}
"#;

/// Node that produces many outputs for one input.
const GENERATIVE: &str = r#"
node {
  name: "python_node"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:input"
  input_stream: "LOOPBACK:loopback"
  input_stream_info: {
    tag_index: 'LOOPBACK:0',
    back_edge: true
  }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler",
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set {
          tag_index: "LOOPBACK:0"
        }
      }
    }
  }
  output_stream: "OUTPUT:output"
  output_stream: "LOOPBACK:loopback"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "/ovms/workspace/model.py"
    }
  }
}
"#;

/// Node that runs with incomplete inputs.
const INCOMPLETE: &str = r#"
node {
  name: "python_node"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT1:labels"
  input_stream: "INPUT2:image"
  input_stream_handler {
    input_stream_handler: "ImmediateInputStreamHandler",
  }
  output_stream: "OUTPUT:result"
  output_stream: "ERROR:error_message"
  node_options: {
    [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: {
      handler_path: "/ovms/workspace/model.py"
    }
  }
}
"#;

#[test]
fn python_around_a_model() {
    let plan = sound(AROUND_A_MODEL).plan;
    let names: Vec<_> = plan
        .nodes
        .iter()
        .map(|node| node.spec.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "PythonPreprocess",
            "PyTensorOvTensorConverterCalculator_1",
            "OpenVINOInferenceCalculator",
            "PyTensorOvTensorConverterCalculator_2",
            "PythonPostprocess",
        ]
    );
    let options: PythonExecutorCalculatorOptions = plan.nodes[0].spec.options.get().unwrap();
    assert_eq!(options.handler_path, "/ovms/workspace/preprocess.py");
    let options: PyTensorOvTensorConverterCalculatorOptions =
        plan.nodes[3].spec.options.get().unwrap();
    assert_eq!(
        options.tag_to_output_tensor_names["OVMS_PY_TENSOR"],
        "result_py"
    );
    let session = plan.sides.iter().find(|side| side.name == "session");
    assert_eq!(session.unwrap().from, None, "a request may give it");
}

#[test]
fn generative_and_incomplete_nodes() {
    let ports = "input_stream: 'OVMS_PY_TENSOR:input' output_stream: 'OVMS_PY_TENSOR:output'";
    let plan = sound(&format!("{ports}{GENERATIVE}")).plan;
    assert_eq!(
        plan.nodes[0].handler,
        InputHandler::SyncSet(vec![vec![1], vec![0]])
    );
    let ports =
        "input_stream: 'OVMS_PY_TENSOR_LABELS:labels' input_stream: 'OVMS_PY_TENSOR_IMAGE:image'
        output_stream: 'OVMS_PY_TENSOR:result' output_stream: 'OVMS_PY_TENSOR_ERROR:error_message'";
    let plan = sound(&format!("{ports}{INCOMPLETE}")).plan;
    assert_eq!(plan.nodes[0].handler, InputHandler::Immediate);
}

#[test]
fn large_graphs_are_validated_in_time() {
    let mut text = String::from("input_stream: 's0' output_stream: 's0' ");
    let mut node = 0;
    while text.len() < 5 << 20 {
        // All on one line, with every second one invalid.
        write!(
            text,
            "node {{ calculator: 'PassThroughCalculator' input_stream: 's{}' output_stream: 's{}' }} ",
            node / 2 * 3,
            node + 1
        )
        .unwrap();
        node += 1;
    }
    let begun = Instant::now();
    let errors = validate(&text).unwrap_err();
    assert_eq!(errors.errors.len(), 100);
    assert!(begun.elapsed().as_secs() < 300, "{:?}", begun.elapsed());
}
