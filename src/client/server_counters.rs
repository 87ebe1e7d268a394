//! Times in the server, from Triton's statistics.

use serde::{Deserialize, Serialize};

use crate::proto::kserve::{InferStatistics, ModelStatisticsResponse, StatisticDuration};

/// Times of a request in the server, in microseconds: means over all requests that the model answered meanwhile,
/// those of other clients too.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServerSplit {
    /// Number of requests.
    pub requests: u64,
    /// Number of inferences that they took.
    pub executions: u64,
    /// Time from arrival to answer.
    pub total_us: f64,
    /// Waiting for an infer request.
    pub queue_us: f64,
    /// Unpacking and checks.
    pub input_us: f64,
    /// The inference itself.
    pub infer_us: f64,
    /// Packing.
    pub output_us: f64,
}

/// Counters of a model since the server's start; only differences say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounters {
    requests: u64,
    executions: u64,
    total_ns: u64,
    queue_ns: u64,
    input_ns: u64,
    infer_ns: u64,
    output_ns: u64,
}

impl ServerCounters {
    /// Adds the counters of all versions that the server names.
    pub(in crate::client) fn of(message: &ModelStatisticsResponse) -> Self {
        let mut sum = Self::default();
        for model in &message.model_stats {
            let default = InferStatistics::default();
            let stats = model.inference_stats.as_ref().unwrap_or(&default);
            let ns = |it: &Option<StatisticDuration>| it.as_ref().map_or(0, |it| it.ns);
            let success = stats.success.as_ref();
            sum.requests += success.map_or(0, |it| it.count);
            sum.executions += model.execution_count;
            sum.total_ns += ns(&stats.success);
            sum.queue_ns += ns(&stats.queue);
            sum.input_ns += ns(&stats.compute_input);
            sum.infer_ns += ns(&stats.compute_infer);
            sum.output_ns += ns(&stats.compute_output);
        }
        sum
    }

    /// Returns the means of the requests since an earlier look; `None` if there were none, or the server
    /// has restarted.
    #[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
    pub fn since(&self, before: &Self) -> Option<ServerSplit> {
        let requests = self.requests.checked_sub(before.requests)?;
        if requests == 0 {
            return None;
        }
        let mean = |after: u64, before: u64| {
            let nanoseconds = after.checked_sub(before)?;
            Some(nanoseconds as f64 / requests as f64 / 1e3)
        };
        Some(ServerSplit {
            requests,
            executions: self.executions.checked_sub(before.executions)?,
            total_us: mean(self.total_ns, before.total_ns)?,
            queue_us: mean(self.queue_ns, before.queue_ns)?,
            input_us: mean(self.input_ns, before.input_ns)?,
            infer_us: mean(self.infer_ns, before.infer_ns)?,
            output_us: mean(self.output_ns, before.output_ns)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ServerCounters;
    use crate::proto::kserve::{
        InferStatistics, ModelStatistics, ModelStatisticsResponse, StatisticDuration,
    };

    fn counters(versions: &[(u64, u64)]) -> ServerCounters {
        let version = |(count, ns): &(u64, u64)| ModelStatistics {
            execution_count: *count,
            inference_stats: Some(InferStatistics {
                success: Some(StatisticDuration {
                    count: *count,
                    ns: 10 * ns,
                }),
                queue: Some(StatisticDuration {
                    count: *count,
                    ns: *ns,
                }),
                ..InferStatistics::default()
            }),
            ..ModelStatistics::default()
        };
        ServerCounters::of(&ModelStatisticsResponse {
            model_stats: versions.iter().map(version).collect(),
        })
    }

    #[test]
    fn means_are_of_the_requests_between_two_looks() {
        let before = counters(&[(2, 1_000), (1, 500)]);
        let split = counters(&[(4, 21_000), (3, 500)]).since(&before).unwrap();
        assert_eq!((split.requests, split.executions), (4, 4));
        assert_eq!((split.queue_us, split.total_us), (5.0, 50.0));
        assert_eq!(split.infer_us, 0.0);
        assert_eq!(before.since(&before), None);
        // A server that has restarted counts from zero.
        assert_eq!(counters(&[(1, 0)]).since(&before), None);
    }
}
