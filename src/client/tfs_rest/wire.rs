//! The calls through the shared HTTP client.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde::Deserialize;

use super::{
    super::{
        connection::ClientOptions,
        error::{AnswerError, ClientError, RequestError},
        http::Http,
        message::{ClientResponse, ModelId, ModelMetadata, Request, TensorMetadata},
        protocol::{Call, Protocol, RawReply},
        status::{ModelStatus, VersionStatus},
        tfs::{Asked, datatype, dtype, signature, version_status},
    },
    body,
};
use crate::proto::tensorflow::DataType as TfType;

/// Ends the path of an inference; it is no segment of its own: `…/models/m:predict`.
pub(in crate::client) const PREDICT: &str = ":predict";

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

    fn model_url(&self, model: &ModelId, rest: &[&str]) -> Url {
        self.http.url(&segments(model, rest))
    }
}

#[async_trait]
impl Protocol for Wire {
    /// The protocol has no such question; a list of models shows that it is spoken.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        self.models().await.map(|_| true)
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let request = self.http.get(self.model_url(model, &["metadata"]));
        let answer: MetadataJson = self.http.decode(&self.http.fetch(request).await?.bytes)?;
        let signatures = answer.metadata.signatures.by_name;
        let signature = signature(signatures).map_err(|source| self.http.unreadable(source))?;
        let tensors = |tensors: BTreeMap<String, TensorJson>| {
            let tensor = |(name, tensor): (String, TensorJson)| tensor.metadata(name);
            tensors.into_iter().map(tensor).collect()
        };
        Ok(ModelMetadata {
            name: model.name.clone(),
            versions: answer.spec.version.into_iter().collect(),
            platform: String::new(),
            inputs: tensors(signature.inputs),
            outputs: tensors(signature.outputs),
        })
    }

    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        config(&self.http).await
    }

    async fn model_status(&self, model: &ModelId) -> Result<Option<ModelStatus>, ClientError> {
        let request = self.http.get(self.model_url(model, &[]));
        let answer: StatusJson = self.http.decode(&self.http.fetch(request).await?.bytes)?;
        Ok(Some(answer.of(model.name.clone())))
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        let mut url = self.model_url(&request.model, &[]);
        url.set_path(&format!("{}{PREDICT}", url.path()));
        Ok(Box::new(EncodedCall {
            http: &self.http,
            url,
            body: body::request(request)?,
            asked: Arc::new(Asked::new(request)),
        }))
    }
}

/// Returns the path of a model, and of what is asked about it.
pub(in crate::client) fn segments<'a>(model: &'a ModelId, rest: &[&'a str]) -> Vec<&'a str> {
    let mut segments = vec!["v1", "models", &model.name];
    if let Some(version) = &model.version {
        segments.extend(["versions", version]);
    }
    segments.extend(rest);
    segments
}

/// Asks for the states of all models, which TensorFlow Serving itself does not have.
pub(in crate::client) async fn config(http: &Http) -> Result<Vec<ModelStatus>, ClientError> {
    let request = http.get(http.url(&["v1", "config"]));
    let models: BTreeMap<String, StatusJson> = http.decode(&http.fetch(request).await?.bytes)?;
    let model = |(name, status): (String, StatusJson)| status.of(name);
    Ok(models.into_iter().map(model).collect())
}

/// An encoded inference.
#[derive(Debug)]
struct EncodedCall<'a> {
    http: &'a Http,
    url: Url,
    body: Bytes,
    asked: Arc<Asked>,
}

/// An answer as it came.
#[derive(Debug)]
pub(in crate::client) struct Reply {
    pub(super) bytes: Bytes,
    pub(super) asked: Arc<Asked>,
}

#[async_trait]
impl Call for EncodedCall<'_> {
    async fn send(&self, _: usize, headers: &HeaderMap) -> Result<Box<dyn RawReply>, ClientError> {
        let request = self
            .http
            .post(self.url.clone())
            .headers(headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(self.body.clone());
        Ok(Box::new(Reply {
            bytes: self.http.fetch(request).await?.bytes,
            asked: Arc::clone(&self.asked),
        }))
    }
}

impl RawReply for Reply {
    fn decode(self: Box<Self>) -> Result<ClientResponse, AnswerError> {
        body::answer(&self)
    }
}

#[derive(Deserialize)]
struct StatusJson {
    #[serde(default, rename = "model_version_status")]
    versions: Vec<VersionJson>,
}

#[derive(Deserialize)]
struct VersionJson {
    #[serde(default)]
    version: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    status: OutcomeJson,
}

