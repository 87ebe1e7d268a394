//! Inputs cut into steps.

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::stack::Places;
use crate::{
    client::input::WholeInput,
    tensor::{Dim, PartialShape, ShapeText, Tensor, TensorMap, values::values},
};

/// The steps of a sequence.
///
/// An array with as many dimensions as the model's input gives steps in which the axis is 1 long;
/// one with a dimension more gives steps without the axis. What has the model's own shape, or only
/// one step, goes with every step.
#[derive(Debug)]
pub struct Steps {
    count: usize,
    keeps_axis: bool,
    inputs: Vec<(String, Input)>,
}

/// An input of every step.
#[derive(Debug)]
enum Input {
    /// The same each time.
    Same(Tensor),
    /// Another part each time.
    Cut(Cut),
}

/// An array and how it is cut.
#[derive(Debug)]
struct Cut {
    tensor: Tensor,
    places: Places,
    axis: usize,
    keeps_axis: bool,
}

/// Error of splitting inputs into steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepsError {
    /// An array of length 0 on the axis.
    #[error("input `{name}` has no steps: its shape is {shape}")]
    Empty {
        /// The name of the input.
        name: String,
        /// Shape of the input, printed.
        shape: String,
    },
    /// The steps are none that the model takes.
    #[error("input `{name}` has shape {shape}, expected {expected} for N steps along axis {axis}")]
    Shape {
        /// The name of the input.
        name: String,
        /// Shape of the input, printed.
        shape: String,
        /// The shapes that would do, printed.
        expected: String,
        /// The axis.
        axis: usize,
        /// The elements in a row that are no whole steps.
        rest: Option<StepRest>,
    },
    /// Arrays with different numbers of steps.
    #[error("input `{name}` has {count} steps, input `{other}` has {other_count}")]
    Disagree {
        /// The name of an input.
        name: String,
        /// The number of its steps.
        count: usize,
        /// The name of another one.
        other: String,
        /// The number of its steps.
        other_count: usize,
    },
    /// Every input has the model's own shape.
    #[error("no input has steps: every one has the shape that the model takes at once")]
    None,
    /// An element is not a number; in a sequence it would spoil all that follows.
    #[error("input `{name}` has a NaN{}, which would stay in the state of the sequence", at(*step))]
    NotANumber {
        /// The name of the input.
        name: String,
        /// The step from 1 on; `None` if the input is the same in every step.
        step: Option<usize>,
    },
}

/// Elements in a row that are no whole number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRest {
    /// The number of elements of a step.
    pub each: usize,
    /// The number of whole steps.
    pub whole: usize,
    /// The number of elements behind them.
    pub over: usize,
}

impl StepRest {
    fn of(shape: &[usize], model: &PartialShape) -> Option<Self> {
        let &[count] = shape else {
            return None;
        };
        // What may vary is taken to be 1 long, as a batch is.
        let each: usize = model.0.iter().map(Dim::least).product();
        let over = count.checked_rem(each)?;
        (over > 0).then_some(Self {
            each,
            whole: count / each,
            over,
        })
    }
}

impl fmt::Display for StepRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { each, whole, over } = self;
        let missing = each - over;
        write!(
            f,
            "a step has {each} elements: {over} are over behind {whole} whole steps, or {missing} are missing"
        )
    }
}

fn at(step: Option<usize>) -> String {
    step.map_or_else(String::new, |step| format!(" in step {step}"))
}

impl Steps {
    /// Cuts inputs along an axis.
    ///
    /// # Errors
    ///
    /// Fails if there are no steps, they do not fit the model, the inputs disagree, or an element is
    /// not a number.
    pub fn new(inputs: Vec<WholeInput>, axis: usize) -> Result<Self, StepsError> {
        let steps = Self::any(inputs, axis)?;
        for (name, input) in &steps.inputs {
            if let Some(place) = not_a_number(input.tensor()) {
                let (name, step) = (name.clone(), input.step_of(place));
                return Err(StepsError::NotANumber { name, step });
            }
        }
        Ok(steps)
    }

    /// Cuts inputs along an axis, whatever their elements.
    ///
    /// # Errors
    ///
    /// Fails if there are no steps, they do not fit the model, or the inputs disagree.
    pub fn any(inputs: Vec<WholeInput>, axis: usize) -> Result<Self, StepsError> {
        let mut cut = Vec::with_capacity(inputs.len());
        for WholeInput { name, tensor, step } in inputs {
            let input = match step {
                Some(step) => Input::new(&name, tensor, &step, axis)?,
                None => Input::Same(tensor),
            };
            cut.push((name, input));
        }
        let counts = || {
            cut.iter().filter_map(|(name, input)| match input {
                Input::Same(_) => None,
                Input::Cut(cut) => Some((name, cut.count(), cut.keeps_axis)),
            })
        };
        let (longest, count, _) = counts()
            .max_by_key(|(_, count, _)| *count)
            .ok_or(StepsError::None)?;
        let other = counts().find(|(_, other, _)| *other != count && *other != 1);
        if let Some((other, other_count, _)) = other {
            return Err(StepsError::Disagree {
                name: longest.clone(),
                count,
                other: other.clone(),
                other_count,
            });
        }
        let keeps_axis = counts()
            .filter(|(_, other, _)| *other == count)
            .all(|(_, _, keeps_axis)| keeps_axis);
        Ok(Self {
            count,
            keeps_axis,
            inputs: cut,
        })
    }

