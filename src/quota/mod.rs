//! Limits of one client: how often it sends, and how much it has in flight.
//!
//! [`ClientLimits`] are the numbers, of a flag or of the file of `--auth`. A [`CountedClient`] counts what an identity or
//! an address has at the moment, and [`Clients`] finds it. Who asks, and where, is up to `frontends/guard`.

mod client;
mod clients;
mod limits;

use std::sync::Arc;

pub use client::{ClientPlace, CountedClient, QuotaCounts};
pub use clients::{ClientKey, Clients};
pub use limits::{ClientLimit, ClientLimits, ClientLimitsError};

use crate::request::PriorityBounds;

/// Owner of a request, as far as it is bounded.
#[derive(Debug, Clone, Default)]
pub struct RequestOwner {
    /// The priorities that it may use.
    pub priorities: PriorityBounds,
    /// Client that its sequences count for, if they are counted.
    pub client: Option<Arc<CountedClient>>,
}
