//! Models that are brought up to date, beside the passes where that takes long: a source may hang, or a download last.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::time::{Instant, timeout};

use super::{
    done::Done,
    loads::{LONG, Loads, Turns},
    reloader::Reloader,
    served::{Outcome, Served, Surveyed, Trigger},
};
use crate::{
    config::{FileConfig, ModelConfig},
    metrics::Metrics,
    model::{
        Model, VersionState,
        storage::{KnownSurveys, SurveyPlace},
    },
};

/// Time for which a pass that was asked for waits for its models before it goes on without them.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Time after which a load, or a download, has no turn any more: others begin beside it.
const MAX_TURN: Duration = Duration::from_secs(10);

/// Maximum number of downloads at once, but for those that take long.
const MAX_DOWNLOADS: usize = 8;

/// Maximum number of models that a line of the log names.
const MAX_NAMED: usize = 8;

/// Models that are being brought up to date.
pub(super) struct Models {
    loads: Loads<Brought>,
    going: BTreeMap<String, GoingModel>,
    /// Number of models that a pass waits for.
    waited: usize,
    /// Models that have ended during a pass that did not wait for them.
    ended: Vec<Brought>,
    downloads: Turns,
    /// Turns of what is loaded at once, by their number.
    loaded: BTreeMap<usize, Turns>,
    /// Contents of the folders at the last pass.
    surveys: KnownSurveys,
    /// A look at all folders that takes long.
    look: Option<BoxFuture<'static, Look>>,
}

/// Contents of folders, by model, and what is known of them from then on.
type Look = (KnownSurveys, BTreeMap<String, Surveyed>);

/// A model that was brought up to date, as far as that was possible.
pub(super) struct Brought {
    pub(super) name: String,
    pub(super) served: Served,
    pub(super) outcome: Outcome,
}

struct GoingModel {
    model: Arc<Model>,
    /// Indicates that no pass waits for it any more.
    is_slow: bool,
    /// Indicates that there were passes meanwhile, so that something else may be wanted by now.
    is_missed: bool,
}

/// The turns of a load.
pub(super) struct TurnsOfLoad {
    pub(super) download: Turns,
    pub(super) load: Turns,
}

impl Models {
    pub(super) fn new() -> Self {
        Self {
            loads: Loads::new(),
            going: BTreeMap::new(),
            waited: 0,
            ended: Vec::new(),
            downloads: Turns::new(MAX_DOWNLOADS, MAX_TURN),
            loaded: BTreeMap::new(),
            surveys: KnownSurveys::default(),
            look: None,
        }
    }

    /// Looks at the folders of models; without those that take long, whose models are looked at one by one then.
    pub(super) async fn survey(
        &mut self,
        places: BTreeMap<String, SurveyPlace>,
    ) -> BTreeMap<String, Surveyed> {
        if let Some(look) = &mut self.look {
            let Some((known, _)) = look.now_or_never() else {
                return BTreeMap::new();
            };
            (self.surveys, self.look) = (known, None);
        }
        let known = std::mem::take(&mut self.surveys);
        let mut look = known.renew(places).boxed();
        match timeout(LONG, &mut look).await {
            Ok((known, surveyed)) => {
                self.surveys = known;
                surveyed
            }
            Err(_) => {
                tracing::warn!(
                    "the folders of the models take longer than {} s to be looked at; each is looked at by itself",
                    LONG.as_secs()
                );
                self.look = Some(look);
                BTreeMap::new()
            }
        }
    }

    /// Begins to bring a model up to date.
    pub(super) fn begin(
        &mut self,
        (name, mut served): (String, Served),
        (config, surveyed): (ModelConfig, Option<Surveyed>),
        trigger: Trigger,
        metrics: Arc<Metrics>,
    ) {
        // At the start nobody is disturbed by loads; later they leave half the cores alone.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = match trigger {
            Trigger::Start => cores,
            Trigger::Watch | Trigger::Asked => (cores / 2).max(1),
        };
        let turns = self.loaded.entry(at_once);
        let turns = TurnsOfLoad {
            load: turns
                .or_insert_with(|| Turns::new(at_once, MAX_TURN))
                .clone(),
            download: self.downloads.clone(),
        };
        self.waited += 1;
        self.going.insert(
            name.clone(),
            GoingModel {
                model: Arc::clone(&served.model),
                is_slow: false,
                is_missed: false,
            },
        );
        self.loads.begin(async move {
            let bring = served.bring((config, surveyed), trigger, metrics, turns);
            let outcome = AssertUnwindSafe(bring).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| {
                tracing::error!(model = name, "a bug: the reload ended in a panic");
                Outcome::default()
            });
            Brought {
                name,
                served,
                outcome,
            }
        });
    }

    /// Waits for the next model that a pass has begun to bring up to date; `None` if there is none, or it goes on without
    /// them.
    pub(super) async fn next_of_pass(
        &mut self,
        trigger: Trigger,
        began: Instant,
    ) -> Option<Brought> {
        while self.waited > 0 {
            let brought = match trigger {
                Trigger::Start => Some(self.loads.next().await),
                Trigger::Watch => self.loads.next_until(began + LONG).await,
                Trigger::Asked => self.loads.next_until(began + MAX_WAIT).await,
            };
            let Some(brought) = brought else {
                self.waited = 0;
                let going = self.going.iter_mut().filter(|(_, it)| !it.is_slow);
                let mut names: Vec<&str> = going
                    .map(|(name, it)| {
                        it.is_slow = true;
                        name.as_str()
                    })
                    .collect();
                let more = names.len().saturating_sub(MAX_NAMED);
                names.truncate(MAX_NAMED);
                tracing::info!(
                    more,
                    "others go on beside models that take long: {}",
                    names.join(", ")
                );
                return None;
            };
            if self.going.get(&brought.name).is_some_and(|it| it.is_slow) {
                self.ended.push(brought);
                continue;
            }
            self.waited -= 1;
            self.going.remove(&brought.name);
            return Some(brought);
        }
        None
    }

    /// Waits for the next model that no pass waits for; returns also whether there were passes meanwhile.
    pub(super) async fn next(&mut self) -> (Brought, bool) {
        let brought = match self.ended.pop() {
            Some(brought) => brought,
            None => self.loads.next().await,
        };
        let going = self.going.remove(&brought.name);
        (brought, going.is_some_and(|it| it.is_missed))
    }

    /// Leaves those that take long out of what is wanted, and returns their names; those that are not wanted any more end.
    /// A `whole` pass is one that they miss.
    pub(super) fn without_slow(
        &mut self,
        wanted: &mut BTreeMap<String, ModelConfig>,
        keeps: impl Fn(&str) -> bool,
        whole: bool,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for (name, going) in &mut self.going {
            going.is_missed |= whole;
            if wanted.remove(name).is_some() || keeps(name) {
                names.push(name.clone());
                continue;
            }
            for version in going.model.versions() {
                if version.status().state < VersionState::Unloading {
                    version.retire();
                }
            }
        }
        names
    }

    /// Returns those that take long.
    pub(super) fn slow(&self) -> impl Iterator<Item = (&String, &Arc<Model>)> {
        self.going.iter().map(|(name, going)| (name, &going.model))
    }

    /// Returns the names of those that take long.
    pub(super) fn slow_names(&self) -> BTreeSet<String> {
        self.going.keys().cloned().collect()
    }
}

