//! One JSON number as an element of a type, rounded as exactly as the type can be.

use std::str::FromStr;

use half::{bf16, f16};

use super::{Cursor, JsonError};
use crate::tensor::{DataType, values::ValueError};

/// A number as it stands in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    text: &'a [u8],
    negative: bool,
    /// All digits as one number, if they fit.
    digits: Option<u64>,
    /// The power of ten that `digits` is to be multiplied by.
    exponent: i32,
    /// Neither a point nor an exponent.
    whole: bool,
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The most digits that fit in a `u64` whatever they are.
const MAX_DIGITS: usize = 19;

impl<'a> Number<'a> {
    /// Passes over a number. This and what follows is made part of the loop over a list, and what is rare is given the
    /// text alone: a number that is handed over in memory takes twice as long.
    #[inline(always)]
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, JsonError> {
        let text = cursor.text;
        let start = cursor.at;
        let mut at = start;
        let negative = text.get(at) == Some(&b'-');
        at += usize::from(negative);

        let first = at;
        let mut digits = 0;
        at = pass_digits(text, at, &mut digits);
        let mut count = at - first;
        if count == 0 || (count > 1 && text[first] == b'0') {
            return Err(JsonError::Syntax);
        }
        let mut exponent = 0;
        let mut whole = true;
        if text.get(at) == Some(&b'.') {
            let first = at + 1;
            at = pass_digits(text, first, &mut digits);
            let fraction = at - first;
            if fraction == 0 {
                return Err(JsonError::Syntax);
            }
            count += fraction;
            // As many digits as to overflow this are not looked at by their number.
            exponent = i32::try_from(fraction).map_or(i32::MIN, |fraction| -fraction);
            whole = false;
        }
        if let Some(b'e' | b'E') = text.get(at) {
            at += 1;
            let below_one = text.get(at) == Some(&b'-');
            at += usize::from(matches!(text.get(at), Some(b'-' | b'+')));
            let first = at;
            let mut given: i32 = 0;
            while let Some(digit @ b'0'..=b'9') = text.get(at) {
                given = given
                    .saturating_mul(10)
                    .saturating_add(i32::from(digit - b'0'));
                at += 1;
            }
            if at == first {
                return Err(JsonError::Syntax);
            }
            exponent = exponent.saturating_add(if below_one { -given } else { given });
            whole = false;
        }
        cursor.at = at;
        Ok(Self {
            text: &text[start..at],
            negative,
            digits: (count <= MAX_DIGITS).then_some(digits),
            exponent,
            whole,
        })
    }

    /// Returns the number as a double that is at most two units in the last place off, if that is
    /// to be had cheaply.
    #[inline(always)]
    #[expect(
        clippy::cast_precision_loss,
        reason = "that rounding is one of the two"
    )]
    fn nearly(self) -> Option<f64> {
        let digits = self.digits? as f64;
        let power = POWERS.get(self.exponent.unsigned_abs() as usize)?;
        let value = if self.exponent < 0 {
            digits / power
        } else {
            digits * power
        };
        Some(if self.negative { -value } else { value })
    }

    #[inline(always)]
    fn as_f32(self) -> Option<f32> {
        // Halfway between two singles, a double has this and nothing else in its last 29 bits.
        const TIE: u64 = 1 << 28;
        const LAST: u64 = (1 << 29) - 1;
        const NEAR: u64 = 8;
        if let Some(value) = self.nearly() {
            let last = value.to_bits() & LAST;
            let clear = last.wrapping_sub(TIE - NEAR) > 2 * NEAR;
            // Below that singles have fewer bits.
            let normal = value.abs() >= f64::from(f32::MIN_POSITIVE);
            if (clear && normal) || value == 0.0 {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "to the nearest, which is clear"
                )]
                let value = value as f32;
                return value.is_finite().then_some(value);
            }
        }
        parsed(self.text).filter(|value: &f32| value.is_finite())
    }

    #[inline(always)]
    fn as_f64(self) -> Option<f64> {
        const EXACT: u64 = 1 << 53;
        if self.digits.is_some_and(|digits| digits <= EXACT)
            && let Some(value) = self.nearly()
        {
            // One rounding, so to the nearest.
            return Some(value);
        }
        parsed(self.text).filter(|value: &f64| value.is_finite())
    }

    /// Returns the number as an integer of a type; `truncate` cuts a fraction off.
    #[inline(always)]
    fn as_int<T: TryFrom<u64> + TryFrom<i64> + TryFrom<i128>>(
        self,
        truncate: bool,
    ) -> Result<T, Unfit> {
        match self.digits {
            Some(digits) if self.whole && !self.negative => {
                T::try_from(digits).map_err(|_| Unfit::Range)
            }
            Some(digits) if self.whole => 0_i64
                .checked_sub_unsigned(digits)
                .and_then(|value| T::try_from(value).ok())
                .ok_or(Unfit::Range),
            _ if self.whole => {
                let value: i128 = parsed(self.text).ok_or(Unfit::Range)?;
                T::try_from(value).map_err(|_| Unfit::Range)
            }
            _ if truncate => {
                let value = self.as_f64().ok_or(Unfit::Range)?;
                // Saturates far beyond the range of every type.
                #[expect(clippy::cast_possible_truncation, reason = "as documented")]
                T::try_from(value as i128).map_err(|_| Unfit::Range)
            }
            _ => Err(Unfit::Kind),
        }
    }
}

