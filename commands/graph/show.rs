//! `ovms graph show`: images of graphs, valid or not.

use std::path::PathBuf;

use ovms::{
    config::{Defaults, GraphConfig},
    draw::Diagram,
    graph::{self, GraphSpec},
};

use super::source;
use crate::{
    completions::names,
    diagrams::{DiagramArgs, Format},
    error::Failure,
    ui,
};

const AFTER_HELP: &str = "\
A box is a node, with its calculator and what that runs: a handler file, or a model. An arrow is \
labelled with the stream of the node above, the tag that takes it, and what it carries. Side packets \
are dashed where the format allows. A back edge is named in the box of the node that it wakes, or \
comes from a box of its own. Invalid graphs are drawn as well: a box stands for streams that no node \
sends.

Formats:
  text      for a terminal: as wide as that, 80 columns at most
  dot       for Graphviz, as in
            ovms graph show my_graph --output dot | dot -Tpdf > graph.pdf
  mermaid   a flow chart for Markdown
  svg       an image, light or dark to match its viewer
  html      a self-contained page with images and tables
  json      name, inputs, outputs, nodes, edges (kind is stream, back_edge or
            side_packet) and dangling (edges without a source); a list for a
            configuration file without NAME

Examples:
  ovms graph show my_graph
  ovms graph show config.json
  ovms graph show config.json my_graph --output svg -o graph.svg

Exit codes: 0 done; 1 the file does not exist, or has no graph to draw; 64 usage, or a NAME that no \
graph of the file has.";

/// Maximum number of drawn nodes: layout time grows faster than the number of nodes, and larger
/// images are of no use.
const MAX_DRAWN: usize = 2000;

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphShowArgs {
    /// Graph file, configuration file (.json), or a folder with one
    ///
    /// In a folder, that is graph.pbtxt or config.json.
    path: PathBuf,

    /// Name of the graph [default: all in the configuration file]
    #[arg(add = names::graphs())]
    name: Option<String>,

    #[command(flatten)]
    output: DiagramArgs,
}

/// Runs the subcommand.
pub(super) fn run(args: GraphShowArgs) -> Result<(), Failure> {
    let mut found = source::find(&args.path, args.name.as_deref(), &Defaults::default())?;
    let is_list = found.file.is_some() && args.name.is_none();
    // For the name that other commands and the server have for it.
    // A drawing needs none.
    let _ = found.take_adjacent_config(&Defaults::default());
    let names = found.graphs.iter().map(|graph| graph.name.as_str());
    args.output.validate("graph", names)?;
    let mut diagrams = Vec::new();
    for graph in &found.graphs {
        match diagram(graph) {
            Ok(diagram) => diagrams.push(diagram),
            Err(failure) if found.graphs.len() == 1 => return Err(failure),
            Err(failure) => ui::warn(failure.text().trim_end()),
        }
    }
    if diagrams.is_empty() {
        return Err(Failure::failed("no graph of the file can be drawn"));
    }
    let format = args.output.format();
    let is_drawn = matches!(format, Format::Text | Format::Svg | Format::Html);
    let large = diagrams.iter().find(|it| it.inner().len() > MAX_DRAWN);
    if let (true, Some(large)) = (is_drawn, large) {
        let (name, number) = (&large.name, large.inner().len());
        let text =
            format!("the graph `{name}` has {number} nodes, and at most {MAX_DRAWN} are drawn");
        let hint = "`--output dot`, mermaid and json have graphs of any size";
        return Err(Failure::failed(text).hint(hint));
    }
    let name = args.path.file_name().unwrap_or(args.path.as_os_str());
    let title = format!("Graphs of {}", name.to_string_lossy());
    let style = args.output.style();
    args.output
        .write(&diagrams, &title, is_list, style, ui::print)
}

fn diagram(config: &GraphConfig) -> Result<Diagram, Failure> {
    let (name, spec) = (&config.name, spec(config)?);
    let is_there = |handler: &str| config.base_path.join(handler).is_file();
    Ok(graph::diagram(name, &spec, &is_there))
}

/// Reads the file of a graph, whatever the errors in its nodes and streams.
pub(super) fn spec(config: &GraphConfig) -> Result<GraphSpec, Failure> {
    let path = config.graph_path.display().to_string();
    let text = graph::read_graph(&config.graph_path)
        .map_err(|error| Failure::failed(format!("cannot read {path}")).caused_by(&error))?;
    GraphSpec::read(&text, &path).map_err(|errors| {
        let name = &config.name;
        let text = format!("cannot draw the graph `{name}`: its file cannot be read");
        let errors = errors.errors.iter().map(ToString::to_string);
        errors.fold(Failure::failed(text), Failure::detail)
    })
}
