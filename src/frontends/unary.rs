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
use hyper::body::{Body, Frame, SizeHint};
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint},
};
use tonic::Status;

use super::{
    access,
    body::BodyLimits,
    deadline,
    expand::MAX_QUERY,
    guard::Access,
    messages::{PREFIX, Reader, too_large},
    priority,
    received::Received,
    weight::Kind,
};
use crate::{
    budget::{Budget, Charge, OVERHEAD},
    error,
    frontends::idempotency::IdempotencyKey,
    quota::Priority,
    sequence::Arrival,
    task,
    trace::TraceContext,
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
    /// [`task::sized`], `context` what came beside the message, `decoded` the charge of the
    /// message, and `budget` what it is unpacked to.
    fn run(
        engine: &Access,
        request: Self::Request,
        decoded: Charge,
        effort: usize,
        context: CallContext,
        budget: &Budget,
    ) -> impl Future<Output = error::Result<Self::Response>> + Send;

    /// Returns about how many bytes an answer has.
    fn size(answer: &Self::Response) -> usize;

    /// Takes contents out of an answer that are large, and as they stand are those of its last field.
    fn take_large(_: &mut Self::Response) -> LastField {
        LastField::default()
    }

    /// Returns the name that a request is for, for the access log.
    fn model(_: &Self::Request) -> Option<&str> {
        None
    }

    /// Returns the version that has answered, for the access log.
    fn version(_: &Self::Response) -> Option<i64> {
        None
    }
}

/// Context of a request, beside its message.
pub(super) struct CallContext {
    /// Its place among the calls of its connection.
    pub(super) arrival: Arc<Arrival>,
    /// Its idempotency key.
    pub(super) key: IdempotencyKey,
    /// Parent context of its spans, if it is traced.
    pub(super) trace: Option<TraceContext>,
    /// Its priority, if the transport has one.
    pub(super) priority: Option<Priority>,
}

/// Values of the last field of a message, which are sent behind it and not copied.
#[derive(Default)]
pub(super) struct LastField {
    pub(super) tag: u32,
    pub(super) contents: Vec<Bytes>,
}

/// Bytes from which on contents are not copied into the buffer of their message: from there on a copy takes longer than a
/// frame of their own.
pub(super) const LARGE: usize = 64 << 10;

/// Estimated speed of reading and writing messages, as a multiple of that for the text that
/// [`task::sized`] reckons with.
pub(super) const RAW_SPEED: usize = 16;

/// Maximum size of a message that is read for the audit log alone.
const MAX_REFUSED: usize = 64 << 10;

/// Maximum memory of such a message, as a multiple of its bytes: an empty name of a list is two bytes, and has
/// 24 in a list that has just doubled its room.
pub(super) const MAX_QUERY_WEIGHT: usize = 24;

/// Answers an inference.
pub(super) fn call<C: Unary>(
    engine: Access,
    limits: BodyLimits,
    request: Request<Received>,
    arrival: Arc<Arrival>,
) -> impl Future<Output = Result<UnaryBody, Status>> + Send {
    let limit = deadline::of_headers(request.headers());
    let key = IdempotencyKey::of(request.headers());
    let priority = priority::of_headers(request.headers());
    let reader = Reader::new(request, &limits);
    let answer = async move {
        let mut reader = reader?;
        let message = reader.only(C::PATH).await?;
        let (charge, extensions) = reader.into_parts();
        arrival.received();
        let size = message.len();
        let weight = C::KIND.weight(&message);
        let decoded = limits.budget.charge(weight)?;
        // Raw contents are not looked at here; typed ones are read value by value.
        let decode = move || C::Request::decode(message);
        let request = task::sized("decode", size.max(weight) / RAW_SPEED, decode)
            .await
            // The framework's own words and code for the same error.
            .map_err(|error| Status::internal(error.to_string()))?;
        let seen = access::seen(&extensions, C::model(&request));
        let effort = size / RAW_SPEED;
        let budget = &limits.budget;
        let context = CallContext {
            arrival,
            key,
            trace: seen.trace(),
            priority,
        };
        let mut answer = C::run(&engine, request, decoded, effort, context, budget).await?;
        seen.version(|| C::version(&answer));
        let limit = limits.message_size;
        let large = C::take_large(&mut answer);
        let size = C::size(&answer);
        task::sized("encode", size / RAW_SPEED, move || {
            UnaryBody::new(&answer, large, limit, charge)
        })
        .await
    };
    deadline::within(limit, answer)
}

