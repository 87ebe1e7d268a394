//! `ovms infer --stream`: requests over one stream, with responses shown on arrival.
//!
//! [`StreamArgs`] are the flags as typed and [`Plan`] is their meaning. `run` sends the requests
//! and passes the responses to `show`, both concurrently.

use std::{
    cell::Cell,
    path::PathBuf,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use clap::ArgGroup;
use ovms::client::{
    Api, CallPhase, Client, ClientError, ClientOptions, ModelMetadata, Request, RequestSender,
    ResponseReceiver, StreamAnswer, StreamEvent,
    input::{Argument, Inputs},
    output::{self, CsvTable},
};

use super::{
    args::{Format, TextFormat, of_stdin},
    call_failure,
    feed::{Origin, RequestFeed, RequestPlan, Role},
    outputs,
    sequence::{Writer, listen},
};
use crate::{
    error::{Failure, FailureKind},
    ui::{self, Counter, counted},
};

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Streams of requests (KServe only)")]
#[command(group = ArgGroup::new("in_parts").args(["sequence", "stream"]).multiple(true))]
pub(in crate::infer) struct StreamArgs {
    /// Send requests over one stream; show responses as they arrive
    ///
    /// The inputs are one request, and all its responses are shown until the server ends the stream.
    /// Inputs may be omitted for a graph that does not need them all.
    ///
    /// With `--axis`, each part of the arrays along the axis is a request. With `-i -`,
    /// `-i NAME=-` or `--requests`, each line is a request, sent as soon as it is read: an object of
    /// inputs by name, or the value of one input. `timestamp`, `parameters` and `id` of a request stand
    /// next to its inputs, or next to `inputs`, which holds them by name or as in REST requests.
    ///
    /// With `--output json` each response is one object per line, and so is each error, as
    /// `{"error": "…"}`; with `--output csv` all responses form one table. Errors that do not end the
    /// stream show in the exit code. `--timeout` limits the silence while a request waits to be sent, and
    /// once all are sent. Ctrl-C cancels the stream.
    ///
    /// Over kserve-rest, each request has its own stream, of server-sent events: Triton's
    /// `generate_stream`, where values have the datatypes of the model.
    #[arg(
        long,
        conflicts_with_all = ["load", "sequence", "of_a_sequence", "save", "top"]
    )]
    pub(in crate::infer) stream: bool,

    /// File with one request per line; - is standard input
    ///
    /// For --stream. A value "@cat.png" is read from that file; relative paths start at the folder of FILE.
    #[arg(long, value_name = "FILE", requires = "stream")]
    pub(in crate::infer) requests: Option<PathBuf>,

    /// Continue after a line that is not a valid request
    ///
    /// Each such line is reported, with --output json as `{"error": "…", "line": N}`, and the exit code is 1. Without this
    /// flag, nothing is sent after the first such line.
    #[arg(long, requires = "stream")]
    pub(in crate::infer) keep_going: bool,

    /// Timestamp of the first request; then N + 1, N + 2, …
    ///
    /// By default the server assigns them. A `timestamp` in a line overrides it, and the next request counts on from there.
    #[arg(
        long,
        value_name = "N",
        requires = "stream",
        allow_negative_numbers = true
    )]
    pub(in crate::infer) timestamp: Option<i64>,
}

/// Requests to send over a stream, and the format of the responses.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::infer) struct Plan {
    pub(in crate::infer) requests: RequestPlan,
    format: TextFormat,
    /// Continues with the next lines after one that is no request.
    keeps_going: bool,
}

