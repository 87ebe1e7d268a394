//! Tests of a handler from its file to its outputs.

use bytes::Bytes;

use super::support::{asserts, executes, floats, handler, text};
use crate::python::{self, HandlerTensor};

#[test]
fn an_echo_returns_what_it_gets() {
    let made = executes("return [Tensor('out', inputs[0])]");
    let input = floats("a", &[1, 3], &[1.0, 2.0, 3.0]);
    let outputs = made.outputs(std::slice::from_ref(&input));
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0].name(), "out");
    assert_eq!(outputs[0].datatype(), "FP32");
    assert_eq!(outputs[0].shape(), [1, 3]);
    assert_eq!(outputs[0].bytes(), input.bytes());
    assert!(python::describe().unwrap().starts_with("Python 3."));
}

#[test]
fn numpy_sees_the_values() {
    asserts(
        &[floats("a", &[2, 2], &[1.0, 2.0, 3.0, 4.0])],
        "import numpy as np\narray = np.array(inputs[0])\nassert array.dtype == np.float32\nassert array.tolist() == [[1, 2], [3, 4]]",
    );
}

#[test]
fn a_node_is_reported_its_facts() {
    let made = handler(
        "import json\nfrom pyovms import Tensor\nclass OvmsPythonModel:\n    def initialize(self, kwargs):\n        self.kwargs = kwargs\n    def execute(self, inputs):\n        return [Tensor('out', json.dumps(self.kwargs).encode())]\n",
    );
    let outputs = made.outputs(&[]);
    let reported: serde_json::Value = serde_json::from_str(text(&outputs[0])).unwrap();
    assert_eq!(
        reported,
        serde_json::json!({
            "node_name": "node",
            "input_names": ["a", "b"],
            "output_names": ["out", "a", "b", "c", "d"],
            "outputs_names": ["out", "a", "b", "c", "d"],
            "base_path": made.folder.path().to_str().unwrap(),
        })
    );
}

#[test]
fn bytes_without_a_format_are_a_row_of_bytes() {
    let input = HandlerTensor::new(
        "a",
        "my_string",
        vec![3],
        Bytes::from_static(b"twenty three bytes long"),
        false,
    );
    asserts(
        &[input],
        "t = inputs[0]\nassert (t.datatype, t.shape, t.size) == ('my_string', (3,), 23), t\nassert (t.data.format, t.data.shape) == ('B', (23,))",
    );
}
