//! `ModelStatistics`: counts and times of models, as clients of Triton ask for them.

use crate::{
    engine::{Engine, Servable, ServableVersion},
    error::Result,
    metrics::Stage,
    proto::kserve::{
        InferBatchStatistics, InferStatistics, ModelStatistics, ModelStatisticsResponse,
        StatisticDuration,
    },
};

/// Lists the versions asked for that are loaded: of all models if there is no name, all versions if
/// there is no number. One version that is named is listed in whatever state.
///
/// # Errors
///
/// Fails if there is no such model or version.
pub(super) fn of(
    engine: &Engine,
    name: Option<&str>,
    number: Option<i64>,
) -> Result<ModelStatisticsResponse> {
    let servables = match name {
        Some(name) => vec![engine.servable(name)?],
        None => engine.servables(),
    };
    let model_stats = match (number, servables.as_slice()) {
        (Some(number), [servable]) => vec![of_version(&servable.part(Some(number))?)],
        _ => {
            let parts = servables.iter().flat_map(Servable::parts);
            let loaded = parts.filter(|part| part.loaded().is_ok());
            loaded.map(|part| of_version(&part)).collect()
        }
    };
    Ok(ModelStatisticsResponse { model_stats })
}

fn of_version(part: &ServableVersion) -> ModelStatistics {
    let figures = part.reporter().statistics();
    let duration = |Stage { count, ns }| Some(StatisticDuration { count, ns });
    // A request is a batch of its own to the server, whatever its first dimension is.
    let batch = (figures.run.count > 0).then(|| InferBatchStatistics {
        batch_size: 1,
        compute_input: duration(figures.prepare),
        compute_infer: duration(figures.run),
        compute_output: duration(figures.finish),
    });
    ModelStatistics {
        name: part.name().to_owned(),
        version: part.number().to_string(),
        last_inference: figures.last_ms,
        inference_count: figures.success.count,
        execution_count: figures.run.count,
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
        batch_stats: batch.into_iter().collect(),
    }
}
