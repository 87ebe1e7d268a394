//! Rows of inputs that are filled.

use super::Target;
use crate::{
    client::message::TensorMetadata,
    tensor::{DataType, Dim},
};

/// Returns whether an input takes any number of rows.
pub(super) fn is_open(input: &TensorMetadata) -> bool {
    matches!(input.shape.0.first(), Some(Dim::Any | Dim::Range(..)))
}

/// Returns the smallest shape of an input with so many rows, if it takes them.
pub(super) fn with_rows(
    input: &TensorMetadata,
    dtype: Option<DataType>,
    rows: Option<usize>,
) -> Option<Vec<usize>> {
    let takes = |rows: &usize| is_open(input) && input.shape.0[0].allows(*rows);
    let rows = rows.filter(takes)?;
    let target = Target {
        model: Some(input),
        dtype,
        shape: None,
        is_whole: false,
    };
    let mut shape = target.smallest();
    *shape.first_mut()? = rows;
    Some(shape)
}
