//! Values of a file with their positions and expected types: each mismatch becomes an error, and
//! reading continues. Of a duplicate key the last value counts, with a warning.

use std::{cell::RefCell, collections::HashMap};

use jsonc_parser::ast::{ObjectPropName, Value};

use super::syntax::{Source, range, shorten};
use crate::{
    byte_size::ByteSize,
    diagnostic::{Diagnostic, FilePosition, Severity},
    error::nearest,
    python::WORKER_OPTIONS,
};

/// Maximum number of errors, and of warnings, reported one by one; nobody reads more.
const MAX_REPORTED: usize = 100;

/// Key at the top of a file that names its schema to editors.
const SCHEMA: &str = "$schema";

/// Key of the models, which each file has.
const MODELS: &str = "model_config_list";

/// Keys of Triton's `config.pbtxt` that people write into this file, with what they are here.
const OF_TRITON: [(&str, &str); 8] = [
    ("default_model_filename", "base_path"),
    ("instance_group", "nireq"),
    ("max_batch_size", "batch_size"),
    ("max_queue_delay_microseconds", "max_delay_us"),
    ("model_warmup", "warmup"),
    ("preferred_batch_size", "max_batch"),
    ("sequence_batching", "stateful"),
    ("version_policy", "model_version_policy"),
];

/// Returns the hint for a key that is of something else: of graphs, or Triton's, if what it is here is known at this
/// place.
fn of_others(key: &str, known: &[&str]) -> Option<String> {
    if WORKER_OPTIONS.contains(&key) && known.contains(&"graph_path") {
        return Some(format!(
            "`{key}` of a graph is in its entry of `mediapipe_config_list`, or beside `handler_path` in the graph"
        ));
    }
    let (_, here) = OF_TRITON.iter().find(|(theirs, _)| *theirs == key)?;
    known
        .contains(here)
        .then(|| format!("what Triton names `{key}` is `{here}` here"))
}

/// Findings in a file so far.
#[derive(Debug)]
pub(in crate::config) struct Findings<'a> {
    source: &'a Source,
    errors: RefCell<Kept>,
    warnings: RefCell<Kept>,
}

/// First findings, and the number of those that were not kept.
#[derive(Debug, Default)]
struct Kept {
    found: Vec<Diagnostic>,
    more: usize,
}

impl Kept {
    /// Keeps a finding, unless there are too many.
    fn add(&mut self, found: Diagnostic) {
        if self.found.len() < MAX_REPORTED {
            self.found.push(found);
        } else {
            self.more += 1;
        }
    }
}

impl<'a> Findings<'a> {
    pub(in crate::config) fn new(source: &'a Source) -> Self {
        Self {
            source,
            errors: RefCell::default(),
            warnings: RefCell::default(),
        }
    }

    /// Keeps a warning about a range of bytes.
    fn warn(&self, range: (usize, usize), path: &str, text: impl Into<String>) {
        let warning = Diagnostic::new(Severity::Warning, text.into());
        let warning = warning.at(self.source.place(range, path));
        self.warnings.borrow_mut().add(warning);
    }

    /// Returns the errors in file order, the number of further errors, and the warnings.
    pub(in crate::config) fn into_parts(self) -> (Vec<Diagnostic>, usize, Vec<Diagnostic>) {
        let (mut errors, mut warnings) = (self.errors.into_inner(), self.warnings.into_inner());
        errors.found.sort_by_key(Diagnostic::order);
        warnings.found.sort_by_key(Diagnostic::order);
        let more = warnings.more;
        if let Some(last) = warnings.found.last_mut().filter(|_| more > 0) {
            last.message = format!("{} (and {more} more warnings)", last.message).into();
        }
        (errors.found, errors.more, warnings.found)
    }
}

/// Lists the allowed values.
pub(in crate::config) fn one_of(known: &[&str]) -> String {
    match known {
        [only] => format!("`{only}`"),
        _ => format!("one of {}", known.join(", ")),
    }
}

/// A value with its place.
#[derive(Debug, Clone)]
pub(in crate::config) struct Node<'a> {
    value: &'a Value<'a>,
    path: String,
    findings: &'a Findings<'a>,
}

/// The fields of an object with known keys.
#[derive(Debug)]
pub(in crate::config) struct Fields<'a> {
    known: Vec<(String, Node<'a>)>,
    /// The keys that unknown ones of the object were probably meant to be.
    meant: Vec<String>,
}

