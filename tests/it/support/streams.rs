//! A stream of requests and responses, with tonic's own client.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming, metadata::MetadataMap};

use super::grpc::{Grpc, error};

/// Maximum time to wait for one response.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// An open stream; dropping it cancels the call.
pub(crate) struct Talk<'a> {
    grpc: &'a Grpc,
    requests: Option<mpsc::Sender<ModelInferRequest>>,
    /// Completes when the connection has taken the last request, and the end.
    taken: oneshot::Receiver<()>,
    answers: Streaming<ModelStreamInferResponse>,
}

/// Requests of a stream, and a sender to signal that the connection has taken them all.
struct Outgoing(
    ReceiverStream<ModelInferRequest>,
    Option<oneshot::Sender<()>>,
);

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(taken) = self.1.take() {
            // Most tests do not want to know.
            let _ = taken.send(());
        }
    }
}

impl tokio_stream::Stream for Outgoing {
    type Item = ModelInferRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(context)
    }
}

/// An event of a stream.
#[derive(Debug, PartialEq)]
pub(crate) enum Came {
    /// A response.
    Response(Box<ModelInferResponse>),
    /// An error after which the stream continues.
    Error(String),
    /// End of the stream: code and text of the call.
    End(String),
}

impl Came {
    /// Returns the response; panics if it is none.
    pub(crate) fn response(self) -> ModelInferResponse {
        match self {
            Self::Response(response) => *response,
            other => panic!("found {other:?}, expected a response"),
        }
    }

    /// Formats it as one line.
    pub(crate) fn reported(&self) -> String {
        match self {
            Self::Response(response) => format!("response {}", response.id),
            Self::Error(text) => format!("error: {text}"),
            Self::End(text) => format!("end: {text}"),
        }
    }
}

impl<'a> Talk<'a> {
    /// Opens a stream.
    pub(crate) fn open(grpc: &'a Grpc) -> Self {
        Self::open_within(grpc, None)
    }

    /// Opens a stream with a time limit for all of it.
    pub(crate) fn open_within(grpc: &'a Grpc, limit: Option<Duration>) -> Self {
        let set = |request: &mut Request<Outgoing>| {
            if let Some(limit) = limit {
                request.set_timeout(limit);
            }
        };
        Self::begin(grpc, set).0
    }

    /// Opens a stream that belongs to a trace; returns also what its answer says of that.
    pub(crate) fn open_below(grpc: &'a Grpc, parent: &str) -> (Self, String) {
        let parent = parent.parse().unwrap();
        let set = |request: &mut Request<Outgoing>| {
            request.metadata_mut().insert("traceparent", parent);
        };
        let (talk, metadata) = Self::begin(grpc, set);
        let given = metadata.get("traceparent").expect("it has a span");
        (talk, given.to_str().unwrap().to_owned())
    }

    fn begin(grpc: &'a Grpc, set: impl FnOnce(&mut Request<Outgoing>)) -> (Self, MetadataMap) {
        let (requests, receiver) = mpsc::channel(1);
        let (takes, taken) = oneshot::channel();
        let outgoing = Outgoing(ReceiverStream::new(receiver), Some(takes));
        let mut request = Request::new(outgoing);
        set(&mut request);
        let mut client = grpc.client.clone();
        let opened = client.model_stream_infer(request);
        let opened = grpc
            .runtime
            .block_on(opened)
            .expect("an answer begins at once");
        let metadata = opened.metadata().clone();
        let talk = Self {
            grpc,
            requests: Some(requests),
            taken,
            answers: opened.into_inner(),
        };
        (talk, metadata)
    }

    /// Sends a request.
    pub(crate) fn send(&self, request: ModelInferRequest) {
        let sent = self.try_send(request, MAX_WAIT);
        assert!(sent, "the stream takes the request");
    }

    /// Sends a request, if the connection takes it within a limit.
    pub(crate) fn try_send(&self, request: ModelInferRequest, limit: Duration) -> bool {
        let requests = self.requests.as_ref().expect("it has not been closed");
        let sent = self
            .grpc
            .runtime
            .block_on(async { tokio::time::timeout(limit, requests.send(request)).await });
        matches!(sent, Ok(Ok(())))
    }

    /// Half-closes the stream.
    pub(crate) fn close(&mut self) {
        self.requests = None;
    }

    /// Half-closes the stream, and waits until the connection has taken the end.
    pub(crate) fn close_heard(&mut self) {
        self.close();
        let taken = async { tokio::time::timeout(MAX_WAIT, &mut self.taken).await };
        let taken = self.grpc.runtime.block_on(taken);
        taken.expect("in time").expect("its drop tells");
        self.grpc.round_trip();
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Came {
        let answers = &mut self.answers;
        let message = self
            .grpc
            .runtime
            .block_on(async { tokio::time::timeout(MAX_WAIT, answers.message()).await })
            .expect("something comes in time");
        match message {
            Ok(Some(message)) => match (message.infer_response, message.error_message) {
                (Some(response), text) if text.is_empty() => Came::Response(Box::new(response)),
                (None, text) => Came::Error(text),
                both => panic!("found both: {both:?}"),
            },
            Ok(None) => Came::End(error(&Status::ok(""))),
            Err(status) => Came::End(error(&status)),
        }
    }

    /// Sends a request, and waits for the next event.
    pub(crate) fn ask(&mut self, request: ModelInferRequest) -> Came {
        self.send(request);
        self.next()
    }

    /// Half-closes the stream, and formats all events until the end.
    pub(crate) fn rest(mut self) -> Vec<String> {
        self.close();
        let mut reported = Vec::new();
        loop {
            let came = self.next();
            reported.push(came.reported());
            if let Came::End(_) = came {
                return reported;
            }
        }
    }
}

/// Sets the id of a request.
pub(crate) fn with_id(id: impl ToString, request: ModelInferRequest) -> ModelInferRequest {
    ModelInferRequest {
        id: id.to_string(),
        ..request
    }
}
