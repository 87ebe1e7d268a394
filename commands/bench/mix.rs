//! Requests of a load: one of the flags, or those of a file with their weights.

use std::{collections::BTreeSet, iter::zip};

use ovms::client::{
    ModelMetadata, Request,
    input::{Argument, InputError, InputTurn, RequestLine, ValueProblem},
    load::{TrafficKind, WeightedRequest},
    sequence::{Steps, StepsError},
};

use super::{
    plan::{BenchPlan, RequestLines},
    report::ReportedInput,
};
use crate::{
    error::{Failure, FailureKind},
    infer::{self, add_line},
};

/// Maximum number of bytes of all tensors, which are encoded before the load.
const MAX_TENSORS: u64 = 1 << 30;

/// Maximum number of different inputs in a report.
const MAX_INPUTS: usize = 100;

/// Requests, and the lines that they come from.
#[derive(Debug, Default)]
pub(super) struct RequestMix {
    pub(super) requests: Vec<WeightedRequest>,
    /// Place of each request, if there are several.
    pub(super) places: Vec<String>,
    /// Number of bytes of the tensors.
    bytes: u64,
}

impl RequestMix {
    /// Adds a request of several. Whoever waits for all of them has a turn between two.
    async fn push(&mut self, request: Request, weight: f64, place: String) -> Result<(), Failure> {
        let tensors = request.inputs.iter();
        let bytes = tensors.map(|(_, tensor)| tensor.data().len() as u64);
        self.bytes += bytes.sum::<u64>();
        if self.bytes > MAX_TENSORS {
            let text = format!(
                "{place}: the requests up to here have more than {} MiB",
                MAX_TENSORS >> 20
            );
            return Err(Failure::failed(text).hint("part of them is enough"));
        }
        self.requests.push(WeightedRequest { request, weight });
        self.places.push(place);
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Returns names, datatypes, and shapes of the inputs, each once.
    pub(super) fn inputs(&self) -> Vec<ReportedInput> {
        let requests = self.requests.iter();
        let inputs = requests.flat_map(|weighted| weighted.request.inputs.iter());
        let inputs = inputs.map(|(name, tensor)| ReportedInput {
            name: name.to_owned(),
            datatype: tensor.dtype().to_string(),
            shape: tensor.shape().to_vec(),
        });
        let inputs: BTreeSet<_> = inputs.collect();
        inputs.into_iter().take(MAX_INPUTS).collect()
    }
}

/// Makes the requests for a model.
pub(super) async fn requests(
    plan: &BenchPlan,
    model: &ModelMetadata,
) -> Result<RequestMix, Failure> {
    let base = plan.job.base(model)?;
    if let Some(lines) = &plan.lines {
        return of_lines(lines, plan, &base, model).await;
    }
    let is_stream = matches!(plan.kind, TrafficKind::Streams { .. });
    if plan.is_in_turn {
        return in_turn(plan, &base, model, is_stream).await;
    }
    if matches!(plan.kind, TrafficKind::Sequences { .. })
        && let Some(steps) = steps(plan, model)?
    {
        let mut mix = RequestMix::default();
        for (index, number) in zip(0..steps.count(), 1..) {
            let request = Request {
                inputs: steps.step(index),
                ..base.clone()
            };
            mix.push(request, 1.0, format!("step {number}")).await?;
        }
        return Ok(mix);
    }
    let inputs = match is_stream {
        // Graphs may do without some.
        true => plan.job.inputs.given(model),
        false => plan.job.inputs.tensors(model),
    };
    let inputs = inputs.map_err(|error| {
        // One image is what the model takes, or one array: then they are meant one by one.
        let is_several = matches!(
            error,
            InputError::Twice(_)
                | InputError::Value {
                    problem: ValueProblem::Batch(_),
                    ..
                }
        );
        let failure = infer::input_failure(error, Some(&model.name));
        failure
            .may_hint(is_several.then(|| "`--in-turn` sends them one after the other".to_owned()))
    })?;
    let request = Request { inputs, ..base };
    Ok(RequestMix {
        requests: vec![WeightedRequest {
            request,
            weight: 1.0,
        }],
        ..RequestMix::default()
    })
}

/// Makes a request of each value of the inputs that have several.
async fn in_turn(
    plan: &BenchPlan,
    base: &Request,
    model: &ModelMetadata,
    is_stream: bool,
) -> Result<RequestMix, Failure> {
    let failed = |error| infer::input_failure(error, Some(&model.name));
    let mut mix = RequestMix::default();
    let turns = plan.job.inputs.in_turn(model).map_err(failed)?;
    for (InputTurn { inputs, file }, number) in zip(turns, 1..) {
        let place = match file {
            Some(file) => file.display().to_string(),
            None => format!("request {number}"),
        };
        let inputs = match is_stream {
            true => inputs.given(model),
            false => inputs.tensors(model),
        };
        let request = Request {
            inputs: inputs.map_err(|error| failed(error).at(&place))?,
            ..base.clone()
        };
        mix.push(request, 1.0, place).await?;
    }
    plan.job.inputs.hear_of_end();
    Ok(mix)
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

async fn of_lines(
    lines: &RequestLines,
    plan: &BenchPlan,
    base: &Request,
    model: &ModelMetadata,
) -> Result<RequestMix, Failure> {
    let mut mix = RequestMix::default();
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
            .and_then(|mut line| {
                let weight = weight(&line);
                line.take_files(&lines.folder);
                add_line(line, &plan.job.inputs, model, &mut request).map(|_| weight)
            })
            .and_then(|weight| match weight > 0.0 && weight.is_finite() {
                true => Ok(weight),
                false => Err(Failure::usage(format!(
                    "found the weight {weight}, expected a number above 0"
                ))),
            })
            .map_err(|failure| failure.at(&place))?;
        mix.push(request, weight, place).await?;
    }
    plan.job.inputs.hear_of_end();
    if mix.requests.is_empty() {
        let text = format!("{} has no requests", lines.name);
        return Err(Failure::usage(text).hint("each line is one, as a JSON object"));
    }
    Ok(mix)
}
