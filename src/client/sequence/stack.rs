//! The outputs of all steps as one answer.

use bytes::Bytes;

use super::pieces::Places;
use crate::{
    client::message::ClientResponse,
    tensor::{DataType, ShapeText, Tensor, TensorMap},
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
    count: usize,
    /// The first answer, without its outputs.
    head: Option<ClientResponse>,
    piles: Vec<Pile>,
}

/// One output of every step, one after another.
#[derive(Debug)]
struct Pile {
    name: String,
    dtype: DataType,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// Why a step does not go with those before.
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
    #[must_use]
    pub fn new(axis: usize, keeps_axis: bool) -> Self {
        Self {
            axis,
            keeps_axis,
            count: 0,
            head: None,
            piles: Vec::new(),
        }
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Puts the outputs of a step on top.
    ///
    /// # Errors
    ///
    /// Fails if an output differs in more than its elements from those before.
    pub fn push(&mut self, mut answer: ClientResponse) -> Result<(), StackError> {
        let outputs = std::mem::take(&mut answer.outputs);
        if self.head.is_none() {
            self.head = Some(answer);
            self.piles = outputs.into_iter().map(Pile::new).collect();
            self.count = 1;
            return Ok(());
        }
        if outputs.len() != self.piles.len() {
            return Err(StackError::Outputs);
        }
        for pile in &self.piles {
            pile.check(outputs.get(&pile.name).ok_or(StackError::Outputs)?)?;
        }
        for pile in &mut self.piles {
            if let Some(tensor) = outputs.get(&pile.name) {
                pile.data.extend_from_slice(tensor.data());
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Makes one answer of all steps; `None` if there is none.
    #[must_use]
    pub fn finish(self) -> Option<ClientResponse> {
        let mut answer = self.head?;
        let mut outputs = TensorMap::default();
        for pile in self.piles {
            let name = pile.name.clone();
            outputs.push(name, pile.stacked(self.count, self.axis, self.keeps_axis));
        }
        answer.outputs = outputs;
        Some(answer)
    }
}

impl Pile {
    fn new((name, tensor): (String, Tensor)) -> Self {
        let (dtype, shape, data) = tensor.into_parts();
        Self {
            name,
            dtype,
            shape,
            data: data.into(),
        }
    }

    fn check(&self, tensor: &Tensor) -> Result<(), StackError> {
        if (tensor.dtype(), tensor.shape()) == (self.dtype, &self.shape) {
            return Ok(());
        }
        let text = |dtype: DataType, shape: &[usize]| format!("{dtype} {}", ShapeText(shape));
        Err(StackError::Differs {
            name: self.name.clone(),
            found: text(tensor.dtype(), tensor.shape()),
            expected: text(self.dtype, &self.shape),
        })
    }

    fn stacked(self, count: usize, axis: usize, keeps_axis: bool) -> Tensor {
        let Self {
            dtype,
            mut shape,
            data,
            ..
        } = self;
        let axis = axis.min(shape.len());
        let outer: usize = shape[..axis].iter().product();
        let inner: usize = shape[axis..].iter().product();
        let data = if outer > 1 {
            let places = Places::of(dtype, &data);
            let mut turned = Vec::with_capacity(data.len());
            for row in 0..outer {
                for step in 0..count {
                    let range = places.range((step * outer + row) * inner, inner);
                    turned.extend_from_slice(&data[range]);
                }
            }
            turned
        } else {
            data
        };
        if keeps_axis && shape.get(axis) == Some(&1) {
            shape[axis] = count;
        } else {
            shape.insert(axis, count);
        }
        Tensor::new(dtype, shape, Bytes::from(data)).expect("every step has the same size")
    }
}

#[cfg(test)]
mod tests {
    use super::{Stack, StackError};
    use crate::{
        client::message::ClientResponse,
        tensor::{DataType, Tensor, TensorMap, values::Packer},
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
        let (_, shape, data) = stack
            .finish()
            .unwrap()
            .outputs
            .get("y")
            .unwrap()
            .clone()
            .into_parts();
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
        let tensor = answer.outputs.get("t").unwrap();
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
}
