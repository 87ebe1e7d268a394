//! Models added to the text of a file and removed from it, while everything else in it, comments
//! too, stays as it is.

use jsonc_parser::ast::{Array, Object, Value};

use super::syntax::{Source, range};
use crate::diagnostic::Diagnostic;

/// Error of an edit to a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Text that is no JSON.
    #[error("{0}")]
    Syntax(Box<Diagnostic>),
    /// JSON that is no configuration file.
    #[error("found no list of models in it; expected an object with model_config_list")]
    NoList,
    /// The name is there already, with another path or setting.
    #[error("Given model name is already occupied - `{0}`")]
    Occupied(String),
    /// Unknown name.
    #[error("there is no model `{name}` in it{}", others(known))]
    Unknown {
        /// The name asked for.
        name: String,
        /// Names of the models in the file.
        known: Vec<String>,
    },
}

/// Returns the end of the text about a name that is not there.
fn others(known: &[String]) -> String {
    match known {
        [] => ", nor any other".to_owned(),
        known => format!("; the models are {}", known.join(", ")),
    }
}

/// Adds a model at the end of the list and returns the new text; of no text, it makes a new file.
/// A model of this name, path, and settings that is there already is left as it is.
///
/// # Errors
///
/// Fails if the text is no configuration file, or has the name with another path or setting.
pub fn add_model(
    content: Option<&[u8]>,
    (name, base_path): (&str, &str),
    settings: &[(&str, serde_json::Value)],
) -> Result<String, EditError> {
    let path = [("name", name.into()), ("base_path", base_path.into())];
    let keys = path.iter().chain(settings);
    let keys: Vec<String> = keys
        .map(|(key, value)| format!("\"{key}\": {value}"))
        .collect();
    let entry = format!("{{\"config\": {{{}}}}}", keys.join(", "));
    let Some(content) = content else {
        return Ok(format!(
            "{{\n    \"model_config_list\": [\n        {entry}\n    ]\n}}\n"
        ));
    };
    let source = Source::new(content).map_err(EditError::Syntax)?;
    let value = source.parse().map_err(EditError::Syntax)?;
    let Value::Object(root) = &value else {
        return Err(EditError::NoList);
    };
    let text = source.original();
    let Some(list) = models(root)? else {
        // Right behind the first brace; the following text stays.
        let at = root.range.start + 1;
        let comma = if root.properties.is_empty() { "" } else { "," };
        let list = format!("\n    \"model_config_list\": [\n        {entry}\n    ]{comma}");
        let end = if root.properties.is_empty() { "\n" } else { "" };
        return Ok(splice(text, (at, at), &format!("{list}{end}")));
    };
    if let Some((_, config)) = entries(list).find(|(_, config)| is(config, "name", name)) {
        let has = |(key, value): &(&str, serde_json::Value)| {
            let found = property(config, key).map(range);
            let found = found.map(|(start, end)| &source.json()[start..end]);
            found.is_some_and(|text| serde_json::from_str(text).ok().as_ref() == Some(value))
        };
        if is(config, "base_path", base_path) && settings.iter().all(has) {
            return Ok(text.to_owned());
        }
        return Err(EditError::Occupied(name.to_owned()));
    }
    let close = list.range.end - 1;
    let outer = indent(text, list.range.start);
    let inner = list
        .elements
        .first()
        .map(|first| range(first).0)
        .filter(|&start| starts_line(text, start))
        .map_or_else(
            || format!("{outer}    "),
            |start| indent(text, start).to_owned(),
        );
    // Behind comments that follow the last entry, on a line of its own.
    let at = text[..close].trim_end().len();
    let end = if text[at..close].contains('\n') {
        String::new()
    } else {
        format!("\n{outer}")
    };
    let blanks = if end.is_empty() { at } else { close };
    let mut edited = splice(text, (at, blanks), &format!("\n{inner}{entry}{end}"));
    if let Some(last) = list.elements.last() {
        let after = range(last).1;
        if !source.json()[after..close].contains(',') {
            edited = splice(&edited, (after, after), ",");
        }
    }
    Ok(edited)
}

