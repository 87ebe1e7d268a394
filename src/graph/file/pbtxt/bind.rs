//! Binding of parsed fields to the descriptors of messages.

use prost::Message;
use prost_reflect::{
    Cardinality, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MapKey,
    MessageDescriptor, ReflectMessage, Value as Bound,
};

use super::{
    MAX_ERRORS, MESSAGES, TextError, scalar,
    tree::{Field, Name, Shape, Value, cut},
};
use crate::error::nearest;

/// Message of a graph file.
const GRAPH: &str = "mediapipe.CalculatorGraphConfig";
/// Message of any type.
const ANY: &str = "google.protobuf.Any";

/// Decodes a graph from the fields of a file.
pub(super) fn graph(text: &str, fields: &[Field<'_>]) -> Result<DynamicMessage, Vec<TextError>> {
    let mut binder = Binder {
        text,
        node: None,
        depth: 0,
        errors: Vec::new(),
    };
    let graph = MESSAGES
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

    fn message(
        &mut self,
        kind: &MessageDescriptor,
        fields: &[Field<'_>],
        at: usize,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(kind.clone());
        for field in fields {
            if self.is_full() {
                return message;
            }
            let is_node = self.depth == 0 && field.plain() == Some("node");
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
        for field in kind.fields() {
            let (name, kind) = (field.name(), kind.full_name());
            let mut given = fields.iter().map(|given| given.plain());
            if field.cardinality() == Cardinality::Required && !given.any(|it| it == Some(name)) {
                let message = format!("the required field \"{name}\" of {kind} is missing");
                self.error(at, message, Some(format!("add `{name}: …` there")));
            }
        }
        message
    }

    /// Returns the label of a node: its name, else its calculator.
    fn label(&self, fields: &[Field<'_>]) -> Option<String> {
        let find = |name: &str| {
            let mut values = super::all(fields, name);
            let value = scalar::text_at(self.text, values.next()?.at).ok()?;
            String::from_utf8(value).ok().map(|name| cut(&name))
        };
        find("name").or_else(|| find("calculator"))
    }

    fn field(&mut self, message: &mut DynamicMessage, field: &Field<'_>) {
        match &field.name {
            Name::Plain(_) => {
                let name = field.plain().unwrap_or_default();
                let Some(slot) = self.slot(message, name, field.at) else {
                    return;
                };
                let is_many = slot.is_list() || slot.is_map();
                if let Some(value) = self.values(&slot.kind(), name, is_many, &field.value) {
                    merge(message.get_field_mut(&slot), value);
                }
            }
            Name::Extension(name) => {
                let Some(slot) = self.extension(&message.descriptor(), name, field.at) else {
                    return;
                };
                if message.has_extension(&slot) {
                    return self.error(field.at, format!("[{name}] is set twice"), None);
                }
                let (name, is_many) = (format!("[{name}]"), slot.is_list() || slot.is_map());
                if let Some(value) = self.values(&slot.kind(), &name, is_many, &field.value) {
                    merge(message.get_extension_mut(&slot), value);
                }
            }
            Name::Type(address) => self.any(message, address, field),
        }
    }

    /// Finds the field of a name, if it can be set.
    fn slot(&mut self, message: &DynamicMessage, name: &str, at: usize) -> Option<FieldDescriptor> {
        let kind = message.descriptor();
        let Some(slot) = kind.get_field_by_name(name) else {
            let known: Vec<String> = kind.fields().map(|f| f.name().to_owned()).collect();
            let hint = near(name, &known).map(|name| format!("did you mean \"{name}\"?"));
            let hint = hint.unwrap_or_else(|| without(&kind, &known));
            let message = format!("{} has no field \"{}\"", kind.full_name(), cut(name));
            self.error(at, message, Some(hint));
            return None;
        };
        if slot.is_list() || slot.is_map() {
            return Some(slot);
        }
        let oneof = slot.containing_oneof();
        let other = oneof.and_then(|oneof| oneof.fields().find(|other| message.has_field(other)));
        if message.has_field(&slot) {
            self.error(at, format!("\"{name}\" is set twice"), None);
        } else if let Some(other) = other {
            let other = other.name();
            let message = format!("\"{name}\" and \"{other}\" cannot both be set");
            self.error(at, message, None);
        } else {
            return Some(slot);
        }
        None
    }

    fn extension(
        &mut self,
        kind: &MessageDescriptor,
        name: &str,
        at: usize,
    ) -> Option<ExtensionDescriptor> {
        let found = kind.get_extension_by_full_name(name);
        if found.is_some() {
            return found;
        }
        let (of, mut others) = (kind.full_name(), MESSAGES.all_extensions());
        if let Some(other) = others.find(|other| other.full_name() == name) {
            let place = other.containing_message();
            let message = format!("[{name}] is an option of {}", place.full_name());
            self.error(at, message, Some(format!("{of} does not take it")));
        } else {
            let known = kind.extensions().map(|known| known.full_name().to_owned());
            let known: Vec<String> = known.collect();
            let hint = near(name, &known).map(|name| format!("did you mean [{name}]?"));
            let message = format!("{of} has no extension \"{}\"", cut(name));
            self.error(at, message, hint);
        }
        None
    }

    fn any(&mut self, message: &mut DynamicMessage, address: &str, field: &Field<'_>) {
        let kind = message.descriptor();
        if kind.full_name() != ANY {
            let (kind, found) = (kind.full_name(), cut(address));
            let message = format!("{kind} takes no type in brackets, found [{found}]");
            let hint = "types belong into `node_options: { … }`".to_owned();
            return self.error(field.at, message, Some(hint));
        }
        let name = address.rsplit('/').next().unwrap_or_default();
        let Some(inner) = MESSAGES.get_message_by_name(name) else {
            let known = MESSAGES.all_messages();
            let known: Vec<String> = known.map(|known| known.full_name().to_owned()).collect();
            let near = near(name, &known);
            let hint = near.map(|name| format!("did you mean [type.googleapis.com/{name}]?"));
            let message = format!("the type \"{}\" is not known", cut(name));
            return self.error(field.at, message, hint);
        };
        if message.has_field_by_name("type_url") {
            let message = "one `{ … }` takes one type, found a second".to_owned();
            let hint = "write each type into a `node_options` of its own".to_owned();
            return self.error(field.at, message, Some(hint));
        }
        let value = self.value(&Kind::Message(inner), address, &field.value, field.at);
        if let Some(Bound::Message(inner)) = value {
            message.set_field_by_name("type_url", Bound::String(address.to_owned()));
            message.set_field_by_name("value", Bound::Bytes(inner.encode_to_vec().into()));
        }
    }

    /// Reads the value of a field: one, or a list if the field is repeated.
    fn values(
        &mut self,
        kind: &Kind,
        name: &str,
        is_many: bool,
        value: &Value<'_>,
    ) -> Option<Bound> {
        if !is_many {
            return self.value(kind, name, value, value.at);
        }
        let values = value.each().iter();
        let values = values.filter_map(|value| self.value(kind, name, value, value.at));
        Some(Bound::List(values.collect()))
    }

    fn value(&mut self, kind: &Kind, name: &str, value: &Value<'_>, at: usize) -> Option<Bound> {
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
        value: &Value<'_>,
        name: &str,
        expected: &str,
        hint: Option<String>,
    ) -> Option<Bound> {
        let mut found = String::new();
        if matches!(value.shape, Shape::Scalar) {
            let line = self.text[value.at..].lines().next().unwrap_or_default();
            let is_text = line.starts_with(['"', '\'']);
            let mut words = line.split([' ', '\t', ',', ';', '}', ']', '#']);
            let word = if is_text {
                line
            } else {
                words.next().unwrap_or_default()
            };
            found = format!("{}, ", cut(word.trim_end()));
        }
        self.error(
            value.at,
            format!("{name}: {found}expected {expected}"),
            hint,
        );
        None
    }
}

/// Returns the nearest of the known names.
fn near<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    nearest(name, known.iter().map(String::as_str))
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
