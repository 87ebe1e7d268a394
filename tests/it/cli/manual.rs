//! `ovms man`: all pages for `man`. One of them is in the sheet `manual`.

use std::{collections::BTreeMap, fs, process::Command};

use crate::support::{
    cli::{self, ovms},
    repository, tools,
};

/// Writes all pages and returns them by the names of their files.
fn pages() -> (tempfile::TempDir, BTreeMap<String, String>) {
    let folder = repository::folder();
    let dir = folder.path().join("share/man/man1");
    let run = ovms(["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let pages: BTreeMap<_, _> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let listed = run.text();
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        pages.keys().collect::<Vec<_>>()
    );
    (folder, pages)
}

/// Returns the flags in the help of a command.
fn flags(help: &str) -> Vec<&str> {
    let words = help.lines().filter(|line| line.starts_with(' '));
    let words = words.filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("-").map(|_| line)?;
        line.split([' ', ',', '[', '='])
            .find(|word| word.starts_with("--"))
    });
    words.collect()
}

#[test]
fn each_command_has_a_page_with_its_flags_and_the_usual_sections() {
    let (_folder, pages) = pages();
    for name in [
        "ovms.1",
        "ovms-serve.1",
        "ovms-infer.1",
        "ovms-pipeline-new-chain.1",
    ] {
        assert!(pages.contains_key(name), "{name}");
    }
    for (name, page) in &pages {
        let words = name.trim_end_matches(".1").replace('-', " ");
        let words: Vec<&str> = words.split(' ').skip(1).collect();
        let help = ovms([&words[..], &["--help"]].concat());
        let help = help.text();
        let found = flags(&help);
        assert!(found.contains(&"--help"), "{name}: {help}");
        for flag in found {
            let bold = format!("\\fB{}\\fR", flag.replace('-', "\\-"));
            assert!(page.contains(&bold), "{name} has no {flag}");
        }
        let mut last = 0;
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "\"EXIT STATUS\"",
            "\"SEE ALSO\"",
        ] {
            let heading = format!("\n.SH {section}\n");
            let at = page
                .find(&heading)
                .unwrap_or_else(|| panic!("{name} has no {section}"));
            assert!(at > last, "{name}: {section} is not where it belongs");
            last = at;
        }
        assert_eq!(
            page.contains("\n.SH EXAMPLES\n"),
            help.contains("\nExamples:\n"),
            "{name}"
        );
        // What is in the help is not twice in the page.
        assert!(!page.contains("Exit codes"), "{name}");
        // The same page by words.
        assert_eq!(
            ovms([&["man"], &words[..]].concat()).text(),
            *page,
            "{name}"
        );
    }
}

#[test]
fn pages_have_no_errors_for_those_who_set_them() {
    let (folder, pages) = pages();
    let dir = folder.path().join("share/man/man1");
    let lint = |program: &str, options: &[&str]| {
        let Some(program) = tools::find(program) else {
            return;
        };
        for name in pages.keys() {
            let run = cli::run(
                Command::new(&program)
                    .current_dir(&dir)
                    .args(options)
                    .arg(name),
            );
            let said = format!("{}{}", run.text(), run.stderr);
            // The pages have no date: the same program writes the same pages.
            let errors: Vec<&str> = said
                .lines()
                .filter(|line| !line.contains("missing date"))
                .collect();
            assert!(errors.is_empty(), "{name}: {}", errors.join("\n"));
        }
    };
    lint("mandoc", &["-T", "lint", "-W", "warning"]);
    lint("groff", &["-k", "-man", "-ww", "-z"]);
}
