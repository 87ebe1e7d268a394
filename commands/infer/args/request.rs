//! Flags for the request except its inputs.

use std::{collections::HashSet, path::PathBuf, time::Duration};

use clap::{
    ArgGroup, ValueEnum,
    error::{ContextKind, ContextValue},
};
use ovms::{
    client::input::{Argument, ImageLayout, ImageOptions},
    request::Parameter,
};

use super::{duration, pair};
use crate::{
    completions::{names, usual},
    error::Failure,
    infer::{ranking::RankingArgs, run::no_single_output},
    ui::OutputFormat,
};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestArgs {
    /// Version of the model [default: the server's choice]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        requires = "model",
        add = names::versions()
    )]
    pub(in crate::infer) model_version: Option<u64>,

    /// Request only this output
    ///
    /// Can be repeated; outputs are shown in this order.
    #[arg(long, value_name = "NAME", add = names::outputs())]
    pub(in crate::infer) output_name: Vec<String>,

    /// Id of the request, which the response repeats (KServe only)
    #[arg(long, value_name = "TEXT")]
    pub(in crate::infer) id: Option<String>,

    /// Send a request parameter
    ///
    /// KServe only. `true` and `false` are booleans and whole numbers are integers; anything else,
    /// and anything in double quotes, is a string. Can be repeated.
    #[arg(
        long,
        visible_alias = "parameter",
        value_name = "KEY=VALUE",
        value_parser = parameter
    )]
    pub(in crate::infer) param: Vec<(String, Parameter)>,

    /// Send tensors as raw bytes over gRPC (default)
    #[arg(long, group = "form")]
    pub(in crate::infer) raw: bool,

    /// Send tensors in typed fields over gRPC
    #[arg(long, group = "form")]
    pub(in crate::infer) typed: bool,

    /// Send and receive tensors as bytes over kserve-rest (default)
    #[arg(long, group = "form")]
    pub(in crate::infer) binary: bool,

    /// Send and receive tensors as JSON (always so over tfs-rest)
    #[arg(long, group = "form")]
    pub(in crate::infer) json_data: bool,
}

/// Removes duplicates and keeps the order.
pub(in crate::infer) fn distinct(mut names: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Reads a flag's value as a request parameter.
pub(crate) fn parameter(text: &str) -> Result<(String, Parameter), String> {
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

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArgs {
    /// Input value: JSON, @FILE, or - for standard input
    ///
    /// Datatype and shape default to the model's. Can be repeated.
    #[arg(
        short,
        long = "input",
        value_name = "[NAME[:DTYPE[:SHAPE]]=]VALUE",
        // Standard input is `-`, with a format behind it; numbers may be negative.
        allow_hyphen_values = true,
        add = names::inputs()
    )]
    pub(crate) inputs: Vec<Argument>,

    /// Fill all other inputs with zeros
    ///
    /// Dynamic dimensions become 1.
    #[arg(long)]
    pub(crate) zeros: bool,

    /// Fill all other inputs with random values
    ///
    /// Floating-point values are in [0, 1), integers from 0 to 100. Dynamic dimensions become 1.
    #[arg(long, conflicts_with = "zeros")]
    pub(crate) random: bool,

    /// Seed of the random values
    #[arg(long, value_name = "N", requires = "random")]
    pub(crate) seed: Option<u64>,

    /// Sample rate of the model in Hz; other rates are rejected
    ///
    /// Nothing is resampled. Without this flag, any rate but 16000 Hz, which is usual for speech, is a warning. Raw samples
    /// carry no rate.
    #[arg(
        long,
        alias = "sampling-rate",
        hide_short_help = true,
        value_name = "HZ",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) sample_rate: Option<u32>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Images")]
pub(crate) struct ImageArgs {
    /// Mean, scale, and channel order of a family of models
    ///
    /// --mean, --scale, and --layout override the preset. If the layout is not clear from the model's shape, it is NCHW,
    /// or NHWC for inception.
    #[arg(long, value_enum, value_name = "NAME")]
    preset: Option<Preset>,

