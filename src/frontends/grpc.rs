//! The gRPC side: KServe, health and reflection behind one service.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::{Request, Response};
use futures::future::Either;
use hyper::body::Incoming;
use tonic::{codec::CompressionEncoding, service::Routes};
use tonic_health::{ServingStatus, server::HealthReporter};
use tower::Service;

use super::{body::Paced, kserve::grpc::KserveService};
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
    let kserve = GrpcInferenceServiceServer::new(KserveService::new(engine))
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
        kserve,
        others,
        read: limits.read,
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

/// All gRPC services. KServe, which nearly all calls are for, is reached without a router.
#[derive(Clone)]
pub struct GrpcService {
    kserve: GrpcInferenceServiceServer<KserveService>,
    others: Routes,
    read: Duration,
}

impl Service<Request<Incoming>> for GrpcService {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Either<
        tonic::codegen::BoxFuture<Self::Response, Infallible>,
        <Routes as Service<Request<Incoming>>>::Future,
    >;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let ours = request
            .uri()
            .path()
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(SERVICE_NAME))
            .is_some_and(|rest| rest.starts_with('/'));
        if ours {
            let read = self.read;
            Either::Left(self.kserve.call(request.map(|body| Paced::new(body, read))))
        } else {
            Either::Right(self.others.call(request))
        }
    }
}
