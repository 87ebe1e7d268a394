//! The calls over the shared connections.

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderMap;
use tonic::transport::Channel;

use super::{
    super::{
        connection::ClientOptions,
        error::{AnswerError, ClientError, RequestError},
        grpc::{Grpc, MESSAGE_LIMIT},
        message::{ClientResponse, ModelId, ModelMetadata, Request, TensorMetadata},
        protocol::{Call, Protocol, RawReply},
        status::{ModelStatus, ServerMetadata, VersionStatus, by_model},
    },
    Answers, Requests, message, stream,
};
use crate::proto::kserve::{
    ModelMetadataRequest, ModelReadyRequest, RepositoryIndexRequest, ServerMetadataRequest,
    ServerReadyRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
    model_metadata_response::TensorMetadata as TensorMessage,
};

const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Connections to one server.
#[derive(Debug)]
pub(in crate::client) struct Wire {
    grpc: Grpc,
}

impl Wire {
    pub(in crate::client) async fn connect(options: &ClientOptions) -> Result<Self, ClientError> {
        let grpc = Grpc::connect(options).await?;
        Ok(Self { grpc })
    }
}

#[async_trait]
impl Protocol for Wire {
    async fn server(&self) -> Result<Option<ServerMetadata>, ClientError> {
        let request = self.grpc.request(ServerMetadataRequest {});
        let answer = service(&self.grpc).server_metadata(request).await;
        let metadata = self.grpc.answer(answer)?;
        Ok(Some(ServerMetadata {
            name: metadata.name,
            version: metadata.version,
            is_ready: self.is_ready().await?,
        }))
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let request = self.grpc.request(ModelMetadataRequest {
            name: model.name.clone(),
            version: model.version.clone().unwrap_or_default(),
        });
        let answer = service(&self.grpc).model_metadata(request).await;
        let message = self.grpc.answer(answer)?;
        let tensors = |tensors: Vec<TensorMessage>| {
            tensors
                .into_iter()
                .map(|tensor| TensorMetadata::new(tensor.name, tensor.datatype, &tensor.shape))
                .collect()
        };
        Ok(ModelMetadata {
            name: message.name,
            versions: message.versions,
            platform: message.platform,
            inputs: tensors(message.inputs),
            outputs: tensors(message.outputs),
        })
    }

    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        index(&self.grpc).await
    }

    async fn model_ready(&self, model: &ModelId) -> Result<bool, ClientError> {
        let request = self.grpc.request(ModelReadyRequest {
            name: model.name.clone(),
            version: model.version.clone().unwrap_or_default(),
        });
        let answer = service(&self.grpc).model_ready(request).await;
        Ok(self.grpc.answer(answer)?.ready)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedCall {
            grpc: &self.grpc,
            body: message::request(request)?,
        }))
    }

    fn stream(&self) -> Option<(Requests, Answers<'_>)> {
        Some(stream::open(&self.grpc))
    }

    async fn is_ready(&self) -> Result<bool, ClientError> {
        let request = self.grpc.request(ServerReadyRequest {});
        let answer = service(&self.grpc).server_ready(request).await;
        Ok(self.grpc.answer(answer)?.ready)
    }
}

/// Asks for the list of models, an extension of the protocol that not every server has.
pub(in crate::client) async fn index(grpc: &Grpc) -> Result<Vec<ModelStatus>, ClientError> {
    let request = grpc.request(RepositoryIndexRequest::default());
    let message = grpc.answer(service(grpc).repository_index(request).await)?;
    Ok(by_model(message.models.into_iter().map(|entry| {
        let version = VersionStatus {
            version: entry.version,
            state: entry.state,
            code: None,
            message: entry.reason,
        };
        (entry.name, version)
    })))
}

pub(super) fn service(grpc: &Grpc) -> GrpcInferenceServiceClient<Channel> {
    GrpcInferenceServiceClient::new(grpc.channel())
        .max_decoding_message_size(MESSAGE_LIMIT)
        .max_encoding_message_size(MESSAGE_LIMIT)
}

/// An encoded inference.
#[derive(Debug)]
struct EncodedCall<'a> {
    grpc: &'a Grpc,
    /// The message with its frame, shared by all that are sent.
    body: Bytes,
}

#[async_trait]
impl Call for EncodedCall<'_> {
    async fn send(
        &self,
        lane: usize,
        headers: &HeaderMap,
    ) -> Result<Box<dyn RawReply>, ClientError> {
        let body = self.grpc.send(INFER, &self.body, lane, headers).await?;
        Ok(Box::new(Reply(body)))
    }
}

/// A response as it came.
#[derive(Debug)]
struct Reply(Bytes);

impl RawReply for Reply {
    fn decode(self: Box<Self>) -> Result<ClientResponse, AnswerError> {
        message::answer(self.0)
    }
}