    /// Layout of images: NCHW, NHWC, CHW or HWC
    ///
    /// By default it follows from the model's shape: the dimension of size 3 or 1 is the channels.
    #[arg(long, add = usual(&["NCHW", "NHWC", "CHW", "HWC"]))]
    layout: Option<ImageLayout>,

    /// Mean to subtract from values (0 to 255): one, or per channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    mean: Vec<f64>,

    /// Scale to divide values by after that: one, or per channel
    #[arg(
        long,
        value_name = "A,B,C",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    scale: Vec<f64>,

    /// Send channels as BGR; means and scales are in this order
    #[arg(long)]
    bgr: bool,
}

/// Preprocessing that a family of models was trained with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// Mean and deviation of ImageNet, as for torchvision models
    Imagenet,
    /// Mean and deviation of CLIP's training images
    Clip,
    /// Values from -1 to 1, as for Inception and MobileNet
    Inception,
    /// Values from 0 to 1, as for YOLO
    Unit,
    /// BGR minus the mean of ImageNet, as for Caffe models
    Caffe,
}

impl Preset {
    /// Returns mean and scale of the channels, of values from 0 to 255.
    const fn mean_and_scale(self) -> ([f64; 3], [f64; 3]) {
        match self {
            Self::Imagenet => ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375]),
            Self::Clip => (
                [122.770_938_3, 116.746_012_5, 104.093_736_15],
                [68.500_532_7, 66.632_157_9, 70.323_163_05],
            ),
            Self::Inception => ([127.5; 3], [127.5; 3]),
            Self::Unit => ([0.0; 3], [255.0; 3]),
            Self::Caffe => ([103.939, 116.779, 123.68], [1.0; 3]),
        }
    }
}

/// Families of models and libraries, by the beginnings of their names, with their presets.
const FAMILIES: [(&str, &[&str]); 3] = [
    ("unit", &["yolo", "ultralytics"]),
    (
        "imagenet",
        &[
            "resnet",
            "efficientnet",
            "torch",
            "pytorch",
            "timm",
            "densenet",
            "convnext",
            "vit",
        ],
    ),
    ("inception", &["mobilenet", "tensorflow", "keras"]),
];

/// Returns the preset for a family of models, or a library that they come from.
pub(crate) fn preset_meant(error: &clap::Error) -> Option<String> {
    let of = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    let arg = of(ContextKind::InvalidArg)?;
    let value = of(ContextKind::InvalidValue)?.to_ascii_lowercase();
    let mut families = FAMILIES.iter();
    let (preset, _) = families.find(|(_, begins)| begins.iter().any(|it| value.starts_with(it)))?;
    arg.starts_with("--preset")
        .then(|| format!("`--preset {preset}` is usual for {value}"))
}

