//! Patterns of servables that fit nothing: each is warned of once, until it fits something or is another one.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::file::AuthRules;
use crate::diagnostic::Diagnostic;

/// Names of what is served, as they change; `None` as long as they are not known.
pub type ServableNames = watch::Receiver<Option<Arc<[String]>>>;

/// A pattern of an identity: the names of both.
pub(super) type PatternKey = (Arc<str>, String);

/// Names of what is served, and the patterns that were found to fit none of them.
#[derive(Debug, Default)]
pub(super) struct UnservedPatterns {
    names: OnceLock<ServableNames>,
    /// Patterns that the last check found to fit none.
    known: Mutex<HashSet<PatternKey>>,
}

impl UnservedPatterns {
    /// Sets what is served; only the first word counts.
    pub(super) fn follow(&self, names: ServableNames) {
        let _ = self.names.set(names);
    }

    /// Returns what is served, if that is followed.
    pub(super) fn names(&self) -> Option<ServableNames> {
        self.names.get().cloned()
    }

    /// Finds patterns of the rules of the moment that fit nothing, and did not do so at the last look.
    pub(super) fn look(&self, rules: impl FnOnce() -> Arc<AuthRules>) -> Vec<Diagnostic> {
        // First, so that what is found last is known last.
        let mut known = self.known.lock();
        let names = self.names.get().and_then(|names| names.borrow().clone());
        let Some(names) = names else {
            return Vec::new();
        };
        let found = rules().unserved_patterns(&names);
        let is_new = |(key, _): &&(PatternKey, Diagnostic)| !known.contains(key);
        let new = found.iter().filter(is_new);
        let new = new.map(|(_, finding)| finding.clone()).collect();
        *known = found.into_iter().map(|(key, _)| key).collect();
        new
    }
}
