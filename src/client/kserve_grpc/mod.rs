//! KServe v2 over gRPC; `stream` has many requests over one call.

mod stream;

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;

use super::{
    call::{Call, RawReply},
    error::{AnswerError, ClientError, RequestError},
    grpc::{EncodedMessage, Grpc, framed},
    message::{
        ClientResponse, ModelBatching, ModelId, ModelMetadata, ModelProperties, ModelStatus,
        Opaque, ReloadFailure, Request, ServerMetadata, TensorForm, TensorMetadata, VersionStatus,
        by_model, lengths, narrow, push_all,
    },
    protocol::Protocol,
    server_counters::ServerCounters,
    stream::{RequestSender, ResponseReceiver},
};
use crate::{
    client,
    proto::kserve::{
        InferParameter, InferTensorContents, ModelConfig, ModelConfigRequest, ModelConfigResponse,
        ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
        ModelReadyRequest, ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse,
        RepositoryIndexRequest, RepositoryIndexResponse, ServerMetadataRequest,
        ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
        infer_parameter::ParameterChoice,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
        model_metadata_response::TensorMetadata as TensorMessage,
        repository_index_response::ModelIndex,
    },
    request::Parameter,
    tensor::{
        DataType, Tensor, TensorMap,
        values::{Packer, Value, ValueError, values},
    },
};

pub(super) use stream::MessageReceiver;

