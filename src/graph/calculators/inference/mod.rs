//! Inference on a model or pipeline, with tensors and lists of tensors.

mod frame;
mod names;

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures::FutureExt;

use self::{
    frame::Frame,
    names::{Feed, Yield},
};
use super::session::TAG as SESSION;
use crate::{
    graph::{
        calculator::{Calculator, CalculatorContext, Contract, Factory, Resources, StepOutcome},
        error::GraphRunError,
        node::{NodeSpec, Ports},
        packet::{PacketType, Payload},
        servables::ServableSession,
    },
    proto::mediapipe::OpenVinoInferenceCalculatorOptions as Options,
    request::InferRequest,
};

pub(super) static FACTORY: Factory = Factory {
    name: "OpenVINOInferenceCalculator",
    about: "Runs a model or pipeline with the tensors of its inputs.",
    contract,
    make,
};

fn contract(node: &NodeSpec) -> Result<Contract, String> {
    if node.inputs.is_empty() || node.outputs.is_empty() {
        return Err("needs at least one input stream and one output stream".to_owned());
    }
    let session = match node.side_inputs.find(SESSION, 0) {
        Some(place) if node.side_inputs.len() == 1 => place,
        _ => {
            return Err(format!(
                "needs exactly one input side packet, which has the tag {SESSION}: \
                 `input_side_packet: \"{SESSION}:session\"` with that of an \
                 OpenVINOModelServerSessionCalculator"
            ));
        }
    };
    for (direction, ports) in [("input", &node.inputs), ("output", &node.outputs)] {
        if let Some(port) = ports.iter().find(|port| port.at.index > 0) {
            return Err(format!(
                "has several {direction} streams with the tag {:?}; each needs a tag of its own, \
                 by which the model's {direction} is found",
                port.at.tag
            ));
        }
    }
    let mut lists = node
        .inputs
        .iter()
        .filter(|port| Frame::of(&port.at.tag).is_list);
    if let (Some(first), Some(second)) = (lists.next(), lists.next()) {
        return Err(format!(
            "has several input streams with lists of tensors, {} and {}; only one is possible",
            first.name, second.name
        ));
    }
    let options: Options = node.options.get().unwrap_or_default();
    check(
        node,
        "input",
        &node.inputs,
        &options.tag_to_input_tensor_names,
        &options.input_order_list,
    )?;
    check(
        node,
        "output",
        &node.outputs,
        &options.tag_to_output_tensor_names,
        &options.output_order_list,
    )?;
    let carries = |ports: &Ports| -> Vec<PacketType> {
        let frames = ports.iter().map(|port| Frame::of(&port.at.tag));
        frames.map(Frame::packet_type).collect()
    };
    let mut contract = Contract::any(node);
    contract.inputs = carries(&node.inputs);
    contract.outputs = carries(&node.outputs);
    contract.side_inputs[session] = (PacketType::Session, false);
    contract.offset = Some(0);
    Ok(contract)
}

/// Validates the options of one direction.
fn check(
    node: &NodeSpec,
    direction: &str,
    ports: &Ports,
    names: &BTreeMap<String, String>,
    order: &[String],
) -> Result<(), String> {
    if !names.is_empty() && !order.is_empty() {
        return Err(format!(
            "has both tag_to_{direction}_tensor_names and {direction}_order_list; only one of \
             them is possible"
        ));
    }
    if let Some(name) = order.iter().enumerate().find_map(|(place, name)| {
        let is_again = order[..place].contains(name);
        is_again.then_some(name)
    }) {
        return Err(format!("has {name:?} twice in {direction}_order_list"));
    }
    for tag in names
        .keys()
        .filter(|tag| ports.tagged(tag).next().is_none())
    {
        tracing::warn!(
            node = %node.name,
            "tag_to_{direction}_tensor_names has {tag:?}, which is the tag of no {direction} \
             stream; it is ignored"
        );
    }
    Ok(())
}

fn make(node: &Arc<NodeSpec>, _: &dyn Resources) -> Box<dyn Calculator> {
    Box::new(Runner {
        options: node.options.get().unwrap_or_default(),
        opened: None,
    })
}

struct Runner {
    options: Options,
    opened: Option<Opened>,
}

/// State after opening the session.
struct Opened {
    session: Arc<dyn ServableSession>,
    /// Model inputs of each input stream.
    feeds: Vec<Feed>,
    /// Model outputs of each output stream.
    yields: Arc<[Yield]>,
    /// Requested outputs; all if empty.
    asked: Vec<String>,
}

impl Calculator for Runner {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        let Some(Payload::Session(session)) = context.side(0) else {
            return Err(GraphRunError::internal(format!(
                "The side packet {SESSION} is no session; it comes from an \
                 OpenVINOModelServerSessionCalculator"
            )));
        };
        let info = session.info();
        let feeds = names::feeds(&context.node.inputs, &self.options, info);
        let yields = names::yields(&context.node.outputs, &self.options, info);
        self.opened = Some(Opened {
            session: Arc::clone(session),
            feeds,
            asked: names::asked(&yields),
            yields: yields.into(),
        });
        Ok(StepOutcome::Next)
    }

    fn process(
        &mut self,
        context: &mut CalculatorContext<'_>,
    ) -> Result<StepOutcome, GraphRunError> {
        let Some(opened) = &self.opened else {
            return Err(GraphRunError::internal("the node was not opened"));
        };
        let mut inputs = Vec::with_capacity(opened.feeds.len());
        for (place, feed) in opened.feeds.iter().enumerate() {
            let stream = &context.node.inputs[place].name;
            let Some(payload) = context.input(place) else {
                return Err(GraphRunError::internal(format!(
                    "Input stream \"{stream}\" has no packet at {}; the model needs all inputs at \
                     once",
                    context.at
                )));
            };
            feed.read(stream, payload, &mut inputs)?;
        }
        let request = InferRequest {
            inputs,
            outputs: opened.asked.clone(),
            ..InferRequest::default()
        };
        let run = opened.session.infer(request);
        let yields = Arc::clone(&opened.yields);
        let at = context.at;
        let later = async move {
            let outputs = run
                .await
                .map_err(|error| GraphRunError::internal(error.message()))?;
            frame::emits(&yields, &outputs, at)
        };
        Ok(StepOutcome::Later(later.boxed()))
    }
}

/// List of names, formatted for messages.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.0.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
