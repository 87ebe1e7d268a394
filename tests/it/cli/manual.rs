//! `ovms man`: the pages for `man`.

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

#[test]
fn a_page_reads_as_manuals_do() {
    let page = ovms(["man", "completions"]).text();
    let page = page.replace(env!("CARGO_PKG_VERSION"), "<version>");
    insta::assert_snapshot!(page, @r#"
    .ie \n(.g .ds Aq \(aq
    .el .ds Aq '
    .TH OVMS-COMPLETIONS 1 "" "ovms <version>" "OpenVINO Model Server"
    .SH NAME
    ovms\-completions \- Print a shell\*(Aqs completion script, or install it
    .SH SYNOPSIS
    \fBovms completions\fR [\fB\-\-install\fR] [\fB\-q\fR|\fB\-\-quiet\fR] [\fB\-h\fR|\fB\-\-help\fR] [\fB\-V\fR|\fB\-\-version\fR] [\fISHELL\fR]
    .SH DESCRIPTION
    Print a shell\*(Aqs completion script, or install it
    .PP
    The script asks the program while you type: for flags, their values and files; and for the servables, inputs, outputs and versions of the server at \-\-url, OVMS_URL or localhost, and the pipelines and graphs of the configuration file on the line. Where no server answers, the servables are those of the configuration file that OVMS_CONFIG names. If there is none to ask, or it takes longer than a moment, there are no names.
    .PP
    \-\-install writes below your home folder and changes no other file; what is left to do is said.
    .SH OPTIONS
    .TP
    \fB\-\-install\fR
    Write the script to where the shell looks for it, and say what is left to do
    .TP
    \fB\-h\fR, \fB\-\-help\fR
    Print help (see a summary with \*(Aq\-h\*(Aq)
    .TP
    \fB\-V\fR, \fB\-\-version\fR
    Print version
    .TP
    [\fISHELL\fR]
    Shell [default: that of the variable SHELL]
    .sp
    \fIPossible values:\fR
    .RS 14
    .IP \(bu 2
    bash
    .IP \(bu 2
    elvish
    .IP \(bu 2
    fish
    .IP \(bu 2
    powershell
    .IP \(bu 2
    zsh
    .RE
    .SS OUTPUT
    .TP
    \fB\-q\fR, \fB\-\-quiet\fR
    Suppress progress and informational messages
    .SH EXAMPLES
    .EX
    ovms completions \-\-install
    ovms completions zsh \-\-install
    source <(ovms completions bash)
    .EE
    .SH "EXIT STATUS"
    .TP
    \fB0\fR
    done
    .TP
    \fB1\fR
    the script cannot be written
    .TP
    \fB64\fR
    usage, also a shell that is not known
    .SH ENVIRONMENT
    .TP
    \fBOVMS_CONFIG\fR
    A configuration file whose servables are offered where no server answers.
    .TP
    \fBOVMS_COMPLETE_MS\fR
    How long a key waits for names, in milliseconds. Without it 130.
    .TP
    \fBOVMS_URL\fR
    The address of the server, if \-\-url is not given.
    .TP
    \fBXDG_DATA_HOME\fR
    The user\*(Aqs data folder: \fBovms setup\fR installs below it, and completions of bash and zsh are there. Without it ~/.local/share.
    .TP
    \fBXDG_CONFIG_HOME\fR
    The user\*(Aqs configuration folder, for the completions of the other shells. Without it ~/.config.
    .TP
    \fBSHELL\fR
    The shell that is meant if none is named.
    .SH "SEE ALSO"
    \fBovms\fR(1)
    "#);
}

#[test]
fn what_has_no_page_is_reported() {
    insta::assert_snapshot!(ovms(["man", "setup", "now"]).failure(), @"
    exit 64
    error: there is no command `ovms setup now`
    hint: `ovms setup` is a page without further ones
    ");
    let both = ovms(["man", "--dir", "x", "serve"]);
    assert_eq!(both.code, Some(64), "{}", both.stderr);
    let folder = repository::folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let failure = ovms(["man", "--dir", file.to_str().unwrap()]).failure();
    let failure = failure.replace(folder.path().to_str().unwrap(), "<folder>");
    insta::assert_snapshot!(failure, @"
    exit 1
    error: cannot write <folder>/file
      caused by: File exists (os error 17)
    ");
}
