//! The same work with raw OpenVINO.

use openvino::{CompiledModel, InferRequest, Shape, Tensor};

use crate::{Model, raw};

/// Maximum time to wait for an inference, in milliseconds.
const MAX_WAIT_MS: i64 = 60_000;

/// A model with an infer request.
pub(super) struct Step {
    request: Request,
    _model: CompiledModel,
}

/// An infer request with tensors of fixed shapes.
struct Request {
    request: InferRequest,
    inputs: Vec<(String, Tensor)>,
}

impl Request {
    /// Creates one from a compiled model.
    fn new(compiled: &mut CompiledModel, model: &Model) -> Self {
        let mut request = compiled.create_infer_request().expect("a request");
        let count = compiled.get_input_size().expect("it has inputs");
        let inputs = (0..count).map(|port| {
            let node = compiled
                .get_input_by_index(port)
                .expect("there are as many");
            let name = node.get_name().expect("it has a name");
            let tensor = if node
                .get_partial_shape()
                .expect("it has a shape")
                .is_dynamic()
            {
                let shape: Vec<i64> = model.shape.iter().map(|&length| length as i64).collect();
                let element = node.get_element_type().expect("it has a type");
                let shape = Shape::new(&shape).expect("a shape");
                let tensor = Tensor::new(element, &shape).expect("there is memory");
                request.set_tensor(&name, &tensor).expect("it fits");
                tensor
            } else {
                request.get_tensor(&name).expect("it has a tensor")
            };
            (name, tensor)
        });
        let inputs = inputs.collect();
        Self { request, inputs }
    }

    fn fill(&mut self, given: &[(&str, &[u8])]) {
        for (name, data) in given {
            let mut inputs = self.inputs.iter_mut();
            let (_, tensor) = inputs
                .find(|(own, _)| own == name)
                .expect("the model has it");
            let memory = tensor.get_raw_data_mut().expect("it has memory");
            memory.copy_from_slice(data);
        }
    }

    fn output(&self) -> Tensor {
        let output = self.request.get_output_tensor_by_index(0);
        output.expect("it has an output")
    }
}

impl Step {
    /// Compiles a model.
    pub(super) fn new(library: &str, model: &Model, properties: &[(&str, &str)]) -> Self {
        let mut compiled = compile(library, model, properties);
        Self {
            request: Request::new(&mut compiled, model),
            _model: compiled,
        }
    }

    /// Runs the model.
    pub(super) fn run(&mut self, given: &[(&str, &[u8])]) {
        self.request.fill(given);
        self.request.request.infer().expect("an inference");
    }

    /// Appends the bytes of its output to a buffer.
    pub(super) fn output_to(&self, whole: &mut Vec<u8>) {
        let output = self.request.output();
        whole.extend_from_slice(output.get_raw_data().expect("it has memory"));
    }
}

/// Models that run one after the other.
pub(super) struct Chain {
    steps: Vec<Step>,
    outputs: Vec<Tensor>,
    input: &'static str,
}

impl Chain {
    /// Compiles a model `count` times.
    pub(super) fn new(library: &str, model: &Model, count: usize) -> Self {
        let steps: Vec<Step> = (0..count).map(|_| Step::new(library, model, &[])).collect();
        Self {
            outputs: steps.iter().map(|step| step.request.output()).collect(),
            steps,
            input: model.input,
        }
    }

    /// Runs them, and returns a copy of the result.
    pub(super) fn run(&mut self, given: &[u8]) -> Vec<u8> {
        let mut given = given;
        for (step, output) in self.steps.iter_mut().zip(&self.outputs) {
            step.run(&[(self.input, given)]);
            given = output.get_raw_data().expect("it has memory");
        }
        given.to_vec()
    }
}

/// Infer requests of one model, all in flight at once.
pub(super) struct Parts {
    requests: Vec<Request>,
    outputs: Vec<Tensor>,
    _model: CompiledModel,
}

impl Parts {
    /// Compiles a model and creates a number of infer requests.
    pub(super) fn new(
        library: &str,
        model: &Model,
        properties: &[(&str, &str)],
        count: usize,
    ) -> Self {
        let mut compiled = compile(library, model, properties);
        let requests: Vec<Request> = (0..count)
            .map(|_| Request::new(&mut compiled, model))
            .collect();
        Self {
            outputs: requests.iter().map(Request::output).collect(),
            requests,
            _model: compiled,
        }
    }

    /// Starts all of them, and returns their results, concatenated.
    pub(super) fn run(&mut self, given: &[(&str, &[u8])]) -> Vec<u8> {
        for request in &mut self.requests {
            request.fill(given);
            request.request.infer_async().expect("it starts");
        }
        let mut whole = Vec::new();
        for (request, output) in self.requests.iter_mut().zip(&self.outputs) {
            request.request.wait(MAX_WAIT_MS).expect("it ends");
            whole.extend_from_slice(output.get_raw_data().expect("it has memory"));
        }
        whole
    }
}

fn compile(library: &str, model: &Model, properties: &[(&str, &str)]) -> CompiledModel {
    let path = model.path();
    raw::compile_with(
        library,
        path.to_str().expect("the project's folder is text"),
        properties,
    )
}
