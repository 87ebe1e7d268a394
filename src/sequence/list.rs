//! Lists of live sequences, for those who manage the server.

use std::time::Duration;

use super::registry::Sequences;

/// A live sequence, as lists have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceSummary {
    /// Its id.
    pub id: u64,
    /// Number of its steps that have succeeded.
    pub steps: u64,
    /// Time since the last one ended; zero while one runs.
    pub idle: Duration,
}

impl<I: Clone + PartialEq, S> Sequences<I, S> {
    /// Returns up to so many sequences, in no order.
    #[must_use]
    pub fn list(&self, most: usize) -> Vec<SequenceSummary> {
        let inner = self.lock();
        let entries = inner.entries.iter().take(most);
        entries
            .map(|(id, entry)| SequenceSummary {
                id: *id,
                steps: entry.steps,
                idle: match entry.busy {
                    true => Duration::ZERO,
                    false => entry.used.elapsed(),
                },
            })
            .collect()
    }
}
