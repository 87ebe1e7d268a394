//! Byte strings: a list of them as one piece of bytes, and as rows of equal width.
//!
//! Everywhere in the crate the elements of a string tensor stand one after another, each as its
//! length in four bytes, little endian, and its bytes. That is also the raw form of KServe's BYTES.
//! Nothing here says what the strings mean; [`super::images`] reads some of them as images.

use bytes::Bytes;

use super::{Tensor, TensorError, TensorMap, dtype::DataType};

/// Bytes of the length before each string.
pub const PREFIX: usize = 4;

/// Suffix of the name of a UINT8 output whose rows are strings.
const NAME_END: &str = "_string";

/// Maximum size in bytes of strings that are padded to rows: 1 GiB, which clients of model servers know.
const MAX_PADDED: usize = 1 << 30;

/// A list of strings whose framing has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strings {
    framed: Bytes,
    count: usize,
    longest: usize,
}

/// Bytes that are no list of strings: a length is cut short, or reaches beyond the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the string at byte {at} does not end within the {length} bytes given")]
pub struct FramingError {
    /// Offset of the string.
    pub at: usize,
    /// The bytes given.
    pub length: usize,
}

/// Returns the bytes of a string tensor that are not one string behind its length for each element
/// of the shape; `None` of what is sound. Handlers of graphs may call any bytes BYTES.
pub fn unframed(tensor: &Tensor) -> Option<&[u8]> {
    if tensor.dtype() != DataType::String {
        return None;
    }
    let count = Strings::new(tensor.data().clone()).map(|strings| strings.count());
    (count != Ok(tensor.len())).then(|| &tensor.data()[..])
}

/// Rows that would need more memory than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{rows} strings of which the longest has {longest} bytes")]
pub struct PaddedSizeError {
    /// The number of strings.
    pub rows: usize,
    /// Bytes of the longest.
    pub longest: usize,
}

impl Strings {
    /// Checks the framing.
    ///
    /// # Errors
    ///
    /// Fails if the bytes end within a string.
    pub fn new(framed: Bytes) -> Result<Self, FramingError> {
        let (mut at, mut count, mut longest) = (0, 0, 0);
        while at < framed.len() {
            let Some((string, _)) = first(&framed[at..]) else {
                return Err(FramingError {
                    at,
                    length: framed.len(),
                });
            };
            at += PREFIX + string.len();
            count += 1;
            longest = longest.max(string.len());
        }
        Ok(Self {
            framed,
            count,
            longest,
        })
    }

    /// Returns the number of strings.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the bytes with their framing.
    pub fn framed(&self) -> &Bytes {
        &self.framed
    }

    /// Iterates over the strings.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        strings(&self.framed)
    }

    /// Returns the shape that the strings have as rows: each ends with one zero byte at least.
    ///
    /// # Errors
    ///
    /// Fails if the rows together have more than 1 GiB.
    pub fn padded_shape(&self) -> Result<[usize; 2], PaddedSizeError> {
        // A length has 32 bits, so the sum fits.
        let width = self.longest + 1;
        match self.count.checked_mul(width) {
            Some(size) if size <= MAX_PADDED => Ok([self.count, width]),
            _ => Err(PaddedSizeError {
                rows: self.count,
                longest: self.longest,
            }),
        }
    }

    /// Writes the strings as rows of a width, filled up with zero bytes.
    ///
    /// # Errors
    ///
    /// Fails as [`Strings::padded_shape`] does.
    pub fn pad(&self) -> Result<Bytes, PaddedSizeError> {
        let [rows, width] = self.padded_shape()?;
        let mut padded = vec![0; rows * width];
        for (row, string) in padded.chunks_exact_mut(width).zip(self.iter()) {
            row[..string.len()].copy_from_slice(string);
        }
        Ok(padded.into())
    }
}

/// Iterates over framed strings; ends early where the framing is broken.
pub fn strings(mut framed: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (string, rest) = first(framed)?;
        framed = rest;
        Some(string)
    })
}

