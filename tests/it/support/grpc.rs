//! A gRPC client for tests: tonic's own, with requests that are easy to modify.

use std::{future::Future, time::Duration};

use ovms::proto::kserve::{
    InferTensorContents, ModelInferRequest, ModelInferResponse, ServerLiveRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use tokio::task::JoinHandle;
use tonic::{IntoRequest, Status, transport::Channel};

use super::Server;

/// A client with a runtime of its own.
pub(crate) struct Grpc {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) client: GrpcInferenceServiceClient<Channel>,
    pub(crate) channel: Channel,
}

/// A request in flight; dropping it leaves the server without its client.
pub(crate) struct Call<'a> {
    answer: JoinHandle<Result<ModelInferResponse, Status>>,
    runtime: &'a tokio::runtime::Runtime,
}

impl Call<'_> {
    /// Waits for the answer.
    pub(crate) fn wait(mut self) -> Result<ModelInferResponse, Status> {
        self.runtime
            .block_on(&mut self.answer)
            .expect("nobody aborts the task")
    }

    /// Returns whether the response has arrived.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_finished()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.answer.abort();
    }
}

impl Grpc {
    /// Connects to a server.
    pub(crate) fn connect(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be had");
        let channel = runtime
            .block_on(
                Channel::from_shared(format!("http://127.0.0.1:{}", server.port))
                    .expect("the address is valid")
                    .timeout(Duration::from_secs(60))
                    .connect(),
            )
            .expect("the server listens");
        let client = GrpcInferenceServiceClient::new(channel.clone())
            .max_decoding_message_size(1 << 30)
            .max_encoding_message_size(1 << 30);
        Self {
            runtime,
            client,
            channel,
        }
    }

    /// Waits for a call of any kind: `client.wait(client.client.clone().server_live(…))`.
    pub(crate) fn wait<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Status> {
        self.runtime.block_on(call).map(tonic::Response::into_inner)
    }

    /// Starts one inference request.
    pub(crate) fn call(&self, request: ModelInferRequest) -> Call<'_> {
        let mut client = self.client.clone();
        let answer = async move { client.model_infer(request).await };
        Call {
            answer: self
                .runtime
                .spawn(async move { answer.await.map(tonic::Response::into_inner) }),
            runtime: &self.runtime,
        }
    }

    /// Sends one inference request.
    pub(crate) fn infer(
        &self,
        request: impl IntoRequest<ModelInferRequest>,
    ) -> Result<ModelInferResponse, Status> {
        let (mut client, request) = (self.client.clone(), request.into_request());
        self.wait(async move { client.model_infer(request).await })
    }

    /// Sends a request that must succeed.
    pub(crate) fn answered(&self, request: ModelInferRequest) -> ModelInferResponse {
        self.infer(request).expect("the request is good")
    }

    /// Sends a request that must be refused; returns its code and text.
    pub(crate) fn refused(&self, request: ModelInferRequest) -> String {
        error(&self.infer(request).expect_err("the request is bad"))
    }

    /// Makes a call over the same connection, so that everything written before has been read.
    pub(crate) fn round_trip(&self) {
        let mut client = self.client.clone();
        // A server that stops may refuse it; that is an answer as well.
        let _ = self.wait(async move { client.server_live(ServerLiveRequest {}).await });
    }

    /// Asserts that the server answers a valid request for the model `dummy`.
    pub(crate) fn check_serves(&self) {
        let answer = self.answered(dummy());
        assert_eq!(to_floats(&answer.raw_output_contents[0]), [2.0; 10]);
    }
}

/// Returns code and text of a status in one line.
pub(crate) fn error(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// Makes a request with one raw input.
pub(crate) fn raw(
    model: &str,
    name: &str,
    datatype: &str,
    shape: &[i64],
    data: &[u8],
) -> ModelInferRequest {
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![input(name, datatype, shape)],
        raw_input_contents: vec![data.to_vec().into()],
        ..ModelInferRequest::default()
    }
}

/// Makes a request with one input of typed contents.
pub(crate) fn typed(
    model: &str,
    name: &str,
    datatype: &str,
    shape: &[i64],
    contents: InferTensorContents,
) -> ModelInferRequest {
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![InferInputTensor {
            contents: Some(contents),
            ..input(name, datatype, shape)
        }],
        ..ModelInferRequest::default()
    }
}

/// Makes an input without data.
pub(crate) fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

/// Makes a requested output.
pub(crate) fn wanted(name: &str) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor {
        name: name.to_owned(),
        ..InferRequestedOutputTensor::default()
    }
}

/// Returns a valid request for the model `dummy`: ten numbers.
pub(crate) fn dummy() -> ModelInferRequest {
    raw("dummy", "b", "FP32", &[1, 10], &floats(&[1.0; 10]))
}

/// Packs numbers.
pub(crate) fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

/// Unpacks numbers.
pub(crate) fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().expect("chunks of four")))
        .collect()
}
