//! Calls of a worker that have not ended, and those who wait for them.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    ops::RangeInclusive,
};

use pyovms::message::Outcome;
use tokio::sync::{mpsc, oneshot};

use crate::python::{HandlerTensor, Raised, error::HandlerError};

/// End of a call.
#[derive(Debug)]
pub(in crate::python) enum Answer {
    /// Outputs.
    Outputs(Vec<HandlerTensor>),
    /// A generator.
    Generator,
    /// An exception.
    Raised(Raised),
    /// Anything else.
    Other(Outcome),
}

/// A set of a generator; `None` is its end.
pub(in crate::python) type TakenSet = Result<Option<Vec<HandlerTensor>>, HandlerError>;

/// Calls and generators of a worker, by their numbers.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) calls: HashMap<u64, Call>,
    pub(super) generators: HashMap<u64, OpenGenerator>,
    /// Indicates that a handler is being loaded, or that the worker has died of that.
    pub(super) is_loading: bool,
    /// Description of the worker's end.
    pub(super) died: Option<String>,
    /// Nodes that it was at then.
    at_end: BTreeSet<String>,
}

/// A call that has not ended.
pub(super) struct Call {
    pub(super) reply: oneshot::Sender<Result<Answer, HandlerError>>,
    pub(super) node: String,
}

/// A generator that has not ended.
pub(super) struct OpenGenerator {
    pub(super) sets: mpsc::UnboundedSender<TakenSet>,
    pub(super) node: String,
}

impl Waiting {
    /// Notes how the worker has ended, and takes everything that waits.
    pub(super) fn end(&mut self, how: &str) -> (HashMap<u64, Call>, HashMap<u64, OpenGenerator>) {
        self.at_end = self.nodes();
        self.died = Some(how.to_owned());
        (mem::take(&mut self.calls), mem::take(&mut self.generators))
    }

    /// Returns number and node of the first call among those with such numbers.
    pub(super) fn oldest(&self, numbers: RangeInclusive<u64>) -> Option<(u64, String)> {
        let calls = self
            .calls
            .iter()
            .filter(|(number, _)| numbers.contains(number));
        let (number, call) = calls.min_by_key(|(number, _)| **number)?;
        Some((*number, call.node.clone()))
    }

    /// Returns the nodes that the worker is at, or was when it ended.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        let of_calls = self.calls.values().map(|call| &call.node);
        let of_generators = self.generators.values().map(|generator| &generator.node);
        let nodes = of_calls.chain(of_generators).chain(&self.at_end);
        nodes.cloned().collect()
    }
}