impl Plan {
    /// Checks the flags; `None` if there is no stream. The input that standard input gives line by
    /// line is removed from the others.
    pub(in crate::infer) fn new(
        args: &StreamArgs,
        axis: Option<usize>,
        inputs: &mut Vec<Argument>,
        format: Format,
        api: Api,
    ) -> Result<Option<Self>, Failure> {
        if !args.stream {
            // The parser lets these pass beside what `--stream` cannot be with.
            let stray = match args {
                _ if args.requests.is_some() => "--requests",
                _ if args.keep_going => "--keep-going",
                _ if args.timestamp.is_some() => "--timestamp",
                _ => return Ok(None),
            };
            return Err(Failure::usage(format!("`{stray}` needs `--stream`"))
                .hint("`ovms bench MODEL --requests FILE` measures the requests of a file"));
        }
        if api.is_tfs() {
            let text = format!("`--stream` does not fit `--api {api}`");
            return Err(Failure::usage(text).hint("kserve-grpc and kserve-rest have streams"));
        }
        let format = format.of_text("a stream")?;
        let source = match (&args.requests, of_stdin(inputs)?, axis) {
            (Some(_), Some(_), _) => {
                return Err(Failure::usage("`--requests` does not fit `-i -`")
                    .hint("either reads a request from each line"));
            }
            (None, Some(argument), None) => Origin::of_stdin(argument),
            (Some(path), None, None) => Origin::of_file(path),
            (None, None, Some(axis)) => Origin::Parts(axis),
            (None, None, None) => Origin::Inputs,
            (_, _, Some(_)) => {
                return Err(
                    Failure::usage("`--axis` does not fit requests that are lines")
                        .hint("there each line is a request"),
                );
            }
        };
        let requests = RequestPlan {
            source,
            timestamp: args.timestamp,
            role: Role::Stream(FailureKind::Usage),
        };
        if args.keep_going && !requests.has_lines() {
            return Err(
                Failure::usage("`--keep-going` is for requests that are lines")
                    .hint("`--requests FILE`, `-i -` and `-i NAME=-` have a request in each line"),
            );
        }
        Ok(Some(Self {
            requests,
            format,
            keeps_going: args.keep_going,
        }))
    }
}

/// Next step for the steps of a sequence.
const STEPS_OF_STREAM: &str = "over a stream, steps of a sequence are lines of `-i -` or `--requests FILE` \
     with `\"parameters\": {\"sequence_id\": 5, \"sequence_start\": true}`; `--sequence` without `--stream` sends the steps \
     of an input";

/// Returns the next step for `--stream` beside a flag that it does not go with; `names` has both as clap writes them.
pub(crate) fn beside_stream(names: &[&str]) -> &'static str {
    let has = |flags: &[&str]| flags.iter().any(|flag| names.contains(flag));
    if has(&["--save <PATH>", "--top <K>"]) {
        "the responses of a stream are lines, shown as they arrive: `--output json > FILE` keeps them all, and `--output csv > \
         FILE` as one table"
    } else if has(&["--repeat <N>", "--duration <TIME>"]) {
        "`ovms bench MODEL --stream` measures requests over streams"
    } else if has(&["--sequence <N>"]) {
        "`--sequence N` sends each step by itself: omit `--stream`"
    } else {
        STEPS_OF_STREAM
    }
}

/// Error of a server about a request to a stateful model that is of no sequence.
const NO_SEQUENCE: &str = "Sequence ID has not been provided";

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
    let (requests, answers) = client.stream().map_err(call_failure::client)?;
    let (sent, unread) = (Cell::new(0), Cell::new(0));
    let heard = Cell::new(Instant::now());
    let writer = Writer::start()?;
    let passes_over = PassesOver {
        writer: writer.clone(),
        format: plan.format,
        lines: &unread,
    };
    let passes_over = plan.keeps_going.then_some(passes_over);
    let talk = Talk {
        answers,
        writer,
        bar: Counter::start("answer", None, true, plan.requests.has_lines()),
        format: plan.format,
        table: CsvTable::with_leading(&["answer", "timestamp", "id"]),
        sent: &sent,
        unread: &unread,
        came: 0,
        errors: 0,
        lacks_sequence: false,
        heard: &heard,
        server,
    };
    let silence = Silence {
        heard: &heard,
        limit: server.timeout,
    };
    let sending = send_all(feed, requests, &sent, passes_over, silence);
    talk.run(pin!(sending)).await
}

