//! Options of nodes and handlers: messages of any type, and extensions.

use prost::Message;
use prost_reflect::{Cardinality, DynamicMessage, FieldDescriptor, ReflectMessage};

use super::{Field, Found, all, first, pbtxt::MESSAGES, rules};
use crate::{
    graph::calculators::node::NodeOptions, proto::mediapipe::calculator_graph_config::Node,
};

/// Reads the options of a node. `node_options` take precedence if both ways give the same type.
pub(super) fn of_node(
    found: &Found<'_>,
    name: &str,
    node: &Node,
    message: &DynamicMessage,
    fields: &[Field<'_>],
) -> NodeOptions {
    let mut options = NodeOptions::default();
    let unreadable = |at: usize, message: String| {
        let error = found.error(rules::TEXT, at, message);
        found.add(error.node(name));
    };
    for (any, value) in node.node_options.iter().zip(all(fields, "node_options")) {
        // An empty `node_options {}` is ignored.
        if any.type_url.is_empty() && any.value.is_empty() {
            continue;
        }
        let kind = any.type_url.rsplit('/').next().unwrap_or_default();
        let Some(known) = MESSAGES.get_message_by_name(kind) else {
            unreadable(value.at, format!("the type \"{kind}\" is not known"));
            continue;
        };
        // Only options given as bytes can be invalid here.
        let Ok(read) = DynamicMessage::decode(known.clone(), any.value.as_slice()) else {
            unreadable(value.at, format!("\"value\" holds no {kind}"));
            continue;
        };
        let is_missing = |field: &FieldDescriptor| {
            field.cardinality() == Cardinality::Required && !read.has_field(field)
        };
        if let Some(missing) = known.fields().find(is_missing) {
            let missing = missing.name();
            let message = format!("the required field \"{missing}\" of {kind} is missing");
            unreadable(value.at, message);
            continue;
        }
        if options.names().any(|known| known == kind) {
            let message = format!("node_options has {kind} twice, and a node takes each type once");
            let hint = "put all fields into one of them".to_owned();
            found.wiring(Some(name), value.at, message, Some(hint));
            continue;
        }
        options.push(kind, any.value.clone().into());
    }
    for (kind, encoded) in extensions(message) {
        if options.names().any(|known| known == kind) {
            let at = first(fields, "options").map_or(0, |value| value.at);
            let message = format!("{kind} stands in node_options as well, which counts");
            found.warn(at, Some(name), message);
        } else {
            options.push(kind, encoded.into());
        }
    }
    options
}

/// Returns the options of a handler.
pub(super) fn of_extensions(handler: &DynamicMessage) -> NodeOptions {
    let mut options = NodeOptions::default();
    for (kind, encoded) in extensions(handler) {
        options.push(kind, encoded.into());
    }
    options
}

/// Returns the extensions in the options of a message: the names of their types, and their encoded
/// values.
fn extensions(message: &DynamicMessage) -> Vec<(String, Vec<u8>)> {
    let options = message.get_field_by_name("options");
    let options = options.as_ref().and_then(|options| options.as_message());
    let extensions = options.into_iter().flat_map(DynamicMessage::extensions);
    let messages = extensions.filter_map(|(_, value)| value.as_message());
    let messages = messages.map(|it| (it.descriptor().full_name().to_owned(), it.encode_to_vec()));
    messages.collect()
}
