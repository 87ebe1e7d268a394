//! The check of one pipeline: off the async workers, within a limit, and reported in the log.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio::time::timeout;

use super::{
    error::ReloadError,
    facts::{Facts, Heard, Made},
    pass::PassOutcome,
};
use crate::{
    config::PipelineConfig,
    pipeline::{self, PipelineOutline, PipelineRule},
    task,
};

/// How a check went, and what it has found besides.
pub(super) type Checked = (
    Result<pipeline::CheckedPipeline, pipeline::PipelineErrors>,
    Finds,
);

/// Findings of a check.
#[derive(Default)]
pub(super) struct Finds {
    /// The custom nodes that were made for it.
    pub(super) made: BTreeMap<String, Made>,
    /// Outline of the pipeline.
    pub(super) outline: Option<PipelineOutline>,
}

/// Checks a pipeline, which runs code of its custom nodes: not on an async worker, and not for ever.
pub(super) async fn check(config: &PipelineConfig, facts: Facts, limit: Duration) -> Checked {
    let pipeline = config.clone();
    let work = task::blocking("check pipeline", move || {
        let sources = Heard::new(&facts);
        let checked = pipeline::check(&pipeline, &sources);
        let outline = Some(PipelineOutline::new(&pipeline, &sources));
        let made = facts.into_made();
        (checked, Finds { made, outline })
    });
    let found = match timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(checked)) => return checked,
        Ok(Err(_)) => "a panic, which is a bug of this server".to_owned(),
        // What comes of it in the end goes at once.
        Err(_) => format!("custom nodes that took longer than {limit:?}"),
    };
    let error = pipeline::PipelineError {
        rule: PipelineRule::Initialize,
        node: None,
        place: config.places.own.clone(),
        found,
        expected: "custom nodes that are made and described in time".to_owned(),
        next: "see what their libraries do when they begin, or raise \
               --custom_node_load_seconds"
            .to_owned(),
    };
    let errors = pipeline::PipelineErrors {
        errors: vec![error],
        warnings: Vec::new(),
    };
    (Err(errors), Finds::default())
}

/// Logs how a check went.
pub(super) fn report(
    name: &str,
    checked: &Result<pipeline::CheckedPipeline, pipeline::PipelineErrors>,
    outcome: &mut PassOutcome,
) {
    let warnings = match checked {
        Ok(checked) => &checked.warnings,
        Err(errors) => &errors.warnings,
    };
    for warning in warnings {
        tracing::warn!("pipeline {name}: {warning}");
    }
    if let Err(errors) = checked {
        let error = ReloadError::Pipeline {
            name: name.to_owned(),
            errors: Box::new(errors.clone()),
        };
        tracing::error!("{}", crate::error::chain(&error));
        outcome.errors.push(error);
    }
}
