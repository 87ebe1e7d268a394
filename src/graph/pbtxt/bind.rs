//! Binding of parsed fields to the descriptors of messages.

use prost::Message;
use prost_reflect::{
    DynamicMessage, ExtensionDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value as Bound,
};

use super::{
    MAX_ERRORS, TextError, messages, scalar,
    tree::{Field, Name, Shape, Value, cut},
};
use crate::error::nearest;

/// Message of a graph file.
const GRAPH: &str = "mediapipe.CalculatorGraphConfig";
/// Message of any type.
const ANY: &str = "google.protobuf.Any";

/// Decodes a graph from the fields of a file.
pub(super) fn graph(text: &str, fields: &[Field]) -> Result<DynamicMessage, Vec<TextError>> {
    let mut binder = Binder {
        text,
        node: None,
        depth: 0,
        errors: Vec::new(),
    };
    let graph = messages()
        .get_message_by_name(GRAPH)
        .expect("own descriptors have it");
    let message = binder.message(&graph, fields, 0);
    if binder.errors.is_empty() {
        Ok(message)
    } else {
        Err(binder.errors)
    }
}

struct Binder<'a> {
    text: &'a str,
    node: Option<String>,
    /// Nesting depth of the current message.
    depth: usize,
    errors: Vec<TextError>,
}

