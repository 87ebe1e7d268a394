//! One model, and what it takes to bring it up to date.

mod attempt;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use self::attempt::{Attempt, Facts, kept};
use super::{
    error::ReloadError,
    models::TurnsOfLoad,
    triton::{contradicted_triton_settings, ignored_triton_settings},
};
use crate::{
    config::{ModelConfig, VersionPolicy},
    error::chain,
    metrics::Metrics,
    model::{
        FolderSurvey, Ignored, Loaded, Model, NO_VERSION, Spec, Version, VersionError,
        VersionFailure, VersionState,
        keeper::Keeper,
        storage::{FoundVersion, Locator, Repository, SourceError, StorageOptions},
        wanted,
    },
    task,
};

/// Reason for a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The first load.
    Start,
    /// The watcher's tick.
    Watch,
    /// A client's wish.
    Asked,
}

/// A model as it is served.
pub(super) struct Served {
    /// Keeps its sequences in a store, if there is one.
    keeper: Option<Arc<Keeper>>,
    pub(super) model: Arc<Model>,
    /// Last configuration applied; `None` before the first time and after it was removed.
    pub(super) config: Option<ModelConfig>,
    /// The access to the base path of `config`.
    repository: Option<Repository>,
    attempts: BTreeMap<i64, Attempt>,
    /// The folders at the base path that are no versions, which the log has.
    ignored: BTreeSet<Ignored>,
    /// The survey that everything is up to date with; `None` where something is left to do.
    settled: Option<Arc<FolderSurvey<FoundVersion>>>,
}

/// Result of the survey of a base path.
pub(super) type Surveyed = Result<Arc<FolderSurvey<FoundVersion>>, SourceError>;

/// Outcome of a pass.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) changed: bool,
    pub(super) errors: Vec<ReloadError>,
    /// The texts of errors that are news, though they may be the same as at the last pass: of loads
    /// whose beginning is in the log.
    pub(super) news: Vec<String>,
}

impl Served {
    pub(super) fn new(name: &str, keeper: Option<Arc<Keeper>>) -> Self {
        Self {
            keeper,
            model: Arc::new(Model::new(name, [])),
            config: None,
            repository: None,
            attempts: BTreeMap::new(),
            ignored: BTreeSet::new(),
            settled: None,
        }
    }

    /// Returns whether there is nothing wrong with the model as a whole: a version serves, or there
    /// is none to serve.
    pub(super) fn serves(&self) -> bool {
        self.model
            .versions()
            .iter()
            .any(|version| version.is_loaded())
    }

    /// Keeps serving as before, since the new entry is refused.
    pub(super) fn keep(&mut self, failure: &str) {
        self.settled = None;
        let base_path = self.config.as_ref().map_or("", |config| &config.base_path);
        for version in self.model.versions() {
            if version.is_loaded() {
                version.fail(failure, base_path);
            }
        }
    }

    /// Stops serving every version; returns whether there was any.
    pub(super) fn remove(&mut self) -> bool {
        self.settled = None;
        self.attempts.clear();
        self.repository = None;
        self.ignored.clear();
        let was = self.config.take().is_some();
        self.model.surveyed(Ok(()), "");
        for version in self.model.versions() {
            if version.status().state < VersionState::Unloading {
                version.retire();
            }
        }
        if was {
            tracing::info!(model = self.model.name(), "removed");
        }
        was
    }

