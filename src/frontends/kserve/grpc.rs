//! The KServe v2 service over gRPC.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use futures::Stream;
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::{PLATFORM, codec, grpc_version, index};
use crate::{
    engine::Engine,
    error::{Error, ErrorKind, Result},
    frontends::{SERVER_NAME, SERVER_VERSION, reply},
    model::State,
    proto::kserve::{
        ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
        ModelReadyRequest, ModelReadyResponse, ModelStreamInferResponse, RepositoryIndexRequest,
        RepositoryIndexResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest,
        ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
        grpc_inference_service_server::GrpcInferenceService,
        model_metadata_response::TensorMetadata, repository_index_response::ModelIndex,
    },
    servable::TensorInfo,
    task,
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

    /// Runs a request; `effort` is how much there is to unpack, in the bytes of [`task::sized`].
    pub(super) async fn infer(
        &self,
        request: ModelInferRequest,
        effort: usize,
    ) -> Result<ModelInferResponse> {
        let version = grpc_version(&request.model_version)?;
        let target = self.engine.find(&request.model_name, version).await?;
        let request = task::sized("unpack", effort, move || codec::decode(request)).await;
        Ok(codec::encode(target.infer(request).await?))
    }

    fn model_ready(&self, request: &ModelReadyRequest) -> Result<ModelReadyResponse> {
        let model = self.engine.model(&request.name)?;
        let version = model.version(grpc_version(&request.version)?)?;
        Ok(ModelReadyResponse {
            ready: version.status().state == State::Available,
        })
    }

    fn model_metadata(&self, request: &ModelMetadataRequest) -> Result<ModelMetadataResponse> {
        let model = self.engine.model(&request.name)?;
        let version = model.version(grpc_version(&request.version)?)?;
        let loaded = version.loaded()?;
        Ok(ModelMetadataResponse {
            name: model.name().to_owned(),
            versions: available_versions(&model),
            platform: PLATFORM.to_owned(),
            inputs: loaded.info.inputs.iter().map(tensor_metadata).collect(),
            outputs: loaded.info.outputs.iter().map(tensor_metadata).collect(),
        })
    }
}

/// Returns the versions that serve, the lowest first.
pub(super) fn available_versions(model: &crate::model::Model) -> Vec<String> {
    model
        .versions()
        .filter(|version| version.status().state == State::Available)
        .map(|version| version.number().to_string())
        .collect()
}

fn tensor_metadata(info: &TensorInfo) -> TensorMetadata {
    TensorMetadata {
        name: info.name.clone(),
        datatype: info.dtype.kserve().to_owned(),
        shape: info.shape.wire(),
    }
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
            extensions: Vec::new(),
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
                reason: entry.reason.to_owned(),
            })
            .collect();
        Ok(Response::new(RepositoryIndexResponse { models }))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        // What comes this way was packed by the client, so nobody is in a hurry.
        let effort = request.encoded_len();
        within_deadline(metadata.as_ref(), async {
            self.infer(request, effort)
                .await
                .map(Response::new)
                .map_err(|error| reply::status(&error))
        })
        .await
    }

    type ModelStreamInferStream = ReplyStream;

    async fn model_stream_infer(
        &self,
        _: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<ReplyStream>, Status> {
        Err(reply::status(&Error::new(
            ErrorKind::Unimplemented,
            "Functionality not implemented - ModelStreamInfer; send each request with ModelInfer",
        )))
    }
}

/// Runs a call within the time limit that its client has set, if any.
pub(super) async fn within_deadline<T>(
    headers: &HeaderMap,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let Some(limit) = deadline(headers) else {
        return call.await;
    };
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let error = Error::new(
            ErrorKind::DeadlineExceeded,
            format!("the client's deadline of {limit:?} passed"),
        );
        Err(reply::status(&error))
    })
}

/// Reads the time limit that a gRPC client sends: up to eight digits and a unit (gRPC over
/// HTTP/2, "Timeout").
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderMap;

    use super::deadline;

    #[test]
    fn deadlines_are_read_in_every_unit() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            deadline(&headers)
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("100m"), Some(Duration::from_millis(100)));
        assert_eq!(read("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for wrong in ["", "1", "m", "123456789m", "-1S", "1x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
