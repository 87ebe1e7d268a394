//! Names with terminal control characters, which `ovms pipeline` escapes.

use crate::support::{
    checks::{Case, dummy, file, library, node, pipeline, sound},
    cli::{self, Run},
    nodes::compiled,
};

/// JSON escapes of three sequences that clear a terminal, and one that reverses the text.
const HOSTILE: &str = r"\u001b[2J\u009b2J\u001bc\u202e\u2066\nnext";

/// Escaped form of [`HOSTILE`] in the output.
const SHOWN: &str = r"\u{1b}[2J\u{9b}2J\u{1b}c\u{202e}\u{2066}\u{a}next";

/// Returns a name with all these sequences.
fn hostile(name: &str) -> String {
    format!("{name}{HOSTILE}")
}

/// Panics if the output contains control characters; returns the output.
fn harmless(run: &Run) -> String {
    let text = format!("{}{}", run.text(), run.stderr);
    for line in text.lines() {
        let steers = |c: char| c.is_control() || "\u{202e}\u{2066}".contains(c);
        assert!(!line.contains(steers), "{line:?}");
        assert!(!line.starts_with("next"), "{text}");
    }
    text
}

fn ovms(case: &Case, args: &[&str]) -> Run {
    cli::run(cli::command().current_dir(case.path()).args(args))
}

#[test]
fn errors_and_warnings_show_names_and_send_nothing() {
    let case = Case::new();
    let (one, two, name) = (hostile("one"), hostile("two"), hostile("p"));
    let nodes = [
        node(&one, "dummy", &["b < request.x"], &["a"], ""),
        node(
            &two,
            &hostile("nosuch"),
            &[&format!("b < {one}.{HOSTILE}")],
            &["a"],
            "",
        ),
        node(
            "three",
            "dummy",
            &[&format!("{HOSTILE} < {one}.a")],
            &["a"],
            "",
        ),
    ];
    let faulty = pipeline(&name, &nodes, &[&format!("{HOSTILE} < {two}.a")], "");
    // Characters that turn the direction may also stand in the file as they are.
    let turned = sound("turned").replace("[\"x\"]", "[\"x\", \"\u{202e}idle\"]");
    case.config(&file(
        &[dummy()],
        &[],
        &[faulty, turned, sound("q"), sound("q")],
    ));
    let run = case.check(&[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let text = harmless(&run);
    for part in [
        format!("pipeline `p{SHOWN}`: "),
        format!("   = node `two{SHOWN}`\n"),
        format!("   = one{SHOWN} ──{SHOWN}──▶ two{SHOWN}.b\n"),
        // A text that may have lines: others are below the first.
        format!(
            "the model `nosuch{}\n     next`",
            SHOWN.replace(r"\u{a}next", "")
        ),
        r"`\u{202e}idle`".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}\n{text}");
    }
    let run = case.check(&["nosuch"]);
    assert_eq!(run.code, Some(64));
    harmless(&run);
    for args in [&["config.json"][..], &["config.json", "nosuch"]] {
        harmless(&ovms(&case, &[&["pipeline", "show"], args].concat()));
        harmless(&ovms(
            &case,
            &[&["pipeline", "run", "--zeros"], args].concat(),
        ));
    }
    let decoded: String = serde_json::from_str(&format!("\"{name}\"")).unwrap();
    let run = ovms(
        &case,
        &["pipeline", "run", "config.json", &decoded, "--zeros"],
    );
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(harmless(&run).contains("cannot run"), "{}", run.stderr);
}

#[test]
fn a_report_of_a_run_shows_names_and_sends_nothing() {
    let case = Case::new();
    let (one, two, output) = (hostile("one"), hostile("two"), hostile("y"));
    let wire = |to: &str, from: &str| format!("{to} < {from}.o");
    let nodes = [
        node(
            &one,
            "@lib",
            &["numbers < request.x", "how_many < request.n"],
            &["results"],
            "",
        ),
        node(&two, "dummy", &[&wire("b", &one)], &["a"], ""),
    ];
    let nodes = nodes.map(|node| {
        let node = node.replace("\"alias\": \"results\"", "\"alias\": \"o\"");
        node.replace("\"alias\": \"a\"", "\"alias\": \"o\"")
    });
    let nodes = nodes.map(|node| {
        let splits = "\"library_name\": \"lib\", \"demultiply_count\": -1";
        node.replace("\"library_name\": \"lib\"", splits)
    });
    let mut all = pipeline(&hostile("p"), &nodes, &[&wire(&output, &two)], "");
    all = all.replace("[\"x\"]", "[\"x\", \"n\"]");
    let library = library("lib", &compiled("dynamic_results.cpp"));
    case.config(&file(&[dummy()], &[library], &[all]));
    let name: String = serde_json::from_str(&format!("\"{}\"", hostile("p"))).unwrap();
    let run = ovms(
        &case,
        &[
            "pipeline",
            "run",
            "config.json",
            &name,
            "-i",
            "n=[6]",
            "-i",
            "x=[0,1,2,3,4,5,6,7,8,9]",
        ],
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let text = harmless(&run);
    for part in [
        format!("Pipeline `p{SHOWN}`: 2 nodes"),
        format!("Critical path: request → one{SHOWN} "),
        format!(" → two{SHOWN} [one{SHOWN}_"),
        format!("not shown: 2 of `two{SHOWN}`"),
        format!("\ny{SHOWN} "),
    ] {
        assert!(text.contains(&part), "{part}\n{text}");
    }
}
