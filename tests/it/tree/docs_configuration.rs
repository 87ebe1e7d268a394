//! `docs/configuration.md` names every flag of `ovms serve` and every key of the configuration file, with its default, and
//! nothing else; `docs/config.schema.json` says of keys that are flags what the table of flags says.
//!
//! With `UPDATE_DOCS=1` what is missing is written, what is gone is removed, and defaults, types, and bounds are set right;
//! the words that are there stay.

use std::{collections::BTreeMap, env, fs, path::Path};

use ovms::{
    config::{Defaults, FLAGS, Flag, FlagKind, FlagScope, parse},
    diagnostic::FindingText,
};
use serde_json::{Map, Value, json};

use crate::support::cli;

/// The manual's page.
const PAGE: &str = concat!(env!("WORKSPACE_ROOT"), "/docs/configuration.md");

/// The schema of the configuration file.
const SCHEMA: &str = concat!(env!("WORKSPACE_ROOT"), "/docs/config.schema.json");

/// The keys of a model, in the schema and on the page.
const MODEL: &str = "model_config_list[].config";

/// Flags and keys by name, with their defaults as written; empty if there is none.
type Table = BTreeMap<String, String>;

/// Returns the part of the page between a heading and the next of its kind.
fn section(title: &str) -> String {
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, section) = page
        .split_once(&format!("\n## {title}\n"))
        .expect("the section is there");
    section.split("\n## ").next().unwrap().to_owned()
}

/// Returns the first two cells of each row whose first one is code, without backticks.
fn rows(text: &str) -> impl Iterator<Item = (&str, String)> {
    text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|');
        let name = cells.next()?.trim().strip_suffix('`')?;
        Some((name, cells.next()?.trim().replace('`', "")))
    })
}

/// Returns the flags in the help.
fn flags_of_the_help() -> Table {
    let mut command = cli::command();
    // Long enough that no text is broken.
    command.env("COLUMNS", "1000").args(["serve", "--help"]);
    let help = cli::run(&mut command).text();
    let mut flags = Table::new();
    let mut last = String::new();
    for line in help
        .lines()
        .take_while(|line| !line.starts_with("Examples"))
    {
        let is_flag = line.starts_with("  -") || line.starts_with("      --");
        if let Some((_, flag)) = line.split_once("--").filter(|_| is_flag) {
            last = format!("--{}", flag.split([' ', '[', '=']).next().unwrap());
            flags.insert(last.clone(), String::new());
        }
        if let Some((_, default)) = line.split_once("[default: ") {
            let default = default.split(']').next().unwrap().to_owned();
            flags.insert(last.clone(), default);
        }
    }
    flags.remove("--help");
    flags.remove("--version");
    flags
}

fn is_update() -> bool {
    env::var_os("UPDATE_DOCS").is_some()
}

/// Returns the first paragraph of a flag's help, and the default that it ends with, if it does.
fn words(flag: &Flag) -> (String, Option<String>) {
    let lines = flag.words.iter().map(|line| line.trim());
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let words = lines.join(" ");
    match words.split_once(" [default: ") {
        Some((words, default)) => (words.to_owned(), default.strip_suffix(']').map(Into::into)),
        None => (words, None),
    }
}

