//! Which input of the model a stream feeds, and which output a stream takes.

use std::collections::BTreeMap;

use super::{Options, frame::Frame};
use crate::{
    graph::{Port, Ports},
    servable::{ServableInfo, TensorInfo},
};

/// What a stream feeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Feed {
    /// Whose tensors the packets have, and whether in lists.
    pub(super) frame: Frame,
    /// The names of the model's inputs: one, or those of a list in its order.
    pub(super) names: Vec<String>,
}

/// What a stream takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Yield {
    /// Whose tensors the packets get, and whether in lists.
    pub(super) frame: Frame,
    /// The names of the model's outputs; `None` for all, by name.
    pub(super) names: Option<Vec<String>>,
}

/// Says what each input stream feeds.
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

/// Says what each output stream takes.
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

/// Returns the names of the outputs that are taken, each once; none if all are.
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

/// Returns the name that a tag is mapped to, else the tag itself; where there is only one tensor and
/// none of that name, it is meant.
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