    /// Brings the model up to date with its configuration and its folders, which are looked at if they
    /// were not.
    pub(super) async fn bring(
        &mut self,
        (config, mut surveyed): (ModelConfig, Option<Surveyed>),
        trigger: Trigger,
        metrics: Arc<Metrics>,
        turns: TurnsOfLoad,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        self.settled = None;
        let known = surveyed.as_ref().and_then(|it| it.as_ref().ok().cloned());
        let mut config = config;
        let mut refused = None;
        // Whether it is to have sequences, and which versions are to be served, nobody knows.
        if config.load.settings_error.is_some()
            && let Some(before) = &self.config
            && self.serves()
        {
            config.stateful.clone_from(&before.stateful);
            config.policy.clone_from(&before.policy);
        }
        // Where nothing has come of it yet, nothing changes.
        if let Some(before) = &self.config
            && self.serves()
            && before.stateful.is_some() != config.stateful.is_some()
        {
            let error = ReloadError::Type {
                model: config.name.clone(),
                before: before.stateful.is_some(),
            };
            refused = Some(error.to_string());
            outcome.errors.push(error);
            config = before.clone();
            surveyed = None;
        }
        // Steps of sequences that still go on would be answered without their states.
        if config.stateful.is_none() && self.model.draining().is_some() {
            outcome.errors.push(ReloadError::Type {
                model: config.name,
                before: true,
            });
            return outcome;
        }
        outcome.changed |= self.config.is_none() && trigger != Trigger::Start;
        let is_news = trigger != Trigger::Watch || self.config.as_ref() != Some(&config);
        if self.config.as_ref().map(|before| &before.base_path) != Some(&config.base_path) {
            self.repository = None;
            self.ignored.clear();
        }
        if self.config.as_ref() != Some(&config) {
            let of = config.clone();
            let ignored = move || ignored_triton_settings(&of);
            if let Some(ignored) = task::blocking("read config.pbtxt", ignored).await {
                tracing::warn!(model = config.name, "{ignored}");
            }
        }
        self.config = Some(config.clone());
        for version in self.model.versions() {
            version.set_drain(drain(&config));
        }
        match self.survey(&config, surveyed).await {
            Ok((repository, found)) => {
                let looked = match found.is_empty() {
                    true => Err(format!("{NO_VERSION} in {}", config.base_path)),
                    false => Ok(()),
                };
                self.model.surveyed(looked, &config.base_path);
                if found.is_empty() && trigger != Trigger::Watch {
                    tracing::warn!(
                        "model `{}`: there is no version folder in {}, so nothing to serve",
                        config.name,
                        config.base_path
                    );
                } else if is_news {
                    warn_of_missing(&config, &found);
                }
                let round = Round {
                    config,
                    repository,
                    found,
                    trigger,
                    turns,
                };
                self.settle(&round, &metrics, &mut outcome).await;
                self.repository = Some(round.repository);
                // Missing versions are warned of at each reload that was asked for.
                let has_all = !round.found.is_empty()
                    && !matches!(round.config.policy, VersionPolicy::Specific(_));
                let is_at_rest = outcome.errors.is_empty()
                    && !outcome.changed
                    && self.attempts.values().all(Attempt::is_at_rest);
                if has_all && is_at_rest {
                    self.settled = known;
                }
                if let Some(refused) = refused {
                    self.keep(&refused);
                }
            }
            // What is loaded goes on serving.
            Err(source) => {
                metrics.count_load(&config.name, false);
                let failure = chain(&source);
                self.keep(&failure);
                self.model.surveyed(Err(failure), &config.base_path);
                outcome.errors.push(ReloadError::Repository {
                    model: config.name,
                    place: String::new(),
                    source,
                });
            }
        }
        outcome
    }

    /// Returns whether there is nothing to do: configuration and folders are as they were when there was
    /// nothing to do, and no version has failed or was replaced since.
    pub(super) fn is_up_to_date(&self, config: &ModelConfig, surveyed: Option<&Surveyed>) -> bool {
        let (Some(settled), Some(Ok(surveyed))) = (&self.settled, surveyed) else {
            return false;
        };
        Arc::ptr_eq(settled, surveyed)
            && self.config.as_ref() == Some(config)
            && self.model.versions().iter().all(|version| {
                let status = version.status();
                let is_over = status.state >= VersionState::Unloading;
                is_over || (version.is_loaded() && version.failure().is_none())
            })
    }