/// Time in which no response comes.
#[derive(Debug, Clone, Copy)]
struct Silence<'a> {
    /// Time of the last response.
    heard: &'a Cell<Instant>,
    limit: Duration,
}

impl Silence<'_> {
    /// Waits until nothing has come for the whole limit from now on.
    async fn is_over(self) {
        let begin = Instant::now();
        loop {
            let since = begin.max(self.heard.get());
            if since.elapsed() >= self.limit {
                return;
            }
            silence(since, self.limit).await;
        }
    }
}

/// End of sending.
enum SendEnd {
    /// All requests are sent, or the stream takes no more.
    Done,
    /// A request waits, and nothing has come meanwhile for as long as the time limit.
    Silent,
}

/// Report of lines that are no requests, where the next ones are sent all the same.
struct PassesOver<'a> {
    writer: Writer,
    format: TextFormat,
    /// Number of them so far.
    lines: &'a Cell<usize>,
}

impl PassesOver<'_> {
    /// Reports a line.
    async fn report(&self, failure: &Failure, line: Option<usize>) -> Result<(), Failure> {
        self.lines.set(self.lines.get() + 1);
        match self.format {
            TextFormat::Table | TextFormat::Csv => {
                ui::warn(failure.text().trim_end());
                Ok(())
            }
            TextFormat::Json => {
                let mut object = serde_json::json!({ "error": failure.line() });
                if let Some(line) = line {
                    object["line"] = line.into();
                }
                self.writer
                    .write(outputs::json_line(object.to_string()))
                    .await
            }
        }
    }
}

/// Sends requests until there are no more, or the stream takes no more. One that waits for others to be taken has the
/// time limit of an answer.
async fn send_all(
    mut feed: RequestFeed<'_>,
    requests: RequestSender,
    sent: &Cell<usize>,
    passes_over: Option<PassesOver<'_>>,
    silence: Silence<'_>,
) -> Result<SendEnd, Failure> {
    loop {
        let request = match (feed.next().await, &passes_over) {
            (Ok(Some(request)), _) => request,
            (Ok(None), _) => return Ok(SendEnd::Done),
            (Err(failure), Some(passes_over)) if feed.goes_on() => {
                passes_over.report(&failure, feed.line()).await?;
                continue;
            }
            (Err(failure), _) => return Err(failure),
        };
        let taken = tokio::select! {
            biased;
            taken = requests.send(&request) => taken,
            () = silence.is_over() => return Ok(SendEnd::Silent),
        };
        if !taken.map_err(|error| call_failure::client(error.into()))? {
            return Ok(SendEnd::Done);
        }
        sent.set(sent.get() + 1);
    }
}

struct Talk<'a> {
    answers: ResponseReceiver<'a>,
    writer: Writer,
    bar: Counter,
    format: TextFormat,
    /// Table of all answers, in CSV.
    table: CsvTable,
    sent: &'a Cell<usize>,
    /// Number of lines that were no requests.
    unread: &'a Cell<usize>,
    /// Number of responses and errors so far.
    came: usize,
    errors: usize,
    /// True once the server has refused a request because it is of no sequence.
    lacks_sequence: bool,
    /// Time of the last response, or of the end of sending.
    heard: &'a Cell<Instant>,
    server: &'a ClientOptions,
}

