//! `ovms pipeline new`: a configuration file with a pipeline of existing models, or the skeleton
//! of a custom node.

mod custom_node;
mod detection;
pub(crate) mod models;
pub(crate) mod wiring;

use std::path::{Path, PathBuf};

use clap::ArgGroup;
use ovms::{
    config::{self, Defaults},
    pipeline::survey,
};

use self::{
    custom_node::Skeleton,
    detection::DetectionArgs,
    wiring::{PipelineText, WiredModel, Wiring},
};
use super::facts::ConfigurationFacts;
use crate::{
    error::Failure,
    local,
    stdout_guard::StdoutGuard,
    ui::{self, shell_word, visible},
    written_files,
};

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    group(ArgGroup::new("skeleton").args(["custom_node", "python_node"])),
    after_long_help = AFTER_HELP
)]
pub(crate) struct PipelineNewArgs {
    #[command(subcommand)]
    kind: Option<Kind>,

    /// Create a working custom node in C++
    ///
    /// In the folder DIR, or else NAME.
    #[arg(long, num_args = 1..=2, value_names = ["NAME", "DIR"])]
    custom_node: Vec<String>,

    /// Create a working custom node in Python
    ///
    /// In the folder DIR, or else NAME.
    #[arg(long, num_args = 1..=2, value_names = ["NAME", "DIR"])]
    python_node: Vec<String>,

    /// Overwrite existing files
    #[arg(long, requires = "skeleton")]
    force: bool,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Text at the end of the help.
const AFTER_HELP: &str = "\
Examples:
  ovms pipeline new chain both models/first models/second -o config.json
  ovms pipeline new demultiplexer batches models/dummy -o config.json
  ovms pipeline new detection signs models/detector models/classifier
  ovms pipeline new --custom-node crop nodes/crop
  ovms pipeline new --python-node scale nodes/scale

Exit codes: 0 done; 1 a file exists or cannot be written, or the models do not fit together; 64 \
usage; 72 no OpenVINO runtime to read the models with.";

/// Text at the end of the help of chains.
const OF_CHAINS: &str = "\
Examples:
  ovms pipeline new chain both models/first models/second -o config.json
  ovms pipeline new chain both models/first models/second > config.json

Exit codes: 0 done; 1 a file exists or cannot be written, or the models do not fit together; 64 \
usage; 72 no OpenVINO runtime to read the models with.";

/// Text at the end of the help of demultiplexers.
const OF_DEMULTIPLEXERS: &str = "\
Examples:
  ovms pipeline new demultiplexer batches models/dummy -o config.json
  ovms pipeline new demultiplexer parts models/cutter models/reader \\
      -o config.json

Exit codes: 0 done; 1 a file exists or cannot be written, or the models do not fit together; 64 \
usage; 72 no OpenVINO runtime to read the models with.";

/// Kinds of pipelines.
#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// Connect models one after the other
    ///
    /// Outputs and inputs are connected by name, type and shape. Inputs that the previous model does
    /// not feed become inputs of the pipeline.
    #[command(after_long_help = OF_CHAINS)]
    Chain(Of),
    /// Run models for each part of a tensor
    ///
    /// With one model, requests have an extra leading dimension, and the model runs for each part.
    /// With several, the output of the first is split along its first dimension, and the others run
    /// for each part, up to one that takes all parts at once.
    #[command(after_long_help = OF_DEMULTIPLEXERS)]
    Demultiplexer(Of),
    /// Crop what a detector finds, and run a model for each crop
    ///
    /// Creates a folder with the pipeline, a Python node that reads the detector's output and cuts out
    /// the crops, and a test of that node. The response has the boxes, and the model's result for each.
    Detection(DetectionArgs),
}

/// Arguments of each kind of pipeline.
#[derive(Debug, clap::Args)]
struct Of {
    /// Name of the pipeline
    name: String,

    /// Folders of the models, each with a folder per version
    #[arg(required = true, value_name = "MODEL_DIR")]
    models: Vec<PathBuf>,

    /// Write to this file; - is standard output
    #[arg(short, long = "save", aliases = ["out", "file"], value_name = "FILE")]
    out: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    output: ui::OutputArgs,
}

