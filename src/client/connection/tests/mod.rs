//! Calls over real sockets to servers that only do what a test needs.

mod tfs;

use std::time::Duration;

use axum::{Router, body::Bytes, http::HeaderMap as Headers, routing};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status};

use super::{Api, Client, ClientOptions, SEQUENCE};
use crate::{
    client::{
        address::Address,
        error::ClientError,
        message::{ClientResponse, ModelId, Request, TensorForm},
    },
    error::chain,
    proto::kserve::{
        ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
        ModelReadyRequest, ModelReadyResponse, RepositoryIndexRequest, RepositoryIndexResponse,
        ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse,
        ServerReadyRequest, ServerReadyResponse,
        grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer},
        model_infer_response::InferOutputTensor,
        model_metadata_response::TensorMetadata,
        repository_index_response::ModelIndex,
    },
    tensor::{DataType, Tensor, TensorMap},
};

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn options(api: Api, port: u16) -> ClientOptions {
    let headers = [crate::client::header("authorization", "let-me-in").unwrap()];
    ClientOptions {
        address: Address::parse(&format!("127.0.0.1:{port}"), api).unwrap(),
        api,
        timeout: Duration::from_secs(10),
        headers: headers.into_iter().collect(),
        concurrency: 1,
        tls: None,
    }
}

fn model(name: &str) -> ModelId {
    ModelId {
        name: name.to_owned(),
        version: None,
    }
}

fn request(form: TensorForm) -> Request {
    let tensor = Tensor::new(DataType::I16, vec![1, 2], vec![1, 0, 2, 0].into()).unwrap();
    Request {
        model: model("echo"),
        id: "7".to_owned(),
        parameters: Vec::new(),
        inputs: TensorMap::from_iter([("x".to_owned(), tensor)]),
        outputs: Vec::new(),
        model_outputs: Vec::new(),
        form,
    }
}

#[tokio::test]
async fn a_route_of_the_caller_is_kept() {
    let mut options = options(Api::KserveRest, 1);
    let request = request(TensorForm::Bytes);
    let client = Client::connect(&options).await.unwrap();
    let headers = |client: &Client, key| client.call_of(5, key, &request).unwrap().headers;
    assert_eq!(headers(&client, None)[SEQUENCE], "5");
    assert!(client.call(&request).unwrap().headers.is_empty());
    let own = crate::client::header("OVMS-Sequence-Id", "mine").unwrap();
    options.headers.extend([own]);
    let client = Client::connect(&options).await.unwrap();
    assert!(headers(&client, None).is_empty());
    let key = reqwest::header::HeaderValue::from_static("k");
    let keyed = headers(&client, Some(&key));
    assert_eq!((keyed.len(), &keyed["ovms-idempotency-key"]), (1, &key));
}

/// Runs a server and a test beside each other until the test ends.
async fn beside<T>(server: impl Future, test: impl Future<Output = T>) -> T {
    tokio::select! {
        _ = server => panic!("the server ended"),
        result = test => result,
    }
}

/// Returns the outcome of each call to a server.
async fn metadata(api: Api, port: u16) -> Result<String, ClientError> {
    let client = Client::connect(&options(api, port)).await?;
    assert!(client.server_metadata().await?.unwrap().is_ready);
    let metadata = client.model_metadata(&model("echo")).await?;
    let input = &metadata.inputs[0];
    Ok(format!("{} {} {}", input.name, input.datatype, input.shape))
}

async fn infer(api: Api, port: u16, form: TensorForm) -> Result<ClientResponse, ClientError> {
    let client = Client::connect(&options(api, port)).await?;
    client.infer(&request(form)).await
}

/// Gives inputs back as outputs, to those who have the header.
struct Echo;

