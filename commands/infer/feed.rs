//! Source of requests, or of the steps of a sequence: the inputs as they are, in parts, or lines, which are
//! read on a thread of their own so that nothing else has to wait.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use ovms::{
    client::{
        ModelMetadata, Request,
        input::{
            Argument, ElementSource, FileKind, Inputs, RequestLine, SoundForm, WholeInput,
            next_samples, samples_of_a_step, skip_wav_header,
        },
        sequence::{Steps, check_numbers},
    },
    request::{Parameter, Parameters},
    task,
    tensor::{Dim, PartialShape},
};
use tokio::sync::mpsc;

use super::{failure, sequence::explain_steps};
use crate::error::{Failure, FailureKind};

/// Request parameter with the timestamp.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

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
                Source::Parts(steps.map_err(|error| explain_steps(&error))?)
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
                let Some(Line { number, text }) = lines.next().await? else {
                    return match self.role {
                        Role::Steps if self.given == 0 => Err(no_steps()),
                        Role::Stream(kind) if self.given == 0 => {
                            Err(no_requests(kind, &lines.source))
                        }
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
                                .hint("did the command before it fail?"))
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
    /// Beginning, which tells the form.
    Form(SoundForm),
    /// Samples of a step.
    Samples(Vec<f32>),
    /// End, with the numbers of bytes and of samples that were there.
    End {
        form: SoundForm,
        bytes: u64,
        samples: u64,
    },
}

impl Samples {
    /// Starts reading. One step is read ahead.
    fn of_stdin(count: usize, kind: FileKind) -> io::Result<Self> {
        let (sender, steps) = mpsc::channel(1);
        // It ends with the source, when nobody wants another step, or with the process.
        ovms::task::thread("samples", move || {
            let give = |part| sender.blocking_send(Ok(part)).is_ok();
            // If nobody is waiting any more, nobody is to be told.
            if let Err(error) = read_samples(&mut io::stdin().lock(), count, kind, give) {
                let failure = Failure::failed("cannot read the samples of standard input");
                let _ = sender.blocking_send(Err(failure.caused_by(&error)));
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
                }) => inputs.hear_of_stream_end(&form, bytes, samples),
                None => return Ok(None),
            }
        }
    }
}

/// Reads a sound in parts, up to its end or until one is not taken.
fn read_samples(
    stream: &mut impl BufRead,
    count: usize,
    kind: FileKind,
    give: impl Fn(Part) -> bool,
) -> io::Result<()> {
    let form = skip_wav_header(stream, kind)?;
    let (mut bytes_of_all, mut samples_of_all) = (0, 0);
    let mut is_wanted = give(Part::Form(form));
    while is_wanted {
        let (samples, bytes) = next_samples(stream, count, form)?;
        bytes_of_all += bytes;
        samples_of_all += samples.len() as u64;
        if samples.is_empty() {
            give(Part::End {
                form,
                bytes: bytes_of_all,
                samples: samples_of_all,
            });
            break;
        }
        is_wanted = give(Part::Samples(samples));
    }
    Ok(())
}

/// Maximum length of a line, in bytes. A step of a million numbers takes less.
const LONGEST: usize = 64 << 20;

/// Character with which some editors begin their files.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Removes the byte order mark that a file may begin with.
pub(crate) fn strip_mark(text: &mut String) {
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
}

/// Stream of lines.
#[derive(Debug)]
pub(super) struct Lines {
    lines: mpsc::Receiver<Result<Line, Failure>>,
    /// Name of the source.
    source: String,
}

/// Nonblank line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Line number, from 1 on; blank lines count.
    pub(super) number: usize,
    pub(super) text: String,
}

impl Lines {
    /// Starts reading standard input. One line is read ahead.
    pub(super) fn of_stdin() -> io::Result<Self> {
        Self::of("standard input".to_owned(), || io::stdin().lock())
    }

    /// Starts reading a file.
    pub(super) fn of_file(path: &Path) -> io::Result<Self> {
        let file = BufReader::new(File::open(path)?);
        Self::of(path.display().to_string(), || file)
    }

    fn of<R: BufRead>(
        source: String,
        open: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(1);
        let name = source.clone();
        // It ends with the source, when nobody wants another line, or with the process.
        ovms::task::thread("lines", move || {
            for line in Reader::new(open(), name) {
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { lines, source })
    }

    /// Describes the position of a line.
    pub(super) fn place(&self, number: usize) -> String {
        format!("line {number} of {}", self.source)
    }

    /// Waits for the next line; `None` at the end.
    ///
    /// This method is cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Line>, Failure> {
        self.lines.recv().await.transpose()
    }
}

/// Reader of lines from a source.
struct Reader<R> {
    source: R,
    name: String,
    number: usize,
    longest: usize,
}

impl<R: BufRead> Reader<R> {
    fn new(source: R, name: String) -> Self {
        Self {
            source,
            name,
            number: 0,
            longest: LONGEST,
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut bytes = Vec::new();
            let mut limited = (&mut self.source).take(self.longest as u64 + 1);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                Err(error) => {
                    let text = format!("cannot read {}", self.name);
                    return Some(Err(Failure::failed(text).caused_by(&error)));
                }
            }
            let (number, name) = (self.number, &self.name);
            let refused =
                |what: &str| Failure::failed(format!("line {number} of {name} is {what}"));
            if bytes.len() > self.longest && !bytes.ends_with(b"\n") {
                let what = format!("longer than {} MiB", LONGEST >> 20);
                return Some(Err(refused(&what)));
            }
            match String::from_utf8(bytes) {
                Ok(mut text) => {
                    if number == 1 {
                        strip_mark(&mut text);
                    }
                    if !text.trim().is_empty() {
                        return Some(Ok(Line { number, text }));
                    }
                }
                Err(_) => {
                    let hint = "raw samples are read with `-i -:pcm16` or `-i -:f32`";
                    return Some(Err(refused("not UTF-8").hint(hint)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Reader};

    fn read(text: &[u8]) -> Vec<String> {
        let mut reader = Reader::new(text, "standard input".to_owned());
        reader.longest = 4;
        let line = |line: Result<super::Line, Failure>| match line {
            Ok(line) => format!("{} {}", line.number, line.text.trim_end()),
            Err(failure) => failure.line(),
        };
        reader.map(line).take(4).collect()
    }

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        assert_eq!(read(b"[1]\n\n  \n[2]"), ["1 [1]", "4 [2]"]);
        assert_eq!(read(b""), [""; 0]);
        assert_eq!(read(b"\r\n1\r\n"), ["2 1"]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(read("\u{feff}1\n2".as_bytes()), ["1 1", "2 2"]);
        assert_eq!(read("\u{feff}\n2".as_bytes()), ["2 2"]);
    }

    #[test]
    fn a_line_has_a_greatest_length_and_is_text() {
        assert_eq!(read(b"1234\n1234"), ["1 1234", "2 1234"]);
        assert_eq!(
            read(b"1\n12345\n")[1],
            "line 2 of standard input is longer than 64 MiB"
        );
        assert_eq!(read(b"\xff\n")[0], "line 1 of standard input is not UTF-8");
    }
}
