//! The page that `/metrics` answers: Prometheus' text format, version 0.0.4, or OpenMetrics 1.0.
//!
//! Labels are in alphabetical order, `le` of a bucket behind them, numbers without decimals: as
//! scripts that read the page of the C++ server expect.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use strum::VariantArray as _;

use super::{
    cells::{ALL_ORIGINS, BOUNDS, BUCKETS, Buckets, Cells, Shard},
    exemplars::Exemplar,
    families::{Families, Family, SampleKind},
    graphs::{Method, WAYS, WayCounts},
    parts::{SequenceCounts, WorkerCounts},
    reporter::{ModelCounts, Outcomes, Reporter},
    statistics::Executions,
};
use crate::{
    auth::DenialCounts,
    quota::{ClientLimit, QuotaCounts},
    request::{ApiFamily, Interface, RequestOrigin},
    stamps::FileReloads,
};

/// The figures of one model, by version.
pub(super) struct Model {
    pub(super) name: String,
    /// Counters of all versions together.
    pub(super) counts: Arc<ModelCounts>,
    pub(super) versions: Vec<(i64, Arc<Reporter>)>,
}

/// Format of the page.
///
/// OpenMetrics has exemplars. Its counters would end with `_total`: ours are there as of unknown type, so that they have the
/// same names in both formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFormat {
    /// Prometheus' text format.
    Text,
    /// OpenMetrics.
    OpenMetrics,
}

impl PageFormat {
    /// Returns the format that a scraper asks for by its header `accept`.
    pub fn asked(accept: Option<&str>) -> Self {
        let mut types = accept.unwrap_or_default().split(',');
        let is_open = |one: &str| {
            let mut parts = one.split(';').map(str::trim);
            parts.next() == Some("application/openmetrics-text")
                && !parts.any(|part| ["q=0", "q=0.0"].contains(&part))
        };
        match types.any(is_open) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Returns the content type of the page.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    const fn kind(self, kind: SampleKind) -> &'static str {
        match (self, kind) {
            (Self::OpenMetrics, SampleKind::Counter) => "unknown",
            _ => kind.text(),
        }
    }

    /// Writes the bound of a bucket.
    fn bound(self, bound: u64) -> String {
        match self {
            Self::Text => bound.to_string(),
            // A number with a fraction, as the standard has it.
            Self::OpenMetrics => format!("{bound}.0"),
        }
    }
}

/// Work that a server has at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerLevels {
    /// Requests of all servables that wait or run.
    pub pending: usize,
    /// Bytes of its budget that are charged.
    pub bytes: usize,
}

/// Figures of the server as a whole.
pub(super) struct ServerFigures<'a> {
    /// Work of the server at the moment.
    pub(super) levels: ServerLevels,
    /// End of the time of its certificate, if it has one, in seconds since 1970.
    pub(super) expiry: Option<u64>,
    /// Requests that limits of clients have refused, if there are any limits.
    pub(super) limited: Option<&'a QuotaCounts>,
    /// Requests that were denied, if there are identities.
    pub(super) denied: Option<&'a DenialCounts>,
    /// Reloads of the server's configuration.
    pub(super) reloads: &'a Outcomes,
    /// Readings of the files that it follows beside its configuration.
    pub(super) file_reloads: BTreeMap<&'static str, Arc<FileReloads>>,
}

