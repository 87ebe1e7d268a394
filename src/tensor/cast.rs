//! The elements of a tensor as those of another type.

use half::{bf16, f16};

use super::{Tensor, dtype::DataType};

/// Returns a tensor with its elements as those of another type; `None` if one of the two types is
/// strings.
///
/// A floating point type takes the nearest number that it has. An integer type takes a number
/// without its fraction, and what is beyond its range as its least or greatest; not-a-number is 0.
/// BOOL is 0 and 1, and takes whatever is not 0 as true.
pub fn cast(tensor: &Tensor, dtype: DataType) -> Option<Tensor> {
    if dtype == tensor.dtype() {
        return (dtype != DataType::String).then(|| tensor.clone());
    }
    let data = tensor.data();
    let bytes = match tensor.dtype() {
        DataType::Bool => to::<Truth>(data, dtype),
        DataType::I8 => to::<i8>(data, dtype),
        DataType::I16 => to::<i16>(data, dtype),
        DataType::I32 => to::<i32>(data, dtype),
        DataType::I64 => to::<i64>(data, dtype),
        DataType::U8 => to::<u8>(data, dtype),
        DataType::U16 => to::<u16>(data, dtype),
        DataType::U32 => to::<u32>(data, dtype),
        DataType::U64 => to::<u64>(data, dtype),
        DataType::F16 => to::<f16>(data, dtype),
        DataType::Bf16 => to::<bf16>(data, dtype),
        DataType::F32 => to::<f32>(data, dtype),
        DataType::F64 => to::<f64>(data, dtype),
        DataType::String => None,
    }?;
    let shape = tensor.shape().to_vec();
    Some(Tensor::new(dtype, shape, bytes.into()).expect("as many elements"))
}

fn to<S: Number>(data: &[u8], dtype: DataType) -> Option<Vec<u8>> {
    let numbers = S::read(data).map(S::wide);
    Some(match dtype {
        DataType::Bool => Truth::write(numbers.map(Truth::of)),
        DataType::I8 => i8::write(numbers.map(i8::of)),
        DataType::I16 => i16::write(numbers.map(i16::of)),
        DataType::I32 => i32::write(numbers.map(i32::of)),
        DataType::I64 => i64::write(numbers.map(i64::of)),
        DataType::U8 => u8::write(numbers.map(u8::of)),
        DataType::U16 => u16::write(numbers.map(u16::of)),
        DataType::U32 => u32::write(numbers.map(u32::of)),
        DataType::U64 => u64::write(numbers.map(u64::of)),
        DataType::F16 => f16::write(numbers.map(f16::of)),
        DataType::Bf16 => bf16::write(numbers.map(bf16::of)),
        DataType::F32 => f32::write(numbers.map(f32::of)),
        DataType::F64 => f64::write(numbers.map(f64::of)),
        DataType::String => return None,
    })
}

/// An element of BOOL.
#[derive(Clone, Copy)]
struct Truth(bool);

impl Truth {
    fn from_le_bytes([byte]: [u8; 1]) -> Self {
        Self(byte != 0)
    }

    fn to_le_bytes(self) -> [u8; 1] {
        [u8::from(self.0)]
    }
}

/// A number as the widest of its kind, which has it exactly.
#[derive(Clone, Copy)]
enum Wide {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// A number of one of the types.
trait Number: Copy {
    fn read(data: &[u8]) -> impl ExactSizeIterator<Item = Self>;

    fn write(numbers: impl ExactSizeIterator<Item = Self>) -> Vec<u8>;

    fn wide(self) -> Wide;

