//! The KServe v2 service over gRPC.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use futures::Stream;
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::{
    PLATFORM, codec, grpc_version, index, model_config::Config, statistics, tensors,
    triton::EXTENSIONS, version_for,
};
use crate::{
    engine::{Engine, Servable},
    error::{Error, Result},
    frontends::{SERVER_NAME, SERVER_VERSION, access, deadline, reply, unary::Unary},
    metrics::Query,
    model::State,
    proto::kserve::{
        ModelConfigRequest, ModelConfigResponse, ModelInferRequest, ModelInferResponse,
        ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest, ModelReadyResponse,
        ModelStatisticsRequest, ModelStatisticsResponse, ModelStreamInferResponse,
        RepositoryIndexRequest, RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse,
        ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
        grpc_inference_service_server::GrpcInferenceService,
        model_metadata_response::TensorMetadata, repository_index_response::ModelIndex,
    },
    request::{Api, Interface, Origin},
    sequence::{self, Arrival},
    task,
};

pub(super) const ORIGIN: Origin = Origin {
    api: Api::KServe,
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
        let ready = Ok(version.status().state == State::Available);
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

    async fn run(
        &self,
        request: ModelInferRequest,
        effort: usize,
        arrival: Arc<Arrival>,
    ) -> Result<ModelInferResponse> {
        let version = self.version_of(&request.model_name, &request.model_version)?;
        let limit = codec::time_limit(&request);
        deadline::within(limit, async {
            let name = &request.model_name;
            let find = self.engine.find(name, version, ORIGIN);
            let target = arrival.finds(name, find).await?.arrived(arrival);
            let request = task::sized("unpack", effort, move || codec::decode(request)).await;
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

/// Returns the versions that serve, the lowest first.
pub(super) fn available_versions(servable: &Servable) -> Vec<String> {
    let versions = servable.available().into_iter();
    versions.map(|number| number.to_string()).collect()
}

type ReplyStream = Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

#[tonic::async_trait]
impl GrpcInferenceService for KserveService {
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
        Ok(Response::new(ServerReadyResponse {
            ready: self.engine.ready(),
        }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        self.model_ready(request.get_ref())
            .map(Response::new)
            .map_err(|error| reply::status(&error))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse {
            name: SERVER_NAME.to_owned(),
            version: SERVER_VERSION.to_owned(),
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        self.model_metadata(request.get_ref())
            .map(Response::new)
            .map_err(|error| reply::status(&error))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        let models = index::entries(&self.engine, request.get_ref().ready)
            .into_iter()
            .map(|entry| ModelIndex {
                name: entry.name,
                version: entry.version,
                state: entry.state.to_owned(),
                reason: entry.reason,
            })
            .collect();
        Ok(Response::new(RepositoryIndexResponse { models }))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Result<Response<ModelConfigResponse>, Status> {
        self.model_config(request.get_ref())
            .map(Response::new)
            .map_err(|error| reply::status(&error))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Result<Response<ModelStatisticsResponse>, Status> {
        self.model_statistics(request.get_ref())
            .map(Response::new)
            .map_err(|error| reply::status(&error))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let seen = access::seen(&extensions, Some(&request.model_name));
        let arrival = sequence::arrival::of(&extensions);
        // What comes this way was packed by the client, so nobody is in a hurry.
        let effort = request.encoded_len();
        deadline::within(deadline::of_headers(metadata.as_ref()), async {
            let answer = self.run(request, effort, arrival).await;
            let answer = answer.map_err(|error| reply::status(&error))?;
            seen.version(|| Self::version(&answer));
            Ok(Response::new(answer))
        })
        .await
    }

    type ModelStreamInferStream = ReplyStream;

    async fn model_stream_infer(
        &self,
        _: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<ReplyStream>, Status> {
        // Streams take a path of their own, see `stream`.
        Err(reply::status(&Error::internal("Internal error")))
    }
}
