//! What is done with the answer, or the answers, of a request.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ovms::client::bench;

use super::args::{Format, LoadArgs, OutputArgs};
use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// What the answer is for.
#[derive(Debug)]
pub(super) enum Task {
    /// One answer, shown and saved.
    Show { show: Show, save: Option<PathBuf> },
    /// Many answers, counted.
    Measure {
        plan: bench::LoadPlan,
        is_json: bool,
    },
}

/// How one answer is shown.
#[derive(Debug)]
pub(super) enum Show {
    Table,
    Json,
    /// One output as a file of NumPy.
    Npy,
    /// The bytes of one output.
    Raw,
    /// The best scores of one output.
    Top {
        count: usize,
        labels: Vec<String>,
        is_json: bool,
    },
}

impl Show {
    /// Tells whether this shows one output and no more.
    pub(super) const fn needs_one_output(&self) -> bool {
        match self {
            Self::Table | Self::Json => false,
            Self::Npy | Self::Raw | Self::Top { .. } => true,
        }
    }
}

impl Task {
    pub(super) fn new(load: &LoadArgs, output: OutputArgs) -> Result<Self, Failure> {
        let OutputArgs {
            output: format,
            save,
            top,
            labels,
        } = output;
        if load.repeat.is_some() || load.duration.is_some() {
            let is_json = match format {
                Format::Table => false,
                Format::Json => true,
                Format::Npy | Format::Raw => return Err(no_single_output("a measurement")),
            };
            let plan = bench::LoadPlan {
                requests: load.repeat,
                duration: load.duration,
                concurrency: load.concurrency.unwrap_or(1).into(),
                warmup: load.warmup.unwrap_or(0),
            };
            return Ok(Self::Measure { plan, is_json });
        }
        let show = match (format, top) {
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
                labels: labels.map_or(Ok(Vec::new()), |path| read_labels(&path))?,
                is_json: format == Format::Json,
            },
            (Format::Npy | Format::Raw, Some(_)) => return Err(no_single_output("a ranking")),
        };
        Ok(Self::Show { show, save })
    }
}

/// Refuses the forms that only a single output has.
pub(super) fn no_single_output(what: &str) -> Failure {
    let text = format!("{what} has no form as `--output npy` or `--output raw`");
    Failure::new(FailureKind::Usage, text).hint("use `--output table` or `--output json`")
}

fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot read the labels of {}", path.display());
        Failure::new(FailureKind::Failed, text).caused_by(&error)
    })?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}
