//! Words of the sources: openers of comments, and unique names of public types.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Openers that no comment of an item may have; a noun or a verb is clearer.
const OPENERS: [&str; 14] = [
    "What", "Who", "Whoever", "Which", "Whether", "How", "Why", "Where", "When", "Says", "Tells",
    "One that", "That of", "Those of",
];

/// Returns all Rust files below some folders, with their paths from the root.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("WORKSPACE_ROOT"));
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    found.sort();
    found
}

/// Returns the forbidden opener of a line that begins a comment of an item.
fn opener<'a>(before: &str, line: &str) -> Option<&'a str> {
    let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let text = line
        .strip_prefix("/// ")
        .or_else(|| line.strip_prefix("//! "))?;
    if is_doc(before) {
        return None;
    }
    let begins = |opener: &&str| {
        let rest = text.strip_prefix(opener);
        rest.is_some_and(|rest| rest.starts_with([' ', ',', '.', '\'']))
    };
    OPENERS.into_iter().find(begins)
}

#[test]
fn comments_begin_with_a_noun_or_a_verb() {
    let mut found = Vec::new();
    for (path, text) in sources(&[
        "src", "commands", "proto", "pyovms", "fuzz", "tests", "benches",
    ]) {
        let mut before = "";
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if let Some(opener) = opener(before, line) {
                found.push(format!("{path}:{number} begins with `{opener}`"));
            }
            before = line;
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Returns the name of the public or crate-visible type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line
        .strip_prefix("pub(crate) ")
        .or_else(|| line.strip_prefix("pub "))?;
    let (kind, rest) = rest.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    is_type.then(|| &rest[..end.unwrap_or(rest.len())])
}

#[test]
fn types_have_names_of_their_own() {
    let sources = sources(&["src", "commands"]);
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in &sources {
        for (line, number) in text.lines().zip(1..) {
            if let Some(name) = declared(line) {
                let places = places.entry(name).or_default();
                places.push(format!("{path}:{number}"));
            }
        }
    }
    assert!(places.len() > 300, "{}", places.len());
    let twice: Vec<_> = places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "\n{}", twice.join("\n"));
}

#[test]
fn openers_and_declarations_are_seen() {
    assert_eq!(opener("", "/// What it is."), Some("What"));
    assert_eq!(opener("", "//! Who calls."), Some("Who"));
    assert_eq!(opener("/// Reads.", "/// What it is."), None);
    assert_eq!(opener("", "/// Whatever."), None);
    assert_eq!(opener("", "/// Why."), Some("Why"));
    assert_eq!(opener("", "/// Whether it is open."), Some("Whether"));
    assert_eq!(opener("", "/// Those of a model."), Some("Those of"));
    assert_eq!(opener("", "/// Those are open."), None);
    assert_eq!(declared("    pub(crate) struct Args {"), Some("Args"));
    assert_eq!(declared("pub trait Watch: Send {"), Some("Watch"));
    assert_eq!(declared("pub(super) struct Inner;"), None);
    assert_eq!(declared("pub fn a() {}"), None);
}
