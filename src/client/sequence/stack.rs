//! The outputs of all steps as one answer.

use std::ops::Range;

use bytes::Bytes;

use crate::{
    client::message::ClientResponse,
    tensor::{DataType, ShapeText, Tensor, named},
};

/// Gathers the answers of steps.
///
/// Of `n` steps each output becomes one with length `n` on the axis: if the steps kept the axis and
/// the output has it with length 1 the steps are put together along it, else they are stacked
/// along a new one.
#[derive(Debug)]
pub struct Stack {
    axis: usize,
    keeps_axis: bool,
    answers: Vec<ClientResponse>,
}

/// Error of stacking a step on those before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// Another shape or datatype.
    #[error(
        "output `{name}` is {found}, those of the steps before are {expected}: they cannot be stacked"
    )]
    Differs {
        /// The name of the output.
        name: String,
        /// Datatype and shape, printed.
        found: String,
        /// Datatype and shape of the steps before, printed.
        expected: String,
    },
    /// An output more or less.
    #[error("the outputs are others than those of the steps before: they cannot be stacked")]
    Outputs,
}

impl Stack {
    /// Makes a stack without steps.
    pub fn new(axis: usize, keeps_axis: bool) -> Self {
        Self {
            axis,
            keeps_axis,
            answers: Vec::new(),
        }
    }

    /// Returns the number of steps.
    pub fn count(&self) -> usize {
        self.answers.len()
    }

    /// Puts the outputs of a step on top.
    ///
    /// # Errors
    ///
    /// Fails if an output differs in more than its elements from those before.
    pub fn push(&mut self, answer: ClientResponse) -> Result<(), StackError> {
        if let Some(ClientResponse { outputs, .. }) = self.answers.first() {
            if answer.outputs.len() != outputs.len() {
                return Err(StackError::Outputs);
            }
            for (name, expected) in outputs.iter() {
                let found = named(&answer.outputs, name).ok_or(StackError::Outputs)?;
                check(name, found, expected)?;
            }
        }
        self.answers.push(answer);
        Ok(())
    }

    /// Makes one answer of all steps; `None` if there is none.
    pub fn finish(self) -> Option<ClientResponse> {
        let mut whole = self.answers.first()?.clone();
        let stacked = |(name, _): &(String, Tensor)| {
            let steps = self.answers.iter();
            let steps: Vec<_> = steps.filter_map(|it| named(&it.outputs, name)).collect();
            (name.to_owned(), self.stacked(&steps))
        };
        whole.outputs = whole.outputs.iter().map(stacked).collect();
        Some(whole)
    }

    /// Puts one output of every step together.
    fn stacked(&self, steps: &[&Tensor]) -> Tensor {
        let dtype = steps[0].dtype();
        let mut shape = steps[0].shape().to_vec();
        let axis = self.axis.min(shape.len());
        let outer: usize = shape[..axis].iter().product();
        let inner: usize = shape[axis..].iter().product();
        let mut data = Vec::with_capacity(steps.iter().map(|step| step.data().len()).sum());
        if outer > 1 {
            let places = |step: &&Tensor| Places::of(dtype, step.data());
            let places: Vec<_> = steps.iter().map(places).collect();
            for row in 0..outer {
                for (step, places) in steps.iter().zip(&places) {
                    let range = places.range(row * inner, inner);
                    data.extend_from_slice(&step.data()[range]);
                }
            }
        } else {
            for step in steps {
                data.extend_from_slice(step.data());
            }
        }
        if self.keeps_axis && shape.get(axis) == Some(&1) {
            shape[axis] = steps.len();
        } else {
            shape.insert(axis, steps.len());
        }
        Tensor::new(dtype, shape, Bytes::from(data)).expect("every step has the same size")
    }
}

fn check(name: &str, found: &Tensor, expected: &Tensor) -> Result<(), StackError> {
    if (found.dtype(), found.shape()) == (expected.dtype(), expected.shape()) {
        return Ok(());
    }
    let text = |tensor: &Tensor| format!("{} {}", tensor.dtype(), ShapeText(tensor.shape()));
    Err(StackError::Differs {
        name: name.to_owned(),
        found: text(found),
        expected: text(expected),
    })
}

