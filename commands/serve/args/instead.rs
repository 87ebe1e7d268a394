//! What is done with files instead of serving.

use std::path::PathBuf;

use super::boolean;
use crate::ui::Output;

/// Flags that ask for something else than serving.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Instead of serving")]
pub(in crate::serve) struct Args {
    /// Check flags, files, models, pipelines and graphs, and serve nothing
    ///
    /// Pipelines and graphs are checked, too: models of pipelines are read if there is a runtime,
    /// libraries of custom nodes are opened, and handlers are imported. Needs no ports. Ends with 0,
    /// with 1 if there is a fault, or with 2 if there are only warnings, or something could not be
    /// checked.
    #[arg(
        long = "check",
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
    pub(in crate::serve) check: bool,
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
    /// Add --model_name with --model_path to the file of --config_path, which is made if it is
    /// not there
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
    /// Remove --model_name from the file of --config_path, whose comments stay
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
    /// Folder with a folder for each model
    #[arg(long = "model_repository_path", value_name = "DIR")]
    pub(in crate::serve) model_repository_path: Option<PathBuf>,
    /// Choose what goes to stdout
    ///
    /// For the flags above: a server has its log there.
    #[arg(
        long = "output",
        value_enum,
        default_value_t = Output::Table,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(in crate::serve) output: Output,
}