#[derive(Default, Deserialize)]
struct OutcomeJson {
    #[serde(default, rename = "error_code")]
    code: String,
    #[serde(default, rename = "error_message")]
    message: String,
}

impl StatusJson {
    fn of(self, name: String) -> ModelStatus {
        let version = |it: VersionJson| -> VersionStatus {
            version_status(it.version, it.state, it.status.code, it.status.message)
        };
        ModelStatus {
            name,
            versions: self.versions.into_iter().map(version).collect(),
        }
    }
}

/// The aliases are TensorFlow Serving's own writing.
#[derive(Deserialize)]
struct MetadataJson {
    #[serde(default, rename = "modelSpec", alias = "model_spec")]
    spec: SpecJson,
    metadata: SignaturesJson,
}

#[derive(Default, Deserialize)]
struct SpecJson {
    version: Option<String>,
}

#[derive(Deserialize)]
struct SignaturesJson {
    #[serde(rename = "signature_def")]
    signatures: SignatureMapJson,
}

#[derive(Deserialize)]
struct SignatureMapJson {
    #[serde(rename = "signatureDef", alias = "signature_def")]
    by_name: BTreeMap<String, SignatureJson>,
}

#[derive(Deserialize)]
struct SignatureJson {
    #[serde(default)]
    inputs: BTreeMap<String, TensorJson>,
    #[serde(default)]
    outputs: BTreeMap<String, TensorJson>,
}

#[derive(Deserialize)]
struct TensorJson {
    #[serde(default)]
    dtype: String,
    #[serde(default, rename = "tensorShape", alias = "tensor_shape")]
    shape: ShapeJson,
}

#[derive(Default, Deserialize)]
struct ShapeJson {
    #[serde(default)]
    dim: Vec<DimJson>,
}

#[derive(Deserialize)]
struct DimJson {
    #[serde(default)]
    size: String,
}

impl TensorJson {
    fn metadata(self, name: String) -> TensorMetadata {
        let datatype = match TfType::from_str_name(&self.dtype) {
            Some(known) => datatype(dtype(known.into())),
            None => self.dtype,
        };
        // A size that is no number is as good as one that may vary.
        let size = |dim: &DimJson| dim.size.parse().unwrap_or(-1);
        let shape: Vec<i64> = self.shape.dim.iter().map(size).collect();
        TensorMetadata::new(name, datatype, &shape)
    }
}

#[cfg(test)]
mod tests {
    use super::{MetadataJson, StatusJson};

    /// The two servers write the same with other words.
    #[test]
    fn metadata_is_read_in_both_writings() {
        let ours = r#"{"modelSpec":{"name":"m","signatureName":"","version":"1"},"metadata":{"signature_def":{"@type":"type.googleapis.com/tensorflow.serving.SignatureDefMap","signatureDef":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"-1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"b"}},"outputs":{},"methodName":"","defaults":{}}}}}}"#;
        let others = r#"{"model_spec":{"name":"m","signature_name":"","version":"1"},"metadata":{"signature_def":{"signature_def":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensor_shape":{"dim":[{"size":"-1","name":""},{"size":"10","name":""}],"unknown_rank":false},"name":"b:0"}},"outputs":{},"method_name":""}}}}}"#;
        for text in [ours, others] {
            let read: MetadataJson = serde_json::from_str(text).unwrap();
            assert_eq!(read.spec.version.as_deref(), Some("1"));
            let mut signatures = read.metadata.signatures.by_name;
            let mut signature = signatures.remove("serving_default").unwrap();
            let input = signature
                .inputs
                .remove("b")
                .unwrap()
                .metadata("b".to_owned());
            assert_eq!(
                format!("{} {}", input.datatype, input.shape),
                "FP32 (-1,10)"
            );
            assert!(signature.outputs.is_empty());
        }
    }

    #[test]
    fn states_come_with_what_went_wrong() {
        let text = r#"{"model_version_status":[
            {"version":"1","state":"LOADING","status":{"error_code":"UNKNOWN","error_message":"no file"}},
            {"version":"2","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}"#;
        let read: StatusJson = serde_json::from_str(text).unwrap();
        let status = read.of("m".to_owned());
        let reported: Vec<_> = status
            .versions
            .iter()
            .map(|it| (&*it.version, &*it.state, it.code.as_deref(), &*it.message))
            .collect();
        assert_eq!(
            reported,
            [
                ("1", "LOADING", Some("UNKNOWN"), "no file"),
                ("2", "AVAILABLE", Some("OK"), ""),
            ]
        );
    }
}
