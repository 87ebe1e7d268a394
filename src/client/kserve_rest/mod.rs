//! KServe v2 over REST, with the binary tensor extension both ways.
//!
//! `body` writes requests and reads answers.

mod body;

use async_trait::async_trait;
use serde_json::value::RawValue;

pub(super) use body::request;

use super::{
    error::{AnswerError, ClientError, RequestError, ServerErrorCode},
    http::{EncodedPost, Http},
    json_messages::from_json,
    kserve_grpc::{metadata, server, states},
    message::{ClientResponse, ModelId, ModelMetadata, Request},
    protocol::{Call, Protocol, RawReply},
    status::{ModelStatus, ServerMetadata},
    tfs::Asked,
    tfs_rest,
};

/// Path of the list of models.
pub(super) const INDEX: [&str; 3] = ["v2", "repository", "index"];

/// Pool of connections to one server.
#[derive(Debug)]
pub(super) struct KserveRest(pub(super) Http);

#[async_trait]
impl Protocol for KserveRest {
    /// Servers that are not ready answer with a status from 500 on.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        match self.0.get(&["v2", "health", "ready"]).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(refusal)) if matches!(refusal.code, ServerErrorCode::Http(status) if status.is_server_error()) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn server(&self) -> Result<Option<ServerMetadata>, ClientError> {
        let name = "inference.ServerMetadataResponse";
        let message = self.0.message(name, &["v2"]).await?;
        Ok(Some(server(message, self.is_ready().await?)))
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let name = "inference.ModelMetadataResponse";
        let message = self.0.message(name, &segments(model, None)).await?;
        Ok(metadata(message))
    }

    /// Asks for the list of models, an extension of the protocol that not every server has.
    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        let list = match self.0.post(&INDEX).await {
            // Servers without the extension may have the list of TensorFlow Serving's relatives.
            Err(ClientError::Refused(_)) => return tfs_rest::config(&self.0).await,
            list => list?,
        };
        let name = "inference.RepositoryIndexResponse.ModelIndex";
        let entries: Vec<&RawValue> = self.0.decode(&list)?;
        let entries = entries.into_iter();
        let entries = entries.map(|entry| from_json(name, entry.get().as_bytes()));
        let entries = entries.collect::<Result<_, _>>();
        Ok(states(entries.map_err(|source| self.0.unreadable(source))?))
    }

    async fn model_ready(&self, model: &ModelId) -> Result<bool, ClientError> {
        let answer = self.0.get(&segments(model, Some("ready"))).await;
        answer.map(|_| true)
    }

    fn http(&self) -> Option<&Http> {
        Some(&self.0)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedPost {
            http: &self.0,
            url: self.0.url(&segments(&request.model, Some("infer"))),
            body: body::request(request)?,
        }))
    }

    fn decode(&self, reply: RawReply, _: &Asked) -> Result<ClientResponse, AnswerError> {
        body::answer(&reply)
    }
}

/// Returns the path of a model, and of what is done with it.
pub(super) fn segments<'a>(model: &'a ModelId, verb: Option<&'a str>) -> Vec<&'a str> {
    let mut segments = vec!["v2", "models", &model.name];
    if let Some(version) = &model.version {
        segments.extend(["versions", version]);
    }
    segments.extend(verb);
    segments
}
