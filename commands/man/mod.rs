//! `ovms man`: the manual, a page for each command, made of the same texts as `--help`.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
};

use clap::{Command, CommandFactory};
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};

use super::{cli::Cli, completions::names::given, error::Failure, ui};

const AFTER_HELP: &str = "\
Examples:
  ovms man infer
  ovms man pipeline show | man -l -
  ovms man --dir ~/.local/share/man/man1 && man ovms-infer

Exit codes: 0 done; 1 a page cannot be written; 64 usage, or an unknown command.";

/// Arguments of `ovms man`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct ManArgs {
    /// Command whose page to show, such as `pipeline show` [default: ovms]
    ///
    /// A terminal shows the formatted page; files and pipes get its source.
    #[arg(conflicts_with = "dir", add = ArgValueCandidates::new(names))]
    subcommand: Vec<String>,

    /// Write all pages to this folder
    ///
    /// The folder is created if missing. `man` finds pages in folders named man1 below those of
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
    let source = render(named(&root, &args.subcommand)?)?;
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

/// Returns the words that may follow those of the line, for completions.
fn names() -> Vec<CompletionCandidate> {
    let root = root();
    let Ok(command) = named(&root, &given("subcommand")) else {
        return Vec::new();
    };
    let names = visible(command).map(Command::get_name);
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
            let path = name(command).replace('-', " ");
            let text = format!("there is no command `{path} {word}`");
            let names: Vec<&str> = visible(command).map(Command::get_name).collect();
            let failure = Failure::usage(text).hint_nearest(word, names.iter().copied());
            failure.hint(match names.is_empty() {
                true => format!("`{path}` has no further pages"),
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
        let name = format!("{}.1", name(command));
        let path = dir.join(&name);
        let page = render(command)?;
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

/// Variables that are no options, a line each: its name, the pages that have it, with those of their subcommands
/// except for `ovms`, and a text.
const ENVIRONMENT: &str = include_str!("environment.txt");

/// Returns the name of a page: `ovms-pipeline-show`.
fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

/// Writes the source of a page.
fn render(command: &Command) -> io::Result<String> {
    let name = name(command);
    let man = Man::new(command.clone());
    let (description, sections, texts) = after(command);
    let (mut page, mut options) = (Vec::new(), Vec::new());
    // No date: the same program has the same pages. The crate's own title leaves such an argument out.
    let (title, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    writeln!(
        page,
        r#".TH {title} 1 "" "ovms {version}" "OpenVINO Model Server""#
    )?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    description.to_writer(&mut page)?;
    man.render_options_section(&mut options)?;
    // The first heading is that of options without one, such as `--help`.
    let options = String::from_utf8_lossy(&options).replace("\n.SH ", "\n.SS ");
    page.extend(options.replacen("\n.SS ", "\n.SH ", 1).bytes());
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    sections.to_writer(&mut page)?;
    environment(command, &name, texts).to_writer(&mut page)?;
    see_also(command, &name).to_writer(&mut page)?;
    Ok(spaced(&String::from_utf8_lossy(&page)))
}

/// Reads the text after the help: paragraphs that continue the description; sections in their order,
/// with that of the exit codes; and texts about variables.
fn after(command: &Command) -> (Roff, Roff, Vec<String>) {
    let (mut description, mut sections) = (Roff::new(), Roff::new());
    let mut environment = Vec::new();
    let long = command.get_after_long_help();
    let text = long.or_else(|| command.get_after_help());
    // Without colours.
    let text = text.map(ToString::to_string).unwrap_or_default();
    for paragraph in text.split("\n\n") {
        let joined = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(codes) = joined.strip_prefix("Exit codes: ") {
            sections.control("SH", ["EXIT STATUS"]);
            for code in codes.trim_end_matches('.').split("; ") {
                let (code, text) = code.split_once(' ').unwrap_or((code, ""));
                item(&mut sections, code, text);
            }
        } else if let Some(text) = joined.strip_prefix("Environment: ") {
            environment.push(text.to_owned());
        } else if let Some((heading, lines)) = paragraph.split_once(":\n  ")
            && !heading.contains('\n')
        {
            sections.control("SH", [heading.to_uppercase().as_str()]);
            sections.control("EX", []);
            for line in lines.split("\n  ") {
                sections.text([roman(line)]);
            }
            sections.control("EE", []);
        } else if !joined.is_empty() {
            description.control("PP", []).text(inlines(&joined));
        }
    }
    (description, sections, environment)
}

fn environment(command: &Command, name: &str, texts: Vec<String>) -> Roff {
    let concerns = |page: &str| match page {
        "ovms" => name == "ovms",
        page => name == page || name.starts_with(&format!("{page}-")),
    };
    let of_options = command.get_arguments().filter_map(|arg| {
        let variable = arg.get_env()?.to_string_lossy().into_owned();
        let text = format!("Used if `--{}` is not given.", arg.get_long()?);
        Some((variable, text))
    });
    let known = ENVIRONMENT.lines().filter_map(|line| {
        let (variable, rest) = line.split_once(" | ")?;
        let (pages, text) = rest.split_once(" | ")?;
        let is_shown = pages.split(' ').any(concerns);
        is_shown.then(|| (variable.to_owned(), text.to_owned()))
    });
    let variables: Vec<_> = of_options.chain(known).collect();
    let mut roff = Roff::new();
    if !variables.is_empty() || !texts.is_empty() {
        roff.control("SH", ["ENVIRONMENT"]);
    }
    for text in texts {
        roff.text(inlines(&text));
    }
    for (variable, text) in variables {
        item(&mut roff, &variable, &text);
    }
    roff
}

/// Writes the pages above and below.
fn see_also(command: &Command, name: &str) -> Roff {
    let ends = name.match_indices('-');
    let above = ends.map(|(end, _)| name[..end].to_owned());
    let others = above.chain(visible(command).map(self::name));
    let mut line = Vec::new();
    for other in others {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(other), roman("(1)")]);
    }
    let mut roff = Roff::new();
    if !line.is_empty() {
        roff.control("SH", ["SEE ALSO"]).text(line);
    }
    roff
}

/// Writes an item of a list of terms.
fn item(roff: &mut Roff, term: &str, text: &str) {
    roff.control("TP", [])
        .text([bold(term)])
        .text(inlines(text));
}

/// Converts text in backticks to bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    let inline = |(at, part)| if at % 2 == 0 { roman(part) } else { bold(part) };
    parts.map(inline).collect()
}

/// Puts sections together: with the definitions that each begins with once, and vertical space, which
/// breaks the line as well, instead of empty lines.
fn spaced(sections: &str) -> String {
    let definitions = Roff::new().render();
    let page = sections.replace(&definitions, "");
    let lines = page.lines().map(|line| match line.trim_end() {
        "" => ".sp",
        line => line,
    });
    let mut lines: Vec<&str> = lines.collect();
    lines.dedup_by(|next, last| {
        let is_break = |line: &str| matches!(line, ".sp" | ".br");
        let are_breaks = is_break(next) && is_break(last);
        if are_breaks && *next == ".sp" {
            *last = *next;
        }
        are_breaks
    });
    definitions + &lines.join("\n") + "\n"
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
        let name = |text| named(&root, &words(text)).map(super::name);
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
