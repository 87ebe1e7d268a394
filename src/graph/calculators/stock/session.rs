//! Lookup of a model or pipeline for the nodes that run it.

use super::prelude::*;
use crate::proto::mediapipe::OpenVinoModelServerSessionCalculatorOptions as Options;

/// Tag of the side packet.
pub(super) const TAG: &str = "SESSION";

/// Factories of this module.
pub(super) static FACTORIES: &[Factory] = &[Factory {
    name: "OpenVINOModelServerSessionCalculator",
    about: "Finds a model or pipeline of the server, for the nodes that run it.",
    contract: |ask| {
        ask.by_hand(|node| {
            if !node.inputs.is_empty() || !node.outputs.is_empty() {
                return Err(format!(
                    "takes and gives no streams; it gives the side packet {TAG} only"
                ));
            }
            if node.side_outputs.len() != 1 || node.side_outputs.find(TAG, 0).is_none() {
                return Err(format!(
                    "gives exactly one output side packet, which has the tag {TAG}: \
             `output_side_packet: \"{TAG}:session\"`"
                ));
            }
            let options: Options = node.options.get().ok_or(
            "needs OpenVINOModelServerSessionCalculatorOptions with servable_name, the model or \
         pipeline to find",
        )?;
            if options.servable_name.is_empty() {
                return Err(
                    "servable_name is empty; it names the model or pipeline to find".to_owned(),
                );
            }
            Ok(Contract {
                side_outputs: vec![PacketType::Session],
                ..Contract::any(node)
            })
        })
    },
    make: |node, _| Box::new(Finder(node.options.get().unwrap_or_default())),
}];

struct Finder(Options);

impl Calculator for Finder {
    fn open(&mut self, context: &mut CalculatorContext<'_>) -> StepResult {
        let name = &self.0.servable_name;
        let version = version(self.0.servable_version());
        let session = context.env.servables.session(name, version);
        let session = session.map_err(|error| {
            let node = &context.node.name;
            tracing::warn!(%node, servable = %name, "No session: {error}");
            GraphRunError::new(
                AbseilCode::FailedPrecondition,
                "OpenVINOModelServerSessionCalculator failed to load the model",
            )
        })?;
        let packet = Packet::side(Payload::Session(session));
        context.emit(Emit::Side(0, packet));
        Ok(StepOutcome::Next)
    }
}

/// Parses a version; anything but a number means the default one.
fn version(text: &str) -> Option<i64> {
    text.trim().parse().ok().filter(|&version| version > 0)
}

#[cfg(test)]
mod tests {
    use super::{FACTORIES, Options, TAG, version};
    use crate::graph::calculators::{
        error::AbseilCode,
        node::{NodeOptions, NodeSpec, Ports},
        packet::{PacketType, Payload},
        stock::tests::fake::{Fake, Run},
        timestamp::Timestamp,
    };

    fn node(name: &str, version: Option<&str>) -> NodeSpec {
        NodeSpec {
            side_outputs: Ports::of(&["SESSION:s"]),
            options: NodeOptions::of(&Options {
                servable_name: name.to_owned(),
                servable_version: version.map(str::to_owned),
                service_url: Some("nowhere:1".to_owned()),
                server_config: Some("/none".to_owned()),
            }),
            ..NodeSpec::default()
        }
    }

    #[test]
    fn it_gives_the_session_of_a_servable() {
        for (text, expected) in [
            (None, None),
            (Some("2"), Some(2)),
            (Some("0"), None),
            (Some(""), None),
            (Some("x"), None),
            (Some("-1"), None),
        ] {
            let fake = Fake::new(&["b"], &["a"]);
            let mut run = Run::new(&FACTORIES[0], node("m", text), &fake);
            let sides = run.open(vec![]).unwrap();
            let [(0, packet)] = &sides[..] else {
                panic!("{sides:?}");
            };
            assert_eq!(packet.at(), Timestamp::UNSET);
            assert!(matches!(packet.payload(), Some(Payload::Session(_))));
            assert_eq!(fake.asked(), [("m".to_owned(), expected)]);
        }
        assert_eq!(version(" 3 "), Some(3));
    }

    #[test]
    fn no_servable_is_a_failed_precondition() {
        let fake = Fake::missing();
        let error = Run::new(&FACTORIES[0], node("m", None), &fake)
            .open(vec![])
            .unwrap_err();
        assert_eq!(error.code, AbseilCode::FailedPrecondition);
        assert_eq!(
            error.message,
            "OpenVINOModelServerSessionCalculator failed to load the model"
        );
    }

    #[test]
    fn it_has_no_streams_and_one_side_packet() {
        let good = FACTORIES[0].check(&node("m", None)).unwrap();
        assert_eq!(good.side_outputs, [PacketType::Session]);
        let refused = |change: fn(&mut NodeSpec)| {
            let mut node = node("m", None);
            change(&mut node);
            FACTORIES[0].check(&node).unwrap_err()
        };
        let streams = refused(|node| node.inputs = Ports::of(&["a"]));
        assert!(streams.contains("no streams"), "{streams}");
        for sides in [&["s"][..], &[], &["SESSION:a", "SESSION:1:b"]] {
            let mut node = node("m", None);
            node.side_outputs = Ports::of(sides);
            let error = FACTORIES[0].check(&node).unwrap_err();
            assert!(error.contains(TAG), "{error}");
        }
        let bare = refused(|node| node.options = NodeOptions::default());
        assert!(bare.contains("servable_name"), "{bare}");
        let nameless = FACTORIES[0].check(&self::node("", None)).unwrap_err();
        assert!(nameless.contains("servable_name is empty"), "{nameless}");
    }
}
