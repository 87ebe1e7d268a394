//! Inference on a model or pipeline, with tensors and lists of tensors.

mod frame;
mod names;

use std::{collections::BTreeMap, sync::Arc};

use futures::FutureExt;

use self::{frame::Frame, names::ModelPort};
use super::{prelude::*, session::TAG as SESSION};
use crate::{
    graph::calculators::{calculator::Later, node::Ports, servables::ServableSession},
    proto::mediapipe::OpenVinoInferenceCalculatorOptions as Options,
    request::InferRequest,
    servable::ServableInfo,
};

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "OpenVINOInferenceCalculator",
    about: "Runs a model or pipeline with the tensors of its inputs.",
    contract: |ask| ask.by_hand(contract),
    make: |node, _| {
        Box::new(Runner {
            options: node.options.get().unwrap_or_default(),
            opened: None,
        })
    },
}];

fn contract(node: &NodeSpec) -> Result<Contract, String> {
    if node.inputs.is_empty() || node.outputs.is_empty() {
        return Err("needs at least one input stream and one output stream".to_owned());
    }
    if node.side_inputs.len() != 1 || node.side_inputs.find(SESSION, 0).is_none() {
        return Err(format!(
            "needs exactly one input side packet, which has the tag {SESSION}: \
             `input_side_packet: \"{SESSION}:session\"` with that of an \
             OpenVINOModelServerSessionCalculator"
        ));
    }
    for (direction, ports) in [("input", &node.inputs), ("output", &node.outputs)] {
        if let Some(port) = ports.iter().find(|port| port.at.index > 0) {
            return Err(format!(
                "has several {direction} streams with the tag {:?}; each needs a tag of its own, \
                 by which the model's {direction} is found",
                port.at.tag
            ));
        }
    }
    let inputs = node.inputs.iter();
    let mut lists = inputs.filter(|port| Frame::of(&port.at.tag).is_list);
    if let (Some(first), Some(second)) = (lists.next(), lists.next()) {
        return Err(format!(
            "has several input streams with lists of tensors, {} and {}; only one is possible",
            first.name, second.name
        ));
    }
    let options: Options = node.options.get().unwrap_or_default();
    let (names, order) = (
        &options.tag_to_input_tensor_names,
        &options.input_order_list,
    );
    check(node, "input", &node.inputs, names, order)?;
    let (names, order) = (
        &options.tag_to_output_tensor_names,
        &options.output_order_list,
    );
    check(node, "output", &node.outputs, names, order)?;
    let carries = |ports: &Ports| {
        let frames = ports.iter().map(|port| Frame::of(&port.at.tag));
        frames.map(Frame::packet_type).collect()
    };
    Ok(Contract {
        inputs: carries(&node.inputs),
        outputs: carries(&node.outputs),
        side_inputs: vec![(PacketType::Session, false)],
        offset: Some(0),
        ..Contract::any(node)
    })
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
    for (place, name) in order.iter().enumerate() {
        if order[..place].contains(name) {
            return Err(format!("has {name:?} twice in {direction}_order_list"));
        }
    }
    for tag in names.keys().filter(|tag| ports.find(tag, 0).is_none()) {
        tracing::warn!(
            node = %node.name,
            "tag_to_{direction}_tensor_names has {tag:?}, which is the tag of no {direction} \
             stream; it is ignored"
        );
    }
    Ok(())
}

struct Runner {
    options: Options,
    opened: Option<Opened>,
}

/// State after opening the session.
struct Opened {
    session: Arc<dyn ServableSession>,
    /// Inputs and outputs of the servable, if a reload has changed them since.
    info: Option<ServableInfo>,
    /// Model inputs of each input stream.
    inputs: Vec<ModelPort>,
    /// Model outputs of each output stream.
    outputs: Arc<[ModelPort]>,
    /// Requested outputs; all if empty.
    asked: Vec<String>,
}

impl Opened {
    /// Finds the inputs and outputs of a servable for the streams of a node.
    fn new(
        session: Arc<dyn ServableSession>,
        info: Option<ServableInfo>,
        node: &NodeSpec,
        options: &Options,
    ) -> Self {
        let known = info.as_ref().unwrap_or_else(|| session.info());
        let outputs = names::outputs(&node.outputs, options, known);
        Self {
            inputs: names::inputs(&node.inputs, options, known),
            asked: names::asked(&outputs),
            outputs: outputs.into(),
            session,
            info,
        }
    }

    /// Returns the inputs and outputs of the servable, if a reload has changed them.
    fn renewed(&self) -> Option<ServableInfo> {
        let known = self.info.as_ref();
        let known = known.unwrap_or_else(|| self.session.info());
        self.session.renewed(known)
    }
}

impl Calculator for Runner {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let Some(Payload::Session(session)) = context.side(0) else {
            return Err(GraphRunError::internal(format!(
                "The side packet {SESSION} is no session; it comes from an \
                 OpenVINOModelServerSessionCalculator"
            )));
        };
        let session = Arc::clone(session);
        self.opened = Some(Opened::new(session, None, context.node, &self.options));
        Ok(StepOutcome::Next)
    }

    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let Some(opened) = &mut self.opened else {
            return Err(GraphRunError::internal("the node was not opened"));
        };
        // The run of a pool or a stream outlives reloads of what it uses.
        if let Some(info) = opened.renewed() {
            let session = Arc::clone(&opened.session);
            *opened = Opened::new(session, Some(info), context.node, &self.options);
        }
        let mut inputs = Vec::with_capacity(opened.inputs.len());
        for (place, input) in opened.inputs.iter().enumerate() {
            let stream = &context.node.inputs[place].name;
            let Some(payload) = context.input(place) else {
                return Err(GraphRunError::internal(format!(
                    "Input stream \"{stream}\" has no packet at {}; the model needs all inputs at \
                     once",
                    context.at
                )));
            };
            input.read(stream, payload, &mut inputs)?;
        }
        let request = InferRequest {
            inputs,
            outputs: opened.asked.clone(),
            trace: context.trace.cloned(),
            owner: context.env.owner.clone().map(Box::new),
            ..InferRequest::default()
        };
        let run = opened.session.infer(request, context.env.origin);
        let outputs = Arc::clone(&opened.outputs);
        let at = context.at;
        let later = async move {
            let answer = run.await;
            let answer = answer.map_err(|error| GraphRunError::internal(error.message()))?;
            let emits = outputs.iter().enumerate().map(|(place, output)| {
                Ok(Emit::Packet(
                    place,
                    Packet::new(output.payload(&answer)?, at),
                ))
            });
            let emits = emits.collect::<Result<_, GraphRunError>>()?;
            Ok(Later { emits, stop: false })
        };
        Ok(StepOutcome::Later(later.boxed()))
    }
}

#[cfg(test)]
mod tests;
