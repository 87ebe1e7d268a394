//! `ovms man`: the manual, a page for each command, made of the same texts as `--help`.

mod page;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
};

use clap::{Command, CommandFactory};
use clap_complete::{ArgValueCandidates, CompletionCandidate};

use crate::{cli::Cli, error::Failure, ui};

const AFTER_HELP: &str = "\
Examples:
  ovms man infer
  ovms man pipeline show | man -l -
  ovms man --dir ~/.local/share/man/man1 && man ovms-infer

Exit codes: 0 done; 1 a page cannot be written; 64 usage, also a command that is not known.";

/// Arguments of `ovms man`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct ManArgs {
    /// Command whose page to show, such as `pipeline show` [default: ovms]
    ///
    /// A terminal shows the page as `man` does, and all else gets its source.
    #[arg(conflicts_with = "dir", add = ArgValueCandidates::new(names))]
    subcommand: Vec<String>,

    /// Write all pages to this folder
    ///
    /// The folder is made if it is missing. `man` finds pages in folders named man1 below those of
    /// `manpath`.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let root = root();
    if let Some(dir) = &args.dir {
        return write_all(&root, dir);
    }
    let source = page::render(named(&root, &args.subcommand)?)?;
    if std::io::stdout().is_terminal() && shown(&source) {
        return Ok(());
    }
    ui::print(source)
}

/// Returns the command line with the names of pages.
fn root() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// Returns the first words of names, for completions.
fn names() -> Vec<CompletionCandidate> {
    let root = root();
    let names = visible(&root).map(Command::get_name);
    names.map(CompletionCandidate::new).collect()
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|inner| !inner.is_hide_set())
}

/// Finds the command with the given words.
fn named<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    let mut command = root;
    for word in words {
        let inner = visible(command).find(|inner| inner.get_name() == word);
        command = inner.ok_or_else(|| {
            let path = page::name(command).replace('-', " ");
            let text = format!("there is no command `{path} {word}`");
            let names: Vec<&str> = visible(command).map(Command::get_name).collect();
            let failure = Failure::usage(text).hint_nearest(word, names.iter().copied());
            failure.hint(match names.is_empty() {
                true => format!("`{path}` is a page without further ones"),
                false => format!("`{path}` has: {}", names.join(", ")),
            })
        })?;
    }
    Ok(command)
}

fn write_all(root: &Command, dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|error| Failure::cannot("write", dir, &error))?;
    let mut left = vec![root];
    let mut names = Vec::new();
    while let Some(command) = left.pop() {
        left.extend(visible(command));
        let name = format!("{}.1", page::name(command));
        let path = dir.join(&name);
        let page = page::render(command)?;
        fs::write(&path, page).map_err(|error| Failure::cannot("write", &path, &error))?;
        names.push(name);
    }
    names.sort();
    let shown = dir.to_string_lossy();
    ui::note(&format!("{} pages are in {shown}.", names.len()));
    ui::print(names.join("\n") + "\n")
}

/// Shows a page with `man`; false if it cannot.
fn shown(source: &str) -> bool {
    let mut command = Process::new("man");
    let command = command.args(["-l", "-"]).stdin(Stdio::piped());
    let Ok(mut man) = command.spawn() else {
        return false;
    };
    if let Some(mut stdin) = man.stdin.take() {
        // Fails if the reader has left, who has seen enough.
        let _ = stdin.write_all(source.as_bytes());
    }
    man.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{named, root};

    #[test]
    fn commands_are_named_by_words() {
        let root = root();
        let words = |text: &str| -> Vec<String> {
            let words = text.split_whitespace();
            words.map(str::to_owned).collect()
        };
        let name = |text| named(&root, &words(text)).map(super::page::name);
        assert_eq!(name("").unwrap(), "ovms");
        assert_eq!(name("pipeline show").unwrap(), "ovms-pipeline-show");
        insta::assert_snapshot!(name("pipeline shwo").unwrap_err().text(), @"
        error: there is no command `ovms pipeline shwo`
        hint: did you mean `show`?
        hint: `ovms pipeline` has: new, show, check, run
        ");
        assert!(name("probe-runtime").is_err());
    }
}