impl<'a> Fields<'a> {
    /// Returns the value of a key.
    pub(in crate::config) fn get(&self, key: &str) -> Option<&Node<'a>> {
        let found = self.known.iter().find(|(name, _)| name == key);
        found.map(|(_, node)| node)
    }

    /// Returns true if the key is missing because it is misspelled, which is an error already.
    pub(in crate::config) fn is_misspelled(&self, key: &str) -> bool {
        self.meant.iter().any(|meant| meant == key)
    }

    /// Returns the text of a key, if it is there and is one.
    pub(in crate::config) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.text()
    }
}

impl<'a> Node<'a> {
    /// Starts at the root.
    pub(in crate::config) fn root(value: &'a Value<'a>, findings: &'a Findings<'a>) -> Self {
        Self {
            value,
            path: String::new(),
            findings,
        }
    }

    /// Returns the position of the value.
    pub(in crate::config) fn place(&self) -> FilePosition {
        self.findings.source.place(range(self.value), &self.path)
    }

    /// Returns the positions of the object and of the values of its keys.
    pub(in crate::config) fn places(&self, fields: &Fields<'_>) -> FilePositions {
        let keys = fields.known.iter();
        FilePositions {
            own: self.place(),
            keys: keys
                .map(|(key, node)| (key.clone(), node.place()))
                .collect(),
        }
    }

    /// Adds an error with the value that was expected.
    pub(in crate::config) fn expected(&self, expected: impl Into<String>) {
        let found = match self.value {
            Value::StringLit(text) => format!("the text \"{}\"", shorten(&text.value)),
            Value::NumberLit(number) => shorten(number.value),
            Value::BooleanLit(flag) => flag.value.to_string(),
            Value::Object(_) => "an object".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::NullKeyword(_) => "null".to_owned(),
        };
        self.error(range(self.value), &self.path, found, expected);
    }

    /// Adds that error where a value would be read.
    pub(in crate::config) fn refuse<T>(&self, expected: impl Into<String>) -> Option<T> {
        self.expected(expected);
        None
    }

    fn error(&self, at: (usize, usize), path: &str, found: String, expected: impl Into<String>) {
        let error = self.findings.source.error(at, path, found, expected);
        self.findings.errors.borrow_mut().add(error);
    }

    /// Adds a warning about the value.
    pub(in crate::config) fn warn(&self, text: impl Into<String>) {
        self.findings.warn(range(self.value), &self.path, text);
    }

