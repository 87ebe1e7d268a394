//! Commands in the manual, with their output; `support::docs` describes the page format.

use std::{fs, path::Path};

use crate::support::docs::{self, Command, Page, Step};

/// Pages without commands.
const NOT_RUN: [&str; 7] = [
    "architecture.md",
    "benchmarks.md",
    "first-hour.md",
    "glossary.md",
    "limits.md",
    "peers.md",
    "scaling.md",
];

/// Creates a test of each page, so that they run in parallel.
macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        /// Pages with tested commands.
        const RUN: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $name() {
                run($file);
            }
        )*
    };
}

pages! {
    apis: "apis.md",
    bench: "bench.md",
    completions: "completions.md",
    configuration: "configuration.md",
    dashboard: "dashboard.md",
    deployment: "deployment.md",
    doctor: "doctor.md",
    examples: "examples.md",
    graphs: "graphs.md",
    index: "README.md",
    infer: "infer.md",
    install: "install.md",
    monitoring: "monitoring.md",
    moving: "moving.md",
    performance: "performance.md",
    pipelines: "pipelines.md",
    quick_start: "quick-start.md",
    scripting: "scripting.md",
    security: "security.md",
    serve: "serve.md",
    setup: "setup.md",
    stateful: "stateful.md",
    streaming: "streaming.md",
    tracing: "tracing.md",
    triton: "triton.md",
}

fn root() -> &'static Path {
    Path::new(env!("WORKSPACE_ROOT"))
}

fn run(file: &str) {
    run_page(&format!("docs/{file}"));
}

fn run_page(path: &str) {
    let text = fs::read_to_string(root().join(path)).unwrap();
    let page = Page::read(path, &text);
    assert!(page.commands() > 0, "{path} has no commands");
    docs::run(&page);
}

#[test]
fn the_front_door() {
    run_page("README.md");
}

#[test]
fn the_first_hour_was_gone_through() {
    let text = fs::read_to_string(root().join("docs/first-hour.md")).unwrap();
    let (_, reported) = text.split_once("```text\n").unwrap();
    for command in ["make demo", "ovms infer", "ovms pipeline", "ovms graph"] {
        assert!(reported.contains(&format!("$ {command}")), "{command}");
    }
    let last = reported.trim_end().trim_end_matches("```").trim_end();
    assert!(last.ends_with("done"), "{last}");
}

#[test]
fn nothing_is_left_to_be_filled_in() {
    for file in RUN {
        let text = fs::read_to_string(root().join("docs").join(file)).unwrap();
        assert!(!text.contains("TBD"), "docs/{file}");
    }
}

#[test]
fn every_page_is_listed_above() {
    for entry in fs::read_dir(root().join("docs")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".md") {
            continue;
        }
        if NOT_RUN.contains(&name.as_str()) {
            let text = fs::read_to_string(entry.path()).unwrap();
            assert_eq!(Page::read(&name, &text).commands(), 0, "docs/{name}");
        } else {
            assert!(RUN.contains(&name.as_str()), "docs/{name} is not run");
        }
    }
}

const PAGE: &str = "\
# Title
```json a/b.json
{}
```
```console
$ first \\
    --more   # why
said

twice

$ second <<END
> text
> END
$ third
```
```sh
$ not this
```
";

#[test]
fn a_page_is_files_and_commands_with_what_they_say() {
    let command = |line, text: &str, expected: &[&str]| {
        Step::Run(Command {
            line,
            text: text.to_owned(),
            expected: expected.iter().map(|line| (*line).to_owned()).collect(),
        })
    };
    let page = Page::read("page", PAGE);
    assert_eq!(
        page.steps,
        [
            Step::Write {
                name: "a/b.json".to_owned(),
                text: "{}\n".to_owned(),
            },
            command(6, "first \\\n    --more   # why", &["said", "", "twice"]),
            command(12, "second <<END\ntext\nEND", &[]),
            command(15, "third", &[]),
        ]
    );
}

#[test]
fn three_dots_stand_for_any_text_and_any_lines() {
    let differs = |expected: &str, got: &str| {
        let lines: Vec<_> = expected.lines().map(str::to_owned).collect();
        docs::differs(&lines, got)
    };
    assert_eq!(differs("a\n…\nb", "a\nb\n"), None);
    assert_eq!(differs("a\n…\nb", "a\nx\nb\ny\nb"), None);
    assert_eq!(differs("…", ""), None);
    for (expected, got, missing) in [
        ("a\nb", "a\nc", "not found: b"),
        ("a\nb", "a", "not found: b"),
        ("a", "a\nb", "more was said than expected"),
        ("…\na", "a\nb", "more was said than expected"),
        ("a\n…\nb\nc", "a\nb\nx", "not found: c"),
    ] {
        let difference = differs(expected, got).expect("they differ");
        assert!(difference.starts_with(missing), "{difference}");
    }
}

#[test]
fn lines_are_the_same_but_for_what_is_measured_and_aligned() {
    for (expected, got) in [
        ("a …, b", "a x, y, b"),
        ("a…", "a"),
        ("answered in 9.73 ms.", "answered in 1.2 s."),
        ("answered in … ms.", "answered in 1.2 s."),
        (
            "153 steps in 0.10 s, 1540 steps/s.",
            "153 steps in 2 s, 70 steps/s.",
        ),
        ("node     19.1 ms   40 %", "node 170 µs  3 %"),
        ("│ a  │ …", "│ a  │ b"),
    ] {
        assert!(docs::is_same(expected, got), "{expected} | {got}");
    }
    for (expected, got) in [
        ("a …, b", "a x, c"),
        ("a", "a b"),
        ("153 steps in 1 s", "152 steps in 1 s"),
        ("answered in 9.73 ms.", "answered in 9.73 tries."),
        ("│ a  │", "│ a │"),
    ] {
        assert!(!docs::is_same(expected, got), "{expected} | {got}");
    }
}

/// Runs a page that must fail, and returns the error.
fn failure(text: &str) -> String {
    let page = Page::read("page", &format!("```console\n{text}\n```\n"));
    let failed = std::panic::catch_unwind(|| docs::run(&page)).unwrap_err();
    let text = failed.downcast_ref::<String>().expect("it says why");
    text.clone()
}

#[test]
fn a_command_that_fails_is_reported_with_its_place() {
    assert_eq!(
        failure("$ true\n$ echo why; exit 3"),
        "page:3: $ echo why; exit 3: exit status: 3\nwhy\n"
    );
}

#[test]
fn a_command_that_says_something_else_is_reported_with_its_place() {
    let failure = failure("$ export A=b; cd tests\n$ echo $A; basename $PWD\nb\nfixtures");
    assert!(failure.starts_with("page:3: $ echo"), "{failure}");
    assert!(failure.contains("not found: fixtures"), "{failure}");
    assert!(failure.contains("--- got\nb\ntests\n"), "{failure}");
}

#[test]
fn a_server_that_does_not_start_is_reported() {
    let failure = failure("$ ovms serve --model_name m --model_path missing");
    assert!(failure.contains("has ended without ` ready`"), "{failure}");
}
