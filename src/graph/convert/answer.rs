//! Packets to outputs and responses.

use super::{TIMESTAMP, image};
use crate::{
    graph::{Fault, Form, GraphPort, Packet, PacketType, Payload, TensorKind, Timestamp},
    request::{InferResponse, LooseTensor, Parameter},
    tensor::{DataType, Tensor, TensorMap},
};

/// The version that graphs say they are.
pub const VERSION: i64 = 1;

/// Makes an output of a packet. It has the name of the graph's output, whatever a Python tensor calls
/// itself: that is the name that clients are told.
///
/// # Errors
///
/// Fails if the packet carries something else than the output stands for.
pub fn output(port: &GraphPort, packet: &Packet) -> Result<LooseTensor, Fault> {
    let name = &port.port.name;
    match (port.form, packet.payload()) {
        (Form::OvTensor, Some(Payload::Tensor(TensorKind::OpenVino, tensor)))
        | (Form::MpTensor, Some(Payload::Tensor(TensorKind::MediaPipe, tensor)))
        | (Form::TfTensor, Some(Payload::Tensor(TensorKind::TensorFlow, tensor))) => {
            Ok(loose(name, tensor.dtype(), tensor))
        }
        (Form::Image, Some(Payload::Tensor(TensorKind::Image, tensor))) => {
            Ok(loose(name, image::datatype(tensor.dtype()), tensor))
        }
        (Form::Python, Some(Payload::Python(tensor))) => Ok(LooseTensor {
            name: name.clone(),
            datatype: tensor.datatype().to_owned(),
            shape: tensor.shape().to_vec(),
            data: tensor.bytes().clone(),
        }),
        _ => Err(unfit(port, packet)),
    }
}

fn loose(name: &str, dtype: DataType, tensor: &Tensor) -> LooseTensor {
    let lengths = tensor.shape().iter();
    LooseTensor {
        name: name.to_owned(),
        datatype: dtype.kserve().to_owned(),
        shape: lengths
            .map(|&length| i64::try_from(length).unwrap_or(i64::MAX))
            .collect(),
        data: tensor.data().clone(),
    }
}

fn unfit(port: &GraphPort, packet: &Packet) -> Fault {
    let expected = match port.form {
        Form::OvTensor => PacketType::Tensor(TensorKind::OpenVino),
        Form::MpTensor => PacketType::Tensor(TensorKind::MediaPipe),
        Form::TfTensor => PacketType::Tensor(TensorKind::TensorFlow),
        Form::Image => PacketType::Tensor(TensorKind::Image),
        Form::Python => PacketType::Python,
        Form::Request => PacketType::Request,
        Form::Response => PacketType::Response,
    };
    let actual = packet.payload().map_or_else(
        || "nothing".to_owned(),
        |payload| payload.kind().to_string(),
    );
    Fault::internal(format!(
        "Failed to get packet from output stream \"{}\". Expected: {expected}; Actual: {actual}",
        port.port.name
    ))
}

/// Makes a response of packets of outputs, in that order: all of a unary request, one of a stream. It
/// has the time of the last. If the output is a response itself, that is it.
///
/// # Errors
///
/// Fails as [`output`] does.
pub fn response<'a>(
    graph: &str,
    id: &str,
    packets: impl IntoIterator<Item = (&'a GraphPort, &'a Packet)>,
) -> Result<InferResponse, Fault> {
    let mut response = InferResponse {
        model_name: graph.to_owned(),
        model_version: VERSION,
        id: id.to_owned(),
        outputs: TensorMap::default(),
        loose: Vec::new(),
        parameters: Vec::new(),
    };
    let mut at = Timestamp::UNSET;
    for (port, packet) in packets {
        at = packet.at();
        if let (Form::Response, Some(Payload::Response(made))) = (port.form, packet.payload()) {
            response.outputs = made.outputs.clone();
            response.loose = made.loose.clone();
            response.parameters = made.parameters.clone();
        } else {
            response.loose.push(output(port, packet)?);
        }
    }
    response.parameters.retain(|(name, _)| name != TIMESTAMP);
    let at = Parameter::Int(at.value());
    response.parameters.push((TIMESTAMP.to_owned(), at));
    Ok(response)
}
