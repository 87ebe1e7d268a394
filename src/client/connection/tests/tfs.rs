//! TensorFlow Serving's protocols, spoken by servers that have nothing else.

use axum::{Router, http::Uri, routing};
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status};

use super::{Api, Client, admitted, beside, grpc_server, listen, model, options, request};
use crate::{
    client::{
        error::{ClientError, RequestError},
        message::{ModelId, TensorForm},
    },
    error::chain,
    proto::{
        tensorflow::{
            DataType as TfType, SignatureDef, TensorInfo, TensorShapeProto, tensor_shape_proto::Dim,
        },
        tensorflow_serving::{
            ClassificationRequest, ClassificationResponse, GetModelMetadataRequest,
            GetModelMetadataResponse, GetModelStatusRequest, GetModelStatusResponse, ModelSpec,
            ModelVersionStatus, MultiInferenceRequest, MultiInferenceResponse, PredictRequest,
            PredictResponse, RegressionRequest, RegressionResponse, ReloadConfigRequest,
            ReloadConfigResponse, SignatureDefMap, StatusProto,
            model_service_server::{ModelService, ModelServiceServer},
            model_spec::VersionChoice,
            model_version_status::State,
            prediction_service_server::{PredictionService, PredictionServiceServer},
        },
    },
};

const UNKNOWN: &str = "Model with requested name is not found";

const METADATA: &str = r#"{"modelSpec":{"name":"echo","version":"3"},"metadata":{"signature_def":{"signatureDef":{"serving_default":{"inputs":{"x":{"dtype":"DT_INT16","tensorShape":{"dim":[{"size":"-1"},{"size":"2"}]}}},"outputs":{"x":{"dtype":"DT_INT16","tensorShape":{"dim":[{"size":"-1"},{"size":"2"}]}}}}}}}}"#;

const STATUS: &str = r#"{"model_version_status":[{"version":"3","state":"AVAILABLE","status":{"error_code":"OK","error_message":"OK"}},{"version":"2","state":"END","status":{"error_code":"OK","error_message":"OK"}}]}"#;

/// Gives inputs back as outputs, to those who have the header.
#[derive(Clone, Copy)]
struct Echo;

fn known(spec: Option<ModelSpec>) -> Result<ModelSpec, Status> {
    spec.filter(|spec| spec.name == "echo")
        .ok_or_else(|| Status::not_found(UNKNOWN))
}

fn spec() -> ModelSpec {
    ModelSpec {
        name: "echo".to_owned(),
        version_choice: Some(VersionChoice::Version(3)),
        signature_name: String::new(),
    }
}

#[tonic::async_trait]
impl PredictionService for Echo {
    async fn classify(
        &self,
        _: tonic::Request<ClassificationRequest>,
    ) -> Result<Response<ClassificationResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn regress(
        &self,
        _: tonic::Request<RegressionRequest>,
    ) -> Result<Response<RegressionResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn multi_inference(
        &self,
        _: tonic::Request<MultiInferenceRequest>,
    ) -> Result<Response<MultiInferenceResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn predict(
        &self,
        request: tonic::Request<PredictRequest>,
    ) -> Result<Response<PredictResponse>, Status> {
        let request = admitted(request)?;
        known(request.model_spec)?;
        Ok(Response::new(PredictResponse {
            outputs: request.inputs,
            model_spec: Some(spec()),
        }))
    }

    async fn get_model_metadata(
        &self,
        request: tonic::Request<GetModelMetadataRequest>,
    ) -> Result<Response<GetModelMetadataResponse>, Status> {
        let request = admitted(request)?;
        known(request.model_spec)?;
        assert_eq!(request.metadata_field, ["signature_def"]);
        let dim = |size| Dim {
            size,
            name: String::new(),
        };
        let tensor = TensorInfo {
            name: "x".to_owned(),
            dtype: TfType::DtInt16.into(),
            tensor_shape: Some(TensorShapeProto {
                dim: vec![dim(-1), dim(2)],
                unknown_rank: false,
            }),
        };
        let signature = SignatureDef {
            inputs: [("x".to_owned(), tensor)].into(),
            ..Default::default()
        };
        let signatures = SignatureDefMap {
            signature_def: [("serving_default".to_owned(), signature)].into(),
        };
        let any = prost_types::Any {
            type_url: "type.googleapis.com/tensorflow.serving.SignatureDefMap".to_owned(),
            value: signatures.encode_to_vec(),
        };
        Ok(Response::new(GetModelMetadataResponse {
            model_spec: Some(spec()),
            metadata: [("signature_def".to_owned(), any)].into(),
        }))
    }
}

#[tonic::async_trait]
impl ModelService for Echo {
    async fn get_model_status(
        &self,
        request: tonic::Request<GetModelStatusRequest>,
    ) -> Result<Response<GetModelStatusResponse>, Status> {
        known(admitted(request)?.model_spec)?;
        let status = |version, state: State| ModelVersionStatus {
            version,
            state: state.into(),
            status: Some(StatusProto {
                error_code: 0,
                error_message: "OK".to_owned(),
            }),
        };
        Ok(Response::new(GetModelStatusResponse {
            model_version_status: vec![status(3, State::Available), status(2, State::End)],
        }))
    }

