//! Flags for the form of the response.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::{error::Failure, infer::task::no_single_output, ui::OutputFormat};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(in crate::infer) struct OutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(in crate::infer) output: Format,

    /// Save each output as a .npy file in this folder
    ///
    /// Created if missing. BF16, which NumPy lacks, becomes FP32.
    #[arg(long, value_name = "DIR")]
    pub(in crate::infer) save: Option<PathBuf>,

    /// Show the K highest scores of the last axis of the output
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::infer) top: Option<u32>,

    /// File with the label of each score, one per line
    #[arg(long, value_name = "FILE", requires = "top")]
    pub(in crate::infer) labels: Option<PathBuf>,
}

/// Format of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::infer) enum Format {
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

impl Format {
    /// Returns the format of what is not a single output, such as a stream.
    pub(in crate::infer) fn of_many(self, what: &str) -> Result<OutputFormat, Failure> {
        match self {
            Self::Table => Ok(OutputFormat::Table),
            Self::Json => Ok(OutputFormat::Json),
            Self::Npy | Self::Raw => Err(no_single_output(what)),
        }
    }
}