    /// Finds the versions that there are.
    async fn survey(
        &mut self,
        config: &ModelConfig,
        surveyed: Option<Surveyed>,
    ) -> Result<(Repository, BTreeMap<i64, FoundVersion>), SourceError> {
        let repository = match self.repository.take() {
            Some(repository) => repository,
            None => {
                let repository =
                    Repository::open(&config.base_path, StorageOptions::of_process).await?;
                self.model.show_download(repository.progress());
                repository
            }
        };
        let survey = match surveyed {
            Some(surveyed) => surveyed,
            None => repository
                .survey(config.load.model_file.clone())
                .await
                .map(Arc::new),
        };
        let survey = match survey {
            Ok(survey) => survey,
            Err(error) => {
                self.repository = Some(repository);
                return Err(error);
            }
        };
        // Once, for as long as they exist.
        let ignored = BTreeSet::from_iter(survey.ignored.iter().cloned());
        let base_path = config.base_path.trim_end_matches('/');
        for folder in ignored.difference(&self.ignored) {
            tracing::warn!(folder = %format_args!("{base_path}/{}", folder.name), "{folder}");
        }
        self.ignored = ignored;
        let versions = survey.versions.iter();
        let found = versions.map(|version| (version.number, version.clone()));
        Ok((repository, found.collect()))
    }

    /// Loads what is wanted and not loaded as it should be, then retires what is not wanted.
    async fn settle(&mut self, round: &Round, metrics: &Metrics, outcome: &mut Outcome) {
        let Round { config, found, .. } = round;
        let mut done = BTreeSet::new();
        // Versions that cannot be loaded: the next lower one is served instead.
        let mut failed = BTreeSet::new();
        let mut wanted;
        loop {
            let existing: Vec<i64> = found
                .keys()
                .copied()
                .filter(|number| !failed.contains(number))
                .collect();
            wanted = wanted::choose(&config.policy, &existing);
            let Some(&number) = wanted.iter().rev().find(|number| !done.contains(*number)) else {
                break;
            };
            done.insert(number);
            let version = self.version(number, metrics);
            self.load(&version, &found[&number], round, outcome).await;
            // A policy that names versions, or wants all, takes no other for one that fails.
            if !version.is_loaded() && matches!(config.policy, VersionPolicy::Latest(_)) {
                failed.insert(number);
            }
        }
        let vacancy = self.vacancy(round, &wanted, &failed);
        for version in self.model.versions() {
            let number = version.number();
            let gone = !found.contains_key(&number);
            // What failed stays to be seen, as long as it is there.
            let keep = wanted.contains(&number) || (failed.contains(&number) && !gone);
            if keep || version.status().state >= VersionState::Unloading {
                continue;
            }
            if let Some(reason) = vacancy.as_deref().filter(|_| gone && version.is_loaded())
                && self.may_stay(number, config).await
            {
                if version.failure().is_none() {
                    tracing::warn!(
                        model = self.model.name(),
                        version = number,
                        "goes on serving: {reason}"
                    );
                }
                version.fail(reason, &config.base_path);
                continue;
            }
            tracing::info!(model = self.model.name(), version = number, "retiring");
            outcome.changed = true;
            self.attempts.remove(&number);
            version.retire();
        }
        // What is tried again, and what serves although it should be another one by now, keep their files, too.
        let serving = self
            .attempts
            .values()
            .filter_map(|attempt| attempt.from.clone());
        let served: Vec<Locator> = wanted
            .iter()
            .chain(&failed)
            .filter_map(|number| Some(found.get(number)?.locator.clone()))
            .chain(serving)
            .collect();
        round.repository.keep_only(&served).await;
    }

    /// Returns why no version serves as it is wanted; `None` if one does.
    fn vacancy(&self, round: &Round, wanted: &[i64], failed: &BTreeSet<i64>) -> Option<String> {
        let mut reason = None;
        for &number in wanted.iter().chain(failed) {
            let version = self.model.known(number);
            let failure = version.as_ref().and_then(|version| version.failure());
            match failure {
                Some(failure) => reason = Some(format!("version {number}: {failure}")),
                None if version.is_some_and(|version| version.is_loaded()) => return None,
                None => {}
            }
        }
        let missing = || format!("{NO_VERSION} in {}", round.config.base_path);
        Some(reason.unwrap_or_else(missing))
    }

    /// Returns whether a version that is found no more may go on until another one takes its place: its folder was not
    /// removed, and the policy has it.
    async fn may_stay(&self, number: i64, config: &ModelConfig) -> bool {
        if let VersionPolicy::Specific(named) = &config.policy
            && !named.contains(&number)
        {
            return false;
        }
        let Some(attempt) = self.attempts.get(&number) else {
            return false;
        };
        match &attempt.from {
            _ if attempt.base_path() != Some(&config.base_path) => true,
            Some(Locator::Folder(folder)) => {
                let folder = folder.clone();
                task::blocking("look at folder", move || folder.exists()).await
            }
            Some(Locator::Remote(_)) | None => false,
        }
    }

