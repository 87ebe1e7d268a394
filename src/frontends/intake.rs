//! What bounds the bodies that are received, on all connections of both protocols together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use crate::{
    config::Limits,
    error::{Error, ErrorKind, Result},
};

/// Bodies up to this size are not counted: there are no more of them than calls under way.
const SMALL: usize = 1 << 16;

/// The bounds, and the count of what is under way.
#[derive(Debug, Clone)]
pub struct Intake {
    message_size: usize,
    pause: Duration,
    rate: u64,
    in_flight: Arc<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    bytes: AtomicUsize,
    most: usize,
}

impl Intake {
    /// Makes the bounds of a server. `rate` is in bytes a second; `most` is the most bytes of all
    /// bodies together, and one of the largest size is always taken.
    pub(super) fn new(message_size: usize, pause: Duration, rate: u64, most: usize) -> Self {
        Self {
            message_size,
            pause,
            rate,
            in_flight: Arc::new(InFlight {
                bytes: AtomicUsize::new(0),
                most: most.max(message_size),
            }),
        }
    }

    /// Makes the bounds that the settings name.
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        Self::new(
            limits.message_size,
            limits.read,
            limits.receive_rate,
            limits.bytes_in_flight,
        )
    }

    /// Returns the same bounds, counted together, with another size for one message.
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

    /// Starts to count a body.
    pub(super) fn hold(&self) -> Hold {
        Hold {
            in_flight: Arc::clone(&self.in_flight),
            bytes: 0,
        }
    }
}

/// The count of one body, taken off again when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    in_flight: Arc<InFlight>,
    bytes: usize,
}

impl Hold {
    /// Counts a body that has grown to a size.
    ///
    /// # Errors
    ///
    /// Fails if all bodies together are too much.
    pub(super) fn grow(&mut self, to: usize) -> Result<()> {
        if to <= SMALL || to <= self.bytes {
            return Ok(());
        }
        let more = to - self.bytes;
        let before = self.in_flight.bytes.fetch_add(more, Ordering::Relaxed);
        let most = self.in_flight.most;
        if before.saturating_add(more) > most {
            // At once, so that others do not find the room taken.
            self.in_flight.bytes.fetch_sub(more, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::Overloaded,
                format!(
                    "Server is overloaded - bodies of requests under way: the most bytes allowed \
                     are {most}, see --max_bytes_in_flight; try again later"
                ),
            ));
        }
        self.bytes = to;
        Ok(())
    }

    /// Counts for as long as any part of the body is there.
    pub(super) fn keep(self, body: Bytes) -> Bytes {
        if self.bytes == 0 {
            return body;
        }
        Bytes::from_owner(Kept { body, _hold: self })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.in_flight
                .bytes
                .fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

struct Kept {
    body: Bytes,
    _hold: Hold,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
