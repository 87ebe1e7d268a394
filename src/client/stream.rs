//! Streams of requests and responses, of each protocol that has them.

use std::fmt;

use tokio::sync::mpsc;

use super::{
    error::{ClientError, RequestError},
    events::{EventReceiver, EventRequest},
    kserve_grpc::{self, MessageReceiver},
    message::{ClientResponse, Request},
};
use crate::proto::kserve::ModelInferRequest;

/// Where the requests of a stream go; dropped when there are no more.
#[derive(Debug)]
pub struct RequestSender(pub(super) Outgoing);

/// Requests as the protocol has them.
#[derive(Debug)]
pub(super) enum Outgoing {
    Messages(mpsc::Sender<ModelInferRequest>),
    Events(mpsc::Sender<EventRequest>),
}

impl RequestSender {
    /// Sends a request, once the ones before are on their way. Whether the stream takes it: one that
    /// has come to its end takes no more.
    ///
    /// Only a wait for answers moves what is sent, so both have to go on beside each other.
    ///
    /// # Errors
    ///
    /// Fails if the request has no form in the protocol.
    pub async fn send(&self, request: &Request) -> Result<bool, RequestError> {
        Ok(match &self.0 {
            Outgoing::Messages(sender) => {
                let message = kserve_grpc::message(request)?;
                sender.send(message).await.is_ok()
            }
            Outgoing::Events(sender) => {
                let request = EventRequest::new(request)?;
                sender.send(request).await.is_ok()
            }
        })
    }
}

/// Responses of a stream; dropping it cancels the stream.
pub struct ResponseReceiver<'a>(pub(super) Incoming<'a>);

/// Responses as the protocol has them.
pub(super) enum Incoming<'a> {
    Messages(MessageReceiver<'a>),
    Events(EventReceiver<'a>),
}

impl ResponseReceiver<'_> {
    /// Waits for what comes next; `None` at the good end of the stream. There is no time limit, and
    /// a wait that is given up loses nothing.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream with an error, or an answer cannot be read.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        match &mut self.0 {
            Incoming::Messages(messages) => messages.next().await,
            Incoming::Events(events) => events.next().await,
        }
    }
}

impl fmt::Debug for ResponseReceiver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseReceiver").finish_non_exhaustive()
    }
}

/// Event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// An answer.
    Answer(StreamAnswer),
    /// An error after which the stream goes on.
    Error(String),
}

/// One answer of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamAnswer {
    /// The answer.
    pub answer: ClientResponse,
    /// The timestamp, as graphs have them.
    pub timestamp: Option<i64>,
    /// Whether it is the last answer of its request, if the server reports that.
    pub is_final: Option<bool>,
}

/// The response parameter that is the timestamp of a graph's packet.
pub(super) const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";
