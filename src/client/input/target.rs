//! One tensor in the making: a value on one side, what the model takes on the other.

use bytes::Bytes;

use super::{
    ValueProblem,
    convert::{adapt, convert},
    error,
};
use crate::{
    client::{json, message::TensorMetadata},
    tensor::{
        DataType, Dim, PartialShape, ShapeText, Tensor, TensorError, elements,
        values::{Packer, Value, ValueError, values},
    },
};

/// Datatype and shape of the tensor to make.
pub(super) struct Target<'a> {
    /// The model's own input of the name, if it lists it.
    pub model: Option<&'a TensorMetadata>,
    /// The datatype of the argument.
    pub dtype: Option<DataType>,
    /// The shape of the argument.
    pub shape: Option<Vec<usize>>,
    /// Keeps the shape that the value has by itself, instead of taking the model's.
    pub is_whole: bool,
}

impl Target<'_> {
    pub(super) fn dtype(&self) -> Result<DataType, ValueProblem> {
        self.dtype
            .or_else(|| self.model.and_then(TensorMetadata::dtype))
            .ok_or(ValueProblem::NoDatatype)
    }

    /// Returns the datatype, or that of a JSON value where only the value has one: numbers are
    /// FP32, and what is no JSON is a string.
    pub(super) fn dtype_of(&self, text: &str) -> DataType {
        self.dtype().unwrap_or_else(|_| {
            let text = json::quote_not_finite(text);
            let first = text.trim_start_matches([' ', '\t', '\n', '\r', '[']);
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
                // A list that has an error is reported as a list.
                let is_list = text.trim_start().starts_with('[');
                return if is_list {
                    DataType::F32
                } else {
                    DataType::String
                };
            }
            match first.as_bytes().first() {
                Some(b't' | b'f') => DataType::Bool,
                Some(b'"') if !is_not_finite(first) => DataType::String,
                // Bytes, as TensorFlow Serving has them.
                Some(b'{') => DataType::String,
                _ => DataType::F32,
            }
        })
    }

    /// Returns the datatype, or that of strings for what is a file of text or an image.
    pub(super) fn dtype_of_file(&self) -> DataType {
        self.dtype().unwrap_or(DataType::String)
    }

    /// Returns the shape to fit values to, if there is one to go by.
    pub(super) fn wanted(&self) -> Option<PartialShape> {
        if let Some(shape) = &self.shape {
            return Some(PartialShape(
                shape.iter().copied().map(Dim::Fixed).collect(),
            ));
        }
        let model = self.model?;
        let dtype = model.dtype()?;
        // Strings for a model of numbers are texts or images that the server takes apart, so
        // they have a shape of their own.
        let is_packed = self.dtype == Some(DataType::String) && dtype != DataType::String;
        (!is_packed).then(|| model.shape.clone())
    }

    /// Returns the shape to fill when only the model knows it: 1 where a length may vary.
    pub(super) fn smallest(&self) -> Vec<usize> {
        let wanted = self.wanted().unwrap_or(PartialShape(Vec::new()));
        let least = |dim: &Dim| match dim {
            Dim::Fixed(length) => *length,
            Dim::Range(least, _) => *least,
            Dim::Any => 1,
        };
        wanted.0.iter().map(least).collect()
    }

    /// Returns whether the model takes the input and says nothing of it.
    fn is_open(&self) -> bool {
        self.model.is_some_and(|model| model.dtype().is_none())
    }

    pub(super) fn finish(
        &self,
        dtype: DataType,
        found: &[usize],
        data: Bytes,
    ) -> Result<Tensor, ValueProblem> {
        let shape = match (&self.shape, self.wanted()) {
            (Some(shape), _) => force(found, shape)?,
            (None, Some(_)) if self.is_whole => found.to_vec(),
            (None, Some(wanted)) => fit(found, &wanted)?,
            // The protocols' texts and images are lists, and so is a value whose shape is
            // unknown.
            (None, None) if found.is_empty() && (dtype == DataType::String || self.is_open()) => {
                vec![1]
            }
            (None, None) => found.to_vec(),
        };
        Ok(Tensor::new(dtype, shape, data)?)
    }

    pub(super) fn json(&self, text: &str, dtype: DataType) -> Result<Tensor, ValueProblem> {
        let found = json::elements(text, dtype)?;
        self.finish(dtype, &found.shape, found.data)
    }

    pub(super) fn string(&self, text: &[u8]) -> Result<Tensor, ValueProblem> {
        let mut packer = Packer::new(DataType::String, 1);
        packer.push_bytes(text)?;
        self.finish(DataType::String, &[], packer.finish())
    }

    /// Makes a list of strings.
    pub(super) fn strings<'a>(
        &self,
        texts: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Tensor, ValueProblem> {
        let count = texts.len();
        let mut packer = Packer::new(DataType::String, count);
        for text in texts {
            packer.push_bytes(text)?;
        }
        self.finish(DataType::String, &[count], packer.finish())
    }

    pub(super) fn array(&self, tensor: &Tensor) -> Result<Tensor, ValueProblem> {
        let model = self.model.and_then(TensorMetadata::dtype);
        let tensor = match (self.dtype, model) {
            (Some(dtype), _) => convert(tensor, dtype)?,
            (None, Some(expected)) => adapt(tensor, expected)?,
            (None, None) => tensor.clone(),
        };
        self.finish(tensor.dtype(), tensor.shape(), tensor.data().clone())
    }

    pub(super) fn words(&self, text: &[u8], dtype: DataType) -> Result<Tensor, ValueProblem> {
        let text = String::from_utf8_lossy(text);
        let mut packer = Packer::new(dtype, text.len() / 8);
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        for word in words.filter(|word| !word.is_empty()) {
            push_word(&mut packer, word)?;
        }
        let count = packer.count();
        self.finish(dtype, &[count], packer.finish())
    }

    pub(super) fn bytes(&self, bytes: Bytes) -> Result<Tensor, ValueProblem> {
        let dtype = self.dtype()?;
        let length = bytes.len();
        let count = match dtype.size() {
            Some(size) if length.is_multiple_of(size) => Some(length / size),
            Some(_) => None,
            None => framed(&bytes),
        };
        let count = count.ok_or_else(|| {
            ValueProblem::Misfit(format!(
                "found {length} bytes, which is not a whole number of elements of {dtype}"
            ))
        })?;
        self.finish(dtype, &[count], bytes)
    }
}

