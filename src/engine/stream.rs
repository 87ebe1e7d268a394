//! Streams of requests: the seam between a frontend that has one open and what is served.
//!
//! [`Engine::open_stream`] looks at the first request and gives a [`OpenStream`] of two halves, which the
//! frontend pumps: a channel takes what comes in, one request after another, and
//! [`StreamResponses`] gives what goes out. Neither half knows the wire.
//!
//! What bounds what:
//!
//! - A send waits while [`REQUESTS_AHEAD`] requests have been sent and not taken up. A
//!   frontend that reads no further meanwhile holds up its client, and with [`StreamRequest::room`]
//!   it bounds the bytes that are held this way.
//! - Little runs ahead of a reader: requests are taken up when answers are polled for, and what makes
//!   answers meanwhile hands them over through something bounded. A frontend polls only when it can
//!   send. What runs must not wait for that poll, since it may hold what others wait for.
//! - Dropping the sender is the end of the requests: the answers still come, and then the end.
//!   Dropping [`StreamResponses`] drops all work of the stream.
//!
//! Models and pipelines answer [`Each`] request by itself, in the order in which they came; a stream to
//! a graph has an instance of it ([`graph_stream`]).

use std::{
    future,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    FutureExt, StreamExt, TryFutureExt,
    future::{BoxFuture, Either, Ready, ready},
    stream::{FuturesOrdered, poll_fn},
};
use tokio::sync::{mpsc, watch};

pub use super::{
    course::{Course, shutting_down},
    stream_messages::{
        StreamHead, StreamPlace, StreamRequest, StreamResponse, StreamResponses, other_name,
    },
};
use super::{
    engine::Engine,
    graph_stream,
    in_flight::InFlight,
    servable::{Servable, info_of},
};
use crate::{
    error::{Error, Result},
    graph::Graph,
    quota::RequestOwner,
    request::{FINAL, Parameter, RequestOrigin},
    sequence::Line,
    servable::ServableInfo,
    task::Task,
};

/// Number of requests of a stream that may wait to be processed. Several, so that a client and what serves it
/// need not wait for each other with every single one.
pub const REQUESTS_AHEAD: usize = 16;

/// Maximum number of requests of one stream to a model or pipeline in flight: enough to keep the
/// infer requests of a small machine busy, and few enough that a hundred such streams do not fill
/// the queue of a model.
pub const MAX_REQUESTS_IN_FLIGHT: usize = 8;

/// Maximum time that generators in graphs may go on when the server stops, unless all of the stop is to take less
/// than twice as long.
const MAX_STREAM_GRACE: Duration = Duration::from_secs(5);

/// A stream that is open.
pub struct OpenStream {
    /// Channel for requests; dropped when there are no more. One that cannot be sent comes behind the end
    /// of the stream.
    pub requests: mpsc::Sender<StreamRequest>,
    /// Stream of answers.
    pub answers: StreamResponses,
}

impl Engine {
    /// Opens a stream to what the first request names, in a place that it keeps. That request is to be sent as well.
    ///
    /// # Errors
    ///
    /// Fails if there is no such name, or the server is stopping.
    pub async fn open_stream(
        self: &Arc<Self>,
        head: StreamHead<'_>,
        place: StreamPlace,
    ) -> Result<OpenStream> {
        let entered = InFlight::enter(&self.in_flight);
        if self.stopping.load(Ordering::SeqCst) {
            return Err(shutting_down());
        }
        let servable = self.servable(head.name)?;
        let (sender, requests) = mpsc::channel(REQUESTS_AHEAD);
        let answers = match servable {
            Servable::Graph(graph) => graph_stream::open(self, &graph, head, requests).await?,
            Servable::Model(_) | Servable::Pipeline(_) => {
                let mut each = Each {
                    engine: Arc::clone(self),
                    name: head.name.into(),
                    origin: head.origin,
                    sender: head.sender,
                    requests: Some(requests),
                    in_flight: FuturesOrdered::new(),
                    line: Line::default(),
                };
                poll_fn(move |context| each.poll_next(context).map(|answer| answer.map(Ok))).boxed()
            }
        };
        // A stream counts as in flight, so that a stop waits for its end, and as one of those open.
        let mut open = (answers, InFlight::enter(&self.open_streams), entered, place);
        Ok(OpenStream {
            requests: sender,
            answers: Box::pin(poll_fn(move |context| {
                let (answers, ..) = &mut open;
                answers.poll_next_unpin(context)
            })),
        })
    }

    /// Returns inputs and outputs of a graph, after a wait if it is about to be checked.
    ///
    /// # Errors
    ///
    /// Fails if it cannot serve.
    pub async fn graph_info(&self, graph: &Arc<Graph>) -> Result<ServableInfo> {
        Ok(info_of(self.definition(graph).await?.plan()))
    }

    /// Returns a receiver that says whether open streams may go on.
    pub fn course(&self) -> watch::Receiver<Course> {
        self.course.subscribe()
    }

    /// Sets the time that a stop waits for requests in flight; only the first call counts.
    pub fn limit_stop(&self, limit: Duration) {
        let _ = self.stop_limit.set(limit);
    }

