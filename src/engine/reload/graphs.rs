//! The graphs of a configuration file, and what it takes to bring them up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::FutureExt;
use tokio::{sync::oneshot, time::timeout};

use super::{
    done::Done,
    error::ReloadError,
    loads::{END, Loads, end_load, end_of_wait},
    pass::PassReason,
    served::Trigger,
};
use crate::{
    config::{EntryError, FileConfig, GraphConfig, RefusedEntry},
    engine::{registry::Registry, servable::Servable},
    graph::{
        Fingerprint, Graph, GraphDefinition, GraphLimits, GraphSource, LoadError, Servables,
        VERSION, Written,
    },
    metrics::Metrics,
    model::{Phase, PhaseEvent, let_go},
    python::HandlerLoad,
    task::{self, Task},
};

/// Result of a load.
type LoadResult = Result<Arc<GraphDefinition>, LoadError>;

/// State of all graphs.
pub(super) struct Graphs {
    limits: GraphLimits,
    /// Look-up of models and pipelines for nodes.
    servables: Arc<dyn Servables>,
    /// Hides errors of Python nodes from clients.
    is_silent: bool,
    known: BTreeMap<String, Known>,
    pub(super) loads: Loads<GraphLoad>,
}

/// End of a load.
pub(super) struct GraphLoad(Due, LoadResult);

/// A graph as it is served.
struct Known {
    graph: Arc<Graph>,
    /// Last configuration applied; `None` once it is not configured any more.
    config: Option<GraphConfig>,
    /// Fingerprint of the files at the last load.
    files: Option<Fingerprint>,
    /// Fingerprint of the files that were last looked at, with the times of its Python files.
    looked: Arc<(Fingerprint, Written)>,
    /// Alive for as long as a load goes on, also one that nobody waits for any more.
    loading: Weak<HandlerLoad>,
}

/// A graph that is to be loaded.
struct Due {
    config: GraphConfig,
    graph: Arc<Graph>,
    /// Indicates a change since the load before.
    changes: bool,
    /// Taken by its load, which drops it at its end.
    loading: Option<Arc<HandlerLoad>>,
    /// Identity of this load.
    number: Weak<HandlerLoad>,
    /// The load before, if that goes on.
    before: Weak<HandlerLoad>,
}

impl Graphs {
    pub(super) fn new(limits: GraphLimits, servables: Arc<dyn Servables>, is_silent: bool) -> Self {
        Self {
            limits,
            servables,
            is_silent,
            known: BTreeMap::new(),
            loads: Loads::new(),
        }
    }

    /// Returns whether there is, or was, a graph of the name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns the configuration of a graph that serves.
    pub(super) fn serving(&self, name: &str) -> Option<&GraphConfig> {
        let known = self.known.get(name)?;
        known.config.as_ref().filter(|_| self.serves(name))
    }

    /// Returns whether a graph of the name serves.
    pub(super) fn serves(&self, name: &str) -> bool {
        let known = self.known.get(name);
        known.is_some_and(|known| known.graph.definition().is_ok())
    }

    /// Makes those known that there are, so that nothing else gets their names.
    pub(super) fn keep_names(&self, names: &mut Registry) {
        for known in self.known.values() {
            names.add(Servable::Graph(Arc::clone(&known.graph)));
        }
    }

    /// Makes new names known, so that requests for them wait for their load.
    pub(super) fn announce(
        &mut self,
        config: &FileConfig,
        metrics: &Metrics,
        names: &mut Registry,
    ) {
        for listed in &config.graphs {
            if names.get(&listed.name).is_none() && !self.has(&listed.name) {
                let reporter = metrics.reporter(&listed.name, VERSION);
                let known = Known {
                    graph: Graph::new(&listed.name, reporter, self.limits),
                    config: None,
                    files: None,
                    looked: Arc::default(),
                    loading: Weak::new(),
                };
                self.known.insert(listed.name.clone(), known);
            }
        }
        self.keep_names(names);
    }

