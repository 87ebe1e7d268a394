//! Values to try a graph with.

use std::fmt::Write as _;

use super::stream::ScaffoldStream;
use crate::tensor::DataType;

/// The most values that are written out.
const MAX: i64 = 6;

/// A tensor to try an input with.
pub(super) struct Sample {
    pub(super) dtype: DataType,
    pub(super) shape: Vec<i64>,
}

impl Sample {
    /// Makes one that an input takes.
    pub(super) fn of(stream: &ScaffoldStream) -> Self {
        let dtype = stream.dtype.unwrap_or(DataType::F32);
        let shape = match (&stream.shape, dtype) {
            (Some(shape), _) => shape.iter().map(|length| any(*length)).collect(),
            (None, DataType::String) => vec![1],
            (None, _) => vec![3],
        };
        Self { dtype, shape }
    }

    pub(super) fn count(&self) -> i64 {
        self.shape
            .iter()
            .fold(1, |all, one| all.saturating_mul(*one))
    }
}

/// Takes 2 where any length will do.
fn any(length: i64) -> i64 {
    if length == -1 { 2 } else { length }
}

/// Writes the flags of `ovms infer` and `ovms graph run` that give each input a value, as they are
/// typed in a shell.
#[must_use]
pub fn flags(inputs: &[ScaffoldStream]) -> String {
    let mut text = String::new();
    let mut is_random = false;
    for (index, input) in inputs.iter().enumerate() {
        let sample = Sample::of(input);
        let (name, dtype) = (&input.name, sample.dtype);
        if index > 0 {
            text.push(' ');
        }
        // Writing to a text cannot fail.
        let _ = match (dtype, sample.count(), sample.shape.len()) {
            (DataType::String, 1, 0 | 1) => write!(text, "-i {name}:BYTES=hello"),
            (DataType::String, _, _) => {
                let (all, lengths) = (vec!["\"hello\""; few(&sample)], lengths(&sample.shape));
                write!(text, "-i '{name}:BYTES:{lengths}=[{}]'", all.join(","))
            }
            (_, 1..=MAX, 1) => {
                let values: Vec<String> = (0..sample.count()).map(|it| value(dtype, it)).collect();
                write!(text, "-i '{name}:{dtype}=[{}]'", values.join(","))
            }
            _ => {
                is_random = true;
                write!(text, "-i {name}:{dtype}:{}=", lengths(&sample.shape))
            }
        };
    }
    if is_random {
        text.push_str(" --random");
    }
    text
}

fn few(sample: &Sample) -> usize {
    usize::try_from(sample.count())
        .unwrap_or(usize::MAX)
        .min(64)
}

fn value(dtype: DataType, index: i64) -> String {
    match dtype {
        DataType::Bool => (index % 2 == 0).to_string(),
        _ => (index + 1).to_string(),
    }
}

fn lengths(shape: &[i64]) -> String {
    let lengths: Vec<String> = shape.iter().map(i64::to_string).collect();
    lengths.join(",")
}
