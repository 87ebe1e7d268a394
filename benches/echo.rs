//! A bare tonic service with the same messages: it answers a request with its own tensor, and on a
//! stream with many small ones. It can run a raw inference for each, write a value to Redis, or send a message to another
//! process and back; with that it answers each request on a stream too, with as many in flight as the client has.
//!
//! The transport is set as the server's own is (windows, frames, TCP_NODELAY), so that only the
//! work on top of it differs.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

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
    jobs::CONCURRENCY,
    raw,
    sequences::RedisConnection,
};

/// Kind of work of an echo service for each request: the least that a server can do.
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
    /// A value written to Redis, on a port of loopback.
    Store(u16),
}

/// Work of an echo service, with what it needs.
enum Worker {
    Nothing,
    Inference(Mutex<InferRequest>),
    Hop(SharedHop),
    Store(RedisConnection),
}

impl Worker {
    /// Makes it, within a runtime.
    async fn new(work: Work<'_>) -> Self {
        match work {
            Work::Nothing => Self::Nothing,
            Work::Inference { library, model } => {
                Self::Inference(Mutex::new(raw::warm_request(library, model)))
            }
            Work::Hop(beyond) => Self::Hop(SharedHop::start(beyond)),
            Work::Store(port) => Self::Store(RedisConnection::open(port).await),
        }
    }

    async fn work(&self) {
        match self {
            Self::Nothing => {}
            Self::Inference(inference) => {
                let mut inference = inference.lock().expect("no inference panics");
                inference.infer().expect("an inference");
            }
            Self::Hop(hop) => hop.pass().await,
            Self::Store(redis) => redis.set().await,
        }
    }
}

struct Echo(Arc<Worker>);

/// Serves on a port of loopback until killed.
pub(crate) fn run(port: u16, work: Work<'_>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads can be had");
    runtime.block_on(async {
        let echo = Echo(Arc::new(Worker::new(work).await));
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

/// Returns the response to a single request: its own tensor.
fn echoed(request: ModelInferRequest) -> ModelInferResponse {
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
    ModelInferResponse {
        model_name: request.model_name,
        model_version: "1".to_owned(),
        id: request.id,
        outputs,
        raw_output_contents,
        ..ModelInferResponse::default()
    }
}

/// Returns the response to a request on a stream, once the work for it is done.
async fn passed(
    worker: Arc<Worker>,
    request: Result<ModelInferRequest, Status>,
) -> Result<ModelStreamInferResponse, Status> {
    let request = request?;
    worker.work().await;
    Ok(ModelStreamInferResponse {
        infer_response: Some(echoed(request)),
        ..ModelStreamInferResponse::default()
    })
}

type Replies = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

#[tonic::async_trait]
impl GrpcInferenceService for Echo {
    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        self.0.work().await;
        Ok(Response::new(echoed(request.into_inner())))
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
        let requests = requests.into_inner();
        if matches!(*self.0, Worker::Hop(_)) {
            let worker = Arc::clone(&self.0);
            let replies = requests.map(move |request| passed(Arc::clone(&worker), request));
            return Ok(Response::new(Box::pin(replies.buffered(CONCURRENCY))));
        }
        let replies = requests.flat_map(|request| {
            let name = request.map(|request| request.model_name);
            futures::stream::iter(0..MANY).map(move |number| Ok(small(name.clone()?, number)))
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
