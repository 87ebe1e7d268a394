//! Where the elements of a tensor's bytes stand, whatever their width.

use std::ops::Range;

use crate::tensor::DataType;

/// The places of elements.
#[derive(Debug)]
pub(super) enum Places {
    /// Every element has this many bytes.
    Width(usize),
    /// Where each element begins, and at last where the bytes end.
    Starts(Vec<usize>),
}

impl Places {
    /// Finds the elements of a type.
    pub(super) fn of(dtype: DataType, data: &[u8]) -> Self {
        match dtype.size() {
            Some(width) => Self::Width(width),
            None => Self::Starts(starts(data)),
        }
    }

    /// Returns the bytes of elements that follow each other.
    pub(super) fn range(&self, first: usize, count: usize) -> Range<usize> {
        match self {
            Self::Width(width) => first * width..(first + count) * width,
            Self::Starts(starts) => {
                let end = starts.last().copied().unwrap_or(0);
                let place = |index: usize| starts.get(index).copied().unwrap_or(end);
                place(first)..place(first + count)
            }
        }
    }
}

/// Finds where strings begin; each stands behind its length. Broken framing ends the list early.
fn starts(data: &[u8]) -> Vec<usize> {
    let mut starts = vec![0];
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk::<4>()
        && let Some((_, behind)) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)
    {
        rest = behind;
        starts.push(data.len() - rest.len());
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::Places;
    use crate::tensor::DataType;

    #[test]
    fn elements_are_found_whatever_their_width() {
        let numbers = Places::of(DataType::I16, &[0; 8]);
        assert_eq!(numbers.range(1, 2), 2..6);
        let strings = [1, 0, 0, 0, b'a', 0, 0, 0, 0, 2, 0, 0, 0, b'b', b'c'];
        let places = Places::of(DataType::String, &strings);
        assert_eq!(places.range(0, 1), 0..5);
        assert_eq!(places.range(1, 2), 5..15);
        assert_eq!(places.range(2, 1), 9..15);
        let broken = Places::of(DataType::String, &strings[..13]);
        assert_eq!(broken.range(1, 2), 5..9);
    }
}
