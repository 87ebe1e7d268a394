//! Use of the response, or the responses, to a request.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ovms::client::bench;

use super::args::{Format, LoadArgs, OutputArgs};
use crate::{
    error::Failure,
    ui::{self, OutputFormat},
};

/// Use of the response.
#[derive(Debug)]
pub(super) enum Task {
    /// Single response, shown and saved.
    Show { show: Show, save: Option<PathBuf> },
    /// Many responses, counted.
    Measure {
        plan: bench::LoadPlan,
        is_json: bool,
    },
}

/// Form of a single response.
#[derive(Debug)]
pub(super) enum Show {
    Table,
    Json,
    /// Single output as a NumPy file.
    Npy,
    /// Bytes of a single output.
    Raw,
    /// Highest scores of a single output.
    Top {
        count: usize,
        labels: Vec<String>,
        is_json: bool,
    },
}

impl Show {
    /// Returns whether this shows exactly one output.
    pub(super) const fn needs_one_output(&self) -> bool {
        match self {
            Self::Table | Self::Json => false,
            Self::Npy | Self::Raw | Self::Top { .. } => true,
        }
    }
}

impl Task {
    pub(super) fn new(load: &LoadArgs, output: OutputArgs) -> Result<Self, Failure> {
        if load.repeat.is_some() || load.duration.is_some() {
            let is_json = output.output.of_many("a measurement")? == OutputFormat::Json;
            let plan = bench::LoadPlan {
                requests: load.repeat,
                duration: load.duration,
                concurrency: load.concurrency.unwrap_or(1).into(),
                warmup: load.warmup.unwrap_or(0),
            };
            return Ok(Self::Measure { plan, is_json });
        }
        let show = match (output.output, output.top) {
            (Format::Table, None) => Show::Table,
            (Format::Json, None) => Show::Json,
            (Format::Npy, None) => {
                ui::refuse_bytes_on_terminal("a .npy file")?;
                Show::Npy
            }
            (Format::Raw, None) => {
                ui::refuse_bytes_on_terminal("a raw tensor")?;
                Show::Raw
            }
            (Format::Table | Format::Json, Some(count)) => Show::Top {
                count: count as usize,
                labels: match &output.labels {
                    Some(path) => read_labels(path)?,
                    None => Vec::new(),
                },
                is_json: output.output == Format::Json,
            },
            (Format::Npy | Format::Raw, Some(_)) => return Err(no_single_output("a ranking")),
        };
        Ok(Self::Show {
            show,
            save: output.save,
        })
    }
}

/// Refuses the forms that need a single output.
pub(super) fn no_single_output(what: &str) -> Failure {
    let text = format!("{what} has no form as `--output npy` or `--output raw`");
    Failure::usage(text).hint("use `--output table` or `--output json`")
}

fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::cannot("read the labels of", path, &error))?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}