/// Parses the text of one of the few numbers that are not to be had cheaply.
#[cold]
fn parsed<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Makes the error of a number that is no element of a type.
#[cold]
fn error(text: &[u8], dtype: DataType, unfit: Unfit) -> ValueError {
    // A number may be as long as the body.
    const LONGEST: usize = 40;
    let mut value = String::from_utf8_lossy(text).into_owned();
    if value.len() > LONGEST {
        value.truncate(LONGEST);
        value.push('…');
    }
    match unfit {
        Unfit::Kind => ValueError::Kind {
            found: value,
            dtype,
        },
        Unfit::Range => ValueError::Range { value, dtype },
    }
}

/// Why a number is no element of a type.
#[derive(Debug, Clone, Copy)]
enum Unfit {
    Kind,
    Range,
}

#[inline]
fn pass_digits(text: &[u8], mut at: usize, digits: &mut u64) -> usize {
    while let Some(digit @ b'0'..=b'9') = text.get(at) {
        *digits = digits
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'));
        at += 1;
    }
    at
}

/// Reads the numbers of a list up to its end or to something else, and appends them; returns how
/// many there were. `alone`: reads one only.
pub(super) fn numbers(
    cursor: &mut Cursor<'_>,
    dtype: DataType,
    truncate: bool,
    alone: bool,
    out: &mut Vec<u8>,
) -> Result<usize, JsonError> {
    macro_rules! run {
        ($convert:expr) => {
            run(cursor, dtype, alone, out, $convert)
        };
    }
    macro_rules! ints {
        ($int:ty) => {
            run!(|number| number.as_int::<$int>(truncate).map(<$int>::to_le_bytes))
        };
    }
    match dtype {
        DataType::F32 => run!(|number| number.as_f32().map(f32::to_le_bytes).ok_or(Unfit::Range)),
        DataType::F64 => run!(|number| number.as_f64().map(f64::to_le_bytes).ok_or(Unfit::Range)),
        DataType::F16 => run!(|number| {
            let value = number.as_f64().map(f16::from_f64);
            let finite = value.filter(|value| value.is_finite());
            finite.map(f16::to_le_bytes).ok_or(Unfit::Range)
        }),
        DataType::Bf16 => run!(|number| {
            let value = number.as_f64().map(bf16::from_f64);
            let finite = value.filter(|value| value.is_finite());
            finite.map(bf16::to_le_bytes).ok_or(Unfit::Range)
        }),
        DataType::I8 => ints!(i8),
        DataType::I16 => ints!(i16),
        DataType::I32 => ints!(i32),
        DataType::I64 => ints!(i64),
        DataType::U8 => ints!(u8),
        DataType::U16 => ints!(u16),
        DataType::U32 => ints!(u32),
        DataType::U64 => ints!(u64),
        DataType::Bool | DataType::String => {
            run!(|_| Err::<[u8; 1], _>(Unfit::Kind))
        }
    }
}

#[inline]
fn run<'a, const N: usize>(
    cursor: &mut Cursor<'a>,
    dtype: DataType,
    alone: bool,
    out: &mut Vec<u8>,
    convert: impl Fn(Number<'a>) -> Result<[u8; N], Unfit>,
) -> Result<usize, JsonError> {
    let mut count = 0;
    loop {
        let number = Number::read(cursor)?;
        let bytes = convert(number).map_err(|unfit| error(number.text, dtype, unfit))?;
        out.extend_from_slice(&bytes);
        count += 1;
        if alone || cursor.token() != Some(b',') {
            return Ok(count);
        }
        let comma = cursor.at;
        cursor.at += 1;
        if !matches!(cursor.token(), Some(b'-' | b'0'..=b'9')) {
            // For the caller, from the comma on.
            cursor.at = comma;
            return Ok(count);
        }
    }
}
