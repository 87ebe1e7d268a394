//! Mapping of streams to inputs and outputs of the model.

use std::collections::BTreeMap;

use super::{Options, frame::Frame};
use crate::{
    graph::node::{Port, Ports},
    servable::{ServableInfo, TensorInfo},
};

/// Model inputs of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Feed {
    /// Format of the packets.
    pub(super) frame: Frame,
    /// Names of the model's inputs: one, or those of a list in its order.
    pub(super) names: Vec<String>,
}

/// Model outputs of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Yield {
    /// Format of the packets.
    pub(super) frame: Frame,
    /// Names of the model's outputs; `None` for all, by name.
    pub(super) names: Option<Vec<String>>,
}

/// Returns the model inputs of each input stream.
pub(super) fn feeds(ports: &Ports, options: &Options, info: &ServableInfo) -> Vec<Feed> {
    let names = &options.tag_to_input_tensor_names;
    let single: Vec<Option<String>> = ports
        .iter()
        .map(|port| {
            let is_list = Frame::of(&port.at.tag).is_list;
            (!is_list).then(|| name(port, names, &info.inputs))
        })
        .collect();
    let list = |port: &Port| {
        if let Some(name) = names.get(&port.at.tag) {
            return vec![name.clone()];
        }
        if !options.input_order_list.is_empty() {
            return options.input_order_list.clone();
        }
        let all = info.inputs.iter().map(|input| &input.name);
        let is_fed = |name: &&String| single.iter().flatten().any(|fed| fed == *name);
        all.filter(|name| !is_fed(name)).cloned().collect()
    };
    ports
        .iter()
        .zip(&single)
        .map(|(port, single)| Feed {
            frame: Frame::of(&port.at.tag),
            names: single.clone().map_or_else(|| list(port), |name| vec![name]),
        })
        .collect()
}

/// Returns the model outputs of each output stream.
pub(super) fn yields(ports: &Ports, options: &Options, info: &ServableInfo) -> Vec<Yield> {
    let names = &options.tag_to_output_tensor_names;
    let order = &options.output_order_list;
    let taken = |port: &Port, frame: Frame| {
        if !frame.is_list {
            return Some(vec![name(port, names, &info.outputs)]);
        }
        let mapped = names.get(&port.at.tag).map(|name| vec![name.clone()]);
        mapped.or_else(|| (!order.is_empty()).then(|| order.clone()))
    };
    ports
        .iter()
        .map(|port| {
            let frame = Frame::of(&port.at.tag);
            let names = taken(port, frame);
            Yield { frame, names }
        })
        .collect()
}

/// Returns the distinct names of the requested outputs; none if all are.
pub(super) fn asked(yields: &[Yield]) -> Vec<String> {
    let mut asked: Vec<String> = Vec::new();
    for taken in yields {
        let Some(names) = &taken.names else {
            return Vec::new();
        };
        for name in names {
            if !asked.contains(name) {
                asked.push(name.clone());
            }
        }
    }
    asked
}

/// Returns the name that a tag is mapped to, else the tag itself; if the only tensor has another
/// name, that name.
fn name(port: &Port, names: &BTreeMap<String, String>, known: &[TensorInfo]) -> String {
    let tag = &port.at.tag;
    if let Some(name) = names.get(tag) {
        return name.clone();
    }
    match known {
        [only] if only.name != *tag => only.name.clone(),
        _ => tag.clone(),
    }
}
