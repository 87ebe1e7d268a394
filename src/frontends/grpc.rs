//! The gRPC side: KServe, health and reflection behind one service.

use std::{convert::Infallible, sync::Arc};

use axum::http::{Request, Response};
use futures::{FutureExt, future::BoxFuture};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tonic::{codec::CompressionEncoding, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::Service;

use super::{
    body::Paced,
    intake::Intake,
    kserve::{grpc::KserveService, stream, triton},
    reply,
    tfs::grpc::TfsService,
    unary::{self, Unary, UnaryBody},
};
use crate::{
    engine::Engine,
    proto::{
        DESCRIPTORS,
        kserve::grpc_inference_service_server::{GrpcInferenceServiceServer, SERVICE_NAME},
        tensorflow_serving::{
            model_service_server::{self, ModelServiceServer},
            prediction_service_server::{self, PredictionServiceServer},
        },
    },
    sequence::Line,
};

/// What the paths of TensorFlow Serving's services begin with.
const TENSORFLOW_SERVING: &str = "/tensorflow.serving.";

/// Makes the gRPC service of an engine, and the switch of its health service.
///
/// # Panics
///
/// Never: the descriptors are those that this crate was compiled with.
#[must_use]
pub fn service(engine: Arc<Engine>, intake: Intake) -> (GrpcService, Health) {
    let infer = KserveService::new(Arc::clone(&engine));
    let predict = TfsService::new(engine);
    let kserve = GrpcInferenceServiceServer::new(infer.clone())
        .max_decoding_message_size(intake.message_size())
        .max_encoding_message_size(intake.message_size())
        .accept_compressed(CompressionEncoding::Gzip);
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let others = Routes::new(health)
        .add_service(
            PredictionServiceServer::new(predict.clone())
                .max_decoding_message_size(intake.message_size())
                .max_encoding_message_size(intake.message_size())
                .accept_compressed(CompressionEncoding::Gzip),
        )
        .add_service(
            ModelServiceServer::new(predict.clone())
                .max_decoding_message_size(intake.message_size())
                .accept_compressed(CompressionEncoding::Gzip),
        )
        // Tools ask for the first version or for the one before it.
        .add_service(reflection().build_v1().expect("own descriptors are valid"))
        .add_service(
            reflection()
                .build_v1alpha()
                .expect("own descriptors are valid"),
        )
        .prepare();
    let service = GrpcService {
        infer,
        predict,
        kserve,
        others,
        intake,
        line: Line::default(),
    };
    (service, Health(reporter))
}

/// The switch of the standard health service (`grpc.health.v1.Health`).
#[derive(Clone)]
pub struct Health(HealthReporter);

impl Health {
    /// The server as a whole, and each service.
    const NAMES: [&str; 4] = [
        "",
        SERVICE_NAME,
        prediction_service_server::SERVICE_NAME,
        model_service_server::SERVICE_NAME,
    ];

    /// Says of the server as a whole, and of each service, whether they serve.
    pub async fn set(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in Self::NAMES {
            self.0.set_service_status(name, status).await;
        }
    }

    /// Ends the streams of those who watch, who would otherwise keep their connections open.
    pub async fn end(&mut self) {
        for name in Self::NAMES {
            self.0.clear_service_status(name).await;
        }
    }
}

/// All gRPC services. Inference, which nearly all calls are for, has a path of its own; the rest
/// of KServe is reached without a router.
#[derive(Clone)]
pub struct GrpcService {
    infer: KserveService,
    predict: TfsService,
    kserve: GrpcInferenceServiceServer<KserveService>,
    others: Routes,
    intake: Intake,
    /// The calls of the connection.
    line: Line,
}

impl hyper::service::Service<Request<Incoming>> for GrpcService {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if unary::takes::<TfsService>(&request) {
            return self.unary(self.predict.clone(), request);
        }
        if unary::takes::<KserveService>(&request) {
            return self.unary(self.infer.clone(), request);
        }
        if request.uri().path() == stream::PATH {
            let engine = Arc::clone(self.infer.engine());
            let answer = stream::call(engine, &self.intake, request).map(GrpcBody::Right);
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if !unary::is::<KserveService>(&request) && !unary::is::<TfsService>(&request) {
            return self.general(request);
        }
        let mut request = request;
        let arrival = self.line.arrive();
        request.extensions_mut().insert(Arc::clone(&arrival));
        Box::pin(arrival.run(self.general(request)))
    }
}

impl GrpcService {
    /// Returns the service for another connection.
    #[must_use]
    pub fn connected(&self) -> Self {
        Self {
            line: Line::default(),
            ..self.clone()
        }
    }

    /// Answers an inference.
    fn unary<C: Unary>(&self, service: C, request: Request<Incoming>) -> Answer {
        let intake = self.intake.clone();
        // Here, since this is called for one request after the other.
        let arrival = self.line.arrive();
        let call = unary::call(service, intake, request, Arc::clone(&arrival));
        Box::pin(arrival.run(call.map(|response| Ok(response.map(GrpcBody::Left)))))
    }

    /// Answers any other call.
    fn general(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        let method = path
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(SERVICE_NAME))
            .and_then(|rest| rest.strip_prefix('/'));
        if let Some(method) = method {
            if let Some(answer) = triton::answer_call(method) {
                return Box::pin(std::future::ready(Ok(answer.map(GrpcBody::Left))));
            }
            let mut kserve = self.kserve.clone();
            let request = self.paced(request);
            Box::pin(async move {
                let answer = kserve.call(request);
                Ok(answer.await?.map(GrpcBody::Right))
            })
        } else if path.starts_with(TENSORFLOW_SERVING) {
            let answer = self.others.clone().call(self.paced(request));
            Box::pin(async move { Ok(answer.await?.map(GrpcBody::Right)) })
        } else {
            // Streams of reflection may pause.
            let answer = self.others.clone().call(request);
            Box::pin(async move { Ok(answer.await?.map(GrpcBody::Right)) })
        }
    }

    /// Bounds the body of a request; what goes wrong is a status, so that the text reaches the
    /// client.
    fn paced(
        &self,
        request: Request<Incoming>,
    ) -> Request<impl hyper::body::Body<Data = bytes::Bytes, Error = tonic::Status> + Unpin + use<>>
    {
        let (parts, body) = request.into_parts();
        let body = Paced::new(body, &self.intake, &parts.extensions)
            .counted(&self.intake)
            .map_err(|error| reply::status(&error));
        Request::from_parts(parts, body)
    }
}

/// An answer to come.
type Answer = BoxFuture<'static, Result<Response<GrpcBody>, Infallible>>;

/// The body of an answer, from either path.
pub type GrpcBody = http_body_util::Either<UnaryBody, tonic::body::Body>;
