//! What a pass over the configuration did, and what a client that asked for it is told.

use super::Fault;
use crate::{
    engine::Reload,
    error::{Error, ErrorKind, Result},
};

/// What a pass did.
#[derive(Default)]
pub(super) struct Done {
    pub(super) changed: bool,
    pub(super) faults: Vec<Fault>,
    /// Whether it was a new configuration file that was brought into effect.
    pub(super) new_file: bool,
    /// Models that go on as they are, since a pipeline uses them, and what is said of it.
    pub(super) held: Vec<(String, String)>,
}

impl Done {
    /// Tells whether an entry of the name is there, though it is refused.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.faults
            .iter()
            .any(|fault| matches!(fault, Fault::Entry { name: refused, .. } if refused == name))
    }
}

/// What a client that asked for a pass is told.
pub(super) fn answer(done: &Done) -> Result<Reload> {
    let Some(fault) = done.faults.first() else {
        return Ok(if done.changed || done.new_file {
            Reload::Changed
        } else {
            Reload::Unchanged
        });
    };
    let text = match fault {
        Fault::File(crate::config::FileError::Read { .. }) => {
            "Config file not found or cannot open."
        }
        Fault::File(_)
        | Fault::Subconfig { .. }
        | Fault::Entry { .. }
        | Fault::PipelineEntry { .. }
        | Fault::GraphEntry { .. } => {
            "Reloading config file failed. Check server logs for more info."
        }
        _ if done.new_file => "Reloading config file failed. Check server logs for more info.",
        _ => "Reloading models versions failed. Check server logs for more info.",
    };
    // The cause is in the log already, as one of the faults of the pass.
    let kind = match fault.kind() {
        ErrorKind::InvalidArgument => ErrorKind::InvalidArgument,
        ErrorKind::FailedPrecondition => ErrorKind::FailedPrecondition,
        _ => ErrorKind::Internal,
    };
    Err(Error::new(kind, text))
}
