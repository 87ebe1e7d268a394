//! Source of requests, or of the steps of a sequence: the inputs as they are, in parts, or lines, which are
//! read on a thread of their own so that nothing else has to wait.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use ovms::{
    client::{
        ModelMetadata, Request,
        input::{
            Argument, ElementSource, FileKind, Inputs, RequestLine, SoundError, SoundForm,
            SoundStream, WholeInput, samples_of_a_step,
        },
        sequence::{Steps, StepsError, check_numbers},
    },
    request::{Parameter, Parameters},
    task,
    tensor::{Dim, PartialShape},
};
use tokio::sync::mpsc;

use super::{
    failure,
    lines::{Line, Lines},
    next_step,
    sequence::explain_steps,
};
use crate::error::{Failure, FailureKind};

/// Request parameter with the timestamp.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Next step for a stream whose inputs have no axis to cut.
const PARTS_OF_STREAM: &str = "`--axis` names a dimension of an input, counted from 0, each part of which is a request; \
     without it, the inputs are one request";

/// Requests to make.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestPlan {
    pub(super) source: Origin,
    /// Timestamp of the next request that has none of its own.
    pub(super) timestamp: Option<i64>,
    pub(super) role: Role,
}

/// Source of requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Origin {
    /// Inputs as one request.
    Inputs,
    /// Parts of the inputs along an axis.
    Parts(usize),
    /// Lines of standard input, which give this input.
    Lines(Argument),
    /// Lines of a file, which is standard input as `-`. Their values may name files.
    File(PathBuf),
    /// Samples of a sound from standard input, as many at once as the model takes.
    Samples(Argument, FileKind),
}

/// Use of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Steps of a sequence: lines have inputs alone, and all elements are numbers.
    Steps,
    /// Requests of a stream; with the kind of the failure for a line that is none.
    Stream(FailureKind),
}

/// Sequence of requests.
#[derive(Debug)]
pub(crate) struct RequestFeed<'a> {
    model: &'a ModelMetadata,
    inputs: &'a Inputs,
    /// Common part of all requests.
    base: Request,
    source: Source,
    /// Number of requests so far.
    given: usize,
    /// Line number of the last request.
    line: Option<usize>,
    /// Indicates that there are no more lines.
    is_at_end: bool,
    timestamp: Option<i64>,
    role: Role,
}

#[derive(Debug)]
enum Source {
    One,
    Parts(Steps),
    Lines {
        lines: Lines,
        argument: Argument,
        /// Folder of the files that values name; `None` where such values are texts.
        folder: Option<PathBuf>,
    },
    Samples {
        samples: Samples,
        argument: Argument,
    },
}

impl RequestPlan {
    /// Plans one request, or one for each line of a file.
    pub(crate) fn local(lines: Option<&Path>, timestamp: Option<i64>) -> Self {
        Self {
            source: lines.map_or(Origin::Inputs, Origin::of_file),
            timestamp,
            role: Role::Stream(FailureKind::Failed),
        }
    }

    /// Returns whether a request may come without inputs from flags.
    pub(super) fn has_lines(&self) -> bool {
        matches!(
            self.source,
            Origin::Lines(_) | Origin::File(_) | Origin::Samples(..)
        )
    }
}

impl Origin {
    /// Returns what standard input gives bit by bit.
    pub(super) fn of_stdin(argument: Argument) -> Self {
        match argument.source {
            ElementSource::Stdin {
                kind: Some(kind), ..
            } => Self::Samples(argument, kind),
            _ => Self::Lines(argument),
        }
    }

