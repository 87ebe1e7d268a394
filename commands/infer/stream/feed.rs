//! Source of requests: the inputs as they are, in parts, or lines.

use ovms::{
    client::{
        ModelMetadata, Request,
        input::{Argument, Inputs, RequestLine, WholeInput},
        sequence::Steps,
    },
    tensor::{Dim, PartialShape},
};

use super::plan::{Origin, RequestPlan, stamp};
use crate::{
    error::{Failure, FailureKind},
    infer::{
        failure,
        sequence::{Lines, explain_steps},
    },
};

/// Sequence of requests.
pub(crate) struct RequestFeed<'a> {
    model: &'a ModelMetadata,
    inputs: &'a Inputs,
    /// Common part of all requests.
    base: Request,
    source: Source,
    given: usize,
    timestamp: Option<i64>,
    malformed: FailureKind,
}

enum Source {
    One,
    Parts(Steps),
    Lines { lines: Lines, argument: Argument },
}

impl<'a> RequestFeed<'a> {
    pub(crate) fn new(
        plan: &RequestPlan,
        inputs: &'a Inputs,
        base: Request,
        model: &'a ModelMetadata,
    ) -> Result<Self, Failure> {
        let source = match &plan.source {
            Origin::Inputs => Source::One,
            Origin::Parts(axis) => {
                let whole = inputs.whole(model);
                let whole = whole.map_err(|error| failure::input(error, Some(&model.name)))?;
                let whole = whole.into_iter().map(|input| opened(input, model, *axis));
                let steps = Steps::any(whole.collect(), *axis);
                Source::Parts(steps.map_err(|error| explain_steps(&error))?)
            }
            Origin::Lines(argument, file) => Source::Lines {
                lines: match file {
                    None => Lines::of_stdin()?,
                    Some(path) => Lines::of_file(path)
                        .map_err(|error| Failure::cannot("read", path, &error))?,
                },
                argument: argument.clone(),
            },
        };
        Ok(Self {
            model,
            inputs,
            base,
            source,
            given: 0,
            timestamp: plan.timestamp,
            malformed: plan.malformed,
        })
    }

    /// Returns the number of requests, if it is known in advance.
    pub(super) fn total(&self) -> Option<usize> {
        match &self.source {
            Source::One => Some(1),
            Source::Parts(steps) => Some(steps.count()),
            Source::Lines { .. } => None,
        }
    }

    /// Waits for the next request. This method is cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Request>, Failure> {
        if self.total().is_some_and(|total| self.given == total) {
            return Ok(None);
        }
        let mut request = self.base.clone();
        let mut own = None;
        match &mut self.source {
            Source::One => {
                let tensors = self.inputs.given(self.model);
                request.inputs =
                    tensors.map_err(|it| failure::input(it, Some(&self.model.name)))?;
            }
            Source::Parts(steps) => request.inputs = steps.step(self.given),
            Source::Lines { lines, argument } => {
                let Some(line) = lines.next().await? else {
                    return Ok(None);
                };
                let read = RequestLine::read(&line.text, argument, self.model);
                let read = read
                    .map_err(|error| {
                        Failure::of(self.malformed, &error)
                            .hint("a line is an object of inputs by name, such as {\"x\": [1, 2]}")
                    })
                    .and_then(|read| add(read, self.inputs, self.model, &mut request));
                own = read.map_err(|failure| failure.at(&lines.place(line.number)))?;
            }
        }
        if let Some(timestamp) = own.or(self.timestamp) {
            stamp(&mut request.parameters, timestamp);
            // Behind the last there is none; the server says so.
            self.timestamp = self.timestamp.map(|_| timestamp.wrapping_add(1));
        }
        self.given += 1;
        Ok(Some(request))
    }
}

/// Creates all requests of a stream, without sending them.
pub(in crate::infer) async fn requests(
    plan: &RequestPlan,
    inputs: &Inputs,
    base: Request,
    model: &ModelMetadata,
) -> Result<Vec<Request>, Failure> {
    let mut feed = RequestFeed::new(plan, inputs, base, model)?;
    let mut requests = Vec::new();
    while let Some(request) = feed.next().await? {
        requests.push(request);
    }
    Ok(requests)
}

/// Adds the contents of a line to a request; returns its timestamp.
fn add(
    line: RequestLine,
    inputs: &Inputs,
    model: &ModelMetadata,
    request: &mut Request,
) -> Result<Option<i64>, Failure> {
    let mut all = inputs.clone();
    for (argument, value) in line.inputs {
        all = all
            .with_json(&argument, value)
            .map_err(|error| failure::input(error, Some(&model.name)))?;
    }
    let tensors = all.given(model);
    request.inputs = tensors.map_err(|error| failure::input(error, Some(&model.name)))?;
    if let Some(id) = line.id {
        request.id = id;
    }
    for (key, value) in line.parameters {
        request.parameters.retain(|(known, _)| *known != key);
        request.parameters.push((key, value));
    }
    Ok(line.timestamp)
}

/// Sets the shape of one part, without the axis, of an untyped input.
fn opened(input: WholeInput, model: &ModelMetadata, axis: usize) -> WholeInput {
    let reported = model.inputs.iter().find(|it| it.name == input.name);
    if reported.is_none_or(|reported| reported.dtype().is_some()) {
        return input;
    }
    let shape = input.tensor.shape();
    let parts = shape.iter().enumerate().filter(|(index, _)| *index != axis);
    let step = PartialShape(parts.map(|(_, &length)| Dim::Fixed(length)).collect());
    WholeInput {
        step: (axis < shape.len()).then_some(step),
        ..input
    }
}
