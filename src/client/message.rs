//! Requests and responses, independent of any wire.

use std::collections::BTreeMap;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

use super::error::{AnswerError, RequestError};
use crate::{
    request::Parameters,
    servable::{ImageStep, REMOVED},
    tensor::{DataType, Dim, MAX_RANK, PartialShape, TensorMap, values::ValueError},
};

/// Headers that the protocols set themselves.
const RESERVED: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "inference-header-content-length",
    "te",
    "transfer-encoding",
    "user-agent",
];

/// A model by name, and the version if not the server's default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelId {
    /// The name.
    pub name: String,
    /// The version; `None` for the server's default.
    pub version: Option<String>,
}

impl ModelId {
    /// Makes the id of a model without a version.
    pub fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: None,
        }
    }
}

/// Metadata of a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ModelMetadata {
    /// The name.
    #[serde(skip)]
    pub name: String,
    /// The versions that can be used, as far as the protocol reports them.
    pub versions: Vec<String>,
    /// Platform of the model; empty where the protocol has none.
    #[serde(serialize_with = "reported")]
    pub platform: String,
    /// The inputs, in the server's order.
    pub inputs: Vec<TensorMetadata>,
    /// The outputs, in the server's order.
    pub outputs: Vec<TensorMetadata>,
    /// Names of the scores, and steps with images, as far as the server reports them.
    #[serde(skip)]
    pub properties: ModelProperties,
}

/// Properties of a model in its metadata: names of the scores, of all outputs or of those that have names of their own, as
/// the outputs of a pipeline may, what the server does to images, and why it has no batches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelProperties {
    of_all: Vec<String>,
    of_outputs: BTreeMap<String, Vec<String>>,
    /// Names of the steps.
    images: Vec<String>,
    /// Settings of batches that are not met, each with what is there and why.
    batches: Vec<(String, String)>,
}

impl ModelProperties {
    /// Reads the properties that a server reports of a model.
    pub fn new<'a>(properties: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut all = Self::default();
        for (name, text) in properties {
            let lines = text.lines().map(str::to_owned).collect();
            if name == "labels" {
                all.of_all = lines;
            } else if let Some(output) = name.strip_prefix("labels.") {
                all.of_outputs.insert(output.to_owned(), lines);
            } else if name == ImageStep::PROPERTY {
                all.images = text.split_whitespace().map(str::to_owned).collect();
            } else if ["dynamic_batching", "sequence_batch"].contains(&name.as_str()) {
                all.batches.push((name.clone(), text.clone()));
            }
        }
        all
    }

    /// Returns the names of the scores of an output; none if there are none.
    pub fn labels_of(&self, output: &str) -> &[String] {
        self.of_outputs.get(output).unwrap_or(&self.of_all)
    }

    /// Returns how many names there are where those are for no output in particular.
    pub fn label_count(&self) -> usize {
        self.of_all.len()
    }

    /// Returns the settings of batches that are not met, each with what is there and why.
    pub fn unmet_batches(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.batches.iter();
        all.map(|(setting, text)| (setting.as_str(), text.as_str()))
    }

    /// Returns whether the server does a step with images.
    pub fn has_step(&self, step: ImageStep) -> bool {
        let name: &str = step.into();
        self.images.iter().any(|it| it == name)
    }
}

/// Batching of requests that wait, by a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelBatching {
    /// Maximum number of rows of a request.
    pub max_batch_size: i32,
    /// Rows of batches that the server prefers.
    pub preferred_batch_size: Vec<i32>,
    /// Maximum time that a request waits for others, in microseconds.
    pub max_queue_delay_microseconds: u64,
}

fn reported<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(text).filter(|it| !it.is_empty()).serialize(serializer)
}

/// Datatype that servers report of the inputs and outputs of graphs.
const NO_TYPE: &str = "INVALID";

impl ModelMetadata {
    /// Returns whether it is a graph: servers report no types of its inputs.
    pub fn is_of_graph(&self) -> bool {
        let mut inputs = self.inputs.iter();
        !self.inputs.is_empty() && inputs.all(|input| input.datatype == NO_TYPE)
    }

    /// Returns whether an input has this name.
    pub fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().any(|input| input.name == name)
    }

    /// Returns the names of the inputs.
    pub fn input_names(&self) -> Vec<String> {
        self.inputs.iter().map(|it| it.name.clone()).collect()
    }

    /// Returns the names of the outputs.
    pub fn output_names(&self) -> Vec<String> {
        self.outputs.iter().map(|it| it.name.clone()).collect()
    }
}