impl Talk<'_> {
    async fn run(
        mut self,
        mut sending: Pin<&mut impl Future<Output = Result<SendEnd, Failure>>>,
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
                    if matches!(result, Ok(SendEnd::Silent)) {
                        let failure = self.silent();
                        return Err(self.last(failure).await);
                    }
                    is_sending = false;
                    unsent = result.err();
                    self.heard.set(Instant::now());
                    continue;
                }
                () = silence(self.heard.get(), self.server.timeout), if !is_sending => {
                    let failure = self.silent();
                    return Err(self.last(failure).await);
                }
            };
            self.heard.set(Instant::now());
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => break,
                // A stream that has got nothing ends so, and says less than what was to be sent.
                Err(error) => {
                    let none_sent = (self.sent.get() == 0).then(|| self.left_out()).flatten();
                    let failure = unsent.or(none_sent);
                    let failure = failure.unwrap_or_else(|| self.ended(error));
                    return Err(self.last(failure).await);
                }
            };
            let line = self.reported(&event)?;
            let sent = format!(", {} sent", self.sent.get());
            self.bar.count(self.came - self.errors, &sent);
            if let Some(line) = line {
                tokio::select! {
                    written = self.writer.write(line) => written?,
                    () = &mut interrupted => return Err(self.stopped()),
                }
                self.heard.set(Instant::now());
            }
        }
        let answers = self.came - self.errors;
        if self.format == TextFormat::Table {
            ui::note(&format!("{}.", self.bar.pace(answers)));
        }
        let reported = match self.errors {
            0 => None,
            errors => Some(format!(
                "the server reported {} on the stream",
                counted(errors, "error")
            )),
        };
        match (unsent, self.left_out(), reported) {
            (Some(failure), ..) => Err(self.last(failure).await),
            (None, None, None) => Ok(()),
            (None, None, Some(reported)) => {
                let hint = self.lacks_sequence.then(|| STEPS_OF_STREAM.to_owned());
                Err(Failure::failed(reported).may_hint(hint))
            }
            (None, Some(failure), None) => Err(failure),
            (None, Some(failure), Some(reported)) => Err(failure.detail(reported)),
        }
    }

    /// Returns the failure for lines that were no requests.
    fn left_out(&self) -> Option<Failure> {
        let lines = match self.unread.get() {
            0 => return None,
            1 => "1 line is not a request and was".to_owned(),
            lines => format!("{lines} lines are not requests and were"),
        };
        Some(Failure::failed(format!(
            "{lines} not sent; {} sent",
            match self.sent.get() {
                1 => "1 other was".to_owned(),
                sent => format!("{sent} others were"),
            }
        )))
    }

    /// Counts an event, and returns its text for stdout.
    fn reported(&mut self, event: &StreamEvent) -> Result<Option<Vec<u8>>, Failure> {
        self.came += 1;
        match event {
            StreamEvent::Answer(answer) => {
                if self.format == TextFormat::Table && self.came - self.errors == 1 {
                    ui::note(&format!("{}:", outputs::model(&answer.answer)));
                }
                let number = self.came - self.errors;
                let lines = answer_lines(self.format, answer, number, &mut self.table)?;
                Ok(Some(match self.format {
                    TextFormat::Csv => outputs::as_shown(lines),
                    TextFormat::Table | TextFormat::Json => lines,
                }))
            }
            StreamEvent::Error(text) => {
                self.errors += 1;
                self.lacks_sequence |= text.contains(NO_SEQUENCE);
                if self.format == TextFormat::Json {
                    return Ok(Some(error_line(text)));
                }
                ui::warn(&format!("error: {text}"));
                Ok(None)
            }
        }
    }

    /// Prints the error that ends the stream for programs as well.
    async fn last(&self, failure: Failure) -> Failure {
        if self.format == TextFormat::Json {
            // A reader that is gone still gets the exit code.
            let line = self.writer.write(error_line(failure.message()));
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
        let failure = call_failure::client(error);
        match self.came - self.errors {
            0 => failure,
            answers => failure.hint(format!("{} came before that", counted(answers, "answer"))),
        }
    }
}

async fn silence(since: Instant, limit: Duration) {
    tokio::time::sleep(limit.saturating_sub(since.elapsed())).await;
}

/// Width of timestamps and response numbers at the start of lines.
const PLACES: usize = 4;

