//! `ModelStreamInfer`: requests and answers of one stream, over an engine's stream.
//!
//! The answer begins at once, so that clients that wait for its head before they send do not wait
//! for ever; errors of its opening or end are in the trailers. Its body is a [`Talk`],
//! which is polled when there is room for more data on the wire: then it reads requests, hands them
//! to the engine and frames what comes back. So a client that reads nothing is not read from either.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use bytes::{Bytes, BytesMut};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use hyper::body::{Body, Frame};
use prost::Message as _;
use tokio::{
    sync::{mpsc, watch},
    time::Sleep,
};
use tonic::{Code, Status};

use super::{codec, grpc::ORIGIN};
use crate::{
    budget::{Budget, Charge},
    engine::{
        Servable,
        stream::{
            Course, StreamHead, StreamRequest, StreamResponse, StreamResponses, shutting_down,
        },
    },
    error::Error,
    frontends::{
        access::{self, Seen},
        body::BodyLimits,
        deadline,
        guard::{Access, NoRegions},
        messages::{Message, Reader, too_large},
        priority,
        received::Received,
        unary::{self, RAW_SPEED},
        weight::INFER,
    },
    proto::kserve::{ModelInferRequest, ModelStreamInferResponse},
    quota::{CountedClient, Priority, RequestOwner},
    request::{FREE_TEXTS, InferRequest, Parameter, Parameters},
    shared_memory::SharedMemory,
    task,
    trace::TraceContext,
};

/// The path of the call.
pub(in crate::frontends) const PATH: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// The parameter by which a client asks for marks of last answers.
const ASKS_FINAL: &str = "triton_enable_empty_final_response";

/// Bytes of small answers that go into one piece of data, if they are there.
const TOGETHER: usize = 16 << 10;

/// Answers with more bytes are framed by themselves, and not while others wait for the thread.
const LARGE: usize = 1 << 20;

/// Answers a call.
pub(in crate::frontends) fn call(
    engine: Access,
    limits: &BodyLimits,
    request: Request<Received>,
) -> Response<tonic::body::Body> {
    let limit = deadline::of_headers(request.headers());
    let priority = priority::of_headers(request.headers());
    let messages = match Reader::new(request, limits) {
        Ok(messages) => messages,
        Err(status) => return status.into_http(),
    };
    let course = engine.course();
    let talk = Talk {
        phase: Phase::Opening(Box::pin(open(
            engine,
            messages,
            limits.budget.clone(),
            priority,
            course.clone(),
        ))),
        outcome: Some(Status::new(Code::Ok, "")),
        framing: None,
        message_size: limits.message_size,
        budget: limits.budget.clone(),
        deadline: limit.map(|limit| (limit, Box::pin(tokio::time::sleep(limit)))),
        change: Box::pin(reaches(course.clone(), Course::Draining)),
        course,
    };
    let mut response = Response::new(tonic::body::Body::new(talk));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    response
}

/// The body of the answer.
struct Talk {
    phase: Phase,
    /// Status for the trailers.
    outcome: Option<Status>,
    /// A large answer on its way to bytes.
    framing: Option<BoxFuture<'static, Result<Bytes, Status>>>,
    message_size: usize,
    /// Budget of the responses that the client has not taken.
    budget: Budget,
    deadline: Option<(Duration, Pin<Box<Sleep>>)>,
    /// The next change of the course.
    change: BoxFuture<'static, ()>,
    course: watch::Receiver<Course>,
}

