//! Accuracy of `README.md` and the manual: their flags and exit codes are those of the program, and
//! their links resolve. Their commands are tested in `docs.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{
    cli::{self, Run, ovms},
    repository,
    server::free_ports,
};

/// Subcommands, with their own subcommands that have flags.
const SUBCOMMANDS: [(&str, &[&str]); 9] = [
    ("setup", &[]),
    ("serve", &[]),
    ("infer", &[]),
    ("bench", &[]),
    ("pipeline", &["show", "check", "run", "new"]),
    ("graph", &["new", "check", "show", "run", "stubs"]),
    ("doctor", &[]),
    ("completions", &[]),
    ("man", &[]),
];

/// Subcommands whose flags a page may name alone; pages that are not listed may name any.
const OF_PAGES: [(&str, &[&str]); 12] = [
    ("README.md", &["serve"]),
    ("apis.md", &["serve"]),
    ("bench.md", &["bench"]),
    ("configuration.md", &["serve", "infer"]),
    ("graphs.md", &["serve", "graph"]),
    ("infer.md", &["infer"]),
    ("monitoring.md", &["serve"]),
    ("pipelines.md", &["serve", "pipeline"]),
    ("serve.md", &["serve"]),
    ("setup.md", &["setup", "serve"]),
    ("stateful.md", &["serve"]),
    ("streaming.md", &["serve", "infer"]),
];

pub(super) fn root() -> &'static Path {
    Path::new(env!("WORKSPACE_ROOT"))
}

/// A document, by its path below the project's folder.
pub(super) struct Document {
    path: PathBuf,
    pub(super) text: String,
}

impl Document {
    pub(super) fn name(&self) -> String {
        let name = self.path.strip_prefix(root()).unwrap();
        name.display().to_string()
    }

    /// Returns the subcommands whose flags the page may name alone.
    fn subcommands(&self, all: &BTreeMap<&str, BTreeSet<String>>) -> Vec<String> {
        let file = self.path.file_name().unwrap().to_str().unwrap();
        match OF_PAGES.iter().find(|(page, _)| *page == file) {
            Some((_, names)) => names.iter().map(|&name| name.to_owned()).collect(),
            None => all.keys().map(|&name| name.to_owned()).collect(),
        }
    }

    /// Returns every command and every piece of inline code.
    fn code(&self) -> Vec<String> {
        let mut code = Vec::new();
        for (index, block) in format!("\n{}", self.text).split("\n```").enumerate() {
            // Outside and inside of a fence take turns.
            if index % 2 == 0 {
                let pieces = block.split('`').skip(1).step_by(2);
                code.extend(pieces.map(|piece| piece.replace('\n', " ")));
            } else if let Some(block) = block.strip_prefix("console\n") {
                let block = block.replace("\\\n", " ");
                let commands = block.lines().filter_map(|line| line.strip_prefix("$ "));
                code.extend(commands.map(without_comment));
            } else if let Some(block) = block.strip_prefix("sh\n") {
                code.extend(block.replace("\\\n", " ").lines().map(without_comment));
            }
        }
        code
    }
}

fn without_comment(command: &str) -> String {
    let (command, _) = command.split_once("  #").unwrap_or((command, ""));
    command.trim_end().to_owned()
}

pub(super) fn document(path: &str) -> Document {
    let path = root().join(path);
    let text = fs::read_to_string(&path).unwrap();
    Document { path, text }
}

/// Returns `README.md` and the pages for users of the program.
fn manual() -> Vec<Document> {
    let of_makers = ["architecture.md", "benchmarks.md", "peers.md"];
    let pages = fs::read_dir(root().join("docs")).unwrap().flatten();
    let names = pages.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| name.ends_with(".md") && !of_makers.contains(&name.as_str()));
    let mut manual = vec![document("README.md")];
    manual.extend(names.map(|name| document(&format!("docs/{name}"))));
    manual
}

/// Returns the decision records and their list.
pub(super) fn decisions() -> Vec<Document> {
    let files = fs::read_dir(root().join("docs/decisions")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let documents: Vec<Document> = names
        .map(|name| document(&format!("docs/decisions/{name}")))
        .collect();
    assert!(documents.len() > 10, "{}", documents.len());
    documents
}

/// Returns the names of the flags in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let is_of_flag = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    text.split(|c| !is_of_flag(c))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        // Both are read.
        .map(|word| word.replace('_', "-"))
        .collect()
}

/// Returns the flags of each subcommand.
fn known_flags() -> BTreeMap<&'static str, BTreeSet<String>> {
    SUBCOMMANDS
        .into_iter()
        .map(|(name, below)| {
            let help = match below {
                [] => ovms([name, "--help"]).text(),
                below => below
                    .iter()
                    .map(|of| ovms([name, of, "--help"]).text())
                    .collect(),
            };
            (name, flags(&help))
        })
        .collect()
}

