//! Common parts of the gRPC wires: connections, headers, errors, and calls that are encoded once and sent
//! many times.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use futures::TryFutureExt as _;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use prost::Message;
use reqwest::header::HeaderMap;
use tokio::net::UnixStream;
use tonic::{
    Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::{self, Uri, uri::PathAndQuery},
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};
use tower::{Service, service_fn};

use super::{
    address::Address,
    call::{Call, CallParts, RawReply},
    closed::was_closed,
    connector,
    error::{AnswerError, BoxError, ClientError, RequestError, ServerError, ServerErrorCode},
    options::ClientOptions,
};

/// The largest message, both ways; servers have the same limit.
pub(super) const MAX_MESSAGE: usize = 1 << 30;

/// Length of the prefix of a message in the body of an HTTP request: no compression, and the length.
pub(super) const FRAME: usize = 1 + size_of::<u32>();

/// Flow-control window: bytes that a server may send before we acknowledge them. The protocol's own default of
/// 64 KiB makes it wait in the middle of every tensor.
pub(super) const STREAM_WINDOW: u32 = 16 << 20;
pub(super) const CONNECTION_WINDOW: u32 = 64 << 20;

/// Beginning of the text of an error for an answer over HTTP that has no status of gRPC.
const NO_STATUS: &str = "grpc-status header missing";

/// Number of calls that share a connection. One connection is one task at both ends.
pub(super) const CALLS_PER_CONNECTION: usize = 16;

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Grpc {
    address: Address,
    /// One at least.
    channels: Vec<Channel>,
    headers: MetadataMap,
}

impl Grpc {
    pub(super) async fn connect(options: &ClientOptions) -> Result<Self, ClientError> {
        let unreachable = |source: BoxError| ClientError::Unreachable {
            address: options.address.clone(),
            source,
        };
        // What happens to it is up to the connector.
        let url = format!("http://{}", options.address.authority());
        let endpoint = Endpoint::from_shared(url)
            .and_then(|endpoint| endpoint.user_agent(concat!("ovms/", env!("CARGO_PKG_VERSION"))))
            .map_err(|error| unreachable(error.into()))?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let tls = options.tls().map_err(|error| unreachable(error.into()))?;
        let mut channels = Vec::new();
        for _ in 0..options.concurrency.div_ceil(CALLS_PER_CONNECTION).max(1) {
            let channel = match (options.address.unix_socket(), &tls) {
                (Some(path), _) => {
                    let path = path.to_owned();
                    let connect =
                        move |_: Uri| UnixStream::connect(path.clone()).map_ok(TokioIo::new);
                    endpoint.connect_with_connector(service_fn(connect)).await
                }
                (None, Some(tls)) => {
                    let config = Arc::new(tls.config(connector::GRPC));
                    let address = options.address.clone();
                    let connect = move |_: Uri| {
                        let stream = connector::connect(address.clone(), Arc::clone(&config));
                        stream.map_ok(TokioIo::new)
                    };
                    let origin = options.address.url().parse::<Uri>();
                    let origin = origin.map_err(|error| unreachable(error.into()))?;
                    let endpoint = endpoint.clone().origin(origin);
                    endpoint.connect_with_connector(service_fn(connect)).await
                }
                (None, None) => endpoint.connect().await,
            };
            channels.push(channel.map_err(|error| unreachable(error.into()))?);
        }
        Ok(Self {
            address: options.address.clone(),
            channels,
            headers: MetadataMap::from_headers(options.headers.clone()),
        })
    }

    /// Returns the connection for calls that are not counted.
    pub(super) fn channel(&self) -> Channel {
        self.channels[0].clone()
    }

    pub(super) fn unreadable(&self, source: AnswerError) -> ClientError {
        ClientError::Protocol {
            address: self.address.clone(),
            source,
        }
    }

