//! Models: a name, its versions, and the steps of a request to one.
//!
//! [`repository`] finds the version folders and files on disk, and [`storage`] brings those in the
//! cloud to the disk; both let [`FolderSurvey`] decide which folders are versions; [`Version`] is
//! one of them with its state and slots, [`check`] validates a request's tensors, and [`infer`]
//! runs a validated request.

pub mod check;
pub mod cleaner;
pub(crate) mod decoding;
pub mod demo;
mod folders;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod infer;
pub mod ir;
pub mod keeper;
mod labels;
mod live;
mod loaded;
pub mod mapping;
pub mod others;
mod phase;
mod recover;
pub mod repository;
mod resize;
mod snapshot;
mod state;
pub(crate) mod stateful;
pub(crate) mod stateful_run;
pub mod storage;
mod version;
pub mod wanted;
pub mod warmup;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

pub use folders::{FolderSurvey, Ignored, Reason};
pub use live::{Live, Served, draining, let_go};
pub(crate) use loaded::has_state;
pub use loaded::{Loaded, Spec, VersionError, VersionFailure, inspect, settings_refusal};
pub use phase::{Phase, PhaseEvent};
pub use snapshot::Snapshot;
pub use state::{Status, VersionErrorCode, VersionState};
pub use stateful::{OfVersion, not_stored};
pub use version::Version;

use crate::error::{Error, ErrorKind, Result};

/// Makes the error of a request that would wait where too many wait already.
pub(crate) fn overloaded(what: impl fmt::Display) -> Error {
    let text = format!("Server is overloaded - {what}; try again later");
    Error::new(ErrorKind::Overloaded, text)
}

/// Number of versions from which on those that have ended are forgotten.
const MAX_KNOWN: usize = 1000;

/// Beginning of the outcome of a look for versions that has found none.
pub const NO_VERSION: &str = "there is no version";

/// A model: its name and the versions that the server knows of.
#[derive(Debug)]
pub struct Model {
    name: Arc<str>,
    versions: ArcSwap<BTreeMap<i64, Arc<Version>>>,
    /// Outcome of the last look for versions: the error that concerns them as a whole, if any.
    survey: ArcSwapOption<std::result::Result<(), String>>,
    /// The same error, as errors of requests have it.
    obscured: ArcSwapOption<String>,
    /// Held while a sequence starts whose id has to be free in all versions.
    starts: Mutex<()>,
    /// Progress of the download of a version, where versions come from the cloud.
    download: ArcSwapOption<watch::Receiver<storage::DownloadProgress>>,
}

impl Model {
    /// Makes a model of versions in any state.
    pub fn new(name: &str, versions: impl IntoIterator<Item = Arc<Version>>) -> Self {
        Self {
            name: name.into(),
            versions: ArcSwap::from_pointee(
                versions
                    .into_iter()
                    .map(|version| (version.number(), version))
                    .collect(),
            ),
            survey: ArcSwapOption::empty(),
            obscured: ArcSwapOption::empty(),
            starts: Mutex::default(),
            download: ArcSwapOption::empty(),
        }
    }

    /// Publishes the progress of downloads of its versions.
    pub fn show_download(&self, progress: Option<watch::Receiver<storage::DownloadProgress>>) {
        self.download.store(progress.map(Arc::new));
    }

    /// Returns the progress of the download in flight; `None` if there is none.
    pub fn download(&self) -> Option<storage::DownloadProgress> {
        let progress = *self.download.load().as_ref()?.borrow();
        (progress.received < progress.expected).then_some(progress)
    }

    /// Adds a version. Versions stay known after they have ended, as status calls show.
    pub fn add(&self, version: &Arc<Version>) {
        self.versions.rcu(|versions| {
            let mut versions = BTreeMap::clone(versions);
            let has_ended = |version: &Arc<Version>| version.status().state == VersionState::End;
            // The oldest are forgotten, so that a version a minute does not fill the memory.
            if versions.len() >= MAX_KNOWN
                && let Some(oldest) = versions.values().find(|version| has_ended(version))
            {
                let oldest = oldest.number();
                versions.remove(&oldest);
            }
            versions.insert(version.number(), Arc::clone(version));
            versions
        });
    }

