//! Layouts: which axis of a tensor is which, as in `NCHW`, `N?HWC`, `N...` or `...`.
//!
//! The letters are those of OpenVINO's layouts that model servers use: N (batch), C (channels), H
//! (height), W (width), D (depth), `?` for an axis that is none of them, and `...` for any number
//! of axes.

use std::fmt;

/// A layout, upper case and without blanks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout(String);

/// A text that is no layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The provided layout is in wrong format - found `{0}`; expected letters N, C, H, W, D (each \
     once), `?`, and `...` (once)"
)]
pub struct LayoutError(pub String);

/// Placeholder for any number of axes.
const ANY: &str = "...";

impl Layout {
    /// Reads a layout; case and blanks do not matter.
    ///
    /// # Errors
    ///
    /// Fails on any other letter, a letter or `...` that comes twice, and an empty text.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let error = || LayoutError(text.to_owned());
        let layout: String = text
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| c.to_ascii_uppercase())
            .collect();
        let letters = layout.replacen(ANY, "", 1);
        let once = |c: char| letters.matches(c).count() == 1;
        if layout.is_empty()
            || !letters
                .chars()
                .all(|c| c == '?' || ("NCHWD".contains(c) && once(c)))
        {
            return Err(error());
        }
        Ok(Self(layout))
    }

    /// The layout of a tensor of which nothing is known: `N...`, or `...` for a scalar.
    pub fn unspecified(rank: usize) -> Self {
        Self(if rank == 0 { ANY } else { "N..." }.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a tensor of so many axes can have this layout.
    pub fn fits(&self, rank: usize) -> bool {
        match self.0.split_once(ANY) {
            Some((before, after)) => before.len() + after.len() <= rank,
            None => self.0.len() == rank,
        }
    }

    /// Returns the axis of a letter in a tensor of so many axes.
    pub fn axis(&self, letter: char, rank: usize) -> Option<usize> {
        if !self.fits(rank) {
            return None;
        }
        let (before, after) = self.0.split_once(ANY).unwrap_or((&self.0, ""));
        before
            .find(letter)
            .or_else(|| after.find(letter).map(|index| rank - after.len() + index))
    }

    /// Returns how a tensor of this layout is made of one of another layout: for each axis of this
    /// one, the axis of the other that it is. `None` if the two do not have the same axes, or
    /// tensors of so many axes cannot have both.
    ///
    /// Axes without a letter follow each other in the same order in both.
    pub fn axes_in(&self, other: &Self, rank: usize) -> Option<Vec<usize>> {
        let (ours, theirs) = (self.letters(rank)?, other.letters(rank)?);
        let mut unnamed = (0..rank).filter(|&axis| theirs[axis] == '?');
        let axes = ours.iter().map(|letter| match letter {
            '?' => unnamed.next(),
            _ => theirs.iter().position(|found| found == letter),
        });
        let axes: Vec<usize> = axes.collect::<Option<_>>()?;
        // Both have as many axes; what is left over would be one without a letter here.
        unnamed.next().is_none().then_some(axes)
    }

    /// Returns the letter of each axis, `?` for one without; `None` if a tensor of so many axes cannot
    /// have this layout.
    pub fn letters(&self, rank: usize) -> Option<Vec<char>> {
        if !self.fits(rank) {
            return None;
        }
        let (before, after) = self.0.split_once(ANY).unwrap_or((&self.0, ""));
        let mut letters: Vec<char> = before.chars().collect();
        letters.resize(rank - after.len(), '?');
        letters.extend(after.chars());
        Some(letters)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn layouts_are_read_and_nonsense_refused() {
        assert_eq!(Layout::parse(" n h w c ").unwrap().as_str(), "NHWC");
        assert_eq!(Layout::parse("N?...C").unwrap().as_str(), "N?...C");
        for wrong in ["", "NN", "NX", "N..", "....", "......", "N:C", "[N,C]"] {
            assert!(Layout::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn axes_are_found_from_either_end() {
        let layout = Layout::parse("N...HWC").unwrap();
        assert_eq!(layout.axis('N', 4), Some(0));
        assert_eq!(layout.axis('C', 5), Some(4));
        assert_eq!(layout.axis('D', 5), None);
        assert!(!layout.fits(3));
        assert_eq!(Layout::parse("CN").unwrap().axis('N', 2), Some(1));
        assert_eq!(Layout::unspecified(2).axis('N', 2), Some(0));
        assert_eq!(Layout::unspecified(0).axis('N', 0), None);
    }

    #[test]
    fn one_layout_is_made_of_another() {
        let axes = |ours: &str, theirs: &str, rank| {
            let parse = |text| Layout::parse(text).unwrap();
            parse(ours).axes_in(&parse(theirs), rank)
        };
        assert_eq!(axes("NHWC", "NCHW", 4), Some(vec![0, 2, 3, 1]));
        assert_eq!(axes("NC", "CN", 2), Some(vec![1, 0]));
        assert_eq!(axes("N...C", "NC...", 4), Some(vec![0, 2, 3, 1]));
        assert_eq!(axes("N??C", "C...N", 4), Some(vec![3, 1, 2, 0]));
        assert_eq!(axes("...", "...", 0), Some(vec![]));
        for (ours, theirs, rank) in [
            ("NHWC", "NCHW", 3),
            ("NHWC", "NCDW", 4),
            ("N?", "NC", 2),
            ("NC", "N?", 2),
        ] {
            assert_eq!(axes(ours, theirs, rank), None, "{ours}:{theirs}");
        }
    }
}
