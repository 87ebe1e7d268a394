//! Run of a sequence from start to end, whatever happens in between.

use std::{cell::Cell, time::Instant};

use ovms::client::{
    Client, ClientResponse, ModelMetadata, Request,
    input::Inputs,
    output::{OfSequence, ResponsePart},
    sequence::{SequenceClient, Stack, StepControl},
};
use tokio::time::timeout;

use super::{
    Plan, explain,
    feed::{Feed, Step},
    show::{self, Bar, Sink},
    stop::{self, PATIENCE, Stop},
};
use crate::{
    error::{Failure, FailureKind},
    ui,
};

/// All steps as one response, with its headline.
#[derive(Debug)]
pub(in crate::infer) struct Whole {
    pub(in crate::infer) answer: ClientResponse,
    pub(in crate::infer) of: OfSequence,
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
) -> Result<(ClientResponse, OfSequence), Failure> {
    let mut session = match (control, id) {
        (StepControl::Continue | StepControl::End, Some(id)) => {
            SequenceClient::resume(client, request.clone(), id)
        }
        _ => SequenceClient::new(client, request.clone(), id),
    };
    let answer = session.send(request.inputs.clone(), control).await;
    let answer = answer.map_err(explain::step)?;
    tell_if_unreported(&session);
    let of = OfSequence {
        id: session.id(),
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
    let (mut keys, stop) = stop::listen()?;
    let feed = Feed::new(plan, inputs, model)?;
    let sink = match plan.each {
        Some(each) => Sink::each(each, feed.total())?,
        None => Sink::Stack(Stack::new(plan.axis, feed.keeps_axis())),
    };
    let total = feed.total();
    let session = SequenceClient::new(client, request, plan.id);
    let far = Far {
        id: Cell::new(session.id()),
        lives: Cell::new(false),
    };
    let run = Run {
        session,
        feed,
        bar: Bar::start(total, &sink, plan.has_lines()),
        sink,
        stop,
        far: &far,
        started: Instant::now(),
    };
    tokio::select! {
        result = run.finish() => result,
        () = keys.give_up() => Err(left_behind(&far)),
    }
}

/// Progress of a sequence, for the message after an abandoned wait.
#[derive(Debug)]
struct Far {
    id: Cell<u64>,
    lives: Cell<bool>,
}

fn left_behind(far: &Far) -> Failure {
    let failure = Failure::new(FailureKind::Interrupted, "interrupted");
    if far.lives.get() {
        let id = far.id.get();
        failure.hint(format!("sequence {id} may still live on the server"))
    } else {
        failure
    }
}

struct Run<'a> {
    session: SequenceClient<'a>,
    feed: Feed<'a>,
    sink: Sink,
    bar: Bar,
    stop: Stop,
    far: &'a Far,
    started: Instant,
}

impl Run<'_> {
    async fn finish(mut self) -> Result<Option<Whole>, Failure> {
        let mut done = 0;
        let mut pending = None;
        let sent = self.send_all(&mut done, &mut pending).await;
        if let Err(failure) = sent {
            return Err(match self.end_somehow(pending).await {
                Some(hint) => failure.hint(hint),
                None => failure,
            });
        }
        let took = self.started.elapsed();
        // Where the last step was not known to be the last, or had no form for it.
        let left = if self.session.lives() {
            self.session.end(None).await.err()
        } else {
            None
        };
        let id = self.session.id();
        let left = left.map(|error| {
            let failure = explain::step(error).at(&format!("cannot end sequence {id}"));
            failure.hint("the server drops sequences that are left alone after a while")
        });
        drop(self.bar);
        if self.sink.is_for_people() {
            ui::note(&format!("{}.", show::pace(done, took)));
        }
        let Sink::Stack(stack) = self.sink else {
            return left.map_or(Ok(None), Err);
        };
        let part = ResponsePart::Steps(stack.count());
        Ok(stack.finish().map(|answer| Whole {
            headline: show::summary(&answer, done, took),
            answer,
            of: OfSequence { id, part },
            left,
        }))
    }

    /// Sends steps until there are no more, one fails, or Ctrl-C is pressed. `pending` keeps the
    /// inputs of a step without a response.
    async fn send_all(
        &mut self,
        done: &mut usize,
        pending: &mut Option<ovms::tensor::TensorMap>,
    ) -> Result<(), Failure> {
        loop {
            let next = tokio::select! {
                biased;
                () = self.stop.asked() => return Err(self.interrupted(*done)),
                next = self.feed.next() => next?,
            };
            let Some(Step { inputs, is_last }) = next else {
                return Ok(());
            };
            *pending = Some(inputs.clone());
            let control = self.session.next(is_last);
            self.far.lives.set(true);
            let sent = self.session.send(inputs, control).await;
            self.far.id.set(self.session.id());
            self.far.lives.set(self.session.lives());
            let answer = sent.map_err(|error| explain::step(error).at(&self.feed.place()))?;
            *pending = None;
            *done += 1;
            if *done == 1 {
                tell_if_unreported(&self.session);
            }
            self.bar.step(*done);
            let id = self.session.id();
            tokio::select! {
                shown = self.sink.take(answer, id, *done) => {
                    shown.map_err(|failure| if failure.is_quiet() {
                        failure
                    } else {
                        failure.at(&self.feed.place())
                    })?;
                }
                () = self.stop.asked() => return Err(self.interrupted(*done)),
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn interrupted(&self, done: usize) -> Failure {
        let text = match (done, self.feed.total()) {
            (0, _) => "interrupted".to_owned(),
            (done, Some(total)) => format!("interrupted after {done} of {total} steps"),
            (1, None) => "interrupted after 1 step".to_owned(),
            (done, None) => format!("interrupted after {done} steps"),
        };
        Failure::new(FailureKind::Interrupted, text)
    }

    /// Ends a sequence that is still open on the server, and returns the result as text.
    async fn end_somehow(&mut self, pending: Option<ovms::tensor::TensorMap>) -> Option<String> {
        if !self.session.lives() {
            return None;
        }
        let id = self.session.id();
        let ended = timeout(PATIENCE, self.session.end(pending)).await;
        self.far.lives.set(self.session.lives());
        Some(match ended {
            Ok(Ok(())) => format!("sequence {id} has been ended on the server"),
            Ok(Err(_)) | Err(_) => format!("sequence {id} may still live on the server"),
        })
    }
}

/// Warns if the server seems to ignore sequences.
fn tell_if_unreported(session: &SequenceClient<'_>) {
    if !session.is_reported() {
        ui::warn(&explain::unreported());
    }
}
