//! Values for inputs that were given none: zeros, or random ones.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::ValueProblem;
use crate::tensor::{DataType, Tensor, byte_size, elements, values::Packer};

/// The largest random whole number: it fits every type, and most tables of words.
const MAX: u64 = 100;

/// The length of a random string.
const LETTERS: usize = 8;

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
        _ => packer.push_u64(random.random_range(0..=MAX))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Fill, Filler};
    use crate::tensor::{
        DataType,
        values::{Value, values},
    };

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
    fn a_shape_that_cannot_be_counted_is_refused() {
        let error = Filler::new(Fill::Zeros)
            .tensor(DataType::F32, vec![usize::MAX, 2])
            .unwrap_err();
        assert!(error.to_string().ends_with("is too large"));
    }
}