    /// Reads an object of which the keys are known.
    pub(in crate::config) fn fields(
        &self,
        known: &[&str],
        required: &[&str],
    ) -> Option<Fields<'a>> {
        if !matches!(self.value, Value::Object(_)) {
            return self.refuse(format!("an object with {}", known.join(", ")));
        }
        let mut fields = self.entries(Some(known))?;
        let unknown = fields.iter().map(|(name, _)| name.as_str());
        let unknown = unknown.filter(|name| !known.contains(name));
        let meant: Vec<String> = unknown
            .filter_map(|name| nearest(name, known.iter().copied()))
            .map(ToOwned::to_owned)
            .collect();
        for key in required {
            let is_misspelled = meant.iter().any(|meant| meant == key);
            if !is_misspelled && !fields.iter().any(|(name, _)| name == key) {
                let start = range(self.value).0;
                let at = (start, start + 1);
                let expected = format!("the key `{key}`");
                let path = self.below(key);
                let source = self.findings.source;
                let error = source.error(at, &path, "nothing".to_owned(), expected);
                // Files of pipelines or graphs alone have it, too.
                let is_list = *key == MODELS && self.path.is_empty() && !fields.is_empty();
                let hint = is_list.then(|| format!("without models, add \"{MODELS}\": []"));
                self.findings.errors.borrow_mut().add(error.may_hint(hint));
            }
        }
        fields.retain(|(name, _)| known.contains(&name.as_str()));
        Some(Fields {
            known: fields,
            meant,
        })
    }

    /// Reads an object of any keys.
    pub(in crate::config) fn pairs(&self, of_what: &str) -> Option<Vec<(String, Self)>> {
        if !matches!(self.value, Value::Object(_)) {
            return self.refuse(format!("an object of {of_what}"));
        }
        self.entries(None)
    }

    /// Returns the entries of an object, each key once, and reports duplicate keys, and those that are
    /// not known.
    fn entries(&self, known: Option<&[&str]>) -> Option<Vec<(String, Self)>> {
        let Value::Object(object) = self.value else {
            return None;
        };
        // Where among the entries a key is.
        let mut seen = HashMap::new();
        let mut entries: Vec<(String, Self)> = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            let ObjectPropName::String(name) = &property.name else {
                continue;
            };
            let key = name.value.as_ref();
            let is_schema = key == SCHEMA && matches!(property.value, Value::StringLit(_));
            if is_schema && self.path.is_empty() {
                continue;
            }
            let at = (name.range.start, name.range.end);
            let path = self.below(key);
            if let Some(&first) = seen.get(key) {
                let key = shorten(key);
                let text = format!("the key `{key}` is here again; its last value counts");
                self.findings.warn(at, &path, text);
                let entry: &mut (String, Self) = &mut entries[first];
                entry.1.value = &property.value;
                continue;
            }
            seen.insert(key, entries.len());
            if let Some(known) = known.filter(|known| !known.contains(&key)) {
                let found = format!("the unknown key `{}`", shorten(key));
                let source = self.findings.source;
                let error = source.error(at, &path, found, one_of(known)).about(&path);
                let near = || {
                    Some(format!(
                        "did you mean `{}`?",
                        nearest(key, known.iter().copied())?
                    ))
                };
                let error = error.may_hint(of_others(key, known).or_else(near));
                self.findings.errors.borrow_mut().add(error);
            }
            entries.push((
                key.to_owned(),
                Self {
                    value: &property.value,
                    path,
                    findings: self.findings,
                },
            ));
        }
        Some(entries)
    }

    /// Reads a list.
    pub(in crate::config) fn list(&self, of_what: &str) -> Option<Vec<Self>> {
        let Value::Array(list) = self.value else {
            return self.refuse(format!("a list of {of_what}"));
        };
        let nodes = list.elements.iter().enumerate().map(|(index, value)| Self {
            value,
            path: format!("{}[{index}]", self.path),
            findings: self.findings,
        });
        Some(nodes.collect())
    }

    /// Reads a text.
    pub(in crate::config) fn text(&self) -> Option<&'a str> {
        match self.value {
            Value::StringLit(text) => Some(text.value.as_ref()),
            _ => self.refuse("a text"),
        }
    }

    /// Reads a text that is not empty, and that the names of threads and the texts of C can have.
    pub(in crate::config) fn name(&self) -> Option<&'a str> {
        let text = self.text()?;
        if text.is_empty() {
            return self.refuse("a text that is not empty");
        }
        if text.contains('\0') {
            return self.refuse("a text without the character U+0000");
        }
        Some(text)
    }

    /// Reads `true` or `false`.
    pub(in crate::config) fn flag(&self) -> Option<bool> {
        match self.value {
            Value::BooleanLit(flag) => Some(flag.value),
            _ => self.refuse("true or false"),
        }
    }

    /// Reads a whole number between two, both included.
    pub(in crate::config) fn whole(&self, low: i64, high: i64) -> Option<i64> {
        let number = match self.value {
            Value::NumberLit(number) => number.value.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| (low..=high).contains(number));
        if number.is_none() {
            self.expected(if high == i64::MAX {
                format!("a whole number from {low}")
            } else {
                format!("a whole number from {low} to {high}")
            });
        }
        number
    }

    /// Reads a whole number that is not negative and may be of any size, as its digits.
    pub(in crate::config) fn natural(&self) -> Option<String> {
        match self.value {
            Value::NumberLit(number) if number.value.bytes().all(|it| it.is_ascii_digit()) => {
                Some(number.value.to_owned())
            }
            _ => self.refuse("a whole number from 0"),
        }
    }

    /// Reads a number of bytes, which may be a text with a unit.
    pub(in crate::config) fn bytes(&self) -> Option<u64> {
        let size: Option<u64> = match self.value {
            Value::NumberLit(number) => number.value.parse().ok(),
            Value::StringLit(text) => {
                let size = text.value.parse::<ByteSize>().ok();
                size.map(|size| size.get() as u64)
            }
            _ => None,
        };
        if size.is_none() {
            self.expected(
                "a number of bytes: a whole number from 0, or a text with K, M, or G behind it, such as \"64M\"",
            );
        }
        size
    }

    /// Returns the value as it is in the file.
    pub(in crate::config) fn value(&self) -> &'a Value<'a> {
        self.value
    }

    /// Returns the path of a key of this object.
    fn below(&self, key: &str) -> String {
        let plain = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !plain {
            format!("{}[{:?}]", self.path, shorten(key))
        } else if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

/// The place of an object, and of what is below its keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePositions {
    /// The object itself.
    pub own: FilePosition,
    /// The values of the keys that it has.
    pub(in crate::config) keys: Vec<(String, FilePosition)>,
}

impl FilePositions {
    /// Returns the place of the value of a key that it has.
    pub fn get(&self, key: &str) -> Option<&FilePosition> {
        let mut keys = self.keys.iter();
        keys.find(|(name, _)| name == key).map(|(_, place)| place)
    }

    /// Returns the place of the value of a key; that of the object if it does not have the key.
    pub fn of(&self, key: &str) -> &FilePosition {
        self.get(key).unwrap_or(&self.own)
    }
}
