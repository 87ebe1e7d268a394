//! Page of the manual: output of `clap_mangen`, and sections for the text after the help.

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, roman},
};

use super::after::{After, Block};

/// Macros for an empty line, and for a line break.
const SPACE: &str = ".sp";
const BREAK: &str = ".br";

/// Texts about variables, with the prefixes of the names of the pages they appear on.
const ENVIRONMENT: [(&str, &[&str], &str); 9] = [
    (
        "OVMS_CONFIG",
        &["ovms-completions"],
        "A configuration file whose servables are offered where no server answers.",
    ),
    (
        "OVMS_URL",
        &["ovms", "ovms-completions"],
        "The address of the server, if --url is not given.",
    ),
    (
        "OPENVINO_INSTALL_DIR",
        &[
            "ovms",
            "ovms-serve",
            "ovms-setup",
            "ovms-pipeline",
            "ovms-graph",
        ],
        "The folder of the OpenVINO runtime. Without it the active virtual environment, the one that \
         `ovms setup` has made, and the system's folders are searched.",
    ),
    (
        "VIRTUAL_ENV, CONDA_PREFIX",
        &[
            "ovms",
            "ovms-serve",
            "ovms-setup",
            "ovms-pipeline",
            "ovms-graph",
        ],
        "The active Python environment, which may have a runtime, and whose packages Python nodes \
         see.",
    ),
    (
        "XDG_DATA_HOME",
        &["ovms", "ovms-serve", "ovms-setup", "ovms-completions"],
        "The user's data folder: `ovms setup` installs below it, and completions of bash and zsh are \
         there. Without it ~/.local/share.",
    ),
    (
        "XDG_CONFIG_HOME",
        &["ovms", "ovms-completions"],
        "The user's configuration folder, for the completions of the other shells. Without it \
         ~/.config.",
    ),
    (
        "SHELL",
        &["ovms", "ovms-completions"],
        "The shell that is meant if none is named.",
    ),
    (
        "LC_ALL, LC_CTYPE, LANG",
        &["ovms-pipeline-show", "ovms-graph-show"],
        "If the first that is set is not for UTF-8, drawings have ASCII characters only.",
    ),
    (
        "NO_COLOR, TERM",
        &["ovms"],
        "If NO_COLOR is not empty, or TERM is `dumb`, there are no colours, bars or frames.",
    ),
];

/// Meanings of the exit codes, for pages without their own.
const EXIT_STATUS: [(&str, &str); 8] = [
    ("0", "done"),
    ("1", "failed, or refused by the server"),
    ("2", "done, with warnings"),
    ("64", "the command line is wrong"),
    ("69", "the server cannot be reached"),
    ("70", "a bug of ovms"),
    ("72", "no OpenVINO runtime"),
    ("130", "interrupted"),
];

/// Returns the name of a page: `ovms-pipeline-show`.
pub(super) fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

/// Returns a command as typed: `ovms pipeline show`.
pub(super) fn spoken(command: &Command) -> &str {
    let name = command.get_bin_name();
    name.unwrap_or_else(|| command.get_name())
}

/// Writes the source of a page.
pub(super) fn render(command: &Command) -> String {
    let name = name(command);
    let man = Man::new(command.clone());
    let after = After::read(command);
    let part = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut text = Vec::new();
        write(&mut text).expect("memory can be written to");
        let text = String::from_utf8(text).expect("pages are text");
        let start = Roff::new().render();
        text.strip_prefix(&start).map(str::to_owned).unwrap_or(text)
    };
    let mut page = Roff::new().render();
    // No date: the same program has the same pages.
    let title = name.to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    page.extend([
        ".TH ",
        &title,
        " 1 \"\" \"ovms ",
        version,
        "\" \"OpenVINO Model Server\"\n",
    ]);
    page += &part(&|text| man.render_name_section(text));
    page += &part(&|text| man.render_synopsis_section(text));
    page += &part(&|text| man.render_description_section(text));
    page += &part(&|text| paragraphs(&after.description).to_writer(text));
    page += &below_options(&part(&|text| man.render_options_section(text)));
    if super::visible(command).next().is_some() {
        page += &part(&|text| man.render_subcommands_section(text));
    }
    page += &part(&|text| rest(command, &name, &after).to_writer(text));
    spaced(&page)
}