enum Phase {
    /// The first request is read, and what it names is looked for.
    Opening(BoxFuture<'static, Result<Open, Status>>),
    Open(Open),
    /// The trailers, which are all that is left.
    Ending,
}

/// An open stream.
struct Open {
    answers: StreamResponses,
    /// Reads requests and hands them over, as [`feed`] does; `None` when there are no more.
    feed: Option<BoxFuture<'static, Result<bool, Status>>>,
    seen: Seen,
    /// Charge of the first request, whose parameters stay with a graph.
    _texts: Option<Arc<Charge>>,
}

async fn open(
    engine: Access,
    mut messages: Reader,
    budget: Budget,
    priority: Option<Priority>,
    course: watch::Receiver<Course>,
) -> Result<Open, Status> {
    // Before it says anything: streams that never do take places as well.
    let place = engine.stream_place()?;
    let first = messages.next().await?.ok_or_else(|| {
        let text = "Client disconnected during reading first streaming request";
        Error::invalid(text)
    })?;
    let intake = MessageIntake {
        budget,
        memory: engine.shared_memory(),
        trace: access::trace(messages.extensions()),
        priority,
        client: engine.client().cloned(),
    };
    let first = read(first, &intake, Some(engine.clone())).await?;
    let seen = access::seen(messages.extensions(), Some(&first.name));
    let unread = InferRequest::default();
    let request = first.request.as_ref().unwrap_or(&unread);
    let head = StreamHead {
        name: &first.name,
        parameters: &request.parameters,
        origin: ORIGIN,
        trace: request.trace.as_ref(),
        priority: request.priority,
        sender: RequestOwner::default(),
    };
    let stream = engine.open_stream(head, place).await?;
    Ok(Open {
        answers: stream.answers,
        _texts: request.texts.clone(),
        feed: Some(Box::pin(feed(
            messages,
            first,
            stream.requests,
            intake,
            course,
        ))),
        seen,
    })
}

/// Hands over requests until there are no more, or nobody takes them. Whether all that the client had
/// to send has been handed over.
///
/// From the begin of a drain on nothing is handed over. What comes is still looked at: an end of the
/// requests says that the client lacks nothing, however late the server hears of it.
async fn feed(
    mut messages: Reader,
    first: StreamRequest,
    requests: mpsc::Sender<StreamRequest>,
    intake: MessageIntake,
    course: watch::Receiver<Course>,
) -> Result<bool, Status> {
    let mut request = first;
    loop {
        if before_drain(&course, pin!(requests.send(request)))
            .await
            .is_none_or(|sent| sent.is_err())
        {
            return Ok(false);
        }
        let mut next = pin!(messages.next());
        let Some(message) = before_drain(&course, next.as_mut()).await else {
            drop(requests);
            return Ok(matches!(next.await, Ok(None)));
        };
        let Some(message) = message? else {
            return Ok(true);
        };
        if let Some(client) = &intake.client
            && before_drain(&course, pin!(client.pace())).await.is_none()
        {
            return Ok(false);
        }
        let Some(read) = before_drain(&course, pin!(read(message, &intake, None))).await else {
            return Ok(false);
        };
        request = read?;
    }
}

/// Awaits what is there before a drain begins; `None` if that comes first. The [`Talk`], which polls
/// this, is woken by the drain.
async fn before_drain<F: Future>(
    course: &watch::Receiver<Course>,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    // Also of what is there already: it may have come after the drain began.
    poll_fn(|context| match *course.borrow() >= Course::Draining {
        true => Poll::Ready(None),
        false => future.as_mut().poll(context).map(Some),
    })
    .await
}

/// Means to decode the requests of a stream.
struct MessageIntake {
    budget: Budget,
    memory: Result<Arc<SharedMemory>, NoRegions>,
    /// Parent context of their spans, if the stream is traced.
    trace: Option<TraceContext>,
    /// The priority that came with the call; requests without one have it in their parameters.
    priority: Option<Priority>,
    /// The client, whose messages come at its rate, if it has one.
    client: Option<Arc<CountedClient>>,
}

/// Decodes a request. With an access to ask, as for the first one, what it names and the right to that are asked for
/// before its tensors. A graph has the parameters of its first request for the whole stream, so that this one has to
/// be readable.
async fn read(
    message: Message,
    intake: &MessageIntake,
    asker: Option<Access>,
) -> Result<StreamRequest, Status> {
    let Message { bytes, room } = message;
    let weight = INFER.weight(&bytes);
    let mut decoded = intake.budget.charge(weight)?;
    let effort = bytes.len().max(weight) / RAW_SPEED;
    let (budget, memory) = (intake.budget.clone(), intake.memory.clone());
    let (trace, priority) = (intake.trace.clone(), intake.priority);
    let decode = move || {
        let mut message = ModelInferRequest::decode(bytes)
            .map_err(|error| Status::internal(error.to_string()))?;
        let servable = asker.map(|engine| engine.runnable(&message.model_name));
        let opens_graph = matches!(servable.transpose()?, Some(Servable::Graph(_)));
        let name = std::mem::take(&mut message.model_name);
        let version = codec::version(&message.model_version);
        let limit = codec::time_limit(&message);
        let request = match codec::decode(message, &budget, memory.as_deref().map_err(Clone::clone))
        {
            Ok(mut request) => {
                (request.trace, request.priority) = (trace, priority);
                request.marks_final = marks_final(&mut request.parameters);
                Ok(request)
            }
            Err(error) if opens_graph => return Err(error.into()),
            Err(error) => Err(error),
        };
        let kept = if name.len() > FREE_TEXTS {
            name.len()
        } else {
            0
        };
        decoded.take(kept);
        decoded.shrink(kept);
        Ok(StreamRequest {
            name,
            version,
            request,
            limit,
            room,
            charge: (kept > 0).then_some(decoded),
        })
    };
    task::sized("unpack", effort, decode).await
}

/// Takes the parameter by which a client asks for marks of last answers. It is for the stream, and not for a graph,
/// which may refuse parameters that it does not know.
fn marks_final(parameters: &mut Parameters) -> bool {
    let before = parameters.len();
    parameters.retain(|(name, value)| name != ASKS_FINAL || *value != Parameter::Bool(true));
    parameters.len() < before
}

async fn reaches(mut course: watch::Receiver<Course>, at_least: Course) {
    // An error is the end of the engine.
    let _ = course.wait_for(|course| *course >= at_least).await;
}

impl Talk {
    /// Ends without another answer.
    fn end(&mut self, status: Status) {
        self.outcome = Some(status);
        self.framing = None;
        self.phase = Phase::Ending;
    }