/// Returns the keys of a model's settings in their order: all but its name and path. `None` if there is no such model.
///
/// # Errors
///
/// Fails if the text is no configuration file.
pub fn model_settings(content: &[u8], name: &str) -> Result<Option<Vec<String>>, EditError> {
    let source = Source::new(content).map_err(EditError::Syntax)?;
    let value = source.parse().map_err(EditError::Syntax)?;
    let Value::Object(root) = &value else {
        return Err(EditError::NoList);
    };
    let Some(list) = models(root)? else {
        return Ok(None);
    };
    let found = entries(list).find(|(_, config)| is(config, "name", name));
    Ok(found.map(|(_, config)| {
        let mut keys: Vec<String> = Vec::new();
        for property in &config.properties {
            let key = property.name.as_str();
            if !["name", "base_path"].contains(&key) && !keys.iter().any(|known| known == key) {
                keys.push(key.to_owned());
            }
        }
        keys
    }))
}

/// Removes the models of a name and returns the new text.
///
/// # Errors
///
/// Fails if the text is no configuration file, or has no such name.
pub fn remove_model(content: &[u8], name: &str) -> Result<String, EditError> {
    let mut text: Option<String> = None;
    loop {
        let source = Source::new(text.as_deref().map_or(content, str::as_bytes))
            .map_err(EditError::Syntax)?;
        let value = source.parse().map_err(EditError::Syntax)?;
        let Value::Object(root) = &value else {
            return Err(EditError::NoList);
        };
        let list = models(root)?.ok_or(EditError::NoList)?;
        let found = entries(list).find(|(_, config)| is(config, "name", name));
        let Some((index, _)) = found else {
            let names = entries(list).filter_map(|(_, config)| {
                let name = property(config, "name")?.as_string_lit()?;
                Some(name.value.to_string())
            });
            return text.ok_or_else(|| EditError::Unknown {
                name: name.to_owned(),
                known: names.collect(),
            });
        };
        text = Some(without(&source, list, index));
    }
}

/// Returns the text without one entry and its comma.
fn without(source: &Source, list: &Array<'_>, index: usize) -> String {
    let text = source.original();
    let (start, end) = range(&list.elements[index]);
    let next = list.elements.get(index + 1);
    let limit = next.map_or(list.range.end, |next| range(next).0);
    let comma = source.json()[end..limit].find(',').map(|at| end + at);
    let mut cuts = vec![(start, end)];
    match comma {
        Some(comma) => cuts.push((comma, comma + 1)),
        // The comma of the entry before would end the list.
        None if index > 0 => {
            let before = range(&list.elements[index - 1]).1;
            if let Some(at) = source.json()[before..start].find(',') {
                cuts.push((before + at, before + at + 1));
            }
        }
        None => {}
    }
    cuts.sort_unstable();
    let mut edited = text.to_owned();
    for (start, end) in cuts.into_iter().rev() {
        edited = splice(&edited, (start, end), "");
        // A line that held nothing else goes as well.
        let line = line_start(&edited, start);
        let rest = edited[start..]
            .find('\n')
            .map(|newline| start + newline + 1);
        if let Some(rest) = rest
            && edited[line..rest].trim().is_empty()
        {
            edited = splice(&edited, (line, rest), "");
        }
    }
    edited
}

/// Returns `model_config_list`, if it is there.
fn models<'a, 'b>(root: &'b Object<'a>) -> Result<Option<&'b Array<'a>>, EditError> {
    match property(root, "model_config_list") {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(EditError::NoList),
    }
}

/// Returns the place and the `config` of each entry that has one.
fn entries<'a, 'b>(list: &'b Array<'a>) -> impl Iterator<Item = (usize, &'b Object<'a>)> {
    list.elements
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| {
            let config = property(entry.as_object()?, "config")?.as_object()?;
            Some((index, config))
        })
}

/// Returns the value of a key: of one that is there twice the last, as the server reads it.
fn property<'a, 'b>(object: &'b Object<'a>, key: &str) -> Option<&'b Value<'a>> {
    let found = object
        .properties
        .iter()
        .rfind(|property| property.name.as_str() == key);
    found.map(|property| &property.value)
}

fn is(config: &Object<'_>, key: &str, text: &str) -> bool {
    property(config, key)
        .and_then(Value::as_string_lit)
        .is_some_and(|found| found.value == text)
}

/// Replaces a range by a text.
fn splice(text: &str, (start, end): (usize, usize), new: &str) -> String {
    [&text[..start], new, &text[end..]].concat()
}

/// Returns where the line of a byte begins.
fn line_start(text: &str, byte: usize) -> usize {
    text[..byte].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the blanks that a line begins with.
fn indent(text: &str, byte: usize) -> &str {
    let line = &text[line_start(text, byte)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns whether only blanks precede a byte on its line.
fn starts_line(text: &str, byte: usize) -> bool {
    let start = line_start(text, byte);
    start > 0 && text[start..byte].trim().is_empty()
}
