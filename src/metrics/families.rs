//! The families: names, help texts, labels, and which of them are switched on.

/// A family of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// Calls that succeeded.
    RequestsSuccess,
    /// Calls that failed.
    RequestsFail,
    /// Whole inference requests that succeeded.
    RequestTime,
    /// Execution streams.
    Streams,
    /// Inference requests in flight.
    CurrentRequests,
    /// Requests that wait or run, over the whole server.
    PendingRequests,
    /// Bytes that are held for clients, over the whole server.
    BytesInFlight,
    /// Runs in the runtime.
    InferenceTime,
    /// Waits for an infer request.
    WaitTime,
    /// Batches of requests by their rows.
    BatchSize,
    /// Infer requests.
    QueueSize,
    /// Infer requests in use.
    Active,
    /// Inferences that do not end.
    Stuck,
    /// Graphs that run.
    CurrentGraphs,
    /// Requests of graphs that put packets in.
    RequestsAccepted,
    /// Requests of graphs that made no packet.
    RequestsRejected,
    /// Responses of graphs.
    Responses,
    /// Runs of graphs that failed.
    GraphError,
    /// Runs of graphs.
    GraphTime,
    /// Sequences that live.
    SequencesActive,
    /// Sequences that their clients began.
    SequencesStarted,
    /// Sequences that their clients ended.
    SequencesEnded,
    /// Sequences that were removed for being idle.
    SequencesEvicted,
    /// Sequences above the limit.
    SequencesRefused,
    /// Sequences whose states are in the store alone from then on.
    SequencesMoved,
    /// Sequences that the store has.
    SequencesStored,
    /// Python workers that have died.
    WorkerDeaths,
    /// Python workers that have restarted.
    WorkerRestarts,
    /// Runs of a node of a pipeline or graph.
    NodeTime,
    /// End of the time of the server's certificate.
    CertificateExpiry,
    /// Requests above a limit of their client.
    RequestsLimited,
    /// Requests that an identity had no right to, or that had none.
    RequestsDenied,
    /// Loads of a servable.
    Loads,
    /// Reloads of the server.
    Reloads,
    /// Readings of files that are followed beside the configuration.
    FileReloads,
}

/// Kind of a family's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// Counter, which only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl SampleKind {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A family with its name, the kind of its samples, whether it is shown by default, and its help text.
type Entry = (Family, &'static str, SampleKind, bool, &'static str);

/// Every family, in the order of the enum and of the page.
#[rustfmt::skip]
const TABLE: [Entry; 35] = {
    use Family as F;
    use SampleKind::{Counter, Gauge, Histogram};
    [
    (F::RequestsSuccess, "ovms_requests_success", Counter, true, "Number of successful requests to a model or a DAG."),
    (F::RequestsFail, "ovms_requests_fail", Counter, true, "Number of failed requests to a model or a DAG."),
    (F::RequestTime, "ovms_request_time_us", Histogram, true, "Processing time of requests to a model or a DAG."),
    (F::Streams, "ovms_streams", Gauge, true, "Number of OpenVINO execution streams."),
    (F::CurrentRequests, "ovms_current_requests", Gauge, true, "Number of inference requests currently in process."),
    (F::PendingRequests, "ovms_pending_requests", Gauge, true, "Number of requests to all models, DAGs and graphs that wait or run."),
    (F::BytesInFlight, "ovms_bytes_in_flight", Gauge, true, "Number of bytes of requests and answers that the server holds, and of compiled models of batches."),
    (F::InferenceTime, "ovms_inference_time_us", Histogram, true, "Inference execution time in the OpenVINO backend."),
    (F::WaitTime, "ovms_wait_for_infer_req_time_us", Histogram, true, "Request waiting time for a free infer request."),
    (F::BatchSize, "ovms_batch_size", Histogram, true, "Number of rows of the batches that requests to a model with dynamic batching ran in."),
    (F::QueueSize, "ovms_infer_req_queue_size", Gauge, false, "Number of infer requests (nireq)."),
    (F::Active, "ovms_infer_req_active", Gauge, false, "Number of infer requests currently in use."),
    (F::Stuck, "ovms_inferences_stuck", Gauge, true, "Number of inferences that go on beyond their time limit and cannot be cancelled."),
    (F::CurrentGraphs, "ovms_current_graphs", Gauge, true, "Number of graphs currently running."),
    (F::RequestsAccepted, "ovms_requests_accepted", Counter, true, "Number of requests to a graph whose packets were accepted."),
    (F::RequestsRejected, "ovms_requests_rejected", Counter, true, "Number of requests to a graph whose packets were rejected."),
    (F::Responses, "ovms_responses", Counter, true, "Number of responses of a graph."),
    (F::GraphError, "ovms_graph_error", Counter, true, "Number of errors in the execution of a graph."),
    (F::GraphTime, "ovms_graph_processing_time_us", Histogram, true, "Running time of a graph."),
    (F::SequencesActive, "ovms_sequences_active", Gauge, true, "Number of live sequences of a stateful model."),
    (F::SequencesStarted, "ovms_sequences_started", Counter, true, "Number of sequences started."),
    (F::SequencesEnded, "ovms_sequences_ended", Counter, true, "Number of sequences ended by their clients."),
    (F::SequencesEvicted, "ovms_sequences_evicted", Counter, true, "Number of idle sequences removed."),
    (F::SequencesRefused, "ovms_sequences_refused", Counter, true, "Number of sequences refused because of their limit."),
    (F::SequencesMoved, "ovms_sequences_moved", Counter, true, "Number of sequences whose state was left to the store alone or to another server."),
    (F::SequencesStored, "ovms_sequences_stored", Gauge, true, "Number of live sequences of a stateful model in the store, of all servers."),
    (F::WorkerDeaths, "ovms_python_worker_deaths", Counter, true, "Number of Python workers of a graph or a DAG that have died."),
    (F::WorkerRestarts, "ovms_python_worker_restarts", Counter, true, "Number of Python workers of a graph or a DAG that have restarted."),
    (F::NodeTime, "ovms_node_time_us", Histogram, false, "Running time of a node of a pipeline or a graph."),
    (F::CertificateExpiry, "ovms_tls_certificate_expiry_timestamp_seconds", Gauge, true, "Time at which the TLS certificate expires, in seconds since 1970."),
    (F::RequestsLimited, "ovms_requests_limited", Counter, true, "Number of requests rejected because of a limit of their client."),
    (F::RequestsDenied, "ovms_requests_denied", Counter, true, "Number of requests rejected because of their credentials or rights."),
    (F::Loads, "ovms_loads", Counter, true, "Number of loads of the versions of a model, of a DAG or of a graph."),
    (F::Reloads, "ovms_reloads", Counter, true, "Number of reloads of the configuration and of the model folders."),
    (F::FileReloads, "ovms_file_reloads", Counter, true, "Number of times that the file of identities, or the files of TLS, were read again."),
    ]
};

