//! Run of a stream from its first request to its end.

use std::{
    cell::Cell,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use ovms::client::{
    CallPhase, Client, ClientError, ClientOptions, ModelMetadata, Request, RequestSender,
    ResponseReceiver, StreamEvent, input::Inputs,
};

use super::{Plan, show};
use crate::{
    error::Failure,
    infer::{
        failure,
        feed::RequestFeed,
        outputs,
        sequence::{Writer, listen},
    },
    ui::{self, Counter, OutputFormat, counted},
};

/// Time limit for writing the last line.
const LAST: Duration = Duration::from_secs(2);

/// Sends all requests and shows the responses, until the server ends the stream.
pub(in crate::infer) async fn run(
    client: &Client,
    base: Request,
    inputs: &Inputs,
    model: &ModelMetadata,
    plan: &Plan,
    server: &ClientOptions,
) -> Result<(), Failure> {
    let feed = RequestFeed::new(&plan.requests, inputs, base, model)?;
    let (requests, answers) = client.stream().map_err(failure::client)?;
    let sent = Cell::new(0);
    let talk = Talk {
        answers,
        writer: Writer::start()?,
        bar: Counter::start("answer", None, true, plan.requests.has_lines()),
        format: plan.format,
        sent: &sent,
        came: 0,
        errors: 0,
        heard: Instant::now(),
        server,
    };
    talk.run(pin!(send_all(feed, requests, &sent))).await
}

/// Sends requests until there are no more, or the stream takes no more.
async fn send_all(
    mut feed: RequestFeed<'_>,
    requests: RequestSender,
    sent: &Cell<usize>,
) -> Result<(), Failure> {
    while let Some(request) = feed.next().await? {
        let taken = requests.send(&request).await;
        if !taken.map_err(|error| failure::client(error.into()))? {
            break;
        }
        sent.set(sent.get() + 1);
    }
    Ok(())
}

struct Talk<'a> {
    answers: ResponseReceiver<'a>,
    writer: Writer,
    bar: Counter,
    format: OutputFormat,
    sent: &'a Cell<usize>,
    /// Number of responses and errors so far.
    came: usize,
    errors: usize,
    /// Time of the last response, or of the end of sending.
    heard: Instant,
    server: &'a ClientOptions,
}

impl Talk<'_> {
    async fn run(
        mut self,
        mut sending: Pin<&mut impl Future<Output = Result<(), Failure>>>,
    ) -> Result<(), Failure> {
        let (mut keys, _) = listen()?;
        let mut interrupted = pin!(keys.pressed());
        let mut is_sending = true;
        // A request that cannot be sent does not take the answers to others away.
        let mut unsent = None;
        loop {
            let event = tokio::select! {
                biased;
                () = &mut interrupted => return Err(self.stopped()),
                event = self.answers.next() => event,
                result = &mut sending, if is_sending => {
                    is_sending = false;
                    unsent = result.err();
                    self.heard = Instant::now();
                    continue;
                }
                () = silence(self.heard, self.server.timeout), if !is_sending => {
                    let failure = self.silent();
                    return Err(self.last(failure).await);
                }
            };
            self.heard = Instant::now();
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => break,
                // A stream that has got nothing ends so, and says less than what was to be sent.
                Err(error) => {
                    let failure = unsent.unwrap_or_else(|| self.ended(error));
                    return Err(self.last(failure).await);
                }
            };
            let line = self.reported(&event);
            let sent = format!(", {} sent", self.sent.get());
            self.bar.count(self.came - self.errors, &sent);
            if let Some(line) = line {
                tokio::select! {
                    written = self.writer.write(line) => written?,
                    () = &mut interrupted => return Err(self.stopped()),
                }
                self.heard = Instant::now();
            }
        }
        let answers = self.came - self.errors;
        if self.format == OutputFormat::Table {
            ui::note(&format!("{}.", self.bar.pace(answers)));
        }
        match (unsent, self.errors) {
            (Some(failure), _) => Err(failure),
            (None, 0) => Ok(()),
            (None, 1) => Err(Failure::failed("the server reported 1 error on the stream")),
            (None, failures) => Err(Failure::failed(format!(
                "the server reported {failures} errors on the stream"
            ))),
        }
    }

    /// Counts an event, and returns its text for stdout.
    fn reported(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        self.came += 1;
        match event {
            StreamEvent::Answer(answer) => {
                if self.format == OutputFormat::Table && self.came - self.errors == 1 {
                    ui::note(&format!("{}:", outputs::model(&answer.answer)));
                }
                Some(show::line(self.format, answer, self.came - self.errors))
            }
            StreamEvent::Error(text) => {
                self.errors += 1;
                if self.format == OutputFormat::Json {
                    return Some(show::error(text));
                }
                ui::warn(&format!("error: {text}"));
                None
            }
        }
    }

    /// Prints the error that ends the stream for programs as well.
    async fn last(&self, failure: Failure) -> Failure {
        if self.format == OutputFormat::Json {
            // A reader that is gone still gets the exit code.
            let line = self.writer.write(show::error(failure.message()));
            drop(tokio::time::timeout(LAST, line).await);
        }
        failure
    }

    fn stopped(&self) -> Failure {
        let text = format!(
            "interrupted after {}",
            counted(self.came - self.errors, "answer")
        );
        Failure::interrupted(text)
    }

    fn silent(&self) -> Failure {
        self.ended(ClientError::Timeout {
            address: self.server.address.clone(),
            limit: self.server.timeout,
            step: CallPhase::Answer,
        })
    }

    fn ended(&self, error: ClientError) -> Failure {
        let failure = failure::client(error);
        match self.came - self.errors {
            0 => failure,
            answers => failure.hint(format!("{} came before that", counted(answers, "answer"))),
        }
    }
}

async fn silence(since: Instant, limit: Duration) {
    tokio::time::sleep(limit.saturating_sub(since.elapsed())).await;
}
