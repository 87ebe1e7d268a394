//! `ovms pipeline run`: a dry run in this process.

mod output;
mod ranking;
mod report;
mod usage;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ovms::{
    client::{ClientResponse, Request},
    config::{self, FileConfig, NodeKind, PipelineConfig},
    custom_node,
    engine::reload::ReloadError,
    error::chain,
    pipeline::{
        DecodingTrace, NodeTrace, PipelineDefinition, PipelinePlan, Trace, critical_path,
        python::is_handler, survey,
    },
    tensor::TensorMap,
};

use self::{
    ranking::{RankedResponse, ResponseRanking},
    usage::{CoreUsage, CoreWatch},
};
use super::{config_of, facts::ConfigurationFacts, refused, unknown};
use crate::{
    completions::names,
    error::{Failure, FailureKind, unless_unread},
    graph::{environment, source::add_models_of_graphs},
    infer::{self, ImageArgs, InputArgs, RankingArgs},
    local::{self, LocalBackend, percentile},
    serve::hints,
    stdout_guard::StdoutGuard,
    ui::{self, Look},
};

const AFTER_HELP: &str = "\
Inputs are given as for `ovms infer`; see `ovms infer --help`.

Times: a node waits from the moment when all its inputs are ready until it starts to run: for an \
infer request of its model, or for its turn at the custom node. Shares are of the whole request; \
branches that run in parallel can add up to more than 100 %. Times in JSON are in microseconds.

Examples:
  ovms pipeline run config.json --random
  ovms pipeline run config.json ocr -i image=@page.png
  ovms pipeline run config.json ocr --random --repeat 100
  ovms pipeline run config.json photos -i image=@cat.png --top 5
  ovms pipeline run config.json ocr -i @page.png --save-intermediate steps
  ovms pipeline run config.json ocr --zeros --output json | jq .critical_path

Exit codes: 0 done; 1 the pipeline is invalid or failed; 64 usage, or a NAME that no pipeline of the \
file has; 72 no OpenVINO runtime; 130 Ctrl-C.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineRunArgs {
    /// Configuration file, or a folder with a config.json
    config: PathBuf,

    /// Name of the pipeline, if the file has several
    #[arg(add = names::pipelines())]
    name: Option<String>,

    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    images: ImageArgs,

    /// Send the request N times and measure latencies
    ///
    /// Times are medians.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000),
        help_heading = "Run"
    )]
    repeat: u32,

    /// Number of warm-up requests, which are not measured
    ///
    /// The first request starts threads and finds out how long each model takes; 0 measures it too.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    warmup: u32,

    /// Virtual environment with the packages of Python nodes [default: the active one]
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    python_environment: Option<PathBuf>,

    #[command(flatten)]
    output: ui::OutputArgs,

    #[command(flatten)]
    ranking: RankingArgs,

    /// Output to rank, if there are several
    #[arg(long, value_name = "NAME", requires = "top", help_heading = "Output")]
    output_name: Option<String>,

    /// Show all runs of a demultiplexed level, not only the first
    #[arg(long, help_heading = "Output")]
    all: bool,

    /// Save inputs and outputs of every run as .npy files
    ///
    /// The folder is created if missing. Files are named after node, session and tensor.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    save_intermediate: Option<PathBuf>,
}

/// Runs the subcommand.
pub(super) fn run(args: PipelineRunArgs) -> Result<(), Failure> {
    let look = Look::of_stdout();
    let mut stdout = StdoutGuard::take()?;
    let ranking = args.ranking.read()?;
    if let Some(folder) = &args.save_intermediate {
        output::check_place(folder)?;
    }
    let inputs = infer::inputs(args.inputs, args.images)?;
    let packages = args.python_environment.as_deref();
    let (name, config) = read(&config_of(args.config), args.name, packages)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(custom_node::STACK_BYTES)
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let loaded = LocalPipeline::load(name, config, packages).await?;
        let shown = async {
            let metadata = loaded.metadata();
            let asked = args.output_name.as_ref();
            let ranking = ranking.map(|ranking| ResponseRanking::new(ranking, asked, &loaded));
            let ranking = ranking.transpose()?;
            if inputs.is_empty() && !metadata.inputs.is_empty() {
                ui::note(infer::explanation(&metadata, Look::of_stderr()).trim_end());
                ui::note("");
                return Err(loaded.no_inputs().hint(NO_INPUTS));
            }
            let tensors = inputs
                .tensors(&metadata)
                .map_err(|error| infer::input_failure(error, None))?;
            let images = inputs.image_files_by_input(&metadata);
            let rounds = (args.warmup, args.repeat);
            let mut measured = measure(&loaded, &tensors, &images, rounds).await;
            measured.files = inputs.image_files(&metadata);
            let ranked = ranking.as_ref().zip(measured.last.response.as_ref());
            let ranked = ranked.map(|(ranking, response)| ranking.of(response, &measured.files));
            let ranked = ranked.transpose()?.flatten();
            if let Some(note) = ranked.as_ref().and_then(RankedResponse::note) {
                ui::note(&note);
            }
            let text = match args.output.is_json() {
                true => format!("{}\n", output::as_json(&loaded, &measured, ranked.as_ref())),
                false => report::text(&loaded, &measured, ranked.as_ref(), args.all, look),
            };
            unless_unread(stdout.print(&text))?;
            if let Some(folder) = &args.save_intermediate {
                output::save_all(folder, &loaded, &tensors, &measured)?;
            }
            match &measured.error {
                Some(error) => {
                    let failure = Failure::failed("the run failed").detail(error);
                    Err(measured
                        .file
                        .iter()
                        .fold(failure, |it, file| it.detail(file)))
                }
                None => Ok(()),
            }
        }
        .await;
        loaded.close(None).await;
        shown
    });
    // A custom node that never ends is not waited for.
    runtime.shutdown_background();
    result
}