/// Writes the page of the chosen families.
pub(super) fn write(
    format: PageFormat,
    families: Families,
    models: &[Model],
    server: ServerFigures<'_>,
) -> String {
    use Family as F;
    let mut page = Page {
        format,
        families,
        text: String::new(),
    };
    let page = &mut page;
    requests(page, F::RequestsSuccess, models);
    requests(page, F::RequestsFail, models);
    page.family(F::RequestTime, |page| request_times(page, models));
    type Number = fn(&Reporter) -> u64;
    let number = |page: &mut Page, family: Family, of: Number| {
        each(page, family, models, |page, labels, reporter| {
            page.sample(family, "", labels, of(reporter));
        });
    };
    type Times = (fn(&Cells) -> u64, fn(&Shard) -> &Buckets);
    let times = |page: &mut Page, family: Family, of: Times| {
        each(page, family, models, |page, labels, reporter| {
            let nanoseconds = of.0(&reporter.cells);
            let buckets = reporter.cells.buckets(of.1);
            page.histogram(family, labels, &buckets, nanoseconds);
        });
    };
    number(page, F::Streams, Reporter::streams);
    number(page, F::CurrentRequests, |it| {
        it.cells.level(|shard| &shard.current)
    });
    let levels = server.levels;
    for (family, level) in [
        (F::PendingRequests, levels.pending),
        (F::BytesInFlight, levels.bytes),
    ] {
        page.family(family, |page| {
            page.line(format_args!("{} {level}", family.name()));
        });
    }
    let run: Times = (|it| it.sums(|it| &it.run_ns).iter().sum(), |it| &it.run);
    times(page, F::InferenceTime, run);
    let wait: Times = (|it| it.sum(|it| &it.wait_ns), |it| &it.wait);
    times(page, F::WaitTime, wait);
    each(page, F::BatchSize, models, |page, labels, reporter| {
        if let Some(executions) = reporter.batches.shown().then(|| reporter.executions()) {
            page.batches(labels, &executions);
        }
    });
    number(page, F::QueueSize, Reporter::slots);
    number(page, F::Active, |it| it.cells.level(|shard| &shard.active));
    number(page, F::Stuck, |it| it.inferences_stuck() as u64);
    of_graphs(page, models);
    type Count = fn(&SequenceCounts) -> &AtomicU64;
    let of_sequences: [(Family, Count); 5] = [
        (F::SequencesActive, |counts| &counts.active),
        (F::SequencesStarted, |counts| &counts.started),
        (F::SequencesEnded, |counts| &counts.ended),
        (F::SequencesEvicted, |counts| &counts.evicted),
        (F::SequencesRefused, |counts| &counts.refused),
    ];
    for (family, count) in of_sequences {
        each(page, family, models, |page, labels, reporter| {
            let counts = reporter.sequences();
            if counts.are_kept() {
                page.sample(family, "", labels, count(counts).load(Relaxed));
            }
        });
    }
    each(page, F::SequencesMoved, models, |page, labels, reporter| {
        let counts = reporter.sequences();
        if counts.are_stored() {
            let moved = counts.moved.load(Relaxed);
            page.sample(F::SequencesMoved, "", labels, moved);
        }
    });
    page.family(F::SequencesStored, |page| {
        for Model { name, versions, .. } in models {
            // The same for all versions, which share their ids there.
            let counts = versions.iter().map(|(_, reporter)| reporter.sequences());
            if let Some(counts) = counts.rev().find(|counts| counts.are_stored()) {
                let labels = format!(r#"name="{}""#, escaped(name));
                let stored = counts.stored.load(Relaxed);
                page.sample(F::SequencesStored, "", &labels, stored);
            }
        }
    });
    type OfWorkers = fn(&WorkerCounts) -> &AtomicU64;
    let of_workers: [(Family, OfWorkers); 2] = [
        (F::WorkerDeaths, |counts| &counts.deaths),
        (F::WorkerRestarts, |counts| &counts.restarts),
    ];
    for (family, count) in of_workers {
        page.family(family, |page| {
            for Model { name, versions, .. } in models {
                let reporters = versions.iter().map(|(_, reporter)| reporter);
                for counts in reporters.filter_map(|reporter| reporter.workers.get()) {
                    let labels = format!(r#"name="{}""#, escaped(name));
                    page.sample(family, "", &labels, count(counts).load(Relaxed));
                }
            }
        });
    }
    page.family(F::NodeTime, |page| node_times(page, models));
    if let Some(expiry) = server.expiry {
        page.family(F::CertificateExpiry, |page| {
            page.line(format_args!("{} {expiry}", F::CertificateExpiry.name()));
        });
    }
    if let Some(limited) = server.limited {
        page.family(F::RequestsLimited, |page| {
            for (identity, counts) in limited.get() {
                for (limit, count) in ClientLimit::VARIANTS.iter().zip(counts) {
                    let labels = format!(r#"identity="{}",limit="{limit}""#, escaped(&identity));
                    page.sample(F::RequestsLimited, "", &labels, count);
                }
            }
        });
    }
    if let Some(denied) = server.denied {
        page.family(F::RequestsDenied, |page| {
            for (reason, count) in denied.get() {
                let labels = format!(r#"reason="{reason}""#);
                page.sample(F::RequestsDenied, "", &labels, count);
            }
        });
    }
    page.family(F::Loads, |page| {
        for Model { name, counts, .. } in models {
            let loads = &counts.loads;
            if [true, false]
                .iter()
                .any(|well| loads.of(*well).load(Relaxed) > 0)
            {
                let name = format!(r#"name="{}","#, escaped(name));
                outcomes(page, F::Loads, &name, loads);
            }
        }
    });
    page.family(F::Reloads, |page| {
        outcomes(page, F::Reloads, "", server.reloads);
    });
    if !server.file_reloads.is_empty() {
        page.family(F::FileReloads, |page| {
            for (file, counts) in &server.file_reloads {
                for (result, count) in counts.get() {
                    let labels = format!(r#"file="{file}",result="{result}""#);
                    page.sample(F::FileReloads, "", &labels, count);
                }
            }
        });
    }
    if format == PageFormat::OpenMetrics {
        page.line(format_args!("# EOF"));
    }
    std::mem::take(&mut page.text)
}

/// Writes counts by how it went, behind other labels.
fn outcomes(page: &mut Page, family: Family, labels: &str, counts: &Outcomes) {
    for (well, result) in [(true, "success"), (false, "fail")] {
        let labels = format!(r#"{labels}result="{result}""#);
        page.sample(family, "", &labels, counts.of(well).load(Relaxed));
    }
}

/// Writes the families of graphs. They have no versions.
fn of_graphs(page: &mut Page, models: &[Model]) {
    use Family as F;
    let graphs = || {
        models.iter().flat_map(|model| {
            let graphs = model.versions.iter();
            let graphs = graphs.filter_map(|(_, reporter)| reporter.of_graph());
            graphs.map(|graph| (escaped(&model.name), graph))
        })
    };
    page.family(F::CurrentGraphs, |page| {
        for (name, graph) in graphs() {
            let running = u64::try_from(graph.running.load(Relaxed)).unwrap_or(0);
            page.sample(F::CurrentGraphs, "", &format!(r#"name="{name}""#), running);
        }
    });
    type Count = fn(&WayCounts) -> &AtomicU64;
    let counts: [(Family, Count); 4] = [
        (F::RequestsAccepted, |way| &way.accepted),
        (F::RequestsRejected, |way| &way.rejected),
        (F::Responses, |way| &way.responses),
        (F::GraphError, |way| &way.errors),
    ];
    for (family, count) in counts {
        page.family(family, |page| {
            for (name, graph) in graphs() {
                for ((interface, method), way) in WAYS.into_iter().zip(&graph.ways) {
                    let labels = of_way(interface, method.name(), &name);
                    page.sample(family, "", &labels, count(way).load(Relaxed));
                }
            }
        });
    }
    page.family(F::GraphTime, |page| {
        for (name, graph) in graphs() {
            for (method, times) in Method::ALL.into_iter().zip(&graph.times) {
                let labels = format!(r#"method="{}",name="{name}""#, method.name());
                let nanoseconds = times.ns.load(Relaxed);
                page.histogram(F::GraphTime, &labels, &times.run.counts(), nanoseconds);
            }
        }
    });
}

/// Writes the labels of a call to a graph.
fn of_way(interface: Interface, method: &str, name: &str) -> String {
    let api = ApiFamily::KServe;
    labels(RequestOrigin { api, interface }, method, name)
}

/// Writes how long the nodes of pipelines and graphs ran.
fn node_times(page: &mut Page, models: &[Model]) {
    for Model { name, versions, .. } in models {
        let name = escaped(name);
        for (_, reporter) in versions {
            for (node, times) in &*reporter.nodes.lock() {
                let labels = format!(r#"name="{name}",node="{}""#, escaped(node));
                let buckets = times.run.counts();
                page.histogram(
                    Family::NodeTime,
                    &labels,
                    &buckets,
                    times.run_ns.load(Relaxed),
                );
            }
        }
    }
}

/// Writes a family that has its samples by version of a model.
fn each(
    page: &mut Page,
    family: Family,
    models: &[Model],
    write: impl Fn(&mut Page, &str, &Reporter),
) {
    page.family(family, |page| {
        for model in models {
            let name = escaped(&model.name);
            let models = model.versions.iter();
            for (number, reporter) in models.filter(|(_, reporter)| reporter.is_model()) {
                let labels = format!(r#"name="{name}",version="{number}""#);
                write(page, &labels, reporter);
            }
        }
    });
}

/// Writes the counts of successful or failed calls: of the model as a whole, then by version. Graphs have no
/// versions, and only KServe's calls, of which one is a stream.
fn requests(page: &mut Page, family: Family, models: &[Model]) {
    let succeeded = family == Family::RequestsSuccess;
    let count = |outcomes: &Outcomes| outcomes.of(succeeded).load(Relaxed);
    page.family(family, |page| {
        for Model { name, versions, .. } in models {
            let name = escaped(name);
            let Some((_, first)) = versions.first() else {
                continue;
            };
            for (place, origin) in ALL_ORIGINS.into_iter().enumerate() {
                let [.., state] = METHODS[origin.api as usize];
                let labels = labels(origin, state, &name);
                page.sample(family, "", &labels, count(&first.model.state[place]));
            }
            for (number, reporter) in versions {
                let graph = reporter.of_graph();
                let version = match graph {
                    Some(_) => String::new(),
                    None => format!(r#",version="{number}""#),
                };
                for (place, origin) in ALL_ORIGINS.into_iter().enumerate() {
                    if graph.is_some() && origin.api != ApiFamily::KServe {
                        continue;
                    }
                    let [infer, metadata, _] = METHODS[origin.api as usize];
                    let inferences = reporter.cells.sum(|shard| match succeeded {
                        true => &shard.success[place],
                        false => &shard.fail[place],
                    });
                    let asked = count(&reporter.metadata[place]);
                    for (method, count) in [(infer, inferences), (metadata, asked)] {
                        let labels = labels(origin, method, &name) + &version;
                        page.sample(family, "", &labels, count);
                    }
                }
                if let Some(graph) = graph {
                    let interfaces = [Interface::Grpc, Interface::Rest];
                    for (interface, streams) in interfaces.into_iter().zip(&graph.streams) {
                        let labels = of_way(interface, Method::Stream.name(), &name);
                        page.sample(family, "", &labels, count(streams));
                    }
                }
            }
        }
    });
}

/// Writes how long inference requests took, by interface.
fn request_times(page: &mut Page, models: &[Model]) {
    for Model { name, versions, .. } in models {
        let name = escaped(name);
        let timed = |(_, reporter): &&(i64, Arc<Reporter>)| reporter.of_graph().is_none();
        for (number, reporter) in versions.iter().filter(timed) {
            let cells = &reporter.cells;
            for side in [Interface::Grpc, Interface::Rest] {
                let buckets = cells.buckets(|shard| &shard.request[side as usize]);
                let nanoseconds = ALL_ORIGINS
                    .iter()
                    .enumerate()
                    .filter(|(_, origin)| origin.interface == side)
                    .map(|(place, _)| cells.sum(|shard| &shard.success_ns[place]))
                    .sum();
                let labels = format!(
                    r#"interface="{}",name="{name}",version="{number}""#,
                    INTERFACES[side as usize]
                );
                let exemplars = reporter.exemplars.get().map(|all| all.of(side));
                let exemplar = |index: usize| exemplars.as_ref()?[index].as_ref();
                let times = (&buckets, nanoseconds);
                page.histogram_with(Family::RequestTime, &labels, times, exemplar);
            }
        }
    }
}

fn labels(origin: RequestOrigin, method: &str, name: &str) -> String {
    let api = ["TensorFlowServing", "KServe"][origin.api as usize];
    let interface = INTERFACES[origin.interface as usize];
    format!(r#"api="{api}",interface="{interface}",method="{method}",name="{name}""#)
}

/// Names of the interfaces, by their places.
const INTERFACES: [&str; 2] = ["gRPC", "REST"];

/// Names of the calls of each API, by its place: for inferences, metadata, and state.
const METHODS: [[&str; 3]; 2] = [
    ["Predict", "GetModelMetadata", "GetModelStatus"],
    ["ModelInfer", "ModelMetadata", "ModelReady"],
];

/// Writes a text as the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

struct Page {
    format: PageFormat,
    families: Families,
    text: String,
}

impl Page {
    /// Writes a family, if it is chosen; its head only if there are samples.
    fn family(&mut self, family: Family, samples: impl FnOnce(&mut Self)) {
        if !self.families.has(family) {
            return;
        }
        let start = self.text.len();
        let name = family.name();
        self.line(format_args!("# HELP {name} {}", family.help()));
        let kind = self.format.kind(family.kind());
        self.line(format_args!("# TYPE {name} {kind}"));
        let head = self.text.len();
        samples(self);
        if self.text.len() == head {
            self.text.truncate(start);
        }
    }

    fn histogram(
        &mut self,
        family: Family,
        labels: &str,
        buckets: &[u64; BUCKETS],
        nanoseconds: u64,
    ) {
        self.histogram_with(family, labels, (buckets, nanoseconds), |_| None);
    }

    /// Writes a histogram with exemplars of its buckets, where the format has them.
    fn histogram_with<'a>(
        &mut self,
        family: Family,
        labels: &str,
        (buckets, nanoseconds): (&[u64; BUCKETS], u64),
        exemplar: impl Fn(usize) -> Option<&'a Exemplar>,
    ) {
        debug_assert_eq!(family.kind(), SampleKind::Histogram);
        let mut count = 0;
        for (index, in_bucket) in buckets.iter().enumerate() {
            count += in_bucket;
            let bound = BOUNDS.get(index).map(|&bound| self.format.bound(bound));
            let bound = bound.as_deref().unwrap_or("+Inf");
            let exemplar = match self.format {
                PageFormat::Text => None,
                PageFormat::OpenMetrics => exemplar(index).map(Exemplar::text),
            };
            self.line(format_args!(
                r#"{}_bucket{{{labels},le="{bound}"}} {count}{}"#,
                family.name(),
                exemplar.unwrap_or_default()
            ));
        }
        self.sample(family, "_sum", labels, nanoseconds / 1000);
        self.sample(family, "_count", labels, count);
    }

    /// Writes the executions of a version by their rows.
    fn batches(&mut self, labels: &str, executions: &[Executions]) {
        let counts = |most: u64| -> u64 {
            let within = executions.iter().filter(move |it| it.rows <= most);
            within.map(|it| it.run.count).sum()
        };
        for bound in (0..=10).map(|power| 1 << power) {
            let labels = format!(r#"{labels},le="{}""#, self.format.bound(bound));
            self.sample(Family::BatchSize, "_bucket", &labels, counts(bound));
        }
        let count = counts(u64::MAX);
        let labels_of_all = format!(r#"{labels},le="+Inf""#);
        self.sample(Family::BatchSize, "_bucket", &labels_of_all, count);
        let rows = executions.iter().map(|it| it.all_rows).sum();
        self.sample(Family::BatchSize, "_sum", labels, rows);
        self.sample(Family::BatchSize, "_count", labels, count);
    }

    fn sample(&mut self, family: Family, suffix: &str, labels: &str, value: u64) {
        self.line(format_args!(
            "{}{suffix}{{{labels}}} {value}",
            family.name()
        ));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A String takes all text.
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::{PageFormat, escaped};

    #[test]
    fn open_metrics_is_for_scrapers_that_ask_for_it() {
        use PageFormat::{OpenMetrics, Text};
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            (None, Text),
            (Some("*/*"), Text),
            (Some("text/plain;version=0.0.4"), Text),
            (Some("application/openmetrics-text;q=0"), Text),
            (Some("application/openmetrics-text"), OpenMetrics),
            (
                Some("text/plain, application/openmetrics-text; version=1.0.0"),
                OpenMetrics,
            ),
            (Some(prometheus), OpenMetrics),
        ] {
            assert_eq!(PageFormat::asked(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn names_cannot_end_a_label() {
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }
}
