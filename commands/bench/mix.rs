//! Requests of a load: one of the flags, or those of a file with their weights.

use ovms::client::{
    ModelMetadata, Request,
    input::{Argument, RequestLine},
    load::{TrafficKind, WeightedRequest},
    sequence::{Steps, StepsError},
};

use super::plan::{BenchPlan, RequestLines};
use crate::{
    error::{Failure, FailureKind},
    infer::{self, add_line},
};

/// Requests, and the lines that they come from.
#[derive(Debug)]
pub(super) struct RequestMix {
    pub(super) requests: Vec<WeightedRequest>,
    /// Place of each request, if there are several.
    pub(super) places: Vec<String>,
}

/// Makes the requests for a model.
pub(super) fn requests(plan: &BenchPlan, model: &ModelMetadata) -> Result<RequestMix, Failure> {
    let base = plan.job.base(model)?;
    if let Some(lines) = &plan.lines {
        return of_lines(lines, plan, &base, model);
    }
    if matches!(plan.kind, TrafficKind::Sequences { .. })
        && let Some(steps) = steps(plan, model)?
    {
        let requests = (0..steps.count()).map(|index| WeightedRequest {
            request: Request {
                inputs: steps.step(index),
                ..base.clone()
            },
            weight: 1.0,
        });
        return Ok(RequestMix {
            requests: requests.collect(),
            places: (1..=steps.count())
                .map(|step| format!("step {step}"))
                .collect(),
        });
    }
    let is_stream = matches!(plan.kind, TrafficKind::Streams { .. });
    let inputs = match is_stream {
        // Graphs may do without some.
        true => plan.job.inputs.given(model),
        false => plan.job.inputs.tensors(model),
    };
    let inputs = inputs.map_err(|error| infer::input_failure(error, Some(&model.name)))?;
    let request = Request { inputs, ..base };
    Ok(RequestMix {
        requests: vec![WeightedRequest {
            request,
            weight: 1.0,
        }],
        places: Vec::new(),
    })
}

/// Cuts the inputs into the steps of a sequence; `None` if each of them is one step.
fn steps(plan: &BenchPlan, model: &ModelMetadata) -> Result<Option<Steps>, Failure> {
    let whole = plan.job.inputs.whole(model);
    let whole = whole.map_err(|error| infer::input_failure(error, Some(&model.name)))?;
    match Steps::new(whole, 0) {
        Ok(steps) => Ok(Some(steps)),
        Err(StepsError::None) => Ok(None),
        Err(error) => Err(infer::explain_steps(&error)),
    }
}

fn of_lines(
    lines: &RequestLines,
    plan: &BenchPlan,
    base: &Request,
    model: &ModelMetadata,
) -> Result<RequestMix, Failure> {
    let (mut requests, mut places) = (Vec::new(), Vec::new());
    let argument = Argument::of_lines(None);
    for (line, number) in lines.text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("{}:{number}", lines.name);
        let read = RequestLine::read(line, &argument, model).map_err(|error| {
            Failure::of(FailureKind::Usage, &error)
                .hint("a line is an object of inputs by name, such as {\"x\": [1, 2]}")
        });
        let weight = |line: &RequestLine| line.weight.unwrap_or(1.0);
        let mut request = base.clone();
        let weight = read
            .and_then(|line| {
                let weight = weight(&line);
                add_line(line, &plan.job.inputs, model, &mut request).map(|_| weight)
            })
            .and_then(|weight| match weight > 0.0 && weight.is_finite() {
                true => Ok(weight),
                false => Err(Failure::usage(format!(
                    "found the weight {weight}, expected a number above 0"
                ))),
            })
            .map_err(|failure| failure.at(&place))?;
        requests.push(WeightedRequest { request, weight });
        places.push(place);
    }
    if requests.is_empty() {
        let text = format!("{} has no requests", lines.name);
        return Err(Failure::usage(text).hint("each line is one, as a JSON object"));
    }
    Ok(RequestMix { requests, places })
}
