//! Results of a run, as `--output json` and `--save` write them.

use std::fmt;

use ovms::{
    client::{
        ModelBatching,
        load::{Comparison, LevelReport},
    },
    tensor::ShapeText,
};
use serde::{Deserialize, Serialize};

use super::differences::DifferingSetting;

/// Version of the form.
pub(super) const FORM: u32 = 1;

/// Input of the requests of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ReportedInput {
    /// Name.
    pub(super) name: String,
    /// Datatype.
    pub(super) datatype: String,
    /// Shape.
    pub(super) shape: Vec<usize>,
}

impl fmt::Display for ReportedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            datatype,
            shape,
        } = self;
        write!(f, "`{name}` {datatype} {}", ShapeText(shape))
    }
}

/// Model as the server reports it at the beginning of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReportedModel {
    /// Versions that can be used, of which the latest answers where none was asked for.
    pub(super) versions: Vec<String>,
    /// Platform; `None` where the protocol has none.
    pub(super) platform: Option<String>,
    /// Batching of requests that wait; `None` without it, or where the protocol has no such question.
    pub(super) batching: Option<ModelBatching>,
}

/// Flags of a run that its figures depend on, and that are not in the report otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ReportedFlags {
    /// Length of a window in seconds: `--interval`, or `--duration`.
    pub(super) window_seconds: f64,
    /// Number of windows that have to agree; 1 with `--duration`.
    pub(super) windows: u16,
    /// Distance within which they agree, in percent.
    pub(super) stability: u16,
    /// Maximum number of windows of a level.
    pub(super) max_trials: u16,
    /// Number of warm-up requests.
    pub(super) warmup: u64,
    /// Maximum number of requests in flight with `--rate`.
    pub(super) max_in_flight: Option<usize>,
    /// Indicates that intervals between requests are random.
    pub(super) poisson: bool,
    /// Indicates that values are sent one after the other.
    pub(super) in_turn: bool,
    /// File of requests.
    pub(super) requests: Option<String>,
    /// Form of the elements: `binary`, or `values` one by one.
    pub(super) form: String,
    /// Outputs that are asked for; none for all.
    pub(super) output_names: Vec<String>,
}

/// Results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct BenchReport {
    /// Version of the form.
    pub(super) ovms_bench: u32,
    /// Name of the model.
    pub(super) model: String,
    /// Version that was asked for.
    pub(super) model_version: Option<String>,
    /// Protocol.
    pub(super) api: String,
    /// Address of the server.
    pub(super) url: String,
    /// Name and version of the server's product, if the protocol has them.
    pub(super) server: Option<String>,
    /// Model as the server reports it; `None` in reports of earlier versions.
    #[serde(default)]
    pub(super) served: Option<ReportedModel>,
    /// Flags of the measurement; `None` in reports of earlier versions.
    #[serde(default)]
    pub(super) flags: Option<ReportedFlags>,
    /// Start, in seconds since 1970.
    pub(super) started_at: u64,
    /// Use of the requests: `unary`, `sequences of 5`, `streams`.
    pub(super) requests: String,
    /// Inputs of the requests, each shape of one for itself; none in reports of earlier versions.
    #[serde(default)]
    pub(super) inputs: Vec<ReportedInput>,
    /// Seed of random inputs, intervals, and choices.
    pub(super) seed: u64,
    /// Indicates that Ctrl-C or SIGTERM ended the run before its time.
    pub(super) interrupted: bool,
    /// Levels, in their order.
    pub(super) levels: Vec<LevelReport>,
    /// Comparisons with the report of `--against`.
    #[serde(default, skip_deserializing)]
    pub(super) comparison: Vec<Comparison>,
    /// Settings in which the report of `--against` differs.
    #[serde(default, skip_deserializing)]
    pub(super) differs: Vec<DifferingSetting>,
    /// Findings of `--fail-if`.
    #[serde(default)]
    pub(super) findings: Vec<String>,
}

