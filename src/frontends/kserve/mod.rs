//! KServe v2: the same calls over gRPC and REST.

mod codec;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub mod generate;
pub mod grpc;
mod json;
mod json_reply;
mod regions;
pub mod rest;
pub(in crate::frontends) mod shared_memory;
pub(in crate::frontends) mod stream;

use super::{
    SERVER_NAME, SERVER_VERSION,
    guard::{Access, NoRegions},
};
use crate::{
    engine::{Servable, ServableFacts, ServableVersion},
    error::{Error, ErrorKind, Result},
    metrics::{Query, Stage},
    model::{NO_VERSION, VersionErrorCode, VersionState},
    openvino::BatchingFacts,
    proto::kserve::{
        DataType as Type, InferBatchStatistics, InferStatistics, ModelConfig, ModelDynamicBatching,
        ModelInput, ModelMetadataResponse, ModelOutput, ModelSequenceBatching, ModelStatistics,
        ModelStatisticsResponse, ModelTransactionPolicy, ReloadFailure, ServerMetadataResponse,
        StatisticDuration, model_metadata_response::TensorMetadata,
        repository_index_response::ModelIndex,
    },
    request::RequestOrigin,
    servable::{REMOVED, TensorInfo},
    tensor::{DataType, Dim},
};

/// The extensions that clients may look for in the metadata of the server, beside [`SHARED_MEMORY`].
const EXTENSIONS: [&str; 5] = [
    "binary_tensor_data",
    "generate",
    "model_configuration",
    "parameters",
    "statistics",
];

const REPOSITORY: &str = "models are loaded and unloaded by the server's configuration: change its file, or the \
     model folders, which it follows";
const SETTING: &str = "settings are those of the server's command line";

fn unserved(reason: &str) -> Error {
    Error::new(
        ErrorKind::Unimplemented,
        format!("Functionality not implemented - {reason}"),
    )
}

/// The extension that is there if shared memory is on.
const SHARED_MEMORY: &str = "system_shared_memory";

impl From<NoRegions> for Error {
    fn from(reason: NoRegions) -> Self {
        match reason {
            NoRegions::Off => unserved(
                "shared memory is off; send tensors with the request, or start the server with --shared-memory",
            ),
            NoRegions::Denied(_) => Self::new(
                ErrorKind::Forbidden,
                "Forbidden request - shared memory needs the right `admin`; send tensors with the request",
            ),
        }
    }
}

/// The platform that metadata calls answer.
const PLATFORM: &str = "OpenVINO";

/// Datatype in metadata for a tensor of a pipeline that no node determines.
const OPEN_TYPE: &str = "UNDEFINED";

/// Datatype in metadata for tensors of graphs.
const GRAPH_TYPE: &str = "INVALID";

/// Describes the server.
fn server_metadata(engine: &Access) -> ServerMetadataResponse {
    let more = engine.shared_memory().ok().map(|_| SHARED_MEMORY);
    ServerMetadataResponse {
        name: SERVER_NAME.to_owned(),
        version: SERVER_VERSION.to_owned(),
        extensions: EXTENSIONS
            .into_iter()
            .chain(more)
            .map(str::to_owned)
            .collect(),
        reload_failure: engine.config_failure().map(|failure| ReloadFailure {
            since: failure.since(),
            reason: failure.reason.clone(),
        }),
    }
}

/// Describes a version of a servable; returns also what is loaded of it.
fn model_metadata(
    engine: &Access,
    servable: &Servable,
    version: Option<i64>,
    origin: RequestOrigin,
) -> Result<(ModelMetadataResponse, ServableFacts)> {
    let part = servable.part(version)?;
    let facts = part.loaded();
    part.reporter().queried(origin, Query::Metadata, &facts);
    let facts = facts?;
    let open = match facts.is_graph() {
        true => GRAPH_TYPE,
        false => OPEN_TYPE,
    };
    let tensors = |infos: &[TensorInfo]| {
        let tensors = infos.iter().map(|info| TensorMetadata {
            name: info.name.clone(),
            datatype: info.decided().map_or(open, DataType::kserve).to_owned(),
            shape: info.shape.wire(),
        });
        tensors.collect()
    };
    let info = facts.info();
    let available = servable.available().into_iter();
    let metadata = ModelMetadataResponse {
        name: servable.name().to_owned(),
        versions: available.map(|number| number.to_string()).collect(),
        platform: PLATFORM.to_owned(),
        inputs: tensors(&info.inputs),
        outputs: tensors(&info.outputs),
        properties: (engine.properties(&facts).into_iter())
            .map(|(name, text)| (name, (*text).to_owned()))
            .collect(),
    };
    Ok((metadata, facts))
}

