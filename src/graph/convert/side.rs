//! Side packets, from request parameters and from the server.

use super::TIMESTAMP;
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{
        packet::{Packet, Payload},
        plan::{GraphPlan, SidePacketPlan},
    },
    request::{Parameter, Parameters},
};

/// Name of the side packet that the server gives to Python nodes.
pub const PYTHON: &str = "py";

/// Parameters addressed to the protocol, not to the graph. They are side packets only if a node
/// asks for one of that name.
const OF_PROTOCOL: [&str; 2] = ["timeout", "binary_data_output"];

/// Builds the side packets of a run, by their indices in the plan: request parameters by name, and
/// those of the server. Side packets produced by nodes are not taken from a request. `has_pool`:
/// the graph has pooled instances, which were started without this request.
///
/// # Errors
///
/// Fails if a parameter is of a kind that no side packet has or that a node does not take, has a
/// reserved name, or comes to a graph with a pool. Missing side packets are detected by the run.
pub fn side_packets(
    plan: &GraphPlan,
    parameters: &Parameters,
    has_pool: bool,
) -> Result<Vec<Option<Packet>>> {
    let mut packets: Vec<Option<Packet>> = plan
        .sides
        .iter()
        .map(|side| {
            let is_given = side.from.is_none() && side.name == PYTHON;
            is_given.then(|| Packet::side(Payload::Token))
        })
        .collect();
    // The same error is reported whatever the order of the parameters.
    if parameters.iter().any(|(name, _)| name == PYTHON) {
        return Err(refused(format!(
            "Incoming input side packet: {PYTHON} is special reserved name and cannot be used"
        )));
    }
    for (name, value) in parameters.iter().filter(|(name, _)| name != TIMESTAMP) {
        let of_protocol = OF_PROTOCOL.contains(&name.as_str());
        if has_pool && !of_protocol {
            return Err(refused(
                "Input side packets are not supported for graphs with queue enabled".to_owned(),
            ));
        }
        let mut sides = plan.sides.iter();
        let place = sides.position(|side| side.name == *name && side.from.is_none());
        let place = place.filter(|_| !has_pool);
        if place.is_none() && of_protocol {
            continue;
        }
        let payload = payload(value)?;
        if let Some(place) = place {
            check_type(plan, &plan.sides[place], &payload)?;
            packets[place] = Some(Packet::side(payload));
        }
    }
    Ok(packets)
}

fn payload(value: &Parameter) -> Result<Payload> {
    match value {
        Parameter::Bool(value) => Ok(Payload::Bool(*value)),
        Parameter::Int(value) => Ok(Payload::Int(*value)),
        Parameter::Text(value) => Ok(Payload::Text(value.clone())),
        Parameter::UInt(_) | Parameter::Double(_) => Err(Error::invalid(
            "Functionality not implemented - Handling parameters of other types than: bool, \
             string, int64 is not supported",
        )),
    }
}

fn refused(reason: String) -> Error {
    Error::new(
        ErrorKind::FailedPrecondition,
        format!("Failed to initialize mediapipe graph - {reason}"),
    )
}

/// Checks that the nodes taking a side packet accept the type of its value.
fn check_type(plan: &GraphPlan, side: &SidePacketPlan, payload: &Payload) -> Result<()> {
    for &(node, place) in &side.to {
        let node = &plan.nodes[node];
        let Some((taken, _)) = node.contract.side_inputs.get(place) else {
            continue;
        };
        if !payload.kind().fits(taken) {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "Failed to start mediapipe graph - Side packet \"{}\" of node \"{}\" has the \
                     wrong type. Expected: {taken}; Actual: {}",
                    side.name,
                    node.spec.name,
                    payload.kind()
                ),
            ));
        }
    }
    Ok(())
}