impl BenchReport {
    /// Returns whether a request has several rows.
    pub(super) fn has_rows(&self) -> bool {
        self.levels.iter().any(|it| it.rows_per_second.is_some())
    }

    /// Returns whether a level has latencies.
    pub(super) fn has_figures(&self) -> bool {
        self.levels.iter().any(|it| it.latency_us.is_some())
    }

    /// Returns the number of requests that failed, and of all.
    pub(super) fn failures(&self) -> (u64, u64) {
        let levels = self.levels.iter();
        levels.fold((0, 0), |(failed, total), level| {
            (failed + level.failed, total + level.total)
        })
    }
}

/// Makes a report for tests.
#[cfg(test)]
pub(super) fn example() -> BenchReport {
    use ovms::client::{
        ServerSplit,
        load::{ErrorCount, HistogramBin, LatencyFigures, LevelEnd, WindowReport},
    };
    let latency = |scale: f64| LatencyFigures {
        mean: 2_100.0 * scale,
        p50: 2_000.0 * scale,
        p90: 2_500.0 * scale,
        p95: 2_800.0 * scale,
        p99: 3_000.0 * scale,
        max: 4_000.0 * scale,
    };
    let level = |lanes: usize, scale: f64, failed: u64| {
        let window = WindowReport {
            seconds: 2.0,
            ok: 1000,
            failed,
            rate: 500.0 * scale,
            latency_us: Some(latency(scale)),
        };
        LevelReport {
            concurrency: Some(lanes),
            target_rate: None,
            ok: 3000,
            failed,
            total: 40 * failed.max(100),
            seconds: 6.0,
            rate: 500.0 * scale,
            latency_us: Some(latency(scale)),
            first_response_us: None,
            responses_per_second: None,
            rows_per_second: None,
            send_delay_us: None,
            server: Some(ServerSplit {
                requests: 3000,
                executions: 3000,
                total_us: 1_500.0,
                queue_us: 200.0 * scale,
                input_us: 10.0,
                infer_us: 1_200.0,
                output_us: 5.0,
            }),
            client_cpu_us: 20.0,
            client_load: 0.05,
            end: match failed {
                0 => LevelEnd::Stable,
                _ => LevelEnd::MaxTrials,
            },
            stable: Some(failed == 0),
            reported: 3,
            windows: vec![window; 3],
            histogram: [
                (1_800.0, 20),
                (1_964.0, 880),
                (2_141.0, 1900),
                (2_335.0, 0),
                (2_546.0, 200),
            ]
            .map(|(below, count)| HistogramBin {
                below_us: below * scale,
                count,
            })
            .to_vec(),
            errors: (failed > 0)
                .then(|| ErrorCount {
                    times: failed,
                    error: "the server refused the request: UNAVAILABLE: busy <b>".to_owned(),
                })
                .into_iter()
                .collect(),
        }
    };
    BenchReport {
        ovms_bench: FORM,
        model: "resnet".to_owned(),
        model_version: None,
        api: "kserve-grpc".to_owned(),
        url: "localhost:9000".to_owned(),
        server: Some("OpenVINO Model Server 0.1.0".to_owned()),
        served: None,
        flags: None,
        started_at: 1_790_000_000,
        requests: "unary".to_owned(),
        inputs: vec![ReportedInput {
            name: "x".to_owned(),
            datatype: "FP32".to_owned(),
            shape: vec![1, 10],
        }],
        seed: 7,
        interrupted: false,
        levels: vec![level(1, 1.0, 0), level(4, 3.0, 100)],
        comparison: Vec::new(),
        differs: Vec::new(),
        findings: Vec::new(),
    }
}

/// Makes a report of one window for tests, as `--duration` does.
#[cfg(test)]
pub(super) fn example_of_one_window() -> BenchReport {
    let mut report = example();
    report.levels.truncate(1);
    let level = &mut report.levels[0];
    level.windows.truncate(1);
    (level.end, level.stable) = (ovms::client::load::LevelEnd::Limit, None);
    level.reported = 1;
    report
}