impl Family {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        let (_, name, ..) = TABLE[self as usize];
        name
    }

    pub(super) const fn help(self) -> &'static str {
        let (.., help) = TABLE[self as usize];
        help
    }

    pub(super) const fn kind(self) -> SampleKind {
        let (_, _, kind, ..) = TABLE[self as usize];
        kind
    }

    const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// A choice of families; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Families(u64);

/// Error of a list of families.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Unknown name of a family.
    #[error("Invalid name in metrics_list - there is no family `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// The known name that may be meant.
        nearest: Option<&'static str>,
    },
    /// The name is there twice.
    #[error("Invalid name in metrics_list - `{name}` is there twice")]
    Repeated {
        /// The name.
        name: String,
    },
}

impl NameError {
    /// Returns the place in the list of the name that it is about.
    pub fn index<S: AsRef<str>>(&self, names: &[S]) -> Option<usize> {
        let (Self::Unknown { name, .. } | Self::Repeated { name }) = self;
        let is_it = |given: &S| given.as_ref() == name;
        match self {
            Self::Unknown { .. } => names.iter().position(is_it),
            Self::Repeated { .. } => names.iter().rposition(is_it),
        }
    }
}

impl Families {
    /// Chooses families by name, and no others.
    ///
    /// # Errors
    ///
    /// Fails with the first name that is unknown or there twice.
    pub fn named<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Self, NameError> {
        let mut chosen = 0;
        for name in names {
            let name = name.as_ref();
            let Some((family, ..)) = TABLE.iter().find(|(_, known, ..)| *known == name) else {
                return Err(NameError::Unknown {
                    name: name.to_owned(),
                    nearest: crate::error::nearest(name, TABLE.iter().map(|&(_, name, ..)| name)),
                });
            };
            let bit = family.bit();
            if chosen & bit != 0 {
                return Err(NameError::Repeated {
                    name: name.to_owned(),
                });
            }
            chosen |= bit;
        }
        Ok(Self(chosen))
    }

    /// Chooses those that are shown unless a list says otherwise.
    pub fn usual() -> Self {
        let shown = TABLE.iter().filter(|(.., by_default, _)| *by_default);
        Self(shown.fold(0, |chosen, (family, ..)| chosen | family.bit()))
    }

    /// Chooses more of them.
    #[must_use]
    pub fn with(self, more: &[Family]) -> Self {
        let more = more.iter();
        Self(more.fold(self.0, |chosen, family| chosen | family.bit()))
    }

    /// Returns whether a family is chosen.
    pub const fn has(self, family: Family) -> bool {
        self.0 & family.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Families, Family, TABLE};

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, (family, name, ..)) in TABLE.into_iter().enumerate() {
            assert_eq!(family as usize, index, "{name}");
        }
    }

    #[test]
    fn a_list_chooses_what_it_names() {
        let chosen = Families::named(["ovms_infer_req_active", "ovms_streams"]).unwrap();
        assert!(chosen.has(Family::Active) && chosen.has(Family::Streams));
        assert!(!chosen.has(Family::RequestsSuccess));
        let all = Families::named(TABLE.iter().map(|(_, name, ..)| name)).unwrap();
        assert!(all.has(Family::NodeTime));
        assert!(!Families::usual().has(Family::NodeTime));
        assert!(!Families::usual().has(Family::QueueSize));
        assert!(Families::usual().has(Family::SequencesActive));
    }

    #[test]
    fn names_that_are_unknown_or_there_twice_are_refused() {
        let error = |names: &[&str]| Families::named(names).unwrap_err().to_string();
        insta::assert_snapshot!(
            error(&["ovms_streams", "ovms_request_succes"]),
            @"Invalid name in metrics_list - there is no family `ovms_request_succes`"
        );
        insta::assert_snapshot!(
            error(&["ovms_streams", "ovms_streams"]),
            @"Invalid name in metrics_list - `ovms_streams` is there twice"
        );
        assert!(Families::named([""]).is_err());
        assert!(Families::named(["ovms_graph_request_latency_us"]).is_err());
    }
}
