//! Figures of a run: their catalogue, their formats, and the sources they depend on.
//!
//! Nothing in here measures, so that tests can include it.

pub(crate) mod busy;
pub(crate) mod catalog;
pub(crate) mod curve;
pub(crate) mod page;
pub(crate) mod row;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod when;
