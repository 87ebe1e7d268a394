//! A bound on how often the same warning is logged.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The shortest time from one line to the next.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts what a line would say again, so that one line says it for all.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// Returns how many lines were left out since the last, if there is to be one now.
    pub(super) fn next(&self) -> Option<u64> {
        // Both fields are whole after each step.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match state.last {
            Some(last) if now.duration_since(last) < PERIOD => {
                state.left_out += 1;
                None
            }
            _ => {
                state.last = Some(now);
                Some(std::mem::take(&mut state.left_out))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::{LogLimit, PERIOD};

    #[tokio::test(start_paused = true)]
    async fn one_line_a_minute_says_how_many_were_left_out() {
        let limit = LogLimit::default();
        assert_eq!(limit.next(), Some(0));
        for _ in 0..1000 {
            assert_eq!(limit.next(), None);
        }
        advance(PERIOD).await;
        assert_eq!(limit.next(), Some(1000));
        assert_eq!(limit.next(), None);
        advance(PERIOD).await;
        assert_eq!(limit.next(), Some(1));
    }
}