    /// Looks whether time is over, for the call or for the server.
    fn look_at_the_clock(&mut self, context: &mut Context<'_>) {
        if let Some((limit, sleep)) = &mut self.deadline
            && sleep.as_mut().poll(context).is_ready()
        {
            let limit = *limit;
            self.end(Error::deadline(limit).into());
            return;
        }
        while self.change.poll_unpin(context).is_ready() {
            let stops = Status::from(shutting_down());
            let course = *self.course.borrow();
            match &mut self.phase {
                Phase::Open(open) if course == Course::Draining => {
                    self.change = Box::pin(reaches(self.course.clone(), Course::Over));
                    // A client that has sent all that it has gets all that it asked for; the feed
                    // says if this is one.
                    if open.feed.is_some() {
                        self.outcome = Some(stops);
                    }
                }
                _ => return self.end(stops),
            }
        }
    }

    /// Gathers what there is to be sent.
    fn gather(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        if let Some(framing) = &mut self.framing {
            let data = ready!(framing.poll_unpin(context));
            self.framing = None;
            return Poll::Ready(self.sent(data));
        }
        if let Phase::Opening(opening) = &mut self.phase {
            match ready!(opening.poll_unpin(context)) {
                Ok(open) => self.phase = Phase::Open(open),
                Err(status) => self.end(status),
            }
        }
        let Phase::Open(open) = &mut self.phase else {
            return Poll::Ready(Bytes::new());
        };
        if let Some(feed) = &mut open.feed {
            match feed.poll_unpin(context) {
                Poll::Ready(Ok(is_whole)) => {
                    open.feed = None;
                    if is_whole {
                        self.outcome = Some(Status::new(Code::Ok, ""));
                    }
                }
                Poll::Ready(Err(status)) => {
                    self.end(status);
                    return Poll::Ready(Bytes::new());
                }
                Poll::Pending => {}
            }
        }
        let mut together = BytesMut::new();
        while together.len() < TOGETHER {
            let answer = match open.answers.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(answer))) => answer,
                Poll::Ready(Some(Err(error))) => {
                    self.end(error.into());
                    break;
                }
                Poll::Ready(None) => {
                    self.phase = Phase::Ending;
                    break;
                }
                Poll::Pending if together.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            };
            if let StreamResponse::Response(response) = &answer {
                open.seen.version(|| Some(response.model_version));
            }
            let message = message(answer);
            let (size, limit) = (size(&message), self.message_size);
            let charge = self.budget.empty();
            if size > LARGE {
                let framed = task::sized("encode", size / RAW_SPEED, move || {
                    framed(&message, limit, charge)
                });
                self.framing = Some(Box::pin(framed));
                break;
            }
            let framed = match framed(&message, limit, charge) {
                Ok(framed) => framed,
                Err(status) => {
                    self.end(status);
                    break;
                }
            };
            if together.is_empty() && framed.len() >= TOGETHER {
                return Poll::Ready(framed);
            }
            together.extend_from_slice(&framed);
        }
        let together = self.budget.keep(together.freeze());
        Poll::Ready(self.sent(together.map_err(Status::from)))
    }

    /// Returns what is to be sent, or ends without it.
    fn sent(&mut self, data: Result<Bytes, Status>) -> Bytes {
        data.unwrap_or_else(|status| {
            self.end(status);
            Bytes::new()
        })
    }

    /// Makes the trailers, once.
    fn trailers(&mut self) -> Option<HeaderMap> {
        let status = self.outcome.take()?;
        let mut trailers = HeaderMap::with_capacity(2);
        if status.add_header(&mut trailers).is_err() {
            // A text that no header can take; the code counts.
            let code = HeaderValue::from(status.code() as i32);
            trailers.insert("grpc-status", code);
        }
        Some(trailers)
    }
}