/// Returns whether a text begins with a word that stands for a number which JSON does not have.
fn is_not_finite(text: &str) -> bool {
    let words = ["\"NaN\"", "\"Infinity\"", "\"-Infinity\""];
    words.iter().any(|word| text.starts_with(word))
}

/// Counts packed strings; `None` if the bytes end in the middle of one.
fn framed(bytes: &Bytes) -> Option<usize> {
    // A count is not known yet, and strings are not held against it.
    let tensor = Tensor::new(DataType::String, vec![0], bytes.clone()).ok()?;
    let mut read = 0;
    let mut count = 0;
    for value in values(&tensor) {
        if let Value::Bytes(string) = value {
            read += size_of::<u32>() + string.len();
            count += 1;
        }
    }
    (read == bytes.len()).then_some(count)
}

/// Returns a whole number that is written with a point, as far as such are exact.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a whole number within 53 bits"
)]
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// Adds a number, or a truth value, that is written as a word.
pub(super) fn push_word(packer: &mut Packer, word: &str) -> Result<(), ValueProblem> {
    let dtype = packer.dtype();
    let fits = |value, has_no_place: bool| match has_no_place || json::overflows(value, dtype) {
        true => Err(ValueError::Range {
            value: word.to_owned(),
            dtype,
        }),
        false => Ok(()),
    };
    if let Ok(number) = word.parse() {
        fits(Value::Uint(number), false)?;
        packer.push_u64(number)?;
    } else if let Ok(number) = word.parse() {
        fits(Value::Int(number), false)?;
        packer.push_i64(number)?;
    } else if let Ok(number) = word.parse::<f64>() {
        // Words such as `inf` are meant; digits are not.
        let is_beyond = number.is_infinite() && word.contains(|it: char| it.is_ascii_digit());
        fits(Value::Double(number), is_beyond)?;
        match whole(number).filter(|_| !packer.dtype().is_float()) {
            Some(number) => packer.push_i64(number)?,
            None => packer.push_f64(number)?,
        }
    } else if let Ok(value) = word.to_ascii_lowercase().parse() {
        packer.push_bool(value)?;
    } else {
        let text = format!("found `{word}`, expected a value of {dtype}");
        return Err(ValueProblem::Misfit(text));
    }
    Ok(())
}

