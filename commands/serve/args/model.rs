//! Flags for a single model.

use std::path::PathBuf;

use super::boolean;

/// Flags about the model.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Model")]
#[group(skip)]
pub(in crate::serve) struct Args {
    /// Name that clients use for the model
    #[arg(long = "model_name", value_name = "NAME")]
    pub(in crate::serve) model_name: Option<String>,
    /// Folder with the model's version folders or with one model, or a model file
    #[arg(long = "model_path", value_name = "PATH")]
    pub(in crate::serve) model_path: Option<PathBuf>,
    /// Serve the built-in example, a classifier of drawn shapes
    ///
    /// Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).
    #[arg(
        long = "demo",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        conflicts_with_all = ["model_name", "model_path", "config_path"]
    )]
    pub(in crate::serve) demo: bool,
    /// Versions to serve: '{"latest":{"num_versions":2}}', '{"specific":{"versions":[1,3]}}' or
    /// '{"all":{}}' [default: the latest one]
    #[arg(long = "model_version_policy", value_name = "JSON")]
    pub(in crate::serve) model_version_policy: Option<String>,
    /// Batch size: a number, a range such as 1:8, -1 for any, or auto for that of each request
    ///
    /// Ignored when --shape is given.
    #[arg(long = "batch_size", value_name = "SIZE", allow_hyphen_values = true)]
    pub(in crate::serve) batch_size: Option<String>,
    /// Shape of the input, such as '(1,3,224,224)', '(1:8,3,-1,-1)' or auto; or a JSON object of
    /// shapes by input name
    #[arg(long = "shape", value_name = "SHAPE")]
    pub(in crate::serve) shape: Option<String>,
    /// Layout of the input, such as NHWC, or NHWC:NCHW for requests in NHWC to a model in NCHW;
    /// or a JSON object of layouts by input and output name
    #[arg(long = "layout", value_name = "LAYOUT")]
    pub(in crate::serve) layout: Option<String>,
    /// Numbers to subtract from the input: 123.7, or one for each channel: '(123.7,116.8,103.9)'
    ///
    /// For models with one input; needs --layout.
    #[arg(long = "mean", value_name = "NUMBERS", allow_hyphen_values = true)]
    pub(in crate::serve) mean: Option<String>,
    /// Numbers to divide the input by: 58.4, or one for each channel: '(58.4,57.1,57.4)'
    ///
    /// For models with one input; needs --layout.
    #[arg(long = "scale", value_name = "NUMBERS", allow_hyphen_values = true)]
    pub(in crate::serve) scale: Option<String>,
    /// Colors of the model and of requests, such as RGB:BGR for requests in BGR to a model in RGB
    ///
    /// Of RGB, BGR, GRAY, NV12, NV12_2, I420, I420_3. For models with one input; needs --layout.
    #[arg(long = "color_format", value_name = "FORMAT")]
    pub(in crate::serve) color_format: Option<String>,
    /// Element types of the model and of requests, such as fp32:uint8 for requests of bytes
    ///
    /// Of fp64, fp32, fp16, bf16, int8 to int64, uint1, uint8 to uint64. For models with one input;
    /// needs --layout.
    #[arg(long = "precision", value_name = "TYPE")]
    pub(in crate::serve) precision: Option<String>,
    /// Number of infer requests: inferences that run in parallel; 0 lets the device choose
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(in crate::serve) nireq: u32,
    /// Timeout of an inference in milliseconds: the client gets an error, and a compiled model that
    /// does not end is replaced; 0 disables it
    #[arg(long = "inference_timeout_ms", value_name = "N", default_value_t = 0)]
    pub(in crate::serve) inference_timeout_ms: u32,
    /// Device to run on, such as CPU, GPU, AUTO [default: CPU]
    #[arg(long = "target_device", value_name = "DEVICE")]
    pub(in crate::serve) target_device: Option<String>,
    /// Device properties as a JSON object, such as '{"NUM_STREAMS":2}'
    #[arg(long = "plugin_config", value_name = "JSON")]
    pub(in crate::serve) plugin_config: Option<String>,

    /// Keep the model's state between the requests of a sequence
    #[arg(
        long = "stateful",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL",
        help_heading = "Stateful model"
    )]
    pub(in crate::serve) stateful: bool,
    /// Remove idle sequences; needs --stateful [default: true]
    #[arg(
        long = "idle_sequence_cleanup",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_parser = boolean(),
        value_name = "BOOL",
        help_heading = "Stateful model"
    )]
    pub(in crate::serve) idle_sequence_cleanup: Option<bool>,
    /// Apply OpenVINO's low latency transformation; needs --stateful [default: false]
    #[arg(
        long = "low_latency_transformation",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        value_parser = boolean(),
        value_name = "BOOL",
        help_heading = "Stateful model"
    )]
    pub(in crate::serve) low_latency_transformation: Option<bool>,
    /// Maximum number of sequences; needs --stateful [default: 500]
    #[arg(
        long = "max_sequence_number",
        value_name = "N",
        help_heading = "Stateful model"
    )]
    pub(in crate::serve) max_sequence_number: Option<u32>,
    /// Seconds that sequences may continue when their version is reloaded or retired, or the server
    /// stops; needs --stateful [default: 0]
    #[arg(
        long = "drain_sequences_seconds",
        value_name = "N",
        help_heading = "Stateful model"
    )]
    pub(in crate::serve) drain_sequences_seconds: Option<u32>,
    /// Minutes between two scans for idle sequences; 0 disables them
    #[arg(
        long = "sequence_cleaner_poll_wait_minutes",
        value_name = "N",
        default_value_t = 5,
        help_heading = "Stateful model"
    )]
    pub(in crate::serve) sequence_cleaner_poll_wait_minutes: u32,
}
