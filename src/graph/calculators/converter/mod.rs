//! Converts OpenVINO tensors to tensors of Python nodes, and back.

use super::prelude::*;
use crate::{
    graph::{convert, node::Port, packet::TensorKind},
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

/// Kind of tensors on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    OpenVino,
    Python,
}

/// Prefixes of tags.
const OPENVINO: &str = "OVTENSOR";
const PYTHON: &str = "OVMS_PY_TENSOR";

impl Side {
    const fn packet_type(self) -> PacketType {
        match self {
            Self::OpenVino => PacketType::Tensor(TensorKind::OpenVino),
            Self::Python => PacketType::Python,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::OpenVino => Self::Python,
            Self::Python => Self::OpenVino,
        }
    }

    /// Parses a tag: the kind of tensors, and the tag of the counterpart.
    fn read(tag: &str) -> Option<(Self, String)> {
        let openvino = tag.strip_prefix(OPENVINO);
        let openvino = openvino.map(|rest| (Self::OpenVino, format!("{PYTHON}{rest}")));
        let python = || tag.strip_prefix(PYTHON);
        openvino.or_else(|| python().map(|rest| (Self::Python, format!("{OPENVINO}{rest}"))))
    }
}

/// Input and the output it is converted to.
#[derive(Debug)]
struct Pair {
    input: usize,
    output: usize,
    /// Kind of the input tensors.
    from: Side,
    /// Name of the Python tensors, if those are the output.
    name: String,
}

fn contract(node: &NodeSpec) -> Result<Contract, String> {
    let pairs = pairs(node)?;
    let mut contract = Contract::any(node);
    for pair in pairs {
        contract.inputs[pair.input] = pair.from.packet_type();
        contract.outputs[pair.output] = pair.from.other().packet_type();
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
        if Side::read(tag).is_none() {
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
        let (from, tag) = partner(port);
        let Some(output) = outputs.find(&tag, port.at.index) else {
            return Err(unpaired("input", port, "output", &tag));
        };
        let name = options.tag_to_output_tensor_names.get(&tag);
        if from == Side::OpenVino && name.is_none() {
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
            name: name.cloned().unwrap_or_default(),
        });
    }
    for port in outputs.iter() {
        let (_, tag) = partner(port);
        if inputs.find(&tag, port.at.index).is_none() {
            return Err(unpaired("output", port, "input", &tag));
        }
    }
    Ok(pairs)
}

/// Returns the kind of tensors of a stream, and the tag of its counterpart.
fn partner(port: &Port) -> (Side, String) {
    Side::read(&port.at.tag).unwrap_or((Side::OpenVino, PYTHON.to_owned()))
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
                Some(Payload::Tensor(TensorKind::OpenVino, tensor))
                    if pair.from == Side::OpenVino =>
                {
                    Payload::Python(to_python(&pair.name, tensor)?)
                }
                Some(Payload::Python(tensor)) if pair.from == Side::Python => {
                    Payload::Tensor(TensorKind::OpenVino, to_openvino(tensor)?)
                }
                Some(other) => {
                    return Err(GraphRunError::invalid(format!(
                        "Input stream \"{}\" has a packet of another type. Expected: {}; Actual: {}",
                        context.node.inputs[pair.input].name,
                        pair.from.packet_type(),
                        other.kind()
                    )));
                }
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
    let shape = convert::lengths(tensor).collect();
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
            "Undefined precision in input python tensor: {datatype}"
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
