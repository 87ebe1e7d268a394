//! `ovms pipeline run`: a dry run in this process.

mod json;
mod load;
mod measure;
mod report;
mod save;

use std::{path::PathBuf, time::Duration};

use ovms::client::ModelMetadata;

use super::aside::Aside;
use crate::{
    completions::names,
    error::Failure,
    infer::{self, ImageArgs, InputArgs},
    ui::{self, Look},
};

const AFTER_HELP: &str = "\
Inputs are given as `ovms infer` takes them; see `ovms infer --help`.

Times: a node waits from the moment when all its inputs are there until it begins to run: for an \
infer request of its model, or for its turn at the custom node. Shares are of the whole request; \
branches that run beside each other may add up to more than 100 %. JSON has them in microseconds.

Examples:
  ovms pipeline run config.json ocr -i image=@page.png
  ovms pipeline run config.json ocr --random --repeat 100
  ovms pipeline run config.json ocr -i @page.png --save-intermediate steps
  ovms pipeline run config.json ocr --zeros --output json | jq .critical_path

Exit codes: 0 done; 1 the pipeline is refused or failed; 64 usage, also a NAME that no pipeline \
of the file has; 72 no OpenVINO runtime; 130 Ctrl-C.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct PipelineRunArgs {
    /// Configuration file
    config: PathBuf,

    /// Name of the pipeline
    #[arg(add = names::pipelines())]
    name: String,

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
    /// The first request starts threads and finds out how long each model takes; 0 shows it.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    warmup: u32,

    #[command(flatten)]
    output: ui::OutputArgs,

    /// Show the runs for every part of a demultiplexed level, not only the first few
    #[arg(long, help_heading = "Output")]
    all: bool,

    /// Save the inputs and outputs of every run as .npy files in this folder
    ///
    /// The folder is made if it is missing. A file is named after node, session and tensor.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    save_intermediate: Option<PathBuf>,
}

/// Time limit for custom nodes to finish.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Runs the subcommand.
pub(super) fn run(args: PipelineRunArgs) -> Result<(), Failure> {
    let look = Look::of_stdout();
    let mut stdout = Aside::take()?;
    let inputs = infer::inputs(args.inputs, args.images)?;
    let config = load::read(&args.config, &args.name)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let loaded = load::load(&args.name, config).await?;
        let metadata = loaded.metadata();
        if inputs.is_empty() && !metadata.inputs.is_empty() {
            return Err(no_inputs(&args.name, &metadata));
        }
        let tensors = inputs
            .tensors(&metadata)
            .map_err(|error| infer::input_failure(error, None))?;
        let measured = measure::run(&loaded, &tensors, args.warmup, args.repeat).await;
        let shown = measured.and_then(|measured| {
            stdout.print(&match args.output.is_json() {
                true => format!("{}\n", json::text(&loaded, &measured)),
                false => report::text(&loaded, &measured, args.all, look),
            })?;
            if let Some(folder) = &args.save_intermediate {
                save::all(folder, &loaded, &tensors, &measured)?;
            }
            match measured.error {
                Some(error) => Err(Failure::failed("the run failed").detail(error)),
                None => Ok(()),
            }
        });
        loaded.close(Some(CLOSE_LIMIT)).await;
        shown
    });
    // A custom node that never ends is not waited for.
    runtime.shutdown_background();
    result
}

/// Returns the failure with the inputs of a pipeline if none were given.
fn no_inputs(name: &str, metadata: &ModelMetadata) -> Failure {
    ui::note(infer::explanation(metadata, Look::of_stderr()).trim_end());
    ui::note("");
    Failure::usage(format!("found no inputs for pipeline `{name}`"))
        .hint("give each with `-i NAME=VALUE`, or fill every input with `--zeros` or `--random`")
}