fn admitted<T>(request: tonic::Request<T>) -> Result<T, Status> {
    match request.metadata().get("authorization") {
        Some(_) => Ok(request.into_inner()),
        None => Err(Status::unauthenticated("no header")),
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for Echo {
    async fn server_live(
        &self,
        _: tonic::Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        request: tonic::Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        admitted(request)?;
        Ok(Response::new(ServerReadyResponse { ready: true }))
    }

    async fn model_ready(
        &self,
        _: tonic::Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        Ok(Response::new(ModelReadyResponse { ready: true }))
    }

    async fn server_metadata(
        &self,
        _: tonic::Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse::default()))
    }

    async fn model_metadata(
        &self,
        request: tonic::Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let input = TensorMetadata {
            name: "x".to_owned(),
            datatype: "INT16".to_owned(),
            shape: vec![-1, 2],
        };
        Ok(Response::new(ModelMetadataResponse {
            name: admitted(request)?.name,
            inputs: vec![input],
            ..Default::default()
        }))
    }

    async fn repository_index(
        &self,
        request: tonic::Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        admitted(request)?;
        let entry = |name: &str, version: &str| ModelIndex {
            name: name.to_owned(),
            version: version.to_owned(),
            ..ModelIndex::default()
        };
        let models = vec![entry("echo", "1"), entry("echo", "2"), entry("other", "1")];
        Ok(Response::new(RepositoryIndexResponse { models }))
    }

    async fn model_infer(
        &self,
        request: tonic::Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let request = admitted(request)?;
        if request.model_name != "echo" {
            return Err(Status::not_found("Model with requested name is not found"));
        }
        let output = |input: crate::proto::kserve::model_infer_request::InferInputTensor| {
            InferOutputTensor {
                name: input.name,
                datatype: input.datatype,
                shape: input.shape,
                parameters: input.parameters,
                contents: input.contents,
            }
        };
        Ok(Response::new(ModelInferResponse {
            model_name: request.model_name,
            model_version: "3".to_owned(),
            id: request.id,
            outputs: request.inputs.into_iter().map(output).collect(),
            raw_output_contents: request.raw_input_contents,
            ..Default::default()
        }))
    }
}

fn grpc_server(listener: TcpListener) -> impl Future {
    tonic::transport::Server::builder()
        .add_service(GrpcInferenceServiceServer::new(Echo))
        .serve_with_incoming(TcpListenerStream::new(listener))
}

