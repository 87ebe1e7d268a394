//! The flags of `ovms infer` as typed; their comments are the help.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, ValueEnum};
use ovms::{
    client::{
        Api,
        input::{Argument, Layout},
    },
    request::Parameter,
};

use super::{duration::duration, job::URL, sequence::SequenceArgs, stream::StreamArgs};

const AFTER_HELP: &str = "\
Values of inputs:
  [1, 2.5]        JSON: a number, true, false, a string, or lists of them; a
                  flat list takes the model's shape, and a text that is no
                  list is a string as it is
  @file.npy       an array of NumPy, of the model's datatype
  @file.npz       the array of the input's name; without NAME=, every array is
                  an input
  @file.png|jpg   a picture, resized and laid out as the model takes it
  @file.json      JSON; without NAME=, an object of inputs by name is taken
                  apart
  @file.txt       a string as it is, or numbers with blanks or commas between
                  them
  @file.bin       the bytes of the tensor, little endian
  -               JSON from standard input, an answer of --output json, a .npy
                  file or a picture
  -:OUTPUT        this output of that answer; also @file.json:OUTPUT and
                  @file.npz:ARRAY
  @-.bin          standard input as a file of this kind
  (nothing)       what --zeros or --random give: x::8,10= is a random x of
                  shape 8,10

NAME may be left out for a model with one input. DTYPE is BOOL, INT8 to INT64, UINT8 to UINT64, \
FP16, BF16, FP32, FP64 or BYTES, and stands in for the model's: arrays are converted to it, and \
pictures as BYTES are sent as they are, for the server to decode.

Examples:
  ovms infer resnet -i @cat.png --scale 255 --top 5 --labels imagenet.txt
  ovms infer resnet -i x:FP32=@batch.npy --output npy > scores.npy
  ovms infer adder -i a='[1, 2]' -i b='[3, 4]' --output json
  ovms infer detector -i @page.png --output json | ovms infer reader -i crops=-:boxes
  ovms infer resnet --random --duration 10s --concurrency 16
  ovms infer vad -i frames=@frames.npy --sequence --output npy > speech.npy
  id=$(ovms infer vad -i @first.npy --start --output json | jq .sequence_id)
  ovms infer generator -i prompt='once upon' --stream
  ovms infer --status
  ovms infer resnet --metadata --output json
  ovms infer adder -i a='[1, 2]' -i b='[3, 4]' --api kserve-rest --print-curl | sh

Exit codes: 0 done; 1 refused by the server, or failed; 64 usage; 69 the server cannot be \
reached; 130 Ctrl-C.";

/// One way to call it for each thing that it does.
const USAGE: &str = "\
ovms infer [OPTIONS] <MODEL>
       ovms infer [OPTIONS] <--status|--metadata> [MODEL]";

/// What only a request has.
const OF_A_REQUEST: [&str; 32] = [
    "inputs",
    "zeros",
    "random",
    "seed",
    "layout",
    "mean",
    "scale",
    "bgr",
    "output_name",
    "id",
    "param",
    "raw",
    "typed",
    "binary",
    "json_data",
    "save",
    "top",
    "labels",
    "sequence",
    "axis",
    "each",
    "sequence_id",
    "start",
    "go_on",
    "end",
    "stream",
    "requests",
    "timestamp",
    "repeat",
    "duration",
    "concurrency",
    "warmup",
];

/// Flags of `ovms infer`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Name of the model; --status and --metadata do without
    #[arg(required_unless_present_any = ["status", "metadata"])]
    pub(super) model: Option<String>,

    #[command(flatten)]
    pub(super) question: QuestionArgs,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    #[command(flatten)]
    pub(super) picture: PictureArgs,
    #[command(flatten)]
    pub(super) request: RequestArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) sequence: SequenceArgs,
    #[command(flatten)]
    pub(super) stream: StreamArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Instead of a request")]
pub(super) struct QuestionArgs {
    /// Show the versions of the model and their states
    ///
    /// Without MODEL, those of all models that the server has.
    #[arg(long, conflicts_with_all = OF_A_REQUEST)]
    pub(super) status: bool,