impl Body for Talk {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if !matches!(self.phase, Phase::Ending) {
                self.look_at_the_clock(context);
            }
            let data = ready!(self.gather(context));
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            if self.framing.is_none() && matches!(self.phase, Phase::Ending) {
                let trailers = self.trailers();
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
            }
        }
    }
}

/// Returns about how many bytes a message has.
fn size(message: &ModelStreamInferResponse) -> usize {
    message.infer_response.as_ref().map_or(0, |response| {
        response.raw_output_contents.iter().map(Bytes::len).sum()
    })
}

fn message(answer: StreamResponse) -> ModelStreamInferResponse {
    match answer {
        StreamResponse::Response(response) => ModelStreamInferResponse {
            infer_response: Some(codec::encode(response)),
            ..ModelStreamInferResponse::default()
        },
        StreamResponse::Error(error) => error_message(&error.into()),
    }
}

fn error_message(status: &Status) -> ModelStreamInferResponse {
    ModelStreamInferResponse {
        error_message: status.message().to_owned(),
        ..ModelStreamInferResponse::default()
    }
}

/// Frames a message, or the error that it is too large.
fn framed(
    message: &ModelStreamInferResponse,
    limit: usize,
    charge: Charge,
) -> Result<Bytes, Status> {
    match message.encoded_len() {
        length if length > limit => {
            let status = too_large("encoded", length, limit);
            unary::framed(&error_message(&status), usize::MAX, charge)
        }
        _ => unary::framed(message, limit, charge),
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, pin::pin};

    use prost::Message as _;
    use tokio::sync::watch;

    use super::{Course, Message, MessageIntake, ModelInferRequest, NoRegions, before_drain, read};
    use crate::budget::Budget;

    #[tokio::test]
    async fn a_long_name_is_charged_until_its_request_is_gone() {
        let budget = Budget::new(1 << 20);
        let intake = MessageIntake {
            budget: budget.clone(),
            memory: Err(NoRegions::Off),
            trace: None,
            priority: None,
            client: None,
        };
        for (length, kept) in [(10, 0), (100_000, 100_000)] {
            let message = ModelInferRequest {
                model_name: "m".repeat(length),
                ..ModelInferRequest::default()
            };
            let bytes = message.encode_to_vec().into();
            let request = read(Message { bytes, room: None }, &intake, None).await;
            let request = request.expect("it has a form");
            assert_eq!(budget.charged(), kept, "{length}");
            drop(request);
            assert_eq!(budget.charged(), 0, "{length}");
        }
    }

    #[tokio::test]
    async fn what_is_there_when_a_drain_has_begun_is_left() {
        let (sender, course) = watch::channel(Course::Open);
        assert_eq!(before_drain(&course, pin!(ready(1))).await, Some(1));
        for begun in [Course::Draining, Course::Over] {
            sender.send_replace(begun);
            assert_eq!(before_drain(&course, pin!(ready(1))).await, None);
        }
    }
}