/// Answers with one binary output if it was asked in binary, else with JSON.
async fn rest_infer(headers: Headers, _: Bytes) -> (Headers, Vec<u8>) {
    let length = "inference-header-content-length";
    let head = r#"{"model_name":"echo","model_version":"3","id":"7","outputs":[{"name":"x","shape":[1,2],"datatype":"INT16","#;
    if headers.contains_key(length) {
        let json = format!(r#"{head}"parameters":{{"binary_data_size":4}}}}]}}"#);
        let value = json.len().to_string().parse().unwrap();
        let answer = Headers::from_iter([(length.parse().unwrap(), value)]);
        (answer, [json.as_bytes(), &[1, 0, 2, 0]].concat())
    } else {
        let json = format!(r#"{head}"data":[1,2]}}]}}"#);
        (Headers::new(), json.into_bytes())
    }
}

fn rest_server(listener: TcpListener) -> impl Future {
    let metadata = r#"{"name":"echo","versions":["3"],"platform":"p","inputs":[{"name":"x","datatype":"INT16","shape":[-1,2]}],"outputs":[]}"#;
    let router = Router::new()
        .route("/v2/health/ready", routing::get(|| async {}))
        .route(
            "/v2",
            routing::get(|| async { r#"{"name":"n","version":"v"}"# }),
        )
        .route(
            "/v2/models/echo",
            routing::get(move || async move { metadata }),
        )
        .route("/v2/models/echo/infer", routing::post(rest_infer))
        .route(
            "/v1/config",
            routing::get(|| async { r#"{"echo":{},"other":{}}"# }),
        )
        .fallback(|| async {
            let status = axum::http::StatusCode::NOT_FOUND;
            (
                status,
                r#"{"error":"Model with requested name is not found"}"#,
            )
        });
    axum::serve(listener, router).into_future()
}

#[tokio::test]
async fn every_wire_gives_metadata_and_answers_in_both_forms() {
    let (grpc, grpc_port) = listen().await;
    let (rest, rest_port) = listen().await;
    let servers = futures::future::join(grpc_server(grpc), rest_server(rest));
    beside(servers, async {
        for (api, port) in [(Api::KserveGrpc, grpc_port), (Api::KserveRest, rest_port)] {
            assert_eq!(
                metadata(api, port).await.unwrap(),
                "x INT16 (-1,2)",
                "{api}"
            );
            for form in [TensorForm::Bytes, TensorForm::Values] {
                let answer = infer(api, port, form).await.unwrap();
                assert_eq!(answer.outputs, request(form).inputs, "{api} {form:?}");
                let ClientResponse {
                    model_name,
                    model_version,
                    id,
                    ..
                } = answer;
                assert_eq!(
                    (&*model_name, &*model_version, &*id),
                    ("echo", "3", "7"),
                    "{api}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_refusal_has_the_servers_code_and_text() {
    let (grpc, grpc_port) = listen().await;
    let (rest, rest_port) = listen().await;
    let servers = futures::future::join(grpc_server(grpc), rest_server(rest));
    beside(servers, async {
        for (api, port, code) in [
            (Api::KserveGrpc, grpc_port, "NOT_FOUND"),
            (Api::KserveRest, rest_port, "404 Not Found"),
        ] {
            let client = Client::connect(&options(api, port)).await.unwrap();
            let request = Request {
                model: model("a b/c"),
                ..request(TensorForm::Bytes)
            };
            let error = client.infer(&request).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the server refused the request: {code}: Model with requested name is not found"
                )
            );
            assert!(matches!(error, ClientError::Refused(refusal) if refusal.is_not_found()));
        }
        for (api, port) in [(Api::KserveGrpc, grpc_port), (Api::KserveRest, rest_port)] {
            let client = Client::connect(&options(api, port)).await.unwrap();
            assert_eq!(client.model_names().await.unwrap(), ["echo", "other"]);
        }
    })
    .await;
}

#[tokio::test]
async fn the_wrong_protocol_is_distinguished_from_no_server() {
    let (grpc, grpc_port) = listen().await;
    let (rest, rest_port) = listen().await;
    let (old, old_port) = listen().await;
    let (gone, gone_port) = listen().await;
    drop(gone);
    // HTTP/1 and nothing else, and not ready.
    let old_server = async {
        loop {
            let (mut stream, _) = old.accept().await.unwrap();
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            let _ = stream
                .write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
                .await;
        }
    };
    let servers = futures::future::join3(grpc_server(grpc), rest_server(rest), old_server);
    let test = async {
        for (api, port, other) in [
            (Api::KserveGrpc, rest_port, Some(Api::KserveRest)),
            (Api::KserveGrpc, old_port, Some(Api::KserveRest)),
            (Api::KserveRest, grpc_port, Some(Api::KserveGrpc)),
            (Api::KserveGrpc, gone_port, None),
            (Api::KserveRest, gone_port, None),
        ] {
            let error = metadata(api, port).await.unwrap_err();
            let found = Client::other_api(&options(api, port)).await;
            assert_eq!(found, other, "{api}: {}", chain(&error));
            if other.is_none() {
                let text = format!("no server answers at 127.0.0.1:{port}");
                assert_eq!(error.to_string(), text);
            }
        }
    };
    beside(servers, Box::pin(test)).await;
}

#[tokio::test]
async fn the_limit_ends_a_wait_for_an_answer() {
    let (silent, port) = listen().await;
    for api in [Api::KserveGrpc, Api::KserveRest] {
        let mut options = options(api, port);
        options.timeout = Duration::from_millis(20);
        let client = Client::connect(&options).await.unwrap();
        let error = client.infer(&request(TensorForm::Bytes)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no answer from 127.0.0.1:{port} within 20ms")
        );
    }
    drop(silent);
}