/// Lists every version, or only those that are ready, by name and number. A model without any
/// version is listed without a number, for as long as it is configured.
fn repository_index(engine: &Access, ready: bool) -> Vec<ModelIndex> {
    let mut entries = Vec::new();
    for servable in engine.servables() {
        let mut add = |version: String, state: &str, reason: &str| {
            if !ready || state == "READY" {
                entries.push(ModelIndex {
                    name: servable.name().to_owned(),
                    version,
                    state: state.to_owned(),
                    reason: reason.to_owned(),
                });
            }
        };
        let is_configured = engine.is_configured(servable.name());
        let parts = servable.parts();
        for part in &parts {
            let status = part.status();
            let reason = |usual| status.failure.as_deref().unwrap_or(usual);
            let (state, reason) = match (status.state, status.code) {
                (VersionState::Available, _) => ("READY", reason("")),
                (_, VersionErrorCode::Unknown) => ("UNAVAILABLE", reason("the load failed")),
                (_, VersionErrorCode::FailedPrecondition) => {
                    ("UNAVAILABLE", reason("the check refuses it"))
                }
                (VersionState::Start | VersionState::Loading, _) => ("LOADING", ""),
                (VersionState::Unloading | VersionState::End, _) if !is_configured => {
                    ("UNAVAILABLE", REMOVED)
                }
                (VersionState::Unloading | VersionState::End, _) => ("UNAVAILABLE", "unloaded"),
            };
            add(part.number().to_string(), state, reason);
        }
        if parts.is_empty() && is_configured {
            // A folder without a version is no error: one may come.
            let survey = servable.model().and_then(|model| model.survey());
            let failed = survey.as_deref().and_then(|found| found.as_ref().err());
            let failed = failed.filter(|text| !text.starts_with(NO_VERSION));
            let reason = failed.map_or(NO_VERSION, String::as_str);
            add(String::new(), "UNAVAILABLE", reason);
        }
    }
    entries
}

/// Triton's name of the backend that runs OpenVINO models.
const BACKEND: &str = "openvino";

/// Describes a version of a model.
///
/// # Errors
///
/// Fails if there is no such model or version, or it is not loaded.
fn model_config(engine: &Access, name: &str, version: Option<i64>) -> Result<ModelConfig> {
    let servable = engine.servable(name)?;
    let facts = servable.part(version)?.loaded()?;
    let batching = facts.batching().filter(|it| !it.sizes.is_empty());
    // In Triton's form: dimensions are those of a row if requests are rows of batches.
    let dims = |info: &TensorInfo| {
        let mut dims = info.shape.wire();
        if batching.is_some() && !dims.is_empty() {
            dims.remove(0);
        }
        dims
    };
    let rows = |rows: usize| i32::try_from(rows).unwrap_or(i32::MAX);
    let data_type = |info: &TensorInfo| {
        let known = info.decided();
        known.map_or(Type::TypeInvalid, data_type).into()
    };
    let inputs = facts.info().inputs.iter().map(|info| ModelInput {
        name: info.name.clone(),
        data_type: data_type(info),
        dims: dims(info),
    });
    let outputs = facts.info().outputs.iter().map(|info| ModelOutput {
        name: info.name.clone(),
        data_type: data_type(info),
        dims: dims(info),
    });
    Ok(ModelConfig {
        name: servable.name().to_owned(),
        platform: PLATFORM.to_owned(),
        backend: BACKEND.to_owned(),
        max_batch_size: batching
            .as_ref()
            .map_or(0, |it| rows(most_rows(&facts.info().inputs, it))),
        input: inputs.collect(),
        output: outputs.collect(),
        dynamic_batching: batching.as_ref().map(|it| ModelDynamicBatching {
            preferred_batch_size: it.sizes.iter().map(|&size| rows(size)).collect(),
            max_queue_delay_microseconds: u64::try_from(it.delay.as_micros()).unwrap_or(u64::MAX),
        }),
        // By this, load generators know that requests belong to sequences. The time until an idle one goes
        // varies, so that it is unknown: 0.
        sequence_batching: facts.is_stateful().then(ModelSequenceBatching::default),
        model_transaction_policy: Some(ModelTransactionPolicy {
            decoupled: facts.is_decoupled(),
        }),
    })
}

