//! Protocols of servers, each a wire of its own.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{
    call::{Call, RawReply},
    error::{AnswerError, ClientError, RequestError},
    http::Http,
    message::{
        ClientResponse, ModelBatching, ModelId, ModelMetadata, ModelStatus, Request, ServerMetadata,
    },
    server_counters::ServerCounters,
    stream::{RequestSender, ResponseReceiver},
};

/// Connection to a server in one protocol.
#[async_trait]
pub(super) trait Protocol: Debug + Send + Sync {
    /// Asks whether the server can take requests.
    async fn is_ready(&self) -> Result<bool, ClientError>;

    /// Asks for the server's name, version and readiness; `None` if the protocol has no such
    /// question.
    async fn server(&self) -> Result<Option<ServerMetadata>, ClientError> {
        Ok(None)
    }

    /// Asks for the inputs and outputs of a model.
    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError>;

    /// Asks how requests to a model are batched; `None` if they are not, or the protocol has no such question.
    async fn model_batching(&self, _: &ModelId) -> Result<Option<ModelBatching>, ClientError> {
        Ok(None)
    }

    /// Asks for all models and their states, by name.
    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError>;

    /// Returns whether the states in the list are those of this protocol, not of another one that
    /// the list is from.
    fn lists_states(&self) -> bool {
        true
    }

    /// Asks for the states of a model; `None` if the protocol has them in its list alone.
    async fn model_status(&self, _: &ModelId) -> Result<Option<ModelStatus>, ClientError> {
        Ok(None)
    }

    /// Asks whether a model is ready, where its states are in the list alone.
    async fn model_ready(&self, _: &ModelId) -> Result<bool, ClientError> {
        Ok(false)
    }

    /// Asks for the counters of a model, an extension of KServe; `None` if the protocol has none.
    async fn statistics(&self, _: &ModelId) -> Result<Option<ServerCounters>, ClientError> {
        Ok(None)
    }

    /// Encodes an inference.
    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError>;

    /// Decodes a response; tensors stay slices of it where the wire allows.
    fn decode(&self, reply: RawReply, request: &Request) -> Result<ClientResponse, AnswerError>;

    /// Returns the connection to other paths of the server; `None` if the protocol is not over HTTP.
    fn http(&self) -> Option<&Http> {
        None
    }

    /// Opens a stream; `None` if the protocol has none.
    fn stream(&self) -> Option<(RequestSender, ResponseReceiver<'_>)> {
        None
    }
}