/// Finds the shape to send.
///
/// A value with as many dimensions as the model asks for keeps its shape, right or wrong: the
/// server validates, and some servers adapt the model. A value with fewer is arranged if there is
/// one way only: every dimension fixed, or all but one; else dimensions of 1 go in front.
pub(super) fn fit(found: &[usize], wanted: &PartialShape) -> Result<Vec<usize>, ValueProblem> {
    if found.len() >= wanted.0.len() {
        return Ok(found.to_vec());
    }
    if let Some(shape) = wanted.fixed() {
        let shape = force(found, &shape)?;
        return in_order(found, shape);
    }
    let count = found.iter().product();
    if let Some(shape) = fill_the_open_one(count, wanted) {
        return in_order(found, shape);
    }
    let missing = wanted.0.len() - found.len();
    let padded: Vec<_> = std::iter::repeat_n(1, missing)
        .chain(found.iter().copied())
        .collect();
    let mut pairs = padded.iter().zip(&wanted.0);
    if pairs.all(|(length, dim)| dim.allows(*length)) {
        return Ok(padded);
    }
    Err(ValueProblem::Shape {
        count,
        shape: wanted.clone(),
    })
}

/// Refuses a shape that has the lengths of a value in another order: an image whose channels are last would become
/// another image without a word.
fn in_order(found: &[usize], shape: Vec<usize>) -> Result<Vec<usize>, ValueProblem> {
    let longer = |shape: &[usize]| -> Vec<usize> {
        shape
            .iter()
            .copied()
            .filter(|length| *length != 1)
            .collect()
    };
    let sorted = |mut lengths: Vec<usize>| {
        lengths.sort_unstable();
        lengths
    };
    let (own, wanted) = (longer(found), longer(&shape));
    if own == wanted || sorted(own) != sorted(wanted) {
        return Ok(shape);
    }
    Err(ValueProblem::Misfit(format!(
        "found shape {}, which has the lengths of shape {} in another order: transpose it, or give the shape with \
         the input to take the elements as they are",
        ShapeText(found),
        ShapeText(&shape)
    )))
}

/// Gives elements a fixed shape, if there are as many as it takes.
pub(super) fn force(found: &[usize], shape: &[usize]) -> Result<Vec<usize>, ValueProblem> {
    let count = found.iter().product();
    let expected =
        elements(shape).ok_or_else(|| TensorError::Overflow(ShapeText(shape).to_string()))?;
    if count == expected {
        return Ok(shape.to_vec());
    }
    let (found, shape) = (error::elements(count), ShapeText(shape));
    Err(ValueProblem::Misfit(format!(
        "found {found}, shape {shape} takes {expected}"
    )))
}

/// Finds the length of the one open dimension for which the elements come out even.
fn fill_the_open_one(count: usize, wanted: &PartialShape) -> Option<Vec<usize>> {
    let fixed: Vec<_> = wanted.0.iter().filter_map(|dim| length(*dim)).collect();
    if fixed.len() + 1 != wanted.0.len() {
        return None;
    }
    let each = elements(&fixed).filter(|each| *each > 0)?;
    if !count.is_multiple_of(each) {
        return None;
    }
    let shape = wanted.0.iter();
    Some(
        shape
            .map(|dim| length(*dim).unwrap_or(count / each))
            .collect(),
    )
}

