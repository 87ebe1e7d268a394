//! `docs/configuration.md` names every flag of `ovms serve` and every key of the configuration file, with its default, and
//! nothing else.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use crate::support::cli;

/// Flags and keys by name, with their defaults as written; empty if there is none.
type Table = BTreeMap<String, String>;

/// Returns the part of the page between a heading and the next of its kind.
fn section(title: &str) -> String {
    let path = Path::new(env!("WORKSPACE_ROOT")).join("docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
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

#[test]
fn every_flag_is_there_with_its_default_and_no_other() {
    let documented: Table = rows(&section("Flags"))
        .map(|(flag, default)| (flag.to_owned(), default))
        .collect();
    let known = flags_of_the_help();
    assert!(known.len() > 60, "{known:?}");
    assert_eq!(documented, known);
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

#[test]
fn every_key_is_there_with_its_default_and_no_other() {
    let path = Path::new(env!("WORKSPACE_ROOT")).join("docs/config.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut known = Table::new();
    gather(&schema, &schema, "", &mut known);
    // One object instead of a list of them.
    known.retain(|path, _| !path.contains("warmup[]"));
    assert!(known.len() > 50, "{known:?}");
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
    assert_eq!(documented, known);
}
