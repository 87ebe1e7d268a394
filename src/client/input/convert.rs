//! Arrays of one type as tensors of another, and values for inputs that were given none: zeros, or random ones.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::ValueProblem;
use crate::{
    client::json::{overflows, written},
    tensor::{
        DataType, ShapeText, Tensor, TensorError, byte_size, elements,
        values::{Packer, Value, ValueError, values},
    },
};

/// The first whole number above the largest of UINT64.
const U64_END: f64 = 18_446_744_073_709_551_616.0;
/// The smallest of INT64.
const I64_START: f64 = -9_223_372_036_854_775_808.0;

/// The types of each kind, of which each is converted to the others by itself.
const KINDS: [&[DataType]; 3] = [
    &[DataType::F16, DataType::Bf16, DataType::F32, DataType::F64],
    &[DataType::I8, DataType::I16, DataType::I32, DataType::I64],
    &[DataType::U8, DataType::U16, DataType::U32, DataType::U64],
];

/// Converts an array to the datatype of the model's input, which nobody has asked for: NumPy makes FP64 and INT64
/// of most numbers, and models take FP32 and INT32. A type of another kind is more likely a mistake.
pub(super) fn adapt(tensor: &Tensor, expected: DataType) -> Result<Tensor, ValueProblem> {
    let found = tensor.dtype();
    let is_alike = |kind: &&[DataType]| kind.contains(&found) && kind.contains(&expected);
    match found == expected || KINDS.iter().any(is_alike) {
        true => convert(tensor, expected),
        false => Err(ValueProblem::Dtype { found, expected }),
    }
}

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
        let pushed = match value {
            Value::Bool(value) if dtype != DataType::String => packer.push_u64(value.into()),
            Value::Bool(value) => packer.push_bool(value),
            Value::Int(value) => packer.push_i64(value),
            Value::Uint(value) => packer.push_u64(value),
            Value::Single(value) => push_float(&mut packer, value.into()),
            Value::Double(value) => push_float(&mut packer, value),
            Value::Bytes(value) => packer.push_bytes(value),
        };
        match pushed {
            Ok(()) if !overflows(value, dtype) => {}
            Err(error) if matches!(value, Value::Bytes(_)) => return Err(error.into()),
            _ => {
                return Err(ValueProblem::Range {
                    value: written(value),
                    found: tensor.dtype(),
                    expected: dtype,
                });
            }
        }
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

/// The largest random whole number: it fits every type, and most tables of words.
const MAX_RANDOM: u64 = 100;

/// The length of a random string.
const LETTERS: usize = 8;

/// Maximum size of a tensor that is filled in bytes: a message of Protocol Buffers has 2 GiB at most.
const MAX_FILLED: usize = 2 << 30;

/// Values to fill inputs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Zeros, `false`, or empty strings.
    Zeros,
    /// Random values: numbers with a fraction from 0 up to 1, whole numbers from 0 to 100,
    /// strings of 8 letters. The same seed gives the same values.
    Random(Option<u64>),
}

/// Makes tensors of a [`Fill`], one after another.
#[derive(Debug)]
pub(super) struct Filler(Option<StdRng>);

impl Filler {
    pub(super) fn new(fill: Fill) -> Self {
        Self(match fill {
            Fill::Zeros => None,
            Fill::Random(Some(seed)) => Some(StdRng::seed_from_u64(seed)),
            Fill::Random(None) => Some(rand::make_rng()),
        })
    }

    pub(super) fn tensor(
        &mut self,
        dtype: DataType,
        shape: Vec<usize>,
    ) -> Result<Tensor, ValueProblem> {
        // Checks that the size can be counted.
        let size = byte_size(dtype, &shape)?;
        let count = elements(&shape).unwrap_or(0);
        let needed = size.unwrap_or(count.saturating_mul(4 + LETTERS));
        if needed > MAX_FILLED {
            return Err(TensorError::Overflow(ShapeText(&shape).to_string()).into());
        }
        let data = match (&mut self.0, size) {
            (None, Some(size)) => vec![0; size].into(),
            (None, None) => vec![0; count * 4].into(),
            (Some(random), _) => {
                let mut packer = Packer::new(dtype, count);
                for _ in 0..count {
                    push(random, &mut packer)?;
                }
                packer.finish()
            }
        };
        Ok(Tensor::new(dtype, shape, data)?)
    }
}

