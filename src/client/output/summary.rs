//! An output in one row: what it is, its extremes, and its first elements.

use std::{cmp::Ordering, fmt::Write as _};

use super::elements;
use crate::{
    tensor::{
        DataType, ShapeText, Tensor,
        strings::unframed,
        values::{Value, values},
    },
    text::cut_chars,
};

/// Number of elements shown.
const SHOWN: usize = 6;

/// Number of characters shown of a string.
const SHOWN_OF_A_STRING: usize = 32;

/// Number of bytes shown of contents that are neither a list of strings nor text.
const SHOWN_OF_BYTES: usize = 16;

/// Number of digits shown of a number with a fraction.
const DIGITS: i32 = 6;

/// An output in one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The name.
    pub name: String,
    /// The element type.
    pub dtype: DataType,
    /// The shape, printed.
    pub shape: String,
    /// The extremes of the numbers; `None` for strings and for no elements.
    pub spread: Option<Spread>,
    /// The first elements, printed.
    pub preview: String,
}

/// The extremes and the mean of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The mean; not a number if one of the elements is none.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Sums an output up.
    pub fn new(name: &str, tensor: &Tensor) -> Self {
        let bare = unframed(tensor);
        let mut shown: Vec<_> = match bare.filter(|bytes| std::str::from_utf8(bytes).is_err()) {
            Some(bytes) => vec![hexadecimal(bytes)],
            None => elements(tensor).take(SHOWN).map(element).collect(),
        };
        if bare.is_none() && tensor.len() > SHOWN {
            shown.push("…".to_owned());
        }
        Self {
            name: name.to_owned(),
            dtype: tensor.dtype(),
            shape: ShapeText(tensor.shape()).to_string(),
            spread: Spread::new(tensor),
            preview: shown.join(", "),
        }
    }
}

impl Spread {
    #[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
    fn new(tensor: &Tensor) -> Option<Self> {
        let mut numbers = values(tensor).filter_map(|value| value.as_f64());
        let first = numbers.next()?;
        let mut spread = Self {
            min: first,
            mean: first,
            max: first,
        };
        for number in numbers {
            // These two pass over what is not a number; the mean does not.
            spread.min = spread.min.min(number);
            spread.max = spread.max.max(number);
            spread.mean += number;
        }
        spread.mean /= tensor.len() as f64;
        Some(spread)
    }
}

/// Writes a number with six digits: enough to compare, short enough for a column.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the exponent of a double is below 400"
)]
pub fn number(value: f64) -> String {
    if !value.is_finite() || (value.fract() == 0.0 && value.abs() < 1e15) {
        return value.to_string();
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-4..DIGITS).contains(&exponent) {
        let text = format!("{value:.*e}", DIGITS as usize - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", trimmed(mantissa));
    }
    let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// Writes the number of bytes, and the first of them.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let count = bytes.len();
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!("{count} byte{plural}:");
    for byte in bytes.iter().take(SHOWN_OF_BYTES) {
        // A string takes all that is written to it.
        let _ = write!(text, " {byte:02x}");
    }
    if count > SHOWN_OF_BYTES {
        text.push_str(" …");
    }
    text
}

/// Cuts zeros off the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn element(value: Value<'_>) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Single(value) => number(value.into()),
        Value::Double(value) => number(value),
        Value::Bytes(value) => {
            let text = String::from_utf8_lossy(value);
            // Quotes and escapes, so that a string cannot break the table.
            format!("{:?}", cut_chars(&text, SHOWN_OF_A_STRING))
        }
    }
}

/// One of the best scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The place on the last axis, from 0.
    pub index: usize,
    /// The score.
    pub score: Value<'a>,
}

/// Error of ranking an output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopError {
    /// A single value.
    #[error("a single value has no axis to rank")]
    Scalar,
    /// Strings.
    #[error("{0} has no order to rank by")]
    Unordered(DataType),
}

/// Ranks the last axis: for each row of the axes before it, the greatest `count` scores.
///
/// Equal scores stand in the order of their places; what is not a number has none, so that a row of it is empty.
///
/// # Errors
///
/// Fails for strings and for single values.
pub fn top(tensor: &Tensor, count: usize) -> Result<Vec<Vec<Ranked<'_>>>, TopError> {
    if tensor.dtype() == DataType::String {
        return Err(TopError::Unordered(tensor.dtype()));
    }
    let length = *tensor.shape().last().ok_or(TopError::Scalar)?;
    let scores: Vec<_> = values(tensor).collect();
    if length == 0 {
        return Ok(Vec::new());
    }
    let rank = |row: &[Value<'_>]| -> Vec<usize> {
        let is_number = |place: &usize| !is_nan(row[*place]);
        let mut order: Vec<usize> = (0..row.len()).filter(is_number).collect();
        let better = |a: &usize, b: &usize| descending(row[*a], row[*b]).then(a.cmp(b));
        if count < order.len() {
            order.select_nth_unstable_by(count, better);
            order.truncate(count);
        }
        order.sort_unstable_by(better);
        order
    };
    Ok(scores
        .chunks_exact(length)
        .map(|row| {
            let ranked = rank(row).into_iter();
            let score = |index: usize| Ranked {
                index,
                score: row[index],
            };
            ranked.map(score).collect()
        })
        .collect())
}

/// Returns whether a value is no number.
pub fn is_nan(value: Value<'_>) -> bool {
    value.as_f64().is_some_and(f64::is_nan)
}

