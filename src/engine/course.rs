//! Course of open streams, which a stop changes.

use crate::error::{Error, ErrorKind};

/// Permission of streams to go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Course {
    /// Streams go on.
    #[default]
    Open,
    /// Streams take no more requests, and end with the answers to those that they have.
    Draining,
    /// Streams end now.
    Over,
}

/// Returns the error for new and open streams while the server stops.
pub fn shutting_down() -> Error {
    Error::new(ErrorKind::Overloaded, "Server is shutting down")
}
