//! Run of a sequence from start to end, whatever happens in between.

use std::{cell::Cell, io};

use ovms::{
    client::{
        Client, ClientResponse, ModelMetadata, Request,
        input::Inputs,
        output::{self, CsvTable, OfSequence, ResponsePart},
        sequence::Stack,
        session::{SequenceClient, StepControl, random_id},
    },
    tensor::TensorMap,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{PATIENCE, Plan, Stop, again::Again, state::StateFiles};
use crate::{
    error::{Failure, FailureKind},
    infer::{args::TextFormat, feed::RequestFeed, outputs, sequence},
    ui::{self, Counter, counted},
};

/// Response to a request, or to all steps of a sequence as one, with its headline.
#[derive(Debug)]
pub(in crate::infer) struct Whole {
    pub(in crate::infer) answer: ClientResponse,
    /// Sequence, if it is one.
    pub(in crate::infer) of: Option<OfSequence>,
    /// Files of the images of the request, in the order of its batch.
    pub(in crate::infer) files: Vec<String>,
    pub(in crate::infer) headline: String,
    /// Error if the sequence could not be ended.
    pub(in crate::infer) left: Option<Failure>,
}

/// Sends one request of a sequence.
pub(in crate::infer) async fn one(
    client: &Client,
    request: &Request,
    control: StepControl,
    id: Option<u64>,
    files: &StateFiles,
) -> Result<(ClientResponse, OfSequence), Failure> {
    files
        .check(client, &request.model, id.unwrap_or_else(random_id))
        .await?;
    if let Some(id) = id {
        files.load(client, &request.model, id).await?;
    }
    let mut session = match (control, id) {
        (StepControl::Continue | StepControl::End, Some(id)) => {
            SequenceClient::resume(client, request.clone(), id)
        }
        _ => SequenceClient::new(client, request.clone(), id),
    };
    let answer = session.send(request.inputs.clone(), control).await;
    let answer = answer.map_err(sequence::explain_step)?;
    warn_if_unreported(&session);
    let id = session.id();
    let saved = files.save(client, &request.model, id).await;
    saved.map_err(|failure| failure.hint(format!("sequence {id} is open: {}", to_go_on(id))))?;
    let of = OfSequence {
        id,
        part: ResponsePart::Single,
    };
    Ok((answer, of))
}

/// Sends a whole sequence; `None` if each step has been shown already.
pub(in crate::infer) async fn run(
    client: &Client,
    request: Request,
    inputs: &Inputs,
    model: &ModelMetadata,
    plan: &Plan,
) -> Result<Option<Whole>, Failure> {
    let (mut keys, stop) = sequence::listen()?;
    let feed = RequestFeed::new(&plan.requests, inputs, Request::default(), model)?;
    let sink = match plan.each {
        Some(format) => Sink::each(format, feed.total())?,
        None => Sink::Stack(Stack::new(plan.axis, feed.keeps_axis())),
    };
    let total = feed.total();
    let files = &plan.files;
    let model = request.model.clone();
    files
        .check(client, &model, plan.id.unwrap_or_else(random_id))
        .await?;
    let session = match (files.loads(), plan.id) {
        (true, id) => {
            let id = id.unwrap_or_else(random_id);
            files.load(client, &model, id).await?;
            SequenceClient::resume(client, request, id)
        }
        (false, Some(id)) if plan.goes_on => SequenceClient::resume(client, request, id),
        (false, id) => SequenceClient::new(client, request, id),
    };
    let living = Cell::new(None);
    let run = Run {
        session,
        feed,
        bar: Counter::start("step", total, plan.shows_each(), plan.requests.has_lines()),
        sink,
        again: Again::new(plan.retries, stop.clone()),
        stop,
        is_given_up: false,
        done: 0,
        pending: None,
        living: &living,
        saves: files.saves(),
        goes_on: plan.goes_on || files.loads(),
        stays_open: plan.stays_open,
        is_id_known: plan.id.is_some(),
    };
    let save = async |id| files.save(client, &model, id).await;
    tokio::select! {
        result = run.finish(save) => result,
        () = keys.give_up() => {
            let failure = Failure::interrupted("interrupted");
            Err(match living.get() {
                Some(id) => failure.hint(left_behind(id)),
                None => failure,
            })
        }
    }
}

struct Run<'a> {
    session: SequenceClient<'a>,
    feed: RequestFeed<'a>,
    sink: Sink,
    bar: Counter,
    stop: Stop,
    again: Again,
    /// Indicates that a step that may be sent again has no attempt left.
    is_given_up: bool,
    /// Number of steps with a response.
    done: usize,
    /// Inputs of a step without a response.
    pending: Option<TensorMap>,
    /// Id of the sequence while it may live on the server, for the message after an abandoned wait.
    living: &'a Cell<Option<u64>>,
    /// Saves the state after the last step, so that this one does not end the sequence.
    saves: bool,
    /// Continues a sequence that was begun before.
    goes_on: bool,
    /// Leaves the sequence open.
    stays_open: bool,
    /// Indicates that the id was given, and not chosen.
    is_id_known: bool,
}