fn push(random: &mut StdRng, packer: &mut Packer) -> Result<(), ValueProblem> {
    match packer.dtype() {
        DataType::Bool => packer.push_bool(random.random())?,
        DataType::String => {
            let letters: [u8; LETTERS] = std::array::from_fn(|_| random.random_range(b'a'..=b'z'));
            packer.push_bytes(&letters)?;
        }
        dtype if dtype.is_float() => packer.push_f64(random.random())?,
        _ => packer.push_u64(random.random_range(0..=MAX_RANDOM))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Fill, Filler, adapt, convert};
    use crate::tensor::{
        DataType, Tensor,
        values::{Packer, Value, values},
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
            (65_520.0, DataType::F16, "65520 of FP64 does not fit FP16"),
            (1e30, DataType::U64, "1e30 of FP64 does not fit UINT64"),
        ] {
            let error = convert(&doubles(&[number]), dtype).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn arrays_become_other_types_of_their_kind_and_no_others() {
        let kinds = [
            &["FP16", "BF16", "FP32", "FP64"][..],
            &["INT8", "INT16", "INT32", "INT64"],
            &["UINT8", "UINT16", "UINT32", "UINT64"],
        ];
        for found in DataType::ALL {
            for expected in DataType::ALL {
                let tensor = Filler::new(Fill::Zeros).tensor(found, vec![2]).unwrap();
                let names = [found.kserve(), expected.kserve()];
                let is_alike = found == expected
                    || kinds
                        .iter()
                        .any(|kind| names.iter().all(|name| kind.contains(name)));
                match adapt(&tensor, expected) {
                    Ok(made) => {
                        assert!(is_alike, "{names:?}");
                        assert_eq!((made.dtype(), made.shape()), (expected, &[2][..]));
                    }
                    Err(error) => {
                        assert!(!is_alike, "{names:?}: {error}");
                        let text = format!("found elements of {found}, expected {expected}");
                        assert_eq!(error.to_string(), text);
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_element_that_does_not_fit_is_named_with_all_of_its_digits() {
        let of = |numbers: &[i64]| {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
            let bytes = bytes.collect::<Vec<u8>>();
            Tensor::new(DataType::I64, vec![numbers.len()], bytes.into()).unwrap()
        };
        let fits = adapt(&of(&[-5, 2_147_483_647]), DataType::I32).unwrap();
        assert_eq!(fits.data()[..4], (-5_i32).to_le_bytes());
        let error = adapt(
            &of(&[1, 9_007_199_254_740_993, -3_000_000_000]),
            DataType::I32,
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "9007199254740993 of INT64 does not fit INT32"
        );
        // What is infinite already stays so.
        let wide = doubles(&[f64::INFINITY, f64::NAN, 0.1]);
        let made = adapt(&wide, DataType::F32).unwrap();
        assert_eq!(made.data()[..4], f32::INFINITY.to_le_bytes());
        let error = adapt(&doubles(&[0.5, -1e39]), DataType::F32).unwrap_err();
        assert_eq!(error.to_string(), "-1e39 of FP64 does not fit FP32");
    }

    #[test]
    fn truth_values_count_as_0_and_1() {
        let truth = Tensor::new(DataType::Bool, vec![2], vec![1, 0].into()).unwrap();
        let bytes = convert(&truth, DataType::U8).unwrap();
        assert_eq!(&bytes.data()[..], [1, 0]);
    }

    #[test]
    fn zeros_are_zeros_of_every_type() {
        for dtype in DataType::ALL {
            let tensor = Filler::new(Fill::Zeros).tensor(dtype, vec![2, 3]).unwrap();
            assert_eq!(values(&tensor).count(), 6, "{dtype}");
            assert!(tensor.data().iter().all(|byte| *byte == 0), "{dtype}");
        }
    }

    #[test]
    fn random_values_stay_in_their_range_and_follow_the_seed() {
        for dtype in DataType::ALL {
            let draw = |seed| {
                let mut filler = Filler::new(Fill::Random(seed));
                filler.tensor(dtype, vec![64]).unwrap()
            };
            let tensor = draw(Some(7));
            assert_eq!(tensor, draw(Some(7)), "{dtype}");
            assert_ne!(tensor, draw(None), "{dtype}");
            for value in values(&tensor) {
                match value {
                    Value::Bytes(text) => assert!(text.iter().all(u8::is_ascii_lowercase)),
                    value if dtype.is_float() => {
                        assert!((0.0..=1.0).contains(&value.as_f64().unwrap()));
                    }
                    value => assert!((0.0..=100.0).contains(&value.as_f64().unwrap())),
                }
            }
        }
    }

    #[test]
    fn a_shape_that_is_too_large_is_refused() {
        for (dtype, shape) in [
            (DataType::F32, [usize::MAX, 2]),
            (DataType::F32, [1 << 20, 1 << 20]),
            (DataType::U8, [(2 << 30) + 1, 1]),
            (DataType::String, [1 << 30, 1]),
        ] {
            for fill in [Fill::Zeros, Fill::Random(Some(1))] {
                let error = Filler::new(fill).tensor(dtype, shape.to_vec()).unwrap_err();
                assert!(error.to_string().ends_with("is too large"), "{error}");
            }
        }
    }
}