/// Metadata of an input or output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorMetadata {
    /// The name.
    pub name: String,
    /// The datatype by its KServe name; one that tensors do not have, as the server writes it.
    pub datatype: String,
    /// The shape; what may vary is [`Dim::Any`].
    #[serde(serialize_with = "wire")]
    pub shape: PartialShape,
}

fn wire<S: Serializer>(shape: &PartialShape, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(shape.wire())
}

impl TensorMetadata {
    /// Makes one from what the wire has: a negative dimension is one that may vary.
    pub(super) fn new(name: String, datatype: String, shape: &[i64]) -> Self {
        let dim = |length: &i64| usize::try_from(*length).map_or(Dim::Any, Dim::Fixed);
        Self {
            name,
            datatype,
            shape: PartialShape(shape.iter().map(dim).collect()),
        }
    }

    /// Returns whether the server reports more than the name.
    pub fn is_described(&self) -> bool {
        !matches!(&*self.datatype, "" | NO_TYPE) || !self.shape.0.is_empty()
    }

    /// Returns the datatype, or `None` if it is none that tensors have, as with graphs.
    pub fn dtype(&self) -> Option<DataType> {
        DataType::from_kserve(&self.datatype)
    }
}

/// One inference to ask for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The model.
    pub model: ModelId,
    /// An id for the answer to repeat; empty for none.
    pub id: String,
    /// Request parameters.
    pub parameters: Parameters,
    /// The inputs.
    pub inputs: TensorMap,
    /// The outputs wanted; empty for all.
    ///
    /// Over KServe's REST some servers answer those that are not listed as JSON, whatever the form.
    pub outputs: Vec<String>,
    /// The model's outputs as its metadata has them: answers of TensorFlow Serving over REST have
    /// no names and types. Other wires do without.
    pub model_outputs: Vec<TensorMetadata>,
    /// Wire format of the elements.
    pub form: TensorForm,
}

/// Wire format of the elements of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TensorForm {
    /// Bytes: raw contents over gRPC, the binary extension over KServe's REST.
    ///
    /// TensorFlow Serving's REST has JSON alone, and over its gRPC strings, FP16, UINT16 and the
    /// inputs that control a sequence are typed nevertheless: the C++ server reads them only so.
    #[default]
    Bytes,
    /// One by one: typed contents over gRPC, JSON over REST.
    Values,
}

/// Response to a [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub struct ClientResponse {
    /// The name of the model.
    pub model_name: String,
    /// The version that answered; empty if the server does not say.
    pub model_version: String,
    /// The id of the request, repeated.
    pub id: String,
    /// The outputs, in the server's order.
    pub outputs: TensorMap,
    /// The outputs of types that are the server's own, as handlers of graphs may make them.
    pub opaque: Vec<Opaque>,
}

/// An output of a type that only those know who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// The name.
    pub name: String,
    /// The datatype as sent.
    pub datatype: String,
    /// The shape as sent.
    pub shape: Vec<i64>,
    /// The bytes.
    pub data: Bytes,
}

/// Checks a header, or gRPC metadata, that is to go with every request.
///
/// # Errors
///
/// Fails if name or value have characters that headers do not have, or if the protocols set this
/// header themselves.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), RequestError> {
    let refused = || RequestError::Header(name.to_owned());
    // What is no name may be a value with a `=` in it, and so a secret.
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| RequestError::HeaderName)?;
    let text = key.as_str();
    // `-bin` marks binary metadata of gRPC, whose values are not text.
    if RESERVED.contains(&text) || text.starts_with("grpc-") || text.ends_with("-bin") {
        return Err(refused());
    }
    let value = HeaderValue::from_str(value).map_err(|_| refused())?;
    Ok((key, value))
}

/// Turns the shape of an answer into lengths.
pub(super) fn lengths(name: &str, shape: &[i64]) -> Result<Vec<usize>, AnswerError> {
    if shape.len() > MAX_RANK {
        let rank = shape.len();
        let text = format!("found a shape of {rank} axes, expected {MAX_RANK} at most");
        return Err(AnswerError::output(name, text));
    }
    shape
        .iter()
        .map(|length| usize::try_from(*length))
        .collect::<Result<_, _>>()
        .map_err(|_| AnswerError::output(name, "found a negative dimension"))
}

/// Pushes the elements of one field of a message.
pub(super) fn push_all<T>(
    values: Vec<T>,
    push: impl FnMut(T) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    values.into_iter().try_for_each(push)
}

