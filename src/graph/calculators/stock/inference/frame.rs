//! Conversion of tensors of several frameworks to requests and back.

use super::names::ModelPort;
use crate::{
    graph::calculators::{
        error::GraphRunError,
        packet::{PacketType, Payload, TensorKind},
    },
    request::{Data, Declared, InputTensor},
    tensor::{DataType, Tensor, TensorMap, named},
};

/// Packet format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Framework of the tensors.
    pub(super) kind: TensorKind,
    /// Indicates that the packets are lists.
    pub(super) is_list: bool,
}

impl Frame {
    /// Parses a tag by its prefix.
    pub(super) fn of(tag: &str) -> Self {
        const PREFIXES: [(&str, TensorKind); 4] = [
            ("OVTENSOR", TensorKind::OpenVino),
            ("TENSOR", TensorKind::MediaPipe),
            ("TFTENSOR", TensorKind::TensorFlow),
            ("TFLITE_TENSOR", TensorKind::TfLite),
        ];
        let found = PREFIXES.into_iter().find_map(|(prefix, kind)| {
            let rest = tag.strip_prefix(prefix)?;
            let is_list = rest.starts_with('S');
            Some(Self { kind, is_list })
        });
        found.unwrap_or(Self {
            kind: TensorKind::OpenVino,
            is_list: false,
        })
    }

    /// Returns the packet type of the stream.
    pub(super) fn packet_type(self) -> PacketType {
        let one = PacketType::Tensor(self.kind);
        if self.is_list {
            PacketType::List(Box::new(one))
        } else {
            one
        }
    }
}

impl ModelPort {
    /// Converts a packet to inputs of a request.
    pub(super) fn read(
        &self,
        stream: &str,
        payload: &Payload,
        inputs: &mut Vec<InputTensor>,
    ) -> Result<(), GraphRunError> {
        let tensors = match payload {
            Payload::List(list) if self.frame.is_list => list.as_slice(),
            one if !self.frame.is_list => std::slice::from_ref(one),
            other => return Err(self.unfit(stream, other)),
        };
        let names = self.names.as_deref().unwrap_or_default();
        let (given, taken) = (tensors.len(), names.len());
        if given != taken {
            let names = names.join(", ");
            return Err(GraphRunError::internal(format!(
                "Input stream \"{stream}\" has a list of {given} tensors, which are to be {taken} \
                 inputs of the model: {names}; input_order_list names the inputs in the order of the \
                 list"
            )));
        }
        for (name, payload) in names.iter().zip(tensors) {
            match payload {
                Payload::Tensor(kind, tensor) if *kind == self.frame.kind => {
                    inputs.push(self.input(stream, name, tensor)?);
                }
                other => return Err(self.unfit(stream, other)),
            }
        }
        Ok(())
    }

    fn input(
        &self,
        stream: &str,
        name: &str,
        tensor: &Tensor,
    ) -> Result<InputTensor, GraphRunError> {
        let dtype = tensor.dtype();
        check_type(self.frame.kind, dtype).map_err(|reason| {
            GraphRunError::internal(format!("Input stream \"{stream}\" {reason}"))
        })?;
        // TensorFlow Lite tensors have no batch dimension.
        let batch = (self.frame.kind == TensorKind::TfLite).then_some(1);
        Ok(InputTensor {
            name: name.to_owned(),
            datatype: Declared::Known(dtype),
            shape: batch.into_iter().chain(tensor.lengths()).collect(),
            data: Data::Raw(tensor.data().clone()),
        })
    }

    fn unfit(&self, stream: &str, payload: &Payload) -> GraphRunError {
        let (expected, actual) = (self.frame.packet_type(), payload.kind());
        GraphRunError::internal(format!(
            "Input stream \"{stream}\" has a packet of another type. Expected: {expected}; Actual: \
             {actual}"
        ))
    }

    /// Converts the outputs of a response to the payload of a packet.
    pub(super) fn payload(&self, outputs: &TensorMap) -> Result<Payload, GraphRunError> {
        let payload = |name: &str, tensor: &Tensor| {
            check_type(self.frame.kind, tensor.dtype())
                .map_err(|reason| GraphRunError::internal(format!("Output {name:?} {reason}")))?;
            Ok(Payload::Tensor(self.frame.kind, tensor.clone()))
        };
        let find = |name: &String| {
            let tensor = named(outputs, name).ok_or_else(|| {
                let known: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
                let known = known.join(", ");
                GraphRunError::internal(format!(
                    "The answer has no output {name:?}; it has: {known}"
                ))
            })?;
            payload(name, tensor)
        };
        let tensors: Result<Vec<_>, GraphRunError> = if let Some(names) = &self.names {
            names.iter().map(find).collect()
        } else {
            let mut all: Vec<_> = outputs.iter().collect();
            all.sort_by_key(|(name, _)| name);
            all.into_iter()
                .map(|(name, tensor)| payload(name, tensor))
                .collect()
        };
        let mut tensors = tensors?;
        Ok(match self.frame.is_list {
            true => Payload::List(tensors),
            false => tensors.swap_remove(0),
        })
    }
}

/// Checks that a framework supports an element type.
fn check_type(kind: TensorKind, dtype: DataType) -> Result<(), String> {
    let error = || format!("has elements of {dtype}, which a {kind} does not have");
    kind.supports(dtype).then_some(()).ok_or_else(error)
}
