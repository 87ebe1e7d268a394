//! Parameters of requests: timestamps, and side packets, some of which come from the server.

use crate::{
    error::{Error, ErrorKind, Result},
    graph::{
        calculators::{
            packet::{PYTHON_RESOURCES, Packet, Payload},
            timestamp::{TIMESTAMP, Timestamp},
        },
        check::plan::{GraphPlan, SidePacketPlan},
    },
    request::{InferRequest, Parameter, Parameters},
};

/// Returns the explicit timestamp of a request, if any.
///
/// # Errors
///
/// Fails if it is not a signed 64-bit integer, or is one of the special timestamp values.
pub(in crate::graph::serving) fn timestamp(request: &InferRequest) -> Result<Option<Timestamp>> {
    let mut parameters = request.parameters.iter();
    match parameters.find(|(name, _)| name == TIMESTAMP) {
        None => Ok(None),
        Some((_, Parameter::Int(value))) => ordinary(Timestamp::new(*value)).map(Some),
        Some(_) => Err(malformed(&format!(
            "Invalid timestamp format in request parameter {TIMESTAMP}. Should be int64"
        ))),
    }
}

/// Returns the timestamp of a request without an explicit one: one after that of the last accepted
/// request, or zero.
///
/// # Errors
///
/// Fails if there is no timestamp after the last.
pub(in crate::graph::serving) fn following(last: Option<Timestamp>) -> Result<Timestamp> {
    let next = |last: Timestamp| Timestamp::new(last.value().saturating_add(1));
    ordinary(last.map_or(Timestamp::new(0), next))
}

fn ordinary(at: Timestamp) -> Result<Timestamp> {
    if at.is_ordinary() {
        Ok(at)
    } else {
        Err(malformed(&at.to_string()))
    }
}

fn malformed(reason: &str) -> Error {
    Error::invalid(format!("Malformed packet timestamp - {reason}"))
}

/// Parameters addressed to the protocol, not to the graph. They are side packets only if a node
/// asks for one of that name.
const OF_PROTOCOL: [&str; 4] = [
    "timeout",
    "binary_data_output",
    "priority",
    "triton_enable_empty_final_response",
];

/// Builds the side packets of a run, by their indices in the plan: request parameters by name, and
/// those of the server. Side packets produced by nodes are not taken from a request. `has_pool`:
/// the graph has pooled instances, which were started without this request.
///
/// # Errors
///
/// Fails if a parameter is of a kind that no side packet has or that a node does not take, has a
/// reserved name, or comes to a graph with a pool. Missing side packets are detected by the run.
pub(in crate::graph::serving) fn side_packets(
    plan: &GraphPlan,
    parameters: &Parameters,
    has_pool: bool,
) -> Result<Vec<Option<Packet>>> {
    let packets = plan.sides.iter().map(|side| {
        let is_given = side.from.is_none() && side.name == PYTHON_RESOURCES;
        is_given.then(|| Packet::side(Payload::Token))
    });
    let mut packets: Vec<Option<Packet>> = packets.collect();
    // The same error is reported whatever the order of the parameters.
    if parameters.iter().any(|(name, _)| name == PYTHON_RESOURCES) {
        return Err(refused(format!(
            "Incoming input side packet: {PYTHON_RESOURCES} is special reserved name and cannot be used"
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
        Parameter::UInt(_) | Parameter::Double(_) | Parameter::Empty => Err(Error::invalid(
            "Functionality not implemented - Handling parameters of other types than: bool, \
             string, int64 is not supported",
        )),
    }
}

fn refused(reason: String) -> Error {
    let message = format!("Failed to initialize mediapipe graph - {reason}");
    Error::new(ErrorKind::FailedPrecondition, message)
}

/// Checks that the nodes taking a side packet accept the type of its value.
fn check_type(plan: &GraphPlan, side: &SidePacketPlan, payload: &Payload) -> Result<()> {
    for &(node, place) in &side.to {
        let node = &plan.nodes[node];
        let Some((taken, _)) = node.contract.side_inputs.get(place) else {
            continue;
        };
        if !payload.kind().fits(taken) {
            let (name, node, actual) = (&side.name, &node.spec.name, payload.kind());
            let message = format!(
                "Failed to start mediapipe graph - Side packet \"{name}\" of node \"{node}\" has the \
                 wrong type. Expected: {taken}; Actual: {actual}"
            );
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        }
    }
    Ok(())
}
