//! Limits of one client: how often it sends, and how much it has in flight.
//!
//! [`ClientLimits`] are the numbers, of a flag or of the file of `--auth`. A [`CountedClient`] counts what an identity or
//! an address has at the moment, and [`Clients`] finds it. Who asks, and where, is up to `frontends/guard`.

mod client;
mod clients;
mod limits;
mod priority;

use std::sync::Arc;

pub use client::{ClientPlace, CountedClient, QuotaCounts};
pub(crate) use clients::site_of;
pub use clients::{ClientKey, Clients};
pub use limits::{ClientLimit, ClientLimits, ClientLimitsError};
pub use priority::{Priority, PriorityBounds};

use crate::budget::Budget;

/// Owner of a request, as far as it is bounded.
#[derive(Debug, Clone, Default)]
pub struct RequestOwner {
    /// The priorities that it may use.
    pub priorities: PriorityBounds,
    /// Client that its sequences count for, if they are counted.
    pub client: Option<Arc<CountedClient>>,
    /// Its place among the requests of that client; a stream has none.
    pub place: Option<Arc<ClientPlace>>,
}

impl RequestOwner {
    /// Returns whether nothing of it differs from that of anyone.
    pub fn is_anyone(&self) -> bool {
        let is_counted = self.client.is_some() || self.place.is_some();
        !is_counted && self.priorities == PriorityBounds::default()
    }

    /// Returns that of the runs of a request that asks for a priority.
    pub fn of_runs(&self, asked: Option<Priority>) -> RunOwner {
        RunOwner {
            priority: self.priorities.of(asked),
            budget: self.client.as_ref().and_then(|it| it.budget().cloned()),
            place: self.place.clone(),
        }
    }
}

/// Owner of the runs of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOwner {
    /// Priority in the queues of models.
    pub priority: Priority,
    /// Budget of the client, if its bytes are counted.
    pub budget: Option<Budget>,
    /// Place of the request, which a run keeps that goes on without its client.
    pub place: Option<Arc<ClientPlace>>,
}
