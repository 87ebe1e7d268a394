//! The check of one pipeline: off the async workers, within a limit, and reported in the log.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tokio::time::timeout;

use super::{
    done::Done,
    error::ReloadError,
    facts::{Facts, Made},
};
use crate::{
    config::PipelineConfig,
    diagnostic::{Diagnostic, Diagnostics},
    draw::Diagram,
    pipeline::{self, rules},
    task,
};

/// Outcome of a check, and its other findings.
pub(super) type Checked = (Result<pipeline::CheckedPipeline, Diagnostics>, Finds);

/// Findings of a check.
#[derive(Default)]
pub(super) struct Finds {
    /// The custom nodes that were made for it.
    pub(super) made: BTreeMap<String, Made>,
    /// Diagram of the pipeline.
    pub(super) diagram: Option<Diagram>,
}

/// Checks a pipeline, which runs code of its custom nodes: not on an async worker, and not for ever.
pub(super) async fn check(config: &PipelineConfig, facts: Facts, limit: Duration) -> Checked {
    if facts.is_taken {
        // Nothing else of it is looked at, as it does not serve.
        return (Err(pipeline::name_taken(config).into()), Finds::default());
    }
    let (pipeline, load) = (config.clone(), facts.load.clone());
    let work = task::blocking("check pipeline", move || {
        let facts = facts.of_pipeline(&pipeline);
        let checked = pipeline::check(&pipeline, &facts);
        let diagram = Some(pipeline::diagram(&pipeline, &facts));
        let made = facts.made.into_inner();
        (checked, Finds { made, diagram })
    });
    let found = match timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(checked)) => return checked,
        Ok(Err(_)) => "a panic, which is a bug in this server".to_owned(),
        // What comes of it in the end goes at once.
        Err(_) => {
            let how = format!("was killed: its handlers have not loaded within {limit:?}");
            load.end(&how);
            format!("custom nodes that took longer than {limit:?}")
        }
    };
    let expected = "custom nodes that are made and described in time";
    let error = Diagnostic::error(rules::INITIALIZE, (found, expected))
        .at(config.places.own.clone())
        .hint("check what their libraries do at startup, or raise --custom-node-load-seconds");
    (Err(error.into()), Finds::default())
}

/// Logs how a check went.
pub(super) fn report(
    name: &str,
    checked: &Result<pipeline::CheckedPipeline, Diagnostics>,
    done: &mut Done,
) {
    let found = checked.as_ref();
    for warning in found.map_or_else(|it| &it.warnings, |it| &it.warnings) {
        tracing::warn!("pipeline {name}: {warning}");
    }
    if let Err(errors) = checked {
        let error = ReloadError::Pipeline {
            name: name.to_owned(),
            errors: Box::new(errors.clone()),
        };
        tracing::error!("{}", crate::error::chain(&error));
        done.errors.push(error);
    }
}
