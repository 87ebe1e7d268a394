//! The calls over the shared connections.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;
use reqwest::header::HeaderMap;
use tonic::Code as GrpcCode;

use super::{
    super::{
        connection::ClientOptions,
        error::{AnswerError, ClientError, RequestError, ServerError, ServerErrorCode},
        grpc::{Grpc, MESSAGE_LIMIT},
        kserve_grpc,
        message::{ClientResponse, ModelId, ModelMetadata, Request, TensorMetadata},
        protocol::{Call, Protocol, RawReply},
        status::{ModelStatus, VersionStatus},
        tfs::{Asked, datatype, dtype, signature, version_status},
    },
    message,
};
use crate::proto::{
    tensorflow::{TensorInfo, error::Code as TfCode},
    tensorflow_serving::{
        GetModelMetadataRequest, GetModelStatusRequest, ModelVersionStatus, SignatureDefMap,
        model_service_client::ModelServiceClient, model_spec::VersionChoice,
        model_version_status::State, prediction_service_client::PredictionServiceClient,
    },
};

const PREDICT: &str = "/tensorflow.serving.PredictionService/Predict";

/// The one part of a model's metadata that there is.
pub(in crate::client) const SIGNATURES: &str = "signature_def";

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
    /// The protocol has no such question; a server that speaks it knows of no model without a name.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        let nameless = ModelId {
            name: String::new(),
            version: None,
        };
        match self.model_status(&nameless).await {
            Err(ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(GrpcCode::NotFound | GrpcCode::InvalidArgument),
                ..
            })) => Ok(true),
            answer => answer.map(|_| true),
        }
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let request = self.grpc.request(GetModelMetadataRequest {
            model_spec: Some(message::spec(model)?),
            metadata_field: vec![SIGNATURES.to_owned()],
        });
        let answer = PredictionServiceClient::new(self.grpc.channel())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .get_model_metadata(request)
            .await;
        let message = self.grpc.answer(answer)?;
        let unreadable = |source| self.grpc.unreadable(source);
        let decode = |error: prost::DecodeError| unreadable(AnswerError::Decode(error.into()));
        let signatures = match message.metadata.get(SIGNATURES) {
            Some(any) => SignatureDefMap::decode(&any.value[..]).map_err(decode)?,
            None => SignatureDefMap::default(),
        };
        let signature = signature(signatures.signature_def).map_err(unreadable)?;
        let version = match message.model_spec.and_then(|spec| spec.version_choice) {
            Some(VersionChoice::Version(version)) => Some(version.to_string()),
            Some(VersionChoice::VersionLabel(_)) | None => None,
        };
        let tensors = |tensors: BTreeMap<String, TensorInfo>| {
            tensors
                .into_iter()
                .map(|(name, info)| tensor_metadata(name, &info))
                .collect()
        };
        Ok(ModelMetadata {
            name: model.name.clone(),
            versions: version.into_iter().collect(),
            platform: String::new(),
            inputs: tensors(signature.inputs),
            outputs: tensors(signature.outputs),
        })
    }

    /// The protocol has no list of models; a server that speaks KServe as well has one there.
    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        kserve_grpc::index(&self.grpc).await
    }

    fn lists_states(&self) -> bool {
        false
    }

    async fn model_status(&self, model: &ModelId) -> Result<Option<ModelStatus>, ClientError> {
        let request = self.grpc.request(GetModelStatusRequest {
            model_spec: Some(message::spec(model)?),
        });
        let answer = ModelServiceClient::new(self.grpc.channel())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .get_model_status(request)
            .await;
        let versions = self.grpc.answer(answer)?.model_version_status;
        Ok(Some(ModelStatus {
            name: model.name.clone(),
            versions: versions.into_iter().map(status).collect(),
        }))
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedCall {
            grpc: &self.grpc,
            body: message::request(request)?,
            asked: Arc::new(Asked::new(request)),
        }))
    }
}

fn tensor_metadata(name: String, info: &TensorInfo) -> TensorMetadata {
    let dims = info.tensor_shape.iter().flat_map(|shape| &shape.dim);
    let shape: Vec<_> = dims.map(|dim| dim.size).collect();
    TensorMetadata::new(name, datatype(dtype(info.dtype)), &shape)
}

fn status(status: ModelVersionStatus) -> VersionStatus {
    let state = match State::try_from(status.state) {
        Ok(state) => state.as_str_name().to_owned(),
        Err(_) => status.state.to_string(),
    };
    let outcome = status.status.unwrap_or_default();
    let code = match TfCode::try_from(outcome.error_code) {
        Ok(code) => code.as_str_name().to_owned(),
        Err(_) => outcome.error_code.to_string(),
    };
    version_status(
        status.version.to_string(),
        state,
        code,
        outcome.error_message,
    )
}

/// An encoded inference.
#[derive(Debug)]
struct EncodedCall<'a> {
    grpc: &'a Grpc,
    /// The message with its frame, shared by all that are sent.
    body: Bytes,
    asked: Arc<Asked>,
}

/// An answer as it came.
#[derive(Debug)]
pub(in crate::client) struct Reply {
    pub(super) body: Bytes,
    pub(super) asked: Arc<Asked>,
}

#[async_trait]
impl Call for EncodedCall<'_> {
    async fn send(
        &self,
        lane: usize,
        headers: &HeaderMap,
    ) -> Result<Box<dyn RawReply>, ClientError> {
        Ok(Box::new(Reply {
            body: self.grpc.send(PREDICT, &self.body, lane, headers).await?,
            asked: Arc::clone(&self.asked),
        }))
    }
}

impl RawReply for Reply {
    fn decode(self: Box<Self>) -> Result<ClientResponse, AnswerError> {
        message::answer(*self)
    }
}
