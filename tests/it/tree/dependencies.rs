//! Dependencies of the program: each crate has a use and a reason, and a compatible licence.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;
use spdx::{Expression, LicenseReq};

const MANIFEST: &str = include_str!("../../../Cargo.toml");
const DENY: &str = include_str!("../../../.cargo/deny.toml");

/// Crates that are needed for their features, or for linking, and are named nowhere in the code.
const NAMED_NOWHERE: [&str; 5] = ["ovms_engine", "hashbrown", "num_traits", "regex", "syn"];

/// Members of the workspace.
const MEMBERS: [&str; 5] = ["proto", "pyovms", "src", "commands", "fuzz"];

fn root() -> &'static Path {
    Path::new(env!("WORKSPACE_ROOT"))
}

/// Returns the lines of the manifest that name a crate, each with the section and the line before it.
fn named() -> Vec<(&'static str, &'static str, &'static str)> {
    let (mut section, mut before, mut found) = ("", "", Vec::new());
    for line in MANIFEST.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]")
            && let Some((name, _)) = line.split_once(" = ")
        {
            found.push((section, name, before));
        }
        before = line;
    }
    assert!(found.len() > 40, "{found:?}");
    found
}

/// Returns all of our Rust code.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn each_crate_is_used() {
    let mut text = String::new();
    for folder in [
        "src", "commands", "proto", "pyovms", "fuzz", "tests", "benches",
    ] {
        sources(&root().join(folder), &mut text);
    }
    let unused: Vec<_> = named()
        .into_iter()
        .map(|(_, name, _)| name.replace('-', "_"))
        .filter(|name| !NAMED_NOWHERE.contains(&name.as_str()))
        .filter(|name| {
            let ways = [
                format!("{name}::"),
                format!("use {name}"),
                format!("extern crate {name}"),
            ];
            // `log::…` is no use of it within `syslog::…`.
            let is_use = |way: &String| {
                text.match_indices(way.as_str()).any(|(at, _)| {
                    let before = text[..at].chars().next_back();
                    before.is_none_or(|it| !it.is_alphanumeric() && it != '_')
                })
            };
            !ways.iter().any(is_use)
        })
        .collect();
    assert_eq!(
        unused, [""; 0],
        "nothing uses these; take them out of Cargo.toml"
    );
}

#[test]
fn each_crate_has_its_reason() {
    let without: Vec<_> = named()
        .into_iter()
        .filter(|(_, _, before)| !before.starts_with('#'))
        .map(|(section, name, _)| format!("{section} {name}"))
        .collect();
    assert_eq!(
        without, [""; 0],
        "say in a comment above it why it is there"
    );
}

#[test]
fn each_crate_is_one_of_a_member() {
    let manifests = MEMBERS.map(|member| {
        let path = root().join(member).join("Cargo.toml");
        fs::read_to_string(path).unwrap()
    });
    let has = |manifest: &String, name: &str| {
        let ways = [
            format!("\n{name}.workspace = true"),
            format!("\n{name} = {{ workspace = true"),
        ];
        ways.iter().any(|way| manifest.contains(way))
    };
    let of_none: Vec<_> = named()
        .into_iter()
        .map(|(_, name, _)| name)
        .filter(|name| !manifests.iter().any(|manifest| has(manifest, name)))
        .collect();
    assert_eq!(of_none, [""; 0], "take them out of Cargo.toml");
    for (member, manifest) in MEMBERS.iter().zip(&manifests) {
        assert!(
            !manifest.contains(" version = \""),
            "{member}: versions are in the workspace's Cargo.toml"
        );
    }
}

/// Returns the features that each crate is built with, by its name and version.
fn features(edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    let edges = format!("features,{edges}");
    let text = cargo(&[
        "tree",
        "--workspace",
        "--locked",
        "--offline",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--edges",
        &edges,
        "--prefix",
        "none",
        "--format",
        "{p}|{f}",
    ]);
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, features)) = line.trim_end_matches(" (*)").split_once('|') {
            let features = features.split(',').filter(|it| !it.is_empty());
            let known = all.entry(name.to_owned()).or_default();
            known.extend(features.map(str::to_owned));
        }
    }
    all
}

#[test]
fn tests_add_no_feature_to_crates_of_the_program() {
    let program = features("normal,build");
    let with_tests = features("normal,build,dev");
    assert!(program.len() > 200, "{}", program.len());
    let added: Vec<String> = program
        .iter()
        .filter_map(|(name, features)| {
            let more: Vec<_> = with_tests[name].difference(features).collect();
            (!more.is_empty()).then(|| format!("{name}: {more:?}"))
        })
        .collect();
    assert_eq!(
        added, [""; 0],
        "after `cargo test`, `cargo build` would compile these again, and all that is above them"
    );
}

/// Runs cargo in the project, and returns its output.
fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = Command::new(cargo)
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn licences_go_with_ours() {
    let (_, list) = DENY.split_once("allow = [").unwrap();
    let allowed: BTreeSet<&str> = list
        .split(']')
        .next()
        .unwrap()
        .split('"')
        .skip(1)
        .step_by(2)
        .collect();
    let is_allowed = |wanted: &LicenseReq| allowed.contains(wanted.to_string().as_str());

    let text = cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let crates = metadata["packages"].as_array().unwrap();
    assert!(crates.len() > 100);
    let refused: Vec<_> = crates
        .iter()
        .filter(|of| {
            let text = of["license"]
                .as_str()
                .unwrap_or_default()
                .replace('/', " OR ");
            let parsed = Expression::parse(&text);
            !parsed.is_ok_and(|expression| expression.evaluate(is_allowed))
        })
        .map(|of| format!("{} {}", of["name"], of["license"]))
        .collect();
    assert_eq!(
        refused, [""; 0],
        "these have no licence of .cargo/deny.toml"
    );
}
