//! The connections, and the calls over them.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body_util::Full;
use tonic::{
    Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::{self, uri::PathAndQuery},
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};
use tower::Service;

use super::{
    super::{
        Address, ClientError, Code, ModelId, ModelMetadata, Options, Refusal, Request,
        RequestError, TensorMetadata,
    },
    message,
};
use crate::proto::kserve::{
    ModelMetadataRequest, RepositoryIndexRequest, ServerReadyRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    model_metadata_response::TensorMetadata as TensorMessage,
};

/// The largest message, both ways; servers have the same limit.
const MESSAGE_LIMIT: usize = 1 << 30;

/// How much a server may send before we say that we have read it. The protocol's own default of
/// 64 KiB makes it wait in the middle of every tensor.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// How many calls share a connection. One connection is one task at both ends.
const CALLS_PER_CONNECTION: usize = 16;

const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Connections to one server.
#[derive(Debug)]
pub(in crate::client) struct Wire {
    address: Address,
    /// One at least.
    channels: Vec<Channel>,
    headers: MetadataMap,
}

impl Wire {
    pub(in crate::client) async fn connect(options: &Options) -> Result<Self, ClientError> {
        let unreachable = |source: tonic::transport::Error| ClientError::Unreachable {
            address: options.address.clone(),
            source: source.into(),
        };
        let endpoint = Endpoint::from_shared(options.address.url())
            .and_then(|endpoint| endpoint.user_agent(concat!("ovms/", env!("CARGO_PKG_VERSION"))))
            .map_err(unreachable)?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let mut channels = Vec::new();
        for _ in 0..options.concurrency.div_ceil(CALLS_PER_CONNECTION).max(1) {
            channels.push(endpoint.connect().await.map_err(unreachable)?);
        }
        Ok(Self {
            address: options.address.clone(),
            channels,
            headers: MetadataMap::from_headers(options.headers.clone()),
        })
    }

    pub(in crate::client) async fn server_ready(&self) -> Result<bool, ClientError> {
        let answer = self
            .client()
            .server_ready(self.request(ServerReadyRequest {}))
            .await;
        Ok(answer
            .map_err(|status| self.failure(status))?
            .into_inner()
            .ready)
    }

    pub(in crate::client) async fn model_metadata(
        &self,
        model: &ModelId,
    ) -> Result<ModelMetadata, ClientError> {
        let request = self.request(ModelMetadataRequest {
            name: model.name.clone(),
            version: model.version.clone().unwrap_or_default(),
        });
        let answer = self.client().model_metadata(request).await;
        let message = answer.map_err(|status| self.failure(status))?.into_inner();
        let tensors = |tensors: Vec<TensorMessage>| {
            tensors
                .into_iter()
                .map(|tensor| TensorMetadata::new(tensor.name, tensor.datatype, &tensor.shape))
                .collect()
        };
        Ok(ModelMetadata {
            name: message.name,
            versions: message.versions,
            inputs: tensors(message.inputs),
            outputs: tensors(message.outputs),
        })
    }

    pub(in crate::client) async fn model_names(&self) -> Result<Vec<String>, ClientError> {
        let request = self.request(RepositoryIndexRequest::default());
        let answer = self.client().repository_index(request).await;
        let message = answer.map_err(|status| self.failure(status))?.into_inner();
        let mut names: Vec<_> = message.models.into_iter().map(|model| model.name).collect();
        names.dedup();
        Ok(names)
    }

    pub(in crate::client) fn call(&self, request: &Request) -> Result<Call<'_>, RequestError> {
        Ok(Call {
            wire: self,
            body: message::request(request)?,
        })
    }

    fn client(&self) -> GrpcInferenceServiceClient<Channel> {
        GrpcInferenceServiceClient::new(self.channels[0].clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
    }

    fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        *request.metadata_mut() = self.headers.clone();
        request
    }

    /// Tells the server's errors from those of the connection.
    fn failure(&self, status: Status) -> ClientError {
        let address = self.address.clone();
        // A status that came over the wire has no source.
        if std::error::Error::source(&status).is_some() {
            let source = status.into();
            return ClientError::Unreachable { address, source };
        }
        ClientError::Refused(Refusal {
            code: Code::Grpc(status.code()),
            message: status.message().to_owned(),
        })
    }
}

/// An encoded inference.
#[derive(Debug)]
pub(in crate::client) struct Call<'a> {
    wire: &'a Wire,
    /// The message with its frame: the body of the HTTP request, shared by all that are sent.
    body: Bytes,
}

impl Call<'_> {
    pub(in crate::client) async fn send(&self, lane: usize) -> Result<Bytes, ClientError> {
        let channels = &self.wire.channels;
        let sender = Sender {
            channel: channels[lane % channels.len()].clone(),
            body: self.body.clone(),
        };
        let mut grpc = tonic::client::Grpc::new(sender).max_decoding_message_size(MESSAGE_LIMIT);
        // Waits until the channel has room; a broken connection is made anew here.
        if let Err(error) = grpc.ready().await {
            return Err(ClientError::Unreachable {
                address: self.wire.address.clone(),
                source: error.into(),
            });
        }
        let path = PathAndQuery::from_static(INFER);
        match grpc.unary(self.wire.request(()), path, Undecoded).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(self.wire.failure(status)),
        }
    }
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
