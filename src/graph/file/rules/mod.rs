//! Rules of graph files. Each has the texts that clients and readers of logs know.

mod found;

pub(in crate::graph) use found::{Found, status};

use crate::diagnostic::Rule;

/// The file cannot be read.
pub const FILE: Rule = Rule::new(2, "File not found or cannot open");

/// The file is empty.
pub const EMPTY: Rule = Rule::new(3, "Failed to read protobuf graph configuration file")
    .log("Trying to parse empty mediapipe graph definition: {name} failed");

/// The file is not a graph.
pub const TEXT: Rule = Rule::new(3, "Failed to read protobuf graph configuration file")
    .log("Trying to parse mediapipe graph definition: {name} failed");

/// The pool directive is invalid, or does not fit the graph.
pub const POOL: Rule = Rule::new(4, "Failed to read protobuf graph configuration file").log("");

/// Two inputs have the same name.
pub const INPUT_NAME: Rule = Rule::new(5, "Mediapipe unexpected input stream packets name")
    .log("Creating Mediapipe graph inputs name failed for: {subject}");

/// Two outputs have the same name.
pub const OUTPUT_NAME: Rule = Rule::new(6, "Mediapipe unexpected output stream packets name")
    .log("Creating Mediapipe graph outputs name failed for: {subject}");

/// No input, or no output.
pub const NO_PORTS: Rule = Rule::new(7, "Internal server error")
    .log("Mediapipe graph: {name} having less than one input or output is disallowed");

/// TensorFlow Lite tensors, which clients cannot send.
pub const TF_LITE: Rule = Rule::new(8, "Functionality not implemented").log("");

/// A whole request as input, without a whole response as output.
pub const NO_RESPONSE: Rule = Rule::new(
    9,
    "Mediapipe KFS pass through graph is missing RESPONSE: string in the output name",
)
.log("");

/// A whole response as output, without a whole request as input.
pub const NO_REQUEST: Rule = Rule::new(
    10,
    "Mediapipe KFS pass through graph is missing REQUEST: string in the input name",
)
.log("");

/// A whole request as input, and another number of outputs than one.
pub const REQUEST_OUTPUTS: Rule =
    Rule::new(11, "Mediapipe unexpected output stream packets count").log("");

/// A whole request as input, and another number of inputs than one.
pub const REQUEST_INPUTS: Rule =
    Rule::new(11, "Mediapipe unexpected input stream packets count").log("");

/// Invalid streams, tags, side packets, handlers, or contract of a calculator.
pub const WIRING: Rule = Rule::new(12, "Failed to initialize mediapipe graph")
    .log("Mediapipe graph: {name} initialization failed with message");

/// A Python node has no options.
pub const PYTHON_OPTIONS: Rule = Rule::new(13, "The Python Node is missing options definition")
    .log("Python node missing options in graph: {name}");

/// A Python node has no name.
pub const PYTHON_NAME: Rule = Rule::new(13, "The Python Node is missing name definition")
    .log("Python node name is missing in graph: {name}");

/// Two Python nodes have the same name.
pub const PYTHON_REPEATED: Rule =
    Rule::new(13, "The Python Node name is already present in nodes list")
        .log("Python node name: {subject} already used in graph: {name}");

/// A Python node's options name no file.
pub const PYTHON_PATH: Rule =
    Rule::new(13, "Failed to read protobuf graph configuration file").log("");

/// Options of workers are out of bounds, or not the same in all nodes.
pub const PYTHON_WORKERS: Rule = Rule::new(13, "The options of Python workers are invalid");

/// The file of a Python node does not exist.
pub const PYTHON_FILE: Rule = Rule::new(13, "The Python Node file path does not exist");

/// The class of a Python node cannot be instantiated.
pub const PYTHON_STATE: Rule = Rule::new(13, "The Python Node state initialization failed");