/// Returns the most rows that a request may have, by which clients choose; where the model takes any number, those of
/// its largest batch, since more gain nothing.
fn most_rows(inputs: &[TensorInfo], batching: &BatchingFacts) -> usize {
    let largest = batching.sizes.last().copied().unwrap_or(1);
    let most = inputs.iter().map(|info| match info.shape.0.first() {
        Some(Dim::Fixed(rows) | Dim::Range(_, rows)) => *rows,
        Some(Dim::Any) | None => largest,
    });
    most.min().unwrap_or(largest)
}

fn data_type(dtype: DataType) -> Type {
    let name = match dtype {
        DataType::String => "STRING",
        dtype => dtype.kserve(),
    };
    Type::from_str_name(&format!("TYPE_{name}")).unwrap_or_default()
}

/// Lists the versions asked for that are loaded: of all models if there is no name, all versions if
/// there is no number. One version that is named is listed in whatever state.
///
/// # Errors
///
/// Fails if there is no such model or version.
fn statistics(
    engine: &Access,
    name: Option<&str>,
    number: Option<i64>,
) -> Result<ModelStatisticsResponse> {
    let servables = match name {
        Some(name) => vec![engine.servable(name)?],
        None => engine.servables(),
    };
    let model_stats = match (number, servables.as_slice()) {
        (Some(number), [servable]) => vec![version_statistics(&servable.part(Some(number))?)],
        _ => {
            let parts = servables.iter().flat_map(Servable::parts);
            let loaded = parts.filter(|part| part.loaded().is_ok());
            loaded.map(|part| version_statistics(&part)).collect()
        }
    };
    Ok(ModelStatisticsResponse { model_stats })
}

fn version_statistics(part: &ServableVersion) -> ModelStatistics {
    let figures = part.reporter().statistics();
    let duration = |Stage { count, ns }| Some(StatisticDuration { count, ns });
    let batches = part.reporter().executions();
    let batch_stats = batches.iter().map(|executions| InferBatchStatistics {
        batch_size: executions.rows,
        compute_input: duration(executions.prepare),
        compute_infer: duration(executions.run),
        compute_output: duration(executions.finish),
    });
    ModelStatistics {
        name: part.name().to_owned(),
        version: part.number().to_string(),
        last_inference: figures.last_ms,
        inference_count: figures.rows,
        execution_count: batches.iter().map(|it| it.run.count).sum(),
        inference_stats: Some(InferStatistics {
            success: duration(figures.success),
            fail: duration(figures.fail),
            queue: duration(figures.wait),
            compute_input: duration(figures.prepare),
            compute_infer: duration(figures.run),
            compute_output: duration(figures.finish),
            cache_hit: Some(StatisticDuration::default()),
            cache_miss: Some(StatisticDuration::default()),
        }),
        batch_stats: batch_stats.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::data_type;
    use crate::tensor::DataType;

    #[test]
    fn types_have_the_names_of_the_protocol_with_a_prefix() {
        for dtype in DataType::ALL {
            let name = match dtype {
                DataType::String => "STRING",
                dtype => dtype.kserve(),
            };
            assert_eq!(data_type(dtype).as_str_name(), format!("TYPE_{name}"));
        }
    }
}
