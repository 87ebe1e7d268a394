//! Mapping of streams to inputs and outputs of the model.

use std::collections::BTreeMap;

use super::{Options, frame::Frame};
use crate::{
    graph::calculators::node::Ports,
    servable::{ServableInfo, TensorInfo},
};

/// Model inputs or outputs of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelPort {
    /// Format of the packets.
    pub(super) frame: Frame,
    /// Names of the model's inputs or outputs: one, or those of a list in its order; `None` for
    /// all, by name.
    pub(super) names: Option<Vec<String>>,
}

/// Returns the model inputs of each input stream.
pub(super) fn inputs(ports: &Ports, options: &Options, info: &ServableInfo) -> Vec<ModelPort> {
    let (names, order) = (
        &options.tag_to_input_tensor_names,
        &options.input_order_list,
    );
    let mut ports = model_ports(ports, names, order, &info.inputs);
    // A list takes the inputs that no other stream feeds.
    let fed = ports.iter().flat_map(|port| port.names.iter().flatten());
    let fed: Vec<String> = fed.cloned().collect();
    for port in &mut ports {
        let rest = info
            .inputs
            .iter()
            .filter(|input| !fed.contains(&input.name));
        let rest = || rest.map(|input| input.name.clone()).collect();
        port.names.get_or_insert_with(rest);
    }
    ports
}

/// Returns the model outputs of each output stream.
pub(super) fn outputs(ports: &Ports, options: &Options, info: &ServableInfo) -> Vec<ModelPort> {
    let (names, order) = (
        &options.tag_to_output_tensor_names,
        &options.output_order_list,
    );
    model_ports(ports, names, order, &info.outputs)
}

fn model_ports(
    ports: &Ports,
    names: &BTreeMap<String, String>,
    order: &[String],
    known: &[TensorInfo],
) -> Vec<ModelPort> {
    let ports = ports.iter().map(|port| {
        let tag = &port.at.tag;
        let frame = Frame::of(tag);
        let only = match known {
            [only] => &only.name,
            _ => tag,
        };
        let names = match names.get(tag) {
            Some(name) => Some(vec![name.clone()]),
            None if !frame.is_list => Some(vec![only.clone()]),
            None => (!order.is_empty()).then(|| order.to_vec()),
        };
        ModelPort { frame, names }
    });
    ports.collect()
}

/// Returns the distinct names of the requested outputs; none if all are.
pub(super) fn asked(outputs: &[ModelPort]) -> Vec<String> {
    let names = outputs.iter().map(|output| output.names.as_ref());
    let names: Option<Vec<&Vec<String>>> = names.collect();
    let mut asked: Vec<String> = Vec::new();
    for name in names.into_iter().flatten().flatten() {
        if !asked.contains(name) {
            asked.push(name.clone());
        }
    }
    asked
}
