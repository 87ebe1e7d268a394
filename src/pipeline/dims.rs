//! Common operations of dimensions, shapes and layouts.

use crate::tensor::{Dim, Layout, PartialShape};

/// Returns the lengths that both allow.
pub(super) fn common(a: Dim, b: Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Any, other) | (other, Dim::Any) => Some(other),
        (Dim::Fixed(length), other) | (other, Dim::Fixed(length)) => {
            other.allows(length).then_some(Dim::Fixed(length))
        }
        (Dim::Range(low, high), Dim::Range(other_low, other_high)) => {
            let (low, high) = (low.max(other_low), high.min(other_high));
            match low.cmp(&high) {
                std::cmp::Ordering::Less => Some(Dim::Range(low, high)),
                std::cmp::Ordering::Equal => Some(Dim::Fixed(low)),
                std::cmp::Ordering::Greater => None,
            }
        }
    }
}

/// Returns the shapes that both allow.
pub(super) fn common_shape(a: &[Dim], b: &[Dim]) -> Option<PartialShape> {
    if a.len() != b.len() {
        return None;
    }
    let dims = a.iter().zip(b).map(|(a, b)| common(*a, *b));
    dims.collect::<Option<_>>().map(PartialShape)
}

/// Returns the letter of each axis, `?` for one without.
pub(super) fn letters(layout: &Layout, rank: usize) -> Vec<char> {
    layout.letters(rank).unwrap_or_else(|| vec!['?'; rank])
}

/// Returns whether no axis has two letters, and no letter two axes.
pub(super) fn agree(a: &[char], b: &[char]) -> bool {
    merge(a, b).is_some()
}

fn merge(a: &[char], b: &[char]) -> Option<String> {
    let both = a.iter().zip(b).map(|(a, b)| match (a, b) {
        ('?', letter) | (letter, '?') => Some(*letter),
        (a, b) => (a == b).then_some(*a),
    });
    let both: String = both.collect::<Option<_>>()?;
    let twice = |letter| letter != '?' && both.matches(letter).count() > 1;
    (!both.chars().any(twice)).then_some(both)
}

/// Returns the layout that two tensors of one rank have in common.
pub(super) fn common_layout(a: &Layout, b: &Layout, rank: usize) -> Option<Layout> {
    let unspecified = Layout::unspecified(rank);
    if a == b || *b == unspecified {
        return Some(a.clone());
    }
    if *a == unspecified {
        return Some(b.clone());
    }
    let both = merge(&letters(a, rank), &letters(b, rank))?;
    Some(Layout::parse(&both).unwrap_or(unspecified))
}

#[cfg(test)]
mod tests {
    use super::{common, common_layout};
    use crate::tensor::{
        Dim::{Any, Fixed, Range},
        Layout,
    };

    #[test]
    fn dimensions_have_in_common_what_both_allow() {
        for (a, b, both) in [
            (Range(1, 4), Range(3, 10), Some(Range(3, 4))),
            (Range(1, 4), Range(4, 10), Some(Fixed(4))),
            (Range(1, 4), Range(5, 10), None),
            (Any, Fixed(5), Some(Fixed(5))),
            (Any, Any, Some(Any)),
            (Fixed(3), Range(1, 4), Some(Fixed(3))),
            (Fixed(5), Range(1, 4), None),
            (Fixed(5), Fixed(4), None),
        ] {
            assert_eq!(common(a, b), both, "{a} {b}");
            assert_eq!(common(b, a), both, "{b} {a}");
        }
    }

    #[test]
    fn layouts_have_in_common_what_neither_denies() {
        let both = |a: &str, b: &str| {
            let parse = |text| Layout::parse(text).unwrap();
            common_layout(&parse(a), &parse(b), 4).map(|layout| layout.as_str().to_owned())
        };
        assert_eq!(both("N...", "NCHW").as_deref(), Some("NCHW"));
        assert_eq!(both("N?HW", "?C...").as_deref(), Some("NCHW"));
        assert_eq!(both("NCHW", "NHWC"), None);
        assert_eq!(both("C???", "?C??"), None);
    }
}
