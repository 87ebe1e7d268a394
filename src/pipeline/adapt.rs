//! Connections that convert: the type, and the order of the axes where both sides name it.

use super::{dims::letters, sources::TensorSource};
use crate::{
    budget::{Budget, OVERHEAD},
    error::Result,
    tensor::{DataType, Layout, Tensor, cast, transpose},
};

/// Conversion of a tensor between two nodes, after gathering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The type of what comes; `None` if its node leaves that open.
    pub from: Option<DataType>,
    /// The type that is taken; `None` if it stays as it comes.
    pub to: Option<DataType>,
    /// Axis of the source for each axis of the result, if they change places.
    pub axes: Option<Vec<usize>>,
}

impl Adapter {
    /// Returns what makes one tensor of another; `None` if there is nothing to do. `split` is
    /// whether the first axis of what is given is split off, `gathered` whether that of what is
    /// taken is added.
    pub(super) fn between(
        given: &TensorSource,
        split: bool,
        taken: &TensorSource,
        gathered: bool,
    ) -> Option<Self> {
        let to = taken.dtype.filter(|_| taken.dtype != given.dtype);
        let axes = axes(given, split, taken, gathered).map(|axes| {
            let shift = usize::from(gathered);
            let rest = axes.into_iter().map(|axis| axis + shift);
            (0..shift).chain(rest).collect()
        });
        (to.is_some() || axes.is_some()).then_some(Self {
            from: given.dtype,
            to,
            axes,
        })
    }

    /// Returns what makes one tensor of whatever comes: its type, as nobody knows of its axes.
    pub(super) fn of_any(taken: &TensorSource) -> Option<Self> {
        Some(Self {
            from: None,
            to: Some(taken.dtype?),
            axes: None,
        })
    }

    /// Converts a tensor, as [`apply`](Self::apply) does; what that makes is charged.
    ///
    /// # Errors
    ///
    /// Fails if the budget has no room for it.
    pub fn convert(&self, tensor: Tensor, budget: &Budget) -> Result<Tensor> {
        let copies = self.copies(&tensor);
        if copies == 0 {
            return Ok(self.apply(tensor));
        }
        let mut charge = budget.charge(copies + OVERHEAD)?;
        let made = self.apply(tensor);
        charge.shrink(made.data().len() + OVERHEAD);
        Ok(made.charged(charge))
    }

    /// Returns the bytes of all that [`apply`](Self::apply) makes of a tensor, one copy after the other.
    fn copies(&self, tensor: &Tensor) -> usize {
        let dtype = tensor.dtype();
        let Some(size) = dtype.size() else {
            return 0;
        };
        let to = self.to.filter(|to| *to != dtype).and_then(DataType::size);
        let moves = (self.axes.as_ref()).is_some_and(|axes| axes.len() == tensor.shape().len());
        let moved = if moves {
            to.unwrap_or(size).min(size)
        } else {
            0
        };
        tensor.len() * (to.unwrap_or(0) + moved)
    }

    /// Converts a tensor. One that is of strings, has other than the expected axes, or no elements and too many rows of
    /// them with the axes in their new order, stays as it is in that respect; [`super::fit::input`] says what is wrong with it.
    pub fn apply(&self, mut tensor: Tensor) -> Tensor {
        // What has fewer bytes is what is moved.
        let size = |dtype: DataType| dtype.size().unwrap_or_default();
        let widens = self.to.is_some_and(|to| size(to) > size(tensor.dtype()));
        if widens {
            tensor = self.reorder(tensor);
        }
        if let Some(to) = self.to.filter(|to| *to != tensor.dtype())
            && let Some(converted) = cast(&tensor, to)
        {
            tensor = converted;
        }
        if widens { tensor } else { self.reorder(tensor) }
    }

    fn reorder(&self, tensor: Tensor) -> Tensor {
        let (Some(axes), Some(size)) = (&self.axes, tensor.dtype().size()) else {
            return tensor;
        };
        if axes.len() != tensor.shape().len() {
            return tensor;
        }
        let data = transpose(tensor.data(), tensor.shape(), axes, size);
        let shape = axes.iter().map(|axis| tensor.shape()[*axis]).collect();
        Tensor::new(tensor.dtype(), shape, data.into()).unwrap_or(tensor)
    }
}

/// Returns for each axis of a part that is taken which axis it is of the part that is given, if
/// both name their axes, have the same, and in another order.
pub(super) fn axes(
    given: &TensorSource,
    split: bool,
    taken: &TensorSource,
    gathered: bool,
) -> Option<Vec<usize>> {
    let (ours, theirs) = (part(taken, gathered)?, part(given, split)?);
    let rank = taken.shape.0.len() - usize::from(gathered);
    if rank != given.shape.0.len() - usize::from(split) {
        return None;
    }
    let axes = ours.axes_in(&theirs, rank)?;
    (!axes.is_sorted()).then_some(axes)
}

/// Returns the layout of a tensor without its first axis, or with it, if it names one.
fn part(tensor: &TensorSource, without_first: bool) -> Option<Layout> {
    let rank = tensor.shape.0.len();
    if tensor.layout == Layout::unspecified(rank) {
        return None;
    }
    let letters = letters(&tensor.layout, rank);
    let part: String = letters.get(usize::from(without_first)..)?.iter().collect();
    Layout::parse(&part).ok()
}

#[cfg(test)]
mod tests {
    use super::{Adapter, OVERHEAD};
    use crate::{
        budget::Budget,
        error::ErrorKind,
        pipeline::sources::TensorSource,
        tensor::{DataType, Dim, Layout, PartialShape, Tensor},
    };