    /// Brings everything up to date with the file and with the files of the graphs. The watcher does not wait for a load
    /// that takes long.
    pub(super) async fn bring(&mut self, config: &FileConfig, why: PassReason, done: &mut Done) {
        let listed = self.listed(config);
        self.retire(&listed, done);
        let (limit, is_silent) = (self.limits.load, self.is_silent);
        let mut new = Vec::new();
        for config in listed {
            let Some(known) = self.known.get_mut(&config.name) else {
                done.errors.push(ReloadError::GraphEntry(RefusedEntry {
                    name: config.name,
                    place: config.place,
                    reason: EntryError::GraphName,
                }));
                continue;
            };
            if let Some(due) = known.due(config, why, limit).await {
                new.push(due.number.clone());
                let servables = Arc::clone(&self.servables);
                self.loads.begin(load(due, servables, is_silent, limit));
            }
        }
        let end = end_of_wait(why.trigger, limit);
        while !new.is_empty()
            && let Some(load) = self.loads.next_until(end).await
        {
            new.retain(|number| !number.ptr_eq(&load.0.number));
            self.settle(load, done);
        }
    }

    /// Retires what is not listed any more.
    fn retire(&mut self, listed: &[GraphConfig], done: &mut Done) {
        let listed: BTreeSet<&str> = listed.iter().map(|graph| graph.name.as_str()).collect();
        for (name, known) in &mut self.known {
            if known.config.is_some() && !listed.contains(name.as_str()) {
                if known.loading.strong_count() > 0 {
                    let reason = "it is not configured any more";
                    end_load(&known.loading, reason);
                    known.loading = Weak::new();
                    // One that is loading cannot be retired.
                    known.graph.fail(reason);
                }
                known.graph.handle(PhaseEvent::Retire);
                known.config = None;
                known.files = None;
                done.changed = true;
            }
        }
    }

    /// Returns the graphs of the file. One that is known, and of which something new would have the
    /// name, goes on as it was: what is new is not loaded.
    fn listed(&self, config: &FileConfig) -> Vec<GraphConfig> {
        let clashing = config.refused.iter().filter_map(|refused| {
            let known = self.known.get(&refused.name)?;
            let clashes = refused.reason == EntryError::GraphName;
            known.config.clone().filter(|_| clashes)
        });
        config.graphs.iter().cloned().chain(clashing).collect()
    }

    /// Brings what a load has given into effect.
    pub(super) fn settle(&mut self, GraphLoad(due, loaded): GraphLoad, done: &mut Done) {
        let name = &due.config.name;
        let known = self.known.get_mut(name);
        let Some(known) = known.filter(|known| known.loading.ptr_eq(&due.number)) else {
            // Another load has taken its place, or nobody wants it any more.
            if let Ok(loaded) = loaded {
                let_go(loaded);
            }
            return;
        };
        done.changed |= due.changes || loaded.is_ok();
        known.graph.comes_from(GraphSource::of(&due.config));
        known.graph.reporter().count_load(loaded.is_ok());
        match loaded {
            Ok(definition) => {
                known.files = Some(definition.fingerprint().clone());
                known.graph.install(definition);
                tracing::info!("Loading mediapipe graph definition: {name} succeeded");
            }
            Err(error) => {
                let (of, node) = (format!("graph {name}"), error.node.as_deref());
                let mut raised = error.raised.as_deref();
                for line in &error.log {
                    match raised.take() {
                        Some(raised) => tracing::error!(of, node, "{}", raised.for_log(line)),
                        None => tracing::error!(of, node, "{line}"),
                    }
                }
                if error.log.is_empty() {
                    tracing::error!(of, node, "graph {name}: {error}");
                }
                known.files = None;
                known.graph.fail(error.reported(self.is_silent));
                done.errors.push(ReloadError::Graph {
                    name: name.clone(),
                    error,
                });
            }
        }
        known.config = Some(due.config);
    }
}

