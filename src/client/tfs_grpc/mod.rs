//! TensorFlow Serving over gRPC.

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;
use tonic::Code as GrpcCode;

use super::{
    call::{Call, RawReply},
    error::{AnswerError, ClientError, RequestError, ServerError, ServerErrorCode},
    grpc::{EncodedMessage, Grpc, framed},
    kserve_grpc,
    message::{
        ClientResponse, ModelId, ModelMetadata, ModelStatus, Request, TensorForm, lengths, narrow,
        push_all,
    },
    protocol::Protocol,
    sequence,
    server_counters::ServerCounters,
    tfs::{self, dtype, number},
};
use crate::{
    client,
    proto::{
        tensorflow::{TensorProto, TensorShapeProto, tensor_shape_proto::Dim},
        tensorflow_serving::{
            GetModelMetadataRequest, GetModelMetadataResponse, GetModelStatusRequest, ModelSpec,
            PredictRequest, PredictResponse, SignatureDefMap, model_spec::VersionChoice,
        },
    },
    tensor::{
        DataType, ShapeText, Tensor, elements,
        tensorflow::tf_type,
        values::{Packer, Value, ValueError, values},
    },
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

    /// The protocol has none; a server that speaks KServe as well has them there.
    async fn statistics(&self, model: &ModelId) -> Result<Option<ServerCounters>, ClientError> {
        kserve_grpc::statistics(&self.0, model).await.map(Some)
    }

    fn encode<'a>(&'a self, request: &Request) -> Result<Box<dyn Call + 'a>, RequestError> {
        Ok(Box::new(EncodedMessage {
            grpc: &self.0,
            path: PREDICT,
            body: framed(&message(request)?)?,
        }))
    }

    fn decode(&self, reply: RawReply, request: &Request) -> Result<ClientResponse, AnswerError> {
        answer(reply.bytes, request)
    }
}

/// Makes the question for the inputs and outputs of a model.
pub(super) fn metadata_request(model: &ModelId) -> Result<GetModelMetadataRequest, RequestError> {
    Ok(GetModelMetadataRequest {
        model_spec: Some(spec(model)?),
        metadata_field: vec![tfs::SIGNATURES.to_owned()],
    })
}

/// Makes the question for the states of a model.
pub(super) fn status_request(model: &ModelId) -> Result<GetModelStatusRequest, RequestError> {
    Ok(GetModelStatusRequest {
        model_spec: Some(spec(model)?),
    })
}

/// Inputs that servers of sequences read in typed fields only.
const OF_SEQUENCES: [&str; 2] = [sequence::ID, sequence::CONTROL];

/// Makes the message of a request.
pub(in crate::client) fn message(
    request: &client::Request,
) -> Result<PredictRequest, RequestError> {
    let mut message = PredictRequest {
        model_spec: Some(spec(&request.model)?),
        output_filter: request.outputs.clone(),
        ..Default::default()
    };
    for (name, tensor) in request.inputs.iter() {
        let mut proto = TensorProto {
            dtype: tf_type(tensor.dtype()).into(),
            tensor_shape: Some(shape(tensor.shape())),
            ..Default::default()
        };
        let only_typed = matches!(
            tensor.dtype(),
            DataType::String | DataType::F16 | DataType::U16
        ) || OF_SEQUENCES.contains(&name.as_str());
        if request.form == TensorForm::Values || only_typed {
            fill(&mut proto, tensor)?;
        } else {
            proto.tensor_content = tensor.data().clone();
        }
        message.inputs.insert(name.to_owned(), proto);
    }
    Ok(message)
}

/// Names a model.
fn spec(model: &ModelId) -> Result<ModelSpec, RequestError> {
    let number = |text: &String| {
        text.parse()
            .map(VersionChoice::Version)
            .map_err(|_| RequestError::Version(text.clone()))
    };
    Ok(ModelSpec {
        name: model.name.clone(),
        version_choice: model.version.as_ref().map(number).transpose()?,
        signature_name: String::new(),
    })
}

/// Decodes an answer.
fn answer(body: Bytes, request: &Request) -> Result<ClientResponse, AnswerError> {
    let message = PredictResponse::decode(body).map_err(AnswerError::decode)?;
    let version = message.model_spec.and_then(number);
    let mut outputs = Vec::with_capacity(message.outputs.len());
    for (name, proto) in message.outputs {
        let tensor = tensor(&name, proto)?;
        outputs.push((name, tensor));
    }
    Ok(tfs::answer(request, version, outputs))
}

