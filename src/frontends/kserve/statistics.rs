//! `ModelStatistics`: counts and times of models, as clients of Triton ask for them.

use serde::Serialize;

use crate::{
    engine::{Engine, Servable, ServableVersion},
    error::Result,
    metrics::{Stage, Statistics},
    proto::kserve,
};

/// The figures of some versions.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    model_stats: Vec<Entry>,
}

/// The figures of one version.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    version: String,
    last_inference: u64,
    inference_count: u64,
    execution_count: u64,
    inference_stats: Stages,
    batch_stats: Vec<Batch>,
    /// Of models with several responses to a request: there are none.
    response_stats: Empty,
    /// Memory usage; always empty, since the runtime does not report it.
    memory_usage: [u8; 0],
}

#[derive(Debug, Serialize)]
struct Stages {
    success: Duration,
    fail: Duration,
    queue: Duration,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
    cache_hit: Duration,
    cache_miss: Duration,
}

#[derive(Debug, Serialize)]
struct Batch {
    batch_size: u64,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Duration {
    count: u64,
    ns: u64,
}

#[derive(Debug, Serialize)]
struct Empty {}

/// Lists the versions asked for that are loaded: of all models if there is no name, all versions if
/// there is no number. One version that is named is listed in whatever state.
///
/// # Errors
///
/// Fails if there is no such model or version.
pub(super) fn of(engine: &Engine, name: Option<&str>, number: Option<i64>) -> Result<Answer> {
    let servables = match name {
        Some(name) => vec![engine.servable(name)?],
        None => engine.servables(),
    };
    if let (Some(number), [servable]) = (number, servables.as_slice()) {
        let part = servable.part(Some(number))?;
        return Ok(Answer {
            model_stats: vec![entry(&part)],
        });
    }
    let parts = servables.iter().flat_map(Servable::parts);
    let loaded = parts.filter(|part| part.loaded().is_ok());
    Ok(Answer {
        model_stats: loaded.map(|part| entry(&part)).collect(),
    })
}

fn entry(part: &ServableVersion) -> Entry {
    let figures = part.reporter().statistics();
    let stages = Stages::from(&figures);
    // A request is a batch of its own to the server, whatever its first dimension is.
    let batch = (figures.run.count > 0).then_some(Batch {
        batch_size: 1,
        compute_input: stages.compute_input,
        compute_infer: stages.compute_infer,
        compute_output: stages.compute_output,
    });
    Entry {
        name: part.name().to_owned(),
        version: part.number().to_string(),
        last_inference: figures.last_ms,
        inference_count: figures.success.count,
        execution_count: figures.run.count,
        inference_stats: stages,
        batch_stats: batch.into_iter().collect(),
        response_stats: Empty {},
        memory_usage: [],
    }
}

impl From<&Statistics> for Stages {
    fn from(figures: &Statistics) -> Self {
        Self {
            success: figures.success.into(),
            fail: figures.fail.into(),
            queue: figures.wait.into(),
            compute_input: figures.prepare.into(),
            compute_infer: figures.run.into(),
            compute_output: figures.finish.into(),
            cache_hit: Duration::default(),
            cache_miss: Duration::default(),
        }
    }
}

impl From<Stage> for Duration {
    fn from(Stage { count, ns }: Stage) -> Self {
        Self { count, ns }
    }
}

impl From<Answer> for kserve::ModelStatisticsResponse {
    fn from(answer: Answer) -> Self {
        Self {
            model_stats: answer.model_stats.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Entry> for kserve::ModelStatistics {
    fn from(entry: Entry) -> Self {
        let stages = entry.inference_stats;
        Self {
            name: entry.name,
            version: entry.version,
            last_inference: entry.last_inference,
            inference_count: entry.inference_count,
            execution_count: entry.execution_count,
            inference_stats: Some(kserve::InferStatistics {
                success: message(stages.success),
                fail: message(stages.fail),
                queue: message(stages.queue),
                compute_input: message(stages.compute_input),
                compute_infer: message(stages.compute_infer),
                compute_output: message(stages.compute_output),
                cache_hit: message(stages.cache_hit),
                cache_miss: message(stages.cache_miss),
            }),
            batch_stats: entry
                .batch_stats
                .into_iter()
                .map(|batch| kserve::InferBatchStatistics {
                    batch_size: batch.batch_size,
                    compute_input: message(batch.compute_input),
                    compute_infer: message(batch.compute_infer),
                    compute_output: message(batch.compute_output),
                })
                .collect(),
        }
    }
}

const fn message(Duration { count, ns }: Duration) -> Option<kserve::StatisticDuration> {
    Some(kserve::StatisticDuration { count, ns })
}
