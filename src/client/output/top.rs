//! The best of many scores, such as the classes of a classifier.

use std::cmp::Ordering;

use crate::tensor::{
    DataType, Tensor,
    values::{Value, values},
};

/// One of the best scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The place on the last axis, from 0.
    pub index: usize,
    /// The score.
    pub score: Value<'a>,
}

/// Why an output has no best scores.
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
/// Equal scores stand in the order of their places; what is not a number comes last.
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
        let mut order: Vec<usize> = (0..row.len()).collect();
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

fn descending(a: Value<'_>, b: Value<'_>) -> Ordering {
    let (a, b) = (
        a.as_f64().unwrap_or(f64::NAN),
        b.as_f64().unwrap_or(f64::NAN),
    );
    b.partial_cmp(&a)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::{TopError, top};
    use crate::tensor::{DataType, Tensor, values::Packer};

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
    fn equal_scores_keep_their_order_and_nan_is_last() {
        let tensor = floats(&[5], &[f64::NAN, 1.0, 2.0, 1.0, f64::NAN]);
        assert_eq!(indices(&tensor, 5), [[2, 1, 3, 0, 4]]);
        assert_eq!(indices(&tensor, 2), [[2, 1]]);
    }

    #[test]
    fn what_has_no_order_is_refused() {
        assert_eq!(top(&floats(&[], &[1.0]), 1), Err(TopError::Scalar));
        let strings = Tensor::new(DataType::String, vec![0], bytes::Bytes::new()).unwrap();
        assert_eq!(top(&strings, 1), Err(TopError::Unordered(DataType::String)));
        assert_eq!(indices(&floats(&[2, 0], &[]), 1), Vec::<Vec<usize>>::new());
    }
}
