//! Shapes of data, and the shapes that a model allows.

use std::fmt;

use serde::{Serialize, Serializer};

/// One dimension that a model allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dim {
    /// Exactly this length.
    Fixed(usize),
    /// Any length from the first to the second, both included.
    Range(usize, usize),
    /// Any length.
    Any,
}

impl Dim {
    /// Returns the least length that there is data for: 1 where any is allowed.
    pub fn least(&self) -> usize {
        match *self {
            Self::Fixed(length) => length,
            Self::Range(low, _) => low,
            Self::Any => 1,
        }
    }

    /// Returns whether a length is allowed.
    pub const fn allows(self, length: usize) -> bool {
        match self {
            Self::Fixed(fixed) => fixed == length,
            Self::Range(low, high) => low <= length && length <= high,
            Self::Any => true,
        }
    }

    /// Returns whether all that another one allows is allowed.
    fn includes(self, other: Self) -> bool {
        match other {
            Self::Fixed(length) => self.allows(length),
            Self::Range(low, high) => self.allows(low) && self.allows(high),
            Self::Any => self.allows(0) && self.allows(usize::MAX),
        }
    }

    /// Returns the length in metadata answers: -1 where it may vary.
    pub fn wire(self) -> i64 {
        match self {
            Self::Fixed(length) => i64::try_from(length).unwrap_or(i64::MAX),
            Self::Range(..) | Self::Any => -1,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(length) => write!(f, "{length}"),
            Self::Range(low, high) => write!(f, "[{low}~{high}]"),
            Self::Any => f.write_str("-1"),
        }
    }
}

impl Serialize for Dim {
    /// Writes a number, -1 for any length, and a pair for a range.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Range(low, high) => (low, high).serialize(serializer),
            Self::Fixed(length) => length.serialize(serializer),
            Self::Any => (-1).serialize(serializer),
        }
    }
}

/// The shape that a model allows for one tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartialShape(pub Vec<Dim>);

impl PartialShape {
    /// Makes a shape of fixed lengths.
    pub fn of(shape: &[usize]) -> Self {
        Self(shape.iter().copied().map(Dim::Fixed).collect())
    }

    /// Returns whether a shape is allowed.
    pub fn allows(&self, shape: &[usize]) -> bool {
        let mut lengths = self.0.iter().zip(shape);
        self.0.len() == shape.len() && lengths.all(|(dim, &length)| dim.allows(length))
    }

    /// Returns whether all shapes that another one allows are allowed.
    pub fn includes(&self, other: &Self) -> bool {
        let mut dims = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && dims.all(|(dim, &other)| dim.includes(other))
    }

    /// Returns the dimensions in metadata answers: -1 where one may vary.
    pub fn wire(&self) -> Vec<i64> {
        self.0.iter().map(|dim| dim.wire()).collect()
    }

    /// Returns the shape if every dimension is fixed.
    pub fn fixed(&self) -> Option<Vec<usize>> {
        self.0
            .iter()
            .map(|dim| match dim {
                Dim::Fixed(length) => Some(*length),
                Dim::Range(..) | Dim::Any => None,
            })
            .collect()
    }
}

impl fmt::Display for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, &self.0)
    }
}

/// Writes a shape as error texts have it: `(1,3,224,224)`, `()` for a scalar.
pub struct ShapeText<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for ShapeText<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, self.0)
    }
}

fn write_list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, dims: &[T]) -> fmt::Result {
    f.write_str("(")?;
    for (index, dim) in dims.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        write!(f, "{dim}")?;
    }
    f.write_str(")")
}

/// Maximum number of rows of an empty tensor: what goes through a tensor comes by each of them, and no bytes bound
/// their number.
const MAX_EMPTY: usize = 1 << 20;

/// Returns the number of elements of a shape, or `None` if it does not fit in a `usize`. A shape
/// with a dimension of 0 has none, and fits if the dimensions before that are not too many.
pub fn elements(shape: &[usize]) -> Option<usize> {
    if let Some(end) = shape.iter().position(|length| *length == 0) {
        let mut rows = shape[..end].iter();
        let rows = rows.try_fold(1_usize, |product, &length| product.checked_mul(length))?;
        return (rows <= MAX_EMPTY).then_some(0);
    }
    shape
        .iter()
        .try_fold(1_usize, |product, &length| product.checked_mul(length))
}

/// Returns the error text of a shape without elements that has too many rows all the same.
pub fn excess_rows(shape: &[usize]) -> Option<String> {
    let has_excess = shape.contains(&0) && elements(shape).is_none();
    has_excess.then(|| {
        let shape = ShapeText(shape);
        format!(
            "Invalid input shape - Expected: {MAX_EMPTY} rows at most in a tensor without elements; Actual: {shape}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Dim, PartialShape, ShapeText, elements};

    #[test]
    fn shapes_print_as_clients_know_them() {
        let shape = PartialShape(vec![Dim::Any, Dim::Fixed(3), Dim::Range(1, 4)]);
        assert_eq!(shape.to_string(), "(-1,3,[1~4])");
        assert_eq!(shape.wire(), [-1, 3, -1]);
        assert_eq!(ShapeText::<i64>(&[]).to_string(), "()");
    }

    #[test]
    fn elements_do_not_overflow() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[2, 0, usize::MAX]), Some(0));
        assert_eq!(elements(&[1 << 20, 0]), Some(0));
        assert_eq!(elements(&[1 << 40, 0]), None, "nobody goes through these");
        assert_eq!(elements(&[usize::MAX, 2, 0]), None);
        assert_eq!(elements(&[usize::MAX, 2]), None);
    }
}