    /// Returns the number of steps; 1 at least.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether the steps still have the axis, with length 1.
    pub fn keeps_axis(&self) -> bool {
        self.keeps_axis
    }

    /// Returns the inputs of a step, counted from 0.
    pub fn step(&self, index: usize) -> TensorMap {
        let step = |(name, input): &(String, Input)| {
            let tensor = match input {
                Input::Same(tensor) => tensor.clone(),
                // What has one step goes with every step.
                Input::Cut(cut) => cut.step(index.min(cut.count() - 1)),
            };
            (name.clone(), tensor)
        };
        self.inputs.iter().map(step).collect()
    }
}

impl Input {
    fn new(
        name: &str,
        tensor: Tensor,
        model: &PartialShape,
        axis: usize,
    ) -> Result<Self, StepsError> {
        let shape = tensor.shape();
        let keeps_axis = shape.len() == model.0.len();
        let is_cut = axis < shape.len()
            && match (keeps_axis, shape.len() == model.0.len() + 1) {
                (true, _) => takes(model, |dim| if dim == axis { 1 } else { shape[dim] }),
                (_, true) => takes(model, |dim| shape[if dim < axis { dim } else { dim + 1 }]),
                _ => false,
            };
        if !is_cut {
            if model.fixed().as_deref() == Some(shape) {
                return Ok(Self::Same(tensor));
            }
            return Err(StepsError::Shape {
                name: name.to_owned(),
                shape: ShapeText(shape).to_string(),
                expected: expected(model, axis),
                axis,
                rest: StepRest::of(shape, model),
            });
        }
        if shape[axis] == 0 {
            return Err(StepsError::Empty {
                name: name.to_owned(),
                shape: ShapeText(shape).to_string(),
            });
        }
        Ok(Self::Cut(Cut {
            places: Places::of(tensor.dtype(), tensor.data()),
            tensor,
            axis,
            keeps_axis,
        }))
    }

    fn tensor(&self) -> &Tensor {
        match self {
            Self::Same(tensor) => tensor,
            Self::Cut(cut) => &cut.tensor,
        }
    }

    /// Returns the step from 1 on that an element is of.
    fn step_of(&self, element: usize) -> Option<usize> {
        let Self::Cut(cut) = self else {
            return None;
        };
        let inner: usize = cut.tensor.shape()[cut.axis + 1..].iter().product();
        Some(element / inner % cut.count() + 1)
    }
}

/// Returns whether a model takes the lengths that a function has for its dimensions.
fn takes(model: &PartialShape, length: impl Fn(usize) -> usize) -> bool {
    let mut dims = model.0.iter().enumerate();
    dims.all(|(index, dim)| dim.allows(length(index)))
}

/// Writes the shapes that arrays of steps can have.
fn expected(model: &PartialShape, axis: usize) -> String {
    let texts: Vec<String> = model.0.iter().map(Dim::to_string).collect();
    let mut shapes = Vec::new();
    if model.0.get(axis).is_some_and(|dim| dim.allows(1)) {
        let mut kept = texts.clone();
        kept[axis] = "N".to_owned();
        shapes.push(ShapeText(&kept).to_string());
    }
    if axis <= texts.len() {
        let mut more = texts;
        more.insert(axis, "N".to_owned());
        shapes.push(ShapeText(&more).to_string());
    }
    if shapes.is_empty() {
        return format!("an axis within {model} or right behind it");
    }
    shapes.join(" or ")
}

impl Cut {
    fn count(&self) -> usize {
        self.tensor.shape()[self.axis]
    }

    fn step(&self, index: usize) -> Tensor {
        let shape = self.tensor.shape();
        let outer: usize = shape[..self.axis].iter().product();
        let inner: usize = shape[self.axis + 1..].iter().product();
        let part = |row: usize| {
            self.places
                .range((row * shape[self.axis] + index) * inner, inner)
        };
        let data = self.tensor.data();
        let data: Bytes = if outer == 1 {
            data.slice(part(0))
        } else {
            let mut gathered = BytesMut::new();
            for row in 0..outer {
                gathered.extend_from_slice(&data[part(row)]);
            }
            gathered.freeze()
        };
        let mut lengths = shape.to_vec();
        if self.keeps_axis {
            lengths[self.axis] = 1;
        } else {
            lengths.remove(self.axis);
        }
        Tensor::new(self.tensor.dtype(), lengths, data).expect("a part has the bytes of its shape")
    }
}

/// Checks that every element of a step is a number.
///
/// # Errors
///
/// Fails if one is not.
pub fn check_numbers(inputs: &TensorMap) -> Result<(), StepsError> {
    match inputs
        .iter()
        .find(|(_, tensor)| not_a_number(tensor).is_some())
    {
        Some((name, _)) => Err(StepsError::NotANumber {
            name: name.to_owned(),
            step: None,
        }),
        None => Ok(()),
    }
}

/// Finds the first element that is not a number.
fn not_a_number(tensor: &Tensor) -> Option<usize> {
    if !tensor.dtype().is_float() {
        return None;
    }
    values(tensor).position(|value| value.as_f64().is_some_and(f64::is_nan))
}

#[cfg(test)]
mod tests;
