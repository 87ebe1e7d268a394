//! Nodes that run a Python handler: each has an `OvmsPythonModel` of its own.

use std::{
    fmt,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::sources::CustomError;
use crate::{
    config::NodeConfig,
    error::{Error, ErrorKind},
    python::{
        self, HandlerError, HandlerInstance, HandlerOutput, NodeFacts, Produced, PythonHandler,
        WorkerGroup, WorkerOptions, WorkerSeat,
    },
    tensor::{
        DataType, ShapeText, Tensor, TensorMap, byte_size, elements, named, strings::Strings,
    },
};

/// Returns whether a library of custom nodes is a Python handler, by its name alone.
pub fn is_handler(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// The `OvmsPythonModel` of a node of a pipeline.
pub struct PythonNode {
    handler: Arc<PythonHandler>,
    name: String,
    outputs: Vec<String>,
    /// Hides errors of Python code and of its results from clients.
    is_silent: bool,
    /// Number of definitions that have it: two while one takes the place of another.
    definitions: AtomicUsize,
}

/// The names of the inputs and outputs of a node that the configuration names, each once, in the order
/// of the file.
pub fn names(node: &NodeConfig) -> (Vec<String>, Vec<String>) {
    let inputs = node.inputs.iter().map(|input| &input.name);
    let outputs = node.outputs.iter().map(|output| &output.data_item);
    (each_once(inputs), each_once(outputs))
}

fn each_once<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    all
}

/// Returns the facts that the handler of a node receives.
fn facts(node: &NodeConfig, params: &[(String, String)], path: &Path) -> NodeFacts {
    let (input_names, output_names) = names(node);
    NodeFacts {
        node_name: node.name.clone(),
        input_names,
        outputs: output_names
            .iter()
            .map(|name| HandlerOutput::outward(name))
            .collect(),
        handler_path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        params: Some(params.to_vec()),
    }
}

/// Refuses an `execute` that is a generator function.
fn returns(generates: bool) -> Result<(), CustomError> {
    match generates {
        true => Err(CustomError::Generator),
        false => Ok(()),
    }
}

/// Text of the error of a failed node.
const FAILED: &str = "Custom node failed during execution";

impl PythonNode {
    /// Loads the handler of a node into the workers of its pipeline, which makes its object. Blocks for as long as
    /// that takes.
    ///
    /// # Errors
    ///
    /// Fails if the handler does not load.
    pub fn load(
        workers: &Arc<WorkerGroup>,
        node: &NodeConfig,
        params: &[(String, String)],
        path: &Path,
        is_silent: bool,
    ) -> Result<Self, CustomError> {
        let facts = facts(node, params, path);
        let outputs = facts
            .outputs
            .iter()
            .map(|output| output.name.clone())
            .collect();
        let handler = PythonHandler::load(workers, facts).map_err(|error| {
            tracing::error!(
                of = workers.owner(),
                node = node.name,
                "{}",
                error.for_log()
            );
            CustomError::from(error)
        })?;
        Ok(Self {
            handler,
            name: node.name.clone(),
            outputs,
            is_silent,
            definitions: AtomicUsize::new(0),
        })
    }

    /// Runs the handler file of a node and looks at its class, without making an object. Blocks for as
    /// long as that takes.
    ///
    /// # Errors
    ///
    /// Fails if the file does not run, has no such class, or if its `execute` is a generator.
    pub fn inspect(
        node: &NodeConfig,
        params: &[(String, String)],
        path: &Path,
        options: WorkerOptions,
    ) -> Result<(), CustomError> {
        let found = PythonHandler::inspect(&facts(node, params, path), options)?;
        returns(found.generates)
    }

    /// Checks that the methods of the handler can be called as the server calls them, and that `execute` is no
    /// generator.
    ///
    /// # Errors
    ///
    /// Fails with those that cannot.
    pub fn fits(&self) -> Result<(), CustomError> {
        self.handler.fits()?;
        returns(self.handler.generates())
    }

    /// Finalizes the object of a node that no definition has, once no call is in flight any more. Blocks for as long as
    /// that takes.
    pub fn finalize(&self) {
        self.handler.finalize();
    }

    /// Notes one more definition that has it.
    pub(super) fn joins(&self) {
        self.definitions.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a definition has it.
    pub fn is_used(&self) -> bool {
        self.definitions.load(Ordering::Acquire) > 0
    }

    /// Notes that a definition no longer has it. After the last one the object is finalized, once no call is in
    /// flight any more, even if others still refer to it, such as a check in flight. Blocks for as long as that takes.
    pub(super) fn leaves(&self) {
        if self.definitions.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.handler.finalize();
        }
    }

    /// Returns whether each request has a state of its own, so that its calls come one after another.
    pub(super) fn is_stateful(&self) -> bool {
        self.handler.stateful()
    }

    /// Returns the workers of the pipeline.
    pub(super) fn workers(&self) -> &Arc<WorkerGroup> {
        self.handler.group()
    }

    /// Makes what one request has of the node, in the worker of the request, which is chosen if it has none.
    ///
    /// # Errors
    ///
    /// Fails if `create_state` raises.
    pub(super) async fn open(
        &self,
        seat: &OnceLock<Arc<WorkerSeat>>,
    ) -> Result<Arc<HandlerInstance>, Error> {
        let seat = seat.get_or_init(|| self.workers().seat(false));
        let instance = Arc::new(self.handler.instance_at(seat));
        if self.is_stateful() {
            instance.open().await.map_err(|error| self.failure(error))?;
        }
        Ok(instance)
    }

    /// Makes the error of a call that failed.
    fn failure(&self, error: HandlerError) -> Error {
        match error {
            HandlerError::Raised(raised) => self.error(FAILED, &format!(" - {raised}")),
            HandlerError::Worker(text) => self.unanswered(ErrorKind::Overloaded, &text).within(),
            HandlerError::Memory(kind, text) => self.unanswered(kind, &text),
        }
    }

    fn unanswered(&self, kind: ErrorKind, text: &str) -> Error {
        Error::new(kind, format!("{FAILED} - Node: {}; {text}", self.name))
    }

    /// Validates what `execute` gave.
    ///
    /// # Errors
    ///
    /// Fails if it raised, or gave anything else than tensors that are outputs of the node.
    pub(super) fn outputs(
        &self,
        produced: Result<Produced, HandlerError>,
    ) -> Result<TensorMap, Error> {
        let tensors = match produced {
            Ok(Produced::Outputs(tensors)) => tensors,
            // Without all inputs there only, which is not so here.
            Ok(Produced::Nothing) => Vec::new(),
            Ok(Produced::Generator(_)) => {
                let text = " - execute gave a generator; in a pipeline it returns a list of \
                            pyovms.Tensor, since there is one response";
                return Err(self.error(FAILED, text));
            }
            Err(error) => return Err(self.failure(error)),
        };
        let mut outputs = TensorMap::default();
        for given in tensors {
            let name = given.name();
            if !self.outputs.iter().any(|output| output == name) {
                let known = self.outputs.join(", ");
                let name = python::brief(name);
                let text = format!(" output: {name}; Expected: one of: {known}");
                return Err(self.error("Custom node output is unknown", &text));
            }
            if named(&outputs, name).is_some() {
                let text = format!(" output: {name}; Expected: one tensor; Actual: several");
                return Err(self.error("Custom node output is not unique", &text));
            }
            outputs.push((name.to_owned(), self.output(&given)?));
        }
        Ok(outputs)
    }

    /// Returns an output of which somebody makes use.
    ///
    /// # Errors
    ///
    /// Fails if `execute` did not give it.
    pub(super) fn wanted(&self, outputs: &TensorMap, name: &str) -> Result<Tensor, Error> {
        named(outputs, name).cloned().ok_or_else(|| {
            let given: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
            let given = match &given[..] {
                [] => "none".to_owned(),
                given => given.join(", "),
            };
            let text = format!(" output: {name}; Actual: {given}");
            self.error("Custom node output is missing", &text)
        })
    }

    /// Makes a tensor of what is called one.
    fn output(&self, given: &python::HandlerTensor) -> Result<Tensor, Error> {
        let name = given.name();
        let misfit = |status: &str, expected: &str, actual: &str| {
            let (expected, actual) = (python::brief(expected), python::brief(actual));
            let text = format!(" output: {name}; Expected: {expected}; Actual: {actual}");
            self.error(status, &text)
        };
        let Some(dtype) = DataType::from_kserve(given.datatype()) else {
            let known = DataType::ALL.map(DataType::kserve).join(", ");
            return Err(misfit(
                "Custom node has produced tensor with unspecified precision",
                &format!("one of: {known}"),
                given.datatype(),
            ));
        };
        let shape = ShapeText(given.shape());
        let lengths = given.shape().iter().map(|&length| usize::try_from(length));
        let Ok(lengths) = lengths.collect::<Result<Vec<usize>, _>>() else {
            return Err(misfit(
                "Custom node output has invalid shape",
                "lengths of 0 or more",
                &shape.to_string(),
            ));
        };
        let size = "Custom node output has invalid content size";
        let bytes = given.bytes();
        let actual = format!("{} bytes", bytes.len());
        match byte_size(dtype, &lengths) {
            Err(_) => {
                let expected = format!("{dtype} {shape} that fits in memory");
                Err(misfit(size, &expected, &actual))
            }
            Ok(Some(expected)) if expected != bytes.len() => {
                let expected = format!("{expected} bytes for {dtype} {shape}");
                Err(misfit(size, &expected, &actual))
            }
            Ok(None) => match Strings::new(bytes.clone()) {
                Ok(strings) if Some(strings.count()) == elements(&lengths) => Ok(()),
                Ok(strings) => {
                    let expected = format!("as many strings as {shape} has");
                    Err(misfit(size, &expected, &strings.count().to_string()))
                }
                Err(error) => {
                    let expected = "strings, each behind its length in 4 bytes";
                    Err(misfit(size, expected, &error.to_string()))
                }
            },
            Ok(Some(_)) => Ok(()),
        }?;
        Tensor::new(dtype, lengths, bytes.clone())
            .map_err(|error| misfit(size, "bytes that fit the shape", &error.to_string()))
    }

    /// Makes the error for the client, with the details if it may have them; the log has them anyway.
    fn error(&self, status: &str, details: &str) -> Error {
        let name = &self.name;
        if self.is_silent {
            Error::internal(format!("{status} - Node: {name}"))
                .with_source(details.trim_start_matches([' ', '-']).to_owned())
        } else {
            Error::internal(format!("{status} - Node: {name}{details}"))
        }
    }
}

/// Makes what Python is given of a tensor, without a copy.
pub(super) fn input(name: &str, tensor: &Tensor) -> python::HandlerTensor {
    let dtype = tensor.dtype();
    let lengths = tensor.shape().iter();
    python::HandlerTensor::new(
        name,
        dtype.kserve(),
        // What is in memory is not as long as that.
        lengths
            .map(|&length| i64::try_from(length).unwrap_or(i64::MAX))
            .collect(),
        tensor.data().clone(),
        true,
    )
}

impl fmt::Debug for PythonNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonNode")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(feature = "python")]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use super::PythonNode;
    use crate::python::tests::support::handler;

    /// A check that is not over, or what is left of one, may still refer to the node when a server stops.
    #[test]
    fn the_last_definition_finalizes_a_node_that_others_refer_to() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let made = handler(&format!(
            "class OvmsPythonModel:\n    def execute(self, inputs): return []\n    def finalize(self): open({log:?}, 'x')\n"
        ));
        let node = PythonNode {
            handler: Arc::clone(&made.handler),
            name: "node".to_owned(),
            outputs: Vec::new(),
            is_silent: false,
            definitions: AtomicUsize::new(0),
        };
        node.joins();
        node.joins();
        node.leaves();
        assert!(!log.exists(), "another definition has it");
        node.leaves();
        assert!(log.exists());
    }
}
