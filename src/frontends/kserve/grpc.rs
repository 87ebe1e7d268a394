//! The KServe v2 service over gRPC.

use std::{future::ready, pin::pin};

use axum::http::{Request, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use tonic::Status;

use super::{REPOSITORY, SETTING, codec, shared_memory, unserved};
use crate::{
    budget::{Budget, Charge},
    error::Result,
    frontends::{
        body::BodyLimits,
        deadline,
        guard::Access,
        kserve,
        messages::PREFIX,
        received::Received,
        unary::{self, CallContext, LARGE, LastField, Unary, UnaryBody, query},
        weight::{INFER, Kind},
    },
    metrics::Query,
    model::VersionState,
    proto::kserve::{
        ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
        ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
        ModelStatisticsRequest, ModelStatisticsResponse, RepositoryIndexRequest,
        RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest,
        ServerReadyRequest, ServerReadyResponse, SystemSharedMemoryStatusRequest,
        SystemSharedMemoryUnregisterRequest,
    },
    request::{ApiFamily, Interface, RequestOrigin},
    task,
};

pub(super) const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

/// Tag of the last field of a `ModelInferResponse`.
const RAW_OUTPUT_CONTENTS: u32 = 6;

/// `ModelInfer`.
pub(in crate::frontends) struct ModelInfer;

impl Unary for ModelInfer {
    type Request = ModelInferRequest;
    type Response = ModelInferResponse;

    const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";
    const KIND: Kind = INFER;

    async fn run(
        engine: &Access,
        request: ModelInferRequest,
        decoded: Charge,
        effort: usize,
        context: CallContext,
        budget: &Budget,
    ) -> Result<ModelInferResponse> {
        let version = version_of(engine, &request.model_name, &request.model_version)?;
        let limit = codec::time_limit(&request);
        // It has some kilobytes, which are made in their place.
        let call = pin!(async {
            let name = &request.model_name;
            let find = engine.find(name, version, ORIGIN);
            let target = context.arrival.finds(name, find).await?;
            let target = target.arrived(context.arrival).keyed(context.key.text())?;
            let (budget, memory) = (budget.clone(), engine.shared_memory());
            let unpack = move || {
                let request =
                    codec::decode(request, &budget, memory.as_deref().map_err(Clone::clone));
                drop(decoded);
                request
            };
            let mut request = task::sized("unpack", effort, unpack).await?;
            (request.trace, request.priority) = (context.trace, context.priority);
            Ok(codec::encode(target.infer(request).await?))
        });
        deadline::within(limit, call).await
    }

    fn size(answer: &ModelInferResponse) -> usize {
        answer.raw_output_contents.iter().map(Bytes::len).sum()
    }

    fn take_large(answer: &mut ModelInferResponse) -> LastField {
        if Self::size(answer) < LARGE {
            return LastField::default();
        }
        LastField {
            tag: RAW_OUTPUT_CONTENTS,
            contents: std::mem::take(&mut answer.raw_output_contents),
        }
    }

    fn model(request: &ModelInferRequest) -> Option<&str> {
        Some(&request.model_name)
    }

    fn version(answer: &ModelInferResponse) -> Option<i64> {
        answer.model_version.parse().ok()
    }
}

/// The gRPC calls that are known and not served, and what to do instead.
const UNSERVED: [(&str, &str); 5] = [
    ("RepositoryModelLoad", REPOSITORY),
    ("RepositoryModelUnload", REPOSITORY),
    ("CudaSharedMemoryRegister", shared_memory::CUDA),
    ("TraceSetting", SETTING),
    ("LogSettings", SETTING),
];

/// The gRPC calls about shared memory of devices that succeed: there is none, so nothing to list or forget.
const CUDA_CALLS: [&str; 2] = ["CudaSharedMemoryStatus", "CudaSharedMemoryUnregister"];

/// Returns the calls that are in no message file.
#[cfg(test)]
pub(in crate::frontends) fn unserved_methods() -> impl Iterator<Item = &'static str> {
    UNSERVED.into_iter().map(|(name, _)| name).chain(CUDA_CALLS)
}

/// The part of `RepositoryModelLoadRequest` and `RepositoryModelUnloadRequest` that the audit log has.
#[derive(Clone, PartialEq, prost::Message)]
struct RepositoryModelRequest {
    #[prost(string, tag = "2")]
    model_name: String,
}

