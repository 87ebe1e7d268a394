//! Streams: many requests, and whatever the server has to say to them, as it comes.

use std::fmt;

use super::{
    error::{ClientError, RequestError},
    kserve_grpc,
    message::{ClientResponse, Request},
};

/// Where the requests of a stream go; dropped when there are no more.
#[derive(Debug)]
pub struct RequestSender(pub(super) kserve_grpc::Requests);

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
        self.0.send(request).await
    }
}

/// Responses of a stream; dropping it cancels the stream.
pub struct ResponseReceiver<'a>(pub(super) kserve_grpc::Answers<'a>);

impl ResponseReceiver<'_> {
    /// Waits for what comes next; `None` at the good end of the stream. There is no time limit, and
    /// a wait that is given up loses nothing.
    ///
    /// # Errors
    ///
    /// Fails if the server ends the stream with an error, or an answer cannot be read.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        self.0.next().await
    }
}

impl fmt::Debug for ResponseReceiver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
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
}
