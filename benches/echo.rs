//! A bare tonic service with the same messages: it answers a request with its own tensor, and on a
//! stream with many small ones. It can run a raw inference for each, or send a message to another process and back.
//!
//! The transport is set as the server's own is (windows, frames, TCP_NODELAY), so that only the
//! work on top of it differs.

use std::{pin::Pin, sync::Mutex};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openvino::InferRequest;
use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    ServerReadyRequest, ServerReadyResponse,
    grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
    infer_parameter::ParameterChoice,
    model_infer_response::InferOutputTensor,
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::{
    graphs::{Beyond, SharedHop},
    raw,
};

/// Work of an echo service for each single request: the least that a server can do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work<'a> {
    Nothing,
    /// An inference of a model's folder, its input as it is.
    Inference {
        library: &'a str,
        model: &'a str,
    },
    /// A message to another process and back.
    Hop(Beyond),
}

struct Echo {
    inference: Option<Mutex<InferRequest>>,
    hop: Option<SharedHop>,
}

impl Echo {
    /// Makes it, within a runtime.
    fn new(work: Work<'_>) -> Self {
        let mut model = match work {
            Work::Inference { library, model } => Some(raw::compile(library, model)),
            Work::Nothing | Work::Hop(_) => None,
        };
        let inference = model.as_mut().map(|model| {
            let mut request = model.create_infer_request().expect("a request");
            request.infer().expect("an inference");
            Mutex::new(request)
        });
        let hop = match work {
            Work::Hop(beyond) => Some(SharedHop::start(beyond)),
            Work::Nothing | Work::Inference { .. } => None,
        };
        Self { inference, hop }
    }
}

/// Serves on a port of loopback until killed.
pub(crate) fn run(port: u16, work: Work<'_>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads can be had");
    runtime.block_on(async {
        let echo = Echo::new(work);
        Server::builder()
            .tcp_nodelay(true)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(32 << 20)
            .max_frame_size(1 << 20)
            .add_service(
                GrpcInferenceServiceServer::new(echo)
                    .max_decoding_message_size(1 << 30)
                    .max_encoding_message_size(1 << 30),
            )
            .serve(([127, 0, 0, 1], port).into())
            .await
            .expect("the port is free");
    });
}

/// Number of responses to a request on a stream.
const MANY: u32 = 10_000;

/// Returns a response like those of the graph with a generator node.
fn small(model_name: String, number: u32) -> ModelStreamInferResponse {
    let time = InferParameter {
        parameter_choice: Some(ParameterChoice::Int64Param(number.into())),
    };
    let response = ModelInferResponse {
        model_name,
        model_version: "1".to_owned(),
        parameters: [("OVMS_MP_TIMESTAMP".to_owned(), time)].into(),
        outputs: vec![InferOutputTensor {
            name: "output".to_owned(),
            datatype: "UINT8".to_owned(),
            shape: vec![4],
            ..InferOutputTensor::default()
        }],
        raw_output_contents: vec![Bytes::copy_from_slice(&number.to_le_bytes())],
        ..ModelInferResponse::default()
    };
    ModelStreamInferResponse {
        infer_response: Some(response),
        ..ModelStreamInferResponse::default()
    }
}

type Replies = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

#[tonic::async_trait]
impl GrpcInferenceService for Echo {
    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        if let Some(inference) = &self.inference {
            let mut inference = inference.lock().expect("no inference panics");
            inference.infer().expect("an inference");
        }
        if let Some(hop) = &self.hop {
            hop.pass().await;
        }
        let request = request.into_inner();
        let outputs = request
            .inputs
            .into_iter()
            .map(|input| InferOutputTensor {
                name: input.name,
                datatype: input.datatype,
                shape: input.shape,
                ..InferOutputTensor::default()
            })
            .collect();
        // A large input is not sent back: the models that it stands for answer with little.
        let raw_output_contents = request
            .raw_input_contents
            .into_iter()
            .map(|bytes| bytes.slice(..bytes.len().min(4000)))
            .collect();
        Ok(Response::new(ModelInferResponse {
            model_name: request.model_name,
            model_version: "1".to_owned(),
            id: request.id,
            outputs,
            raw_output_contents,
            ..ModelInferResponse::default()
        }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: true }))
    }

    async fn model_stream_infer(
        &self,
        requests: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Replies>, Status> {
        let replies = requests.into_inner().flat_map(|request| {
            let name = request.map(|request| request.model_name);
            futures::stream::iter(0..MANY).map(move |number| Ok(small(name.clone()?, number)))
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