pub(super) const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
pub(super) const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";
pub(super) const METADATA: &str = "/inference.GRPCInferenceService/ModelMetadata";
pub(super) const INDEX: &str = "/inference.GRPCInferenceService/RepositoryIndex";
const STATISTICS: &str = "/inference.GRPCInferenceService/ModelStatistics";
const MODEL_READY: &str = "/inference.GRPCInferenceService/ModelReady";
const CONFIG: &str = "/inference.GRPCInferenceService/ModelConfig";
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

    async fn model_batching(&self, model: &ModelId) -> Result<Option<ModelBatching>, ClientError> {
        let request = ModelConfigRequest {
            name: model.name.clone(),
            version: model.version.clone().unwrap_or_default(),
        };
        let answer: ModelConfigResponse = self.0.ask(CONFIG, &request).await?;
        Ok(answer.config.and_then(batching))
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

    async fn statistics(&self, model: &ModelId) -> Result<Option<ServerCounters>, ClientError> {
        statistics(&self.0, model).await.map(Some)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedMessage {
            grpc: &self.0,
            path: INFER,
            body: framed(&message(request)?)?,
        }))
    }

    fn decode(&self, reply: RawReply, _: &Request) -> Result<ClientResponse, AnswerError> {
        answer(reply.bytes)
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

/// Asks for the counters of a model, an extension that not every server has.
pub(super) async fn statistics(
    grpc: &Grpc,
    model: &ModelId,
) -> Result<ServerCounters, ClientError> {
    let request = ModelStatisticsRequest {
        name: model.name.clone(),
        version: model.version.clone().unwrap_or_default(),
    };
    let message: ModelStatisticsResponse = grpc.ask(STATISTICS, &request).await?;
    Ok(ServerCounters::of(&message))
}

/// Reads a server's metadata.
pub(super) fn server(message: ServerMetadataResponse, is_ready: bool) -> ServerMetadata {
    ServerMetadata {
        name: message.name,
        version: message.version,
        is_ready,
        reload_failure: message.reload_failure.map(|failure| ReloadFailure {
            since: failure.since,
            reason: failure.reason,
        }),
    }
}

/// Reads how requests to a model are batched.
pub(super) fn batching(message: ModelConfig) -> Option<ModelBatching> {
    let batching = message.dynamic_batching?;
    Some(ModelBatching {
        max_batch_size: message.max_batch_size,
        preferred_batch_size: batching.preferred_batch_size,
        max_queue_delay_microseconds: batching.max_queue_delay_microseconds,
    })
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
        properties: ModelProperties::new(&message.properties),
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

/// Makes the message of a request.
pub(in crate::client) fn message(
    request: &client::Request,
) -> Result<ModelInferRequest, RequestError> {
    let mut message = ModelInferRequest {
        model_name: request.model.name.clone(),
        model_version: request.model.version.clone().unwrap_or_default(),
        id: request.id.clone(),
        parameters: request
            .parameters
            .iter()
            .map(|(key, value)| (key.clone(), parameter(value)))
            .collect(),
        outputs: request
            .outputs
            .iter()
            .map(|name| InferRequestedOutputTensor {
                name: name.clone(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    for (name, tensor) in request.inputs.iter() {
        let mut input = InferInputTensor {
            name: name.to_owned(),
            datatype: tensor.dtype().kserve().to_owned(),
            // A length above the largest i64 does not fit in memory.
            shape: tensor.shape().iter().map(|length| *length as i64).collect(),
            ..Default::default()
        };
        match request.form {
            TensorForm::Bytes => message.raw_input_contents.push(tensor.data().clone()),
            TensorForm::Values => input.contents = Some(contents(name, tensor)?),
        }
        message.inputs.push(input);
    }
    Ok(message)
}

/// Decodes an answer.
fn answer(body: Bytes) -> Result<ClientResponse, AnswerError> {
    of_message(ModelInferResponse::decode(body).map_err(AnswerError::decode)?)
}

/// Reads an answer.
fn of_message(message: ModelInferResponse) -> Result<ClientResponse, AnswerError> {
    let mut raw = message.raw_output_contents.into_iter();
    let mut outputs = TensorMap::default();
    let mut opaque = Vec::new();
    for output in message.outputs {
        let name = output.name;
        let Some(dtype) = DataType::from_kserve(&output.datatype) else {
            let typed = || output.contents.unwrap_or_default().bytes_contents.concat();
            opaque.push(Opaque {
                name,
                datatype: output.datatype,
                shape: output.shape,
                data: raw.next().unwrap_or_else(|| typed().into()),
            });
            continue;
        };
        let shape = lengths(&name, &output.shape)?;
        let data = match (raw.next(), output.contents) {
            (Some(data), _) => data,
            (None, Some(contents)) => {
                packed(dtype, contents).map_err(|error| AnswerError::output(&name, error))?
            }
            // No elements need no contents.
            (None, None) if shape.contains(&0) => Bytes::new(),
            (None, None) => return Err(AnswerError::Missing(name)),
        };
        let tensor = Tensor::new(dtype, shape, data);
        let tensor = tensor.map_err(|error| AnswerError::output(&name, error))?;
        outputs.push((name, tensor));
    }
    Ok(ClientResponse {
        model_name: message.model_name,
        model_version: message.model_version,
        id: message.id,
        outputs,
        opaque,
    })
}

fn parameter(value: &Parameter) -> InferParameter {
    InferParameter {
        parameter_choice: match value {
            Parameter::Bool(value) => Some(ParameterChoice::BoolParam(*value)),
            Parameter::Int(value) => Some(ParameterChoice::Int64Param(*value)),
            Parameter::UInt(value) => Some(ParameterChoice::Uint64Param(*value)),
            Parameter::Double(value) => Some(ParameterChoice::DoubleParam(*value)),
            Parameter::Text(value) => Some(ParameterChoice::StringParam(value.clone())),
            Parameter::Empty => None,
        },
    }
}

/// Writes the elements one by one, in the field of their type.
fn contents(name: &str, tensor: &Tensor) -> Result<InferTensorContents, RequestError> {
    let dtype = tensor.dtype();
    let mut contents = InferTensorContents::default();
    for value in values(tensor) {
        match value {
            Value::Bool(value) => contents.bool_contents.push(value),
            Value::Int(value) if dtype == DataType::I64 => contents.int64_contents.push(value),
            Value::Int(value) => contents.int_contents.push(narrow(value, dtype)?),
            Value::Uint(value) if dtype == DataType::U64 => contents.uint64_contents.push(value),
            Value::Uint(value) => contents.uint_contents.push(narrow(value, dtype)?),
            Value::Single(value) if dtype == DataType::F32 => contents.fp32_contents.push(value),
            Value::Single(_) => {
                let name = name.to_owned();
                return Err(RequestError::RawOnly { name, dtype });
            }
            Value::Double(value) => contents.fp64_contents.push(value),
            Value::Bytes(value) => {
                let data = tensor.data();
                contents.bytes_contents.push(data.slice_ref(value));
            }
        }
    }
    Ok(contents)
}

/// Packs the elements of whichever field has them.
fn packed(dtype: DataType, contents: InferTensorContents) -> Result<Bytes, ValueError> {
    let mut packer = Packer::new(dtype, 0);
    push_all(contents.bool_contents, |it| packer.push_bool(it))?;
    push_all(contents.int_contents, |it| packer.push_i64(it.into()))?;
    push_all(contents.int64_contents, |it| packer.push_i64(it))?;
    push_all(contents.uint_contents, |it| packer.push_u64(it.into()))?;
    push_all(contents.uint64_contents, |it| packer.push_u64(it))?;
    push_all(contents.fp32_contents, |it| packer.push_f64(it.into()))?;
    push_all(contents.fp64_contents, |it| packer.push_f64(it))?;
    push_all(contents.bytes_contents, |it| packer.push_bytes(&it))?;
    Ok(packer.finish())
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{answer, message};
    use crate::{
        client::{
            grpc::{FRAME, framed},
            message::{ModelId, Request, TensorForm},
        },
        proto::kserve::{
            ModelInferRequest, ModelInferResponse, model_infer_response::InferOutputTensor,
        },
        request::Parameter,
        tensor::{DataType, Tensor, TensorMap},
    };

    fn one_input(tensor: Tensor, form: TensorForm) -> Request {
        Request {
            model: ModelId {
                name: "m".to_owned(),
                version: Some("2".to_owned()),
            },
            id: "7".to_owned(),
            parameters: vec![("deep".to_owned(), Parameter::Int(3))],
            inputs: TensorMap::from_iter([("x".to_owned(), tensor)]),
            outputs: vec!["y".to_owned()],
            model_outputs: Vec::new(),
            form,
        }
    }

    /// Response of a server that echoes its input.
    fn echoed(message: ModelInferRequest) -> ModelInferResponse {
        ModelInferResponse {
            model_name: message.model_name,
            model_version: message.model_version,
            id: message.id,
            parameters: message.parameters,
            outputs: message
                .inputs
                .into_iter()
                .map(|input| InferOutputTensor {
                    name: input.name,
                    datatype: input.datatype,
                    shape: input.shape,
                    parameters: input.parameters,
                    contents: input.contents,
                })
                .collect(),
            raw_output_contents: message.raw_input_contents,
        }
    }

    #[test]
    fn every_datatype_comes_back_as_it_went_in_both_forms() {
        for dtype in DataType::ALL {
            let data = match dtype.size() {
                Some(size) => vec![1; 4 * size],
                None => [1_u8, 0, 0, 0, b'a', 0, 0, 0, 0].to_vec(),
            };
            let shape = if dtype.size().is_some() {
                vec![2, 2]
            } else {
                vec![2]
            };
            let tensor = Tensor::new(dtype, shape, data.into()).unwrap();
            for form in [TensorForm::Bytes, TensorForm::Values] {
                let sent = message(&one_input(tensor.clone(), form));
                if form == TensorForm::Values && matches!(dtype, DataType::F16 | DataType::Bf16) {
                    assert_eq!(
                        sent.unwrap_err().to_string(),
                        format!("{dtype} of input `x` has only a raw form")
                    );
                    continue;
                }
                let encoded = framed(&sent.unwrap()).unwrap();
                assert_eq!(encoded[0], 0);
                let message = ModelInferRequest::decode(encoded.slice(FRAME..)).unwrap();
                assert_eq!(encoded[1..FRAME], message.encoded_len().to_be_bytes()[4..]);
                let answer = answer(echoed(message).encode_to_vec().into()).unwrap();
                assert_eq!(
                    crate::tensor::named(&answer.outputs, "x"),
                    Some(&tensor),
                    "{dtype} {form:?}"
                );
                assert_eq!(
                    (answer.model_version.as_str(), answer.id.as_str()),
                    ("2", "7")
                );
            }
        }
    }

    #[test]
    fn an_answer_that_breaks_the_protocol_is_refused() {
        let output = InferOutputTensor {
            name: "y".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![2],
            ..Default::default()
        };
        let with = |output: InferOutputTensor, raw: Option<&'static [u8]>| {
            let message = ModelInferResponse {
                outputs: vec![output],
                raw_output_contents: raw.map(bytes::Bytes::from_static).into_iter().collect(),
                ..Default::default()
            };
            crate::error::chain(&answer(message.encode_to_vec().into()).unwrap_err())
        };
        assert_eq!(
            with(output.clone(), None),
            "found no elements of output `y`"
        );
        assert_eq!(
            with(output.clone(), Some(&[0; 7])),
            "cannot read output `y`: shape (2) of FP32 needs 8 bytes, found 7"
        );
        let negative = InferOutputTensor {
            shape: vec![-2],
            ..output
        };
        assert_eq!(
            with(negative, Some(&[])),
            "cannot read output `y`: found a negative dimension"
        );
    }

    #[test]
    fn an_output_of_an_own_type_is_left_as_bytes() {
        let output = |name: &str, datatype: &str| InferOutputTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![1],
            ..Default::default()
        };
        let message = ModelInferResponse {
            outputs: vec![output("own", "7w"), output("y", "UINT8")],
            raw_output_contents: vec!["xyz".into(), "\u{7}".into()],
            ..Default::default()
        };
        let answer = answer(message.encode_to_vec().into()).unwrap();
        assert_eq!(
            crate::tensor::named(&answer.outputs, "y").unwrap().data()[..],
            [7]
        );
        let [own] = &answer.opaque[..] else {
            panic!("{answer:?}")
        };
        assert_eq!((own.name.as_str(), own.datatype.as_str()), ("own", "7w"));
        assert_eq!((&own.shape[..], &own.data[..]), (&[1][..], &b"xyz"[..]));
    }
}