/// The places of elements.
#[derive(Debug)]
pub(super) enum Places {
    /// Every element has this many bytes.
    Width(usize),
    /// Offset of each element, and at last that of the end of the bytes.
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
    use super::{Places, Stack, StackError};
    use crate::{
        client::message::ClientResponse,
        tensor::{DataType, Tensor, TensorMap, named, values::Packer},
    };

    fn answer(outputs: Vec<(&str, Tensor)>) -> ClientResponse {
        ClientResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter(
                outputs
                    .into_iter()
                    .map(|(name, tensor)| (name.to_owned(), tensor)),
            ),
            opaque: Vec::new(),
        }
    }

    fn bytes(shape: &[usize], data: &[u8]) -> Tensor {
        Tensor::new(DataType::U8, shape.to_vec(), data.to_vec().into()).unwrap()
    }

    fn stacked(
        shape: &[usize],
        steps: &[&[u8]],
        axis: usize,
        keeps: bool,
    ) -> (Vec<usize>, Vec<u8>) {
        let mut stack = Stack::new(axis, keeps);
        for step in steps {
            stack.push(answer(vec![("y", bytes(shape, step))])).unwrap();
        }
        assert_eq!(stack.count(), steps.len());
        let outputs = stack.finish().unwrap().outputs;
        let (_, shape, data) = named(&outputs, "y").unwrap().clone().into_parts();
        (shape, data.to_vec())
    }

    #[test]
    fn the_axis_is_as_long_as_there_are_steps() {
        let two: &[&[u8]] = &[&[1, 2], &[3, 4]];
        let in_turn = vec![1, 2, 3, 4];
        let turned = vec![1, 3, 2, 4];
        for (shape, axis, keeps, expected, data) in [
            (&[1, 2][..], 0, true, vec![2, 2], &in_turn),
            (&[1, 2], 0, false, vec![2, 1, 2], &in_turn),
            // Of length 2 already.
            (&[2, 1], 0, true, vec![2, 2, 1], &in_turn),
            (&[2, 1], 1, true, vec![2, 2], &turned),
            (&[2, 1], 1, false, vec![2, 2, 1], &turned),
            (&[2], 1, true, vec![2, 2], &turned),
            // No axis 3 to put it at.
            (&[2], 3, false, vec![2, 2], &turned),
        ] {
            assert_eq!(
                stacked(shape, two, axis, keeps),
                (expected, data.clone()),
                "{shape:?} {axis} {keeps}"
            );
        }
        assert_eq!(
            stacked(&[], &[&[7], &[8], &[9]], 0, true),
            (vec![3], vec![7, 8, 9])
        );
        assert_eq!(stacked(&[0, 2], &[&[], &[]], 0, true).0, [2, 0, 2]);
        assert_eq!(Stack::new(0, true).finish(), None);
    }

    #[test]
    fn strings_are_stacked_along_any_axis() {
        let strings = |words: &[&str]| {
            let mut packer = Packer::new(DataType::String, 2);
            for word in words {
                packer.push_bytes(word.as_bytes()).unwrap();
            }
            Tensor::new(DataType::String, vec![2], packer.finish()).unwrap()
        };
        let mut stack = Stack::new(1, false);
        stack
            .push(answer(vec![("t", strings(&["a", "bb"]))]))
            .unwrap();
        stack
            .push(answer(vec![("t", strings(&["", "d"]))]))
            .unwrap();
        let answer = stack.finish().unwrap();
        let tensor = named(&answer.outputs, "t").unwrap();
        let expected = b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bb\x01\0\0\0d";
        assert_eq!(
            (tensor.shape(), &tensor.data()[..]),
            (&[2, 2][..], &expected[..])
        );
    }

    #[test]
    fn what_differs_from_step_to_step_is_refused() {
        let mut stack = Stack::new(0, true);
        stack.push(answer(vec![("y", bytes(&[1], &[1]))])).unwrap();
        let error = stack
            .push(answer(vec![("y", bytes(&[2], &[1, 2]))]))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "output `y` is UINT8 (2), those of the steps before are UINT8 (1): they cannot be stacked"
        );
        for other in [vec![], vec![("z", bytes(&[1], &[1]))]] {
            assert_eq!(stack.push(answer(other)), Err(StackError::Outputs));
        }
        assert_eq!(stack.count(), 1);
    }

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
