//! One JSON number as an element of a type, rounded as exactly as the type can be.

use std::str::FromStr;

use half::{bf16, f16};

use super::{Cursor, JsonError};
use crate::{
    tensor::{DataType, values::ValueError},
    text::cut_bytes,
};

/// A number as it stands in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    text: &'a [u8],
    negative: bool,
    /// All digits as one number, if they fit.
    digits: Option<u64>,
    /// The power of ten that `digits` is to be multiplied by.
    exponent: i32,
    /// Marks a number without a point and an exponent.
    whole: bool,
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Powers of ten from -22 to 22, to the nearest double.
const SCALES: [f64; 45] = [
    1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10,
    1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7,
    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Maximum number of digits that fit in a `u64` whatever they are.
const MAX_DIGITS: usize = 19;

/// Bytes that hold what is looked at of a plain number: a sign, nineteen digits, a point, two times eight bytes, and more.
const PLAIN: usize = 48;

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
            let (given, end) = pass_exponent(text, at + 1).ok_or(JsonError::Syntax)?;
            exponent = exponent.saturating_add(given);
            at = end;
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

    /// Reads a number as nearly all are: of no more digits than fit, and with a comma or the end of the list behind it.
    #[inline(always)]
    fn plain(text: &'a [u8; PLAIN]) -> Option<Self> {
        let negative = text[0] == b'-';
        let mut first = 0;
        if negative {
            foreseen();
            first = 1;
        }
        // One by one if they are few, as before most points: that many branches take less time.
        let (mut at, mut digits) = (first, 0);
        while let digit @ b'0'..=b'9' = text[at]
            && at < first + 3
        {
            digits = digits * 10 + u64::from(digit - b'0');
            at += 1;
        }
        if text[at].is_ascii_digit() {
            let (more, count) = leading_digits(&text[at..]);
            digits = digits * TENS[count] + more;
            at += count;
        }
        let mut count = at - first;
        if count == 0 || (count > 1 && text[first] == b'0') {
            return None;
        }
        let mut exponent = 0;
        let mut whole = true;
        if text[at] == b'.' {
            let (more, behind) = leading_digits(&text[at + 1..]);
            count += behind;
            if behind == 0 || count > MAX_DIGITS {
                return None;
            }
            digits = digits * TENS[behind] + more;
            at += 1 + behind;
            exponent = -(behind as i32);
            // Doubles have one or two more.
            while let digit @ b'0'..=b'9' = text[at]
                && count < MAX_DIGITS
            {
                digits = digits * 10 + u64::from(digit - b'0');
                count += 1;
                exponent -= 1;
                at += 1;
            }
            whole = false;
        }
        if let b'e' | b'E' = text[at] {
            let (given, end) = pass_exponent(text, at + 1)?;
            exponent = exponent.saturating_add(given);
            at = end;
            whole = false;
        }
        matches!(text.get(at), Some(b',' | b']')).then_some(Self {
            text: &text[..at],
            negative,
            digits: Some(digits),
            exponent,
            whole,
        })
    }

    #[inline(always)]
    fn as_f32(self) -> Option<f32> {
        // Halfway between two singles, a double has this and nothing else in its last 29 bits.
        const TIE: u64 = 1 << 28;
        const LAST: u64 = (1 << 29) - 1;
        const NEAR: u64 = 8;
        // Beyond these exponents singles have fewer bits or are none.
        const MIN_BITS: u64 = f64::to_bits(f32::MIN_POSITIVE as f64);
        const MAX_BITS: u64 = 1e38_f64.to_bits();
        if let Some(value) = self.nearly() {
            let bits = value.to_bits();
            let clear = (bits & LAST).wrapping_sub(TIE - NEAR) > 2 * NEAR;
            if (clear && (MIN_BITS..MAX_BITS).contains(&bits)) || bits == 0 {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "to the nearest, which is clear"
                )]
                let value = value as f32;
                // A branch by the sign is one that no processor foresees.
                let sign = u32::from(self.negative) << 31;
                return Some(f32::from_bits(value.to_bits() | sign));
            }
        }
        parsed(self.text).filter(|value: &f32| value.is_finite())
    }

    /// Returns the number without its sign as a double that is at most three units in the last place off, if that is to be
    /// had cheaply.
    #[inline(always)]
    #[expect(
        clippy::cast_precision_loss,
        reason = "that rounding is one of three: of the digits, of the power, and of the product"
    )]
    fn nearly(self) -> Option<f64> {
        // One instruction converts an `i64`, and several a `u64`.
        let digits = i64::try_from(self.digits?).ok()? as f64;
        // A product is there in a third of the time of a quotient.
        let scale = SCALES.get(self.exponent.wrapping_add(22) as usize)?;
        Some(digits * scale)
    }

    #[inline(always)]
    fn as_f64(self) -> Option<f64> {
        const EXACT: u64 = 1 << 53;
        if let Some(digits) = self.digits.filter(|&digits| digits <= EXACT)
            && let Some(power) = POWERS.get(self.exponent.unsigned_abs() as usize)
        {
            // One rounding, so to the nearest.
            let digits = digits as f64;
            let value = match self.exponent < 0 {
                true => digits / power,
                false => digits * power,
            };
            return Some(if self.negative { -value } else { value });
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
    const MAX_SHOWN: usize = 40;
    let value = cut_bytes(&String::from_utf8_lossy(text), MAX_SHOWN);
    match unfit {
        Unfit::Kind => ValueError::Kind {
            found: value,
            dtype,
        },
        Unfit::Range => ValueError::Range { value, dtype },
    }
}

/// Reason why a number is no element of a type.
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

/// Passes over the exponent behind an `e`; returns it with its end.
#[inline]
fn pass_exponent(text: &[u8], mut at: usize) -> Option<(i32, usize)> {
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
    let given = if below_one { -given } else { given };
    (at > first).then_some((given, at))
}

/// Returns the number that the digits at the beginning of a text are, and how many they are, up to sixteen.
#[inline(always)]
fn leading_digits(text: &[u8]) -> (u64, usize) {
    let (eights, _) = text.as_chunks();
    let (first, count) = leading_of_eight(eights[0]);
    if count <= MAX_SHORT {
        return (first, count);
    }
    let (second, more) = leading_of_eight(eights[1]);
    // They count if all of the first are digits.
    let mask = (count / 8).wrapping_neg();
    let (second, more) = (second & mask as u64, more & mask);
    (first * TENS[more] + second, count + more)
}

/// Maximum number of digits with which the next eight bytes are not looked at. A shortest single has seven or more.
const MAX_SHORT: usize = 5;

/// Powers of ten up to that of sixteen digits.
const TENS: [u64; 17] = {
    let mut tens = [1; 17];
    let mut at = 1;
    while at < tens.len() {
        tens[at] = tens[at - 1] * 10;
        at += 1;
    }
    tens
};

/// Returns the number that the digits at the beginning are, and how many they are. All bytes are looked at together,
/// however many of them are digits: where a number ends is a branch that no processor foresees.
#[inline(always)]
fn leading_of_eight(text: [u8; 8]) -> (u64, usize) {
    const fn all(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    // The first is the lowest byte. Digits become their values, which stay below 16 with 6 more; a carry of another byte
    // changes only what is behind it.
    let values = u64::from_le_bytes(text) ^ all(b'0');
    let others = (values | values.wrapping_add(all(6))) & all(0xf0);
    let bits = others.trailing_zeros() & !7;
    // Zeros before them, as many as there are bytes behind them.
    let digits = values.checked_shl(64 - bits).unwrap_or(0);
    // Bytes to pairs, pairs to fours, and these to one.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (odd, even) = (pairs & 0xff_0000_00ff, (pairs >> 16) & 0xff_0000_00ff);
    let number = odd
        .wrapping_mul(100 + (1_000_000 << 32))
        .wrapping_add(even.wrapping_mul(1 + (10_000 << 32)))
        >> 32;
    (number, bits as usize / 8)
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
        ($type:ty, $convert:expr) => {
            run(cursor, dtype, alone, out, $convert, <$type>::to_le_bytes)
        };
    }
    macro_rules! ints {
        ($int:ty) => {
            run!($int, |number| number.as_int::<$int>(truncate))
        };
    }
    match dtype {
        DataType::F32 => run!(f32, |number| number.as_f32().ok_or(Unfit::Range)),
        DataType::F64 => run!(f64, |number| number.as_f64().ok_or(Unfit::Range)),
        DataType::F16 => run!(f16, |number| {
            let value = number.as_f64().map(f16::from_f64);
            let finite = value.filter(|value| value.is_finite());
            finite.ok_or(Unfit::Range)
        }),
        DataType::Bf16 => run!(bf16, |number| {
            let value = number.as_f64().map(bf16::from_f64);
            let finite = value.filter(|value| value.is_finite());
            finite.ok_or(Unfit::Range)
        }),
        DataType::I8 => ints!(i8),
        DataType::I16 => ints!(i16),
        DataType::I32 => ints!(i32),
        DataType::I64 => ints!(i64),
        DataType::U8 => ints!(u8),
        DataType::U16 => ints!(u16),
        DataType::U32 => ints!(u32),
        DataType::U64 => ints!(u64),
        DataType::Bool | DataType::String => run!(u8, |_| Err(Unfit::Kind)),
    }
}

#[inline]
fn run<'a, T, const N: usize>(
    cursor: &mut Cursor<'a>,
    dtype: DataType,
    alone: bool,
    out: &mut Vec<u8>,
    convert: impl Fn(Number<'a>) -> Result<T, Unfit>,
    to_bytes: impl Fn(T) -> [u8; N],
) -> Result<usize, JsonError> {
    let mut count = 0;
    loop {
        let plain = match alone {
            true => 0,
            false => run_plain(cursor, out, &convert, &to_bytes),
        };
        count += plain;
        if plain == 0 {
            match Number::read(cursor) {
                Ok(number) => {
                    let value =
                        convert(number).map_err(|unfit| error(number.text, dtype, unfit))?;
                    out.extend_from_slice(&to_bytes(value));
                }
                Err(_) => not_finite(cursor, dtype, out)?,
            }
            count += 1;
        }
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

/// Takes what is no finite number, where there is no other.
#[cold]
fn not_finite(
    cursor: &mut Cursor<'_>,
    dtype: DataType,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    let (word, value) = cursor.not_finite().ok_or(JsonError::Syntax)?;
    match dtype {
        DataType::F64 => out.extend_from_slice(&value.to_le_bytes()),
        #[expect(clippy::cast_possible_truncation, reason = "each has all three")]
        DataType::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        DataType::F16 => out.extend_from_slice(&f16::from_f64(value).to_le_bytes()),
        DataType::Bf16 => out.extend_from_slice(&bf16::from_f64(value).to_le_bytes()),
        _ => return Err(error(word.as_bytes(), dtype, Unfit::Kind).into()),
    }
    Ok(())
}

/// Keeps the branch that it stands in: without it the compiler adds the outcome of the comparison, and where the next
/// number begins is known later than a processor foresees.
#[inline(always)]
fn foreseen() {
    std::hint::black_box(());
}

/// Reads numbers as long as they are plain, with a comma and at most one blank between them, and far from the end of the
/// text; returns how many. A loop that does nothing else has all it needs in registers.
#[inline(never)]
fn run_plain<'a, T, const N: usize>(
    cursor: &mut Cursor<'a>,
    out: &mut Vec<u8>,
    convert: impl Fn(Number<'a>) -> Result<T, Unfit>,
    to_bytes: impl Fn(T) -> [u8; N],
) -> usize {
    let text = cursor.text;
    let mut at = cursor.at;
    let mut count = 0;
    while let Some(part) = text.get(at..).and_then(<[u8]>::first_chunk)
        && let Some(number) = Number::plain(part)
        && let Ok(value) = convert(number)
    {
        out.extend_from_slice(&to_bytes(value));
        count += 1;
        let length = number.text.len();
        cursor.at = at + length;
        if part[length] != b',' {
            break;
        }
        at += length + 1;
        if part.get(length + 1) == Some(&b' ') {
            foreseen();
            at += 1;
        }
    }
    count
}
