//! Converts OpenVINO tensors to tensors of Python nodes, and back.

use super::prelude::*;
use crate::{
    graph::calculators::{node::Port, packet::TensorKind},
    proto::mediapipe::PyTensorOvTensorConverterCalculatorOptions as Options,
    python,
    tensor::{DataType, Tensor},
};

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "PyTensorOvTensorConverterCalculator",
    about: "Turns tensors of OpenVINO into those of Python nodes, and back.",
    contract: |ask| ask.by_hand(contract),
    make: |node, _| Box::new(Converter(pairs(node).unwrap_or_default())),
}];

/// Prefixes of tags.
const OPENVINO: &str = "OVTENSOR";
const PYTHON: &str = "OVMS_PY_TENSOR";

/// Input and the output it is converted to.
#[derive(Debug)]
struct Pair {
    input: usize,
    output: usize,
    /// Type of the input tensors, and of the output's.
    from: PacketType,
    to: PacketType,
    /// Name of the Python tensors, if those are the output.
    name: String,
}

fn contract(node: &NodeSpec) -> Result<Contract, String> {
    let pairs = pairs(node)?;
    let mut contract = Contract::any(node);
    for pair in pairs {
        contract.inputs[pair.input] = pair.from;
        contract.outputs[pair.output] = pair.to;
    }
    contract.offset = Some(0);
    Ok(contract)
}

/// Finds the output for each input.
fn pairs(node: &NodeSpec) -> Result<Vec<Pair>, String> {
    let (inputs, outputs) = (&node.inputs, &node.outputs);
    if inputs.is_empty() || outputs.is_empty() {
        return Err("needs at least one input stream and one output stream".to_owned());
    }
    let is_alone = inputs.len() == 1 && outputs.len() == 1;
    for port in inputs.iter().chain(outputs.iter()) {
        let (name, tag) = (&port.name, &port.at.tag);
        if !tag.starts_with(OPENVINO) && !tag.starts_with(PYTHON) {
            return Err(format!(
                "has a stream {name:?} with the tag {tag:?}; tags begin with {OPENVINO} or {PYTHON}"
            ));
        }
        if is_alone && tag != OPENVINO && tag != PYTHON {
            return Err(format!(
                "has one input and one output stream, of which one has the tag {OPENVINO} and the \
                 other {PYTHON}; found: {tag}"
            ));
        }
    }
    let options: Options = node.options.get().unwrap_or_default();
    let mut pairs = Vec::with_capacity(inputs.len());
    for (input, port) in inputs.iter().enumerate() {
        let tag = partner(port);
        let Some(output) = outputs.find(&tag, port.at.index) else {
            return Err(unpaired("input", port, "output", &tag));
        };
        let name = options.tag_to_output_tensor_names.get(&tag);
        let [from, to] = [&port.at.tag, &tag].map(|tag| PacketType::of_tag(tag));
        if to == PacketType::Python && name.is_none() {
            return Err(format!(
                "has no name for the tensors of the output {tag}: \
                 `tag_to_output_tensor_names {{ key: \"{tag}\" value: \"name\" }}` in \
                 PyTensorOvTensorConverterCalculatorOptions gives one"
            ));
        }
        pairs.push(Pair {
            input,
            output,
            from,
            to,
            name: name.cloned().unwrap_or_default(),
        });
    }
    for port in outputs.iter() {
        let tag = partner(port);
        if inputs.find(&tag, port.at.index).is_none() {
            return Err(unpaired("output", port, "input", &tag));
        }
    }
    Ok(pairs)
}

/// Returns the tag of the counterpart of a stream.
fn partner(port: &Port) -> String {
    let tag = &port.at.tag;
    let openvino = tag.strip_prefix(OPENVINO);
    let other = openvino.map(|rest| format!("{PYTHON}{rest}"));
    other.unwrap_or_else(|| tag.replacen(PYTHON, OPENVINO, 1))
}

fn unpaired(direction: &str, port: &Port, other: &str, tag: &str) -> String {
    format!(
        "has the {direction} stream {} without an {other} stream {tag}:{}",
        port.at, port.at.index
    )
}

struct Converter(Vec<Pair>);

impl Calculator for Converter {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        for pair in &self.0 {
            let made = match context.input(pair.input) {
                None => continue,
                Some(given) if given.kind() != pair.from => {
                    return Err(GraphRunError::invalid(format!(
                        "Input stream \"{}\" has a packet of another type. Expected: {}; Actual: {}",
                        context.node.inputs[pair.input].name,
                        pair.from,
                        given.kind()
                    )));
                }
                Some(Payload::Tensor(_, tensor)) => Payload::Python(to_python(&pair.name, tensor)?),
                Some(Payload::Python(tensor)) => {
                    Payload::Tensor(TensorKind::OpenVino, to_openvino(tensor)?)
                }
                Some(_) => continue,
            };
            context.send(pair.output, made);
        }
        Ok(StepOutcome::Next)
    }
}

fn to_python(name: &str, tensor: &Tensor) -> Result<python::HandlerTensor, GraphRunError> {
    let dtype = tensor.dtype();
    if dtype == DataType::String {
        return Err(GraphRunError::invalid(format!(
            "Undefined precision in input tensor: {}",
            dtype.precision()
        )));
    }
    let shape = tensor.lengths().collect();
    let (datatype, data) = (dtype.kserve(), tensor.data().clone());
    Ok(python::HandlerTensor::new(
        name, datatype, shape, data, true,
    ))
}

fn to_openvino(tensor: &python::HandlerTensor) -> Result<Tensor, GraphRunError> {
    let datatype = tensor.datatype();
    let dtype = DataType::from_kserve(datatype).filter(|&dtype| dtype != DataType::String);
    let Some(dtype) = dtype else {
        return Err(GraphRunError::invalid(format!(
            "Undefined precision in input python tensor: {}",
            python::brief(datatype)
        )));
    };
    let length = |&length: &i64| {
        let negative = || format!("dimension negative during conversion: {length}");
        usize::try_from(length).map_err(|_| GraphRunError::invalid(negative()))
    };
    let shape = tensor.shape().iter().map(length);
    let shape = shape.collect::<Result<Vec<_>, _>>()?;
    let actual = tensor.bytes().len();
    let expected = match crate::tensor::byte_size(dtype, &shape) {
        Ok(Some(expected)) if expected == actual => None,
        Ok(expected) => Some(expected.unwrap_or_default().to_string()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(expected) = expected {
        return Err(GraphRunError::invalid(format!(
            "python buffer size: {actual}; OV tensor size: {expected}; mismatch"
        )));
    }
    Tensor::new(dtype, shape, tensor.bytes().clone())
        .map_err(|error| GraphRunError::internal(error.to_string()))
}

#[cfg(test)]
mod tests;