    /// Returns how long after the begin of a stop the graphs of streams may go on by themselves.
    pub fn stream_grace(&self) -> Duration {
        let limit = self.stop_limit.get();
        limit.map_or(MAX_STREAM_GRACE, |limit| MAX_STREAM_GRACE.min(*limit / 2))
    }

    /// Ends the streams that have not ended in the time that a stop gives them.
    pub fn give_up_streams(&self) {
        self.course.send_replace(Course::Over);
    }
}

/// A request that was answered in place, or that a task sees to: one that waits here for a reader who
/// takes nothing must not keep what others wait for, such as an infer request.
type Begun = Either<Ready<StreamResponse>, BoxFuture<'static, StreamResponse>>;

/// A stream whose requests have nothing to do with each other, except that the answers come in
/// their order, and that requests of sequences enter these in their order.
struct Each {
    engine: Arc<Engine>,
    name: Arc<str>,
    origin: RequestOrigin,
    sender: RequestOwner,
    /// `None` once the last has come.
    requests: Option<mpsc::Receiver<StreamRequest>>,
    /// Requests in flight, with those whose answers wait for earlier ones, so that these are bounded as well.
    in_flight: FuturesOrdered<Begun>,
    /// The requests in their order.
    line: Line,
}

impl Each {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<StreamResponse>> {
        while self.in_flight.len() < MAX_REQUESTS_IN_FLIGHT
            && let Some(requests) = &mut self.requests
        {
            match requests.poll_recv(context) {
                Poll::Ready(Some(request)) => {
                    let mut answer = self.answer(request);
                    // What runs in place needs no task.
                    let begun = match answer.poll_unpin(context) {
                        // Nor does it wait behind others, where there are none.
                        Poll::Ready(answer) if self.in_flight.is_empty() => {
                            return Poll::Ready(Some(answer));
                        }
                        Poll::Ready(answer) => Either::Left(ready(answer)),
                        Poll::Pending => Either::Right(elsewhere(answer)),
                    };
                    self.in_flight.push_back(begun);
                }
                Poll::Ready(None) => self.requests = None,
                Poll::Pending => break,
            }
        }
        match self.in_flight.poll_next_unpin(context) {
            Poll::Ready(None) if self.requests.is_some() => Poll::Pending,
            polled => polled,
        }
    }

    fn answer(&self, request: StreamRequest) -> BoxFuture<'static, StreamResponse> {
        let StreamRequest {
            name,
            version,
            mut request,
            limit,
            room,
            charge,
        } = request;
        if *name != *self.name {
            return Box::pin(ready(StreamResponse::Error(other_name())));
        }
        let engine = Arc::clone(&self.engine);
        let origin = self.origin;
        let marks_final = request.as_ref().is_ok_and(|request| request.marks_final);
        let sender = self.sender.clone();
        // Here, since this is called for one request after the other.
        let arrival = self.line.arrive();
        let trace = request.as_ref().ok().and_then(|it| it.trace.as_ref());
        let mut span = trace.map(|trace| trace.span("message"));
        if let Ok(request) = &mut request {
            request.trace = span.as_ref().map(|span| span.context().clone());
        }
        Box::pin(async move {
            // Of its own, so that the call ends before its room and its span do.
            let infer = async move {
                let place = Arc::clone(&arrival);
                let mut infer = pin!(async move {
                    let version = version.or_else(|error| match engine.servable(&name) {
                        Ok(servable) if !servable.heeds_version() => Ok(None),
                        _ => Err(error),
                    })?;
                    let find = engine.find(&name, version, origin);
                    let target = place.finds(&name, find).await?.arrived(place);
                    // What is asked for is looked up first, as for a unary call.
                    target.sent_by(&sender).infer(request?).await
                });
                let polls = future::poll_fn(|context| {
                    let question = arrival.begin_poll();
                    let polled = infer.as_mut().poll(context);
                    if polled.is_pending() {
                        arrival.waits(context, question);
                    }
                    polled
                });
                polls.await
            };
            let answer = match limit {
                None => infer.await,
                Some(limit) => tokio::time::timeout(limit, infer)
                    .await
                    .unwrap_or_else(|_| Err(Error::deadline(limit))),
            };
            drop((room, charge));
            if let (Some(span), Err(error)) = (&mut span, &answer) {
                span.failed(error);
            }
            drop(span);
            let answer = answer.map(|mut response| {
                // The only one is the last.
                if marks_final {
                    let last = Parameter::Bool(true);
                    response.parameters.push((FINAL.to_owned(), last));
                }
                response
            });
            // It may wait for its client.
            let error = |error: Error| StreamResponse::Error(error.cut());
            answer.map_or_else(error, StreamResponse::Response)
        })
    }
}

/// Leaves a request to a task, which ends with the stream.
fn elsewhere(answer: BoxFuture<'static, StreamResponse>) -> BoxFuture<'static, StreamResponse> {
    let lost = |_| StreamResponse::Error(Error::internal("Internal error"));
    Box::pin(Task::spawn(answer).unwrap_or_else(lost))
}