    async fn handle_reload_config_request(
        &self,
        _: tonic::Request<ReloadConfigRequest>,
    ) -> Result<Response<ReloadConfigResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

fn tfs_grpc_server(listener: TcpListener) -> impl Future {
    tonic::transport::Server::builder()
        .add_service(PredictionServiceServer::new(Echo))
        .add_service(ModelServiceServer::new(Echo))
        .serve_with_incoming(TcpListenerStream::new(listener))
}

fn tfs_rest_server(listener: TcpListener) -> impl Future {
    // The same text whatever the path, as some servers have it.
    let unknown = |_: Uri| async {
        let status = axum::http::StatusCode::NOT_FOUND;
        (status, format!(r#"{{"error":"{UNKNOWN}"}}"#))
    };
    let predict = |body: String| async move {
        assert_eq!(body, r#"{"inputs":{"x":[[1,2]]}}"#);
        r#"{"outputs":[[1,2]]}"#
    };
    let router = Router::new()
        .route("/v1/models/echo", routing::get(|| async { STATUS }))
        .route(
            "/v1/models/echo/metadata",
            routing::get(|| async { METADATA }),
        )
        .route("/v1/models/echo:predict", routing::post(predict))
        .route(
            "/v1/config",
            routing::get(|| async { format!(r#"{{"echo":{STATUS}}}"#) }),
        )
        .fallback(unknown);
    axum::serve(listener, router).into_future()
}

/// Runs a test with a client of each protocol.
async fn with_each(test: impl AsyncFn(Api, Client)) {
    let (grpc, grpc_port) = listen().await;
    let (rest, rest_port) = listen().await;
    let servers = futures::future::join(tfs_grpc_server(grpc), tfs_rest_server(rest));
    let tests = async {
        for (api, port) in [(Api::TfsGrpc, grpc_port), (Api::TfsRest, rest_port)] {
            let client = Client::connect(&options(api, port)).await.unwrap();
            test(api, client).await;
        }
    };
    beside(servers, Box::pin(tests)).await;
}

#[tokio::test]
async fn models_are_asked_for_and_answer() {
    with_each(async |api, client| {
        assert!(client.server_ready().await.unwrap());
        assert_eq!(client.server_metadata().await.unwrap(), None);
        let metadata = client.model_metadata(&model("echo")).await.unwrap();
        let input = &metadata.inputs[0];
        let reported = format!("{} {} {}", input.name, input.datatype, input.shape);
        assert_eq!(reported, "x INT16 (-1,2)", "{api}");
        assert_eq!(metadata.versions, ["3"], "{api}");
        for form in [TensorForm::Bytes, TensorForm::Values] {
            let mut request = request(form);
            request.id.clear();
            request.model_outputs.clone_from(&metadata.outputs);
            let answer = client.infer(&request).await.unwrap();
            assert_eq!(answer.outputs, request.inputs, "{api} {form:?}");
            assert_eq!(answer.model_name, "echo");
            let version = if api == Api::TfsGrpc { "3" } else { "" };
            assert_eq!(answer.model_version, version, "{api}");
        }
    })
    .await;
}

#[tokio::test]
async fn states_come_in_the_servers_words() {
    with_each(async |api, client| {
        let status = client.model_status(&model("echo")).await.unwrap();
        let reported: Vec<_> = status
            .versions
            .iter()
            .map(|it| (&*it.version, &*it.state, it.is_ready(), &*it.message))
            .collect();
        let expected = [("3", "AVAILABLE", true, ""), ("2", "END", false, "")];
        assert_eq!(reported, expected, "{api}");
        match api {
            Api::TfsRest => assert_eq!(client.models().await.unwrap(), [status]),
            // A server without KServe has no list over gRPC.
            _ => {
                let error = client.models().await.unwrap_err();
                let is_unknown = matches!(&error, ClientError::Refused(it) if it.is_unknown_call());
                assert!(is_unknown, "{}", chain(&error));
                assert_eq!(client.model_names().await, None);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_model_that_is_not_there_is_refused_with_the_servers_text() {
    with_each(async |api, client| {
        let other = model("other");
        let mut request = request(TensorForm::Values);
        request.id.clear();
        request.model = other.clone();
        for error in [
            client.model_status(&other).await.unwrap_err(),
            client.model_metadata(&other).await.unwrap_err(),
            client.infer(&request).await.unwrap_err(),
        ] {
            let ClientError::Refused(refusal) = error else {
                panic!("{api}: {}", chain(&error));
            };
            assert!(refusal.is_not_found(), "{api}");
            assert_eq!(refusal.message, UNKNOWN, "{api}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_the_protocols_have_no_place_for_is_refused() {
    with_each(async |api, client| {
        let error = client
            .infer(&request(TensorForm::Values))
            .await
            .unwrap_err();
        let text = format!("cannot write the request: {api} has no request id");
        assert_eq!(chain(&error), text);
        if api == Api::TfsGrpc {
            let id = ModelId {
                version: Some("9223372036854775808".to_owned()),
                ..model("echo")
            };
            let error = client.model_status(&id).await.unwrap_err();
            assert!(matches!(
                error,
                ClientError::Request(RequestError::Version(_))
            ));
        }
    })
    .await;
}

#[tokio::test]
async fn another_protocol_on_the_port_is_found() {
    let (kserve, kserve_port) = listen().await;
    let (grpc, grpc_port) = listen().await;
    let (rest, rest_port) = listen().await;
    let servers = futures::future::join3(
        grpc_server(kserve),
        tfs_grpc_server(grpc),
        tfs_rest_server(rest),
    );
    let test = async {
        for (asked, port, found) in [
            (Api::TfsGrpc, kserve_port, Some(Api::KserveGrpc)),
            (Api::KserveGrpc, grpc_port, Some(Api::TfsGrpc)),
            (Api::TfsRest, grpc_port, Some(Api::TfsGrpc)),
            (Api::KserveRest, rest_port, Some(Api::TfsRest)),
            (Api::TfsGrpc, grpc_port, None),
            (Api::TfsRest, rest_port, None),
        ] {
            let other = Client::other_api(&options(asked, port)).await;
            assert_eq!(other, found, "{asked}");
        }
    };
    beside(servers, Box::pin(test)).await;
}