    /// Show the inputs and outputs of the model
    ///
    /// Without MODEL, those of all models that the server has. -1 is a dimension that may vary.
    #[arg(long, conflicts_with_all = OF_A_REQUEST, conflicts_with = "status")]
    pub(super) metadata: bool,

    /// Print the request as a command of curl, over gRPC of grpcurl, and do not send it
    ///
    /// A shell can run it as it is. Elements are written one by one, unless --raw or --binary is
    /// given or their datatype has no such form. The server is only asked for datatypes and shapes,
    /// and not even that if each input has its own. A sequence is a command for each step; also
    /// with --status and --metadata.
    #[arg(long, conflicts_with = "load")]
    pub(super) print_curl: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArgs {
    /// Give an input: JSON, @FILE, or - for standard input
    ///
    /// Datatype and shape are the model's unless they are given. Can be repeated.
    #[arg(
        short,
        long = "input",
        value_name = "[NAME[:DTYPE[:SHAPE]]=]VALUE",
        allow_negative_numbers = true
    )]
    pub(super) inputs: Vec<Argument>,

    /// Fill the inputs not given with zeros
    ///
    /// A dimension that may vary is 1.
    #[arg(long)]
    pub(super) zeros: bool,

    /// Fill the inputs not given with random values
    ///
    /// Numbers with a fraction are from 0 up to 1, whole numbers from 0 to 100. A dimension that
    /// may vary is 1.
    #[arg(long, conflicts_with = "zeros")]
    pub(super) random: bool,

    /// Make the random values the same each time
    #[arg(long, value_name = "N", requires = "random")]
    pub(super) seed: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pictures")]
pub(crate) struct PictureArgs {
    /// Lay pictures out as NCHW, NHWC, CHW or HWC
    ///
    /// Told by the model's shape if left out: the dimension of length 3 or 1 is the channels.
    #[arg(long)]
    pub(super) layout: Option<Layout>,

    /// Subtract this from the values, which are 0 to 255: one number, or one for each channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(super) mean: Vec<f64>,

    /// Divide the values by this after that: one number, or one for each channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(super) scale: Vec<f64>,

    /// Send blue first and red last; means and scales follow this order
    #[arg(long)]
    pub(super) bgr: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
pub(super) struct RequestArgs {
    /// Ask for a version of the model, not the server's default
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "model"
    )]
    pub(super) model_version: Option<u64>,

    /// Ask for this output only
    ///
    /// Can be repeated; the outputs come in this order.
    #[arg(long, value_name = "NAME")]
    pub(super) output_name: Vec<String>,

    /// Send an id, which the answer repeats (KServe only)
    #[arg(long, value_name = "TEXT")]
    pub(super) id: Option<String>,

    /// Send a request parameter
    ///
    /// For KServe only. `true` and `false` are truth values and whole numbers are numbers; all else, and what
    /// stands in double quotes, is text. Can be repeated.
    #[arg(
        long,
        visible_alias = "parameter",
        value_name = "KEY=VALUE",
        value_parser = parameter
    )]
    pub(super) param: Vec<(String, Parameter)>,

    /// Send tensors as raw bytes over gRPC (default)
    #[arg(long, group = "form")]
    pub(super) raw: bool,

    /// Send tensors in typed fields over gRPC
    #[arg(long, group = "form")]
    pub(super) typed: bool,

    /// Send and ask for tensors as bytes over kserve-rest (default)
    #[arg(long, group = "form")]
    pub(super) binary: bool,

    /// Send and ask for tensors as JSON over REST (over tfs-rest always so)
    #[arg(long, group = "form")]
    pub(super) json_data: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Choose what goes to stdout
    #[arg(long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(super) output: Format,

    /// Save each output as a .npy file in this folder
    ///
    /// The folder is made if it is missing. BF16, which NumPy lacks, becomes FP32.
    #[arg(long, value_name = "DIR")]
    pub(super) save: Option<PathBuf>,

    /// Show the K greatest scores of the last axis of the output
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) top: Option<u32>,

    /// Name the scores after the lines of this file
    #[arg(long, value_name = "FILE", requires = "top")]
    pub(super) labels: Option<PathBuf>,
}

