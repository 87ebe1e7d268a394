//! Fits the shape that a value has by itself to the shape that the model asks for.

use super::{ValueProblem, error};
use crate::tensor::{Dim, PartialShape, ShapeText, TensorError, elements};

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
        return force(found, &shape);
    }
    let count = found.iter().product();
    if let Some(shape) = fill_the_open_one(count, wanted) {
        return Ok(shape);
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
    use super::{fit, force};
    use crate::tensor::{Dim, PartialShape};

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
