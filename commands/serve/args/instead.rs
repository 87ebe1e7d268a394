//! Flags for actions on files instead of serving.

use std::path::PathBuf;

use super::boolean;
use crate::ui::OutputFormat;

/// Extent of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::serve) enum Check {
    /// No check.
    Off,
    /// Flags and files alone: nothing that they name is opened.
    Syntax,
    /// Everything that a server would load is opened and read.
    Full,
}

/// Reads the value of `--check`.
fn depth(text: &str) -> Result<Check, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "t" => Ok(Check::Full),
        "false" | "0" | "f" => Ok(Check::Off),
        "syntax" => Ok(Check::Syntax),
        _ => Err("expected true, false or syntax".to_owned()),
    }
}

/// Flags that ask for something else than serving.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Instead of serving")]
pub(in crate::serve) struct Args {
    /// Check flags, files, models, pipelines and graphs, then exit
    ///
    /// Loads everything that a server would, short of compiling: reads each model, queries each
    /// device for its properties, opens all custom node libraries, and imports all handlers.
    /// The fast form, --check=syntax, reads the flags, the configuration file and the graph files
    /// only. Needs no ports. Exits with 0, with 1 on errors, or with 2 if there are only
    /// warnings or something could not be checked.
    #[arg(
        long = "check",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_parser = depth,
        action = clap::ArgAction::Set,
        value_name = "DEPTH"
    )]
    pub(in crate::serve) check: Check,
    /// List the models below --model_repository_path
    #[arg(
        long = "list_models",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(in crate::serve) list_models: bool,
    /// Add --model_name with --model_path to the file of --config_path; created if missing
    #[arg(
        long = "add_to_config",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(in crate::serve) add_to_config: bool,
    /// Remove --model_name from the file of --config_path; comments are kept
    #[arg(
        long = "remove_from_config",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = boolean(),
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub(in crate::serve) remove_from_config: bool,
    /// Folder with one folder per model
    #[arg(long = "model_repository_path", value_name = "DIR")]
    pub(in crate::serve) model_repository_path: Option<PathBuf>,
    /// Output format
    ///
    /// For the flags above: a server has its log there.
    #[arg(
        long = "output",
        value_enum,
        default_value_t = OutputFormat::Table,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(in crate::serve) output: OutputFormat,
}
