//! Requests to the server, in each of the counted forms.

use bytes::{BufMut, Bytes, BytesMut};
use ovms::{
    proto::{
        kserve::{
            InferParameter, ModelInferRequest, ModelStreamInferResponse,
            infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
        },
        tensorflow::{DataType, TensorProto, TensorShapeProto, tensor_shape_proto::Dim},
        tensorflow_serving::{ModelSpec, PredictRequest},
    },
    sequence::SEQUENCE_ID,
};
use prost::Message;
use serde_json::{Value, json};
use tonic::codegen::http;

use crate::served::{Side, fixture};

/// A request over one protocol to one kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Ten numbers, KServe over gRPC.
    GrpcTiny,
    /// An image of 600 KB, KServe over gRPC.
    GrpcLarge,
    /// Ten numbers, KServe over REST, as JSON.
    RestJson,
    /// Ten numbers, KServe over REST, as bytes after the JSON.
    RestBinary,
    /// Ten numbers, TensorFlow Serving over gRPC.
    TfsGrpc,
    /// A step of a sequence, KServe over gRPC.
    SequenceStep,
    /// Ten numbers through a pipeline of two nodes, KServe over gRPC.
    PipelineTwo,
    /// Ten numbers as a message of a stream, KServe over gRPC.
    StreamStep,
    /// Ten numbers, KServe over gRPC, with traces on and the request not sampled.
    GrpcUnsampled,
}

/// Position of a request in its sequence, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    First,
    Next,
    Last,
}

/// Length of the gRPC message prefix: a flag and the message length.
const PREFIX: usize = 5;

impl Case {
    /// Returns the name of its figures, which is also that of its benchmark.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GrpcTiny => "grpc_tiny",
            Self::GrpcLarge => "grpc_600k",
            Self::RestJson => "rest_json",
            Self::RestBinary => "rest_binary",
            Self::TfsGrpc => "tfs_grpc",
            Self::SequenceStep => "sequence_step",
            Self::PipelineTwo => "pipeline_two",
            Self::StreamStep => "stream_step",
            Self::GrpcUnsampled => "grpc_unsampled",
        }
    }

    /// Returns the side of the server that it is sent to.
    pub(crate) fn side(self) -> Side {
        match self {
            Self::RestJson | Self::RestBinary => Side::Rest,
            _ => Side::Grpc,
        }
    }

    /// Returns whether the server has traces.
    pub(crate) fn is_traced(self) -> bool {
        self == Self::GrpcUnsampled
    }

    /// Returns whether all requests share one call.
    pub(crate) fn streams(self) -> bool {
        self == Self::StreamStep
    }

    /// Returns whether all requests form one sequence.
    pub(crate) fn is_sequence(self) -> bool {
        self == Self::SequenceStep
    }

    /// Returns the configuration of the server, with only the servables of the case.
    pub(crate) fn config(self) -> Value {
        let (name, more) = match self {
            Self::GrpcLarge => ("fullsize", json!({})),
            Self::SequenceStep => ("vad_stateful", json!({"stateful": true})),
            _ => ("dummy", json!({})),
        };
        let mut model = json!({
            "name": name,
            "base_path": fixture(name),
            // As a machine of two cores has them, whatever this one has.
            "nireq": 2,
            "plugin_config": {
                "NUM_STREAMS": "1",
                "INFERENCE_NUM_THREADS": "1",
                "ENABLE_CPU_PINNING": "NO",
                "INFERENCE_PRECISION_HINT": "f32",
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            model[key] = value.clone();
        }
        let mut config = json!({"model_config_list": [{"config": model}]});
        if self == Self::PipelineTwo {
            let node = |name: &str, from: Value| {
                json!({
                    "name": name,
                    "type": "DL model",
                    "model_name": "dummy",
                    "inputs": [{"b": from}],
                    "outputs": [{"data_item": "a", "alias": "a"}],
                })
            };
            config["pipeline_config_list"] = json!([{
                "name": "two",
                "inputs": ["b"],
                "nodes": [
                    node("first", json!({"node_name": "request", "data_item": "b"})),
                    node("second", json!({"node_name": "first", "data_item": "a"})),
                ],
                "outputs": [{"a": {"node_name": "second", "data_item": "a"}}],
            }]);
        }
        config
    }

    /// Returns the request head of a call.
    pub(crate) fn head(self) -> http::Request<()> {
        let path = match self {
            Self::TfsGrpc => "/tensorflow.serving.PredictionService/Predict",
            Self::StreamStep => "/inference.GRPCInferenceService/ModelStreamInfer",
            _ => "/inference.GRPCInferenceService/ModelInfer",
        };
        http::Request::post(format!("http://localhost:9000{path}"))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", "grpc-c++/1.60.0")
            .header("grpc-accept-encoding", "identity, deflate, gzip")
            .body(())
            .expect("the head is right")
    }

    /// Returns a message with its gRPC prefix.
    pub(crate) fn message(self, place: Place) -> Bytes {
        let message = match self {
            Self::TfsGrpc => predict().encode_to_vec(),
            Self::SequenceStep => step(place).encode_to_vec(),
            Self::GrpcLarge => infer("fullsize", "image", &[1, 3, 224, 224]).encode_to_vec(),
            Self::PipelineTwo => infer("two", "b", &[1, 10]).encode_to_vec(),
            _ => infer("dummy", "b", &[1, 10]).encode_to_vec(),
        };
        let mut framed = BytesMut::with_capacity(PREFIX + message.len());
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).expect("messages are below 4 GiB"));
        framed.put_slice(&message);
        framed.freeze()
    }

    /// Returns a request over HTTP/1.
    pub(crate) fn http(self) -> Vec<u8> {
        let data = data(10);
        let mut input = json!({"name": "b", "shape": [1, 10], "datatype": "FP32"});
        let mut output = json!({"name": "a"});
        let binary = self == Self::RestBinary;
        if binary {
            input["parameters"] = json!({"binary_data_size": data.len()});
            output["parameters"] = json!({"binary_data": true});
        } else {
            input["data"] = (0..10).map(|at| f64::from(at) + 0.5).collect();
        }
        let mut body = json!({"inputs": [input], "outputs": [output]})
            .to_string()
            .into_bytes();
        let length = body.len();
        let binary_head = if binary {
            body.extend_from_slice(&data);
            format!("inference-header-content-length: {length}\r\n")
        } else {
            String::new()
        };
        let head = format!(
            "POST /v2/models/dummy/infer HTTP/1.1\r\nhost: localhost:8000\r\n{binary_head}\
             user-agent: python-requests/2.32\r\naccept: */*\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        [head.into_bytes(), body].concat()
    }
}

