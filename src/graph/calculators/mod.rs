//! Calculators: what a node is to a graph, and the built-in ones.
//!
//! A calculator has a [`Contract`](contract::Contract) and is a [`Calculator`](calculator::Calculator), which gets and
//! gives [packets](packet::Packet) with [timestamps](timestamp::Timestamp). Those that graphs may name are in `stock`.

pub(super) mod calculator;
pub(super) mod contract;
pub(super) mod error;
pub(super) mod node;
pub(super) mod packet;
pub(super) mod servables;
mod stock;
pub(super) mod timestamp;

pub use stock::{absent, all, find};