const fn length(dim: Dim) -> Option<usize> {
    match dim {
        Dim::Fixed(length) => Some(length),
        Dim::Range(..) | Dim::Any => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{fit, force, push_word};
    use crate::tensor::{DataType, Dim, PartialShape, values::Packer};

    #[test]
    fn words_of_finite_numbers_do_not_become_infinite() {
        let pushed = |word: &str, dtype| {
            let mut packer = Packer::new(dtype, 1);
            push_word(&mut packer, word).map_err(|error| error.to_string())?;
            Ok::<_, String>(packer.finish())
        };
        for (word, dtype) in [
            ("70000", DataType::F16),
            ("-70000", DataType::F16),
            ("65520.5", DataType::F16),
            ("3.4e38", DataType::Bf16),
            ("1e39", DataType::F32),
            ("-1e400", DataType::F64),
            ("1e400", DataType::I32),
        ] {
            let error = pushed(word, dtype).unwrap_err();
            assert_eq!(error, format!("{word} does not fit {dtype}"));
        }
        let infinite = f32::NEG_INFINITY.to_le_bytes();
        for word in ["-inf", "-Infinity"] {
            assert_eq!(pushed(word, DataType::F32).unwrap()[..], infinite, "{word}");
        }
        let nearly = f32::MAX.to_le_bytes();
        assert_eq!(pushed("3.4028235e38", DataType::F32).unwrap()[..], nearly);
    }

    /// -1 stands for a dimension that may vary.
    fn shape(dims: &[i64]) -> PartialShape {
        let dim = |length: &i64| usize::try_from(*length).map_or(Dim::Any, Dim::Fixed);
        PartialShape(dims.iter().map(dim).collect())
    }

    #[test]
    fn a_value_with_fewer_dimensions_fills_the_models_shape() {
        let rows: &[(&[usize], &[i64], &[usize])] = &[
            (&[10], &[1, 10], &[1, 10]),
            (&[], &[1, 1], &[1, 1]),
            (&[], &[], &[]),
            (&[20], &[-1, 10], &[2, 10]),
            (&[5, 4], &[1, 1, 20], &[1, 1, 20]),
            (&[6], &[1, -1, 3], &[1, 2, 3]),
            (&[2, 3], &[-1, 2, 3], &[1, 2, 3]),
            (&[0], &[-1, 3], &[0, 3]),
            // Several ways: dimensions of 1 go in front.
            (&[5], &[-1, -1], &[1, 5]),
            (&[3, 4, 5], &[-1, 3, -1, -1], &[1, 3, 4, 5]),
            // As many dimensions, or more: the server validates.
            (&[2, 10], &[1, 10], &[2, 10]),
            (&[1, 1, 10], &[1, 10], &[1, 1, 10]),
        ];
        for (found, wanted, expected) in rows {
            assert_eq!(
                fit(found, &shape(wanted)).unwrap(),
                *expected,
                "{found:?} {wanted:?}"
            );
        }
    }

    #[test]
    fn what_does_not_come_out_even_is_refused() {
        let rows: &[(&[usize], &[i64], &str)] = &[
            (&[3], &[1, 10], "found 3 elements, shape (1,10) takes 10"),
            (
                &[15],
                &[-1, 10],
                "cannot tell how to fill shape (-1,10) with 15 elements",
            ),
            (
                &[150],
                &[-1, 3, -1, -1],
                "cannot tell how to fill shape (-1,3,-1,-1) with 150 elements",
            ),
            (&[], &[1, 10], "found 1 element, shape (1,10) takes 10"),
            (
                &[4, 5, 3],
                &[1, 3, 4, 5],
                "found shape (4,5,3), which has the lengths of shape (1,3,4,5) in another order: transpose it, or \
                 give the shape with the input to take the elements as they are",
            ),
            (
                &[4, 5, 3],
                &[-1, 3, 4, 5],
                "found shape (4,5,3), which has the lengths of shape (1,3,4,5) in another order: transpose it, or \
                 give the shape with the input to take the elements as they are",
            ),
        ];
        for (found, wanted, expected) in rows {
            assert_eq!(
                fit(found, &shape(wanted)).unwrap_err().to_string(),
                *expected
            );
        }
    }

    #[test]
    fn a_shape_asked_for_takes_as_many_elements_and_no_others() {
        assert_eq!(force(&[6], &[2, 3]).unwrap(), [2, 3]);
        assert_eq!(force(&[1], &[]).unwrap(), Vec::<usize>::new());
        assert_eq!(
            force(&[6], &[2, 2]).unwrap_err().to_string(),
            "found 6 elements, shape (2,2) takes 4"
        );
    }
}
