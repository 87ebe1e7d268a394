//! The gRPC side: KServe, health and reflection behind one service.

use std::{convert::Infallible, sync::Arc};

use axum::http::{Request, Response};
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tonic::{codec::CompressionEncoding, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::Service;

use super::{
    body::Paced,
    kserve::{
        grpc::KserveService,
        unary::{self, UnaryBody},
    },
    reply,
};
use crate::{
    config::Limits,
    engine::Engine,
    proto::{
        DESCRIPTORS,
        kserve::grpc_inference_service_server::{GrpcInferenceServiceServer, SERVICE_NAME},
    },
};

/// Makes the gRPC service of an engine, and the switch of its health service.
///
/// # Panics
///
/// Never: the descriptors are those that this crate was compiled with.
#[must_use]
pub fn service(engine: Arc<Engine>, limits: &Limits) -> (GrpcService, Health) {
    let infer = KserveService::new(engine);
    let kserve = GrpcInferenceServiceServer::new(infer.clone())
        .max_decoding_message_size(limits.message_size)
        .max_encoding_message_size(limits.message_size)
        .accept_compressed(CompressionEncoding::Gzip);
    let (reporter, health) = tonic_health::server::health_reporter();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let others = Routes::new(health)
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
        kserve,
        others,
        limits: Arc::new(limits.clone()),
    };
    (service, Health(reporter))
}

/// The switch of the standard health service (`grpc.health.v1.Health`).
#[derive(Clone)]
pub struct Health(HealthReporter);

impl Health {
    /// Says of the server as a whole, and of the KServe service, whether they serve.
    pub async fn set(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in ["", SERVICE_NAME] {
            self.0.set_service_status(name, status).await;
        }
    }
}

/// All gRPC services. Inference, which nearly all calls are for, has a path of its own; the rest
/// of KServe is reached without a router.
#[derive(Clone)]
pub struct GrpcService {
    infer: KserveService,
    kserve: GrpcInferenceServiceServer<KserveService>,
    others: Routes,
    limits: Arc<Limits>,
}

impl hyper::service::Service<Request<Incoming>> for GrpcService {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let path = request.uri().path();
        if path == unary::PATH && unary::takes(&request) {
            let service = self.infer.clone();
            let limits = Arc::clone(&self.limits);
            return Box::pin(async move {
                let response = unary::call(&service, &limits, request).await;
                Ok(response.map(GrpcBody::Left))
            });
        }
        let ours = path
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(SERVICE_NAME))
            .is_some_and(|rest| rest.starts_with('/'));
        if ours {
            let read = self.limits.read;
            let mut kserve = self.kserve.clone();
            Box::pin(async move {
                // As a status, so that the text reaches the client.
                let body = |body| Paced::new(body, read).map_err(|error| reply::status(&error));
                let answer = kserve.call(request.map(body));
                Ok(answer.await?.map(GrpcBody::Right))
            })
        } else {
            let answer = self.others.clone().call(request);
            Box::pin(async move { Ok(answer.await?.map(GrpcBody::Right)) })
        }
    }
}

/// The body of an answer, from either path.
pub type GrpcBody = http_body_util::Either<UnaryBody, tonic::body::Body>;
