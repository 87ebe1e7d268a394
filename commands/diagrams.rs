//! Output of `ovms pipeline show` and `ovms graph show`: its format and its place.

use std::{
    env, fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use ovms::draw::{self, Diagram};

use crate::{
    error::Failure,
    ui::{self, Look},
};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct DiagramArgs {
    /// Output format [default: by the ending of FILE, or text]
    #[arg(long = "output", alias = "format", value_name = "FORMAT", value_enum)]
    format: Option<Format>,

    /// Draw with ASCII characters only
    ///
    /// This is the default on a dumb terminal, and if LC_ALL, LC_CTYPE or LANG is not for UTF-8.
    #[arg(long)]
    ascii: bool,

    /// Write to this file; - is standard output
    ///
    /// Without --output, its ending sets the format: .svg, .html, .json, .dot or .gv, .mmd or .mermaid; .txt, .md, or no
    /// ending mean text.
    #[arg(short, long = "save", alias = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Format of diagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Boxes and arrows for a terminal
    #[default]
    #[value(alias = "table")]
    Text,
    /// For Graphviz
    Dot,
    /// For Markdown
    Mermaid,
    /// A diagram
    Svg,
    /// A page
    Html,
    /// For programs
    Json,
}

impl Format {
    /// Returns the format that the ending of a file stands for; text without an ending, and `None` for another one.
    fn of(path: &Path) -> Option<Self> {
        let Some(ending) = path.extension() else {
            return Some(Self::Text);
        };
        Some(match ending.to_str()?.to_ascii_lowercase().as_str() {
            "txt" | "md" => Self::Text,
            "dot" | "gv" => Self::Dot,
            "mmd" | "mermaid" => Self::Mermaid,
            "svg" => Self::Svg,
            "html" | "htm" => Self::Html,
            "json" => Self::Json,
            _ => return None,
        })
    }
}

impl DiagramArgs {
    /// Returns the format that was asked for, or that the name of the file stands for.
    pub(crate) fn format(&self) -> Format {
        let of_file = || self.file().and_then(Format::of);
        self.format.or_else(of_file).unwrap_or_default()
    }

    /// Fails if the ending of the file is that of another format than those that there are.
    fn check_ending(&self) -> Result<(), Failure> {
        match self.file() {
            Some(path) if self.format.is_none() && Format::of(path).is_none() => {
                let ending = path.extension().unwrap_or_default().display();
                let text = format!(
                    "cannot save to {}: found the ending .{ending}, expected .svg, .html, .json, .dot, or .mmd",
                    path.display()
                );
                let hint = "`--output FORMAT` sets the format regardless of the ending";
                Err(Failure::usage(text).hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// Fails if the file has an unknown ending, or several diagrams are to go into one that has room for one.
    pub(crate) fn validate<'a>(
        &self,
        kind: &str,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        self.check_ending()?;
        if self.format() != Format::Svg || names.len() <= 1 {
            return Ok(());
        }
        let text = format!("an SVG file holds one {kind}, and there are several: name one");
        let failure = Failure::usage(text);
        Err(names.fold(failure, |failure, name| failure.detail(name)))
    }

    /// Returns the capabilities of what is written to; asks about stdout as it is now.
    pub(crate) fn style(&self) -> draw::Style {
        match self.file() {
            None => draw::Style {
                width: ui::image_columns(),
                ascii: self.ascii || is_ascii_only(),
                colour: Look::of_stdout() == Look::Boxed,
            },
            Some(_) => draw::Style {
                ascii: self.ascii,
                ..draw::Style::default()
            },
        }
    }

    /// Draws diagrams, as a list for programs where that is asked for, and writes them to the file
    /// or else prints them.
    pub(crate) fn write(
        &self,
        diagrams: &[Diagram],
        title: &str,
        is_list: bool,
        style: draw::Style,
        print: impl FnOnce(String) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let each = |draw: &dyn Fn(&Diagram) -> String| {
            diagrams.iter().map(draw).collect::<Vec<_>>().join("\n")
        };
        let text = match (self.format(), diagrams) {
            (Format::Text, _) => each(&|diagram| draw::text(diagram, style)),
            (Format::Dot, _) => each(&draw::dot),
            (Format::Mermaid, _) => each(&draw::mermaid),
            (Format::Svg, _) => each(&draw::svg),
            (Format::Html, _) => draw::html(diagrams, title),
            (Format::Json, [diagram]) if !is_list => json(diagram)?,
            (Format::Json, _) => json(diagrams)?,
        };
        match self.file() {
            None => print(text),
            Some(path) => fs::write(path, text).map_err(|error| unwritten(path, &error)),
        }
    }

    fn file(&self) -> Option<&Path> {
        self.out.as_deref().filter(|path| *path != Path::new("-"))
    }
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(io::Error::from)? + "\n")
}

/// Returns whether terminal or locale lack characters for drawing.
fn is_ascii_only() -> bool {
    if io::stdout().is_terminal() && env::var_os("TERM").is_some_and(|name| name == "dumb") {
        return true;
    }
    let values = ["LC_ALL", "LC_CTYPE", "LANG"].map(env::var_os);
    let value = values.into_iter().flatten().find(|value| !value.is_empty());
    value.is_some_and(|value| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        !value.contains("utf-8") && !value.contains("utf8")
    })
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::cannot("write", path, error);
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            failure.hint(format!("create the folder {} first", folder.display()))
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{DiagramArgs, Format};

    fn args(format: Option<Format>, out: Option<&str>) -> DiagramArgs {
        DiagramArgs {
            format,
            ascii: false,
            out: out.map(|path| Path::new(path).to_owned()),
        }
    }

    #[test]
    fn a_file_of_another_ending_is_refused() {
        let validate = |format: Option<Format>, file: &str| {
            let valid = args(format, Some(file)).validate("graph", ["g"].into_iter());
            valid.map_err(|failure| failure.text())
        };
        insta::assert_snapshot!(validate(None, "a/draw.PNG").unwrap_err(), @"
        error: cannot save to a/draw.PNG: found the ending .PNG, expected .svg, .html, .json, .dot, or .mmd
        hint: `--output FORMAT` sets the format regardless of the ending
        ");
        assert_eq!(validate(Some(Format::Text), "draw.png"), Ok(()));
        for file in ["draw", "draw.txt", "draw.md", "draw.svg", ".hidden", "-"] {
            assert_eq!(validate(None, file), Ok(()), "{file}");
        }
    }

    #[test]
    fn the_ending_of_a_file_chooses_its_format() {
        let format = |format, out| args(format, out).format();
        for (file, expected) in [
            ("a.svg", Format::Svg),
            ("a.b/c.DOT", Format::Dot),
            ("a.gv", Format::Dot),
            ("a.mmd", Format::Mermaid),
            ("a.html", Format::Html),
            ("a.json", Format::Json),
            ("a.txt", Format::Text),
            ("svg", Format::Text),
            ("-", Format::Text),
        ] {
            assert_eq!(format(None, Some(file)), expected, "{file}");
            assert_eq!(format(Some(Format::Text), Some(file)), Format::Text);
        }
        assert_eq!(format(None, None), Format::Text);
    }
}
