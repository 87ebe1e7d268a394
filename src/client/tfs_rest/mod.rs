//! TensorFlow Serving over REST, in the column format.
//!
//! `body` writes requests and reads answers. Answers do not tell datatypes, and one output not even
//! its name: both come from the model's metadata.

mod body;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use body::request;

use super::{
    error::{AnswerError, ClientError, RequestError},
    http::{EncodedPost, Http},
    json_messages::from_json,
    message::{ClientResponse, ModelId, ModelMetadata, Request},
    protocol::{Call, Protocol, RawReply},
    status::ModelStatus,
    tfs::{self, Asked},
};

/// Ends the path of an inference; it is no segment of its own: `…/models/m:predict`.
pub(super) const PREDICT: &str = ":predict";

/// Path of the states of all models.
pub(super) const CONFIG: [&str; 2] = ["v1", "config"];

/// Message with the states of a model.
const STATUS: &str = "tensorflow.serving.GetModelStatusResponse";

/// Pool of connections to one server.
#[derive(Debug)]
pub(super) struct TfsRest(pub(super) Http);

#[async_trait]
impl Protocol for TfsRest {
    /// The protocol has no such question; a list of models shows that it is spoken.
    async fn is_ready(&self) -> Result<bool, ClientError> {
        self.models().await.map(|_| true)
    }

    async fn model_metadata(&self, model: &ModelId) -> Result<ModelMetadata, ClientError> {
        let json = self.0.get(&segments(model, &["metadata"])).await?;
        metadata(model, &json).map_err(|source| self.0.unreadable(source))
    }

    async fn models(&self) -> Result<Vec<ModelStatus>, ClientError> {
        config(&self.0).await
    }

    async fn model_status(&self, model: &ModelId) -> Result<Option<ModelStatus>, ClientError> {
        let message = self.0.message(STATUS, &segments(model, &[])).await?;
        Ok(Some(tfs::status(model.name.clone(), message)))
    }

    fn http(&self) -> Option<&Http> {
        Some(&self.0)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        let mut url = self.0.url(&segments(&request.model, &[]));
        url.set_path(&format!("{}{PREDICT}", url.path()));
        Ok(Box::new(EncodedPost {
            http: &self.0,
            url,
            body: body::request(request)?,
        }))
    }

    fn decode(&self, reply: RawReply, asked: &Asked) -> Result<ClientResponse, AnswerError> {
        body::answer(&reply.bytes, asked)
    }
}

/// Returns the path of a model, and of what is asked about it.
pub(super) fn segments<'a>(model: &'a ModelId, rest: &[&'a str]) -> Vec<&'a str> {
    let mut segments = vec!["v1", "models", &model.name];
    if let Some(version) = &model.version {
        segments.extend(["versions", version]);
    }
    segments.extend(rest);
    segments
}

/// Asks for the states of all models, which TensorFlow Serving itself does not have.
pub(super) async fn config(http: &Http) -> Result<Vec<ModelStatus>, ClientError> {
    let json = http.get(&CONFIG).await?;
    let models: BTreeMap<String, &RawValue> = http.decode(&json)?;
    let model = |(name, status): (String, &RawValue)| {
        from_json(STATUS, status.get().as_bytes()).map(|message| tfs::status(name, message))
    };
    let models = models.into_iter().map(model).collect::<Result<_, _>>();
    models.map_err(|source| http.unreadable(source))
}

/// Reads the inputs and outputs of a model.
fn metadata(model: &ModelId, json: &[u8]) -> Result<ModelMetadata, AnswerError> {
    /// The alias is TensorFlow Serving's own writing, which has no `@type` among the signatures.
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, rename = "modelSpec", alias = "model_spec")]
        spec: Option<&'a RawValue>,
        #[serde(borrow)]
        metadata: Signatures<'a>,
    }
    #[derive(Deserialize)]
    struct Signatures<'a> {
        #[serde(borrow)]
        signature_def: &'a RawValue,
    }
    let read: Metadata<'_> = serde_json::from_slice(json).map_err(AnswerError::decode)?;
    let message =
        |text: &RawValue| from_json("tensorflow.serving.ModelSpec", text.get().as_bytes());
    let signatures = read.metadata.signature_def.get();
    let signatures = from_json("tensorflow.serving.SignatureDefMap", signatures.as_bytes())?;
    tfs::metadata(model, read.spec.map(message).transpose()?, signatures)
}

#[cfg(test)]
mod tests {
    use super::{ModelId, metadata};
    use crate::client::{json_messages::from_json, tfs::status};

    /// The two servers write the same with other words.
    #[test]
    fn metadata_is_read_in_both_writings() {
        let ours = r#"{"modelSpec":{"name":"m","signatureName":"","version":"1"},"metadata":{"signature_def":{"@type":"type.googleapis.com/tensorflow.serving.SignatureDefMap","signatureDef":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"-1","name":""},{"size":"10","name":""}],"unknownRank":false},"name":"b"}},"outputs":{},"methodName":"","defaults":{}}}}}}"#;
        let others = r#"{"model_spec":{"name":"m","signature_name":"","version":"1"},"metadata":{"signature_def":{"signature_def":{"serving_default":{"inputs":{"b":{"dtype":"DT_FLOAT","tensor_shape":{"dim":[{"size":"-1","name":""},{"size":"10","name":""}],"unknown_rank":false},"name":"b:0"}},"outputs":{},"method_name":""}}}}}"#;
        for text in [ours, others] {
            let read = metadata(&ModelId::default(), text.as_bytes()).unwrap();
            assert_eq!(read.versions, ["1"]);
            let [input] = &read.inputs[..] else {
                panic!("{read:?}")
            };
            assert_eq!(
                format!("{} {} {}", input.name, input.datatype, input.shape),
                "b FP32 (-1,10)"
            );
            assert!(read.outputs.is_empty());
        }
    }

    #[test]
    fn states_come_with_what_went_wrong() {
        let text = r#"{"model_version_status":[
            {"version":"1","state":"LOADING","status":{"error_code":"UNKNOWN","error_message":"no file"}},
            {"version":"2","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}}]}"#;
        let read = from_json(super::STATUS, text.as_bytes()).unwrap();
        let status = status("m".to_owned(), read);
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