    /// Returns the lines of a file; `-` is standard input.
    pub(super) fn of_file(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
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
                let whole = inputs.whole(model).map_err(failure::of_input(model))?;
                let steps = match plan.role {
                    Role::Steps => Steps::new(whole, *axis),
                    Role::Stream(_) => {
                        let whole = whole.into_iter().map(|input| opened(input, model, *axis));
                        Steps::any(whole.collect(), *axis)
                    }
                };
                Source::Parts(steps.map_err(|error| match (&error, &plan.role) {
                    (StepsError::None, Role::Stream(_)) => {
                        Failure::usage(error.to_string()).hint(PARTS_OF_STREAM)
                    }
                    _ => explain_steps(&error),
                })?)
            }
            Origin::Lines(argument) => Source::Lines {
                lines: Lines::of_stdin()?,
                argument: argument.clone(),
                folder: None,
            },
            Origin::File(path) => Source::Lines {
                lines: match path == Path::new("-") {
                    true => Lines::of_stdin()?,
                    false => Lines::of_file(path)
                        .map_err(|error| Failure::cannot("read", path, &error))?,
                },
                argument: Argument::of_lines(None),
                folder: Some(path.parent().unwrap_or(Path::new("")).to_owned()),
            },
            Origin::Samples(argument, kind) => {
                let count = samples_of_a_step(argument, model);
                Source::Samples {
                    samples: Samples::of_stdin(count.map_err(failure::of_input(model))?, *kind)?,
                    argument: argument.clone(),
                }
            }
        };
        Ok(Self {
            model,
            inputs,
            base,
            source,
            given: 0,
            line: None,
            is_at_end: false,
            timestamp: plan.timestamp,
            role: plan.role,
        })
    }

    /// Returns the number of requests, if it is known in advance.
    pub(super) fn total(&self) -> Option<usize> {
        match &self.source {
            Source::One => Some(1),
            Source::Parts(steps) => Some(steps.count()),
            Source::Lines { .. } | Source::Samples { .. } => None,
        }
    }

    /// Returns whether there are no more requests; false for lines, as that is known too late.
    pub(super) fn is_over(&self) -> bool {
        self.total() == Some(self.given)
    }

    /// Returns the name of the model.
    pub(super) fn model_name(&self) -> &'a str {
        &self.model.name
    }

    /// Returns the number of samples of a step, if the steps are those of a sound.
    pub(super) fn samples_of_a_step(&self) -> Option<usize> {
        match &self.source {
            Source::Parts(_) => self.inputs.samples_of_a_step(self.model),
            Source::Samples { argument, .. } => samples_of_a_step(argument, self.model).ok(),
            Source::One | Source::Lines { .. } => None,
        }
    }

    /// Returns whether the parts keep the axis along which they were cut.
    pub(super) fn keeps_axis(&self) -> bool {
        matches!(&self.source, Source::Parts(steps) if steps.keeps_axis())
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

    /// Returns whether lines may follow the one that has just been refused.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self.source, Source::Lines { .. }) && !self.is_at_end
    }

    /// Returns the number of the last line, if it could be read.
    pub(super) fn line(&self) -> Option<usize> {
        self.line
    }

    /// Waits for the next request. This method is cancel safe, but for a line that names files.
    pub(crate) async fn next(&mut self) -> Result<Option<Request>, Failure> {
        if self.is_over() {
            return Ok(None);
        }
        let mut request = self.base.clone();
        let mut own = None;
        match &mut self.source {
            Source::One => {
                let tensors = self.inputs.given(self.model);
                request.inputs = tensors.map_err(failure::of_input(self.model))?;
            }
            Source::Parts(steps) => request.inputs = steps.step(self.given),
            Source::Lines {
                lines,
                argument,
                folder,
            } => {
                let is_empty = self.given == 0 && self.line.is_none();
                // One that cannot be read has no number.
                let next = lines.next().await.inspect_err(|_| self.line = None)?;
                let Some(Line { number, text }) = next else {
                    self.is_at_end = true;
                    return match self.role {
                        Role::Steps if is_empty => Err(no_steps()),
                        Role::Stream(kind) if is_empty => Err(no_requests(kind, lines.source())),
                        Role::Steps | Role::Stream(_) => {
                            self.inputs.hear_of_end();
                            Ok(None)
                        }
                    };
                };
                self.line = Some(number);
                let (inputs, model) = (self.inputs, self.model);
                let read = match self.role {
                    Role::Steps => step(text, argument, inputs, model, &mut request).map(|()| None),
                    Role::Stream(malformed) => {
                        let line = RequestLine::read(&text, argument, model).map_err(|error| {
                            Failure::of(malformed, &error).hint(
                                "a line is an object of inputs by name, such as {\"x\": [1, 2]}",
                            )
                        });
                        let made = match line {
                            Ok(mut line) => {
                                if let Some(folder) = folder {
                                    line.take_files(folder);
                                }
                                add_files(line, inputs, model, request.clone()).await
                            }
                            Err(failure) => Err(failure),
                        };
                        made.map(|(made, timestamp)| {
                            request = made;
                            timestamp
                        })
                    }
                };
                own = read.map_err(|failure| failure.at(&lines.place(number)))?;
            }
            Source::Samples { samples, argument } => {
                let heard = samples.next(self.inputs, self.model).await?;
                let Some(samples) = heard else {
                    return match self.role {
                        Role::Steps if self.given == 0 => {
                            Err(Failure::failed("standard input has no samples")
                                .hint("did the previous command fail?"))
                        }
                        Role::Steps | Role::Stream(_) => Ok(None),
                    };
                };
                let inputs = self.inputs.with_samples(argument, samples, self.model);
                let tensors = inputs.and_then(|inputs| match self.role {
                    Role::Steps => inputs.tensors(self.model),
                    Role::Stream(_) => inputs.given(self.model),
                });
                request.inputs = tensors.map_err(failure::of_input(self.model))?;
                if self.role == Role::Steps {
                    check_numbers(&request.inputs).map_err(|error| explain_steps(&error))?;
                }
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

/// Sets the inputs of a step to the contents of a line.
fn step(
    text: String,
    argument: &Argument,
    inputs: &Inputs,
    model: &ModelMetadata,
    request: &mut Request,
) -> Result<(), Failure> {
    let inputs = inputs.with_json(argument, text);
    let tensors = inputs.and_then(|inputs| inputs.tensors(model));
    request.inputs = tensors.map_err(failure::of_input(model))?;
    check_numbers(&request.inputs).map_err(|error| explain_steps(&error))
}

/// Adds the contents of a line to a request; returns its timestamp.
pub(crate) fn add(
    line: RequestLine,
    inputs: &Inputs,
    model: &ModelMetadata,
    request: &mut Request,
) -> Result<Option<i64>, Failure> {
    let mut all = match line.takes_files {
        true => inputs.of_many(),
        false => inputs.clone(),
    };
    for (argument, value) in line.inputs {
        let added = match argument.source {
            ElementSource::File { .. } => all.with_file(&argument),
            _ => all.with_json(&argument, value),
        };
        all = added.map_err(failure::of_input(model))?;
    }
    request.inputs = all.given(model).map_err(failure::of_input(model))?;
    if let Some(id) = line.id {
        request.id = id;
    }
    for (key, value) in line.parameters {
        request.parameters.retain(|(known, _)| *known != key);
        request.parameters.push((key, value));
    }
    Ok(line.timestamp)
}

/// Adds the contents of a line to a request, where its files may take their time; also returns its timestamp.
async fn add_files(
    line: RequestLine,
    inputs: &Inputs,
    model: &ModelMetadata,
    mut request: Request,
) -> Result<(Request, Option<i64>), Failure> {
    let mut sources = line.inputs.iter().map(|(argument, _)| &argument.source);
    if !sources.any(|source| source.path().is_some()) {
        return add(line, inputs, model, &mut request).map(|timestamp| (request, timestamp));
    }
    let (inputs, model) = (inputs.clone(), model.clone());
    task::blocking("files of a line", move || {
        add(line, &inputs, &model, &mut request).map(|timestamp| (request, timestamp))
    })
    .await
}

/// Adds a timestamp to the parameters.
fn stamp(parameters: &mut Parameters, timestamp: i64) {
    parameters.retain(|(key, _)| key != TIMESTAMP);
    parameters.push((TIMESTAMP.to_owned(), Parameter::Int(timestamp)));
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

fn no_steps() -> Failure {
    Failure::usage("standard input has no steps").hint(
        "each line is a step: an object of inputs by name, or the value of a model's one input",
    )
}

/// Returns the failure of a source without a line, which a server would only see as a stream that ends too early.
fn no_requests(kind: FailureKind, source: &str) -> Failure {
    let failure = Failure::new(kind, format!("{source} has no requests"));
    failure.hint("each line is one, as a JSON object")
}

/// Samples of standard input, step by step.
#[derive(Debug)]
struct Samples {
    steps: mpsc::Receiver<Result<Part, Failure>>,
}

/// Part of a sound.
#[derive(Debug)]
enum Part {
    /// Beginning, which has the form.
    Form(SoundForm),
    /// Samples of a step.
    Samples(Vec<f32>),
    /// End, with the numbers of bytes and of samples that were there, and whether something else follows.
    End {
        form: SoundForm,
        bytes: u64,
        samples: u64,
        goes_on: bool,
    },
}

impl Samples {
    /// Starts reading. One step is read ahead.
    fn of_stdin(count: usize, kind: FileKind) -> io::Result<Self> {
        let (sender, steps) = mpsc::channel(1);
        // It ends with the source, when nobody wants another step, or with the process.
        ovms::task::thread("samples", move || {
            let give = |part| sender.blocking_send(Ok(part)).is_ok();
            // If nobody is waiting any more, there is nobody to report to.
            if let Err(error) = read_samples(io::stdin().lock(), count, kind, give) {
                let failure = Failure::failed("cannot read the samples of standard input");
                let failure = failure
                    .caused_by(&error)
                    .may_hint(next_step::of_sound(&error));
                let _ = sender.blocking_send(Err(failure));
            }
        })?;
        Ok(Self { steps })
    }

    /// Waits for the samples of the next step; `None` at the end. This method is cancel safe.
    async fn next(
        &mut self,
        inputs: &Inputs,
        model: &ModelMetadata,
    ) -> Result<Option<Vec<f32>>, Failure> {
        loop {
            match self.steps.recv().await.transpose()? {
                Some(Part::Form(form)) => {
                    let heard = inputs.hear_of_stream(&form);
                    heard.map_err(failure::of_input(model))?;
                }
                Some(Part::Samples(samples)) => return Ok(Some(samples)),
                Some(Part::End {
                    form,
                    bytes,
                    samples,
                    goes_on,
                }) => inputs.hear_of_stream_end(&form, bytes, samples, goes_on),
                None => return Ok(None),
            }
        }
    }
}

/// Reads a sound in parts, up to its end or until one is not taken.
fn read_samples(
    stream: impl Read,
    count: usize,
    kind: FileKind,
    give: impl Fn(Part) -> bool,
) -> Result<(), SoundError> {
    let mut stream = SoundStream::open(stream, kind)?;
    let form = stream.form();
    let (mut bytes_of_all, mut samples_of_all) = (0, 0);
    let mut is_wanted = give(Part::Form(form));
    while is_wanted {
        let (samples, bytes) = stream.next(count)?;
        bytes_of_all += bytes;
        samples_of_all += samples.len() as u64;
        if samples.is_empty() {
            give(Part::End {
                form,
                bytes: bytes_of_all,
                samples: samples_of_all,
                goes_on: stream.goes_on()?,
            });
            break;
        }
        is_wanted = give(Part::Samples(samples));
    }
    Ok(())
}
