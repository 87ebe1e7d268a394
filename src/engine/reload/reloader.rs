//! The task that owns what is configured, and its passes.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

use super::{
    done::{Done, Owed, unserved},
    error::ReloadError,
    graphs::Graphs,
    models::Models,
    pass::PassReason,
    pipelines::Pipelines,
    served::{Served, Trigger},
    source::Reader,
    subconfigs::Subconfigs,
};
use crate::{
    config::{ConfigSource, Defaults, FileConfig, ModelConfig},
    engine::{
        engine::{Engine, ReloadRequest},
        registry::Registry,
    },
    error::{Result, chain},
    graph,
    metrics::Metrics,
    pipeline,
    tensor::images::PixelLimit,
};

/// Keeps what is served as it is configured.
pub struct Reloader {
    pub(super) engine: Arc<Engine>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) reader: Reader,
    pub(super) served: BTreeMap<String, Served>,
    pub(super) pipelines: Pipelines,
    pub(super) graphs: Graphs,
    subconfigs: Subconfigs,
    /// Servable of the flags, if there is no file.
    only: Option<Only>,
    /// Hides errors of Python code from clients.
    pub(super) is_silent: bool,
    /// Models that are brought up to date.
    pub(super) models: Models,
    /// Answers that wait for models that take long.
    pub(super) owed: Vec<Owed>,
    /// The errors of the last pass, so that the watcher reports each of them once.
    pub(super) reported: HashSet<String>,
    /// Errors of the files of graphs when they were looked at last, which not every pass does.
    unread: Option<String>,
    /// Indicates that the configuration could be read at the last pass.
    is_readable: bool,
}

impl Reloader {
    /// Makes the reloader of an engine.
    pub fn new(engine: Arc<Engine>, source: ConfigSource, metrics: Arc<Metrics>) -> Self {
        let (only, defaults, reader) = match source {
            ConfigSource::Model {
                model,
                defaults,
                unfit,
            } => (Some(Only::Model), defaults, Reader::of_model(model, unfit)),
            ConfigSource::Graph { graph, defaults } => {
                let config = FileConfig {
                    graphs: vec![*graph],
                    ..FileConfig::default()
                };
                (Some(Only::Graph), defaults, Reader::given(config))
            }
            ConfigSource::Paths(source) => {
                (None, source.defaults.clone(), Reader::of_paths(*source))
            }
            ConfigSource::File { path, defaults } => {
                (None, defaults.clone(), Reader::of_file(path, defaults))
            }
        };
        Self {
            only,
            ..Self::of(engine, reader, &defaults, metrics)
        }
    }

    /// Makes the reloader of an engine that serves what a file has said, and does not look again.
    pub fn given(engine: Arc<Engine>, config: FileConfig, defaults: &Defaults) -> Self {
        Self::of(engine, Reader::given(config), defaults, Metrics::off())
    }

    fn of(engine: Arc<Engine>, reader: Reader, defaults: &Defaults, metrics: Arc<Metrics>) -> Self {
        let servables = engine.sessions();
        let flags = &defaults.flags;
        Self {
            engine,
            metrics,
            reader,
            served: BTreeMap::new(),
            pipelines: Pipelines::new(limits(defaults), flags.hide_python_errors),
            graphs: Graphs::new(
                graph::GraphLimits {
                    runs: flags.max_graph_runs,
                    waiting: flags.max_queued_requests,
                    load: Duration::from_secs(flags.graph_load_seconds.into()),
                },
                servables,
                flags.hide_python_errors,
            ),
            subconfigs: Subconfigs::new(defaults.clone()),
            only: None,
            is_silent: flags.hide_python_errors,
            models: Models::new(),
            owed: Vec::new(),
            reported: HashSet::new(),
            unread: None,
            is_readable: true,
        }
    }

    /// Reads the configuration for the first time.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or not as a configuration.
    pub async fn read(&mut self) -> Result<Arc<FileConfig>, ReloadError> {
        self.reader.look([]).await?;
        Ok(self.reader.last())
    }

    /// Loads everything for the first time.
    ///
    /// # Errors
    ///
    /// Fails if there is no file and no version of the one model can be loaded, or none of the models that
    /// are named by their paths. What fails of a file is logged and returned, and the others are served; a
    /// graph that fails never ends the start.
    pub async fn start(&mut self) -> Result<Vec<ReloadError>, ReloadError> {
        let mut errors = self.load().await;
        let serves = self.served.values().any(Served::serves);
        let needs_one = self.only == Some(Only::Model) || self.reader.names_models_alone();
        if needs_one && !serves && !errors.is_empty() {
            let first = errors.remove(0);
            self.log(&errors, Trigger::Start);
            return Err(first);
        }
        let is_graph = |error: &ReloadError| matches!(error, ReloadError::Graph { .. });
        if self.only == Some(Only::Graph) && errors.iter().any(is_graph) {
            tracing::warn!(
                "serving continues without the graph; fix it, then POST /v1/config/reload"
            );
        }
        self.log(&errors, Trigger::Start);
        Ok(errors)
    }

