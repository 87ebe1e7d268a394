//! Answers for people and programs: rows of a table, the best of many scores, JSON, and files.
//!
//! Nothing here is drawn or printed: tables are made of [`Summary`] and [`Ranked`] elsewhere.

mod json;
mod save;
mod summary;
mod top;

pub use json::{OfSequence, Part, answer_json, ranking_json, stream_json};
pub use save::{Saved, save, save_tensors};
pub use summary::{Spread, Summary, number};
pub use top::{Ranked, TopError, top};
