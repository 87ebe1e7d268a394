//! Rights of requests: the one place where each request of gRPC and REST is asked for its identity and its rights.
//!
//! [`Gate`] finds the identity of a request from its head, before a byte of the body is read, and asks for the
//! right that its endpoint needs: each method of gRPC has a [`Rule`] in the table of `rules.rs`, and each path of
//! REST is added with its own ([`Paths`]). It gives [`Access`], the engine as that caller sees it, without which no
//! handler reaches a servable: rights to a servable are asked there, as soon as its name is known. What a
//! caller may not see is as if it were not there.
//!
//! Identities are in [`crate::auth`]. Without `--auth` nobody is asked, and nothing of this runs.

mod access;
mod audit;
mod credential;
mod failures;
mod gate;
mod paths;
mod rules;

pub(crate) use access::Access;
pub(super) use access::NoRegions;
pub use audit::AuditLog;
pub(super) use audit::Outcome;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use credential::{Schemes, secret};
pub use gate::Gate;
pub(super) use gate::{Admitted, Caller};
pub(crate) use paths::RestContext;
pub(super) use paths::{PathRule, Paths, RestShared};
pub(super) use rules::{Rule, of_method};
