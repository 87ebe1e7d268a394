//! Checks of the input stream handler of each node and its options.

use std::collections::HashSet;

use super::{Draft, plan::InputHandler};
use crate::{
    error::nearest,
    graph::{
        calculators::node::{NodeOptions, NodeSpec},
        file::{HandlerEntry, tag_index},
    },
    proto::mediapipe::{
        DefaultInputStreamHandlerOptions, FixedSizeInputStreamHandlerOptions,
        SyncSetInputStreamHandlerOptions, TimestampAlignInputStreamHandlerOptions,
    },
};

const DEFAULT: &str = "DefaultInputStreamHandler";
const SYNC_SET: &str = "SyncSetInputStreamHandler";

/// Known handlers.
const KNOWN: [&str; 8] = [
    DEFAULT,
    "ImmediateInputStreamHandler",
    SYNC_SET,
    "BarrierInputStreamHandler",
    "EarlyCloseInputStreamHandler",
    "MuxInputStreamHandler",
    "FixedSizeInputStreamHandler",
    "TimestampAlignInputStreamHandler",
];

/// Error message for an invalid handler, and a hint.
type Wrong = (String, Option<String>);

impl Draft<'_> {
    /// Returns the handler of a node: its own, else its calculator's, else that of the graph, else
    /// the default one. `None` if it is invalid, which is reported.
    pub(super) fn handler(&self, place: usize) -> Option<InputHandler> {
        let entry = &self.spec.nodes[place];
        let node = &self.nodes[place];
        let of_calculator = node.contract.as_ref().and_then(|contract| contract.handler);
        let of_graph = self
            .spec
            .handler
            .as_ref()
            .filter(|_| of_calculator.is_none());
        let usual = HandlerEntry {
            name: of_calculator.unwrap_or(DEFAULT).to_owned(),
            options: NodeOptions::default(),
            at: entry.at,
            options_at: entry.at,
        };
        let written = entry.handler.as_ref().or(of_graph).unwrap_or(&usual);
        let (name, options) = (written.name.as_str(), &written.options);
        let known = KNOWN.contains(&name);
        // A node without inputs needs no handler; with misspelled ports its inputs are unknown.
        if known && (entry.spec.inputs.is_empty() || !entry.is_sound) {
            return Some(InputHandler::Default);
        }
        match handler(name, options, &entry.spec) {
            Ok(handler) => {
                self.advise(place, written, &handler);
                Some(handler)
            }
            Err((message, hint)) => {
                // An unknown handler of the graph is one error, not one for each node.
                let at = if known {
                    written.options_at
                } else {
                    written.at
                };
                let node = (entry.handler.is_some() || known).then_some(&*entry.spec.name);
                self.found.wiring(node, at, message, hint);
                None
            }
        }
    }

    /// Warns of probable mistakes.
    fn advise(&self, place: usize, written: &HandlerEntry, handler: &InputHandler) {
        let (name, at) = (&written.name, written.options_at);
        let entry = &self.spec.nodes[place];
        let own = format!("mediapipe.{name}Options");
        for other in written.options.names().filter(|other| *other != own) {
            let message = format!("{name} does not look at {other}");
            self.found.warn(at, Some(&entry.spec.name), message);
        }
        if let InputHandler::FixedSize {
            trigger, target, ..
        } = handler
            && target > trigger
        {
            let message = format!(
                "target_queue_size {target} is above trigger_queue_size {trigger}: nothing is dropped"
            );
            self.found.warn(at, Some(&entry.spec.name), message);
        }
        let is_apart = |loopback: usize| match handler {
            InputHandler::SyncSet(sets) => sets.iter().any(|set| *set == [loopback]),
            InputHandler::Immediate => true,
            _ => false,
        };
        if let Some(loopback) = entry.spec.inputs.find("LOOPBACK", 0)
            && !self.nodes[place].is_loopback_wrong
            && !is_apart(loopback)
        {
            let port = &entry.spec.inputs[loopback];
            let at = entry.written.inputs[port.written].at;
            let message = format!(
                "with {name} the node waits for LOOPBACK together with other inputs, so that it gives \
                 nothing before they end; use SyncSetInputStreamHandler with `sync_set {{ tag_index: \
                 \"LOOPBACK:0\" }}`"
            );
            self.found.warn(at, Some(&entry.spec.name), message);
        }
    }
}

