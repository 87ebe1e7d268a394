//! Words of the sources: openers of comments, and unique names of public types.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Openers that no comment of an item may have; a noun or a verb is clearer.
const OPENERS: [&str; 22] = [
    "What",
    "Whatever",
    "Who",
    "Whoever",
    "Nobody",
    "Nothing",
    "Which",
    "Whether",
    "How",
    "Why",
    "Where",
    "When",
    "There",
    "That",
    "Those",
    "As",
    "In",
    "Says",
    "Tells",
    "One that",
    "So many",
    "Up to so many",
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
        rest.is_some_and(|rest| rest.starts_with([' ', ',', '.', ':', ';', '\'']))
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
    assert_eq!(opener("", "/// Whatever."), Some("Whatever"));
    assert_eq!(opener("", "/// Inputs."), None);
    assert_eq!(opener("", "/// Nothing: it ends."), Some("Nothing"));
    assert_eq!(opener("", "/// Why."), Some("Why"));
    assert_eq!(opener("", "/// Whether it is open."), Some("Whether"));
    assert_eq!(opener("", "/// Those of a model."), Some("Those"));
    assert_eq!(opener("", "/// So many rows."), Some("So many"));
    assert_eq!(opener("", "/// So it ends."), None);
    assert_eq!(declared("    pub(crate) struct Args {"), Some("Args"));
    assert_eq!(declared("pub trait Watch: Send {"), Some("Watch"));
    assert_eq!(declared("pub(super) struct Inner;"), None);
    assert_eq!(declared("pub fn a() {}"), None);
}

/// Openers of the comment of a constant that is a maximum.
const OF_MAXIMA: [&str; 12] = [
    "Maximum",
    "The maximum",
    "Most",
    "The most",
    "Longest",
    "The longest",
    "Largest",
    "The largest",
    "Deepest",
    "The deepest",
    "Upper bound",
    "Limit of",
];

/// Beginnings of names in whose place `MAX_` says the same everywhere.
const OTHERWISE: [&str; 4] = ["MOST_", "LONGEST_", "LARGEST_", "DEEPEST_"];

/// Returns the name of the constant that a line declares, and what follows it.
fn constant(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = match line.split_once(") ") {
        Some((scope, rest)) if scope.starts_with('(') => rest,
        _ => line.trim_start(),
    };
    let (name, rest) = line.strip_prefix("const ")?.split_once(": ")?;
    let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(is_of_name).then_some((name, rest))
}

/// Returns the name of the constant that a line declares, if it is a maximum and has another name than `MAX_` and
/// a noun.
fn misnamed<'a>(comment: &str, line: &'a str) -> Option<&'a str> {
    let (name, rest) = constant(line)?;
    let begins = |opener: &&str| {
        let rest = comment.strip_prefix(opener);
        rest.is_some_and(|rest| rest.starts_with([' ', ',']))
    };
    let is_maximum = OF_MAXIMA.iter().any(begins) && !name.starts_with("MAX_");
    let whole = format!("{name}_");
    let is_otherwise = OTHERWISE.iter().any(|it| whole.starts_with(it));
    // The greatest value of a type is its `MAX`, as in the standard library.
    let is_bare = name == "MAX" && !rest.starts_with("Self");
    (is_maximum || is_otherwise || is_bare).then_some(name)
}