    /// Finds a version in any state.
    pub fn known(&self, number: i64) -> Option<Arc<Version>> {
        self.versions.load().get(&number).cloned()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Records the outcome of a look for versions in a base path: the error that concerns them as a whole, if any.
    pub fn surveyed(&self, found: std::result::Result<(), String>, base_path: &str) {
        // A folder that has no version is no failure.
        let failure = found.as_ref().err();
        let failure = failure.filter(|text| !text.starts_with(NO_VERSION));
        let seen = failure.map(|text| for_clients(text, base_path, None));
        self.obscured.store(seen.map(Arc::new));
        self.survey.store(Some(Arc::new(found)));
    }

    /// Returns the outcome of the last look for versions; `None` before the first.
    pub fn survey(&self) -> Option<Arc<std::result::Result<(), String>>> {
        self.survey.load_full()
    }

    /// Returns every version, the lowest first.
    pub fn versions(&self) -> Vec<Arc<Version>> {
        self.versions.load().values().cloned().collect()
    }

    /// Lets one sequence start at a time, where its id has to be free in all versions.
    pub(crate) fn starting(&self) -> MutexGuard<'_, ()> {
        self.starts.lock()
    }

    /// Finds the newest version that is retired and still has sequences.
    pub fn draining(&self) -> Option<Arc<Version>> {
        let versions = self.versions.load();
        let mut newest = versions.values().rev();
        newest.find(|version| version.draining().is_some()).cloned()
    }

    /// Finds a version by its number; `None` means the default version: the highest that is
    /// available.
    ///
    /// # Errors
    ///
    /// Fails if there is no such version, or none is available to be the default.
    pub fn version(&self, number: Option<i64>) -> Result<Arc<Version>> {
        let versions = self.versions.load();
        let version = match number {
            Some(number) => versions.get(&number),
            None => versions.values().rev().find(|version| version.is_loaded()),
        };
        version.cloned().ok_or_else(|| {
            let none = Error::new(
                ErrorKind::NotFound,
                "Model with requested version is not found",
            );
            match self.obstacle().filter(|_| number.is_none()) {
                Some(obstacle) => none.with_more(&format!(" - {obstacle}")),
                None => none,
            }
        })
    }

    /// Returns why no version serves, in one line: the newest failure, or that of the last look for versions.
    fn obstacle(&self) -> Option<String> {
        let versions = self.versions.load();
        let failed = versions.values().rev().find_map(|version| {
            let failure = version.obstacle()?;
            Some(format!("version {}: {failure}", version.number()))
        });
        let survey = || self.obscured.load_full().filter(|_| versions.is_empty());
        failed.or_else(|| Some(survey()?.to_string()))
    }
}

/// Writes a reason as errors of requests have it: in one line, and of paths of this machine, and addresses, the last part
/// alone. Those below the base path may have blanks.
fn for_clients(reason: &str, base_path: &str, version: Option<i64>) -> String {
    let base = Path::new(base_path.trim_end_matches('/'));
    let folder = version.map(|number| base.join(number.to_string()));
    let mut reason = reason.to_owned();
    // The longest first; those without blanks are single words below.
    for folder in folder.iter().map(AsRef::as_ref).chain(base.ancestors()) {
        let folder = folder.to_string_lossy();
        if folder.contains(char::is_whitespace) {
            reason = reason.replace(&format!("{folder}/"), "");
        }
    }
    let words = reason.split_whitespace().map(|word| {
        let bare = word.trim_start_matches(|c: char| c.is_ascii_punctuation() && c != '/');
        if !(bare.starts_with('/') || bare.contains("://")) {
            return word.to_owned();
        }
        let before = &word[..word.len() - bare.len()];
        let mut parts = bare.rsplit('/').filter(|part| !part.is_empty());
        format!("{before}{}", parts.next().unwrap_or_default())
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::for_clients;

    #[test]
    fn clients_see_no_paths() {
        for (reason, seen) in [
            (
                "cannot read /srv/m/2/model.xml: Error\n  at 3/4",
                "cannot read model.xml: Error at 3/4",
            ),
            (
                "no model in `/srv/m/1`; expected *.xml",
                "no model in `1`; expected *.xml",
            ),
            ("s3://bucket/models/m: denied", "m: denied"),
            ("/: no folder /srv/", ": no folder srv"),
        ] {
            assert_eq!(for_clients(reason, "/srv/m", Some(2)), seen);
        }
        for (base_path, reason, seen) in [
            (
                "/srv/sp ace/secret dir/m/",
                "cannot read /srv/sp ace/secret dir/m/2/model.xml, `/srv/sp ace/secret dir/m/2`, /srv/sp ace/secret dir/m",
                "cannot read model.xml, `2`, m",
            ),
            (
                "/srv/sp ace/m/saved_model.pb",
                "cannot read /srv/sp ace/m: no /srv/sp ace/m/variables",
                "cannot read m: no variables",
            ),
            (
                "s3://bucket/my models/m",
                "s3://bucket/my models/m/2: denied",
                "2: denied",
            ),
        ] {
            assert_eq!(for_clients(reason, base_path, Some(2)), seen);
        }
    }
}