impl Of {
    /// Returns the output file, unless that is standard output.
    fn out(&self) -> Option<&Path> {
        self.out.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Runs the subcommand.
pub(super) fn run(args: PipelineNewArgs) -> Result<(), Failure> {
    match args.kind {
        Some(Kind::Chain(of)) => return pipeline("chain", &of, wiring::chain),
        Some(Kind::Demultiplexer(of)) => {
            return pipeline("demultiplexer", &of, wiring::demultiplexer);
        }
        Some(Kind::Detection(args)) => return detection::run(&args),
        None => {}
    }
    let skeleton = |name: &str, folder: &[String]| {
        let folder = folder.first().map(Path::new);
        Skeleton::new(name, folder, args.force, args.output.output())
    };
    match (&args.custom_node[..], &args.python_node[..]) {
        ([name, folder @ ..], _) => skeleton(name, folder)?.cpp(),
        (_, [name, folder @ ..]) => skeleton(name, folder)?.python(),
        ([], []) => Err(Failure::usage(
            "nothing to create: expected chain, demultiplexer, detection, --custom-node or --python-node",
        )),
    }
}

/// Writes the configuration file of a pipeline.
fn pipeline(
    kind: &str,
    of: &Of,
    weave: impl FnOnce(&[&WiredModel]) -> Result<Wiring, Failure>,
) -> Result<(), Failure> {
    if of.output.is_json() && of.out.is_none() {
        let text = "`--output json` lists what was written, and without a file nothing is";
        return Err(Failure::usage(text).hint("name the file with `-o FILE`"));
    }
    let mut stdout = StdoutGuard::take()?;
    if of.name.is_empty() {
        return Err(Failure::usage("the pipeline needs a name"));
    }
    if let Some(file) = of.out() {
        written_files::refuse_existing(file, of.force)?;
    }
    local::open_runtime()?;
    let (models, steps) = models::look(&of.models, of.out())?;
    if models.iter().any(|model| model.name == of.name) {
        let text = format!(
            "the pipeline cannot be called `{}`: a model has that name",
            of.name
        );
        return Err(Failure::usage(text).hint("choose another name"));
    }
    let steps: Vec<&WiredModel> = steps.iter().map(|step| &models[*step]).collect();
    let wiring = weave(&steps)?;
    let file = of.out().unwrap_or(Path::new("config.json"));
    let text = PipelineText {
        name: &of.name,
        kind,
        file: &file.display().to_string(),
        models: &models,
        wiring: &wiring,
    };
    let text = text.to_string() + "\n";
    validate(&text, file, true)?;
    match of.out() {
        None => stdout.print(&text),
        Some(file) => {
            written_files::write(file, &text, of.force)?;
            if of.output.is_json() {
                let next = [format!("ovms pipeline check {}", typed(file))];
                return stdout.print(&written_files::reported_json(&[file], &next));
            }
            ui::note(&format!("wrote {}", file.display()));
            Ok(())
        }
    }
}

/// Checks the text of the new file, as a server will; without handlers that are not written yet, if they do not run.
fn validate(text: &str, file: &Path, runs_custom_nodes: bool) -> Result<(), Failure> {
    let refused = || Failure::failed("such a pipeline could not be served");
    let parsed = config::parse(text.as_bytes(), file, &Defaults::default());
    let parsed = parsed.map_err(|error| refused().caused_by(&error))?;
    let mut facts = ConfigurationFacts::new(&parsed);
    facts.runs_custom_nodes = runs_custom_nodes;
    for pipeline in &parsed.pipelines {
        let found = survey(pipeline, &facts);
        if !found.errors.is_empty() {
            let errors = found.errors.iter().map(ToString::to_string);
            return Err(errors.fold(refused(), Failure::detail));
        }
        for warning in found.warnings {
            ui::warn(&format!("warning: {}", warning.message));
        }
    }
    Ok(())
}

/// Writes a path for a shell.
pub(crate) fn typed(path: &Path) -> String {
    shell_word(&visible(&path.to_string_lossy()))
}

/// Returns the commands that run the tests of a handler in a folder: the module of handlers comes first.
fn handler_tests(folder: &Path) -> [String; 2] {
    [
        "ovms graph stubs".to_owned(),
        format!("python3 -m unittest discover {}", typed(folder)),
    ]
}

/// Rejects names that are not valid for files and libraries on all systems.
pub(crate) fn named(name: &str, of: &str) -> Result<(), Failure> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(good) {
        let text = format!("`{}` cannot be the name of a {of}", name.escape_debug());
        return Err(Failure::usage(text)
            .hint("it becomes a file name: letters, digits, `_` and `-`, starting with a letter"));
    }
    Ok(())
}
