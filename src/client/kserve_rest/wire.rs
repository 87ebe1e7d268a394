//! The calls through the shared HTTP client.

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName},
};
use serde::Deserialize;

use super::{
    super::{
        connection::ClientOptions,
        error::{AnswerError, ClientError, RequestError, ServerErrorCode},
        http::Http,
        message::{ClientResponse, ModelId, ModelMetadata, Request, TensorMetadata},
        protocol::{Call, Protocol, RawReply},
        status::{ModelStatus, ServerMetadata, VersionStatus, by_model},
        tfs_rest,
    },
    body::{self, Body},
};

/// Where JSON ends in a body that has bytes behind it; [`Body::headers`] has it, too.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// A pool of connections to one server.
#[derive(Debug)]
pub(in crate::client) struct Wire {
    http: Http,
}

impl Wire {
    pub(in crate::client) fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let http = Http::new(options)?;
        Ok(Self { http })
    }

    fn model_url(&self, model: &ModelId, verb: Option<&str>) -> Url {
        self.http.url(&segments(model, verb))
    }
}

#[async_trait]
impl Protocol for Wire {
    async fn server(&self) -> Result<Option<ServerMetadata>, ClientError> {
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
            version: String,
        }
        let request = self.http.get(self.http.url(&["v2"]));
        let metadata: Metadata = self.http.decode(&self.http.fetch(request).await?.bytes)?;
        Ok(Some(ServerMetadata {
            name: metadata.name,
            version: metadata.version,
            is_ready: self.is_ready().await?,
        }))
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let request = self.http.get(self.model_url(model, None));
        let metadata: Metadata = self.http.decode(&self.http.fetch(request).await?.bytes)?;
        let tensors = |tensors: Vec<TensorJson>| {
            tensors
                .into_iter()
                .map(|tensor| TensorMetadata::new(tensor.name, tensor.datatype, &tensor.shape))
                .collect()
        };
        Ok(ModelMetadata {
            name: metadata.name,
            versions: metadata.versions,
            platform: metadata.platform,
            inputs: tensors(metadata.inputs),
            outputs: tensors(metadata.outputs),
        })
    }

    /// Asks for the list of models, an extension of the protocol that not every server has.
    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        #[derive(Deserialize)]
        struct Entry {
            name: String,
            #[serde(default)]
            version: String,
            #[serde(default)]
            state: String,
            #[serde(default)]
            reason: String,
        }
        let url = self.http.url(&["v2", "repository", "index"]);
        let fetched = match self.http.fetch(self.http.post(url)).await {
            // Servers without the extension may have the list of TensorFlow Serving's relatives.
            Err(ClientError::Refused(_)) => return tfs_rest::config(&self.http).await,
            fetched => fetched?,
        };
        let entries: Vec<Entry> = self.http.decode(&fetched.bytes)?;
        Ok(by_model(entries.into_iter().map(|entry| {
            let version = VersionStatus {
                version: entry.version,
                state: entry.state,
                code: None,
                message: entry.reason,
            };
            (entry.name, version)
        })))
    }

    async fn model_ready(&self, model: &ModelId) -> Result<bool, ClientError> {
        let request = self.http.get(self.model_url(model, Some("ready")));
        self.http.fetch(request).await.map(|_| true)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedCall {
            http: &self.http,
            url: self.model_url(&request.model, Some("infer")),
            body: body::request(request)?,
        }))
    }

    /// Servers that are not ready answer with a status from 500 on.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        let request = self.http.get(self.http.url(&["v2", "health", "ready"]));
        match self.http.fetch(request).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(refusal)) if matches!(refusal.code, ServerErrorCode::Http(status) if status.is_server_error()) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the path of a model, and of what is done with it.
pub(in crate::client) fn segments<'a>(model: &'a ModelId, verb: Option<&'a str>) -> Vec<&'a str> {
    let mut segments = vec!["v2", "models", &model.name];
    if let Some(version) = &model.version {
        segments.extend(["versions", version]);
    }
    segments.extend(verb);
    segments
}

/// An answer as it came.
#[derive(Debug)]
pub(in crate::client) struct Reply {
    pub(super) bytes: Bytes,
    /// The header that says where JSON ends, as it came.
    pub(super) json_length: Option<String>,
}

/// An encoded inference.
#[derive(Debug)]
struct EncodedCall<'a> {
    http: &'a Http,
    url: Url,
    body: Body,
}

#[async_trait]
impl Call for EncodedCall<'_> {
    async fn send(&self, _: usize, headers: &HeaderMap) -> Result<Box<dyn RawReply>, ClientError> {
        let mut request = self.http.post(self.url.clone()).headers(headers.clone());
        for (name, value) in self.body.headers() {
            request = request.header(name, value);
        }
        let request = request.body(self.body.bytes.clone());
        let fetched = self.http.fetch(request).await?;
        Ok(Box::new(Reply {
            json_length: fetched.header(&JSON_LENGTH),
            bytes: fetched.bytes,
        }))
    }
}

impl RawReply for Reply {
    fn decode(self: Box<Self>) -> Result<ClientResponse, AnswerError> {
        body::answer(&self)
    }
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    platform: String,
    #[serde(default)]
    inputs: Vec<TensorJson>,
    #[serde(default)]
    outputs: Vec<TensorJson>,
}

#[derive(Deserialize)]
struct TensorJson {
    name: String,
    datatype: String,
    #[serde(default)]
    shape: Vec<i64>,
}