impl ImageArgs {
    /// Returns the options: those of the preset where there is no flag.
    pub(in crate::infer) fn options(self) -> ImageOptions {
        let preset = self.preset.map(Preset::mean_and_scale);
        // One number fits images in grey as well.
        let values = |values: [f64; 3]| match values {
            [a, b, c] if a == b && b == c => vec![a],
            values => values.to_vec(),
        };
        let or_preset = |given: Vec<f64>, preset: Option<[f64; 3]>| match preset {
            Some(preset) if given.is_empty() => values(preset),
            _ => given,
        };
        ImageOptions {
            layout: self.layout,
            usual_layout: self.preset.map(|preset| match preset {
                Preset::Inception => ImageLayout::Nhwc,
                _ => ImageLayout::Nchw,
            }),
            mean: or_preset(self.mean, preset.map(|(mean, _)| mean)),
            scale: or_preset(self.scale, preset.map(|(_, scale)| scale)),
            is_bgr: self.bgr || self.preset == Some(Preset::Caffe),
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
#[command(group = ArgGroup::new("load").args(["repeat", "duration"]).multiple(true))]
pub(in crate::infer) struct LoadArgs {
    /// Send the request N times and measure latencies
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["save", "top"]
    )]
    pub(in crate::infer) repeat: Option<u64>,

    /// Send the request for TIME and measure latencies
    ///
    /// With --repeat, whichever ends first.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["save", "top"])]
    pub(in crate::infer) duration: Option<Duration>,

    /// Number of concurrent requests [default: 1]
    #[arg(
        long,
        value_name = "C",
        value_parser = clap::value_parser!(u16).range(1..),
        requires = "load"
    )]
    pub(in crate::infer) concurrency: Option<u16>,

    /// Number of warm-up requests, which are not measured
    #[arg(long, value_name = "N", requires = "load")]
    pub(in crate::infer) warmup: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(in crate::infer) struct OutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(in crate::infer) output: Format,

    /// Save outputs to a .npy or .csv file, or to a folder
    ///
    /// A path that ends in .npy takes the only output, and one in .csv all of them; a folder gets a .npy file per output.
    /// Missing folders are created. BF16, which NumPy lacks, becomes FP32. If saving fails, nothing is printed.
    #[arg(short = 'o', long, value_name = "PATH")]
    pub(in crate::infer) save: Option<PathBuf>,

    #[command(flatten)]
    pub(in crate::infer) ranking: RankingArgs,
}

/// Format of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::infer) enum Format {
    /// A table of outputs, scores, latencies or models
    Table,
    /// The same as one JSON object; `not_finite` explains `null`
    Json,
    /// A header, and a line per row of the outputs or per score
    Csv,
    /// The output as the bytes of a .npy file
    Npy,
    /// The output's bytes, little endian
    Raw,
}

/// Format of stdout that is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::infer) enum TextFormat {
    Table,
    Json,
    Csv,
}

/// Next step where there is neither CSV nor a single output.
const TABLE_OR_JSON: &str = "use `--output table` or `--output json`";

impl Format {
    /// Returns the format of more than a single output, such as a stream.
    pub(in crate::infer) fn of_text(self, what: &str) -> Result<TextFormat, Failure> {
        match self {
            Self::Table => Ok(TextFormat::Table),
            Self::Json => Ok(TextFormat::Json),
            Self::Csv => Ok(TextFormat::Csv),
            Self::Npy | Self::Raw => Err(no_single_output(what)
                .hint("use `--output table`, `--output json`, or `--output csv`")),
        }
    }

    /// Returns the format of what is no answer, such as a list of models.
    pub(in crate::infer) fn of_many(self, what: &str) -> Result<OutputFormat, Failure> {
        match self {
            Self::Table => Ok(OutputFormat::Table),
            Self::Json => Ok(OutputFormat::Json),
            Self::Csv => {
                let text = format!("{what} has no form as `--output csv`");
                Err(Failure::usage(text).hint(TABLE_OR_JSON))
            }
            Self::Npy | Self::Raw => Err(no_single_output(what).hint(TABLE_OR_JSON)),
        }
    }
}

#[cfg(test)]
mod tests {
    use ovms::request::Parameter;

    use super::{ImageArgs, Preset, distinct, pair, parameter};

    #[test]
    fn a_name_that_is_given_twice_counts_once() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect();
        assert_eq!(distinct(names("b a b c a")), ["b", "a", "c"]);
    }

    #[test]
    fn flags_go_before_those_of_a_preset() {
        let args = ImageArgs {
            preset: Some(Preset::Imagenet),
            layout: None,
            mean: vec![1.0],
            scale: Vec::new(),
            bgr: false,
        };
        let options = args.options();
        assert_eq!(options.mean, [1.0]);
        assert_eq!(options.scale, [58.395, 57.12, 57.375]);
        assert!(!options.is_bgr);
    }

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
