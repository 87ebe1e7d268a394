//! `ovms pipeline show`: images of the pipelines of a configuration file, valid or not.

use std::{
    env, fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use ovms::{
    config::{self, Defaults, FileConfig, PipelineConfig},
    draw,
    pipeline::PipelineOutline,
};

use super::{
    aside::Aside,
    facts::{ConfigurationFacts, FactOptions},
};
use crate::{
    error::{Failure, FailureKind},
    serve::files,
    ui::{self, Look},
};

const AFTER_HELP: &str = "\
A box is a node, with the model or custom node that it runs. What stands beside an arrow is an \
output of the node above, the input that takes it, and type and shape of what goes over it at a \
time. A dashed frame is what runs for each part of a demultiplexer: × 4 for four parts, × N for \
as many as there are. Types and shapes are shown as far as models and libraries can be looked at, \
and a pipeline is drawn also if it cannot be served: what is not there has a box that says so, be \
it a node, or the model or library that a node runs.

Formats:
  text      for a terminal: as wide as that, 80 columns at most
  dot       for Graphviz, as in
            ovms pipeline show config.json --format dot | dot -Tpdf > a.pdf
  mermaid   a flow chart for Markdown
  svg       an image, light or dark as what shows it
  html      a page with images and tables, in one file that loads nothing
  json      name, inputs, outputs, nodes, edges, levels and dangling (edges
            without a source); a dimension is a number, -1 for any, or
            [least, most]; a node of which the model or library is not to be
            had says why in `missing`; a list without NAME

Examples:
  ovms pipeline show config.json
  ovms pipeline show config.json ocr
  ovms pipeline show config.json --format html -o dag.html
  ovms pipeline show config.json ocr --format json | jq '.edges[].shape'

Exit codes: 0 done; 1 no such file, or no pipeline to draw in it; 64 usage, also a NAME that no \
pipeline of the file has.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineShowArgs {
    /// Configuration file
    config: PathBuf,

    /// Name of the pipeline; all of the file without it
    name: Option<String>,

    /// Choose what to draw
    #[arg(
        long,
        visible_alias = "output",
        value_enum,
        default_value_t,
        help_heading = "Output"
    )]
    format: Format,

    /// Draw with the characters of ASCII only
    ///
    /// That is also done on a dumb terminal, and if LC_ALL, LC_CTYPE or LANG is not for UTF-8.
    #[arg(long, help_heading = "Output")]
    ascii: bool,

    /// Do not open the libraries of custom nodes
    ///
    /// Their types and shapes are not shown then.
    #[arg(long)]
    no_custom_nodes: bool,

    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
}

/// Format of an image.
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

/// Runs the subcommand.
pub(super) fn run(args: PipelineShowArgs) -> Result<(), Failure> {
    let file = read(&args.config)?;
    let pipelines = chosen(&file, &args)?;
    let look = Look::of_stdout();
    let ascii = is_ascii_only();
    let columns = ui::image_columns();
    // Libraries may write to stdout.
    let mut stdout = Aside::take()?;
    let options = FactOptions {
        custom_nodes: !args.no_custom_nodes,
    };
    let sources = ConfigurationFacts::new(&file, options);
    let outlines: Vec<PipelineOutline> = pipelines
        .into_iter()
        .map(|pipeline| PipelineOutline::new(pipeline, &sources))
        .collect();
    let out = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let style = draw::Style {
        width: match out {
            None => columns,
            Some(_) => draw::WIDTH,
        },
        ascii: args.ascii || (out.is_none() && ascii),
        colour: out.is_none() && look == Look::Boxed,
    };
    let text = draw(&args, &outlines, style)?;
    match out {
        None => stdout.print(&text),
        Some(path) => fs::write(path, text).map_err(|error| unwritten(path, &error)),
    }
}

fn read(path: &Path) -> Result<FileConfig, Failure> {
    config::read(path, &Defaults::default()).map_err(|error| files::explain(&error, "CONFIG"))
}

/// Returns the selected pipelines.
fn chosen<'a>(
    file: &'a FileConfig,
    args: &PipelineShowArgs,
) -> Result<Vec<&'a PipelineConfig>, Failure> {
    let path = args.config.display();
    let names = || file.pipelines.iter().map(|pipeline| pipeline.name.as_str());
    let Some(name) = &args.name else {
        if file.pipelines.is_empty() {
            let text = format!("the configuration file {path} has no pipelines");
            return Err(refused(file, Failure::new(FailureKind::Failed, text))
                .hint("they are listed in pipeline_config_list"));
        }
        if args.format == Format::Svg && file.pipelines.len() > 1 {
            let text = "an SVG file has one pipeline, and there are several: name one";
            return Err(
                names().fold(Failure::new(FailureKind::Usage, text), |failure, name| {
                    failure.detail(name)
                }),
            );
        }
        return Ok(file.pipelines.iter().collect());
    };
    if let Some(found) = file.pipelines.iter().find(|it| it.name == *name) {
        return Ok(vec![found]);
    }
    // A pipeline that the file has, and that is left out, is no mistake of the command line.
    let is_there = file.refused.iter().any(|entry| entry.name == *name);
    let kind = match is_there {
        true => FailureKind::Failed,
        false => FailureKind::Usage,
    };
    let names: Vec<&str> = names().collect();
    let failure = super::unknown(kind, &args.config, name, &names);
    Err(refused(file, failure))
}

/// Adds the other errors of the file, about entries that are left out.
fn refused(file: &FileConfig, failure: Failure) -> Failure {
    file.refused.iter().fold(failure, |failure, entry| {
        failure.detail(format!(
            "`{}` in line {} is left out: {}",
            entry.name, entry.place.line, entry.reason
        ))
    })
}

fn draw(
    args: &PipelineShowArgs,
    outlines: &[PipelineOutline],
    style: draw::Style,
) -> Result<String, Failure> {
    let each = |draw: &dyn Fn(&PipelineOutline) -> String| -> String {
        let images: Vec<String> = outlines.iter().map(draw).collect();
        images.join("\n")
    };
    Ok(match args.format {
        Format::Text => each(&|outline| draw::text(outline, style)),
        Format::Dot => each(&draw::dot),
        Format::Mermaid => each(&draw::mermaid),
        Format::Svg => each(&draw::svg),
        Format::Html => {
            let name = args.config.file_name().unwrap_or_default();
            let title = format!("Pipelines of {}", name.to_string_lossy());
            draw::html(outlines, &title)
        }
        Format::Json => {
            let images: Vec<draw::PipelineDiagram<'_>> = outlines.iter().map(draw::json).collect();
            let text = match (&args.name, &images[..]) {
                (Some(_), [image]) => serde_json::to_string_pretty(image),
                _ => serde_json::to_string_pretty(&images),
            };
            text.map_err(io::Error::from)? + "\n"
        }
    })
}

/// Returns whether terminal or locale lack characters for drawing.
pub(crate) fn is_ascii_only() -> bool {
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

pub(crate) fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot write {}", path.display());
    let failure = Failure::new(FailureKind::Failed, text).caused_by(error);
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            failure.hint(format!("make the folder {} first", folder.display()))
        }
        _ => failure,
    }
}