/// Writes rows of a part of the page: that of each flag follows that of the one before it. `known` has the names and
/// defaults of all rows of the part, and `new` makes what follows the default in a new row.
fn update(part: &str, known: &Table, name: fn(&Flag) -> String, new: impl Fn(&Flag) -> String) {
    let cell = |default: &str| match default {
        "" => " ".to_owned(),
        default => format!(" `{default}` "),
    };
    let named = |line: &str| rows(line).next().map(|(name, _)| name.to_owned());
    let lines = part.lines().filter_map(|line| {
        let Some((name, found)) = rows(line).next() else {
            return Some(line.to_owned());
        };
        let default = known.get(name)?;
        if found == *default {
            return Some(line.to_owned());
        }
        let after = line.splitn(4, '|').nth(3).unwrap();
        Some(format!("| `{name}` |{}|{after}", cell(default)))
    });
    let mut lines: Vec<String> = lines.collect();
    let mut at = 0;
    for (name, flag) in FLAGS.iter().map(|flag| (name(flag), flag)) {
        let Some(default) = known.get(&name) else {
            continue;
        };
        let found = lines
            .iter()
            .position(|line| named(line).as_ref() == Some(&name));
        at = found.unwrap_or_else(|| {
            lines.insert(
                at + 1,
                format!("| `{name}` |{}| {} |", cell(default), new(flag)),
            );
            at + 1
        });
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let end = if part.ends_with('\n') { "\n" } else { "" };
    fs::write(PAGE, page.replace(part, &(lines.join("\n") + end))).unwrap();
}

/// Gathers the keys of a part of the schema, with their paths.
fn gather(root: &Value, part: &Value, path: &str, keys: &mut Table) {
    if let Some(name) = part["$ref"].as_str() {
        let target = root.pointer(&name[1..]).expect("the schema has it");
        gather(root, target, path, keys);
    }
    if let Some(properties) = part["properties"].as_object() {
        for (name, property) in properties {
            // In a `oneOf` a key may be named to say what it must be, or that it must not be.
            if property.is_boolean() || !property["const"].is_null() {
                continue;
            }
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            let default = match &property["default"] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            keys.insert(path.clone(), default);
            gather(root, property, &path, keys);
        }
    }
    gather_if_object(root, &part["items"], &format!("{path}[]"), keys);
    gather_if_object(
        root,
        &part["additionalProperties"],
        &format!("{path}.NAME"),
        keys,
    );
    for either in ["anyOf", "oneOf"] {
        for part in part[either].as_array().into_iter().flatten() {
            gather(root, part, path, keys);
        }
    }
}

fn gather_if_object(root: &Value, part: &Value, path: &str, keys: &mut Table) {
    if part.is_object() {
        gather(root, part, path, keys);
    }
}

/// Returns the names of all keys of a model, as the reader of the file lists them.
fn keys_of_a_model() -> Vec<String> {
    let text = br#"{"model_config_list": [{"config": {"name": "m", "": 1}}]}"#;
    let refused = parse(text, Path::new("/config.json"), &Defaults::default()).unwrap_err();
    let FindingText::Mismatch { expected, .. } = &refused.errors()[0].message else {
        panic!("a key that is not known has a text with those that are");
    };
    let names = expected.strip_prefix("one of ").unwrap().split(", ");
    names.map(ToOwned::to_owned).collect()
}

/// Returns what the schema has to say of a key that is a flag, beside its words.
fn property(flag: &Flag) -> Map<String, Value> {
    let whole = |most| json!({"type": "integer", "minimum": flag.least, "maximum": most});
    let mut property = match flag.kind {
        FlagKind::Switch | FlagKind::Check => json!({"type": "boolean"}),
        FlagKind::Choice(words) => json!({"enum": words}),
        FlagKind::U32 => whole(i64::from(u32::MAX)),
        FlagKind::U64 | FlagKind::Usize => whole(i64::MAX),
        FlagKind::Bytes | FlagKind::Text | FlagKind::Path => json!({"type": "string"}),
    };
    let in_words = words(flag).1;
    let in_words = in_words.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
    // Otherwise the flag is the default.
    if flag.scope != FlagScope::AllModels
        && let Some(default) = (flag.default)().or(in_words)
    {
        property["default"] = default;
    }
    property.as_object().unwrap().clone()
}

/// Returns the line of the schema on which a key of a model begins, and the one behind it.
fn place(lines: &[String], key: &str) -> Option<(usize, usize)> {
    let model = lines.iter().position(|line| line == "    \"model\": {")?;
    let begin = format!("        \"{key}\": {{");
    let start = model
        + lines[model..]
            .iter()
            .position(|line| line.starts_with(&begin))?;
    let ends = |line: &String| line.ends_with("},") || line.ends_with('}');
    let is_last = |line: &String| {
        line.starts_with("        ") && !line.starts_with("         ") && ends(line)
    };
    let length = lines[start..].iter().position(is_last)?;
    Some((start, start + length + 1))
}

/// Returns the schema with the keys that are flags as the table has them.
fn schema_of_the_table() -> String {
    let text = fs::read_to_string(SCHEMA).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let found = schema["$defs"]["model"]["properties"].as_object().unwrap();
    let known = keys_of_a_model();
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    for key in found.keys().filter(|key| !known.contains(key)) {
        let (start, end) = place(&lines, key).unwrap();
        lines.drain(start..end);
    }
    let mut last = "base_path";
    for flag in FLAGS.iter().filter(|flag| flag.is_key()) {
        let before = found.get(flag.name).and_then(Value::as_object);
        let mut wanted = property(flag);
        let is_same = before.is_some_and(|before| {
            let mut before = before.clone();
            before.remove("description");
            before == wanted
        });
        if !is_same && !flag.own_form {
            let description = before.and_then(|before| before.get("description").cloned());
            let description = description.unwrap_or_else(|| words(flag).0.into());
            let pairs = [("description", description)].into_iter();
            let rest = ["type", "enum", "minimum", "maximum", "default"];
            let rest = rest
                .into_iter()
                .filter_map(|key| Some((key, wanted.remove(key)?)));
            let pairs: Vec<String> = pairs
                .chain(rest)
                .map(|(key, it)| format!("\"{key}\": {it}"))
                .collect();
            let line = format!("        \"{}\": {{ {} }},", flag.name, pairs.join(", "));
            let (start, end) = place(&lines, flag.name).unwrap_or_else(|| {
                let (_, end) = place(&lines, last).unwrap();
                (end, end)
            });
            lines.splice(start..end, [line]);
        }
        last = flag.name;
    }
    lines.join("\n") + "\n"
}

#[test]
fn keys_that_are_flags_are_in_the_schema_as_in_the_table() {
    if is_update() {
        // With the page.
        return;
    }
    let wanted = schema_of_the_table();
    let found = fs::read_to_string(SCHEMA).unwrap();
    assert_eq!(found, wanted, "UPDATE_DOCS=1 writes it anew");
}

/// Returns the keys in the schema.
fn keys_of_the_schema() -> Table {
    let schema: Value = serde_json::from_str(&schema_of_the_table()).unwrap();
    let mut keys = Table::new();
    gather(&schema, &schema, "", &mut keys);
    // One object instead of a list of them.
    keys.retain(|path, _| !path.contains("warmup[]"));
    keys
}

#[test]
fn the_page_has_every_flag_and_key_with_its_default_and_no_other() {
    let (flags, keys) = (flags_of_the_help(), keys_of_the_schema());
    assert!(flags.len() > 60, "{flags:?}");
    assert!(keys.len() > 50, "{keys:?}");
    if is_update() {
        fs::write(SCHEMA, schema_of_the_table()).unwrap();
        let name = |flag: &Flag| format!("--{}", flag.name.replace('_', "-"));
        let new = |flag: &Flag| {
            let words = words(flag).0;
            // Rows begin small, but for names such as REST.
            let (first, rest) = words.split_at(1);
            match rest.starts_with(|it: char| it.is_lowercase()) {
                true => format!("ours | {}{rest}", first.to_lowercase()),
                false => format!("ours | {words}"),
            }
        };
        update(&section("Flags"), &flags, name, new);
        let of_model = |(key, default): (&String, &String)| {
            let key = key.strip_prefix(&format!("{MODEL}."))?;
            Some((key.to_owned(), default.clone()))
        };
        let section = section("The configuration file");
        let mut parts = section.split("\n### ");
        let part = parts.find(|part| part.starts_with(&format!("`{MODEL}`")));
        let new = |flag: &Flag| format!("`--{}`", flag.name.replace('_', "-"));
        let known = keys.iter().filter_map(of_model).collect();
        update(part.unwrap(), &known, |flag| flag.name.to_owned(), new);
    }
    let documented: Table = rows(&section("Flags"))
        .map(|(flag, default)| (flag.to_owned(), default))
        .collect();
    assert_eq!(documented, flags, "UPDATE_DOCS=1 sets it right");
    let mut documented = Table::new();
    for part in section("The configuration file").split("\n### ").skip(1) {
        let title = part.lines().next().unwrap();
        // A heading that is code says where the keys below it are.
        let prefix = title.strip_prefix('`').map_or_else(String::new, |path| {
            format!("{}.", path.trim_end_matches('`'))
        });
        for (key, default) in rows(part) {
            documented.insert(format!("{prefix}{key}"), default);
        }
    }
    assert_eq!(documented, keys, "UPDATE_DOCS=1 sets it right");
}