    /// Loads everything for the first time, and returns what has failed.
    pub async fn load(&mut self) -> Vec<ReloadError> {
        let config = self.reader.last();
        let mut done = Done {
            new_file: true,
            ..Done::default()
        };
        self.bring(&config, Trigger::Start, None, &mut done).await;
        self.note(&done);
        done.errors
    }

    /// Runs until the engine is gone: a pass at each tick of `poll`, if there is one, and at
    /// each command, whose answer waits for retired versions no longer than `wait`.
    pub async fn run(
        mut self,
        poll: Option<Duration>,
        wait: Duration,
        mut commands: mpsc::Receiver<ReloadRequest>,
    ) {
        let mut ticks = poll.map(|period| {
            let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        loop {
            let tick = async {
                match &mut ticks {
                    Some(ticks) => {
                        ticks.tick().await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = commands.recv() => {
                    let Some(request) = command else {
                        return;
                    };
                    let done = self.pass(Trigger::Asked).await;
                    // A file that cannot be read changes nothing.
                    let waits = match self.is_readable {
                        true => self.models.slow_names(),
                        false => BTreeSet::new(),
                    };
                    self.owed.push(Owed::new(request, done, waits));
                    self.answer(wait);
                }
                () = tick => {
                    let done = self.pass(Trigger::Watch).await;
                    if done.is_reload() {
                        self.metrics.count_reload(done.errors.is_empty());
                    }
                }
                (brought, is_missed) = self.models.next() => {
                    self.settle(brought, is_missed).await;
                    self.answer(wait);
                }
                load = self.graphs.loads.next() => {
                    let mut done = Done::default();
                    self.graphs.settle(load, &mut done);
                    self.metrics.count_reload(done.errors.is_empty());
                }
                check = self.pipelines.checks.next() => {
                    let mut done = Done::default();
                    self.pipelines.settle(check, &mut done);
                    self.metrics.count_reload(done.errors.is_empty());
                }
            }
        }
    }

    /// Runs a pass.
    async fn pass(&mut self, trigger: Trigger) -> Done {
        let done = self.uncounted_pass(trigger).await;
        self.note(&done);
        done
    }

    /// Lets the engine know whether the configuration is served as it stands.
    pub(super) fn note(&mut self, done: &Done) {
        let (of_files, others) = done.errors.iter().partition(|it| it.is_of_subconfig());
        if done.has_looked {
            self.unread = unserved(of_files, self.is_silent);
        }
        let others = unserved(others, self.is_silent).into_iter();
        let reasons: Vec<String> = others.chain(self.unread.clone()).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        self.engine.set_config_failure(reason);
    }

    async fn uncounted_pass(&mut self, trigger: Trigger) -> Done {
        let mut done = Done::default();
        let idle = self.served.iter();
        let idle = idle.filter(|(_, served)| served.model.versions().is_empty());
        let idle = idle.map(|(name, _)| name.as_str());
        match self.reader.look(idle).await {
            Ok(is_new) => {
                done.new_file = is_new;
                done.recovered = !std::mem::replace(&mut self.is_readable, true);
                if done.recovered && !is_new {
                    tracing::info!(
                        "the configuration can be read again, and is the one that is served"
                    );
                }
            }
            Err(error) => {
                self.is_readable = false;
                done.errors.push(error);
                // The client gets an error and nothing changes; version folders are the watcher's.
                if trigger == Trigger::Asked {
                    self.log(&done.errors, trigger);
                    return done;
                }
            }
        }
        let config = self.reader.last();
        self.bring(&config, trigger, None, &mut done).await;
        self.log(&done.errors, trigger);
        done
    }

    /// Waits until the versions that are retired are unloaded, so that whoever has asked finds them
    /// so. Those that still have requests after `limit` end later, as those do whose sequences drain.
    pub(super) fn unloaded(&self, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        let models = self.served.values().map(|served| &served.model);
        let versions = models.flat_map(|model| model.versions());
        let ends: Vec<_> = versions
            .filter(|version| version.sequences().is_empty())
            .map(|version| async move { version.unloaded().await })
            .collect();
        async move {
            let all = futures::future::join_all(ends);
            drop(tokio::time::timeout(limit, all).await);
        }
    }

    /// Brings everything up to date; of the models `only` these, if they are given.
    pub(super) async fn bring(
        &mut self,
        config: &FileConfig,
        trigger: Trigger,
        only: Option<&BTreeSet<String>>,
        done: &mut Done,
    ) {
        let held = self.hold_repeated(config, done);
        let config = held.as_ref().unwrap_or(config);
        let looks = done.new_file || trigger != Trigger::Watch;
        if looks {
            let graphs = &self.graphs;
            let serves = |name: &str| graphs.serves(name);
            let read = self.subconfigs.read(config, serves, &mut done.errors);
            done.changed |= read.await;
            done.has_looked = true;
        }
        let is_taken = |name: &str| {
            let mut pipelines = config.pipelines.iter();
            let mut graphs = config.graphs.iter();
            pipelines.any(|pipeline| pipeline.name == name)
                || graphs.any(|graph| graph.name == name)
                || self.pipelines.has(name)
                || self.graphs.has(name)
        };
        let with_more = self.subconfigs.add_to(config, is_taken, looks);
        let config = with_more.as_ref().unwrap_or(config);
        let held = self.hold_repeated(config, done);
        let config = held.as_ref().unwrap_or(config);
        let mut wanted = self.wanted(config, done);
        self.hold_back(config, &mut wanted, done);
        let slow = self
            .models
            .without_slow(&mut wanted, |name| done.keeps(name), only.is_none());
        for (name, served) in &mut self.served {
            if !wanted.contains_key(name) && !done.keeps(name) {
                done.changed |= served.remove();
            }
        }
        // A model that never had a version gives up its name to a graph.
        for graph in &config.graphs {
            let of = self.served.get(&graph.name);
            if of.is_some_and(|of| of.config.is_none() && of.model.versions().is_empty()) {
                self.served.remove(&graph.name);
            }
        }
        self.announce(&wanted, config);
        let kept = self.served.keys().filter(|name| done.keeps(name));
        let pipelines = config.pipelines.iter().map(|pipeline| &pipeline.name);
        let graphs = config.graphs.iter().map(|graph| &graph.name);
        let names = wanted.keys().chain(&slow).chain(kept);
        self.engine.configure(names.chain(pipelines).chain(graphs));
        wanted.retain(|name, _| only.is_none_or(|only| only.contains(name)));
        self.bring_models(config, wanted, (trigger, only.is_none()), done)
            .await;
        for (name, reason) in &done.held {
            if let Some(served) = self.served.get_mut(name) {
                served.keep(reason);
            }
        }
        let models = self.served.iter();
        let models = models.map(|(name, served)| (name, &served.model));
        let models = models.chain(self.models.slow());
        let models = models.map(|(name, model)| (name.clone(), Arc::clone(model)));
        let why = PassReason {
            trigger,
            renewed: done.new_file,
            moved: done.changed,
        };
        let models = models.collect();
        self.pipelines.bring(config, models, why, done).await;
        self.graphs.bring(config, why, done).await;
    }

    /// Makes new names known, so that requests for them wait for their load.
    fn announce(&mut self, wanted: &BTreeMap<String, ModelConfig>, config: &FileConfig) {
        for name in wanted.keys() {
            if !self.served.contains_key(name) {
                let keeper = self.engine.keeper().cloned();
                self.served.insert(name.clone(), Served::new(name, keeper));
            }
        }
        let models = self.served.values().map(|served| &served.model);
        let models = models.chain(self.models.slow().map(|(_, model)| model));
        let mut names: Registry = models.cloned().collect();
        self.graphs.keep_names(&mut names);
        self.pipelines.announce(config, &self.metrics, &mut names);
        self.graphs.announce(config, &self.metrics, &mut names);
        self.engine.replace(names);
    }

    /// Logs what went wrong; the watcher does not say again what it said at the last pass.
    pub(super) fn log(&mut self, errors: &[ReloadError], trigger: Trigger) {
        let mut now = HashSet::new();
        // The check of a pipeline and the load of a graph have been logged already.
        let is_new = |error: &&ReloadError| {
            !matches!(
                error,
                ReloadError::Pipeline { .. } | ReloadError::Graph { .. }
            )
        };
        for error in errors.iter().filter(is_new) {
            let text = chain(error);
            if trigger != Trigger::Watch || !self.reported.contains(&text) {
                tracing::error!("{text}");
            }
            now.insert(text);
        }
        if trigger == Trigger::Watch {
            // What is retried only now and then is still known.
            if self.reported.len() > MAX_REPORTED {
                self.reported.clear();
            }
            self.reported.extend(now);
        } else {
            self.reported = now;
        }
    }
}

/// Servable of the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    Model,
    Graph,
}

/// Returns how much may go on at once in each pipeline.
fn limits(defaults: &Defaults) -> pipeline::PipelineLimits {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let flags = &defaults.flags;
    pipeline::PipelineLimits {
        // Those that run, and those that wait.
        requests: flags.max_queued_requests.saturating_add(cores),
        custom_runs: flags.max_custom_node_runs,
        custom_load: Duration::from_secs(flags.custom_node_load_seconds.into()),
        image_pixels: PixelLimit(flags.max_image_pixels),
        budget: defaults.budget.clone(),
    }
}

/// Maximum number of texts remembered as reported.
const MAX_REPORTED: usize = 1000;
