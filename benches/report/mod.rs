//! The figures of a run: which there are, how they are written down, and what they depend on.
//!
//! Nothing in here measures, so that tests include it as it is.

pub(crate) mod busy;
pub(crate) mod catalog;
pub(crate) mod page;
pub(crate) mod row;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod table;
pub(crate) mod when;
