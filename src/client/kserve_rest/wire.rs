//! The HTTP client, and the calls through it.

use bytes::Bytes;
use reqwest::{
    RequestBuilder, Response, Url,
    header::{CONTENT_TYPE, HeaderName},
    redirect,
};
use serde::Deserialize;

use super::{
    super::{
        Address, AnswerError, ClientError, Code, ModelId, ModelMetadata, Options, Refusal, Request,
        RequestError, TensorMetadata,
    },
    body::{self, Body},
};

/// Where JSON ends in a body that has bytes behind it.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// How much of an error's body is shown if it is not the JSON of a model server.
const MOST_OF_A_FOREIGN_BODY: usize = 300;

/// A pool of connections to one server.
#[derive(Debug)]
pub(in crate::client) struct Wire {
    address: Address,
    http: reqwest::Client,
    base: Url,
}

impl Wire {
    pub(in crate::client) fn new(options: &Options) -> Result<Self, ClientError> {
        let address = options.address.clone();
        let unreachable = |source| ClientError::Unreachable {
            address: address.clone(),
            source,
        };
        let http = reqwest::Client::builder()
            .user_agent(concat!("ovms/", env!("CARGO_PKG_VERSION")))
            .default_headers(options.headers.clone())
            .http1_only()
            .tcp_nodelay(true)
            .pool_max_idle_per_host(usize::MAX)
            // The address is the server's own, as it is over gRPC.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| unreachable(error.into()))?;
        let base = Url::parse(&address.url()).map_err(|error| unreachable(error.into()))?;
        Ok(Self {
            address,
            http,
            base,
        })
    }

    pub(in crate::client) async fn server_ready(&self) -> Result<bool, ClientError> {
        let request = self.http.get(self.url(&["v2", "health", "ready"]));
        match self.fetch(request).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(in crate::client) async fn model_metadata(
        &self,
        model: &ModelId,
    ) -> Result<ModelMetadata, ClientError> {
        let request = self.http.get(self.model_url(model, None));
        let metadata: Metadata = self.decode(&self.fetch(request).await?.bytes)?;
        let tensors = |tensors: Vec<TensorJson>| {
            tensors
                .into_iter()
                .map(|tensor| TensorMetadata::new(tensor.name, tensor.datatype, &tensor.shape))
                .collect()
        };
        Ok(ModelMetadata {
            name: metadata.name,
            versions: metadata.versions,
            inputs: tensors(metadata.inputs),
            outputs: tensors(metadata.outputs),
        })
    }

    /// Asks for the status of all models, which not every server of the protocol has.
    pub(in crate::client) async fn model_names(&self) -> Result<Vec<String>, ClientError> {
        #[derive(serde::Deserialize)]
        struct Entry {
            name: String,
        }
        let request = self.http.post(self.url(&["v2", "repository", "index"]));
        if let Ok(reply) = self.fetch(request).await {
            let entries: Vec<Entry> = self.decode(&reply.bytes)?;
            let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
            names.dedup();
            return Ok(names);
        }
        // Servers without the extension may have the list of TensorFlow Serving's relatives.
        let request = self.http.get(self.url(&["v1", "config"]));
        let models: serde_json::Map<String, serde_json::Value> =
            self.decode(&self.fetch(request).await?.bytes)?;
        Ok(models.into_iter().map(|(name, _)| name).collect())
    }

    pub(in crate::client) fn call(&self, request: &Request) -> Result<Call<'_>, RequestError> {
        Ok(Call {
            wire: self,
            url: self.model_url(&request.model, Some("infer")),
            body: body::request(request)?,
        })
    }

    fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("`http` URLs have segments")
            .clear()
            .extend(segments);
        url
    }

    fn model_url(&self, model: &ModelId, verb: Option<&str>) -> Url {
        let mut segments = vec!["v2", "models", &model.name];
        if let Some(version) = &model.version {
            segments.extend(["versions", version]);
        }
        segments.extend(verb);
        self.url(&segments)
    }

    async fn fetch(&self, request: RequestBuilder) -> Result<Reply, ClientError> {
        let response = request.send().await.map_err(|error| self.failure(error))?;
        let status = response.status();
        let json_length = json_length(&response);
        let bytes = response
            .bytes()
            .await
            .map_err(|error| self.failure(error))?;
        if !status.is_success() {
            return Err(ClientError::Refused(Refusal {
                code: Code::Http(status),
                message: refusal_text(&bytes),
            }));
        }
        Ok(Reply { bytes, json_length })
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|error| ClientError::Protocol {
            address: self.address.clone(),
            source: AnswerError::Decode(error.into()),
        })
    }

    fn failure(&self, error: reqwest::Error) -> ClientError {
        let address = self.address.clone();
        let source = error.without_url().into();
        ClientError::Unreachable { address, source }
    }
}

fn json_length(response: &Response) -> Option<String> {
    let value = response.headers().get(JSON_LENGTH)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Finds the text of an error: the `error` of a model server, or the start of what else came.
fn refusal_text(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refused {
        error: String,
    }
    match serde_json::from_slice::<Refused>(body) {
        Ok(refused) => refused.error,
        Err(_) => String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(MOST_OF_A_FOREIGN_BODY)
            .collect(),
    }
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
pub(in crate::client) struct Call<'a> {
    wire: &'a Wire,
    url: Url,
    body: Body,
}

impl Call<'_> {
    pub(in crate::client) async fn send(&self) -> Result<Reply, ClientError> {
        let mut request = self.wire.http.post(self.url.clone());
        request = match self.body.json_length {
            Some(length) => request
                .header(JSON_LENGTH, length)
                .header(CONTENT_TYPE, "application/octet-stream"),
            None => request.header(CONTENT_TYPE, "application/json"),
        };
        self.wire.fetch(request.body(self.body.bytes.clone())).await
    }
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    versions: Vec<String>,
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
