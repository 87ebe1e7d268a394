//! Accuracy of the map: documents for developers name source files by whole paths, and types and functions beside
//! the files that have them.

use std::{collections::BTreeSet, fs};

use super::readme::{Document, decisions, document, root};

/// Maximum number of files on the way of a plain request.
const MAX_WALK: usize = 18;

fn documents() -> Vec<Document> {
    let mut documents = vec![
        document("docs/architecture.md"),
        document("CONTRIBUTING.md"),
    ];
    documents.extend(decisions());
    documents
}

/// Returns the paths of source files in a text.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let words = text.split(move |c| !is_of_path(c));
    words.filter(|word| word.ends_with(".rs"))
}

/// Returns the name that a word is, as in "`Engine::find`" or "Engine,"; other words of prose are none.
fn name(word: &str) -> Option<&str> {
    let word = word.trim_end_matches(',');
    let inner = word.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
    let name = inner.unwrap_or(word);
    let is_name = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    let is_code = inner.is_some() || name.starts_with(|c: char| c.is_ascii_uppercase());
    (is_name && is_code && !name.ends_with(':')).then_some(name)
}

/// Returns names with the files beside them, of which one has each name: `A, B (src/a.rs, src/b.rs)`, or
/// `src/a.rs: A` as in diagrams.
fn named(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('(') {
        let inner = text[at + 1..].split(')').next().unwrap();
        if !inner.split([',', ' ']).next().unwrap().contains(".rs") {
            continue;
        }
        let before = text[..at].split_whitespace().rev().enumerate();
        let before = before.take_while(|(place, word)| *place == 0 || word.ends_with(','));
        let names = before.map_while(|(_, word)| name(word));
        found.extend(names.map(|name| (name, paths(inner).collect())));
    }
    for (at, _) in text.match_indices(".rs: ") {
        let path = paths(&text[..at + 3]).last().unwrap();
        let word = text[at + 5..].split_whitespace().next();
        found.extend(word.and_then(name).map(|name| (name, vec![path])));
    }
    found
}

/// Returns whether a source defines a name, such as `Engine::find`.
fn defines(source: &str, name: &str) -> bool {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let lines = || source.lines().filter(|line| !is_comment(line));
    let is_item = |line: &str, kinds: &[&str], name: &str| {
        let words: Vec<&str> = line
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .collect();
        let mut pairs = words.windows(2);
        pairs.any(|pair| kinds.contains(&pair[0]) && pair[1] == name)
    };
    let has = |kinds: &[&str], name: &str| lines().any(|line| is_item(line, kinds, name));
    match name.rsplit_once("::") {
        Some((of, function)) => {
            let is_impl =
                |line: &str| line.starts_with("impl") && is_item(line, &["impl", "for", ""], of);
            has(&["fn", "const"], function) && lines().any(is_impl)
        }
        None => has(
            &["struct", "enum", "trait", "type", "fn", "const", "static"],
            name,
        ),
    }
}

/// A reader of the map opens what it names: every source file has its whole path, and is there.
#[test]
fn source_files_have_whole_paths() {
    let mut errors = Vec::new();
    let mut seen = 0;
    for document in documents() {
        for path in paths(&document.text) {
            seen += 1;
            if !path.contains('/') || !root().join(path).is_file() {
                errors.push(format!("{} names {path}", document.name()));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(seen > 80, "{seen} files");
}

#[test]
fn names_beside_files_are_defined_in_them() {
    let mut errors = Vec::new();
    let mut seen = 0;
    for document in documents() {
        for (name, paths) in named(&document.text) {
            seen += 1;
            let read = |path: &&str| fs::read_to_string(root().join(path)).unwrap_or_default();
            if !paths.iter().any(|path| defines(&read(path), name)) {
                let paths = paths.join(", ");
                errors.push(format!("{}: `{name}` is not in {paths}", document.name()));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(seen > 40, "{seen} names");
}

#[test]
fn the_walk_of_every_request_is_short() {
    let text = document("docs/architecture.md").text;
    let (_, walk) = text.split_once("\n### Every request\n").unwrap();
    let walk = walk.split("\n### ").next().unwrap();
    let files: BTreeSet<&str> = paths(walk).filter(|it| it.starts_with("src/")).collect();
    assert!((10..=MAX_WALK).contains(&files.len()), "{files:#?}");
}

#[test]
fn names_and_definitions_are_seen() {
    let text =
        "A `B::c` (`src/b.rs`), old threads (`src/c.rs`), its D, `e`\n(src/d.rs, [1](x.md)); f(x)
        src/g.rs: Gh  src/i.rs: limits";
    let found = [
        ("B::c", vec!["src/b.rs"]),
        ("`e`", vec!["src/d.rs"]),
        ("D", vec!["src/d.rs"]),
        ("Gh", vec!["src/g.rs"]),
    ];
    let found = found.map(|(name, paths)| (name.trim_matches('`'), paths));
    assert_eq!(named(text), found);
    let source =
        "pub struct A<T> {\n}\nimpl<T> Show for B<T> {\n    async fn c(&self) {}\n}\n// fn d\n";
    for (name, is_defined) in [
        ("A", true),
        ("B::c", true),
        ("Show::c", true),
        ("c", true),
        ("B", false),
        ("A::c", false),
        ("B::d", false),
        ("a", false),
    ] {
        assert_eq!(defines(source, name), is_defined, "{name}");
    }
}
