//! The wait for clients that have just been answered. Where each client sends its next request once it has its answer,
//! requests that wait while others run would go on in two groups for ever, as two small batches in place of one.

use std::time::Duration;

use super::choice::SizeChoice;

/// Share of what one batch in place of two saves that may be waited, so that a wait gains as much as it may lose.
const SHARE: u32 = 2;

/// Most inferences without a wait after waits for nothing.
const MAX_SKIPPED: u32 = 63;

/// A wait for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReturnWait {
    /// Number of rows that end it.
    pub(crate) target: usize,
    /// Maximum duration.
    pub(crate) limit: Duration,
    /// Number of rows at its beginning.
    present: usize,
}

/// Rule for waits of one model.
#[derive(Debug, Default)]
pub(crate) struct ReturnRule {
    /// Number of inferences that are not to be waited after.
    skipped: u32,
    /// The same after the next wait for nothing.
    next: u32,
}

impl ReturnRule {
    /// Returns the wait after an inference that has answered requests of so many rows while others wait; `None` if the slot
    /// goes on at once.
    pub(crate) fn plan(
        &mut self,
        choice: &SizeChoice,
        answered: usize,
        waiting: usize,
    ) -> Option<ReturnWait> {
        let target = (answered + waiting).min(choice.sizes().most());
        if target < 2 || waiting >= target {
            return None;
        }
        let now = waiting.max(1);
        let apart = choice.shortest(now)? + choice.shortest(target - now)?;
        let limit = apart.saturating_sub(choice.shortest(target)?) / SHARE;
        if limit.is_zero() {
            return None;
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            return None;
        }
        Some(ReturnWait {
            target,
            limit,
            present: waiting,
        })
    }

    /// Takes in how many rows go together at the end of a wait.
    pub(crate) fn ended(&mut self, wait: ReturnWait, present: usize) {
        let expected = wait.target - wait.present;
        if present.saturating_sub(wait.present) >= expected.div_ceil(2) {
            self.next = 0;
        } else {
            self.next = (self.next * 2 + 1).min(MAX_SKIPPED);
        }
        self.skipped = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::sizes::{BatchSize, BatchSizes},
        *,
    };

    fn choice(alone: u64, list: &[(usize, u64)]) -> SizeChoice {
        let list = list.iter().map(|&(rows, took)| BatchSize {
            rows,
            took: Some(Duration::from_micros(took)),
        });
        BatchSizes {
            alone: Duration::from_micros(alone),
            list: list.collect(),
        }
        .into()
    }

    fn planned(choice: &SizeChoice, answered: usize, waiting: usize) -> Option<(usize, u64)> {
        let wait = ReturnRule::default().plan(choice, answered, waiting)?;
        Some((wait.target, u64::try_from(wait.limit.as_micros()).unwrap()))
    }

    #[test]
    fn one_client_is_not_waited_for() {
        let choice = choice(1000, &[(2, 1200), (8, 2000)]);
        assert_eq!(planned(&choice, 1, 0), None);
    }

    #[test]
    fn half_of_what_one_batch_saves_is_waited() {
        let choice = choice(1000, &[(2, 1200), (8, 2000)]);
        assert_eq!(planned(&choice, 1, 1), Some((2, 400)), "1000 + 1000 - 1200");
        assert_eq!(planned(&choice, 2, 0), Some((2, 400)));
        assert_eq!(planned(&choice, 1, 3), Some((4, 500)), "2000 + 1000 - 2000");
        assert_eq!(planned(&choice, 4, 4), Some((8, 1000)));
        assert_eq!(planned(&choice, 8, 8), None, "there are enough");
        assert_eq!(planned(&choice, 8, 3), Some((8, 1000)), "no more fit");
    }

    #[test]
    fn batches_that_save_nothing_are_not_waited_for() {
        let costly = choice(1000, &[(8, 4000)]);
        assert_eq!(planned(&costly, 1, 1), None);
        assert_eq!(planned(&costly, 4, 4), Some((8, 2000)));
        assert_eq!(planned(&BatchSizes::default().into(), 1, 1), None);
        assert_eq!(planned(&BatchSizes::up_to(8).into(), 4, 4), None);
    }

    #[test]
    fn clients_that_do_not_come_back_are_waited_for_less_and_less_often() {
        let choice = choice(1000, &[(2, 1200)]);
        let mut rule = ReturnRule::default();
        let mut waits = Vec::new();
        for number in 0..1000 {
            if let Some(wait) = rule.plan(&choice, 1, 1) {
                waits.push(number);
                rule.ended(wait, 1);
            }
        }
        assert_eq!(waits[..6], [0, 2, 6, 14, 30, 62]);
        assert!(waits.len() < 25, "{waits:?}");
        // One that comes back has the next ones waited for.
        let mut plans = std::iter::repeat_with(|| rule.plan(&choice, 1, 1));
        let wait = plans.find_map(|it| it).unwrap();
        rule.ended(wait, 2);
        assert!(rule.plan(&choice, 1, 1).is_some());
    }
}