/// Checks that a message of a stream is a successful response.
pub(crate) fn validate(framed: &[u8]) {
    let answer = ModelStreamInferResponse::decode(&framed[PREFIX..]).expect("a message");
    assert_eq!(answer.error_message, "");
    assert!(answer.infer_response.is_some());
}

/// Returns numbers as bytes.
fn data(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|at| ((at % 251) as f32 + 0.5).to_le_bytes())
        .collect()
}

fn infer(model: &str, input: &str, shape: &[i64]) -> ModelInferRequest {
    let elements: i64 = shape.iter().product();
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![InferInputTensor {
            name: input.to_owned(),
            datatype: "FP32".to_owned(),
            shape: shape.to_vec(),
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![data(usize::try_from(elements).expect("a size")).into()],
        ..ModelInferRequest::default()
    }
}

fn step(place: Place) -> ModelInferRequest {
    let mut request = infer("vad_stateful", "audio", &[1, 512]);
    let mut set = |name: &str, choice| {
        let parameter = InferParameter {
            parameter_choice: Some(choice),
        };
        request.parameters.insert(name.to_owned(), parameter);
    };
    set(SEQUENCE_ID, ParameterChoice::Int64Param(7));
    match place {
        Place::First => set("sequence_start", ParameterChoice::BoolParam(true)),
        Place::Next => {}
        Place::Last => set("sequence_end", ParameterChoice::BoolParam(true)),
    }
    request
}

fn predict() -> PredictRequest {
    let dim = |size| Dim {
        size,
        ..Dim::default()
    };
    let tensor = TensorProto {
        dtype: DataType::DtFloat.into(),
        tensor_shape: Some(TensorShapeProto {
            dim: vec![dim(1), dim(10)],
            ..TensorShapeProto::default()
        }),
        tensor_content: data(10).into(),
        ..TensorProto::default()
    };
    PredictRequest {
        model_spec: Some(ModelSpec {
            name: "dummy".to_owned(),
            ..ModelSpec::default()
        }),
        inputs: [("b".to_owned(), tensor)].into_iter().collect(),
        ..PredictRequest::default()
    }
}
