//! Side packets: from options, from streams, to streams.

use super::prelude::*;
use crate::proto::mediapipe::{
    ConstantSidePacketCalculatorOptions,
    constant_side_packet_calculator_options::constant_side_packet::Value,
};

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[
    Factory {
        name: "ConstantSidePacketCalculator",
        about: "Gives the values of its options as side packets PACKET.",
        contract: constant,
        make: |node, _| Box::new(Constant(constants(node).into_iter().flatten().collect())),
    },
    Factory {
        name: "DefaultSidePacketCalculator",
        about: "Gives OPTIONAL_VALUE on as VALUE, or DEFAULT_VALUE if it is not there.",
        contract: |ask| {
            let node = ask.node;
            let place = node.side_inputs.find("DEFAULT_VALUE", 0);
            let same = PacketType::SameAsInput(place.unwrap_or_default());
            ask.needs("DEFAULT_VALUE", Count::One, &PacketType::Any)
                .uses("OPTIONAL_VALUE", &PacketType::Any)
                .makes("VALUE", Count::One, &same)
        },
        make: |_, _| Box::new(DefaultSide),
    },
    Factory {
        name: "SidePacketToStreamCalculator",
        about: "Sends side packets as packets, at the time that the tag of its outputs says.",
        contract: to_stream,
        make: |_, _| Box::new(ToStream::default()),
    },
    Factory {
        name: "StreamToSidePacketCalculator",
        about: "Makes a side packet of the only packet of its input.",
        contract: |ask| {
            ask.takes(EVERY, Count::One, &PacketType::Any).makes(
                EVERY,
                Count::One,
                &PacketType::SameAsInput(0),
            )
        },
        make: |_, _| Box::new(FromStream::default()),
    },
];

struct Constant(Vec<Payload>);

fn constants(node: &NodeSpec) -> Vec<Option<Payload>> {
    let options: ConstantSidePacketCalculatorOptions = node.options.get().unwrap_or_default();
    let values = options.packet.into_iter().map(|packet| {
        Some(match packet.value? {
            Value::IntValue(value) => Payload::Int(value.into()),
            Value::Int64Value(value) => Payload::Int(value),
            Value::Uint64Value(value) => Payload::UInt(value),
            Value::FloatValue(value) => Payload::Float(value.into()),
            Value::DoubleValue(value) => Payload::Float(value),
            Value::BoolValue(value) => Payload::Bool(value),
            Value::StringValue(value) => Payload::Text(value),
        })
    });
    values.collect()
}

fn constant(ask: Ask<'_>) -> Ask<'_> {
    let constants = constants(ask.node);
    let empty = constants.iter().position(Option::is_none);
    let (expected, got) = (constants.len(), ask.node.side_outputs.len());
    let mut ask = ask
        .makes("PACKET", Count::Some, &PacketType::Any)
        .demand(got == expected, || {
            format!("expected as many output side packets as there are in the options ({expected}), got {got}")
        })
        .demand(empty.is_none(), || {
            let empty = empty.unwrap_or_default();
            format!("packet {empty}: expected a value, such as int_value: 1, got none")
        });
    ask.contract.side_outputs = constants.iter().flatten().map(Payload::kind).collect();
    ask
}

impl Calculator for Constant {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        for (place, value) in self.0.iter().enumerate() {
            context.emit(Emit::Side(place, Packet::side(value.clone())));
        }
        Ok(StepOutcome::Next)
    }
}

struct DefaultSide;

impl Calculator for DefaultSide {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let given = value::side(context, "OPTIONAL_VALUE");
        let value = given.or_else(|| value::side(context, "DEFAULT_VALUE"));
        if let Some(value) = value.cloned() {
            context.emit(Emit::Side(0, Packet::side(value)));
        }
        Ok(StepOutcome::Next)
    }
}

/// Output tags that select the timestamp of packets.
const TIMES: [&str; 6] = [
    "AT_PRESTREAM",
    "AT_POSTSTREAM",
    "AT_ZERO",
    "AT_TICK",
    "AT_FIRST_TICK",
    "AT_TIMESTAMP",
];

