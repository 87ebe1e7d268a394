//! Answers for people and programs: rows of a table, the best of many scores, JSON, CSV, and files.
//!
//! Nothing here is drawn or printed: tables are made of [`Summary`] and [`Ranked`] elsewhere.

mod csv;
mod detections;
mod json;
mod save;
mod summary;

use crate::tensor::{
    Tensor,
    strings::unframed,
    values::{Value, values},
};

pub use csv::{CsvError, CsvTable, answer_csv, detections_csv, ranking_csv, row_counts};
pub use detections::{
    Detection, Detections, detections, may_be_detection_output, may_be_detections,
};
pub use json::{
    OfSequence, ResponsePart, answer_json, detection_members, detections_json, ranking_json,
    ranking_members, stream_json,
};
pub use save::{Saved, save_tensors};
pub use summary::{Ranked, Spread, Summary, TopError, hexadecimal, is_nan, number, top};

/// Iterates over the elements. BYTES whose elements are not behind their lengths are one.
fn elements(tensor: &Tensor) -> impl Iterator<Item = Value<'_>> {
    let bare = unframed(tensor);
    let framed = bare.is_none().then(|| values(tensor));
    bare.map(Value::Bytes)
        .into_iter()
        .chain(framed.into_iter().flatten())
}
