//! TensorFlow Serving over gRPC.
//!
//! `message` writes requests and reads answers.

mod message;

use async_trait::async_trait;
use prost::Message;
use tonic::Code as GrpcCode;

pub(super) use message::message;

use super::{
    error::{AnswerError, ClientError, RequestError, ServerError, ServerErrorCode},
    grpc::{EncodedMessage, Grpc, framed},
    kserve_grpc,
    message::{ClientResponse, ModelId, ModelMetadata, Request},
    protocol::{Call, Protocol, RawReply},
    status::ModelStatus,
    tfs::{self, Asked},
};
use crate::proto::tensorflow_serving::{
    GetModelMetadataRequest, GetModelMetadataResponse, GetModelStatusRequest, SignatureDefMap,
};

pub(super) const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";
pub(super) const METADATA: &str = "/tensorflow.serving.PredictionService/GetModelMetadata";
pub(super) const STATUS: &str = "/tensorflow.serving.ModelService/GetModelStatus";

/// Connections to one server.
#[derive(Debug)]
pub(super) struct TfsGrpc(pub(super) Grpc);

#[async_trait]
impl Protocol for TfsGrpc {
    /// The protocol has no such question; a server that speaks it knows of no model without a name.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        match self.model_status(&ModelId::default()).await {
            Err(ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(GrpcCode::NotFound | GrpcCode::InvalidArgument),
                ..
            })) => Ok(true),
            answer => answer.map(|_| true),
        }
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let request = metadata_request(model)?;
        let answer: GetModelMetadataResponse = self.0.ask(METADATA, &request).await?;
        let signatures = match answer.metadata.get(tfs::SIGNATURES) {
            Some(any) => SignatureDefMap::decode(&any.value[..]),
            None => Ok(SignatureDefMap::default()),
        };
        let signatures = signatures.map_err(AnswerError::decode);
        let metadata = signatures.and_then(|it| tfs::metadata(model, answer.model_spec, it));
        metadata.map_err(|source| self.0.unreadable(source))
    }

    /// The protocol has no list of models; a server that speaks KServe as well has one there.
    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        kserve_grpc::index(&self.0).await
    }

    fn lists_states(&self) -> bool {
        false
    }

    async fn model_status(&self, model: &ModelId) -> Result<Option<ModelStatus>, ClientError> {
        let message = self.0.ask(STATUS, &status_request(model)?).await?;
        Ok(Some(tfs::status(model.name.clone(), message)))
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedMessage {
            grpc: &self.0,
            path: PREDICT,
            body: framed(&message(request)?)?,
        }))
    }

    fn decode(&self, reply: RawReply, asked: &Asked) -> Result<ClientResponse, AnswerError> {
        message::answer(reply.bytes, asked)
    }
}

/// Makes the question for the inputs and outputs of a model.
pub(super) fn metadata_request(model: &ModelId) -> Result<GetModelMetadataRequest, RequestError> {
    Ok(GetModelMetadataRequest {
        model_spec: Some(message::spec(model)?),
        metadata_field: vec![tfs::SIGNATURES.to_owned()],
    })
}

/// Makes the question for the states of a model.
pub(super) fn status_request(model: &ModelId) -> Result<GetModelStatusRequest, RequestError> {
    Ok(GetModelStatusRequest {
        model_spec: Some(message::spec(model)?),
    })
}
