//! Figures for operators: what `/metrics` shows, and what statistics calls answer.
//!
//! [`Metrics`] has a [`Reporter`] for each version of each model, which lives as long as the server
//! does, whatever is reloaded. A request counts through a [`RequestRecord`]. Counting is a few relaxed
//! additions in `cells`; everything else is done when a page is asked for, by `page`. What is
//! shown is chosen by [`Families`].

mod batches;
mod cells;
mod exemplars;
mod families;
mod graphs;
mod health;
mod latency;
mod page;
mod parts;
mod reporter;
mod statistics;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::{auth::DenialCounts, quota::QuotaCounts, stamps::FileReloads};

pub use batches::BatchRun;
pub use families::{Families, Family, NameError, SampleKind};
pub use graphs::{GraphCall, Method, Running};
pub use health::ServableHealth;
pub use latency::LatencyHistogram;
pub use page::{PageFormat, ServerLevels};
pub use parts::{NodeTimes, SequenceCounts, WorkerCounts};
pub(crate) use reporter::Active;
pub(crate) use reporter::MAX_STUCK;
pub use reporter::{Query, Reporter, RequestRecord, RunEnd, Times};
pub use statistics::{Executions, Figures, Stage, Statistics};

/// The families that are switched on, and their values.
#[derive(Debug, Default)]
pub struct Metrics {
    /// `None`: there is no page.
    families: Option<Families>,
    /// Families that are counted, for the page or for others.
    counted: Families,
    /// End of the time of the server's certificate, in seconds since 1970; 0 without one.
    certificate_expiry: AtomicU64,
    /// Requests that limits of clients have refused, once there are any such limits.
    limited: OnceLock<Arc<QuotaCounts>>,
    /// Requests that were denied, once there are identities.
    denied: OnceLock<Arc<DenialCounts>>,
    /// Reloads of the server.
    reloads: reporter::Outcomes,
    /// Readings of files that are followed beside the configuration, by what they are.
    file_reloads: Mutex<BTreeMap<&'static str, Arc<FileReloads>>>,
    models: Mutex<BTreeMap<String, Model>>,
}

#[derive(Debug, Default)]
struct Model {
    counts: Arc<reporter::ModelCounts>,
    versions: BTreeMap<i64, Arc<Reporter>>,
}

/// Versions of a model whose figures are kept; of more, those that nobody uses any more go, the oldest first.
const MAX_VERSIONS: usize = 1000;

impl Metrics {
    /// Makes metrics without a page.
    pub fn off() -> Arc<Self> {
        Arc::default()
    }

    /// Makes metrics with a page of the families named, or of the usual ones; or without a page.
    ///
    /// # Errors
    ///
    /// Fails if a name is unknown or there twice, whether there is to be a page or not.
    pub fn new(enable: bool, families: Option<&[String]>) -> Result<Arc<Self>, NameError> {
        Self::watched(enable, families, &[])
    }

    /// Makes metrics as [`Metrics::new`], and counts more families than the page has, for who asks
    /// the [`Reporter`] for them.
    ///
    /// # Errors
    ///
    /// Fails as that does.
    pub fn watched(
        enable: bool,
        families: Option<&[String]>,
        counted: &[Family],
    ) -> Result<Arc<Self>, NameError> {
        let families = families.map_or(Ok(Families::usual()), Families::named)?;
        let families = enable.then_some(families);
        Ok(Arc::new(Self {
            families,
            counted: families.unwrap_or_default().with(counted),
            certificate_expiry: AtomicU64::new(0),
            limited: OnceLock::new(),
            denied: OnceLock::new(),
            reloads: reporter::Outcomes::default(),
            file_reloads: Mutex::default(),
            models: Mutex::default(),
        }))
    }

    /// Returns the figures of a version of a model; the same ones each time it is asked, unless they have gone since for
    /// those of others.
    pub fn reporter(&self, name: &str, version: i64) -> Arc<Reporter> {
        let families = self.counted;
        let mut models = self.models.lock();
        let model = models.entry(name.to_owned()).or_default();
        let Model { counts, versions } = model;
        if versions.len() >= MAX_VERSIONS && !versions.contains_key(&version) {
            let mut unused = versions.iter();
            let unused = unused.find(|(_, reporter)| Arc::strong_count(reporter) == 1);
            if let Some(unused) = unused.map(|(version, _)| *version) {
                versions.remove(&unused);
            }
        }
        let reporter = versions
            .entry(version)
            .or_insert_with(|| Arc::new(Reporter::new(families, Arc::clone(counts))));
        Arc::clone(reporter)
    }

    /// Counts a load of a servable that did not get as far as a version, by how it went.
    pub fn count_load(&self, name: &str, well: bool) {
        let mut models = self.models.lock();
        let model = models.entry(name.to_owned()).or_default();
        model.counts.loads.count(well);
    }

    /// Counts a reload, by how it went.
    pub fn count_reload(&self, well: bool) {
        self.reloads.count(well);
    }

    /// Sets the end of the time of the server's TLS certificate, in seconds since 1970.
    pub fn set_certificate_expiry(&self, seconds: u64) {
        self.certificate_expiry.store(seconds, Relaxed);
    }

    /// Returns the count of requests that limits of clients refuse, which is shown from then on.
    pub fn refused_by_limits(&self) -> Arc<QuotaCounts> {
        Arc::clone(self.limited.get_or_init(Arc::default))
    }

    /// Shows these counts of denied requests from now on; the first ones count.
    pub fn show_denials(&self, counts: Arc<DenialCounts>) {
        self.denied.get_or_init(|| counts);
    }

    /// Shows these counts of readings of files from now on.
    pub(crate) fn show_file_reloads(&self, file: &'static str, counts: Arc<FileReloads>) {
        self.file_reloads.lock().insert(file, counts);
    }

    /// Writes the page of a server that has so much to do, if there is one.
    pub fn page(&self, levels: ServerLevels) -> Option<String> {
        self.page_as(PageFormat::Text, levels)
    }

    /// Writes the page as [`Metrics::page`], in another format.
    pub fn page_as(&self, format: PageFormat, levels: ServerLevels) -> Option<String> {
        let families = self.families?;
        // Held for a copy of the list only, not while the page is written.
        let models: Vec<page::Model> = self
            .models
            .lock()
            .iter()
            .map(|(name, model)| page::Model {
                name: name.clone(),
                counts: Arc::clone(&model.counts),
                versions: model
                    .versions
                    .iter()
                    .filter(|(_, reporter)| reporter.is_known())
                    .map(|(&number, reporter)| (number, Arc::clone(reporter)))
                    .collect(),
            })
            .collect();
        let expiry = self.certificate_expiry.load(Relaxed);
        let expiry = Some(expiry).filter(|&seconds| seconds > 0);
        let server = page::ServerFigures {
            levels,
            expiry,
            limited: self.limited.get().map(Arc::as_ref),
            denied: self.denied.get().map(Arc::as_ref),
            reloads: &self.reloads,
            file_reloads: self.file_reloads.lock().clone(),
        };
        Some(page::write(format, families, &models, server))
    }
}

#[cfg(test)]
mod tests;
