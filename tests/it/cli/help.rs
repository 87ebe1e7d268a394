//! Help of every subcommand in a terminal of 80 columns.

use std::{collections::BTreeMap, iter::Peekable, sync::LazyLock};

use crate::support::cli::{self, Run};

/// Width of the terminal.
const WIDTH: usize = 80;

/// Column of a flag's description in clap's help.
const INDENT: usize = 10;

/// Maximum width of the first line about a command, an argument, or a flag.
const MAX_FIRST_LINE: usize = 72;

/// Flags with another meaning or description in another subcommand.
const OF_THEIR_OWN: [&str; 15] = [
    // A tensor's layout in `serve`, that of images in `infer`.
    "--layout",
    // Preprocessing by the model in `serve`; elsewhere, preprocessing of an image before.
    "--mean",
    "--scale",
    // Values of requests; in `graph new`, what a graph takes and gives.
    "--input",
    "--output-name",
    // Where the runtime, a graph, or the manual goes to.
    "--dir",
    // One number in `infer`, levels in `bench`.
    "--concurrency",
    // Inputs with their steps in `infer`, a number of requests in `bench`.
    "--sequence",
    // With what it shows in `infer`, with what it measures in `bench`.
    "--stream",
    // A model's shape in `serve`, that of a random input in `bench`.
    "--shape",
    // A folder of outputs in `infer`, a report in `bench`.
    "--save",
    // What `serve` listens on, and what `doctor` looks at.
    "--port",
    "--rest-port",
    // The server to ask, and the one that `doctor` looks at as well.
    "--url",
    // Files, or a folder of them.
    "--save",
];

/// Runs the program in the terminal.
fn at_80(args: &[&str]) -> Run {
    cli::run(cli::command().args(args).env("COLUMNS", WIDTH.to_string()))
}

/// The help of every subcommand by its words, the root's first.
static ALL: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut found = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let words: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
        let run = at_80(&words);
        assert_eq!((run.code, &*run.stderr), (Some(0), ""), "ovms {path}");
        let help = run.text();
        let mut lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        while let Some(line) = lines.next().filter(|line| !line.is_empty()) {
            let name = line.strip_prefix("  ").filter(|it| !it.starts_with(' '));
            let name = name.and_then(|it| it.split_whitespace().next());
            if let Some(name) = name.filter(|name| *name != "help") {
                open.push(format!("{path} {name}").trim().to_owned());
            }
        }
        found.insert(path, help);
    }
    assert!(found.len() > 14, "{:?}", found.keys());
    found
});

/// The short help of every subcommand.
static SHORT: LazyLock<BTreeMap<&str, String>> = LazyLock::new(|| {
    let short = |path: &str| {
        let words: Vec<&str> = path.split_whitespace().chain(["-h"]).collect();
        at_80(&words).text()
    };
    ALL.keys()
        .map(|path| (path.as_str(), short(path)))
        .collect()
});

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns whether a line stands alone, outside any paragraph.
fn stands_alone(line: &str) -> bool {
    let text = line.trim_start();
    text.starts_with(['-', '[']) || text.ends_with(':') || text.starts_with("Usage:")
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    for (path, long) in &*ALL {
        for line in long.lines().chain(SHORT[path.as_str()].lines()) {
            assert!(width(line) <= WIDTH, "ovms {path}: {line}");
        }
    }
}

#[test]
fn paragraphs_are_filled_to_the_end_of_the_line() {
    let mut seen = 0;
    for (path, help) in &*ALL {
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        for pair in lines.windows(2) {
            let [line, next] = pair else { unreachable!() };
            let indent = |line: &str| line.len() - line.trim_start().len();
            let is_text = [0, INDENT].contains(&indent(line)) && indent(line) == indent(next);
            if line.is_empty() || next.is_empty() || !is_text {
                continue;
            }
            if stands_alone(line) || stands_alone(next) {
                continue;
            }
            seen += 1;
            let word = next.split_whitespace().next().unwrap_or_default();
            assert!(
                width(line) + 1 + width(word) > WIDTH,
                "ovms {path}: `{word}` has room on the line before\n{line}\n{next}"
            );
        }
    }
    assert!(seen > 60, "{seen} lines are looked at");
}

#[test]
fn every_help_ends_with_examples_and_exit_codes() {
    for (path, help) in &*ALL {
        let paragraphs: Vec<&str> = help.trim_end().split("\n\n").collect();
        let [.., examples, codes] = &paragraphs[..] else {
            panic!("ovms {path}: {help}")
        };
        let codes = codes.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(codes.starts_with("Exit codes: 0 "), "ovms {path}: {codes}");
        assert!(codes.contains("; 64 usage"), "ovms {path}: {codes}");
        let mut examples = examples.lines();
        assert_eq!(examples.next(), Some("Examples:"), "ovms {path}");
        let mut calls = 0;
        for line in examples {
            assert!(width(line) <= 78, "ovms {path}: {line}");
            calls += usize::from(line.contains(&format!("ovms {path}")));
        }
        assert!(calls > 0, "ovms {path}: an example of its own");
    }
}