/// What goes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table of outputs, scores, latencies or models
    Table,
    /// The same as one JSON object; `null` stands for what is not a finite number, and
    /// `not_finite` tells what it is
    Json,
    /// The output as the bytes of a .npy file
    Npy,
    /// The output's bytes, little endian
    Raw,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
#[command(group = ArgGroup::new("load").args(["repeat", "duration"]).multiple(true))]
pub(super) struct LoadArgs {
    /// Make the request N times and measure
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["save", "top"]
    )]
    pub(super) repeat: Option<u64>,

    /// Make the request for this long and measure, such as 10s
    ///
    /// With --repeat, whichever ends first.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["save", "top"])]
    pub(super) duration: Option<Duration>,

    /// Keep this many requests under way at once [default: 1]
    #[arg(
        long,
        value_name = "C",
        value_parser = clap::value_parser!(u16).range(1..),
        requires = "load"
    )]
    pub(super) concurrency: Option<u16>,

    /// Begin with N requests that are not measured
    #[arg(long, value_name = "N", requires = "load")]
    pub(super) warmup: Option<u64>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerArgs {
    /// Address of the server [default: localhost:9000, or localhost:8000 over REST]
    #[arg(long, value_name = "HOST:PORT", env = URL, hide_env_values = true)]
    pub(super) url: Option<String>,

    /// Choose the protocol
    #[arg(
        long,
        value_enum,
        value_name = "PROTOCOL",
        default_value_t = ApiArg::KserveGrpc,
        env = "OVMS_API",
        hide_env_values = true
    )]
    pub(super) api: ApiArg,

    /// Give up on the connection, and on each request, after this long
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration,
        default_value = "30s",
        env = "OVMS_TIMEOUT",
        hide_env_values = true
    )]
    pub(super) timeout: Duration,

    /// Send an HTTP header, or gRPC metadata, with every request
    ///
    /// Can be repeated. In the variable, one stands in each line.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        value_parser = pair,
        value_delimiter = '\n',
        env = "OVMS_HEADER",
        hide_env_values = true
    )]
    pub(super) header: Vec<(String, String)>,
}

/// The protocols by the names that flags have for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ApiArg {
    /// KServe v2 over gRPC
    KserveGrpc,
    /// KServe v2 over REST
    KserveRest,
    /// TensorFlow Serving over gRPC
    TfsGrpc,
    /// TensorFlow Serving over REST
    TfsRest,
}

impl From<ApiArg> for Api {
    fn from(api: ApiArg) -> Self {
        match api {
            ApiArg::KserveGrpc => Self::KserveGrpc,
            ApiArg::KserveRest => Self::KserveRest,
            ApiArg::TfsGrpc => Self::TfsGrpc,
            ApiArg::TfsRest => Self::TfsRest,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("found `{text}`, expected KEY=VALUE")),
    }
}

fn parameter(text: &str) -> Result<(String, Parameter), String> {
    let (key, value) = pair(text)?;
    let quoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let parameter = match (quoted, value.as_str()) {
        (Some(text), _) => Parameter::Text(text.to_owned()),
        (None, "true") => Parameter::Bool(true),
        (None, "false") => Parameter::Bool(false),
        (None, text) => match text.parse() {
            Ok(number) => Parameter::Int(number),
            Err(_) => Parameter::Text(value),
        },
    };
    Ok((key, parameter))
}

#[cfg(test)]
mod tests {
    use ovms::request::Parameter;

    use super::{pair, parameter};

    #[test]
    fn parameters_have_the_type_of_their_text() {
        let text = |text: &str| Parameter::Text(text.to_owned());
        for (typed, value) in [
            ("k=true", Parameter::Bool(true)),
            ("k=False", text("False")),
            ("k=-7", Parameter::Int(-7)),
            ("k=\"7\"", text("7")),
            ("k=7.5", text("7.5")),
            ("k=", text("")),
            ("k=a=b", text("a=b")),
        ] {
            assert_eq!(parameter(typed), Ok(("k".to_owned(), value)), "{typed}");
        }
    }

    #[test]
    fn pairs_have_a_key() {
        for text in ["", "k", "=v"] {
            assert_eq!(
                pair(text).unwrap_err(),
                format!("found `{text}`, expected KEY=VALUE")
            );
        }
    }
}
