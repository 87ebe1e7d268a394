//! Syntax of ports: `name`, `TAG:name`, `TAG:index:name`; and of references to inputs: `TAG`,
//! `TAG:index`, `:index`.

use std::collections::HashMap;

use super::{
    PortEntry,
    pbtxt::Value,
    rules::{self, Found},
};
use crate::graph::calculators::node::{Port, TagIndex};

/// Error for an invalid port or reference to an input: message, and hint.
type Misspelled = (String, Option<String>);

fn misspelled(part: &str, text: &str, expected: &str, hint: Option<String>) -> Misspelled {
    (
        format!("the {part} \"{text}\" is not like {expected}"),
        hint,
    )
}

/// Reads the ports of one kind, of a node or of the graph, from a field of it. Also returns whether all are
/// valid.
pub(super) fn ports<'a>(
    found: &Found<'_>,
    field: &str,
    node: Option<&str>,
    texts: &[String],
    values: impl Iterator<Item = &'a Value<'a>>,
) -> (Vec<PortEntry>, bool) {
    let error =
        |at: usize, message: String, hint: Option<String>| found.wiring(node, at, message, hint);
    let mut is_sound = true;
    let mut untagged = 0;
    let mut entries: Vec<PortEntry> = Vec::with_capacity(texts.len());
    let mut seen: HashMap<TagIndex, usize> = HashMap::new();
    for (written, (text, value)) in texts.iter().zip(values).enumerate() {
        let mut entry = PortEntry {
            text: text.clone(),
            at: value.at,
            port: None,
        };
        match read(text) {
            Ok((tag, index, name)) => {
                let index = index.unwrap_or(if tag.is_empty() { untagged } else { 0 });
                untagged += usize::from(tag.is_empty());
                let at = TagIndex {
                    tag: tag.to_owned(),
                    index,
                };
                let first = *seen.entry(at.clone()).or_insert(entries.len());
                if let Some(first) = entries.get(first) {
                    is_sound = false;
                    let (line, column) = found.lines.place(first.at);
                    let message = format!(
                        "{field} has the tag {at} twice: \"{}\" and \"{text}\"",
                        first.text
                    );
                    let hint = format!(
                        "the other is at {line}:{column}; number them, {tag}:0:… and {tag}:1:…, or \
                         give one another tag"
                    );
                    error(value.at, message, Some(hint));
                }
                entry.port = Some(Port {
                    at,
                    name: name.to_owned(),
                    written,
                });
            }
            Err((message, hint)) => {
                is_sound = false;
                error(value.at, format!("{field} \"{text}\": {message}"), hint);
            }
        }
        entries.push(entry);
    }
    // The indexes of each tag begin at 0 without gaps.
    let is_counted = is_sound && !found.is_full(rules::WIRING);
    for entry in entries.iter().filter(|_| is_counted) {
        let Some(Port { at, .. }) = &entry.port else {
            continue;
        };
        let below = at.index.checked_sub(1).map(|index| TagIndex {
            tag: at.tag.clone(),
            index,
        });
        if let Some(below) = below.filter(|below| !seen.contains_key(below)) {
            is_sound = false;
            let (text, index) = (&entry.text, at.index);
            let message =
                format!("{field} \"{text}\" has the index {index}, but there is no {below}");
            let hint = "indexes of a tag count up from 0".to_owned();
            error(entry.at, message, Some(hint));
        }
    }
    (entries, is_sound)
}

/// Splits a port: tag, index if one is written, name.
fn read(text: &str) -> Result<(&str, Option<usize>, &str), Misspelled> {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    match parts[..] {
        [given] => Ok(("", None, name(given)?)),
        [given_tag, given] => Ok((tag(given_tag)?, None, name(given)?)),
        [given_tag, number, given] => Ok((tag(given_tag)?, Some(index(number)?), name(given)?)),
        _ => Err(misspelled(
            "text",
            text,
            "name, TAG:name or TAG:index:name",
            None,
        )),
    }
}

/// Parses a reference to an input: `TAG`, `TAG:index` or `:index`.
pub(in crate::graph) fn tag_index(text: &str) -> Result<TagIndex, String> {
    let read = match text.split_once(':') {
        Some(("", number)) => index(number).map(|index| (String::new(), index)),
        Some((given, number)) => tag(given).and_then(|tag| Ok((tag.to_owned(), index(number)?))),
        None => tag(text).map(|tag| (tag.to_owned(), 0)),
    };
    read.map(|(tag, index)| TagIndex { tag, index })
        .map_err(|_| format!("\"{text}\" is not like TAG, TAG:index or :index"))
}

fn tag(text: &str) -> Result<&str, Misspelled> {
    word(text, "tag", "[A-Z_][A-Z0-9_]*", str::to_ascii_uppercase)
}

fn name(text: &str) -> Result<&str, Misspelled> {
    word(text, "name", "[a-z_][a-z0-9_]*", str::to_ascii_lowercase)
}

/// Checks a word whose letters are all of one case, to which `fold` changes them.
fn word<'a>(
    text: &'a str,
    part: &str,
    expected: &str,
    fold: fn(&str) -> String,
) -> Result<&'a str, Misspelled> {
    let folded = fold(text);
    let is_good = |(place, byte): (usize, u8)| {
        byte == b'_' || byte.is_ascii_alphabetic() || (place > 0 && byte.is_ascii_digit())
    };
    let would_do = !text.is_empty() && text.bytes().enumerate().all(is_good);
    if would_do && folded == text {
        return Ok(text);
    }
    let hint = would_do.then(|| format!("write {folded}"));
    Err(misspelled(part, text, expected, hint))
}

fn index(text: &str) -> Result<usize, Misspelled> {
    let is_plain = text == "0" || !text.starts_with('0');
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = (is_plain && digits).then(|| text.parse().ok()).flatten();
    value.ok_or_else(|| misspelled("index", text, "0|[1-9][0-9]*", None))
}

#[cfg(test)]
mod tests {
    use super::{read, tag_index};

    #[test]
    fn ports_have_names_and_perhaps_tags_and_indexes() {
        let good = |text| read(text).ok();
        assert_eq!(good("in"), Some(("", None, "in")));
        assert_eq!(good("_a1"), Some(("", None, "_a1")));
        assert_eq!(good("IN_2:in"), Some(("IN_2", None, "in")));
        assert_eq!(good("IN:10:in"), Some(("IN", Some(10), "in")));
        for bad in [
            "",
            ":",
            "In",
            "in:in",
            "IN:",
            ":in",
            "IN:01:in",
            "IN:-1:in",
            "IN:x:in",
            "A:0:b:c",
            "1n",
            "1N:in",
            "IN:0:",
            "in put",
            "IN:99999999999999999999999:in",
            "ä",
        ] {
            assert_eq!(good(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn inputs_are_meant_by_tag_and_index() {
        let good = |text| tag_index(text).map(|at| at.to_string()).ok();
        assert_eq!(good("LOOPBACK").as_deref(), Some("LOOPBACK:0"));
        assert_eq!(good("LOOPBACK:3").as_deref(), Some("LOOPBACK:3"));
        assert_eq!(good(":1").as_deref(), Some(":1"));
        for bad in ["", ":", "a", "A:", "A:b", "A:0:c", "A:01"] {
            assert_eq!(good(bad), None, "{bad:?}");
        }
    }
}