    pub(super) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        *request.metadata_mut() = self.headers.clone();
        request
    }

    /// Sends a message and reads the answer.
    pub(super) async fn ask<T: Message + Default>(
        &self,
        path: &'static str,
        message: &impl Message,
    ) -> Result<T, ClientError> {
        let body = framed(message)?;
        let answer = self.send(path, &body, 0, &HeaderMap::new()).await?;
        T::decode(answer).map_err(|error| self.unreadable(AnswerError::decode(error)))
    }

    /// Sends a message that is encoded with its frame; the answer is not decoded.
    ///
    /// `headers` are those of this call alone.
    async fn send(
        &self,
        path: &'static str,
        body: &Bytes,
        lane: usize,
        headers: &HeaderMap,
    ) -> Result<Bytes, ClientError> {
        let sender = Sender {
            channel: self.channels[lane % self.channels.len()].clone(),
            body: body.clone(),
        };
        let mut grpc = tonic::client::Grpc::new(sender).max_decoding_message_size(MAX_MESSAGE);
        // Waits until the channel has room; a broken connection is made anew here.
        if let Err(error) = grpc.ready().await {
            return Err(ClientError::Unreachable {
                address: self.address.clone(),
                source: error.into(),
            });
        }
        let path = PathAndQuery::from_static(path);
        let mut request = self.request(());
        request.metadata_mut().as_mut().extend(headers.clone());
        match grpc.unary(request, path, Undecoded).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(self.failure(status)),
        }
    }

    /// Distinguishes the server's errors from those of the connection.
    pub(super) fn failure(&self, status: Status) -> ClientError {
        // A status that came over the wire has no source.
        if let Some(was_closed) = status.source().map(was_closed) {
            let (address, source) = (self.address.clone(), BrokenCall(status).into());
            return match was_closed {
                true => ClientError::Closed { address, source },
                false => ClientError::Unreachable { address, source },
            };
        }
        ClientError::Refused(ServerError {
            code: ServerErrorCode::Grpc(status.code()),
            message: status.message().to_owned(),
            // As tonic says it of an answer that is none of gRPC.
            is_foreign: status.message().starts_with(NO_STATUS),
        })
    }
}

/// Status of a call whose connection broke, in the words of its source: its own has the source as `Debug` writes
/// it.
#[derive(Debug)]
struct BrokenCall(Status);

impl fmt::Display for BrokenCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(source) => fmt::Display::fmt(source, f),
            None => f.write_str(self.0.message()),
        }
    }
}

impl Error for BrokenCall {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()?.source()
    }
}

/// Encoded inference over gRPC.
#[derive(Debug)]
pub(super) struct EncodedMessage<'a> {
    pub(super) grpc: &'a Grpc,
    pub(super) path: &'static str,
    /// The message with its frame, shared by all that are sent.
    pub(super) body: Bytes,
}

#[async_trait]
impl Call for EncodedMessage<'_> {
    async fn send(&self, lane: usize, headers: &HeaderMap) -> Result<RawReply, ClientError> {
        let sent = self.grpc.send(self.path, &self.body, lane, headers);
        Ok(RawReply {
            bytes: sent.await?,
            headers: HeaderMap::new(),
        })
    }

    fn parts(&self) -> CallParts {
        CallParts {
            path: self.path.to_owned(),
            headers: HeaderMap::new(),
            body: self.body.clone(),
        }
    }
}

/// Encodes a message with its frame: the body of an HTTP request.
pub(super) fn framed(message: &impl Message) -> Result<Bytes, RequestError> {
    let length = message.encoded_len();
    let mut body = Vec::with_capacity(FRAME + length);
    body.push(0);
    body.extend(
        u32::try_from(length)
            .map_err(|_| RequestError::Size)?
            .to_be_bytes(),
    );
    message.encode_raw(&mut body);
    Ok(body.into())
}

/// Sends a body that is encoded already in place of the one that tonic would encode, so that a
/// large tensor is not copied for each request.
#[derive(Debug, Clone)]
struct Sender {
    channel: Channel,
    body: Bytes,
}

impl Service<http::Request<Body>> for Sender {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let body = Body::new(Full::new(self.body.clone()));
        self.channel.call(request.map(|_| body))
    }
}

/// Leaves messages as they are: requests are encoded before, answers are decoded later.
#[derive(Debug, Clone, Copy)]
struct Undecoded;

impl Codec for Undecoded {
    type Encode = ();
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Undecoded {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for Undecoded {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
