//! `ovms graph new`: a graph with Python nodes that works as it is written.

mod entry;
mod output;
mod servable;

use std::path::{Path, PathBuf};

use ovms::{
    python,
    scaffold::{Scaffold, ScaffoldError, ScaffoldKind, ScaffoldStream, flags, handler_file},
};

use self::output::{Chosen, FormatOrStream};
use crate::{
    completions::names,
    error::Failure,
    pipeline::new::{named, typed},
    places,
    ui::{self, OutputFormat},
    written_files,
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
Streams are written like inputs of requests: NAME, NAME:DTYPE or NAME:DTYPE:SHAPE, with -1 for any \
length. Handlers reject inputs of another type or shape.

Examples:
  ovms graph new echo
  ovms graph new labels -i image:UINT8:-1,-1,3 --output-name label:BYTES
  ovms graph new writer --generative -i prompt:BYTES --output-name token:BYTES
  ovms graph new text --nodes tokenize,count --config config.json
  ovms graph new faces --model models/detector

Exit codes: 0 done; 1 a file exists or cannot be written; 64 usage; 72 no OpenVINO runtime to read \
a model with.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphNewArgs {
    /// Name of the graph
    name: String,

    /// Make the last Python node a generator
    ///
    /// It sends any number of responses to each request of a stream.
    #[arg(long, conflicts_with = "model")]
    generative: bool,

    /// Create these Python nodes, one after the other
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "model"
    )]
    nodes: Vec<String>,

    /// Put a model between two Python nodes: name, file, or folder
    ///
    /// A name is one of the configuration file. A model file, or a folder with a model or its versions,
    /// becomes an entry of that file. Inputs, outputs, and their types default to the model's.
    #[arg(long, value_name = "SERVABLE", conflicts_with = "nodes", add = names::models())]
    model: Option<String>,

    /// Input of the graph, with type and shape if known
    ///
    /// Can be repeated.
    #[arg(short, long = "input", value_name = "NAME[:DTYPE[:SHAPE]]")]
    inputs: Vec<ScaffoldStream>,

    /// Output of the graph, with type and shape if known
    ///
    /// Can be repeated.
    #[arg(long = "output-name", value_name = "NAME[:DTYPE[:SHAPE]]")]
    outputs: Vec<ScaffoldStream>,

    /// Folder to write to [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Configuration file to add the graph to [default: a new one in its folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Output format
    #[arg(
        long,
        alias = "format",
        value_parser = FormatOrStream,
        default_value = "table",
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    output: Vec<Chosen>,
}

/// Runs the subcommand.
pub(super) fn run(args: GraphNewArgs) -> Result<(), Failure> {
    named(&args.name, "graph")?;
    let folder = args.dir.unwrap_or_else(|| PathBuf::from(&args.name));
    let config = args.config.clone();
    let config = config.unwrap_or_else(|| folder.join("config.json"));
    let (entry, kind, ports) = match &args.model {
        None => (None, ScaffoldKind::Chain(args.nodes), None),
        Some(model) => {
            let (servable, entry) = servable::find(model, &config)?;
            let ports = servable.ports.clone();
            if let Some(ports) = &ports {
                servable::refuse_strings(&servable.name, ports)?;
            }
            (entry, ScaffoldKind::Model(servable), ports)
        }
    };
    let (format, streams) = output::parted(args.output);
    for stream in &streams {
        let text = output::meant(&stream.name);
        ui::note(&text);
    }
    let outputs = args.outputs.into_iter().chain(streams).collect();
    let (inputs, outputs) = ends(args.inputs, outputs, ports.as_ref());
    let scaffold = Scaffold {
        name: args.name,
        kind,
        inputs,
        outputs,
        generative: args.generative,
        config: match &args.config {
            None => "config.json".to_owned(),
            Some(file) => typed(&places::resolved(file)?),
        },
    };
    let refused = |error: ScaffoldError| Failure::usage(error.to_string());
    let files = scaffold.files().map_err(refused)?;
    let blanks = scaffold.blanks().map_err(refused)?;
    let zeros = scaffold.zeros().map_err(refused)?;
    let unlike = scaffold.unlike().map_err(refused)?;
    let stub = ("pyovms.pyi".to_owned(), python::STUB.to_owned());
    let files = files.into_iter().chain([stub]);
    let files = files.map(|(name, text)| (folder.join(name), text));
    let mut files: Vec<(PathBuf, String)> = files.collect();
    let replaced = match args.config {
        None => written_files::refuse_existing(&config, args.force).map(|()| None)?,
        Some(file) => {
            let content = written_files::read_if_there(&file);
            content.map_err(|error| Failure::cannot("read", &file, &error))?
        }
    };
    for (path, _) in &files {
        written_files::refuse_existing(path, args.force)?;
    }
    let content = replaced.as_deref();
    let text = entry::added(content, &config, entry, &scaffold.name, &folder)?;
    files.push((config.clone(), text));
    let replaces = |path: &Path| args.force || (path == config && replaced.is_some());
    written_files::write_into(&folder, &files, replaces)?;
    for blank in blanks {
        let place = folder.join(handler_file("preprocess"));
        ui::note(&format!(
            "note: no input of the graph matches `{blank}` of the model, which gets zeros; compute it in {}",
            place.display()
        ));
    }
    for (output, file) in zeros {
        ui::note(&format!(
            "note: no input of its node matches `{output}`, which is zeros; compute it in {}",
            folder.join(file).display()
        ));
    }
    for (output, port) in unlike {
        let place = folder.join(handler_file("postprocess"));
        ui::note(&format!(
            "note: no output of the model matches `{output}`, for which clients get its `{port}`; compute it in {}",
            place.display()
        ));
    }
    show(&scaffold, &folder, &config, &files, format)
}