impl Run<'_> {
    async fn finish(
        mut self,
        save: impl AsyncFnOnce(u64) -> Result<(), Failure>,
    ) -> Result<Option<Whole>, Failure> {
        let sent = match self.send_all().await {
            Ok(()) => {
                let saved = save(self.session.id()).await;
                // The state is still there.
                saved.inspect_err(|_| self.stays_open = true)
            }
            failed => failed,
        };
        if let Err(failure) = sent {
            let is_of = |text: &str| failure.message().contains(text);
            let hint = if is_of(sequence::DAMAGED_STORE) {
                None
            } else if self.stays_open {
                self.left_open()
            } else if self.is_given_up || is_of(sequence::FULL_STORE) || is_of(sequence::STORE_AWAY)
            {
                // An end would take away what can go on.
                self.kept()
            } else {
                self.end_somehow().await
            };
            let failure = failure.may_hint(hint);
            return match failure.kind() {
                FailureKind::Interrupted => self.cut_short(failure),
                _ => Err(failure),
            };
        }
        let pace = self.bar.pace(self.done);
        // Where the last step was not known to be the last, or had no form for it.
        let left = if self.session.lives() && !self.stays_open {
            let end = async |session: &mut SequenceClient<'_>| session.end(None).await;
            self.again
                .send(&mut self.session, "the end", end)
                .await
                .err()
        } else {
            None
        };
        let id = self.session.id();
        let left = left.map(|error| {
            let failure = sequence::explain_step(error).at(&format!("cannot end sequence {id}"));
            failure.hint("the server drops idle sequences after a while")
        });
        drop(self.bar);
        if self.sink.is_for_people() {
            ui::note(&format!("{pace}."));
        }
        if self.stays_open && self.session.lives() {
            let text = format!("Sequence {id} is open: {}.", to_go_on(id));
            match self.is_id_known {
                true => ui::note(&text),
                // Nothing else may print it.
                false => ui::warn(&text),
            }
        }
        match self.sink {
            Sink::Stack(stack) => Ok(whole(stack, id, &pace, left).ok()),
            Sink::Each { .. } => left.map_or(Ok(None), Err),
        }
    }

    /// Returns what the steps before Ctrl-C have come to, with the failure that is printed below it.
    fn cut_short(self, failure: Failure) -> Result<Option<Whole>, Failure> {
        let (id, pace) = (self.session.id(), self.bar.pace(self.done));
        drop(self.bar);
        match self.sink {
            Sink::Stack(stack) => match whole(stack, id, &pace, Some(failure)) {
                Ok(whole) => Ok(Some(whole)),
                Err(left) => left.map_or(Ok(None), Err),
            },
            // Each has been shown.
            Sink::Each { .. } => Err(failure),
        }
    }

    /// Sends steps until there are no more, one fails, or Ctrl-C is pressed.
    async fn send_all(&mut self) -> Result<(), Failure> {
        loop {
            let next = tokio::select! {
                biased;
                () = self.stop.asked() => return Err(self.interrupted()),
                next = self.feed.next() => next?,
            };
            let Some(Request { inputs, .. }) = next else {
                return Ok(());
            };
            let is_last = self.feed.is_over();
            self.pending = Some(inputs.clone());
            let ends = is_last && !self.saves && !self.stays_open;
            let control = self.session.next(ends);
            self.living.set(Some(self.session.id()));
            let send = async |session: &mut SequenceClient<'_>| {
                session.send(inputs.clone(), control).await
            };
            let place = self.feed.place();
            let sent = self.again.send(&mut self.session, &place, send).await;
            self.living
                .set(self.session.lives().then(|| self.session.id()));
            let answer = sent.map_err(|error| {
                self.is_given_up = self.again.is_for(&error);
                sequence::explain_step(error).at(&place)
            })?;
            self.pending = None;
            self.done += 1;
            if self.done == 1 {
                warn_if_unreported(&self.session);
            }
            self.bar.count(self.done, "");
            let id = self.session.id();
            tokio::select! {
                shown = self.sink.take(answer, id, self.done) => {
                    shown.map_err(|failure| if failure.is_quiet() {
                        failure
                    } else {
                        failure.at(&self.feed.place())
                    })?;
                }
                () = self.stop.asked() => return Err(self.interrupted()),
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn interrupted(&self) -> Failure {
        let text = match (self.done, self.feed.total()) {
            (0, _) => "interrupted".to_owned(),
            (done, Some(total)) => format!("interrupted after {done} of {total} steps"),
            (done, None) => format!("interrupted after {}", counted(done, "step")),
        };
        Failure::interrupted(text)
    }

    /// Describes a sequence that is left open on the server.
    fn left_open(&self) -> Option<String> {
        let id = self.session.id();
        match self.session.lives() {
            // Nobody knows whether it was begun.
            true if self.done == 0 && !self.goes_on => Some(left_behind(id)),
            true => Some(format!(
                "sequence {id} is open: {}{}",
                to_go_on(id),
                match &self.pending {
                    Some(_) if self.done > 0 => format!("; {} has no answer", self.next_step()),
                    _ => String::new(),
                }
            )),
            false => None,
        }
    }

    /// Describes a sequence that is as its store has it; nothing if its start was refused and may be sent again.
    fn kept(&self) -> Option<String> {
        let id = self.session.id();
        match self.done > 0 || self.goes_on {
            true => Some(format!("sequence {id} is open{}", self.rest())),
            false => self.session.lives().then(|| left_behind(id)),
        }
    }

    /// Ends a sequence that is still open on the server, and returns the result as text.
    async fn end_somehow(&mut self) -> Option<String> {
        if !self.session.lives() {
            return None;
        }
        if self.done == 0 && self.pending.is_none() {
            // There are no inputs to end it with.
            return self.left_open();
        }
        let id = self.session.id();
        let rest = self.rest();
        // With the key of the step the server would answer that.
        self.session.set_key(None);
        let ended = timeout(PATIENCE, self.session.end(self.pending.take())).await;
        self.living.set(self.session.lives().then_some(id));
        Some(match ended {
            Ok(Ok(())) => format!("sequence {id} has been ended on the server"),
            Ok(Err(_)) | Err(_) => format!("{}{rest}", left_behind(id)),
        })
    }

    /// Returns the first step without an answer, and where it begins in a sound.
    fn next_step(&self) -> String {
        let step = format!("step {}", self.done + 1);
        match self.feed.samples_of_a_step() {
            Some(each) => format!(
                "{step} (sample {} of the sound, from 0 on)",
                each * self.done
            ),
            None => step,
        }
    }

    /// Returns how a sequence goes on whose last step may not have been run; nothing if all of them are to be sent.
    fn rest(&self) -> String {
        if self.done == 0 && !self.goes_on {
            return String::new();
        }
        let (id, next) = (self.session.id(), self.next_step());
        let model = ui::shell_word(self.feed.model_name());
        format!(
            ": `--sequence --continue --sequence-id {id}` continues it from {next}, or from the one after if the \
             server has run that one; `ovms infer {model} --sequences`, over REST, shows the steps that it has run"
        )
    }
}

/// Returns the answers to all steps as one; what is left to be reported if there are none.
fn whole(
    stack: Stack,
    id: u64,
    pace: &str,
    left: Option<Failure>,
) -> Result<Whole, Option<Failure>> {
    let part = ResponsePart::Steps(stack.count());
    match stack.finish() {
        Some(answer) => Ok(Whole {
            headline: format!("{}, answered {pace}.", outputs::model(&answer)),
            answer,
            of: Some(OfSequence { id, part }),
            files: Vec::new(),
            left,
        }),
        None => Err(left),
    }
}

fn left_behind(id: u64) -> String {
    format!("sequence {id} may still live on the server")
}

/// Returns how a sequence that was left open is continued or ended.
fn to_go_on(id: u64) -> String {
    format!(
        "continue it with `--sequence --continue --sequence-id {id}`, or end it with `--end --sequence-id {id}`"
    )
}

/// Warns if the server seems to ignore sequences.
fn warn_if_unreported(session: &SequenceClient<'_>) {
    if !session.is_reported() {
        let hint = sequence::STATEFUL;
        ui::warn(&format!("The responses have no sequence id: {hint}"));
    }
}

/// Width of step numbers in lines if the number of steps is unknown.
const PLACES: usize = 4;

/// Destination of responses.
#[derive(Debug)]
pub(super) enum Sink {
    /// All steps together, at the end.
    Stack(Stack),
    /// One by one, on arrival.
    Each {
        format: TextFormat,
        places: usize,
        writer: Writer,
        /// Table of all steps, in CSV.
        table: CsvTable,
    },
}

impl Sink {
    /// Creates a sink that shows each step on arrival.
    pub(super) fn each(format: TextFormat, total: Option<usize>) -> Result<Self, Failure> {
        Ok(Self::Each {
            format,
            places: total.map_or(PLACES, |total| total.to_string().len()),
            writer: Writer::start()?,
            table: CsvTable::with_leading(&["sequence_id", "step"]),
        })
    }

    /// Takes the response to a step, counted from 1.
    pub(super) async fn take(
        &mut self,
        answer: ClientResponse,
        id: u64,
        step: usize,
    ) -> Result<(), Failure> {
        match self {
            Self::Stack(stack) => stack.push(answer).map_err(|error| {
                Failure::failed(error.to_string())
                    .hint("`--each` shows the outputs of each step by themselves")
            }),
            Self::Each {
                format,
                places,
                writer,
                table,
            } => {
                let line = match format {
                    TextFormat::Json => {
                        let part = ResponsePart::Step(step);
                        let of = OfSequence { id, part };
                        outputs::json_line(output::answer_json(&answer, Some(of), &[]))
                    }
                    TextFormat::Csv => {
                        let lines = table.lines(&answer, &[id.to_string(), step.to_string()]);
                        outputs::as_shown(lines.map_err(|error| outputs::no_lines(&error))?)
                    }
                    TextFormat::Table => {
                        if step == 1 {
                            let model = outputs::model(&answer);
                            ui::note(&format!("{model}, sequence {id}:"));
                        }
                        let places = *places;
                        outputs::line(format!("{step:>places$}"), &answer).into_bytes()
                    }
                };
                writer.write(line).await
            }
        }
    }

    /// Returns whether figures for people go to stderr.
    pub(super) fn is_for_people(&self) -> bool {
        match self {
            Self::Stack(_) => false,
            Self::Each { format, .. } => *format == TextFormat::Table,
        }
    }
}

type Job = (Vec<u8>, oneshot::Sender<Result<(), Failure>>);

/// Sending end to the thread.
#[derive(Debug, Clone)]
pub(in crate::infer) struct Writer(mpsc::Sender<Job>);

impl Writer {
    pub(in crate::infer) fn start() -> io::Result<Self> {
        let (sender, mut jobs) = mpsc::channel::<Job>(1);
        // It ends with the writer, or with the process.
        ovms::task::thread("stdout", move || {
            while let Some((bytes, done)) = jobs.blocking_recv() {
                // Nobody may be waiting any more.
                let _ = done.send(ui::print(bytes));
            }
        })?;
        Ok(Self(sender))
    }

    /// Writes bytes and waits until they are out.
    pub(in crate::infer) async fn write(&self, bytes: Vec<u8>) -> Result<(), Failure> {
        let (done, written) = oneshot::channel();
        // The thread has ended with the output.
        let sent = self.0.send((bytes, done)).await;
        sent.map_err(|_| Failure::done())?;
        written.await.map_err(|_| Failure::done())?
    }
}