#[test]
fn every_flag_is_in_the_help() {
    let known = known_flags();
    let mut seen = 0;
    let mut errors = Vec::new();
    for document in manual() {
        let own = document.subcommands(&known);
        for code in document.code() {
            // One that fails shows how.
            if code.contains("|| echo") {
                continue;
            }
            // Combined commands are each checked against their own flags.
            for part in code.split([';', '|', '&', '(', ')']) {
                let part = part.trim_start();
                let of = match part.strip_prefix("ovms ") {
                    Some(rest) if rest.starts_with("--") => vec!["serve".to_owned()],
                    Some(rest) => {
                        let first = rest.split_whitespace().next().unwrap_or_default();
                        match known.contains_key(first) {
                            true => vec![first.to_owned()],
                            false => continue,
                        }
                    }
                    None if part.starts_with("--") => own.clone(),
                    None => continue,
                };
                for flag in flags(part) {
                    seen += 1;
                    if !of.iter().any(|name| known[name.as_str()].contains(&flag)) {
                        let name = document.name();
                        errors.push(format!("{name}: `{code}`: {of:?} have no `{flag}`"));
                    }
                }
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(seen > 200, "{seen} flags are found");
}

/// Missing models are reported, and no flag is rejected.
#[test]
fn the_commands_for_models_of_ones_own_are_understood() {
    let folder = repository::folder();
    let code = document("README.md").code();
    let commands = code
        .iter()
        .filter(|code| code.starts_with("ovms ") && code.contains("resnet"));
    let mut seen = 0;
    for command in commands {
        seen += 1;
        let (port, rest_port) = free_ports();
        let command = match command.starts_with("ovms serve") {
            true => format!(
                "ovms serve --port {port} --rest_port {rest_port} {}",
                &command[11..]
            ),
            false => command.clone(),
        };
        let run = shell(&command, folder.path());
        assert_eq!(run.code, Some(1), "{command}: {}", run.failure());
        let text = &run.stderr;
        let missing = [
            "No such file or directory",
            "there is no such file or folder",
        ];
        assert!(
            missing.iter().any(|missing| text.contains(missing)),
            "{command}: {text}"
        );
    }
    assert_eq!(seen, 3);
}

/// Runs a command in a shell, with the program of this build as `ovms`.
fn shell(command: &str, folder: &Path) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_ovms"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("PATH", path);
    cli::run(shell.current_dir(folder))
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let page = document("docs/README.md").text;
    let (_, table) = page.split_once("\n## Exit codes\n").unwrap();
    let documented: BTreeSet<u8> = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|row| row.split('|').nth(1)?.trim().parse().ok())
        .collect();
    let (_, codes) = include_str!("../../../commands/error.rs")
        .split_once("enum FailureKind {")
        .unwrap();
    let codes: BTreeSet<u8> = codes
        .lines()
        .take_while(|line| *line != "}")
        .filter_map(|line| line.split_once(" = ")?.1.strip_suffix(',')?.parse().ok())
        .collect();
    assert!(codes.len() > 3, "{codes:?}");
    assert_eq!(documented, codes);
}

#[test]
fn every_target_of_make_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut seen = 0;
    for document in manual() {
        let indented = document
            .text
            .lines()
            .filter(|line| line.starts_with("    make "));
        let indented: Vec<String> = indented.map(|line| line.trim().to_owned()).collect();
        for command in document.code().into_iter().chain(indented) {
            let Some(target) = command.strip_prefix("make ") else {
                continue;
            };
            let target = target.split_whitespace().next().unwrap();
            // With `-C` the file is another one.
            if target.starts_with('-') {
                continue;
            }
            seen += 1;
            let is_there = |line: &str| line.starts_with(&format!("{target}:"));
            let name = document.name();
            assert!(makefile.lines().any(is_there), "{name}: no target {target}");
        }
    }
    assert!(seen > 3);
}

/// Returns the anchors of the headings of a document, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let outside = format!("\n{text}");
    let outside = outside.split("\n```").step_by(2);
    outside
        .flat_map(str::lines)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|&c| c.is_alphanumeric() || " -_".contains(c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut documents = manual();
    for path in [
        "CONTRIBUTING.md",
        "SECURITY.md",
        "fixtures/README.md",
        "fuzz/README.md",
        "docs/architecture.md",
        "docs/benchmarks.md",
        "docs/peers.md",
    ] {
        documents.push(document(path));
    }
    documents.extend(decisions());
    let mut errors = Vec::new();
    let mut seen = 0;
    for document in documents {
        for link in document.text.split("](").skip(1) {
            let (target, _) = link.split_once(')').unwrap();
            if target.contains("://") {
                continue;
            }
            seen += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.path.clone(),
                file => document.path.with_file_name(file),
            };
            let leads = match (path.exists(), anchor) {
                (false, _) => false,
                (true, "") => true,
                (true, anchor) => anchors(&fs::read_to_string(&path).unwrap()).contains(anchor),
            };
            if !leads {
                errors.push(format!("{} has a link to {target}", document.name()));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(seen > 60, "{seen} links");
}

/// Words that people type into a search box.
const SEARCHED: [&str; 6] = [
    "benchmark",
    "load test",
    "throughput",
    "batch",
    "latency",
    "canary",
];

#[test]
fn search_words_lead_to_a_page_about_them() {
    let index = document("docs/README.md");
    let (_, table) = index.text.split_once("\n## By search word\n").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<(Vec<&str>, &str)> = rows
        .filter_map(|row| row.trim_matches(['|', ' ']).split_once(" | "))
        .map(|(words, links)| (words.split(", ").collect(), links))
        .collect();
    for word in SEARCHED {
        let (_, links) = rows
            .iter()
            .find(|(words, _)| words.contains(&word))
            .unwrap_or_else(|| panic!("the index has no `{word}`"));
        let (_, link) = links.split_once("](").unwrap();
        let page = link.split([')', '#']).next().unwrap();
        let page = document(&format!("docs/{page}")).text.to_lowercase();
        assert!(page.contains(word), "{links} says nothing of `{word}`");
    }
}

/// The tables of contents are complete.
#[test]
fn every_page_is_in_the_tables_of_pages() {
    for (table, folder) in [("README.md", "docs/"), ("docs/README.md", "")] {
        let text = document(table).text;
        for page in manual().iter().skip(1) {
            let name = page.path.file_name().unwrap().to_str().unwrap();
            let link = format!("]({folder}{name})");
            assert!(
                text.contains(&link) || name == "README.md",
                "{table} has no link to {name}"
            );
        }
    }
}
