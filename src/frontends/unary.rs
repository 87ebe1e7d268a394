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
    access, body::BodyLimits, deadline, messages::Reader, received::Received, weight::Kind,
};
use crate::{
    budget::{Budget, Charge, OVERHEAD},
    engine::Engine,
    error::{self, Error, ErrorKind},
    frontends::idempotency::IdempotencyKey,
    sequence::Arrival,
    task,
};

/// An inference: a call with one message each way.
pub(super) trait Unary: 'static {
    /// The message that is received.
    type Request: Message + Default + 'static;
    /// The message that is answered.
    type Response: Message + 'static;

    /// The path of the call.
    const PATH: &str;

    /// Kind of message, for the memory that it takes when decoded.
    const KIND: Kind;

    /// Answers a request; `effort` is how much there is to unpack, in the bytes of
    /// [`task::sized`], `arrival` its place among the calls of its connection, `key` its idempotency key, `decoded` the charge of the
    /// message, and `budget` what it is unpacked to.
    fn run(
        engine: &Arc<Engine>,
        request: Self::Request,
        decoded: Charge,
        effort: usize,
        arrival: Arc<Arrival>,
        key: IdempotencyKey,
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
    engine: Arc<Engine>,
    intake: BodyLimits,
    request: Request<Received>,
    arrival: Arc<Arrival>,
) -> impl Future<Output = Response<UnaryBody>> + Send {
    let limit = deadline::of_headers(request.headers());
    let key = IdempotencyKey::of(request.headers());
    let reader = Reader::new(request, &intake);
    let answer = async move {
        let mut reader = reader?;
        let message = reader.only(name(C::PATH)).await?;
        let (charge, extensions) = reader.into_parts();
        arrival.received();
        let size = message.len();
        let weight = C::KIND.weight(&message);
        let decoded = intake.budget.charge(weight)?;
        // Raw contents are not looked at here; typed ones are read value by value.
        let decode = move || C::Request::decode(message);
        let request = task::sized("decode", size.max(weight) / RAW_SPEED, decode)
            .await
            // The framework's own words and code for the same error.
            .map_err(|error| Status::internal(error.to_string()))?;
        let seen = access::seen(&extensions, C::model(&request));
        let effort = size / RAW_SPEED;
        let budget = &intake.budget;
        let answer = C::run(&engine, request, decoded, effort, arrival, key, budget).await?;
        seen.version(|| C::version(&answer));
        let limit = intake.message_size;
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
    answer: impl FnOnce(Q) -> error::Result<A>,
) -> Response<UnaryBody>
where
    Q: Message + Default,
    A: Message,
{
    let limit = deadline::of_headers(request.headers());
    let uri = request.uri().clone();
    let intake = intake.with_message_size(intake.message_size.min(MAX_QUERY));
    let answer = async {
        let mut reader = Reader::new(request, &intake)?;
        let message = reader.only(name(uri.path())).await?;
        let (mut charge, _) = reader.into_parts();
        charge.add(message.len() * QUERY_WEIGHT)?;
        let message = Q::decode(message).map_err(|error| Status::internal(error.to_string()))?;
        framed(&answer(message)?, MAX_QUERY, charge)
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
    let text = format!(
        "Error, {what} message length too large: found {length} bytes, the limit is: {limit} bytes; \
         see --max_message_size"
    );
    Error::new(ErrorKind::TooLarge, text).into()
}

/// Writes a message with its prefix into one buffer, which has the charge, as much of it as it takes.
pub(super) fn framed(
    message: &impl Message,
    limit: usize,
    mut charge: Charge,
) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    let held = PREFIX + length + OVERHEAD;
    charge.grow(held)?;
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
    charge.shrink(held);
    Ok(charge.keep(buffer.freeze()))
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