impl Reloader {
    /// Brings models up to date, and waits for those that do not take long.
    pub(super) async fn bring_models(
        &mut self,
        config: &FileConfig,
        wanted: BTreeMap<String, ModelConfig>,
        (trigger, is_whole): (Trigger, bool),
        done: &mut Done,
    ) {
        // At the start each model is looked at by itself, so that a folder that hangs holds up no other.
        let mut surveyed = BTreeMap::new();
        if trigger != Trigger::Start && is_whole {
            let place = |it: &ModelConfig| SurveyPlace {
                base_path: it.base_path.clone(),
                model_file: it.load.model_file.clone(),
            };
            let places = wanted.iter().map(|(name, it)| (name.clone(), place(it)));
            surveyed = self.models.survey(places.collect()).await;
        }
        let began = Instant::now();
        for (name, config) in wanted {
            let surveyed = surveyed.remove(&name);
            let is_due = |served: &Served| !served.is_up_to_date(&config, surveyed.as_ref());
            if self.served.get(&name).is_some_and(is_due)
                && let Some(served) = self.served.remove(&name)
            {
                let metrics = Arc::clone(&self.metrics);
                self.models
                    .begin((name, served), (config, surveyed), trigger, metrics);
            }
        }
        while let Some(brought) = self.models.next_of_pass(trigger, began).await {
            self.take(brought, config, done);
        }
    }

    /// Takes a model that was brought up to date.
    fn take(&mut self, brought: Brought, config: &FileConfig, done: &mut Done) {
        let Brought {
            name,
            served,
            outcome,
        } = brought;
        done.changed |= outcome.changed;
        let errors = outcome.errors.into_iter();
        done.errors.extend(errors.map(|error| error.placed(config)));
        for text in &outcome.news {
            self.reported.remove(text);
        }
        self.served.insert(name, served);
    }

    /// Takes a model that no pass has waited for, and lets what uses it follow. If there were passes meanwhile, it may be
    /// another one that is wanted by now.
    pub(super) async fn settle(&mut self, brought: Brought, is_missed: bool) {
        let name = brought.name.clone();
        let config = self.reader.last();
        let mut done = Done::default();
        self.take(brought, &config, &mut done);
        self.log(&done.errors, Trigger::Watch);
        let (changed, failed) = (done.changed, std::mem::take(&mut done.errors));
        let again = is_missed.then(|| name.clone());
        let again = again.into_iter().collect();
        let trigger = match self.owed.iter().any(|owed| owed.waits.contains(&name)) {
            true => Trigger::Asked,
            false => Trigger::Watch,
        };
        self.bring(&config, trigger, Some(&again), &mut done).await;
        self.log(&done.errors, Trigger::Watch);
        self.note(&done);
        let is_well = |served: &Served| {
            let versions = served.model.versions();
            served.serves() && versions.iter().all(|version| version.failure().is_none())
        };
        let later = std::mem::take(&mut done.errors).into_iter();
        let later: Vec<_> = later.filter(|error| error.is_of_model(&name)).collect();
        // What was wanted meanwhile counts, if it has come to anything.
        let failed = if is_missed && self.served.get(&name).is_none_or(is_well) {
            Vec::new()
        } else if later.is_empty() {
            failed
        } else {
            later
        };
        let changed = changed || done.changed;
        let (has_failed, failed) = (!failed.is_empty(), Arc::new(failed));
        let is_slow = self.models.slow().any(|(slow, _)| *slow == name);
        let mut is_owed = false;
        for owed in &mut self.owed {
            if !is_slow && owed.waits.remove(&name) {
                is_owed = true;
                owed.done.changed |= changed;
                owed.late.push(Arc::clone(&failed));
            }
        }
        if !is_owed && (changed || has_failed) {
            self.metrics.count_reload(!has_failed);
        }
    }
}
