//! A bare tonic service with the same messages: it answers a request with its own tensor, and on a
//! stream with many small ones. It can run a raw inference for each, of its contents or of those of shared memory, write a
//! value to Redis, or send a message to another process and back; with that it answers each request on a stream too, with as many in flight as the client has.
//!
//! The transport is set as the server's own is (windows, frames, TCP_NODELAY), so that only the
//! work on top of it differs.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    pin::Pin,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openvino::{InferRequest, Tensor};
use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    ServerReadyRequest, ServerReadyResponse,
    grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
    infer_parameter::ParameterChoice,
    model_infer_response::InferOutputTensor,
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::{
    cells,
    graphs::{Beyond, SharedHop},
    jobs::CONCURRENCY,
    raw,
    sequences::RedisConnection,
};

/// Kind of work of an echo service for each request: the least that a server can do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work<'a> {
    Nothing,
    /// An inference of a model's folder.
    Inference {
        library: &'a str,
        model: &'a str,
        source: InputSource,
    },
    /// A message to another process and back.
    Hop(Beyond),
    /// A value written to Redis, on a port of loopback.
    Store(u16),
}

/// Origin of the numbers of an inference, which are copied once, into its tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InputSource {
    /// The request.
    Request,
    /// Shared memory that has a place for each client, one after the other.
    Shared,
}

/// An infer request, with its input and the file that this is read from.
struct Inference {
    request: InferRequest,
    input: Tensor,
    shared: Option<File>,
    /// Place of the next input in the file.
    next: usize,
}

impl Inference {
    fn new(library: &str, model: &str, source: InputSource) -> Self {
        let request = raw::warm_request(library, model);
        let input = request.get_input_tensor().expect("there is one input");
        let size = input.get_byte_size().expect("a tensor has a size");
        let shared = matches!(source, InputSource::Shared).then(|| shared(size));
        Self {
            request,
            input,
            shared,
            next: 0,
        }
    }

    fn run(&mut self, contents: &[u8]) {
        let input = self.input.get_raw_data_mut().expect("it has memory");
        if let Some(shared) = &self.shared {
            let place = (self.next * input.len()) as u64;
            let read = shared.read_exact_at(input, place);
            read.expect("the file has all places");
            self.next = (self.next + 1) % CONCURRENCY;
        } else {
            // Panics where they have another size.
            input.copy_from_slice(contents);
        }
        self.request.infer().expect("an inference");
    }
}

/// Makes a file of shared memory with an input of so many bytes for each client.
fn shared(size: usize) -> File {
    let path = format!("/dev/shm/ovms_bench_echo_{}", std::process::id());
    let options = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = options.expect("the system has shared memory");
    std::fs::remove_file(path).expect("it is there");
    let numbers = cells::numbers(size / 4).flat_map(f32::to_le_bytes);
    let bytes: Vec<u8> = numbers.collect();
    for client in 0..CONCURRENCY {
        let written = file.write_all_at(&bytes, (client * size) as u64);
        written.expect("shared memory has room");
    }
    file
}

/// Work of an echo service, with what it needs.
enum Worker {
    Nothing,
    Inference(Mutex<Inference>),
    Hop(SharedHop),
    Store(RedisConnection),
}

impl Worker {
    /// Makes it, within a runtime.
    async fn new(work: Work<'_>) -> Self {
        match work {
            Work::Nothing => Self::Nothing,
            Work::Inference {
                library,
                model,
                source,
            } => Self::Inference(Mutex::new(Inference::new(library, model, source))),
            Work::Hop(beyond) => Self::Hop(SharedHop::start(beyond)),
            Work::Store(port) => Self::Store(RedisConnection::open(port).await),
        }
    }

    async fn work(&self, request: &ModelInferRequest) {
        match self {
            Self::Nothing => {}
            Self::Inference(inference) => {
                let contents = request.raw_input_contents.first();
                let mut inference = inference.lock().expect("no inference panics");
                inference.run(contents.map_or(&[], |contents| contents));
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
    worker.work(&request).await;
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
        let request = request.into_inner();
        self.0.work(&request).await;
        Ok(Response::new(echoed(request)))
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