fn shape(lengths: &[usize]) -> TensorShapeProto {
    TensorShapeProto {
        dim: lengths
            .iter()
            .map(|length| Dim {
                // A length above the largest i64 does not fit in memory.
                size: *length as i64,
                name: String::new(),
            })
            .collect(),
        unknown_rank: false,
    }
}

/// Writes the elements one by one, in the field of their type.
fn fill(proto: &mut TensorProto, tensor: &Tensor) -> Result<(), ValueError> {
    let dtype = tensor.dtype();
    if matches!(dtype, DataType::F16 | DataType::Bf16) {
        let (halves, _) = tensor.data().as_chunks::<2>();
        let bits = halves.iter().map(|half| u16::from_le_bytes(*half).into());
        proto.half_val = bits.collect();
        return Ok(());
    }
    for value in values(tensor) {
        match value {
            Value::Bool(value) => proto.bool_val.push(value),
            Value::Int(value) if dtype == DataType::I64 => proto.int64_val.push(value),
            Value::Int(value) => proto.int_val.push(narrow(value, dtype)?),
            Value::Uint(value) if dtype == DataType::U64 => proto.uint64_val.push(value),
            Value::Uint(value) if dtype == DataType::U32 => {
                proto.uint32_val.push(narrow(value, dtype)?);
            }
            Value::Uint(value) => proto.int_val.push(narrow(value, dtype)?),
            Value::Single(value) => proto.float_val.push(value),
            Value::Double(value) => proto.double_val.push(value),
            Value::Bytes(value) => proto.string_val.push(tensor.data().slice_ref(value)),
        }
    }
    Ok(())
}

/// Reads an output from whichever field has its elements.
fn tensor(name: &str, mut proto: TensorProto) -> Result<Tensor, AnswerError> {
    let dtype = dtype(proto.dtype).map_err(|datatype| AnswerError::Datatype {
        name: name.to_owned(),
        datatype,
    })?;
    let broken = |source: client::BoxError| AnswerError::output(name, source);
    let dims = proto.tensor_shape.take().unwrap_or_default().dim;
    let sizes: Vec<_> = dims.iter().map(|dim| dim.size).collect();
    let shape = lengths(name, &sizes)?;
    let data = if !proto.tensor_content.is_empty() && dtype != DataType::String {
        proto.tensor_content
    } else {
        let (count, data) = packed(dtype, proto).map_err(|error| broken(error.into()))?;
        // The number of bytes says nothing of the number of strings.
        if elements(&shape) != Some(count) {
            if count == 0 {
                return Err(AnswerError::Missing(name.to_owned()));
            }
            let text = format!("found {count} elements for shape {}", ShapeText(&shape));
            return Err(broken(text.into()));
        }
        data
    };
    Tensor::new(dtype, shape, data).map_err(|error| broken(error.into()))
}

/// Packs the elements of a type's field, and counts them.
fn packed(dtype: DataType, proto: TensorProto) -> Result<(usize, Bytes), ValueError> {
    if matches!(dtype, DataType::F16 | DataType::Bf16) {
        let mut bits = Vec::with_capacity(2 * proto.half_val.len());
        for value in &proto.half_val {
            let half: u16 = narrow(*value, dtype)?;
            bits.extend(half.to_le_bytes());
        }
        return Ok((proto.half_val.len(), bits.into()));
    }
    let mut packer = Packer::new(dtype, 0);
    push_all(proto.bool_val, |it| packer.push_bool(it))?;
    push_all(proto.int_val, |it| packer.push_i64(it.into()))?;
    push_all(proto.int64_val, |it| packer.push_i64(it))?;
    push_all(proto.uint32_val, |it| packer.push_u64(it.into()))?;
    push_all(proto.uint64_val, |it| packer.push_u64(it))?;
    push_all(proto.float_val, |it| packer.push_f64(it.into()))?;
    push_all(proto.double_val, |it| packer.push_f64(it))?;
    push_all(proto.string_val, |it| packer.push_bytes(&it))?;
    Ok((packer.count(), packer.finish()))
}

#[cfg(test)]
mod tests;