/// Returns the index of the first string of a tensor that is no text; none for other datatypes.
pub fn first_binary(tensor: &Tensor) -> Option<usize> {
    if tensor.dtype() != DataType::String {
        return None;
    }
    strings(tensor.data()).position(|string| std::str::from_utf8(string).is_err())
}

/// Appends one string with its length.
///
/// # Errors
///
/// Fails if the string has 4 GiB or more.
pub fn push(framed: &mut Vec<u8>, string: &[u8]) -> Result<(), std::num::TryFromIntError> {
    let length = u32::try_from(string.len())?;
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(string);
    Ok(())
}

/// Reads rows of bytes as strings, each of which ends at its first zero byte. Tensors that are no
/// rows of bytes come back as they are.
///
/// # Errors
///
/// Fails if the tensor has a row of 4 GiB or more.
pub fn unpad(rows: Tensor) -> Result<Tensor, TensorError> {
    let (DataType::U8, &[count, width]) = (rows.dtype(), rows.shape()) else {
        return Ok(rows);
    };
    let mut framed = Vec::with_capacity(rows.data().len() + count * PREFIX);
    for index in 0..count {
        let row = &rows.data()[index * width..][..width];
        let end = row.iter().position(|&byte| byte == 0).unwrap_or(width);
        push(&mut framed, &row[..end])
            .map_err(|_| TensorError::Overflow(super::ShapeText(rows.shape()).to_string()))?;
    }
    Tensor::new(DataType::String, vec![count], framed.into())
}

/// Returns whether an output is rows of bytes that clients know as strings: by its name, which ends
/// with `_string`, its type and its rank.
pub fn is_rows(name: &str, tensor: &Tensor) -> bool {
    name.ends_with(NAME_END) && tensor.dtype() == DataType::U8 && tensor.shape().len() == 2
}

/// Returns the bytes that [`unpad_all`] has to go through; 0 if no output is rows.
pub fn rows_size(outputs: &TensorMap) -> usize {
    let rows = outputs.iter().filter(|(name, rows)| is_rows(name, rows));
    // Rows without any width are strings, too.
    let size = |rows: &Tensor| rows.data().len() + rows.shape()[0].max(1) * PREFIX;
    rows.map(|(_, rows)| size(rows)).sum()
}

/// Turns the outputs that are rows of bytes into strings; the others stay as they are.
///
/// # Errors
///
/// Fails as [`unpad`] does.
pub fn unpad_all(outputs: TensorMap) -> Result<TensorMap, TensorError> {
    let unpad = |(name, tensor): (String, Tensor)| {
        let tensor = if is_rows(&name, &tensor) {
            unpad(tensor)?
        } else {
            tensor
        };
        Ok((name, tensor))
    };
    outputs.into_iter().map(unpad).collect()
}