    fn tensor(dtype: Option<DataType>, layout: &str, rank: usize) -> TensorSource {
        TensorSource {
            name: "t".to_owned(),
            dtype,
            shape: PartialShape(vec![Dim::Any; rank]),
            layout: Layout::parse(layout).unwrap(),
        }
    }

    #[test]
    fn only_what_differs_is_converted() {
        use DataType::{F32, U8};
        let between = |given: &TensorSource, split, taken: &TensorSource, gathered| {
            Adapter::between(given, split, taken, gathered)
                .map(|adapter| (adapter.to, adapter.axes.unwrap_or_default()))
        };
        let of = |dtype, layout, rank| tensor(Some(dtype), layout, rank);
        let (nchw, nhwc) = (of(F32, "NCHW", 4), of(F32, "NHWC", 4));
        let open = tensor(None, "N...", 4);
        for (given, split, taken, gathered, expected) in [
            (&nchw, false, &nchw, false, None),
            (&nchw, false, &nhwc, false, Some((None, vec![0, 2, 3, 1]))),
            (&nhwc, false, &nchw, false, Some((None, vec![0, 3, 1, 2]))),
            // One that names nothing leaves the axes where they are.
            (&of(F32, "N...", 4), false, &nhwc, false, None),
            (&nchw, false, &of(F32, "N?HW", 4), false, None),
            (
                &of(U8, "N...", 4),
                false,
                &nhwc,
                false,
                Some((Some(F32), vec![])),
            ),
            (&open, false, &nhwc, false, Some((Some(F32), vec![]))),
            (&nhwc, false, &open, false, None),
            // The levels are no axes of a part.
            (
                &of(U8, "?NCHW", 5),
                true,
                &nhwc,
                false,
                Some((Some(F32), vec![0, 2, 3, 1])),
            ),
            (
                &of(U8, "NCHW", 4),
                true,
                &of(U8, "NHWC", 4),
                true,
                Some((None, vec![0, 2, 3, 1])),
            ),
            (
                &nchw,
                false,
                &of(F32, "?NHWC", 5),
                true,
                Some((None, vec![0, 1, 3, 4, 2])),
            ),
            (&nchw, true, &nhwc, false, None),
        ] {
            let found = between(given, split, taken, gathered);
            assert_eq!(found, expected, "{given:?} {taken:?}");
        }
    }

    #[test]
    fn types_and_axes_are_converted_at_once() {
        let given = Tensor::new(DataType::U8, vec![1, 2, 3], vec![0, 1, 2, 3, 4, 255].into());
        let given = given.unwrap();
        let adapter = Adapter {
            from: Some(DataType::U8),
            to: Some(DataType::I16),
            axes: Some(vec![0, 2, 1]),
        };
        let made = adapter.apply(given.clone());
        assert_eq!(
            (made.dtype(), made.shape()),
            (DataType::I16, &[1, 3, 2][..])
        );
        assert_eq!(&made.data()[..], [0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 255, 0]);
        let back = Adapter {
            from: None,
            to: Some(DataType::U8),
            axes: Some(vec![0, 2, 1]),
        };
        assert_eq!(back.apply(made), given);
    }

    #[test]
    fn what_is_made_is_charged_for_as_long_as_it_is_there() {
        let budget = Budget::new(1000);
        let given = Tensor::new(DataType::U8, vec![2, 50], vec![1; 100].into()).unwrap();
        let adapter = |to, axes| Adapter {
            from: None,
            to,
            axes,
        };
        let reverse = || Some(vec![1, 0]);
        for (adapter, bytes) in [
            (adapter(Some(DataType::F32), reverse()), 400),
            (adapter(Some(DataType::F32), None), 400),
            (adapter(None, reverse()), 100),
        ] {
            let made = adapter.convert(given.clone(), &budget).unwrap();
            assert_eq!(made.data().len(), bytes);
            assert_eq!(budget.charged(), bytes + OVERHEAD);
            drop(made);
            assert_eq!(budget.charged(), 0);
        }
        // Nothing is made, and more than there is room for.
        let same = adapter(Some(DataType::U8), Some(vec![0]));
        let _same = same.convert(given.clone(), &budget).unwrap();
        assert_eq!(budget.charged(), 0);
        let wide = adapter(Some(DataType::F64), reverse()).convert(given.clone(), &budget);
        assert_eq!(wide.unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn what_cannot_be_converted_stays() {
        let adapter = Adapter {
            from: None,
            to: Some(DataType::F32),
            axes: Some(vec![1, 0]),
        };
        let text = Tensor::new(DataType::String, vec![1, 1], vec![0; 4].into()).unwrap();
        assert_eq!(adapter.apply(text.clone()), text);
        let flat = Tensor::new(DataType::F32, vec![2], vec![0; 8].into()).unwrap();
        assert_eq!(adapter.apply(flat.clone()), flat);
        let none = Tensor::new(DataType::I8, vec![0, 3], vec![].into()).unwrap();
        let none = adapter.apply(none);
        assert_eq!((none.dtype(), none.shape()), (DataType::F32, &[3, 0][..]));
        // Its rows would be too many with the axes in their new order.
        let shape = vec![0, (1 << 20) + 1];
        let many = Tensor::new(DataType::F32, shape, vec![].into()).unwrap();
        assert_eq!(adapter.apply(many.clone()), many);
    }
}