/// Next step for a request without inputs.
const NO_INPUTS: &str =
    "give each with `-i NAME=VALUE`, or fill every input with `--zeros` or `--random`";

/// Pipeline that is ready to run.
type LocalPipeline = LocalBackend<PipelineDefinition>;

/// Reads a pipeline's parts of a configuration file, and opens the runtime. Without a name it is the one of the
/// file.
fn read(
    path: &Path,
    name: Option<String>,
    packages: Option<&Path>,
) -> Result<(String, FileConfig), Failure> {
    let defaults = local::defaults();
    let mut config =
        config::read(path, &defaults).map_err(|error| hints::explain(&error, "CONFIG"))?;
    let name = name.map_or_else(|| only(path, &config), Ok)?;
    if let Some(refused) = config.refused.iter().find(|refused| refused.name == name) {
        let text = format!("{}:{}: {}", path.display(), refused.place, refused.reason);
        return Err(Failure::failed(text));
    }
    let mut pipelines = config.pipelines.iter();
    let Some(pipeline) = pipelines.find(|it| it.name == name).cloned() else {
        let known = config.pipelines.iter().map(|it| it.name.as_str());
        let known: Vec<&str> = known.collect();
        return Err(unknown(FailureKind::Usage, "pipeline", path, &name, &known));
    };
    add_models_of_graphs(&mut config, &defaults);
    check_names(&config, &pipeline, packages)?;
    keep_used(&mut config, pipeline);
    local::open_runtime()?;
    let mut libraries = config.custom_node_libraries.iter();
    if libraries.any(|library| is_handler(&library.base_path)) {
        environment(packages.map(Path::to_owned), false);
    }
    Ok((name, config))
}

/// Returns the name of the one pipeline of a file.
fn only(path: &Path, config: &FileConfig) -> Result<String, Failure> {
    let file = path.display();
    match &config.pipelines[..] {
        [only] => Ok(only.name.clone()),
        [] => {
            let text = format!("the configuration file {file} has no pipelines");
            let failure = refused(config, Failure::failed(text));
            Err(failure.hint("they are listed in pipeline_config_list"))
        }
        several => {
            let failure = Failure::usage(format!("{file} has several pipelines: name one"));
            Err(several.iter().fold(failure, |it, one| it.detail(&one.name)))
        }
    }
}

impl LocalPipeline {
    fn plan(&self) -> &PipelinePlan {
        &self.definition.plan
    }

    /// Returns the labels of the model that an output of the pipeline comes from, if there are any.
    fn labels(&self, output: &str) -> Vec<String> {
        let mut outputs = self.plan().outputs_of_models();
        let found = outputs.find(|(name, ..)| *name == output);
        let model = found.and_then(|(_, model, version)| self.model(model, version));
        let labels = model.as_ref().and_then(|model| model.labels.as_deref());
        let labels = labels.into_iter().flat_map(str::lines);
        labels.map(str::to_owned).collect()
    }
}

/// Checks what the file alone says of a pipeline. Only here are the names there that those of its nodes may be meant
/// to be.
fn check_names(
    config: &FileConfig,
    pipeline: &PipelineConfig,
    packages: Option<&Path>,
) -> Result<(), Failure> {
    let mut facts = ConfigurationFacts::new(config);
    (facts.reads_models, facts.runs_custom_nodes) = (false, false);
    let errors = Box::new(survey(pipeline, &facts));
    if errors.errors.is_empty() {
        return Ok(());
    }
    let name = pipeline.name.clone();
    let error = ReloadError::Pipeline { name, errors };
    let errors = [error];
    Err(local::refused(
        "pipeline",
        &pipeline.name,
        &errors,
        packages,
    ))
}