/// Returns inputs and outputs: the given ones, else the model's, else one of each.
fn ends(
    inputs: Vec<ScaffoldStream>,
    outputs: Vec<ScaffoldStream>,
    ports: Option<&(Vec<ScaffoldStream>, Vec<ScaffoldStream>)>,
) -> (Vec<ScaffoldStream>, Vec<ScaffoldStream>) {
    let like = |ports: &[ScaffoldStream], taken: &[ScaffoldStream]| {
        let mut streams = taken.to_vec();
        for port in ports {
            streams.push(ScaffoldStream::like(port, &streams));
        }
        streams.split_off(taken.len())
    };
    let typed = |streams: Vec<ScaffoldStream>, ports: &[ScaffoldStream]| {
        let streams = streams.into_iter().enumerate();
        let typed = streams.map(|(place, stream)| stream.typed_as(place, ports));
        typed.collect()
    };
    let inputs = match ports {
        Some((ports, _)) if !inputs.is_empty() => typed(inputs, ports),
        None if !inputs.is_empty() => inputs,
        Some((ports, _)) => like(ports, &outputs),
        None => like(&[ScaffoldStream::untyped("input")], &outputs),
    };
    let outputs = match (ports, &inputs[..]) {
        (Some((_, ports)), _) if !outputs.is_empty() => typed(outputs, ports),
        (None, _) if !outputs.is_empty() => outputs,
        (Some((_, ports)), _) => like(ports, &inputs),
        (None, [only]) => like(&[only.named("output".to_owned())], &inputs),
        // Each input has its own.
        (None, all) => {
            let ports = all
                .iter()
                .map(|input| input.named(format!("{}_out", input.name)));
            like(&ports.collect::<Vec<_>>(), &inputs)
        }
    };
    (inputs, outputs)
}

/// Reports the written files and the next steps.
fn show(
    of: &Scaffold,
    folder: &Path,
    config: &Path,
    files: &[(PathBuf, String)],
    format: OutputFormat,
) -> Result<(), Failure> {
    let (name, flags, config) = (&of.name, flags(&of.inputs), typed(config));
    let graph = match of.kind {
        ScaffoldKind::Chain(_) => typed(folder),
        ScaffoldKind::Model(_) => format!("{config} {name}"),
    };
    let stream = if of.generative { " --stream" } else { "" };
    let files: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    let next = [
        format!("ovms graph check {graph}"),
        format!("ovms graph run {graph} {flags}"),
        format!("ovms serve --config-path {config} --port 9000"),
        format!("ovms infer {name}{stream} {flags}"),
    ];
    written_files::report(&files, &next, format)
}