impl Binder<'_> {
    const fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    fn error(&mut self, at: usize, message: String, hint: Option<String>) {
        if !self.is_full() {
            self.errors.push(TextError {
                at,
                node: self.node.clone(),
                message,
                hint,
            });
        }
    }

    fn message(&mut self, kind: &MessageDescriptor, fields: &[Field], at: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(kind.clone());
        for field in fields {
            if self.is_full() {
                return message;
            }
            let is_node = self.depth == 0 && field.plain(self.text) == Some("node");
            if is_node {
                self.node = self.label(field.value.fields());
            }
            self.depth += 1;
            self.field(&mut message, field);
            self.depth -= 1;
            if is_node {
                self.node = None;
            }
        }
        let missing = kind.fields().filter(|field| {
            field.cardinality() == prost_reflect::Cardinality::Required
                && !fields
                    .iter()
                    .any(|given| given.plain(self.text) == Some(field.name()))
        });
        for field in missing.collect::<Vec<_>>() {
            let (name, kind) = (field.name(), kind.full_name());
            self.error(
                at,
                format!("the required field \"{name}\" of {kind} is missing"),
                Some(format!("add `{name}: …` there")),
            );
        }
        message
    }

    /// Returns the label of a node: its name, else its calculator.
    fn label(&self, fields: &[Field]) -> Option<String> {
        let find = |name: &str| {
            let mut values = super::all(fields, self.text, name);
            let value = scalar::text_at(self.text, values.next()?.at).ok()?;
            String::from_utf8(value).ok().map(|name| cut(&name))
        };
        find("name").or_else(|| find("calculator"))
    }

    fn field(&mut self, message: &mut DynamicMessage, field: &Field) {
        let kind = message.descriptor();
        match &field.name {
            Name::Plain(_) => {
                let name = field.plain(self.text).unwrap_or_default();
                let Some(slot) = kind.get_field_by_name(name) else {
                    let known: Vec<String> = kind.fields().map(|f| f.name().to_owned()).collect();
                    let near = nearest(name, known.iter().map(String::as_str));
                    let hint = near.map_or_else(
                        || without(&kind, &known),
                        |name| format!("did you mean \"{name}\"?"),
                    );
                    self.error(
                        field.at,
                        format!("{} has no field \"{}\"", kind.full_name(), cut(name)),
                        Some(hint),
                    );
                    return;
                };
                if !slot.is_list() && !slot.is_map() {
                    let is_set = message.has_field(&slot);
                    let oneof = slot.containing_oneof();
                    let other = oneof
                        .and_then(|oneof| oneof.fields().find(|other| message.has_field(other)));
                    if is_set {
                        self.error(field.at, format!("\"{name}\" is set twice"), None);
                        return;
                    }
                    if let Some(other) = other {
                        let other = other.name();
                        self.error(
                            field.at,
                            format!("\"{name}\" and \"{other}\" cannot both be set"),
                            None,
                        );
                        return;
                    }
                }
                let is_many = slot.is_list() || slot.is_map();
                if let Some(value) = self.values(&slot.kind(), name, is_many, &field.value) {
                    merge(message.get_field_mut(&slot), value);
                }
            }
            Name::Extension(name) => {
                let Some(slot) = self.extension(&kind, name, field.at) else {
                    return;
                };
                if message.has_extension(&slot) {
                    self.error(field.at, format!("[{name}] is set twice"), None);
                    return;
                }
                let (name, is_many) = (format!("[{name}]"), slot.is_list() || slot.is_map());
                if let Some(value) = self.values(&slot.kind(), &name, is_many, &field.value) {
                    merge(message.get_extension_mut(&slot), value);
                }
            }
            Name::Type(address) => self.any(message, address, field),
        }
    }

    fn extension(
        &mut self,
        kind: &MessageDescriptor,
        name: &str,
        at: usize,
    ) -> Option<ExtensionDescriptor> {
        if let Some(found) = kind.get_extension_by_full_name(name) {
            return Some(found);
        }
        let mut others = messages().all_extensions();
        if let Some(other) = others.find(|other| other.full_name() == name) {
            let place = other.containing_message();
            self.error(
                at,
                format!("[{name}] is an option of {}", place.full_name()),
                Some(format!("{} does not take it", kind.full_name())),
            );
            return None;
        }
        let known: Vec<String> = kind
            .extensions()
            .map(|extension| extension.full_name().to_owned())
            .collect();
        let near = nearest(name, known.iter().map(String::as_str));
        self.error(
            at,
            format!("{} has no extension \"{}\"", kind.full_name(), cut(name)),
            near.map(|name| format!("did you mean [{name}]?")),
        );
        None
    }

    fn any(&mut self, message: &mut DynamicMessage, address: &str, field: &Field) {
        let kind = message.descriptor();
        if kind.full_name() != ANY {
            self.error(
                field.at,
                format!(
                    "{} takes no type in brackets, found [{}]",
                    kind.full_name(),
                    cut(address)
                ),
                Some("types belong into `node_options: { … }`".to_owned()),
            );
            return;
        }
        let name = address.rsplit('/').next().unwrap_or_default();
        let Some(inner) = messages().get_message_by_name(name) else {
            let known = messages().all_messages();
            let known: Vec<String> = known.map(|known| known.full_name().to_owned()).collect();
            let near = nearest(name, known.iter().map(String::as_str));
            self.error(
                field.at,
                format!("the type \"{}\" is not known", cut(name)),
                near.map(|name| format!("did you mean [type.googleapis.com/{name}]?")),
            );
            return;
        };
        if message.has_field_by_name("type_url") {
            self.error(
                field.at,
                "one `{ … }` takes one type, found a second".to_owned(),
                Some("write each type into a `node_options` of its own".to_owned()),
            );
            return;
        }
        let Some(Bound::Message(inner)) =
            self.value(&Kind::Message(inner), address, &field.value, field.at)
        else {
            return;
        };
        message.set_field_by_name("type_url", Bound::String(address.to_owned()));
        message.set_field_by_name("value", Bound::Bytes(inner.encode_to_vec().into()));
    }

    /// Reads the value of a field: one, or a list if the field is repeated.
    fn values(&mut self, kind: &Kind, name: &str, is_many: bool, value: &Value) -> Option<Bound> {
        if is_many {
            let values = value.each().iter();
            let values: Vec<_> = values
                .filter_map(|value| self.value(kind, name, value, value.at))
                .collect();
            return Some(Bound::List(values));
        }
        self.value(kind, name, value, value.at)
    }

    fn value(&mut self, kind: &Kind, name: &str, value: &Value, at: usize) -> Option<Bound> {
        match (kind, &value.shape) {
            (Kind::Message(kind), Shape::Message(fields)) => {
                Some(Bound::Message(self.message(kind, fields, at)))
            }
            (Kind::Message(_), Shape::Scalar) => {
                self.unfit(value, name, "fields in braces, `{ … }`", None)
            }
            (_, Shape::Message(_)) => {
                self.unfit(value, name, "one value, not fields in braces", None)
            }
            (_, Shape::List(_)) => self.unfit(value, name, "one value, not a list", None),
            (kind, Shape::Scalar) => match scalar::read(self.text, value.at, kind) {
                Ok(value) => Some(value),
                Err(unfit) => self.unfit(value, name, &unfit.expected, unfit.hint),
            },
        }
    }

    fn unfit(
        &mut self,
        value: &Value,
        name: &str,
        expected: &str,
        hint: Option<String>,
    ) -> Option<Bound> {
        let found = match value.shape {
            Shape::Scalar => {
                let line = self.text[value.at..].lines().next().unwrap_or_default();
                let end = line.find([' ', '\t', ',', ';', '}', ']', '#']);
                let is_text = line.starts_with(['"', '\'']);
                let word = match end {
                    Some(end) if !is_text => &line[..end],
                    _ => line,
                };
                format!("{name}: {}, ", cut(word.trim_end()))
            }
            _ => format!("{name}: "),
        };
        self.error(value.at, format!("{found}expected {expected}"), hint);
        None
    }
}

/// Describes the fields a message has, for the error about an unknown one.
fn without(kind: &MessageDescriptor, known: &[String]) -> String {
    if kind.full_name() == ANY {
        "name the type of the options: `[type.googleapis.com/mediapipe.…] { … }`".to_owned()
    } else if kind.extensions().next().is_some() {
        "options stand in an extension: `[mediapipe.….ext] { … }`".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    }
}

/// Merges a value into the previous value of a field.
fn merge(into: &mut Bound, value: Bound) {
    match (into, value) {
        (Bound::List(values), Bound::List(more)) => values.extend(more),
        (Bound::Map(map), Bound::List(entries)) => {
            for entry in entries {
                let Bound::Message(entry) = entry else {
                    continue;
                };
                let part = |name: &str| entry.get_field_by_name(name).map(|v| v.into_owned());
                let key: Option<MapKey> = part("key").and_then(Bound::into_map_key);
                if let (Some(key), Some(value)) = (key, part("value")) {
                    map.insert(key, value);
                }
            }
        }
        (into, value) => *into = value,
    }
}