pub(super) fn descending(a: Value<'_>, b: Value<'_>) -> Ordering {
    // Above 2^53 floats do not have all whole numbers.
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => return b.cmp(&a),
        (Value::Uint(a), Value::Uint(b)) => return b.cmp(&a),
        _ => {}
    }
    let (a, b) = (
        a.as_f64().unwrap_or(f64::NAN),
        b.as_f64().unwrap_or(f64::NAN),
    );
    b.partial_cmp(&a)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::{Summary, TopError, number, top};
    use crate::tensor::{DataType, Tensor, values::Packer};

    #[test]
    fn numbers_have_six_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-3.0, "-3"),
            (123_456_789.0, "123456789"),
            (1.0 / 3.0, "0.333333"),
            (-1_234.567_89, "-1234.57"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_012_3, "1.23e-5"),
            (1e30, "1e30"),
            (1_234_567.8, "1.23457e6"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn an_output_is_one_row() {
        let mut packer = Packer::new(DataType::F32, 8);
        for value in [0.5, -1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.25] {
            packer.push_f64(value).unwrap();
        }
        let tensor = Tensor::new(DataType::F32, vec![2, 4], packer.finish()).unwrap();
        let summary = Summary::new("y", &tensor);
        let spread = summary.spread.unwrap();
        assert_eq!((spread.min, spread.mean, spread.max), (-1.0, 0.21875, 2.0));
        assert_eq!(summary.shape, "(2,4)");
        assert_eq!(summary.preview, "0.5, -1, 2, 0, 0, 0, …");
    }

    #[test]
    fn strings_have_no_extremes_and_stay_on_their_line() {
        let mut packer = Packer::new(DataType::String, 2);
        packer.push_bytes(b"a\n\"b\"").unwrap();
        packer.push_bytes(&[b'x'; 40]).unwrap();
        let tensor = Tensor::new(DataType::String, vec![2], packer.finish()).unwrap();
        let summary = Summary::new("t", &tensor);
        assert_eq!(summary.spread, None);
        assert_eq!(
            summary.preview,
            format!(r#""a\n\"b\"", "{}…""#, "x".repeat(32))
        );
    }

    #[test]
    fn strings_without_lengths_are_text_or_bytes() {
        let preview = |shape: &[usize], data: &'static [u8]| {
            let tensor = Tensor::new(DataType::String, shape.to_vec(), data.into());
            Summary::new("t", &tensor.unwrap()).preview
        };
        assert_eq!(preview(&[1], b"hello there"), r#""hello there""#);
        assert_eq!(preview(&[11], b"hello there"), r#""hello there""#);
        assert_eq!(preview(&[1], b"\xff\x00"), "2 bytes: ff 00");
        let long = preview(&[1], &[0xfe; 20]);
        assert_eq!(long, format!("20 bytes:{} …", " fe".repeat(16)));
        assert_eq!(preview(&[1], b"\x02\0\0\0hi"), r#""hi""#);
        assert_eq!(preview(&[0], b""), "");
    }

    #[test]
    fn no_elements_have_no_extremes() {
        let tensor = Tensor::new(DataType::I8, vec![0, 3], bytes::Bytes::new()).unwrap();
        let summary = Summary::new("e", &tensor);
        assert_eq!((summary.spread, summary.preview.as_str()), (None, ""));
    }

    fn floats(shape: &[usize], numbers: &[f64]) -> Tensor {
        let mut packer = Packer::new(DataType::F32, numbers.len());
        for number in numbers {
            packer.push_f64(*number).unwrap();
        }
        Tensor::new(DataType::F32, shape.to_vec(), packer.finish()).unwrap()
    }

    fn indices(tensor: &Tensor, count: usize) -> Vec<Vec<usize>> {
        let ranked = top(tensor, count).unwrap();
        ranked
            .iter()
            .map(|row| row.iter().map(|ranked| ranked.index).collect())
            .collect()
    }

    #[test]
    fn the_greatest_scores_of_each_row_come_first() {
        let tensor = floats(&[2, 1, 4], &[0.1, 0.7, 0.2, 0.0, 4.0, 1.0, 2.0, 3.0]);
        assert_eq!(indices(&tensor, 2), [[1, 2], [0, 3]]);
        assert_eq!(indices(&tensor, 9), [[1, 2, 0, 3], [0, 3, 2, 1]]);
    }

    #[test]
    fn equal_scores_keep_their_order_and_nan_has_none() {
        let tensor = floats(&[5], &[f64::NAN, 1.0, 2.0, 1.0, f64::NAN]);
        assert_eq!(indices(&tensor, 5), [[2, 1, 3]]);
        assert_eq!(indices(&tensor, 2), [[2, 1]]);
        let tensor = floats(&[2, 2], &[f64::NAN, f64::NAN, 0.5, f64::INFINITY]);
        assert_eq!(indices(&tensor, 1), [vec![], vec![1]]);
    }

    #[test]
    fn whole_numbers_are_ranked_with_all_of_their_digits() {
        const EXACT: u64 = 1 << 53;
        for dtype in [DataType::I64, DataType::U64] {
            let mut packer = Packer::new(dtype, 4);
            for number in [EXACT, EXACT + 1, EXACT - 1, EXACT + 3] {
                packer.push_u64(number).unwrap();
            }
            let tensor = Tensor::new(dtype, vec![4], packer.finish()).unwrap();
            assert_eq!(indices(&tensor, 4), [[3, 1, 0, 2]], "{dtype}");
            assert_eq!(indices(&tensor, 1), [[3]], "{dtype}");
        }
    }

    #[test]
    fn what_has_no_order_is_refused() {
        assert_eq!(top(&floats(&[], &[1.0]), 1), Err(TopError::Scalar));
        let strings = Tensor::new(DataType::String, vec![0], bytes::Bytes::new()).unwrap();
        assert_eq!(top(&strings, 1), Err(TopError::Unordered(DataType::String)));
        assert_eq!(indices(&floats(&[2, 0], &[]), 1), Vec::<Vec<usize>>::new());
    }
}