/// Creates a handler for a node.
fn handler(name: &str, options: &NodeOptions, node: &NodeSpec) -> Result<InputHandler, Wrong> {
    Ok(match name {
        DEFAULT => {
            let options: DefaultInputStreamHandlerOptions = options.get().unwrap_or_default();
            positive("batch_size", options.batch_size())?;
            InputHandler::Default
        }
        "ImmediateInputStreamHandler" => InputHandler::Immediate,
        SYNC_SET => sync_sets(&options.get().unwrap_or_default(), node)?,
        "BarrierInputStreamHandler" => InputHandler::Barrier,
        "EarlyCloseInputStreamHandler" => InputHandler::EarlyClose,
        "MuxInputStreamHandler" => {
            if node.inputs.len() < 2 {
                let message = "MuxInputStreamHandler needs an input that says which of the others is \
                               taken, and one of those, but there is only one input";
                return Err((message.to_owned(), None));
            }
            InputHandler::Mux
        }
        "FixedSizeInputStreamHandler" => {
            let options: FixedSizeInputStreamHandlerOptions = options.get().unwrap_or_default();
            InputHandler::FixedSize {
                trigger: positive("trigger_queue_size", options.trigger_queue_size())?,
                target: positive("target_queue_size", options.target_queue_size())?,
                fixed_min: options.fixed_min_size(),
            }
        }
        "TimestampAlignInputStreamHandler" => {
            let options: TimestampAlignInputStreamHandlerOptions =
                options.get().unwrap_or_default();
            let Some(base) = &options.timestamp_base_tag_index else {
                let message = "TimestampAlignInputStreamHandler needs timestamp_base_tag_index";
                return Err((message.to_owned(), Some(known_inputs(node))));
            };
            InputHandler::TimestampAlign(place("timestamp_base_tag_index", base, node)?)
        }
        _ => {
            let hint = nearest(name, KNOWN).map_or_else(
                || format!("there are {}", KNOWN.join(", ")),
                |near| format!("did you mean {near}?"),
            );
            let message = format!("the input stream handler \"{name}\" is not known");
            return Err((message, Some(hint)));
        }
    })
}

fn sync_sets(
    options: &SyncSetInputStreamHandlerOptions,
    node: &NodeSpec,
) -> Result<InputHandler, Wrong> {
    let mut taken = HashSet::new();
    let mut sets = Vec::new();
    for set in &options.sync_set {
        if set.tag_index.is_empty() {
            let message = "a sync_set names no input".to_owned();
            return Err((message, Some(known_inputs(node))));
        }
        let mut places = Vec::new();
        for text in &set.tag_index {
            let place = place("sync_set", text, node)?;
            if !taken.insert(place) {
                let message = format!(
                    "\"{text}\" stands twice in sync sets, and an input can be in one only"
                );
                return Err((message, None));
            }
            places.push(place);
        }
        places.sort_unstable();
        sets.push(places);
    }
    let rest = (0..node.inputs.len()).filter(|place| !taken.contains(place));
    let rest: Vec<usize> = rest.collect();
    if !rest.is_empty() {
        sets.push(rest);
    }
    Ok(InputHandler::SyncSet(sets))
}

/// Finds the input that an option refers to.
fn place(option: &str, text: &str, node: &NodeSpec) -> Result<usize, Wrong> {
    let at = tag_index(text).map_err(|message| (format!("{option}: {message}"), None))?;
    let message = || format!("{option}: \"{text}\" is not an input stream of the node");
    let found = node.inputs.find(&at.tag, at.index);
    found.ok_or_else(|| (message(), Some(known_inputs(node))))
}

/// Lists the inputs of a node, for hints.
pub(super) fn known_inputs(node: &NodeSpec) -> String {
    let known: Vec<String> = node.inputs.iter().map(|port| port.at.to_string()).collect();
    format!("it has {}", known.join(", "))
}

fn positive(option: &str, value: i32) -> Result<usize, Wrong> {
    let good = usize::try_from(value).ok().filter(|value| *value > 0);
    let hint = || Some("write a number above 0".to_owned());
    good.ok_or_else(|| (format!("{option} is {value}"), hint()))
}
