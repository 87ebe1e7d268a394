//! Results of a pass over the configuration, and the response to the client that asked for it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{error::ReloadError, reloader::Reloader};
use crate::{
    engine::engine::{Reload, ReloadRequest},
    error::{Error, ErrorKind, Result, chain},
    task::Task,
    text::cut_bytes,
};

/// Results of a pass.
#[derive(Default)]
pub(super) struct Done {
    pub(super) changed: bool,
    pub(super) errors: Vec<ReloadError>,
    /// Indicates that a new configuration file was brought into effect.
    pub(super) new_file: bool,
    /// Indicates that the configuration can be read again, and is the one that is served.
    pub(super) recovered: bool,
    /// Indicates that the files with the models of graphs were read.
    pub(super) has_looked: bool,
    /// Models that go on as they are, since a pipeline uses them, and what is said of it.
    pub(super) held: Vec<(String, String)>,
}

impl Done {
    /// Returns whether a pass that nobody has asked for is a reload: it has changed something, or has failed.
    pub(super) fn is_reload(&self) -> bool {
        self.changed || self.new_file || self.recovered || !self.errors.is_empty()
    }

    /// Returns whether an entry of the name is there, though it is refused.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.errors.iter().any(
            |error| matches!(error, ReloadError::Entry { name: refused, .. } if refused == name),
        )
    }
}

/// Answer to a client that has asked for a pass.
pub(super) struct Owed {
    pub(super) request: ReloadRequest,
    pub(super) done: Done,
    /// The models that take long, which it waits for.
    pub(super) waits: BTreeSet<String>,
    /// Their errors.
    pub(super) late: Vec<Arc<Vec<ReloadError>>>,
}

impl Owed {
    pub(super) fn new(request: ReloadRequest, done: Done, waits: BTreeSet<String>) -> Self {
        Self {
            request,
            done,
            waits,
            late: Vec::new(),
        }
    }

    /// Makes the answer. `is_silent` leaves out what Python may have raised.
    pub(super) fn answer(&self, is_silent: bool) -> Result<Reload> {
        answer(&self.done, &self.late, is_silent)
    }
}

impl Reloader {
    /// Returns whether a pipeline serves what its entry says.
    fn serves_as_configured(&self, name: &str) -> bool {
        let config = self.reader.last();
        let mut listed = config.pipelines.iter();
        let serving = self.pipelines.serving(name);
        serving.is_some_and(|now| listed.any(|it| it.name == name && it.is_same(now)))
    }

    /// Answers the clients whose reload is complete, beside what follows, and counts the reloads.
    pub(super) fn answer(&mut self, wait: Duration) {
        let (waiting, complete): (Vec<_>, Vec<_>) = std::mem::take(&mut self.owed)
            .into_iter()
            .filter(|owed| owed.waits.is_empty() || !owed.request.reply.is_closed())
            .partition(|owed| !owed.waits.is_empty());
        self.owed = waiting;
        for mut owed in complete {
            if !owed.late.is_empty() {
                // The models of a pipeline may have come after it was checked.
                owed.done.errors.retain(|error| {
                    !matches!(error, ReloadError::Pipeline { name, .. } if self.serves_as_configured(name))
                });
            }
            let (unloaded, answer) = (self.unloaded(wait), owed.answer(self.is_silent));
            let is_well = owed.request.is_well && answer.is_ok();
            self.metrics.count_reload(is_well);
            // Bounded, and a client that left is not an error.
            Task::spawn(async move {
                unloaded.await;
                let _ = owed.request.reply.send(answer);
            })
            .detach();
        }
    }
}

/// Maximum number of errors that an answer has.
const MAX_ERRORS: usize = 16;

/// Maximum size of one of them in bytes.
const MAX_ERROR_LEN: usize = 1024;

/// Makes the answer to a client that asked for a pass, and the errors of models that took long.
fn answer(done: &Done, late: &[Arc<Vec<ReloadError>>], is_silent: bool) -> Result<Reload> {
    let errors = done.errors.iter();
    let errors: Vec<_> = errors.chain(late.iter().flat_map(|it| it.iter())).collect();
    let Some(error) = errors.first() else {
        return Ok(if done.changed || done.new_file {
            Reload::Changed
        } else {
            Reload::Unchanged
        });
    };
    // What clients know the kind of the failure by.
    let text = match error {
        ReloadError::File(crate::config::FileError::Read { .. }) | ReloadError::Paths(_) => {
            "Config file not found or cannot open."
        }
        ReloadError::File(_)
        | ReloadError::Subconfig { .. }
        | ReloadError::Entry { .. }
        | ReloadError::Repeated(_)
        | ReloadError::PipelineEntry(_)
        | ReloadError::GraphEntry(_)
        | ReloadError::OfFolder(_) => "Reloading config file failed.",
        _ if done.new_file => "Reloading config file failed.",
        _ => "Reloading models versions failed.",
    };
    let kind = match error.kind() {
        ErrorKind::InvalidArgument => ErrorKind::InvalidArgument,
        ErrorKind::FailedPrecondition => ErrorKind::FailedPrecondition,
        _ => ErrorKind::Internal,
    };
    let errors = joined(&errors, is_silent);
    // The pass has logged each of them.
    Err(Error::new(kind, format!("{text} {errors}")).logged())
}

/// Returns why a configuration is not served as it stands, of the errors of a pass; `None` if it is. What cannot be
/// loaded has a status of its own.
pub(super) fn unserved(mut errors: Vec<&ReloadError>, is_silent: bool) -> Option<String> {
    errors.retain(|error| error.is_of_configuration());
    (!errors.is_empty()).then(|| joined(&errors, is_silent))
}

/// Writes errors in one line, and how many more there are.
fn joined(errors: &[&ReloadError], is_silent: bool) -> String {
    let shown = errors.iter().take(MAX_ERRORS);
    let mut texts: Vec<String> = shown.map(|error| in_one_line(error, is_silent)).collect();
    if errors.len() > MAX_ERRORS {
        texts.push(format!("and {} more", errors.len() - MAX_ERRORS));
    }
    texts.join("; ")
}

/// Writes an error with its place and its cause in one line.
fn in_one_line(error: &ReloadError, is_silent: bool) -> String {
    let text = match error {
        ReloadError::Graph { name, error } => {
            format!("graph `{name}`: {}", error.reported(is_silent))
        }
        ReloadError::Pipeline { .. } if is_silent => error.to_string(),
        error => chain(error),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut_bytes(&text, MAX_ERROR_LEN)
}
