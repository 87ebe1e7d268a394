//! Conversion of tensors of several frameworks to requests and back.

use super::{
    List,
    names::{Feed, Yield},
};
use crate::{
    graph::{
        calculator::{Emit, Later},
        convert,
        error::GraphRunError,
        packet::{Packet, PacketType, Payload, TensorKind},
        timestamp::Timestamp,
    },
    request::{Data, Declared, InputTensor},
    tensor::{DataType, Tensor, TensorMap},
};

/// Packet format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Framework of the tensors.
    pub(super) kind: TensorKind,
    /// Whether the packets are lists.
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

impl Feed {
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
        if tensors.len() != self.names.len() {
            return Err(GraphRunError::internal(format!(
                "Input stream \"{stream}\" has a list of {} tensors, which are to be {} inputs of \
                 the model: {}; input_order_list names the inputs in the order of the list",
                tensors.len(),
                self.names.len(),
                List(&self.names)
            )));
        }
        for (name, payload) in self.names.iter().zip(tensors) {
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
        let lengths = tensor.shape().iter();
        let lengths = lengths.map(|&length| i64::try_from(length).unwrap_or(i64::MAX));
        Ok(InputTensor {
            name: name.to_owned(),
            datatype: Declared::Known(dtype),
            shape: batch.into_iter().chain(lengths).collect(),
            data: Data::Raw(tensor.data().clone()),
        })
    }

    fn unfit(&self, stream: &str, payload: &Payload) -> GraphRunError {
        GraphRunError::internal(format!(
            "Input stream \"{stream}\" has a packet of another type. Expected: {}; Actual: {}",
            self.frame.packet_type(),
            payload.kind()
        ))
    }
}

/// Converts a response to packets.
pub(super) fn emits(
    yields: &[Yield],
    outputs: &TensorMap,
    at: Timestamp,
) -> Result<Later, GraphRunError> {
    let emits = yields.iter().enumerate().map(|(place, taken)| {
        let mut tensors = taken.tensors(outputs)?;
        let payload = if taken.frame.is_list {
            Payload::List(tensors)
        } else {
            tensors.swap_remove(0)
        };
        Ok(Emit::Packet(place, Packet::new(payload, at)))
    });
    let emits = emits.collect::<Result<_, GraphRunError>>()?;
    Ok(Later { emits, stop: false })
}

impl Yield {
    fn tensors(&self, outputs: &TensorMap) -> Result<Vec<Payload>, GraphRunError> {
        let Some(names) = &self.names else {
            let mut all: Vec<_> = outputs.iter().collect();
            all.sort_by_key(|(name, _)| *name);
            let all = all.into_iter();
            return all
                .map(|(name, tensor)| self.payload(name, tensor))
                .collect();
        };
        let tensor = |name: &String| {
            let tensor = outputs.get(name).ok_or_else(|| {
                let known: Vec<&str> = outputs.iter().map(|(name, _)| name).collect();
                GraphRunError::internal(format!(
                    "The answer has no output {name:?}; it has: {}",
                    List(&known)
                ))
            })?;
            self.payload(name, tensor)
        };
        names.iter().map(tensor).collect()
    }

    fn payload(&self, name: &str, tensor: &Tensor) -> Result<Payload, GraphRunError> {
        check_type(self.frame.kind, tensor.dtype())
            .map_err(|reason| GraphRunError::internal(format!("Output {name:?} {reason}")))?;
        Ok(Payload::Tensor(self.frame.kind, tensor.clone()))
    }
}

/// Checks that a framework supports an element type.
fn check_type(kind: TensorKind, dtype: DataType) -> Result<(), String> {
    let allowed = match kind {
        TensorKind::OpenVino => true,
        TensorKind::MediaPipe => convert::is_mp(dtype),
        TensorKind::TensorFlow => convert::is_tf(dtype),
        TensorKind::TfLite => dtype == DataType::F32,
        TensorKind::Image => false,
    };
    if allowed {
        Ok(())
    } else {
        Err(format!(
            "has elements of {dtype}, which a {kind} does not have"
        ))
    }
}