/// Takes the first string off; `None` if the bytes end within it.
fn first(framed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = framed.split_first_chunk::<PREFIX>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::{PaddedSizeError, Strings, push, rows_size, strings, unpad, unpad_all};
    use crate::tensor::{Tensor, dtype::DataType};

    fn framed(list: &[&[u8]]) -> Bytes {
        let mut framed = Vec::new();
        for string in list {
            push(&mut framed, string).unwrap();
        }
        framed.into()
    }

    #[test]
    fn strings_become_rows_and_come_back() {
        let given = Strings::new(framed(&[b"abc", b"", b"\xff"])).unwrap();
        assert_eq!(given.padded_shape(), Ok([3, 4]));
        let rows = given.pad().unwrap();
        assert_eq!(&rows[..], b"abc\0\0\0\0\0\xff\0\0\0");
        let rows = Tensor::new(DataType::U8, vec![3, 4], rows).unwrap();
        let back = unpad(rows).unwrap();
        assert_eq!(
            (back.dtype(), back.shape()),
            (DataType::String, &[3_usize][..])
        );
        assert_eq!(back.data(), given.framed());
    }

    #[test]
    fn a_row_without_a_zero_byte_is_a_string_of_its_whole_width() {
        let rows = Tensor::new(DataType::U8, vec![2, 2], Bytes::from_static(b"abc\0")).unwrap();
        let back = unpad(rows).unwrap();
        assert_eq!(
            strings(back.data()).collect::<Vec<_>>(),
            [b"ab".as_slice(), b"c"]
        );
        let none = Tensor::new(DataType::U8, vec![2, 0], Bytes::new()).unwrap();
        assert_eq!(strings(unpad(none).unwrap().data()).count(), 2);
    }

    #[test]
    fn name_type_and_rank_make_an_output_strings() {
        let tensor = |dtype, shape: &[usize]| {
            let shape = shape.to_vec();
            Tensor::new(dtype, shape, Bytes::from_static(b"ab\0\0")).unwrap()
        };
        let outputs = vec![
            ("a_string".to_owned(), tensor(DataType::U8, &[1, 4])),
            ("a".to_owned(), tensor(DataType::U8, &[1, 4])),
            ("b_string".to_owned(), tensor(DataType::U8, &[1, 2, 2])),
            ("c_string".to_owned(), tensor(DataType::I8, &[1, 4])),
        ];
        assert_eq!(
            rows_size(&outputs),
            4 + 4,
            "bytes, and a length for each row"
        );
        let answered = unpad_all(outputs.clone()).unwrap();
        assert_eq!(answered.len(), 4);
        for ((name, before), (_, after)) in outputs.iter().zip(answered.iter()) {
            assert_eq!(before == after, name != "a_string", "{name}");
        }
        let text = crate::tensor::named(&answered, "a_string").unwrap();
        assert_eq!(text.dtype(), DataType::String);
        assert_eq!(strings(text.data()).collect::<Vec<_>>(), [b"ab"]);

        let mut none = vec![("a".to_owned(), tensor(DataType::U8, &[1, 4]))];
        assert_eq!(rows_size(&none), 0);
        let empty = Tensor::new(DataType::U8, vec![2, 0], Bytes::new()).unwrap();
        none.push(("a_string".into(), empty));
        assert_ne!(rows_size(&none), 0, "two strings without a byte");
    }

    #[test]
    fn rows_beyond_the_limit_are_refused_before_they_are_made() {
        // 1025 strings, of which one has a mebibyte less a byte: 1025 MiB of rows.
        let long = vec![b'x'; (1 << 20) - 1];
        let mut list: Vec<&[u8]> = vec![b""; 1024];
        list.push(&long);
        let strings = Strings::new(framed(&list)).unwrap();
        let refused = PaddedSizeError {
            rows: 1025,
            longest: (1 << 20) - 1,
        };
        assert_eq!(strings.pad(), Err(refused));
    }

    #[test]
    fn broken_framing_says_where() {
        for broken in [
            &[2, 0, 0, 0, b'a'][..],
            &[0, 0],
            &[255; 5],
            &[0, 0, 0, 0, 1],
        ] {
            let error = Strings::new(Bytes::copy_from_slice(broken)).unwrap_err();
            assert_eq!(error.length, broken.len());
        }
        let error = Strings::new(Bytes::from_static(&[1, 0, 0, 0, b'a', 9])).unwrap_err();
        assert_eq!(error.at, 5);
    }

    proptest! {
        #[test]
        fn any_list_comes_back(list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let slices: Vec<&[u8]> = list.iter().map(Vec::as_slice).collect();
            let read = Strings::new(framed(&slices)).unwrap();
            prop_assert_eq!(read.count(), list.len());
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), slices);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..60)) {
            let bytes = Bytes::from(bytes);
            if let Ok(read) = Strings::new(bytes.clone()) {
                prop_assert_eq!(read.iter().count(), read.count());
                prop_assert!(read.pad().is_ok());
            }
            let _ = strings(&bytes).count();
        }
    }
}