    fn of(wide: Wide) -> Self;
}

/// Writes how types are read and written, how each is wide, and what it makes of each wide number.
macro_rules! numbers {
    ($($type:ident: |$own:ident| $wide:expr, |$signed:ident| $of_signed:expr,
        |$unsigned:ident| $of_unsigned:expr, |$float:ident| $of_float:expr;)+) => {$(
        #[expect(
            clippy::allow_attributes,
            reason = "which of the lints hit depends on the type"
        )]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            clippy::unnecessary_cast,
            reason = "`as` rounds to the nearest float and stops at the limits of integers"
        )]
        impl Number for $type {
            fn read(data: &[u8]) -> impl ExactSizeIterator<Item = Self> {
                let (elements, _) = data.as_chunks();
                elements.iter().map(|bytes| Self::from_le_bytes(*bytes))
            }

            fn write(numbers: impl ExactSizeIterator<Item = Self>) -> Vec<u8> {
                let mut data = vec![0; numbers.len() * size_of::<Self>()];
                let (elements, _) = data.as_chunks_mut();
                for (bytes, number) in elements.iter_mut().zip(numbers) {
                    *bytes = number.to_le_bytes();
                }
                data
            }

            fn wide(self) -> Wide {
                let $own = self;
                $wide
            }

            fn of(wide: Wide) -> Self {
                match wide {
                    Wide::Signed($signed) => $of_signed,
                    Wide::Unsigned($unsigned) => $of_unsigned,
                    Wide::Float($float) => $of_float,
                }
            }
        }
    )+};
}

macro_rules! integers {
    ($($type:ident: $kind:ident($wide:ty);)+) => {
        numbers!($(
            $type: |n| Wide::$kind(n as $wide),
                // The greatest of U64 is beyond that of I64.
                |n| n.clamp($type::MIN as i64, ($type::MAX as u64).min(i64::MAX as u64) as i64) as $type,
                |n| n.min($type::MAX as u64) as $type,
                |n| n as $type;
        )+);
    };
}

integers! {
    i8: Signed(i64);
    i16: Signed(i64);
    i32: Signed(i64);
    i64: Signed(i64);
    u8: Unsigned(u64);
    u16: Unsigned(u64);
    u32: Unsigned(u64);
    u64: Unsigned(u64);
}

numbers! {
    f32: |n| Wide::Float(n.into()), |n| n as f32, |n| n as f32, |n| n as f32;
    f64: |n| Wide::Float(n), |n| n as f64, |n| n as f64, |n| n;
    f16: |n| Wide::Float(n.to_f64()),
        |n| f16::from_f64(n as f64), |n| f16::from_f64(n as f64), |n| f16::from_f64(n);
    bf16: |n| Wide::Float(n.to_f64()),
        |n| bf16::from_f64(n as f64), |n| bf16::from_f64(n as f64), |n| bf16::from_f64(n);
    Truth: |n| Wide::Unsigned(n.0.into()), |n| Truth(n != 0), |n| Truth(n != 0), |n| Truth(n != 0.0);
}

#[cfg(test)]
mod tests {
    use super::cast;
    use crate::tensor::{
        Tensor,
        dtype::DataType,
        values::{Packer, Value, values},
    };

    fn doubles(numbers: &[f64]) -> Tensor {
        let mut packer = Packer::new(DataType::F64, numbers.len());
        for number in numbers {
            packer.push_f64(*number).unwrap();
        }
        Tensor::new(DataType::F64, vec![numbers.len()], packer.finish()).unwrap()
    }

    fn read(tensor: &Tensor) -> Vec<f64> {
        values(tensor).filter_map(|value| value.as_f64()).collect()
    }

    #[test]
    fn numbers_that_both_types_have_are_the_same_in_both() {
        let numbers = doubles(&[0.0, 1.0, 7.0, 100.0, 127.0]);
        for from in DataType::ALL {
            for to in DataType::ALL {
                let Some(given) = cast(&numbers, from) else {
                    assert_eq!(from, DataType::String);
                    continue;
                };
                let Some(made) = cast(&given, to) else {
                    assert_eq!(to, DataType::String);
                    continue;
                };
                assert_eq!((made.dtype(), made.shape()), (to, &[5][..]));
                let is_truth = [from, to].contains(&DataType::Bool);
                let expected: [f64; 5] = if is_truth {
                    [0.0, 1.0, 1.0, 1.0, 1.0]
                } else {
                    [0.0, 1.0, 7.0, 100.0, 127.0]
                };
                assert_eq!(read(&made), expected, "{from} {to}");
            }
        }
        assert_eq!(cast(&numbers, DataType::String), None);
        let text = Tensor::new(DataType::String, vec![0], Vec::new().into()).unwrap();
        assert_eq!(cast(&text, DataType::F32), None);
        assert_eq!(cast(&text, DataType::String), None);
    }

