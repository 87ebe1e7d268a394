//! Calls over gRPC without the detours that a general framework has to take.
//!
//! The message is decoded from the
//! bytes as they were received, without gathering them in another buffer first, and the answer is
//! data and the trailers. The framing is that of "gRPC over HTTP/2": a byte that says
//! whether the message is compressed, its length in four bytes, big endian, and the message.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::http::{HeaderMap, HeaderValue, Request, Response, header};
use bytes::{BufMut, Bytes, BytesMut};
use futures::FutureExt;
use hyper::body::{Body, Frame, SizeHint};
use prost::Message;
use tonic::{Code, Status};

use super::{
    access, deadline, intake::BodyLimits, messages::Reader, received::Received, reply, weight::Kind,
};
use crate::{
    budget::{Budget, Charge, OVERHEAD},
    error::{self, Error, ErrorKind},
    sequence::Arrival,
    task,
};

/// An inference: a call with one message each way.
pub(super) trait Unary: Clone + Send + Sync + 'static {
    /// The message that is received.
    type Request: Message + Default + 'static;
    /// The message that is answered.
    type Response: Message + 'static;

    /// The path of the call.
    const PATH: &str;

    /// Kind of message, for the memory that it takes when decoded.
    const KIND: Kind;

    /// Answers a request; `effort` is how much there is to unpack, in the bytes of
    /// [`task::sized`], `arrival` its place among the calls of its connection, `decoded` the charge of the
    /// message, and `budget` what it is unpacked to.
    fn run(
        &self,
        request: Self::Request,
        decoded: Charge,
        effort: usize,
        arrival: Arc<Arrival>,
        budget: &Budget,
    ) -> impl Future<Output = error::Result<Self::Response>> + Send;

    /// Returns about how many bytes an answer has.
    fn size(answer: &Self::Response) -> usize;

    /// Returns the name that a request is for, for the access log.
    fn model(_: &Self::Request) -> Option<&str> {
        None
    }

    /// Returns the version that has answered, for the access log.
    fn version(_: &Self::Response) -> Option<i64> {
        None
    }
}

/// How many times faster messages are taken to be read and written than the text that
/// [`task::sized`] reckons with; an estimate.
pub(super) const RAW_SPEED: usize = 16;

/// The flag and the length before a message.
pub(super) const PREFIX: usize = 5;

/// Maximum size of a message that is not an inference; its strings are names.
const MAX_QUERY: usize = 4 << 20;

/// How many times more memory than bytes such a message takes at most.
const QUERY_WEIGHT: usize = 16;

/// Answers an inference.
pub(super) fn call<C: Unary>(
    service: C,
    intake: BodyLimits,
    request: Request<Received>,
    arrival: Arc<Arrival>,
) -> impl Future<Output = Response<UnaryBody>> + Send {
    let (parts, body) = request.into_parts();
    let limit = deadline::of_headers(&parts.headers);
    let extensions = parts.extensions;
    let reader = Reader::new(body, &parts.headers, &extensions, &intake);
    let answer = async move {
        let mut reader = reader?;
        let message = reader.only(name(C::PATH)).await?;
        let charge = reader.into_charge();
        arrival.received();
        let size = message.len();
        let weight = C::KIND.weight(&message);
        let budget = intake.budget();
        let decoded = budget
            .charge(weight)
            .map_err(|error| reply::status(&error))?;
        // Raw contents are not looked at here; typed ones are read value by value.
        let decode = move || C::Request::decode(message);
        let request = task::sized("decode", size.max(weight) / RAW_SPEED, decode)
            .await
            // The framework's own words and code for the same error.
            .map_err(|error| Status::internal(error.to_string()))?;
        let seen = access::seen(&extensions, C::model(&request));
        let answer = service
            .run(request, decoded, size / RAW_SPEED, arrival, budget)
            .await
            .map_err(|error| reply::status(&error))?;
        seen.version(|| C::version(&answer));
        let limit = intake.message_size();
        let size = C::size(&answer);
        task::sized("encode", size / RAW_SPEED, move || {
            framed(&answer, limit, charge)
        })
        .await
    };
    deadline::within(limit, answer).map(response)
}

/// Answers a call whose message is small, and whose answer is known at once.
pub(super) async fn query<Q, A>(
    intake: BodyLimits,
    request: Request<Received>,
    answer: impl FnOnce(Q) -> Result<A, Status>,
) -> Response<UnaryBody>
where
    Q: Message + Default,
    A: Message,
{
    let (parts, body) = request.into_parts();
    let limit = deadline::of_headers(&parts.headers);
    let path = parts.uri.path();
    let intake = intake.with_message_size(intake.message_size().min(MAX_QUERY));
    let answer = async {
        let mut reader = Reader::new(body, &parts.headers, &parts.extensions, &intake)?;
        let message = reader.only(name(path)).await?;
        let mut charge = reader.into_charge();
        charge
            .add(message.len() * QUERY_WEIGHT)
            .map_err(|error| reply::status(&error))?;
        let message = Q::decode(message).map_err(|error| Status::internal(error.to_string()))?;
        framed(
            &answer(message)?,
            intake.message_size().max(MAX_QUERY),
            charge,
        )
    };
    response(deadline::within(limit, answer).await)
}

/// Returns the method of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Makes the answer of a call, good or not.
fn response(answer: Result<Bytes, Status>) -> Response<UnaryBody> {
    match answer {
        Ok(data) => success(data),
        Err(status) => status.into_http(),
    }
}

pub(super) fn incomplete() -> Status {
    Status::new(Code::Internal, "Unexpected EOF decoding stream.")
}

pub(super) fn too_large(what: &str, length: usize, limit: usize) -> Status {
    reply::status(&Error::new(
        ErrorKind::TooLarge,
        format!(
            "Error, {what} message length too large: found {length} bytes, the limit is: {limit} \
             bytes; see --max_message_size"
        ),
    ))
}

/// Writes a message with its prefix into one buffer, which has the charge, as much of it as it takes.
pub(super) fn framed(
    message: &impl Message,
    limit: usize,
    mut charge: Charge,
) -> Result<Bytes, Status> {
    let length = PREFIX + message.encoded_len() + OVERHEAD;
    charge.grow(length).map_err(|error| reply::status(&error))?;
    let data = frame(message, limit)?;
    charge.shrink(length);
    Ok(charge.keep(data))
}

/// Writes a message with its prefix into one buffer.
fn frame(message: &impl Message, limit: usize) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    let prefix = u32::try_from(length)
        .ok()
        .filter(|_| length <= limit)
        .ok_or_else(|| too_large("encoded", length, limit))?;
    let mut buffer = BytesMut::with_capacity(PREFIX + length);
    buffer.put_u8(0);
    buffer.put_u32(prefix);
    message
        .encode(&mut buffer)
        .map_err(|error| Status::internal(error.to_string()))?;
    Ok(buffer.freeze())
}

pub(super) fn success(data: Bytes) -> Response<UnaryBody> {
    let mut response = Response::new(UnaryBody {
        data: Some(data),
        trailers: true,
    });
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    response
}

/// The body of an answer: the framed message, then trailers that say that all is well. An error is
/// in the headers and has no body (which gRPC calls "Trailers-Only").
#[derive(Debug, Default)]
pub struct UnaryBody {
    data: Option<Bytes>,
    trailers: bool,
}

impl Body for UnaryBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if std::mem::take(&mut self.trailers) {
            let mut trailers = HeaderMap::with_capacity(1);
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && !self.trailers
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}
