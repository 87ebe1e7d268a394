//! Our element types and shapes to OpenVINO's and back.

use openvino::ElementType;

use super::ffi::Range;
use crate::tensor::{DataType, Dim, PartialShape};

/// Returns our type for OpenVINO's, or `None` for one that no protocol can carry (4-bit types and
/// the like).
pub(super) const fn dtype(element: ElementType) -> Option<DataType> {
    Some(match element {
        ElementType::Boolean => DataType::Bool,
        ElementType::I8 => DataType::I8,
        ElementType::I16 => DataType::I16,
        ElementType::I32 => DataType::I32,
        ElementType::I64 => DataType::I64,
        ElementType::U8 => DataType::U8,
        ElementType::U16 => DataType::U16,
        ElementType::U32 => DataType::U32,
        ElementType::U64 => DataType::U64,
        ElementType::F16 => DataType::F16,
        ElementType::Bf16 => DataType::Bf16,
        ElementType::F32 => DataType::F32,
        ElementType::F64 => DataType::F64,
        ElementType::String => DataType::String,
        _ => return None,
    })
}

/// Returns OpenVINO's type for ours.
pub(super) const fn element_type(dtype: DataType) -> ElementType {
    match dtype {
        DataType::Bool => ElementType::Boolean,
        DataType::I8 => ElementType::I8,
        DataType::I16 => ElementType::I16,
        DataType::I32 => ElementType::I32,
        DataType::I64 => ElementType::I64,
        DataType::U8 => ElementType::U8,
        DataType::U16 => ElementType::U16,
        DataType::U32 => ElementType::U32,
        DataType::U64 => ElementType::U64,
        DataType::F16 => ElementType::F16,
        DataType::Bf16 => ElementType::Bf16,
        DataType::F32 => ElementType::F32,
        DataType::F64 => ElementType::F64,
        DataType::String => ElementType::String,
    }
}

/// Returns our shape for OpenVINO's.
pub(super) fn partial_shape(shape: &[Range]) -> PartialShape {
    PartialShape(shape.iter().map(dim).collect())
}

/// OpenVINO writes "no upper limit" as -1.
fn dim(range: &Range) -> Dim {
    let low = usize::try_from(range.least).unwrap_or(0);
    match usize::try_from(range.most) {
        Ok(high) if high == low => Dim::Fixed(high),
        Ok(high) => Dim::Range(low, high),
        Err(_) if low == 0 => Dim::Any,
        Err(_) => Dim::Range(low, usize::MAX),
    }
}

/// Returns OpenVINO's shape for ours. A length beyond its numbers becomes the largest of them: as an
/// upper limit that is none, and as a length no model takes it.
pub(super) fn ranges(shape: &PartialShape) -> Vec<Range> {
    let number = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let range = |dim: &Dim| {
        let (least, most) = match *dim {
            Dim::Fixed(length) => (number(length), number(length)),
            Dim::Range(low, high) => (number(low), number(high)),
            Dim::Any => (-1, -1),
        };
        Range { least, most }
    };
    shape.0.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::{dtype, element_type};
    use crate::tensor::DataType;

    #[test]
    fn types_go_there_and_back() {
        for ours in DataType::ALL {
            assert_eq!(dtype(element_type(ours)), Some(ours));
        }
    }
}