    #[test]
    fn fractions_are_cut_off_and_limits_are_kept() {
        let numbers = doubles(&[1.9, -1.9, 1e30, -1e30, f64::NAN, f64::INFINITY, -0.5]);
        for (dtype, low, high) in [
            (DataType::I8, -128.0, 127.0),
            (DataType::I16, -32_768.0, 32_767.0),
            (DataType::I32, -2_147_483_648.0, 2_147_483_647.0),
            (DataType::I64, i64::MIN as f64, i64::MAX as f64),
            (DataType::U8, 0.0, 255.0),
            (DataType::U16, 0.0, 65_535.0),
            (DataType::U32, 0.0, 4_294_967_295.0),
            (DataType::U64, 0.0, u64::MAX as f64),
        ] {
            let made = read(&cast(&numbers, dtype).unwrap());
            let least = if low < 0.0 { -1.0 } else { 0.0 };
            assert_eq!(made, [1.0, least, high, low, 0.0, high, 0.0], "{dtype}");
        }
        let truth = read(&cast(&numbers, DataType::Bool).unwrap());
        assert_eq!(truth, [1.0; 7]);
    }

    #[test]
    fn integers_stop_at_the_limits_of_others() {
        let of = |dtype, numbers: &[i128]| {
            let bytes = numbers.iter().flat_map(|number| match dtype {
                DataType::I64 => i64::try_from(*number).unwrap().to_le_bytes(),
                _ => u64::try_from(*number).unwrap().to_le_bytes(),
            });
            Tensor::new(
                dtype,
                vec![numbers.len()],
                bytes.collect::<Vec<u8>>().into(),
            )
            .unwrap()
        };
        let signed = of(
            DataType::I64,
            &[i64::MIN.into(), -129, -1, 128, 256, i64::MAX.into()],
        );
        let unsigned = of(DataType::U64, &[0, 128, 256, u64::MAX.into()]);
        for (tensor, dtype, expected) in [
            (
                &signed,
                DataType::I8,
                vec![-128.0, -128.0, -1.0, 127.0, 127.0, 127.0],
            ),
            (
                &signed,
                DataType::U8,
                vec![0.0, 0.0, 0.0, 128.0, 255.0, 255.0],
            ),
            (&unsigned, DataType::I8, vec![0.0, 127.0, 127.0, 127.0]),
            (&unsigned, DataType::U8, vec![0.0, 128.0, 255.0, 255.0]),
        ] {
            assert_eq!(read(&cast(tensor, dtype).unwrap()), expected, "{dtype}");
        }
        let wide = cast(&signed, DataType::U64).unwrap();
        let last = u64::try_from(i64::MAX).unwrap();
        assert_eq!(values(&wide).next(), Some(Value::Uint(0)));
        assert_eq!(values(&wide).last(), Some(Value::Uint(last)));
        let back = cast(&unsigned, DataType::I64).unwrap();
        assert_eq!(values(&back).last(), Some(Value::Int(i64::MAX)));
    }

    #[test]
    fn floats_take_the_nearest_number() {
        let numbers = doubles(&[0.1, 65_520.0, -1e300, 2049.0]);
        let half = read(&cast(&numbers, DataType::F16).unwrap());
        assert_eq!(half[1..], [f64::INFINITY, f64::NEG_INFINITY, 2048.0]);
        let single = read(&cast(&numbers, DataType::F32).unwrap());
        assert_eq!(single[0], f64::from(0.1_f32));
        let odd = Tensor::new(
            DataType::I64,
            vec![1],
            ((1_i64 << 24) + 1).to_le_bytes().to_vec().into(),
        );
        let single = read(&cast(&odd.unwrap(), DataType::F32).unwrap());
        assert_eq!(single, [16_777_216.0]);
    }
}