/// Removes all entries from a file that a pipeline does not use.
fn keep_used(config: &mut FileConfig, pipeline: PipelineConfig) {
    let (mut models, mut libraries) = (Vec::new(), Vec::new());
    for node in &pipeline.nodes {
        match &node.kind {
            NodeKind::Model { model_name, .. } => models.push(model_name.as_str()),
            NodeKind::Custom { library_name, .. } => libraries.push(library_name.as_str()),
        }
    }
    let known = &mut config.custom_node_libraries;
    known.retain(|library| libraries.contains(&&*library.name));
    config.models.retain(|entry| models.contains(&entry.name()));
    config.graphs.clear();
    config.refused.clear();
    config.warnings.clear();
    config.pipelines = vec![pipeline];
}

/// Results of the measurement.
struct Measured {
    /// Duration of each request.
    totals: Vec<Duration>,
    /// Times of each node, by its index in the plan.
    nodes: Vec<NodeTimes>,
    /// Times of the decoding of images, if the request has any.
    decoded: Vec<Duration>,
    /// Last request.
    last: Last,
    /// Error of the last request, if it failed.
    error: Option<String>,
    /// Place and file of the image that the error is about.
    file: Option<String>,
    /// Files of the images of the request, in the order of its batch.
    files: Vec<String>,
}

impl Measured {
    /// Returns the duration that some percent of the requests did not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.totals, percent)
    }
}

/// Times of one node in each request.
#[derive(Debug, Clone, Default)]
struct NodeTimes {
    /// Total time of its runs.
    ran: Vec<Duration>,
    /// Total time of its waits.
    waited: Vec<Duration>,
}

/// Trace of one request.
struct Last {
    took: Duration,
    /// Runs, in the order of their ends.
    runs: Vec<NodeTrace>,
    /// Indices in `runs` of the critical path.
    path: Vec<usize>,
    /// Decoding of its images, which all runs wait for.
    decoding: Option<DecodingTrace>,
    /// Cores that this process kept busy meanwhile, unless it failed in an earlier round.
    usage: Option<CoreUsage>,
    /// Response, unless it failed.
    response: Option<ClientResponse>,
}

impl Last {
    /// Returns the outputs; none if it failed.
    fn outputs(&self) -> &TensorMap {
        static NONE: TensorMap = TensorMap::new();
        self.response.as_ref().map_or(&NONE, |it| &it.outputs)
    }
}

/// Runs a pipeline a number of times in sequence, or until it fails; the first runs are not measured. `images` has the
/// files of the images of each input.
async fn measure(
    loaded: &LocalPipeline,
    tensors: &TensorMap,
    images: &[(String, Vec<String>)],
    (warmup, repeat): (u32, u32),
) -> Measured {
    let request = Request {
        inputs: tensors.clone(),
        ..Request::default()
    };
    let trace = Arc::new(Trace::default());
    let mut totals = Vec::new();
    let mut nodes = vec![NodeTimes::default(); loaded.plan().nodes.len()];
    let mut decoded = Vec::new();
    let mut last = None;
    let (mut error, mut file) = (None, None);
    let rounds = warmup.saturating_add(repeat);
    for round in 0..rounds {
        // Only the last one is shown with its waits.
        let watch = (round + 1 == rounds).then(CoreWatch::begin);
        let begun = Instant::now();
        let answer = loaded.infer(&request, &trace).await;
        let took = begun.elapsed();
        let usage = watch.map(CoreWatch::end);
        let (runs, decoding) = (trace.take(), trace.take_decoding());
        let failed = answer.as_ref().err();
        file = failed.and_then(|error| infer::image_named(error.message(), images));
        error = failed.map(reported);
        if round < warmup && error.is_none() {
            continue;
        }
        totals.push(took);
        for (id, times) in nodes.iter_mut().enumerate() {
            let own = || runs.iter().filter(|run| run.node == id);
            times.ran.push(own().map(NodeTrace::took).sum());
            times.waited.push(own().map(NodeTrace::waited).sum());
        }
        decoded.extend(decoding.as_ref().map(DecodingTrace::took));
        last = Some(Last {
            took,
            path: Vec::new(),
            decoding,
            usage,
            runs,
            response: answer.ok(),
        });
        if error.is_some() {
            break;
        }
    }
    let mut last = last.expect("it ran at least once");
    last.path = critical_path(loaded.plan(), &last.runs);
    Measured {
        totals,
        nodes,
        decoded,
        last,
        error,
        file,
        files: Vec::new(),
    }
}

/// Writes an error with its cause, unless it says that already.
fn reported(error: &ovms::error::Error) -> String {
    let Some(cause) = std::error::Error::source(error) else {
        return chain(error);
    };
    let mut deepest = cause;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    let text = chain(cause);
    // Most causes say the same, and more.
    if text.starts_with(error.message()) {
        text
    } else if error.message().contains(&deepest.to_string()) {
        error.message().to_owned()
    } else {
        chain(error)
    }
}
