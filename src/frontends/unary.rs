//! Inference over gRPC without the detours that a general framework has to take.
//!
//! Nearly all calls are inference, so it has a path of its own in either protocol: the message is decoded from the
//! bytes as they were received, without gathering them in another buffer first, and the answer is
//! one piece of data and the trailers. Everything out of the ordinary (compressed messages, other
//! methods) takes the general path. The framing is that of "gRPC over HTTP/2": a byte that says
//! whether the message is compressed, its length in four bytes, big endian, and the message.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::http::{Extensions, HeaderMap, HeaderValue, Request, Response, header};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use prost::Message;
use tonic::{Code, Status};

use super::{access, body::Paced, deadline, intake::Intake, reply};
use crate::{
    error::{self, Error, ErrorKind},
    sequence::Arrival,
    task,
};

/// A call with one message each way.
pub(super) trait Unary: Clone + Send + Sync + 'static {
    /// The message that is received.
    type Request: Message + Default + 'static;
    /// The message that is answered.
    type Response: Message + 'static;

    /// The path of the call.
    const PATH: &str;

    /// Answers a request; `effort` is how much there is to unpack, in the bytes of
    /// [`task::sized`], and `arrival` its place among the calls of its connection.
    fn run(
        &self,
        request: Self::Request,
        effort: usize,
        arrival: Arc<Arrival>,
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

/// The most that is set aside on the word of a message's length alone.
pub(super) const MOST_AHEAD: usize = 1 << 24;

/// Tells whether a request is this call, in whatever form.
pub(super) fn is<C: Unary>(request: &Request<Incoming>) -> bool {
    request.uri().path() == C::PATH
}

/// Tells whether a request is this call and can take this path: messages as they are, not
/// compressed.
pub(super) fn takes<C: Unary>(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let plain = headers
        .get("grpc-encoding")
        .is_none_or(|encoding| encoding == "identity");
    let grpc = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    is::<C>(request) && plain && grpc && request.method() == axum::http::Method::POST
}

/// Answers a call.
pub(super) fn call<C: Unary>(
    service: C,
    intake: Intake,
    request: Request<Incoming>,
    arrival: Arc<Arrival>,
) -> impl Future<Output = Response<UnaryBody>> + Send {
    let (parts, body) = request.into_parts();
    let limit = deadline::of_headers(&parts.headers);
    let extensions = parts.extensions;
    let answer = async move {
        let message = receive::<C>(body, &extensions, &intake).await?;
        arrival.received();
        let size = message.len();
        // Raw contents are not looked at here; typed ones are read value by value.
        let decode = move || C::Request::decode(message);
        let request = task::sized("decode", size / RAW_SPEED, decode)
            .await
            // The framework's own words and code for the same fault.
            .map_err(|error| Status::internal(error.to_string()))?;
        let seen = access::seen(&extensions, C::model(&request));
        let answer = service
            .run(request, size / RAW_SPEED, arrival)
            .await
            .map_err(|error| reply::status(&error))?;
        seen.version(|| C::version(&answer));
        let limit = intake.message_size();
        task::sized("encode", C::size(&answer) / RAW_SPEED, move || {
            frame(&answer, limit)
        })
        .await
    };
    deadline::within(limit, answer).map(|answer| match answer {
        Ok(data) => success(data),
        Err(status) => status.into_http(),
    })
}

/// Receives one message.
async fn receive<C: Unary>(
    body: Incoming,
    extensions: &Extensions,
    intake: &Intake,
) -> Result<Bytes, Status> {
    let mut hold = intake.hold();
    let mut body = Paced::new(body, intake, extensions);
    let mut first = Bytes::new();
    // A message in one piece, which most are, is not copied.
    while first.len() < PREFIX {
        let Some(piece) = next(&mut body).await? else {
            return Err(incomplete());
        };
        if first.is_empty() {
            first = piece;
        } else {
            first = [first, piece].concat().into();
        }
    }
    if first.get_u8() != 0 {
        return Err(Status::internal(
            "protocol error: received message with compressed-flag but no grpc-encoding was \
             specified",
        ));
    }
    let length = first.get_u32() as usize;
    if length > intake.message_size() {
        return Err(too_large("decoded", length, intake.message_size()));
    }
    let mut count = |bytes| hold.grow(bytes).map_err(|error| reply::status(&error));
    if first.len() >= length {
        count(length)?;
        let message = first.split_to(length);
        ended::<C>(body, first).await?;
        return Ok(hold.keep(message));
    }
    let mut message = BytesMut::with_capacity(length.min(MOST_AHEAD));
    message.extend_from_slice(&first);
    while message.len() < length {
        let Some(piece) = next(&mut body).await? else {
            return Err(incomplete());
        };
        let missing = length - message.len();
        count(message.len() + piece.len().min(missing))?;
        message.extend_from_slice(&piece[..piece.len().min(missing)]);
        if piece.len() > missing {
            return Err(second::<C>());
        }
    }
    ended::<C>(body, Bytes::new()).await?;
    Ok(hold.keep(message.freeze()))
}

/// Sees to it that nothing follows the message.
async fn ended<C: Unary>(mut body: Paced<Incoming>, rest: Bytes) -> Result<(), Status> {
    if !rest.is_empty() {
        return Err(second::<C>());
    }
    // Known without asking in nearly all cases.
    while !body.is_end_stream() {
        match next(&mut body).await? {
            None => break,
            Some(piece) if piece.is_empty() => {}
            Some(_) => return Err(second::<C>()),
        }
    }
    Ok(())
}

async fn next(body: &mut Paced<Incoming>) -> Result<Option<Bytes>, Status> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| reply::status(&error))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

pub(super) fn incomplete() -> Status {
    Status::new(Code::Internal, "Unexpected EOF decoding stream.")
}

fn second<C: Unary>() -> Status {
    let name = C::PATH.rsplit('/').next().unwrap_or_default();
    Status::new(
        Code::Internal,
        format!("a call of {name} takes one message, and another one followed"),
    )
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

/// Writes a message with its prefix into one buffer.
pub(super) fn frame(message: &impl Message, limit: usize) -> Result<Bytes, Status> {
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

/// The body of an answer: the framed message, then trailers that say that all is well. A fault is
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
