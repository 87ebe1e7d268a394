//! Messages between a frontend that has a stream open and what is served.

use std::time::Duration;

use futures::stream::BoxStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    budget::Charge,
    error::{Error, Result},
    quota::{ClientPlace, Priority, RequestOwner},
    request::{InferRequest, InferResponse, Parameters, RequestOrigin},
    trace::TraceContext,
};

/// Head of a stream: its first request, of which name and parameters count.
#[derive(Debug, Clone)]
pub struct StreamHead<'a> {
    /// The servable that all requests of the stream are for.
    pub name: &'a str,
    /// The parameters of the first request.
    pub parameters: &'a Parameters,
    /// Origin of the stream.
    pub origin: RequestOrigin,
    /// Parent context of its spans, if it is traced.
    pub trace: Option<&'a TraceContext>,
    /// Its priority, if one came beside its first request; else the parameter counts.
    pub priority: Option<Priority>,
    /// Its client.
    pub sender: RequestOwner,
}

/// Place of a stream among those that are open, which is free again when this is dropped.
#[derive(Debug)]
pub struct StreamPlace {
    pub(super) _place: OwnedSemaphorePermit,
    /// Place among the streams of clients without an identity.
    pub(super) _of_strangers: Option<OwnedSemaphorePermit>,
    /// Place among the streams of its client.
    pub(super) _of_client: Option<ClientPlace>,
}

/// One request of a stream, also the first.
#[derive(Debug)]
pub struct StreamRequest {
    /// The name that it has for the servable.
    pub name: String,
    /// The version that it names, or why that is none.
    pub version: Result<Option<i64>>,
    /// The request, or why it cannot be read.
    pub request: Result<InferRequest>,
    /// The time limit that it sets for itself.
    pub limit: Option<Duration>,
    /// The room that its bytes take among those of the stream; free again when this is dropped,
    /// which is when the request has been answered or made into something else.
    pub room: Option<OwnedSemaphorePermit>,
    /// The charge of a long name.
    pub charge: Option<Charge>,
}

/// Response on a stream.
#[derive(Debug)]
pub enum StreamResponse {
    /// A response.
    Response(InferResponse),
    /// An error after which the stream goes on; clients receive its text.
    Error(Error),
}

/// The half of a stream that gives answers: it ends when all has gone well, or after an error that
/// is the end of it.
pub type StreamResponses = BoxStream<'static, Result<StreamResponse>>;

/// Refuses a request for another servable than the first.
pub fn other_name() -> Error {
    Error::invalid("Subsequent request with incorrect servable name; validate subsequent requests")
}
