//! KServe v2 over gRPC.
//!
//! `message` writes requests and reads answers, `stream` has many of both.

mod message;
mod stream;

use async_trait::async_trait;

pub(super) use message::message;
pub use stream::{RequestSender, ResponseReceiver, StreamAnswer, StreamEvent};

use super::{
    error::{AnswerError, ClientError, RequestError},
    grpc::{EncodedMessage, Grpc, framed},
    message::{ClientResponse, ModelId, ModelMetadata, Request, TensorMetadata},
    protocol::{Call, Protocol, RawReply},
    status::{ModelStatus, ServerMetadata, VersionStatus, by_model},
    tfs::Asked,
};
use crate::proto::kserve::{
    ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
    RepositoryIndexRequest, RepositoryIndexResponse, ServerMetadataRequest, ServerMetadataResponse,
    ServerReadyRequest, ServerReadyResponse,
    model_metadata_response::TensorMetadata as TensorMessage,
    repository_index_response::ModelIndex,
};

pub(super) const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
pub(super) const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
pub(super) const METADATA: &str = "/inference.GRPCInferenceService/ModelMetadata";
pub(super) const INDEX: &str = "/inference.GRPCInferenceService/RepositoryIndex";
const MODEL_READY: &str = "/inference.GRPCInferenceService/ModelReady";
const SERVER: &str = "/inference.GRPCInferenceService/ServerMetadata";
const SERVER_READY: &str = "/inference.GRPCInferenceService/ServerReady";

/// Connections to one server.
#[derive(Debug)]
pub(super) struct KserveGrpc(pub(super) Grpc);

#[async_trait]
impl Protocol for KserveGrpc {
    async fn is_ready(&self) -> Result<bool, ClientError> {
        let request = ServerReadyRequest {};
        let answer: ServerReadyResponse = self.0.ask(SERVER_READY, &request).await?;
        Ok(answer.ready)
    }

    async fn server(&self) -> Result<Option<ServerMetadata>, ClientError> {
        let message = self.0.ask(SERVER, &ServerMetadataRequest {}).await?;
        Ok(Some(server(message, self.is_ready().await?)))
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let message = self.0.ask(METADATA, &metadata_request(model)).await?;
        Ok(metadata(message))
    }

    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        index(&self.0).await
    }

    async fn model_ready(&self, model: &ModelId) -> Result<bool, ClientError> {
        let request = ModelReadyRequest {
            name: model.name.clone(),
            version: model.version.clone().unwrap_or_default(),
        };
        let answer: ModelReadyResponse = self.0.ask(MODEL_READY, &request).await?;
        Ok(answer.ready)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedMessage {
            grpc: &self.0,
            path: INFER,
            body: framed(&message(request)?)?,
        }))
    }

    fn decode(&self, reply: RawReply, _: &Asked) -> Result<ClientResponse, AnswerError> {
        message::answer(reply.bytes)
    }

    fn stream(&self) -> Option<(RequestSender, ResponseReceiver<'_>)> {
        Some(stream::open(&self.0))
    }
}

/// Makes the question for the inputs and outputs of a model.
pub(super) fn metadata_request(model: &ModelId) -> ModelMetadataRequest {
    ModelMetadataRequest {
        name: model.name.clone(),
        version: model.version.clone().unwrap_or_default(),
    }
}

/// Asks for the list of models, an extension of the protocol that not every server has.
pub(super) async fn index(grpc: &Grpc) -> Result<Vec<ModelStatus>, ClientError> {
    let request = RepositoryIndexRequest::default();
    let message: RepositoryIndexResponse = grpc.ask(INDEX, &request).await?;
    Ok(states(message.models))
}

/// Reads a server's metadata.
pub(super) fn server(message: ServerMetadataResponse, is_ready: bool) -> ServerMetadata {
    ServerMetadata {
        name: message.name,
        version: message.version,
        is_ready,
    }
}

/// Reads the inputs and outputs of a model.
pub(super) fn metadata(message: ModelMetadataResponse) -> ModelMetadata {
    let tensors = |tensors: Vec<TensorMessage>| {
        tensors
            .into_iter()
            .map(|tensor| TensorMetadata::new(tensor.name, tensor.datatype, &tensor.shape))
            .collect()
    };
    ModelMetadata {
        name: message.name,
        versions: message.versions,
        platform: message.platform,
        inputs: tensors(message.inputs),
        outputs: tensors(message.outputs),
    }
}

/// Reads the states of models.
pub(super) fn states(entries: Vec<ModelIndex>) -> Vec<ModelStatus> {
    by_model(entries.into_iter().map(|entry| {
        let version = VersionStatus {
            version: entry.version,
            state: entry.state,
            code: None,
            message: entry.reason,
        };
        (entry.name, version)
    }))
}