/// Answers the gRPC calls of Triton that do nothing here, whatever is in their messages.
fn answer_unserved(
    engine: Access,
    method: &str,
    limits: BodyLimits,
    request: Request<Received>,
) -> Option<BoxFuture<'static, Response<UnaryBody>>> {
    if CUDA_CALLS.contains(&method) {
        // Their answers are messages without content: a flag and a length of zero.
        let body = UnaryBody::of(Bytes::from_static(&[0; PREFIX]));
        return Some(Box::pin(ready(unary::success(body))));
    }
    let (_, reason) = UNSERVED.iter().find(|(name, _)| *name == method)?;
    let answer = || Status::from(unserved(reason)).into_http();
    if *reason != REPOSITORY || !engine.is_audited() {
        return Some(Box::pin(ready(answer())));
    }
    Some(Box::pin(async move {
        let message = unary::refused_message(limits, request).await;
        let named = message.filter(|it: &RepositoryModelRequest| !it.model_name.is_empty());
        if let Some(RepositoryModelRequest { model_name }) = named {
            engine.about(&model_name);
        }
        answer()
    }))
}

/// Answers any other call of the service; `None` if there is no such method.
pub(in crate::frontends) fn answer(
    engine: Access,
    method: &str,
    limits: BodyLimits,
    request: Request<Received>,
) -> Option<BoxFuture<'static, Response<UnaryBody>>> {
    Some(match method {
        "ServerLive" => Box::pin(query(limits, request, |_: ServerLiveRequest| {
            Ok(ServerLiveResponse { live: true })
        })),
        "ServerReady" => Box::pin(query(limits, request, move |_: ServerReadyRequest| {
            let ready = engine.ready();
            Ok(ServerReadyResponse { ready })
        })),
        "ServerMetadata" => Box::pin(query(limits, request, move |_: ServerMetadataRequest| {
            Ok(super::server_metadata(&engine))
        })),
        "ModelReady" => Box::pin(query(limits, request, move |it| model_ready(&engine, &it))),
        "ModelMetadata" => Box::pin(query(limits, request, move |it| metadata(&engine, &it))),
        "ModelConfig" => Box::pin(query(limits, request, move |it| config(&engine, &it))),
        "ModelStatistics" => Box::pin(query(limits, request, move |it| {
            model_statistics(&engine, &it)
        })),
        "RepositoryIndex" => Box::pin(query(limits, request, move |it: RepositoryIndexRequest| {
            let models = kserve::repository_index(&engine, it.ready);
            Ok(RepositoryIndexResponse { models })
        })),
        "SystemSharedMemoryStatus" => Box::pin(query(
            limits,
            request,
            move |it: SystemSharedMemoryStatusRequest| shared_memory::status(&engine, &it.name),
        )),
        "SystemSharedMemoryRegister" => Box::pin(query(limits, request, move |it| {
            shared_memory::register(&engine, &it)
        })),
        "SystemSharedMemoryUnregister" => Box::pin(query(
            limits,
            request,
            move |it: SystemSharedMemoryUnregisterRequest| {
                Ok(shared_memory::unregister(&engine, &it.name))
            },
        )),
        _ => return answer_unserved(engine, method, limits, request),
    })
}

/// Reads the version that a request has for a name.
fn version_of(engine: &Access, name: &str, text: &str) -> Result<Option<i64>> {
    codec::version_for(engine, name, codec::version(text))
}

fn model_ready(engine: &Access, request: &ModelReadyRequest) -> Result<ModelReadyResponse> {
    let servable = engine.visible(&request.name)?;
    let version = servable.part(version_of(engine, &request.name, &request.version)?)?;
    let is_available = version.status().state == VersionState::Available;
    let ready = Ok(is_available && !version.reporter().is_stuck());
    version.reporter().queried(ORIGIN, Query::State, &ready);
    ready.map(|ready| ModelReadyResponse { ready })
}

fn metadata(engine: &Access, request: &ModelMetadataRequest) -> Result<ModelMetadataResponse> {
    let servable = engine.servable(&request.name)?;
    let version = version_of(engine, &request.name, &request.version)?;
    super::model_metadata(engine, &servable, version, ORIGIN).map(|(metadata, _)| metadata)
}

fn config(engine: &Access, request: &ModelConfigRequest) -> Result<ModelConfigResponse> {
    let version = version_of(engine, &request.name, &request.version)?;
    let config = Some(kserve::model_config(engine, &request.name, version)?);
    Ok(ModelConfigResponse { config })
}

fn model_statistics(
    engine: &Access,
    request: &ModelStatisticsRequest,
) -> Result<ModelStatisticsResponse> {
    let version = version_of(engine, &request.name, &request.version)?;
    let name = Some(request.name.as_str()).filter(|name| !name.is_empty());
    kserve::statistics(engine, name, version)
}
