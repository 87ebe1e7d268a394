//! Source of steps: arrays cut along an axis, or lines of standard input.

use ovms::{
    client::{
        ModelMetadata, Request,
        input::{Argument, Inputs},
        sequence::{StepControl, Steps, check_numbers, mark},
    },
    tensor::TensorMap,
};

use super::{
    Plan, explain,
    lines::{Line, Lines},
};
use crate::{error::Failure, infer::failure};

/// Sequence of steps.
#[derive(Debug)]
pub(super) struct Feed<'a> {
    model: &'a ModelMetadata,
    source: Source<'a>,
    /// Number of steps so far.
    given: usize,
    /// Line number of the last step.
    line: Option<usize>,
}

#[derive(Debug)]
enum Source<'a> {
    Arrays(Steps),
    Lines {
        lines: Lines,
        /// Input given by a line.
        argument: &'a Argument,
        /// Inputs sent with every line.
        inputs: &'a Inputs,
    },
}

/// Single step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) inputs: TensorMap,
    /// Whether it is the last step; false for lines, as that is known too late.
    pub(super) is_last: bool,
}

impl<'a> Feed<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        inputs: &'a Inputs,
        model: &'a ModelMetadata,
    ) -> Result<Self, Failure> {
        let source = match &plan.lines {
            Some(argument) => Source::Lines {
                lines: Lines::of_stdin()?,
                argument,
                inputs,
            },
            None => {
                let whole = inputs.whole(model);
                let whole = whole.map_err(|error| failure::input(error, Some(&model.name)))?;
                let steps = Steps::new(whole, plan.axis);
                Source::Arrays(steps.map_err(|error| explain::steps(&error))?)
            }
        };
        Ok(Self {
            model,
            source,
            given: 0,
            line: None,
        })
    }

    /// Returns the number of steps, if it is known in advance.
    pub(super) fn total(&self) -> Option<usize> {
        match &self.source {
            Source::Arrays(steps) => Some(steps.count()),
            Source::Lines { .. } => None,
        }
    }

    /// Returns whether the steps keep the axis along which they were cut.
    pub(super) fn keeps_axis(&self) -> bool {
        match &self.source {
            Source::Arrays(steps) => steps.keeps_axis(),
            Source::Lines { .. } => false,
        }
    }

    /// Waits for the next step. This method is cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Step>, Failure> {
        let step = match &mut self.source {
            Source::Arrays(steps) if self.given == steps.count() => return Ok(None),
            Source::Arrays(steps) => Step {
                inputs: steps.step(self.given),
                is_last: self.given + 1 == steps.count(),
            },
            Source::Lines {
                lines,
                argument,
                inputs,
            } => match lines.next().await? {
                None if self.given == 0 => return Err(no_lines()),
                None => return Ok(None),
                Some(Line { number, text }) => {
                    self.line = Some(number);
                    let read = inputs
                        .with_json(argument, text)
                        .map_err(|error| failure::input(error, Some(&self.model.name)))
                        .and_then(|inputs| read(&inputs, self.model));
                    let place = lines.place(number);
                    Step {
                        inputs: read.map_err(|failure| failure.at(&place))?,
                        is_last: false,
                    }
                }
            },
        };
        self.given += 1;
        Ok(Some(step))
    }

    /// Describes the position of the last step.
    pub(super) fn place(&self) -> String {
        let given = self.given;
        match (self.total(), self.line) {
            (Some(total), _) => format!("step {given} of {total}"),
            (None, Some(line)) => format!("step {given} (line {line} of standard input)"),
            (None, None) => format!("step {given}"),
        }
    }
}

/// Creates all requests of a sequence, without sending them.
pub(in crate::infer) async fn requests(
    plan: &Plan,
    inputs: &Inputs,
    base: Request,
    model: &ModelMetadata,
    is_tfs: bool,
    id: u64,
) -> Result<Vec<Request>, Failure> {
    let mut feed = Feed::new(plan, inputs, model)?;
    let mut requests = Vec::new();
    let mut last = None;
    let of_step = |inputs: TensorMap, control| {
        let mut request = base.clone();
        request.inputs = inputs;
        mark(&mut request, is_tfs, id, control);
        request
    };
    while let Some(Step { inputs, is_last }) = feed.next().await? {
        let control = match (requests.is_empty(), is_last) {
            (true, true) if !is_tfs => StepControl::Only,
            (true, _) => StepControl::Start,
            (false, false) => StepControl::Continue,
            (false, true) => StepControl::End,
        };
        // One that is first and last only starts where there is no form for both.
        let ends = matches!(control, StepControl::Only | StepControl::End);
        last = (!ends).then(|| inputs.clone());
        requests.push(of_step(inputs, control));
    }
    // That a line was the last is known when it is over.
    requests.extend(last.map(|inputs| of_step(inputs, StepControl::End)));
    Ok(requests)
}

fn read(inputs: &Inputs, model: &ModelMetadata) -> Result<TensorMap, Failure> {
    let tensors = inputs.tensors(model);
    let tensors = tensors.map_err(|error| failure::input(error, Some(&model.name)))?;
    check_numbers(&tensors).map_err(|error| explain::steps(&error))?;
    Ok(tensors)
}

fn no_lines() -> Failure {
    Failure::usage("standard input has no steps").hint(
        "each line is a step: an object of inputs by name, or the value of a model's one input",
    )
}