/// Answers a call whose message is small, and whose answer is known at once.
pub(super) async fn query<Q, A>(
    limits: BodyLimits,
    request: Request<Received>,
    answer: impl FnOnce(Q) -> error::Result<A>,
) -> Response<UnaryBody>
where
    Q: Message + Default,
    A: Message,
{
    let limit = deadline::of_headers(request.headers());
    let uri = request.uri().clone();
    let limits = limits.of_query();
    let answer = async {
        let mut reader = Reader::new(request, &limits)?;
        let message = reader.only(uri.path()).await?;
        let (mut charge, _) = reader.into_parts();
        charge.add(message.len() * MAX_QUERY_WEIGHT)?;
        let message = Q::decode(message).map_err(|error| Status::internal(error.to_string()))?;
        UnaryBody::new(&answer(message)?, LastField::default(), MAX_QUERY, charge)
    };
    response(deadline::within(limit, answer).await)
}

/// Reads the message of a call that is refused whatever it says; `None` if it is no such message, too large, or not
/// sent in time.
pub(super) async fn refused_message<Q>(limits: BodyLimits, request: Request<Received>) -> Option<Q>
where
    Q: Message + Default,
{
    let limit = deadline::of_headers(request.headers());
    let limits = limits.with_message_size(limits.message_size.min(MAX_REFUSED));
    let message = async {
        let uri = request.uri().clone();
        let mut reader = Reader::new(request, &limits)?;
        let message = reader.only(uri.path()).await?;
        Q::decode(message).map_err(|error| Status::internal(error.to_string()))
    };
    deadline::within(limit, message).await.ok()
}

/// Makes the answer of a call, good or not.
pub(super) fn response(answer: Result<UnaryBody, Status>) -> Response<UnaryBody> {
    match answer {
        Ok(body) => success(body),
        Err(status) => status.into_http(),
    }
}

/// Writes a message with its prefix into one buffer, which has the charge, as much of it as it takes.
pub(super) fn framed(
    message: &impl Message,
    limit: usize,
    mut charge: Charge,
) -> Result<Bytes, Status> {
    let buffer = begun(message, 0, limit, &mut charge)?;
    Ok(charge.keep(buffer.freeze()))
}

/// Writes the beginning of a message with its prefix, behind which so many more bytes are sent, and charges them.
fn begun(
    message: &impl Message,
    more: usize,
    limit: usize,
    charge: &mut Charge,
) -> Result<BytesMut, Status> {
    let own = message.encoded_len();
    let length = own + more;
    let held = PREFIX + length + OVERHEAD;
    charge.grow(held)?;
    let prefix = u32::try_from(length)
        .ok()
        .filter(|_| length <= limit)
        .ok_or_else(|| too_large("encoded", length, limit))?;
    let mut buffer = BytesMut::with_capacity(PREFIX + own);
    buffer.put_u8(0);
    buffer.put_u32(prefix);
    message
        .encode(&mut buffer)
        .map_err(|error| Status::internal(error.to_string()))?;
    charge.shrink(held);
    Ok(buffer)
}

pub(super) fn success(body: UnaryBody) -> Response<UnaryBody> {
    let mut response = Response::new(body);
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
    /// The parts that follow it.
    rest: std::vec::IntoIter<Bytes>,
    trailers: bool,
}

impl UnaryBody {
    /// Makes the body of bytes that are a message with its prefix.
    pub(super) fn of(data: Bytes) -> Self {
        Self {
            data: Some(data),
            trailers: true,
            ..Self::default()
        }
    }

