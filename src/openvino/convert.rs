//! Our element types and shapes to OpenVINO's and back.

use openvino::ElementType;
use openvino_sys::ov_dimension_t;

use crate::tensor::{DataType, Dim};

/// Our types with OpenVINO's, in the order of ours.
const TYPES: [(DataType, ElementType); 14] = [
    (DataType::Bool, ElementType::Boolean),
    (DataType::I8, ElementType::I8),
    (DataType::I16, ElementType::I16),
    (DataType::I32, ElementType::I32),
    (DataType::I64, ElementType::I64),
    (DataType::U8, ElementType::U8),
    (DataType::U16, ElementType::U16),
    (DataType::U32, ElementType::U32),
    (DataType::U64, ElementType::U64),
    (DataType::F16, ElementType::F16),
    (DataType::Bf16, ElementType::Bf16),
    (DataType::F32, ElementType::F32),
    (DataType::F64, ElementType::F64),
    (DataType::String, ElementType::String),
];

/// Returns our type for OpenVINO's, or `None` for one that no protocol can carry (4-bit types and
/// the like).
pub(super) fn dtype(element: ElementType) -> Option<DataType> {
    let found = TYPES.iter().find(|(_, theirs)| *theirs == element);
    found.map(|(ours, _)| *ours)
}

/// Returns OpenVINO's type for ours.
pub(super) const fn element_type(dtype: DataType) -> ElementType {
    TYPES[dtype as usize].1
}

/// Returns our dimension for OpenVINO's, which writes "no upper limit" as -1.
pub(super) fn dim(range: ov_dimension_t) -> Dim {
    let low = usize::try_from(range.min).unwrap_or(0);
    match usize::try_from(range.max) {
        Ok(high) if high == low => Dim::Fixed(high),
        Ok(high) => Dim::Range(low, high),
        Err(_) if low == 0 => Dim::Any,
        Err(_) => Dim::Range(low, usize::MAX),
    }
}

/// Returns OpenVINO's dimension for ours. A length beyond its numbers becomes the largest of them: as an
/// upper limit that is none, and as a length no model takes it.
pub(super) fn range(dim: &Dim) -> ov_dimension_t {
    let number = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let (min, max) = match *dim {
        Dim::Fixed(length) => (number(length), number(length)),
        Dim::Range(low, high) => (number(low), number(high)),
        Dim::Any => (-1, -1),
    };
    ov_dimension_t { min, max }
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