/// Writes a response, the `number`th of the stream: as one line, or as lines of the table.
fn answer_lines(
    format: TextFormat,
    answer: &StreamAnswer,
    number: usize,
    table: &mut CsvTable,
) -> Result<Vec<u8>, Failure> {
    match format {
        TextFormat::Table => {}
        TextFormat::Json => return Ok(outputs::json_line(output::stream_json(answer))),
        TextFormat::Csv => {
            let timestamp = answer.timestamp.map(|it| it.to_string());
            let id = answer.answer.id.clone();
            let lead = [number.to_string(), timestamp.unwrap_or_default(), id];
            let lines = table.lines(&answer.answer, &lead);
            return lines.map_err(|error| outputs::no_lines(&error));
        }
    }
    let start = match answer.timestamp {
        Some(timestamp) => format!("{timestamp:>PLACES$}"),
        None => format!("{number:>PLACES$}"),
    };
    Ok(outputs::line(start, &answer.answer).into_bytes())
}

/// Writes an error that does not end the stream as one line for programs.
fn error_line(text: &str) -> Vec<u8> {
    outputs::json_line(serde_json::json!({ "error": text }).to_string())
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::{ClientResponse, Opaque, StreamAnswer},
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    use super::{CsvTable, STEPS_OF_STREAM, TextFormat, answer_lines, beside_stream, error_line};

    fn answer(timestamp: Option<i64>) -> StreamAnswer {
        let mut packer = Packer::new(DataType::String, 1);
        packer.push_bytes("größe\n\u{1b}".as_bytes()).unwrap();
        let text = Tensor::new(DataType::String, vec![1], packer.finish()).unwrap();
        StreamAnswer {
            answer: ClientResponse {
                model_name: "g".to_owned(),
                model_version: "1".to_owned(),
                id: String::new(),
                outputs: TensorMap::from_iter([("out".to_owned(), text)]),
                opaque: vec![Opaque {
                    name: "own".to_owned(),
                    datatype: "my type".to_owned(),
                    shape: vec![20],
                    data: (0..20).collect::<Vec<u8>>().into(),
                }],
            },
            timestamp,
            is_final: None,
        }
    }

    fn reported(format: TextFormat, timestamp: Option<i64>) -> String {
        let mut table = CsvTable::with_leading(&["answer", "timestamp", "id"]);
        let lines = answer_lines(format, &answer(timestamp), 3, &mut table).unwrap();
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn an_answer_is_one_line() {
        insta::assert_snapshot!(reported(TextFormat::Table, Some(-5)), @r#"  -5  out: "größe\n\u{1b}"  own: my type of 20 bytes: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …"#);
        insta::assert_snapshot!(reported(TextFormat::Table, None), @r#"   3  out: "größe\n\u{1b}"  own: my type of 20 bytes: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …"#);
        insta::assert_snapshot!(reported(TextFormat::Json, Some(i64::MAX - 3)), @r#"{"model_name":"g","model_version":"1","id":"","timestamp":9223372036854775804,"outputs":[{"name":"out","datatype":"BYTES","shape":[1],"data":["größe\n\u001b"]},{"name":"own","datatype":"my type","shape":[20],"b64":"AAECAwQFBgcICQoLDA0ODxAREhM="}]}"#);
        let lines =
            "answer,timestamp,id,out,own\n3,7,,\"größe\n\u{1b}\",AAECAwQFBgcICQoLDA0ODxAREhM=\n";
        assert_eq!(reported(TextFormat::Csv, Some(7)), lines);
        insta::assert_snapshot!(String::from_utf8(error_line("a \"b\"")).unwrap(), @r#"{"error":"a \"b\""}"#);
    }

    #[test]
    fn what_no_stream_has_gets_a_hint_of_its_own() {
        for (flag, begin) in [
            ("--save <PATH>", "the responses of a stream are lines"),
            ("--top <K>", "the responses of a stream are lines"),
            ("--repeat <N>", "`ovms bench MODEL --stream`"),
            ("--sequence <N>", "`--sequence N` sends each step"),
            ("--start", STEPS_OF_STREAM),
        ] {
            let hint = beside_stream(&["--stream", flag]);
            assert!(hint.starts_with(begin), "{flag}: {hint}");
        }
    }
}