/// Writes paragraphs that continue the previous section.
fn paragraphs(texts: &[String]) -> Roff {
    let mut roff = Roff::new();
    for text in texts {
        roff.control("PP", []).text(inlines(text));
    }
    roff
}

/// Writes the sections after the options.
fn rest(command: &Command, name: &str, after: &After) -> Roff {
    let mut roff = Roff::new();
    for (heading, block) in &after.sections {
        roff.control("SH", [heading.to_uppercase().as_str()]);
        match block {
            Block::Lines(lines) => {
                roff.control("EX", []);
                for line in lines {
                    roff.text([roman(line)]);
                }
                roff.control("EE", []);
            }
            Block::Text(text) => {
                roff.text(inlines(text));
            }
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    let codes = if after.codes.is_empty() {
        EXIT_STATUS
            .map(|(code, text)| (code.to_owned(), text.to_owned()))
            .to_vec()
    } else {
        after.codes.clone()
    };
    for (code, text) in &codes {
        roff.control("TP", [])
            .text([bold(code)])
            .text(inlines(text));
    }
    environment(&mut roff, command, name, after);
    let mut others: Vec<String> = super::visible(command).map(self::name).collect();
    if let Some((parent, _)) = name.rsplit_once('-') {
        others.insert(0, parent.to_owned());
        if parent != "ovms" {
            others.insert(0, "ovms".to_owned());
        }
    }
    if !others.is_empty() {
        roff.control("SH", ["SEE ALSO"]);
        let last = others.len() - 1;
        let mut line = Vec::new();
        for (at, other) in others.iter().enumerate() {
            line.extend([bold(other), roman(if at == last { "(1)" } else { "(1), " })]);
        }
        roff.text(line);
    }
    roff
}

fn environment(roff: &mut Roff, command: &Command, name: &str, after: &After) {
    let concerns = |pages: &[&str]| {
        pages.iter().any(|page| match *page {
            "ovms" => name == "ovms",
            page => name
                .strip_prefix(page)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
        })
    };
    let known = ENVIRONMENT
        .iter()
        .filter(|(_, pages, _)| concerns(pages))
        .map(|(variable, _, text)| ((*variable).to_owned(), (*text).to_owned()));
    let known: Vec<(String, String)> = of_options(command).chain(known).collect();
    if known.is_empty() && after.environment.is_empty() {
        return;
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for text in &after.environment {
        roff.text(inlines(text));
    }
    for (variable, text) in known {
        roff.control("TP", [])
            .text([bold(variable)])
            .text(inlines(&text));
    }
}

/// Returns the variables that replace options.
fn of_options(command: &Command) -> impl Iterator<Item = (String, String)> {
    command.get_arguments().filter_map(|arg| {
        let variable = arg.get_env()?.to_string_lossy().into_owned();
        let text = format!("Used if `--{}` is not given.", arg.get_long()?);
        Some((variable, text))
    })
}

/// Converts text in backticks to bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(at, part)| if at % 2 == 0 { roman(part) } else { bold(part) })
        .collect()
}

/// Converts the headings of options to subsections of one section.
fn below_options(options: &str) -> String {
    let lines = options.lines().map(|line| match line.strip_prefix(".SH ") {
        Some("OPTIONS") | None => format!("{line}\n"),
        Some(heading) => format!(".SS {heading}\n"),
    });
    let text: String = lines.collect();
    if text.starts_with(".SS ") {
        return format!(".SH OPTIONS\n{text}");
    }
    text
}

/// Converts empty lines to vertical space, which breaks the line as well.
fn spaced(page: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in page.lines() {
        let line = match line.trim_end() {
            "" => SPACE,
            line => line,
        };
        match (lines.last().copied(), line) {
            (Some(SPACE), SPACE | BREAK) => {}
            (Some(BREAK), SPACE) => {
                lines.pop();
                lines.push(SPACE);
            }
            _ => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}
