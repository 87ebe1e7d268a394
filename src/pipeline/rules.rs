//! Rules of pipelines. Each has the text that clients and readers of logs know.

use crate::diagnostic::Rule;

/// Another servable has the name.
pub const NAME_TAKEN: Rule = Rule::new(1, "Pipeline has the same name as model");

/// The library of a custom node is not there.
pub const MISSING_LIBRARY: Rule = Rule::new(2, "Pipeline refers to incorrect library");

/// A custom node's `initialize` failed.
pub const INITIALIZE: Rule = Rule::new(3, "Failure during custom node library initialization");

/// More than one demultiplexer, and one of them dynamic.
pub const DYNAMIC_AMONG_SEVERAL: Rule = Rule::new(4, "Functionality not implemented");

/// Two nodes have one name.
pub const DUPLICATE_NODE: Rule = Rule::new(
    5,
    "Pipeline definition has multiple nodes with the same name",
);

/// A model or its version is not there.
pub const MISSING_MODEL: Rule = Rule::new(6, "Pipeline definition has reference to missing model");

/// A model's batch size or shape is that of each request.
pub const AUTO_MODEL: Rule = Rule::new(7, "Value of provided parameter is forbidden");

/// A model keeps state.
pub const STATEFUL_MODEL: Rule = Rule::new(7, "Stateful model cannot be subscribed to pipeline");

/// Strings are to be split.
pub const SPLIT_STRINGS: Rule =
    Rule::new(8, "Demultiplication is not supported for string precision");

/// A custom node's metadata call failed.
pub const METADATA_CALL: Rule = Rule::new(9, "Custom node failed on metadata call");

/// A custom node's metadata call gave nothing.
pub const METADATA_HANDLE: Rule = Rule::new(
    10,
    "Custom node library has returned corrupted outputs handle",
);

/// A custom node's metadata call gave no tensors.
pub const METADATA_COUNT: Rule = Rule::new(
    10,
    "Custom node library has produced corrupted number of outputs",
);

/// An output of a demultiplexer has too few dimensions.
pub const RANK: Rule = Rule::new(11, "Pipeline has not enough shape dimensions to demultiply");

/// The first dimension is another number than that of the parts.
pub const COUNT_MISMATCH: Rule = Rule::new(
    12,
    "Demultiplication count does not match tensor first dimension",
);

/// Gathering from a node that does not exist.
pub const MISSING_GATHER: Rule = Rule::new(13, "Gather node refers to not existing node");

/// Gathering from a node that is not a demultiplexer.
pub const PLAIN_GATHER: Rule = Rule::new(14, "Gather node refers to node that isn't demultiplexer");

/// An input comes from a node that is not there.
pub const MISSING_NODE: Rule = Rule::new(15, "Pipeline definition has reference to missing node");

/// An input comes from the response.
pub const RESPONSE_AS_SOURCE: Rule = Rule::new(
    16,
    "Pipeline definition has response node used as dependency node",
);

/// A node has no such input.
pub const MISSING_INPUT: Rule = Rule::new(
    17,
    "Pipeline definition has connection to non existing model input",
);

/// An input has two sources.
pub const DUPLICATE_INPUT: Rule = Rule::new(
    18,
    "Pipeline definition has multiple connections to the same input of underlying model",
);

/// A node has no such alias, or the pipeline no such input.
pub const MISSING_SOURCE: Rule = Rule::new(
    19,
    "Pipeline definition has reference to missing data source",
);

/// Alias of an output that does not exist.
pub const MISSING_OUTPUT: Rule = Rule::new(
    20,
    "Pipeline definition has reference to missing model output",
);

/// Two connected tensors differ in shape.
pub const SHAPE: Rule = Rule::new(21, "Invalid input shape");

/// Two connected tensors differ in type.
pub const PRECISION: Rule = Rule::new(22, "Invalid input precision");

/// Strings between two nodes.
pub const STRINGS: Rule = Rule::new(23, "Functionality not implemented");

/// An input has no source.
pub const OPEN_INPUT: Rule = Rule::new(
    24,
    "Pipeline definition does not have connections for all inputs of underlying models",
);

/// A node waits for itself.
pub const CYCLE: Rule = Rule::new(25, "Pipeline definition contains a cycle");

/// A node leads nowhere.
pub const UNCONNECTED: Rule = Rule::new(26, "Pipeline definition has unconnected nodes");

/// Levels that are not closed in reverse order.
pub const ORDER: Rule = Rule::new(27, "Demultiplexer and gather nodes are not in LIFO order");

/// The nodes that read one input of the pipeline cannot all be content.
pub const INPUT_METADATA: Rule = Rule::new(
    28,
    "Multiple nodes connected to the same pipeline input require different tensor metadata",
);
