//! Bounds of received bodies, for all connections of both protocols together.

use std::time::Duration;

use crate::{budget::Budget, config::ServerSettings};

/// The bounds, and the budget that all that is received is charged to.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    message_size: usize,
    pause: Duration,
    rate: u64,
    budget: Budget,
}

impl BodyLimits {
    /// Makes the bounds of a server. `rate` is in bytes a second.
    pub(super) fn new(message_size: usize, pause: Duration, rate: u64, budget: Budget) -> Self {
        Self {
            message_size,
            pause,
            rate,
            budget,
        }
    }

    /// Makes the bounds that the settings name.
    #[must_use]
    pub fn of(settings: &ServerSettings) -> Self {
        let flags = &settings.flags;
        Self::new(
            flags.max_message_size,
            Duration::from_secs(flags.read_timeout_seconds),
            flags.min_receive_rate,
            settings.budget.clone(),
        )
    }

    /// Returns the same bounds, charged together, with another size for one message.
    #[must_use]
    pub fn with_message_size(&self, message_size: usize) -> Self {
        Self {
            message_size,
            ..self.clone()
        }
    }

    /// Returns the most bytes of one message or body.
    pub(super) fn message_size(&self) -> usize {
        self.message_size
    }

    /// Returns the longest pause within a body.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Returns how many bytes a second a sender has to manage; 0 for any.
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Returns what is received, queued and answered is charged to.
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }
}
