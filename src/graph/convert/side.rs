//! Side packets: what a request's parameters give to nodes, and what the server gives.

use super::TIMESTAMP;
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{Packet, Payload, Plan, Side},
    request::{Parameter, Parameters},
};

/// The side packet that the server gives to Python nodes.
pub const PYTHON: &str = "py";

/// Parameters that speak to the protocol, not to the graph. They are side packets only where a
/// node asks for one of that name.
const OF_PROTOCOL: [&str; 2] = ["timeout", "binary_data_output"];

/// Makes the side packets of a run, by their places in the plan: of parameters by name, and what the
/// server gives. Those that a node gives are not taken from a request. `has_pool`: instances of the
/// graph are kept, so that they were started without this request.
///
/// # Errors
///
/// Fails if a parameter is of a kind that no side packet has or that a node does not take, has a
/// reserved name, or comes to a graph with a pool. That none is missing is for the run to see.
pub fn side_packets(
    plan: &Plan,
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
    // One fault is told, whatever the order in which parameters come.
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

/// Sees to it that the nodes that take a side packet can do something with its value.
fn check_type(plan: &Plan, side: &Side, payload: &Payload) -> Result<()> {
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
