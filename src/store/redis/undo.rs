//! Calls that have failed, so that nobody knows whether the store has done what they ask for: a start that nobody goes on
//! with, and an end of a sequence whose state is nowhere. They are undone and done once the store answers again; else their
//! sequences would take room, and starts with their ids be refused, until they expire.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    super::{NewSequence, SequenceKey, StoreError},
    Server, UNDO,
    link::MAX_ATTEMPT_TIME,
};

/// Maximum number of calls that are remembered; of more the first ones are left to expire.
const MAX_CALLS: usize = 1024;

/// Time after which no attempt of a call that has failed can still reach the store.
const SETTLE_TIME: Duration = MAX_ATTEMPT_TIME.saturating_mul(2);

/// A call that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedCall {
    key: SequenceKey,
    work: FailedWork,
    failed: Instant,
}

/// Work of a call that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FailedWork {
    /// A start, with its idempotency key, which may be empty, and its token.
    Start { request: String, token: String },
    /// An end by the owner with this epoch.
    End { epoch: u64 },
}

/// The calls that have failed lately.
#[derive(Debug, Default)]
pub(super) struct FailedCalls(Mutex<VecDeque<FailedCall>>);

impl FailedCall {
    pub(super) fn start(new: &NewSequence<'_>, token: String) -> Self {
        let (model, id) = (new.model.to_owned(), new.id);
        let request = new.key.unwrap_or_default().to_owned();
        Self::new(
            SequenceKey { model, id },
            FailedWork::Start { request, token },
        )
    }

    pub(super) fn end(key: &SequenceKey, epoch: u64) -> Self {
        Self::new(key.clone(), FailedWork::End { epoch })
    }

    fn new(key: SequenceKey, work: FailedWork) -> Self {
        let failed = Instant::now();
        Self { key, work, failed }
    }

    /// Returns whether it may be in the way of a start.
    fn concerns(&self, new: &NewSequence<'_>) -> bool {
        let has_key = match &self.work {
            FailedWork::Start { request, .. } => !request.is_empty() && new.key == Some(&**request),
            FailedWork::End { .. } => false,
        };
        self.key.model == new.model && (has_key || (new.id != 0 && self.key.id == new.id))
    }
}

impl FailedCalls {
    pub(super) fn add(&self, call: FailedCall) {
        let mut calls = self.0.lock();
        if calls.len() >= MAX_CALLS {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    fn pick(&self, picked: impl Fn(&FailedCall) -> bool) -> Vec<FailedCall> {
        let calls = self.0.lock();
        calls.iter().filter(|call| picked(call)).cloned().collect()
    }

    fn remove(&self, call: &FailedCall) {
        self.0.lock().retain(|other| other != call);
    }
}

impl Server {
    /// Undoes failed starts, and does failed ends.
    pub(super) async fn undo_failed(&self) {
        for call in self.failed.pick(|_| true) {
            if self.undo(&call).await.is_err() {
                // The next time.
                return;
            }
        }
    }

    /// Undoes, or does, the failed calls that are in the way of a start.
    ///
    /// # Errors
    ///
    /// Fails if the store does.
    pub(super) async fn undo_failed_of(&self, new: &NewSequence<'_>) -> Result<(), StoreError> {
        for call in self.failed.pick(|call| call.concerns(new)) {
            self.undo(&call).await?;
        }
        Ok(())
    }

    async fn undo(&self, failed: &FailedCall) -> Result<(), StoreError> {
        let is_last = failed.failed.elapsed() > SETTLE_TIME;
        let key = &failed.key;
        let done = match &failed.work {
            FailedWork::Start { request, token } => {
                let mut call = self.call_of_all(&UNDO, &key.model);
                call.arg(key.id).arg(request).arg(token);
                self.link.call(&call).await.map(drop)
            }
            FailedWork::End { epoch } => self.end(key, *epoch, None).await.map(drop),
        };
        let is_away = matches!(done, Err(StoreError::Unreachable { .. }));
        // A store that is full, or refuses it, may take it later.
        if is_last && done.is_ok() {
            self.failed.remove(failed);
        }
        match is_away {
            true => done,
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start<'a>(model: &'a str, id: u64, key: Option<&'a str>) -> NewSequence<'a> {
        NewSequence {
            model,
            id,
            key,
            limit: 1,
            ahead: true,
            idle: None,
        }
    }

    #[test]
    fn what_is_in_the_way_of_a_start_has_its_id_or_its_key() {
        let failed = |id, key| FailedCall::start(&start("m", id, key), "t".to_owned());
        let keyed = failed(0, Some("k"));
        assert!(keyed.concerns(&start("m", 0, Some("k"))));
        assert!(keyed.concerns(&start("m", 7, Some("k"))));
        let named = failed(7, None);
        assert!(named.concerns(&start("m", 7, None)) && named.concerns(&start("m", 7, Some("k"))));
        let model = "m".to_owned();
        let ended = FailedCall::end(&SequenceKey { model, id: 7 }, 1);
        assert!(ended.concerns(&start("m", 7, None)));
        for other in [
            start("n", 7, Some("k")),
            start("m", 0, None),
            start("m", 8, Some("l")),
        ] {
            assert!(
                ![&keyed, &named, &ended]
                    .iter()
                    .any(|call| call.concerns(&other))
            );
        }
        assert!(!failed(0, None).concerns(&start("m", 0, None)));
    }

    #[test]
    fn the_newest_calls_are_remembered() {
        let calls = FailedCalls::default();
        let call = |id| FailedCall::start(&start("m", id, None), id.to_string());
        for id in 0..=MAX_CALLS as u64 {
            calls.add(call(id));
        }
        let all = calls.pick(|_| true);
        assert_eq!((all.len(), all[0].key.id), (MAX_CALLS, 1));
        calls.remove(&all[0]);
        assert_eq!(calls.pick(|_| true), all[1..]);
    }
}