/// Turns a whole number into that of a field.
pub(super) fn narrow<Wide: ToString + Copy, Narrow: TryFrom<Wide>>(
    value: Wide,
    dtype: DataType,
) -> Result<Narrow, ValueError> {
    Narrow::try_from(value).map_err(|_| ValueError::Range {
        value: value.to_string(),
        dtype,
    })
}

/// Finds the type of an output.
pub(super) fn dtype(name: &str, datatype: &str) -> Result<DataType, AnswerError> {
    DataType::from_kserve(datatype).ok_or_else(|| AnswerError::Datatype {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
    })
}

/// States in which a version takes requests, in the words of the protocols.
const READY: [&str; 2] = ["READY", "AVAILABLE"];

/// Metadata of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerMetadata {
    /// The name of the product.
    pub name: String,
    /// The version of the product.
    pub version: String,
    /// Readiness to take requests.
    #[serde(rename = "ready")]
    pub is_ready: bool,
    /// Reason why it does not serve its configuration as it stands, if it gives one.
    #[serde(skip)]
    pub reload_failure: Option<ReloadFailure>,
}

/// Reason why a server does not serve its configuration as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadFailure {
    /// Time of the first of the reloads that have failed in a row, in the words of the server.
    pub since: String,
    /// Errors.
    pub reason: String,
}

/// A model with the versions that the server reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelStatus {
    /// The name.
    pub name: String,
    /// The versions, in the server's order; none if the model has none.
    pub versions: Vec<VersionStatus>,
}

/// Live sequences of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSequences {
    /// Number of live sequences.
    pub total: u64,
    /// Some of them, sorted by their ids.
    pub sequences: Vec<LiveSequence>,
}

/// A live sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSequence {
    /// The id.
    pub sequence_id: u64,
    /// The version that has its state; `None` if another server or the store has it.
    pub version: Option<i64>,
    /// Number of steps so far.
    pub steps: u64,
    /// Seconds since the last step, if known.
    pub idle_seconds: Option<u64>,
    /// Place of its state in the server's word: `here` or `store`.
    pub place: String,
}

/// A version and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionStatus {
    /// The number; empty if the server lists the model without one.
    pub version: String,
    /// The state in the server's word, such as `READY` or `LOADING`; empty if it does not report one.
    pub state: String,
    /// Outcome of the last state change, such as `OK`; `None` where the protocol has no code for it.
    pub code: Option<String>,
    /// Message with the state; may be empty.
    pub message: String,
}

impl Serialize for VersionStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let version = Some(&self.version).filter(|it| !it.is_empty());
        let mut object = serializer.serialize_struct("VersionStatus", 5)?;
        object.serialize_field("version", &version)?;
        object.serialize_field("state", &self.state)?;
        object.serialize_field("ready", &self.is_ready())?;
        object.serialize_field("error_code", &self.code)?;
        object.serialize_field("reason", &self.message)?;
        object.end()
    }
}

impl ModelStatus {
    /// Returns whether the server says that it is no longer configured.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let mut versions = self.versions.iter();
        !self.versions.is_empty() && versions.all(VersionStatus::is_removed)
    }
}

impl VersionStatus {
    /// Returns whether the server says that its model is no longer configured.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        !self.is_ready() && self.message == REMOVED
    }

    /// Returns whether the version takes requests.
    pub fn is_ready(&self) -> bool {
        READY.contains(&self.state.as_str())
    }
}

/// Puts the versions of a list together by model, in the order of the names.
pub(super) fn by_model(
    entries: impl IntoIterator<Item = (String, VersionStatus)>,
) -> Vec<ModelStatus> {
    let mut models: BTreeMap<String, Vec<VersionStatus>> = BTreeMap::new();
    for (name, version) in entries {
        models.entry(name).or_default().push(version);
    }
    models
        .into_iter()
        .map(|(name, versions)| ModelStatus { name, versions })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::header;

    #[test]
    fn headers_of_the_protocols_are_refused() {
        assert!(header("authorization", "Bearer a b").is_ok());
        for (name, value) in [
            ("Content-Type", "x"),
            ("grpc-timeout", "1S"),
            ("trace-bin", "x"),
            ("a", "x\ny"),
        ] {
            let error = header(name, value).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the header `{name}` cannot be sent")
            );
        }
        // What is no name may be a value that stands in the wrong place, and is not shown.
        for name in ["a b", ""] {
            let error = header(name, "x").unwrap_err();
            assert_eq!(error.to_string(), "a header has a name that cannot be sent");
        }
    }
}