impl Known {
    /// Returns whether the graph is to be loaded, and says so in its state.
    async fn due(&mut self, config: GraphConfig, why: PassReason, limit: Duration) -> Option<Due> {
        let is_new = self.config.is_none();
        let is_another = self.config.as_ref().is_some_and(|it| !it.is_same(&config));
        let looks = why.renewed || why.trigger != Trigger::Watch;
        // It may be a model that was missing.
        let recovers = why.moved && self.graph.has_failed();
        let is_loading = self.loading.strong_count() > 0;
        if is_loading {
            let is_asked = why.trigger == Trigger::Asked;
            if !is_another && !is_asked && !self.is_saved(limit).await {
                return None;
            }
            end_load(&self.loading, "another load has taken its place");
        }
        if !is_new && !is_another && !recovers && !is_loading {
            // A handler that was saved is noticed as a version of a model is.
            if !looks && !self.is_saved(limit).await {
                return None;
            }
            // What has failed is tried again whenever it is looked at.
            let source = GraphSource::of(&config);
            let now = self.look(source, limit).await;
            if now.is_some() && now == self.files && !self.graph.has_failed() {
                // Its place in the file may be another one.
                self.config = Some(config);
                return None;
            }
        }
        if !is_new || self.graph.phase() == Phase::Retired {
            self.graph.handle(if recovers && !is_another && !looks {
                PhaseEvent::UsedModelChanged
            } else {
                PhaseEvent::Reload
            });
        }
        if is_new || is_another || is_loading {
            self.look(GraphSource::of(&config), limit).await;
        }
        let loading = Arc::new(HandlerLoad::new(Some(limit)));
        let number = Arc::downgrade(&loading);
        let before = std::mem::replace(&mut self.loading, number.clone());
        // What is being loaded is not to be loaded again at the next pass.
        self.config = Some(config.clone());
        Some(Due {
            config,
            graph: Arc::clone(&self.graph),
            changes: is_new || is_another || self.files.is_some(),
            loading: Some(loading),
            number,
            before,
        })
    }
}

impl Known {
    /// Reads the files of the graph, and keeps when they were written.
    async fn look(&mut self, source: GraphSource, limit: Duration) -> Option<Fingerprint> {
        let read = task::blocking("read graph", move || {
            let files = Fingerprint::read(&source);
            let written = files.written();
            (files, written)
        });
        let looked = timeout(limit, read).await.ok()?;
        self.looked = Arc::new(looked);
        Some(self.looked.0.clone())
    }

    /// Returns whether a Python file was written since they were last looked at.
    async fn is_saved(&self, limit: Duration) -> bool {
        let looked = Arc::clone(&self.looked);
        if looked.1.is_empty() {
            return false;
        }
        let look = task::blocking("look at handlers", move || looked.0.written() != looked.1);
        timeout(limit, look).await.unwrap_or(false)
    }
}

/// Loads a graph, which may run code of its nodes: not on an async worker, and not for ever.
async fn load(
    mut due: Due,
    servables: Arc<dyn Servables>,
    is_silent: bool,
    limit: Duration,
) -> GraphLoad {
    let loading = due.loading.take();
    let loaded = loaded(&due, loading, servables, is_silent, limit).await;
    GraphLoad(due, loaded)
}

async fn loaded(
    due: &Due,
    loading: Option<Arc<HandlerLoad>>,
    servables: Arc<dyn Servables>,
    is_silent: bool,
    limit: Duration,
) -> LoadResult {
    let name = &due.config.name;
    let error = |text: String| LoadError {
        status: "Failed to initialize mediapipe graph".to_owned(),
        log: vec![format!(
            "Mediapipe graph: {name} initialization failed with message: {text}"
        )],
        node: None,
        raised: None,
    };
    let ended = async {
        while due.before.strong_count() > 0 {
            tokio::time::sleep(END / 500).await;
        }
    };
    if timeout(END, ended).await.is_err() {
        return Err(error(
            "its previous load is still running; check `initialize` of its handlers, or restart the server"
                .to_owned(),
        ));
    }
    let (reply, answer) = oneshot::channel();
    let source = GraphSource::of(&due.config);
    let reporter = Arc::clone(due.graph.reporter());
    let work = async move {
        let load = task::blocking("load graph", move || {
            let load = loading.as_deref().cloned().unwrap_or_default();
            let loaded = GraphDefinition::load(&source, is_silent, &servables, &reporter, &load);
            drop(loading);
            loaded.map(Arc::new)
        });
        let loaded = AssertUnwindSafe(load).catch_unwind().await;
        // Nobody may be waiting any more: then what has come of it goes at once.
        if let Err(Ok(Ok(late))) = reply.send(loaded) {
            let_go(late);
        }
    };
    Task::spawn(work).detach();
    match timeout(limit, answer).await {
        Ok(Ok(Ok(loaded))) => loaded,
        Ok(_) => Err(error("a panic, which is a bug in this server".to_owned())),
        Err(_) => {
            let reason = format!("its handler has not loaded within {limit:?}");
            end_load(&due.number, &reason);
            Err(error(format!(
                "it took longer than {limit:?}; check what its nodes do at startup, or raise \
                 --graph-load-seconds"
            )))
        }
    }
}
