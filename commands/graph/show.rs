//! `ovms graph show`: images of graphs, valid or not.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ovms::{
    config::{Defaults, GraphConfig},
    draw::{self, graphs},
    graph::{GraphOutline, calculators},
};

use super::source;
use crate::{
    error::{Failure, FailureKind},
    pipeline::show::{Format, is_ascii_only, unwritten},
    ui::{self, Look},
};

const AFTER_HELP: &str = "\
A box is a node, with its calculator and what that runs: a handler file, or a model. What stands \
beside an arrow is a stream of the node above, the tag by which it is taken, and what it carries. \
Side packets are dashed where there are lines for that. A stream that goes back is named in the \
box of the node that wakes itself with it, or comes from a box that says so. A graph is drawn \
also if it cannot be served: what nobody sends has a box that says so.

Formats:
  text      for a terminal: as wide as that, 80 columns at most
  dot       for Graphviz, as in
            ovms graph show my_graph --format dot | dot -Tpdf > graph.pdf
  mermaid   a flow chart for Markdown
  svg       an image, light or dark as what shows it
  html      a page with images and tables, in one file that loads nothing
  json      name, inputs, outputs, nodes, edges (kind is stream, back_edge or
            side_packet) and dangling (edges that nobody sends on); a list for
            a configuration file without NAME

Examples:
  ovms graph show my_graph
  ovms graph show config.json
  ovms graph show config.json my_graph --format svg -o graph.svg

Exit codes: 0 done; 1 no such file, or no graph to draw in it; 64 usage, also a NAME that no \
graph of the file has.";

/// Maximum number of drawn nodes: layout time grows faster than the number of nodes, and larger
/// images are of no use.
const MAX_DRAWN: usize = 2000;

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphShowArgs {
    /// Folder with a graph.pbtxt, a graph file, or a configuration file (.json)
    path: PathBuf,

    /// Name of a graph of the configuration file; all of them without it
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

    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
}

/// Runs the subcommand.
pub(super) fn run(args: GraphShowArgs) -> Result<(), Failure> {
    let found = source::find(&args.path, args.name.as_deref(), &Defaults::default())?;
    if args.format == Format::Svg && found.graphs.len() > 1 {
        let text = "an SVG file has one graph, and there are several: name one";
        let failure = Failure::new(FailureKind::Usage, text);
        let graphs = found.graphs.iter();
        return Err(graphs.fold(failure, |failure, graph| failure.detail(&graph.name)));
    }
    let mut outlines = Vec::new();
    let mut unread = None;
    for graph in &found.graphs {
        match outline(graph) {
            Ok(outline) => outlines.push(outline),
            Err(failure) if found.graphs.len() == 1 => return Err(failure),
            Err(failure) => {
                ui::warn(failure.text().trim_end());
                unread = Some(failure);
            }
        }
    }
    if let (true, Some(_)) = (outlines.is_empty(), unread) {
        let text = "no graph of the file can be drawn";
        return Err(Failure::new(FailureKind::Failed, text));
    }
    let is_drawn = matches!(args.format, Format::Text | Format::Svg | Format::Html);
    let large = outlines.iter().find(|it| it.nodes.len() > MAX_DRAWN);
    if let (true, Some(large)) = (is_drawn, large) {
        let text = format!(
            "the graph `{}` has {} nodes, and at most {MAX_DRAWN} are drawn",
            large.name,
            large.nodes.len()
        );
        return Err(Failure::new(FailureKind::Failed, text)
            .hint("`--format dot`, mermaid and json have graphs of any size"));
    }
    let is_list = found.file.is_some() && args.name.is_none();
    let out = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let style = draw::Style {
        width: match out {
            None => ui::image_columns(),
            Some(_) => draw::WIDTH,
        },
        ascii: args.ascii || (out.is_none() && is_ascii_only()),
        colour: out.is_none() && Look::of_stdout() == Look::Boxed,
    };
    let text = draw(&args, &outlines, style, is_list)?;
    match out {
        None => ui::print(text),
        Some(path) => fs::write(path, text).map_err(|error| unwritten(path, &error)),
    }
}

/// Reads the outline of a graph.
pub(super) fn outline(graph: &GraphConfig) -> Result<GraphOutline, Failure> {
    let path = graph.graph_path.display().to_string();
    let text = source::read(graph).map_err(|error| {
        Failure::new(FailureKind::Failed, format!("cannot read {path}")).caused_by(&error)
    })?;
    let is_there = |handler: &str| graph.base_path.join(handler).is_file();
    GraphOutline::read(&graph.name, &text, &path, calculators::all(), &is_there).map_err(|errors| {
        let failure = Failure::new(
            FailureKind::Failed,
            format!(
                "cannot draw the graph `{}`: its file cannot be read",
                graph.name
            ),
        );
        let errors = errors.errors.iter();
        errors.fold(failure, |failure, error| failure.detail(error.to_string()))
    })
}

fn draw(
    args: &GraphShowArgs,
    outlines: &[GraphOutline],
    style: draw::Style,
    is_list: bool,
) -> Result<String, Failure> {
    let each = |draw: &dyn Fn(&GraphOutline) -> String| -> String {
        let images: Vec<String> = outlines.iter().map(draw).collect();
        images.join("\n")
    };
    Ok(match args.format {
        Format::Text => each(&|outline| graphs::text(outline, style)),
        Format::Dot => each(&graphs::dot),
        Format::Mermaid => each(&graphs::mermaid),
        Format::Svg => each(&graphs::svg),
        Format::Html => {
            let name = args.path.file_name().unwrap_or(args.path.as_os_str());
            graphs::html(outlines, &format!("Graphs of {}", name.to_string_lossy()))
        }
        Format::Json => {
            let images: Vec<graphs::GraphDiagram<'_>> = outlines.iter().map(graphs::json).collect();
            let text = match &images[..] {
                [image] if !is_list => serde_json::to_string_pretty(image),
                _ => serde_json::to_string_pretty(&images),
            };
            text.map_err(io::Error::from)? + "\n"
        }
    })
}
