//! `ovms pipeline show`: images of the pipelines of a configuration file, valid or not.

use std::path::PathBuf;

use ovms::{
    config::{self, Defaults, FileConfig, PipelineConfig},
    draw::Diagram,
    pipeline,
};

use super::{config_of, facts::ConfigurationFacts, missing, refused};
use crate::{
    completions::names, diagrams::DiagramArgs, error::Failure, graph::source::add_models_of_graphs,
    serve::hints, stdout_guard::StdoutGuard,
};

const AFTER_HELP: &str = "\
A box is a node, with the model or custom node that it runs. An arrow is labelled with the output \
of the node above, the input that takes it, and the type and shape of one tensor. A dashed frame is \
what runs for each part of a demultiplexer: × 4 for four parts, × N for any number. Types and shapes \
are shown where models and libraries can be read. Invalid pipelines are drawn as well: a box stands \
for each missing node, model, or library.

Formats:
  text      for a terminal: as wide as that, 80 columns at most
  dot       for Graphviz, as in
            ovms pipeline show config.json --output dot | dot -Tpdf > a.pdf
  mermaid   a flow chart for Markdown
  svg       an image, light or dark to match its viewer
  html      a self-contained page with images and tables
  json      name, inputs, outputs, nodes, edges, levels and dangling (edges
            without a source); a dimension is a number, -1 for any, or
            [min, max]; `missing` says why the model or library of a node
            cannot be read; a list without NAME

Examples:
  ovms pipeline show config.json
  ovms pipeline show config.json ocr
  ovms pipeline show config.json --output html -o dag.html
  ovms pipeline show config.json ocr --output json | jq '.edges[].shape'

Exit codes: 0 done; 1 the file does not exist, or has no pipeline to draw; 64 usage, or a NAME that \
no pipeline of the file has.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineShowArgs {
    /// Configuration file, or a folder with a config.json
    config: PathBuf,

    /// Name of the pipeline [default: all in the file]
    #[arg(add = names::pipelines())]
    name: Option<String>,

    #[command(flatten)]
    output: DiagramArgs,

    /// Do not open the libraries of custom nodes
    ///
    /// Their types and shapes are not shown.
    #[arg(long)]
    no_custom_nodes: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: PipelineShowArgs) -> Result<(), Failure> {
    let args = PipelineShowArgs {
        config: config_of(args.config),
        ..args
    };
    let defaults = Defaults::default();
    let mut file =
        config::read(&args.config, &defaults).map_err(|error| hints::explain(&error, "CONFIG"))?;
    add_models_of_graphs(&mut file, &defaults);
    let pipelines = chosen(&file, &args)?;
    let style = args.output.style();
    // Libraries may write to stdout.
    let mut stdout = StdoutGuard::take()?;
    let mut sources = ConfigurationFacts::new(&file);
    sources.runs_custom_nodes = !args.no_custom_nodes;
    let diagrams = pipelines.into_iter();
    let diagrams = diagrams.map(|config| pipeline::diagram(config, &sources));
    let diagrams: Vec<Diagram> = diagrams.collect();
    let name = args.config.file_name().unwrap_or_default();
    let title = format!("Pipelines of {}", name.to_string_lossy());
    let is_list = args.name.is_none();
    let print = |text: String| stdout.print(&text);
    args.output.write(&diagrams, &title, is_list, style, print)
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
            let failure = refused(file, Failure::failed(text));
            return Err(failure.hint("they are listed in pipeline_config_list"));
        }
        args.output.validate("pipeline", names())?;
        return Ok(file.pipelines.iter().collect());
    };
    if let Some(found) = file.pipelines.iter().find(|it| it.name == *name) {
        args.output
            .validate("pipeline", [name.as_str()].into_iter())?;
        return Ok(vec![found]);
    }
    let names: Vec<&str> = names().collect();
    Err(missing("pipeline", &args.config, file, name, &names))
}