#[derive(Default)]
struct ToStream {
    sent: bool,
}

fn output_tag(node: &NodeSpec) -> &str {
    node.outputs.first().map_or("", |port| port.at.tag.as_str())
}

fn to_stream(ask: Ask<'_>) -> Ask<'_> {
    let node = ask.node;
    let tag = output_tag(node);
    let one = node.outputs.iter().all(|port| port.at.tag == tag);
    let ticks = matches!(tag, "AT_TICK" | "AT_FIRST_TICK");
    let tick = node.inputs.find("TICK", 0).is_some();
    let timed = tag == "AT_TIMESTAMP";
    let time = node.side_inputs.find("TIMESTAMP", 0).is_some();
    let mut ask = ask
        .demand(one && TIMES.contains(&tag), || {
            let times = TIMES.join(", ");
            format!("expected output streams of one tag among {times}")
        })
        .demand(ticks == tick, || {
            "expected the input stream TICK together with outputs AT_TICK or AT_FIRST_TICK"
                .to_owned()
        })
        .demand(timed == time, || {
            "expected the side packet TIMESTAMP together with outputs AT_TIMESTAMP".to_owned()
        })
        .takes("TICK", Count::Optional, &PacketType::Any)
        .needs("", Count::Exactly(node.outputs.len()), &PacketType::Any)
        .needs("TIMESTAMP", Count::Optional, &PacketType::Int)
        .gives(EVERY, Count::Some, &PacketType::Any)
        .settles_if(ticks);
    // As they are sent.
    let outputs = 0..ask.contract.outputs.len();
    ask.contract.outputs = outputs.map(PacketType::SameAsSide).collect();
    ask
}

fn send_all(context: &mut CalculatorContext<'_>, at: Timestamp) {
    // Side packets without a tag come before TIMESTAMP.
    for place in 0..context.node.outputs.len() {
        context.send_packet(place, context.side[place].moved(at));
    }
}

impl Calculator for ToStream {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let first = match output_tag(context.node) {
            "AT_TICK" => false,
            "AT_FIRST_TICK" => true,
            _ => return Ok(StepOutcome::Stop),
        };
        if context.inputs[0].is_empty() || (first && self.sent) {
            return Ok(StepOutcome::Next);
        }
        self.sent = true;
        send_all(context, context.at);
        if first {
            for place in 0..context.node.outputs.len() {
                context.emit(Emit::Close(place));
            }
        }
        Ok(StepOutcome::Next)
    }

    fn close(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let at = match output_tag(context.node) {
            "AT_PRESTREAM" => Timestamp::PRE_STREAM,
            "AT_POSTSTREAM" => Timestamp::POST_STREAM,
            "AT_ZERO" => Timestamp::new(0),
            "AT_TIMESTAMP" => match value::side(context, "TIMESTAMP") {
                Some(time) => Timestamp::new(value::long(time, "side packet TIMESTAMP")?),
                None => return Ok(StepOutcome::Next),
            },
            _ => return Ok(StepOutcome::Next),
        };
        if !at.is_allowed_in_stream() {
            return Err(GraphRunError::invalid(format!(
                "side packet TIMESTAMP: expected a time that packets may have, got {at}"
            )));
        }
        send_all(context, at);
        Ok(StepOutcome::Next)
    }
}

#[derive(Default)]
struct FromStream {
    packet: Option<Packet>,
}

impl Calculator for FromStream {
    fn process(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let packet = &context.inputs[0];
        if packet.is_empty() {
            return Ok(StepOutcome::Next);
        }
        if self.packet.is_some() {
            let (name, at) = (&context.node.inputs[0].name, packet.at());
            let text = format!(
                "expected a single packet on input stream \"{name}\", got another one at {at}"
            );
            return Err(GraphRunError::new(AbseilCode::FailedPrecondition, text));
        }
        self.packet = Some(packet.moved(Timestamp::UNSET));
        Ok(StepOutcome::Next)
    }

    fn close(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        if let Some(packet) = self.packet.take() {
            context.emit(Emit::Side(0, packet));
        }
        Ok(StepOutcome::Next)
    }
}

#[cfg(test)]
mod tests;
