//! A fake server of graphs, whose responses on streams are set by the requests.
//!
//! Its one servable `graph` has inputs without types. A request whose `count` parameter is N gets N
//! responses; others get each input back as a response of its own, all with the timestamp of the
//! request. Texts of inputs can request errors.

use std::{collections::HashMap, pin::Pin, time::Duration};

use futures::{Stream, StreamExt as _};
use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelMetadataRequest,
    ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse, ModelStreamInferResponse,
    ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
    ServerReadyRequest, ServerReadyResponse,
    grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
    infer_parameter::ParameterChoice,
    model_infer_response::InferOutputTensor,
    model_metadata_response::TensorMetadata,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// Name of the timestamp parameter.
const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// A server that runs until it is dropped.
pub(crate) struct Generator {
    pub(crate) port: u16,
    /// Ends its tasks when dropped.
    _runtime: tokio::runtime::Runtime,
}

impl Generator {
    /// Starts the server.
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be had");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("the system has a port");
        let port = listener.local_addr().expect("it is bound").port();
        let server = tonic::transport::Server::builder()
            .add_service(GrpcInferenceServiceServer::new(Graphs))
            .serve_with_incoming(TcpListenerStream::new(listener));
        runtime.spawn(server);
        Self {
            port,
            _runtime: runtime,
        }
    }
}

struct Graphs;

type Replies = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

/// Creates one response of a graph.
fn packet(name: &str, datatype: &str, data: &[u8], timestamp: i64) -> ModelStreamInferResponse {
    let stamp = InferParameter {
        parameter_choice: Some(ParameterChoice::Int64Param(timestamp)),
    };
    let output = InferOutputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: vec![1],
        ..InferOutputTensor::default()
    };
    ModelStreamInferResponse {
        infer_response: Some(ModelInferResponse {
            model_name: "graph".to_owned(),
            model_version: "1".to_owned(),
            parameters: HashMap::from([(TIMESTAMP.to_owned(), stamp)]),
            outputs: vec![output],
            raw_output_contents: vec![data.to_vec().into()],
            ..ModelInferResponse::default()
        }),
        ..ModelStreamInferResponse::default()
    }
}

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("texts are short");
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}

fn number(request: &ModelInferRequest, key: &str) -> Option<i64> {
    match request.parameters.get(key)?.parameter_choice {
        Some(ParameterChoice::Int64Param(value)) => Some(value),
        _ => None,
    }
}

/// Answers one request.
fn answers<'a>(
    request: &'a ModelInferRequest,
    next: &mut i64,
) -> Box<dyn Iterator<Item = Result<ModelStreamInferResponse, Status>> + Send + 'a> {
    let at = number(request, TIMESTAMP).unwrap_or(*next);
    *next = at + 1;
    if let Some(count) = number(request, "count") {
        let packets = (0..count).map(move |index| {
            let word = text(&format!("word{index}"));
            Ok(packet("out", "BYTES", &word, at + index))
        });
        return Box::new(packets);
    }
    let mut all = Vec::new();
    for (input, data) in request.inputs.iter().zip(&request.raw_input_contents) {
        let said = String::from_utf8_lossy(data);
        if said.ends_with("error") {
            all.push(Ok(ModelStreamInferResponse {
                error_message: "Unexpected input - x; partial deserialization".to_owned(),
                ..ModelStreamInferResponse::default()
            }));
        } else if said.ends_with("broken") {
            all.push(Err(Status::invalid_argument("Mediapipe execution failed.")));
        } else if said.ends_with("bare") {
            // Without the length before it, as handlers of graphs may.
            all.push(Ok(packet(&input.name, "BYTES", &data[4..], at)));
        } else if said.ends_with("own type") {
            all.push(Ok(packet(&input.name, "my_type", data, at)));
        } else {
            let mut packet = packet(&input.name, &input.datatype, data, at);
            if let Some(response) = &mut packet.infer_response {
                response.outputs[0].shape.clone_from(&input.shape);
            }
            all.push(Ok(packet));
        }
    }
    Box::new(all.into_iter())
}

#[tonic::async_trait]
impl GrpcInferenceService for Graphs {
    async fn server_live(
        &self,
        _: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: true }))
    }

    async fn model_ready(
        &self,
        _: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        Ok(Response::new(ModelReadyResponse { ready: true }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse::default()))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let open = |name: &str| TensorMetadata {
            name: name.to_owned(),
            datatype: "INVALID".to_owned(),
            shape: Vec::new(),
        };
        Ok(Response::new(ModelMetadataResponse {
            name: request.into_inner().name,
            versions: vec!["1".to_owned()],
            platform: "OpenVINO".to_owned(),
            inputs: vec![open("in"), open("text")],
            outputs: vec![open("out")],
            ..ModelMetadataResponse::default()
        }))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let answers = answers(request.get_ref(), &mut 0);
        let mut whole = ModelInferResponse {
            model_name: "graph".to_owned(),
            model_version: "1".to_owned(),
            ..ModelInferResponse::default()
        };
        for answer in answers {
            let response = answer?.infer_response.unwrap_or_default();
            whole.outputs.extend(response.outputs);
            whole
                .raw_output_contents
                .extend(response.raw_output_contents);
        }
        Ok(Response::new(whole))
    }

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Replies>, Status> {
        let mut requests = request.into_inner();
        let (sender, replies) = tokio::sync::mpsc::channel(1);
        // As servers do that send the head with the first message.
        let Some(first) = requests.message().await? else {
            return Err(Status::invalid_argument("no request"));
        };
        let talk = async move {
            let first = futures::stream::iter([Ok(first)]);
            let mut requests = first.chain(requests);
            let mut next = 0;
            while let Some(Ok(request)) = requests.next().await {
                if request.parameters.contains_key("silence") {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                }
                for answer in answers(&request, &mut next) {
                    if sender.send(answer).await.is_err() {
                        return;
                    }
                }
            }
        };
        ovms::task::Task::spawn(talk).detach();
        Ok(Response::new(Box::pin(ReceiverStream::new(replies))))
    }
}