#[test]
fn the_first_line_says_what_it_does() {
    for (path, help) in &*ALL {
        let first = help.lines().next().unwrap();
        assert!(!first.ends_with('.'), "ovms {path}: {first}");
        let verb = first.split(' ').next().unwrap();
        assert!(
            !["A", "An", "The", "Models"].contains(&verb) && !verb.ends_with('s'),
            "ovms {path}: {first}"
        );
    }
}

/// Help entry of a flag.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Flag with its letter and value name.
    head: String,
    /// First paragraph.
    words: String,
}

/// Parses the flags of a help text.
fn flags(help: &str) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let name = text.split_whitespace().find(|word| word.starts_with("--"));
        let is_flag = text.starts_with('-') && !text.starts_with("- ");
        let Some(name) = name.filter(|_| is_flag && (2..INDENT).contains(&indent)) else {
            continue;
        };
        let name = name.split(['[', '=', ',']).next().unwrap().to_owned();
        found.insert(name, entry(text, &mut lines));
    }
    found
}

/// Parses the entry that begins with a line.
fn entry<'a>(text: &str, lines: &mut Peekable<impl Iterator<Item = &'a str>>) -> Entry {
    let (head, words) = text.split_once("  ").unwrap_or((text, ""));
    let mut words = words.trim().to_owned();
    let is_more = |it: &&str| it.starts_with("          ") && !it.trim().is_empty();
    while let Some(more) = lines.next_if(is_more) {
        words = format!("{words} {}", more.trim()).trim().to_owned();
    }
    let head = head.to_owned();
    Entry { head, words }
}

/// Parses the arguments of a help text that are no flags.
fn arguments(help: &str) -> Vec<Entry> {
    let lines = help
        .lines()
        .skip_while(|line| *line != "Arguments:")
        .skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    let mut lines = lines.peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        if text.starts_with(['<', '[']) && line.len() - text.len() < INDENT {
            found.push(entry(text, &mut lines));
        }
    }
    found
}

#[test]
fn the_same_flag_has_the_same_words_everywhere() {
    let mut known: BTreeMap<String, (String, Entry)> = BTreeMap::new();
    let mut differing = Vec::new();
    let mut shared = 0;
    for (path, help) in &*ALL {
        for (name, entry) in flags(help) {
            if OF_THEIR_OWN.contains(&&*name) || name == "--help" {
                continue;
            }
            match known.get(&name) {
                Some((_, first)) if *first == entry => shared += 1,
                Some((other, first)) => differing.push(format!(
                    "{name}\n  ovms {other}: {first:?}\n  ovms {path}: {entry:?}"
                )),
                None => {
                    known.insert(name, (path.clone(), entry));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(shared > 30, "{shared} are shared");
}

#[test]
fn output_is_a_format_and_save_is_a_file_everywhere() {
    let (mut formats, mut files) = (0, 0);
    for (path, help) in &*ALL {
        for (name, Entry { head, .. }) in flags(help) {
            match &*name {
                "--output" => {
                    formats += 1;
                    assert_eq!(head, "--output <FORMAT>", "ovms {path}");
                }
                "--save" => {
                    files += 1;
                    let value = head.strip_prefix("-o, --save <");
                    let is_file = value.is_some_and(|it| ["FILE>", "PATH>"].contains(&it));
                    assert!(is_file, "ovms {path}: {head}");
                }
                _ => assert!(!head.starts_with("-o"), "ovms {path}: {head}"),
            }
        }
    }
    assert!(formats > 9 && files > 4, "{formats} {files}");
}

#[test]
fn flags_have_hyphens_in_the_help() {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    for (path, help) in &*ALL {
        let words = help.split(|c| !is_word(c));
        let mut flags = words.filter(|word| word.starts_with("--"));
        assert_eq!(flags.find(|flag| flag.contains('_')), None, "ovms {path}");
    }
}

#[test]
fn help_takes_help() {
    for (line, same) in [
        ("help --help", "--help"),
        ("help -h", "--help"),
        ("--quiet help --help", "--help"),
        ("help infer --help", "infer --help"),
        ("help graph run -h", "graph run --help"),
        ("pipeline help --help", "pipeline --help"),
        ("graph help run --help", "graph run --help"),
    ] {
        let [found, expected] = [line, same].map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            at_80(&words)
        });
        assert_eq!((found.code, &*found.stderr), (Some(0), ""), "ovms {line}");
        assert_eq!(found.text(), expected.text(), "ovms {line}");
    }
}

#[test]
fn short_help_fits_a_screen() {
    for (path, help) in &*SHORT {
        let most = if path.is_empty() { 24 } else { 60 };
        assert!(
            help.lines().count() <= most,
            "ovms {path}: {}\n{help}",
            help.lines().count()
        );
    }
}

#[test]
fn first_lines_are_short() {
    let mut seen = 0;
    let mut long = Vec::new();
    for (path, help) in &*ALL {
        let about = help.lines().take_while(|line| !line.is_empty());
        let about = Entry {
            head: String::new(),
            words: about.collect::<Vec<_>>().join(" "),
        };
        let flags = flags(help).into_values();
        let entries = flags.chain(arguments(help)).chain([about]);
        for Entry { head, words } in entries {
            assert!(!words.is_empty(), "ovms {path} {head}");
            seen += 1;
            if width(&words) > MAX_FIRST_LINE {
                long.push(format!("ovms {path} {head}: {words}"));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
    assert!(seen > 250, "{seen} are looked at");
}
