//! Page of the manual: the sections of `clap_mangen`, and those of the text after a command's help.
//!
//! Of that text, a paragraph below a line that ends in a colon is a section of verbatim lines;
//! `Exit codes:` and `Environment:` are sections of every manual; the rest extends the description.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};

use super::visible;

/// Variables that are no options: the pages that have them, with those of their subcommands except
/// for `ovms`, and a text.
const ENVIRONMENT: [(&str, &str, &str); 10] = [
    (
        "OVMS_CONFIG",
        "ovms-completions",
        "A configuration file whose servables are offered where no server answers.",
    ),
    (
        "OVMS_COMPLETE_MS",
        "ovms-completions",
        "How long a key waits for names, in milliseconds. Without it 130.",
    ),
    (
        "OVMS_URL",
        "ovms ovms-completions",
        "The address of the server, if --url is not given.",
    ),
    (
        "OPENVINO_INSTALL_DIR",
        "ovms ovms-serve ovms-setup ovms-pipeline ovms-graph",
        "The folder of the OpenVINO runtime. Without it the active virtual environment, the one that \
         `ovms setup` has made, and the system's folders are searched.",
    ),
    (
        "VIRTUAL_ENV, CONDA_PREFIX",
        "ovms ovms-serve ovms-setup ovms-pipeline ovms-graph",
        "The active Python environment, which may have a runtime, and whose packages Python nodes \
         see.",
    ),
    (
        "XDG_DATA_HOME",
        "ovms ovms-serve ovms-setup ovms-completions",
        "The user's data folder: `ovms setup` installs below it, and completions of bash and zsh are \
         there. Without it ~/.local/share.",
    ),
    (
        "XDG_CONFIG_HOME",
        "ovms ovms-completions",
        "The user's configuration folder, for the completions of the other shells. Without it \
         ~/.config.",
    ),
    (
        "SHELL",
        "ovms ovms-completions",
        "The shell that is meant if none is named.",
    ),
    (
        "LC_ALL, LC_CTYPE, LANG",
        "ovms-pipeline-show ovms-graph-show",
        "If the first that is set is not for UTF-8, drawings have ASCII characters only.",
    ),
    (
        "NO_COLOR, TERM",
        "ovms",
        "If NO_COLOR is not empty, or TERM is `dumb`, there are no colours, bars or frames.",
    ),
];

/// Returns the name of a page: `ovms-pipeline-show`.
pub(super) fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

/// Writes the source of a page.
pub(super) fn render(command: &Command) -> io::Result<String> {
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
    let known = ENVIRONMENT.iter();
    let known = known.filter(|(_, pages, _)| pages.split(' ').any(concerns));
    let known = known.map(|(variable, _, text)| ((*variable).to_owned(), (*text).to_owned()));
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
