//! Arrays of one type as tensors of another, where it was asked for.

use super::ValueProblem;
use crate::tensor::{
    DataType, Tensor,
    values::{Packer, Value, ValueError, values},
};

/// The first whole number above the largest of UINT64.
const U64_END: f64 = 18_446_744_073_709_551_616.0;
/// The smallest of INT64.
const I64_START: f64 = -9_223_372_036_854_775_808.0;

/// Converts every element: to the nearest number of a floating point type, or to the same whole
/// number of an integer type.
///
/// A fraction has no whole number to become, and a number out of range none to fit: both fail.
pub(super) fn convert(tensor: &Tensor, dtype: DataType) -> Result<Tensor, ValueProblem> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    let mut packer = Packer::new(dtype, tensor.len());
    for value in values(tensor) {
        match value {
            Value::Bool(value) if dtype != DataType::String => packer.push_u64(value.into()),
            Value::Bool(value) => packer.push_bool(value),
            Value::Int(value) => packer.push_i64(value),
            Value::Uint(value) => packer.push_u64(value),
            Value::Single(value) => push_float(&mut packer, value.into()),
            Value::Double(value) => push_float(&mut packer, value),
            Value::Bytes(value) => packer.push_bytes(value),
        }
        .map_err(|error| match value.as_f64() {
            Some(number) => {
                let found = tensor.dtype();
                ValueProblem::Misfit(format!("{number} of {found} does not fit {dtype}"))
            }
            None => error.into(),
        })?;
    }
    Ok(Tensor::new(
        dtype,
        tensor.shape().to_vec(),
        packer.finish(),
    )?)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is whole and in range"
)]
fn push_float(packer: &mut Packer, value: f64) -> Result<(), ValueError> {
    let is_whole = value.fract() == 0.0;
    if packer.dtype().is_float() || !is_whole {
        packer.push_f64(value)
    } else if (0.0..U64_END).contains(&value) {
        packer.push_u64(value as u64)
    } else if (I64_START..0.0).contains(&value) {
        packer.push_i64(value as i64)
    } else {
        packer.push_f64(value)
    }
}

#[cfg(test)]
mod tests {
    use super::convert;
    use crate::tensor::{
        DataType, Tensor,
        values::{Packer, values},
    };

    fn doubles(numbers: &[f64]) -> Tensor {
        let mut packer = Packer::new(DataType::F64, numbers.len());
        for number in numbers {
            packer.push_f64(*number).unwrap();
        }
        Tensor::new(DataType::F64, vec![numbers.len()], packer.finish()).unwrap()
    }

    #[test]
    fn whole_numbers_go_into_every_number_type() {
        for dtype in DataType::ALL {
            if matches!(dtype, DataType::Bool | DataType::String) {
                continue;
            }
            let tensor = convert(&doubles(&[0.0, 1.0, 100.0]), dtype).unwrap();
            assert_eq!(tensor.dtype(), dtype);
            let read: Vec<_> = values(&tensor).filter_map(|value| value.as_f64()).collect();
            assert_eq!(read, [0.0, 1.0, 100.0], "{dtype}");
        }
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        for (number, dtype, expected) in [
            (0.5, DataType::I32, "0.5 of FP64 does not fit INT32"),
            (300.0, DataType::U8, "300 of FP64 does not fit UINT8"),
            (-1.0, DataType::U64, "-1 of FP64 does not fit UINT64"),
            (f64::NAN, DataType::I8, "NaN of FP64 does not fit INT8"),
            (1.0, DataType::Bool, "1 of FP64 does not fit BOOL"),
            (
                1e30,
                DataType::U64,
                "1000000000000000000000000000000 of FP64 does not fit UINT64",
            ),
        ] {
            let error = convert(&doubles(&[number]), dtype).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn truth_values_count_as_0_and_1() {
        let truth = Tensor::new(DataType::Bool, vec![2], vec![1, 0].into()).unwrap();
        let bytes = convert(&truth, DataType::U8).unwrap();
        assert_eq!(&bytes.data()[..], [1, 0]);
    }
}