    fn version(&self, number: i64, metrics: &Metrics) -> Arc<Version> {
        self.model.known(number).unwrap_or_else(|| {
            let reporter = metrics.reporter(self.model.name(), number);
            let version = Version::new(self.model.name(), number, reporter);
            if let Some(keeper) = &self.keeper {
                version.keep_with(Arc::clone(keeper));
            }
            self.model.add(&version);
            version
        })
    }

    /// Loads a version if that is due.
    async fn load(
        &mut self,
        version: &Arc<Version>,
        found: &FoundVersion,
        round: &Round,
        outcome: &mut Outcome,
    ) {
        let number = version.number();
        let config = &round.config;
        version.set_drain(drain(config));
        let facts = Facts::new(config, found);
        let attempt = self.attempts.entry(number).or_default();
        if !attempt.due(version, &facts, round.trigger) {
            return;
        }
        attempt.begin();
        // The watcher does not report again that it fails, so the log would lack the outcome.
        let again = round.trigger == Trigger::Watch && attempt.has_failed(&facts);
        if again {
            tracing::debug!(model = version.model(), version = number, "loading again");
        } else {
            tracing::info!(model = version.model(), version = number, "loading");
        }
        version.begin();
        let loaded = load(version, found, round).await;
        version.reporter().count_load(loaded.is_ok());
        match loaded {
            Ok(loaded) => {
                tracing::info!(
                    model = version.model(),
                    version = number,
                    nireq = loaded.slots(),
                    device = config.load.device,
                    "loaded"
                );
                let (of, info) = (config.clone(), loaded.info.clone());
                let compare = move || contradicted_triton_settings(&of, &info);
                if let Some(contradicted) = task::blocking("read config.pbtxt", compare).await {
                    tracing::warn!(model = version.model(), version = number, "{contradicted}");
                }
                version.install(loaded);
                outcome.changed = true;
                attempt.succeed(facts, found.locator.clone());
            }
            Err(error) => {
                version.fail(&chain(&*error.source), &config.base_path);
                let failure = ReloadError::Version(error);
                if !again {
                    outcome.news.push(chain(&failure));
                }
                outcome.errors.push(failure);
                attempt.fail(facts);
            }
        }
    }
}

/// State of a pass for one model.
struct Round {
    config: ModelConfig,
    repository: Repository,
    found: BTreeMap<i64, FoundVersion>,
    trigger: Trigger,
    turns: TurnsOfLoad,
}

/// Brings a version's files here and loads them.
async fn load(
    version: &Version,
    found: &FoundVersion,
    round: &Round,
) -> Result<Arc<Loaded>, VersionError> {
    let download = round.repository.local(&found.locator);
    let folder = round.turns.download.run(download).await;
    let folder = folder.map_err(|source| VersionError {
        model: version.model().to_owned(),
        number: version.number(),
        source: Box::new(VersionFailure::Source(source)),
    })?;
    let spec = Arc::new(Spec {
        folder,
        options: round.config.load.clone(),
        stateful: kept(&round.config),
        warmup: round.config.warmup.clone(),
    });
    let load = Loaded::load(version.model(), version.number(), &spec, Vec::new());
    round.turns.load.run(load).await
}

/// Returns how long sequences go on on what is replaced or retired.
fn drain(config: &ModelConfig) -> Duration {
    let stateful = config.stateful.as_ref();
    stateful.map_or(Duration::ZERO, |stateful| stateful.drain)
}

/// Warns of versions that the policy names and that are missing. That is no error: they may come.
fn warn_of_missing(config: &ModelConfig, found: &BTreeMap<i64, FoundVersion>) {
    let VersionPolicy::Specific(named) = &config.policy else {
        return;
    };
    for version in named.iter().filter(|number| !found.contains_key(number)) {
        tracing::warn!(
            "model `{}`: there is no version {version} in {}, which its version policy names",
            config.name,
            config.base_path
        );
    }
}
