//! Rules of graph files, and the errors of those that are broken.

mod error;
mod found;

pub use error::{FileWarning, GraphErrors, GraphFileError, GraphRule};
pub(super) use found::{Found, New};
