//! The KServe v2 service over gRPC.

use std::sync::Arc;

use axum::http::{Request, Response};
use bytes::Bytes;
use futures::future::BoxFuture;

use super::{
    PLATFORM, codec, grpc_version, index, model_config::Config, statistics, tensors,
    triton::EXTENSIONS, version_for,
};
use crate::{
    budget::{Budget, Charge},
    engine::{Engine, Servable},
    error::{Error, Result},
    frontends::{
        SERVER_NAME, SERVER_VERSION, deadline,
        intake::BodyLimits,
        received::Received,
        reply,
        unary::{Unary, UnaryBody, query},
        weight::{INFER, Kind},
    },
    metrics::Query,
    model::VersionState,
    proto::kserve::{
        ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
        ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
        ModelStatisticsRequest, ModelStatisticsResponse, RepositoryIndexRequest,
        RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest,
        ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
        model_metadata_response::TensorMetadata, repository_index_response::ModelIndex,
    },
    request::{ApiFamily, Interface, RequestOrigin},
    sequence::Arrival,
    task,
};

pub(super) const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

/// The service.
#[derive(Debug, Clone)]
pub struct KserveService {
    engine: Arc<Engine>,
}

impl KserveService {
    /// Makes the service of an engine.
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Returns the engine.
    pub(in crate::frontends) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Reads the version that a request has for a name.
    fn version_of(&self, name: &str, text: &str) -> Result<Option<i64>> {
        version_for(&self.engine, name, grpc_version(text))
    }

    fn model_ready(&self, request: &ModelReadyRequest) -> Result<ModelReadyResponse> {
        let servable = self.engine.servable(&request.name)?;
        let version = servable.part(self.version_of(&request.name, &request.version)?)?;
        let is_available = version.status().state == VersionState::Available;
        let ready = Ok(is_available && !version.reporter().is_stuck());
        version.reporter().queried(ORIGIN, Query::State, &ready);
        ready.map(|ready| ModelReadyResponse { ready })
    }

    fn model_config(&self, request: &ModelConfigRequest) -> Result<ModelConfigResponse> {
        let version = self.version_of(&request.name, &request.version)?;
        let config = Config::of(&self.engine, &request.name, version)?;
        Ok(ModelConfigResponse {
            config: Some(config.into()),
        })
    }

    fn model_statistics(
        &self,
        request: &ModelStatisticsRequest,
    ) -> Result<ModelStatisticsResponse> {
        let version = self.version_of(&request.name, &request.version)?;
        let name = Some(request.name.as_str()).filter(|name| !name.is_empty());
        statistics::of(&self.engine, name, version).map(Into::into)
    }

    fn model_metadata(&self, request: &ModelMetadataRequest) -> Result<ModelMetadataResponse> {
        let servable = self.engine.servable(&request.name)?;
        let part = servable.part(self.version_of(&request.name, &request.version)?)?;
        let facts = part.loaded();
        part.reporter().queried(ORIGIN, Query::Metadata, &facts);
        let facts = facts?;
        let (inputs, outputs) = tensors(&facts, |info, datatype| TensorMetadata {
            name: info.name.clone(),
            datatype: datatype.to_owned(),
            shape: info.shape.wire(),
        });
        Ok(ModelMetadataResponse {
            name: servable.name().to_owned(),
            versions: available_versions(&servable),
            platform: PLATFORM.to_owned(),
            inputs,
            outputs,
        })
    }
}

impl Unary for KserveService {
    type Request = ModelInferRequest;
    type Response = ModelInferResponse;

    const PATH: &str = "/inference.GRPCInferenceService/ModelInfer";

    const KIND: Kind = INFER;

    async fn run(
        &self,
        request: ModelInferRequest,
        decoded: Charge,
        effort: usize,
        arrival: Arc<Arrival>,
        budget: &Budget,
    ) -> Result<ModelInferResponse> {
        let version = self.version_of(&request.model_name, &request.model_version)?;
        let limit = codec::time_limit(&request);
        deadline::within(limit, async {
            let name = &request.model_name;
            let find = self.engine.find(name, version, ORIGIN);
            let target = arrival.finds(name, find).await?.arrived(arrival);
            let budget = budget.clone();
            let unpack = move || {
                let request = codec::decode(request, &budget);
                drop(decoded);
                request
            };
            let request = task::sized("unpack", effort, unpack).await?;
            Ok(codec::encode(target.infer(request).await?))
        })
        .await
    }

    fn size(answer: &ModelInferResponse) -> usize {
        answer.raw_output_contents.iter().map(Bytes::len).sum()
    }

    fn model(request: &ModelInferRequest) -> Option<&str> {
        Some(&request.model_name)
    }

    fn version(answer: &ModelInferResponse) -> Option<i64> {
        answer.model_version.parse().ok()
    }
}

impl KserveService {
    /// Answers any other call of the service; `None` if there is no such method.
    pub(in crate::frontends) fn query(
        self,
        method: &str,
        intake: BodyLimits,
        request: Request<Received>,
    ) -> Option<BoxFuture<'static, Response<UnaryBody>>> {
        let failure = |error: Error| reply::status(&error);
        Some(match method {
            "ServerLive" => Box::pin(query(intake, request, |_: ServerLiveRequest| {
                Ok(ServerLiveResponse { live: true })
            })),
            "ServerReady" => Box::pin(query(intake, request, move |_: ServerReadyRequest| {
                let ready = self.engine.ready();
                Ok(ServerReadyResponse { ready })
            })),
            "ServerMetadata" => Box::pin(query(intake, request, |_: ServerMetadataRequest| {
                Ok(ServerMetadataResponse {
                    name: SERVER_NAME.to_owned(),
                    version: SERVER_VERSION.to_owned(),
                    extensions: EXTENSIONS.map(str::to_owned).to_vec(),
                })
            })),
            "ModelReady" => Box::pin(query(intake, request, move |asked| {
                self.model_ready(&asked).map_err(failure)
            })),
            "ModelMetadata" => Box::pin(query(intake, request, move |asked| {
                self.model_metadata(&asked).map_err(failure)
            })),
            "ModelConfig" => Box::pin(query(intake, request, move |asked| {
                self.model_config(&asked).map_err(failure)
            })),
            "ModelStatistics" => Box::pin(query(intake, request, move |asked| {
                self.model_statistics(&asked).map_err(failure)
            })),
            "RepositoryIndex" => Box::pin(query(intake, request, move |asked| {
                Ok(self.repository_index(&asked))
            })),
            _ => return None,
        })
    }

    fn repository_index(&self, request: &RepositoryIndexRequest) -> RepositoryIndexResponse {
        let models = index::entries(&self.engine, request.ready)
            .into_iter()
            .map(|entry| ModelIndex {
                name: entry.name,
                version: entry.version,
                state: entry.state.to_owned(),
                reason: entry.reason,
            })
            .collect();
        RepositoryIndexResponse { models }
    }
}

/// Returns the versions that serve, the lowest first.
pub(super) fn available_versions(servable: &Servable) -> Vec<String> {
    let versions = servable.available().into_iter();
    versions.map(|number| number.to_string()).collect()
}
