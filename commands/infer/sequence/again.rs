//! Repetition of steps whose answers did not come: under one idempotency key, a few times, and with pauses that grow.

use std::{ffi::OsString, time::Duration};

use clap::error::ErrorKind;
use ovms::client::{
    ClientError,
    session::{SequenceClient, SequenceError, random_id, random_key},
};
use tokio::time::sleep;

use super::Stop;
use crate::ui::{self, counted};

/// The first and the longest pause between two attempts.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Attempts of steps beyond the first.
#[derive(Debug)]
pub(super) struct Again {
    most: u32,
    stop: Stop,
}

impl Again {
    pub(super) fn new(most: u32, stop: Stop) -> Self {
        Self { most, stop }
    }

    /// Returns whether a step that failed would have been sent again, had it attempts left.
    pub(super) fn is_for(&self, error: &SequenceError) -> bool {
        self.most > 0 && is_worth_another(error)
    }

    /// Sends a step until it is answered, refused for good, or has no attempt left; `place` names it.
    pub(super) async fn send<'a, T>(
        &mut self,
        session: &mut SequenceClient<'a>,
        place: &str,
        mut step: impl AsyncFnMut(&mut SequenceClient<'a>) -> Result<T, SequenceError>,
    ) -> Result<T, SequenceError> {
        session.set_key((self.most > 0).then(random_key));
        let mut pause = MIN_PAUSE;
        for left in (0..=self.most).rev() {
            let error = match step(session).await {
                Err(error) if left > 0 && is_worth_another(&error) => error,
                result => return result,
            };
            // Random, so that clients that were refused together do not come back together.
            let half = pause / 2;
            let wait = half + half.mul_f64(f64::from((random_id() % 1000) as u16) / 1000.0);
            let (seconds, left) = (wait.as_secs_f64(), counted(left as usize, "attempt"));
            ui::warn(&format!(
                "{place}: {error}; again in {seconds:.1} s, {left} left"
            ));
            tokio::select! {
                () = sleep(wait) => {}
                () = self.stop.asked() => return Err(error),
            }
            pause = MAX_PAUSE.min(pause * 2);
        }
        unreachable!("the last attempt returns")
    }
}

/// Returns whether the same request may be answered later.
fn is_worth_another(error: &SequenceError) -> bool {
    let SequenceError::Client(error) = error else {
        return false;
    };
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Closed { .. }
        | ClientError::Timeout { .. } => true,
        ClientError::Refused(refusal) => {
            let is_too_large = refusal.message.contains("too large");
            let is_away = refusal.is_unavailable() || refusal.is_of_gateway();
            is_away || refusal.is_exhausted() && !is_too_large
        }
        ClientError::Partial { .. } | ClientError::Protocol { .. } | ClientError::Request(_) => {
            false
        }
    }
}

/// Returns what waits for a server in place of attempts, which steps of sequences alone have.
pub(crate) fn again_alone(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let is_given = |arg: &OsString| {
        let flag = arg.to_str().and_then(|arg| arg.split('=').next());
        flag == Some("--retries")
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let is_alone = is_missing && error.to_string().contains("--sequence\n");
    (is_alone && args.iter().any(is_given)).then(|| {
        "`--retries` sends steps of a sequence again, and other requests are sent once; `--wait 60` waits until a server \
         that starts, or a model that is being loaded, is ready"
            .to_owned()
    })
}