    /// Writes a message with its prefix, and what was taken out of it behind that. What is sent last has the charge.
    fn new(
        message: &impl Message,
        last: LastField,
        limit: usize,
        mut charge: Charge,
    ) -> Result<Self, Status> {
        if last.contents.is_empty() {
            return framed(message, limit, charge).map(Self::of);
        }
        let mut keys = BytesMut::new();
        let mut pieces = Vec::with_capacity(2 * last.contents.len());
        for contents in last.contents {
            encode_key(last.tag, WireType::LengthDelimited, &mut keys);
            encode_varint(contents.len() as u64, &mut keys);
            pieces.push(keys.split().freeze());
            // A body has no pieces without a byte.
            pieces.extend(Some(contents).filter(|contents| !contents.is_empty()));
        }
        let more = pieces.iter().map(Bytes::len).sum();
        let mut data = begun(message, more, limit, &mut charge)?;
        data.extend_from_slice(&std::mem::take(&mut pieces[0]));
        if let Some(end) = pieces.last_mut() {
            *end = charge.keep(std::mem::take(end));
        }
        let mut rest = pieces.into_iter();
        rest.next();
        Ok(Self {
            rest,
            ..Self::of(data.freeze())
        })
    }
}

impl Body for UnaryBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(data) = self.data.take().or_else(|| self.rest.next()) {
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
        let pieces = self.data.iter().chain(self.rest.as_slice());
        SizeHint::with_exact(pieces.map(|piece| piece.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::{LastField, Unary as _, UnaryBody, framed};
    use crate::{
        budget::Budget,
        frontends::kserve::grpc::ModelInfer,
        proto::kserve::{ModelInferResponse, model_infer_response::InferOutputTensor},
    };

    fn answer(sizes: &[usize]) -> ModelInferResponse {
        let contents = (1..)
            .zip(sizes)
            .map(|(byte, size)| vec![byte; *size].into());
        let output = |_: &usize| InferOutputTensor {
            name: "out".to_owned(),
            ..InferOutputTensor::default()
        };
        ModelInferResponse {
            model_name: "model".to_owned(),
            outputs: sizes.iter().map(output).collect(),
            raw_output_contents: contents.collect(),
            ..ModelInferResponse::default()
        }
    }

    fn pieces(mut body: UnaryBody) -> Vec<Bytes> {
        let next = || body.frame().now_or_never().unwrap();
        let frames = std::iter::from_fn(next).filter_map(|frame| frame.unwrap().into_data().ok());
        frames.collect()
    }

    #[test]
    fn large_contents_are_sent_as_they_are() {
        let budget = Budget::new(1 << 20);
        for (sizes, count) in [
            (&[10, 0][..], 1),
            (&[100_000], 2),
            (&[100_000, 0, 3, 70_000], 7),
            (&[100_000, 0], 3),
        ] {
            let mut answer = answer(sizes);
            let whole = framed(&answer, 1 << 20, budget.empty()).unwrap().to_vec();
            assert_eq!(budget.charged(), 0);
            let first = answer.raw_output_contents[0].as_ptr();
            let large = ModelInfer::take_large(&mut answer);
            let body = UnaryBody::new(&answer, large, 1 << 20, budget.empty()).unwrap();
            assert!(budget.charged() > whole.len());
            let mut sent = pieces(body);
            assert_eq!(sent.concat(), whole, "{sizes:?}");
            assert_eq!(sent.len(), count, "{sizes:?}");
            assert!(count == 1 || sent[1].as_ptr() == first, "{sizes:?}");
            let last = sent.pop();
            drop(sent);
            assert!(budget.charged() > whole.len(), "the last has the charge");
            drop(last);
            assert_eq!(budget.charged(), 0);
        }
    }

    #[test]
    fn large_contents_count_for_the_limits() {
        let mut answer = answer(&[100_000]);
        let large = ModelInfer::take_large(&mut answer);
        let contents = large.contents.clone();
        let refused = UnaryBody::new(&answer, large, 100_000, Budget::default().empty());
        let text = refused.unwrap_err().message().to_owned();
        assert!(text.contains("the limit is: 100000 bytes"), "{text}");
        let large = LastField { tag: 6, contents };
        let budget = Budget::new(100_000);
        assert!(UnaryBody::new(&answer, large, 1 << 20, budget.empty()).is_err());
        assert_eq!(budget.charged(), 0);
    }
}
