//! Health of servables, by those of their recent requests that failed for reasons other than the client's.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The fewest failures among the recent requests that make a servable fail.
const FEWEST: u32 = 3;

/// The smallest share of failures among them: one of so many.
const SHARE: u32 = 8;

/// Time for which a failure counts although later requests have been answered.
const LATELY: Duration = Duration::from_secs(60);

/// Health of a servable, from its last requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServableHealth {
    /// No recent failure for a reason within the server.
    Good,
    /// Recent failures, or a failure of the last request, with the reason.
    Unsteady(Arc<str>),
    /// Three or more failures, and one of eight since, with the reason of the last one.
    Failing(Arc<str>),
}

/// The outcomes of the most recent requests, from the first failure on. Answers are not recorded here but
/// counted by somebody else, so that those of a healthy servable cost nothing.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Option<Failed>>);

/// Requests that have failed.
#[derive(Debug)]
struct Failed {
    /// A bit for each request until the last failure, the latest the lowest: 1 if it failed.
    recent: u64,
    /// Error of the last failure, and its time.
    text: Arc<str>,
    at: Instant,
    /// Number of requests answered until then.
    answers: u64,
}

impl Recent {
    /// Records a failure; `answers` is how many requests have been answered so far.
    pub(super) fn failed(&self, text: &str, answers: u64) {
        let mut failed = self.0.lock();
        let before = failed.as_ref().map_or(0, |failed| failed.until(answers));
        *failed = Some(Failed {
            recent: before << 1 | 1,
            text: text.into(),
            at: Instant::now(),
            answers,
        });
    }

    /// Forgets what has failed, since something else serves now.
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }

    /// Validates the recent requests; `answers` is how many have been answered so far.
    pub(super) fn health(&self, answers: u64) -> ServableHealth {
        let failures = self.0.lock();
        let Some(failed) = &*failures else {
            return ServableHealth::Good;
        };
        let recent = failed.until(answers);
        let (count, known) = (recent.count_ones(), u64::BITS - recent.leading_zeros());
        let text = || Arc::clone(&failed.text);
        if count >= FEWEST && count * SHARE >= known {
            return ServableHealth::Failing(text());
        }
        if answers <= failed.answers || failed.at.elapsed() < LATELY {
            return ServableHealth::Unsteady(text());
        }
        ServableHealth::Good
    }
}

impl Failed {
    /// Returns the outcomes with those that have been answered since.
    fn until(&self, answers: u64) -> u64 {
        let since = u32::try_from(answers.saturating_sub(self.answers)).unwrap_or(u32::MAX);
        self.recent.checked_shl(since).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Recent, ServableHealth};

    #[test]
    fn recent_failures_make_it_fail_and_answers_heal_it() {
        let requests = Recent::default();
        assert_eq!(requests.health(5), ServableHealth::Good);
        requests.failed("one", 5);
        requests.failed("two", 5);
        let unsteady = |text: &str| ServableHealth::Unsteady(text.into());
        let failing = |text: &str| ServableHealth::Failing(text.into());
        assert_eq!(requests.health(5), unsteady("two"), "it may be bad luck");
        requests.failed("three", 5);
        assert_eq!(requests.health(5), failing("three"));
        assert_eq!(
            requests.health(6),
            failing("three"),
            "one answer says little"
        );
        assert_eq!(requests.health(5 + 21), failing("three"), "three of 24");
        assert_eq!(requests.health(5 + 22), unsteady("three"), "three of 25");
        assert_eq!(requests.health(u64::MAX), unsteady("three"));
        requests.failed("again", 1000);
        assert_eq!(
            requests.health(1000),
            unsteady("again"),
            "those are long ago"
        );
        requests.failed("again", 1000);
        requests.failed("again", 1000);
        requests.forget();
        assert_eq!(requests.health(1000), ServableHealth::Good);
    }

    #[test]
    fn a_share_of_failures_is_enough() {
        let requests = Recent::default();
        for answers in (0..100).step_by(6) {
            requests.failed("now and then", answers);
        }
        assert_eq!(
            requests.health(96),
            ServableHealth::Failing("now and then".into())
        );
    }
}
