//! Conversion of packets to outputs and responses.

use super::image;
use crate::{
    graph::{
        calculators::{
            error::GraphRunError,
            packet::{Packet, PacketType, Payload, TensorKind},
            timestamp::{TIMESTAMP, Timestamp},
        },
        check::plan::GraphPort,
    },
    request::{InferResponse, LooseTensor, Parameter},
};

/// Version reported by graphs.
pub const VERSION: i64 = 1;

/// Converts a packet to an output. The output is named as in the graph, whatever name a Python
/// tensor has: that is the name reported to clients.
///
/// # Errors
///
/// Fails if the packet's payload is not of the type the output declares.
pub(super) fn output(port: &GraphPort, packet: &Packet) -> Result<LooseTensor, GraphRunError> {
    let name = &port.port.name;
    match (&port.form, packet.payload()) {
        (PacketType::Tensor(kind), Some(Payload::Tensor(given, tensor))) if kind == given => {
            let dtype = match kind {
                TensorKind::Image => image::datatype(tensor.dtype()),
                _ => tensor.dtype(),
            };
            Ok(LooseTensor {
                name: name.clone(),
                datatype: dtype.kserve().to_owned(),
                shape: tensor.lengths().collect(),
                data: tensor.data().clone(),
            })
        }
        (PacketType::Python, Some(Payload::Python(tensor))) => Ok(LooseTensor {
            name: name.clone(),
            datatype: tensor.datatype().to_owned(),
            shape: tensor.shape().to_vec(),
            data: tensor.bytes().clone(),
        }),
        _ => {
            let (expected, actual) = (&port.form, packet.payload().map(Payload::kind));
            let actual = actual.map_or_else(|| "nothing".to_owned(), |kind| kind.to_string());
            Err(GraphRunError::internal(format!(
                "Failed to get packet from output stream \"{name}\". Expected: {expected}; Actual: \
                 {actual}"
            )))
        }
    }
}

/// Builds a response from the packets of outputs, in that order: all of them for a unary request,
/// one for a stream. Its timestamp is that of the last packet. If the output is a response itself,
/// it is returned.
///
/// # Errors
///
/// Fails as [`output`] does.
pub(in crate::graph::serving) fn response<'a>(
    graph: &str,
    id: &str,
    packets: impl IntoIterator<Item = (&'a GraphPort, &'a Packet)>,
) -> Result<InferResponse, GraphRunError> {
    let mut response = InferResponse {
        model_name: graph.to_owned(),
        model_version: VERSION,
        id: id.to_owned(),
        ..InferResponse::default()
    };
    let mut at = Timestamp::UNSET;
    for (port, packet) in packets {
        at = packet.at();
        if let (PacketType::Response, Some(Payload::Response(made))) =
            (&port.form, packet.payload())
        {
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