#[test]
fn maxima_are_named_so() {
    let mut found = Vec::new();
    for (path, text) in sources(&[
        "src", "commands", "proto", "pyovms", "fuzz", "tests", "benches",
    ]) {
        let (mut before, mut comment) = ("", "");
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if let Some(text) = line.strip_prefix("/// ") {
                if !before.starts_with("///") {
                    comment = text;
                }
            } else if !line.starts_with("///") && !line.starts_with("#[") {
                if let Some(name) = misnamed(comment, line) {
                    found.push(format!(
                        "{path}:{number} `{name}` is not named `MAX_` and a noun"
                    ));
                }
                comment = "";
            }
            before = line;
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn maxima_are_seen() {
    let size = "Maximum size, in bytes.";
    assert_eq!(misnamed(size, "const SIZE: usize = 1;"), Some("SIZE"));
    assert_eq!(misnamed(size, "pub(super) const MAX_SIZE: u64 = 1;"), None);
    assert_eq!(misnamed("Size.", "pub const SIZE: u64 = 1;"), None);
    assert_eq!(misnamed("Mostly.", "const SIZE: u64 = 1;"), None);
    assert_eq!(misnamed("", "const MOST: u64 = 1;"), Some("MOST"));
    let line = "pub(in crate::a) const LONGEST_NAME: usize = f(1) + 1;";
    assert_eq!(misnamed("", line), Some("LONGEST_NAME"));
    assert_eq!(misnamed("", "pub const MAX: f64 = 0.1;"), Some("MAX"));
    assert_eq!(misnamed("", "pub const MAX: Self = Self(1);"), None);
    assert_eq!(misnamed(size, "const fn size(at: usize) -> usize {"), None);
    assert_eq!(misnamed(size, "static SIZE: usize = 1;"), None);
}

/// Path of this file, which names them.
const THIS: &str = "tests/it/tree/words.rs";

/// Words that were given up; the glossary has those in their places.
const GIVEN_UP: [&str; 17] = [
    "fault",
    "faults",
    "judge",
    "judged",
    "judgement",
    "judges",
    "judging",
    "judgment",
    "mend",
    "mended",
    "mending",
    "mends",
    "picture",
    "pictured",
    "pictures",
    "told",
    "underway",
];

/// Places of such words: the beginning of the path, the phrase that has it, and the reason.
const KEPT: [(&str, &str, &str); 16] = [
    ("docs/", "page fault", "a term of operating systems"),
    ("src/", "Segmentation fault", "written by Python"),
    ("src/", "requests_under_way", "a published key"),
    ("docs/", "requests_under_way", "a published key"),
    ("src/", "\"faults\"", "a published key"),
    ("commands/", "\"faults\"", "a published key"),
    ("commands/", "\"fault\"", "a published state"),
    ("tests/it/", "\"faults\"", "a published key and verdict"),
    ("docs/", "faults`", "a published key and verdict"),
    ("docs/", "faults[]", "a published key"),
    ("docs/", "`fault`", "a published state"),
    ("Makefile", "test-clients-faults", "a published target"),
    ("tests/", "\"picture\"", "written by a fixture"),
    ("tests/", "for the picture", "written by a fixture"),
    ("docs/", "token: \"picture\"", "written by a fixture"),
    ("docs/", "for the picture", "written by a fixture"),
];

/// Returns the words of a text with their places. Names in `snake_case` and `CamelCase` are several.
fn words(text: &str) -> Vec<(usize, &str)> {
    let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or_default();
    let mut start = 0;
    let mut words = Vec::new();
    for at in 0..text.len() {
        let (here, next) = (byte(at), byte(at + 1));
        if !here.is_ascii_alphabetic() {
            start = at + 1;
            continue;
        }
        let is_before_upper = here.is_ascii_lowercase() || byte(at + 2).is_ascii_lowercase();
        if !next.is_ascii_alphabetic() || next.is_ascii_uppercase() && is_before_upper {
            words.push((start, &text[start..=at]));
            start = at + 1;
        }
    }
    words
}

/// Returns the places of the words that were given up, also of "under" and "way" in two lines of a comment.
fn given_up(text: &str) -> Vec<usize> {
    let words = words(text);
    let is = |word: &str, other: &str| word.eq_ignore_ascii_case(other);
    let alone = words.iter();
    let alone = alone.filter(|(_, word)| GIVEN_UP.iter().any(|it| is(word, it)));
    let pairs = words.windows(2).filter(|pair| {
        let [(start, first), (end, second)] = [pair[0], pair[1]];
        let between = &text[start + first.len()..end];
        let is_nothing = |c: char| c.is_whitespace() || "/!#*>_-".contains(c);
        is(first, "under") && is(second, "way") && between.chars().all(is_nothing)
    });
    let places = alone.chain(pairs.map(|pair| &pair[0]));
    places.map(|(place, _)| *place).collect()
}

/// Returns the texts in which no word that was given up may stand, with their paths from the root.
fn texts() -> Vec<(String, String)> {
    const CODE: &[&str] = &[".rs", ".py", ".pyi"];
    const EXAMPLES: &[&str] = &[".py", ".c", ".cpp", ".h", ".pbtxt", ".md", "/run"];
    const WHOLE: &[&str] = &[""];
    let root = Path::new(env!("WORKSPACE_ROOT"));
    let code = [
        "src", "commands", "proto", "pyovms", "fuzz", "tests", "benches", "deploy",
    ];
    let files = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"];
    let code = code.map(|folder| (root.join(folder), CODE));
    let files = files.map(|file| (root.join(file), WHOLE));
    let mut left: Vec<(PathBuf, &[&str])> = code.into_iter().chain(files).collect();
    left.push((root.join("docs"), &[".md"]));
    left.extend(["examples", "fixtures"].map(|folder| (root.join(folder), EXAMPLES)));
    let mut found = Vec::new();
    while let Some((path, ends)) = left.pop() {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap().flatten();
            left.extend(entries.map(|entry| (entry.path(), ends)));
        } else if ends.iter().any(|end| name.ends_with(end)) {
            found.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn given_up_words_do_not_come_back() {
    let texts = texts();
    assert!(texts.len() > 1000, "{}", texts.len());
    let mut found = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path != THIS) {
        let kept = KEPT.into_iter();
        let kept = kept.filter(|(begin, ..)| path.starts_with(begin));
        let kept = kept.flat_map(|(_, phrase, _)| {
            let places = text.match_indices(phrase);
            places.map(|(start, phrase)| start..start + phrase.len())
        });
        let kept: Vec<_> = kept.collect();
        let places = given_up(text).into_iter();
        for place in places.filter(|place| !kept.iter().any(|it| it.contains(place))) {
            let number = text[..place].matches('\n').count();
            let line = text.lines().nth(number).unwrap_or_default().trim();
            found.push(format!("{path}:{}: {line}", number + 1));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn given_up_words_are_seen_in_names_and_over_lines() {
    for text in [
        "Told.",
        "is_told",
        "FAULTS",
        "ToldTwice",
        "HTTPFault",
        "under\n    /// way",
        "Under way",
        "under_way",
    ] {
        assert_eq!(given_up(text).len(), 1, "{text}");
    }
    for text in ["default", "faulthandler", "under the way", "away"] {
        assert!(given_up(text).is_empty(), "{text}");
    }
}
