//! The graphs of a configuration file, and what it takes to bring them up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use tokio::{sync::oneshot, time::timeout};

use super::{
    error::ReloadError,
    pass::{PassOutcome, PassReason},
    served::Trigger,
};
use crate::{
    config::{EntryError, FileConfig, GraphConfig},
    engine::registry::Registry,
    graph::{
        Fingerprint, Graph, GraphDefinition, GraphLimits, GraphSource, LoadError, Servables,
        VERSION,
    },
    metrics::Metrics,
    model::{Phase, PhaseEvent, let_go},
    task::{self, Task},
};

/// The most loads at once.
const AT_ONCE: usize = 8;

/// State of all graphs.
pub(super) struct Graphs {
    limits: GraphLimits,
    /// Look-up of models and pipelines for nodes.
    servables: Arc<dyn Servables>,
    /// Whether errors of Python nodes are hidden from clients.
    is_silent: bool,
    known: BTreeMap<String, Known>,
}

/// A graph as it is served.
struct Known {
    graph: Arc<Graph>,
    /// Last configuration applied; `None` once it is not configured any more.
    config: Option<GraphConfig>,
    /// Fingerprint of the files at the last load.
    files: Option<Fingerprint>,
    /// Alive for as long as a load goes on, also one that nobody waits for any more.
    loading: Weak<()>,
}

/// A graph that is to be loaded.
struct Due {
    config: GraphConfig,
    graph: Arc<Graph>,
    /// Whether something is another one than before.
    changes: bool,
    loading: Arc<()>,
}

impl Graphs {
    pub(super) fn new(limits: GraphLimits, servables: Arc<dyn Servables>, is_silent: bool) -> Self {
        Self {
            limits,
            servables,
            is_silent,
            known: BTreeMap::new(),
        }
    }

    /// Returns whether there is, or was, a graph of the name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns whether a graph of the name serves.
    pub(super) fn serves(&self, name: &str) -> bool {
        let known = self.known.get(name);
        known.is_some_and(|known| known.graph.definition().is_ok())
    }

    /// Makes those known that there are, so that nothing else gets their names.
    pub(super) fn keep_names(&self, names: &mut Registry) {
        for known in self.known.values() {
            names.add_graph(&known.graph);
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
                    loading: Weak::new(),
                };
                self.known.insert(listed.name.clone(), known);
            }
        }
        self.keep_names(names);
    }

    /// Brings everything up to date with the file and with the files of the graphs.
    pub(super) async fn bring(&mut self, config: &FileConfig, why: PassReason) -> PassOutcome {
        let mut outcome = PassOutcome::default();
        let listed = self.listed(config);
        self.retire(&listed, &mut outcome);
        let (limit, is_silent) = (self.limits.load, self.is_silent);
        let mut due = Vec::new();
        for config in listed {
            let Some(known) = self.known.get_mut(&config.name) else {
                outcome.errors.push(ReloadError::GraphEntry {
                    name: config.name,
                    place: config.place.to_string(),
                    reason: EntryError::GraphName,
                });
                continue;
            };
            if let Some(found) = known.due(config, why, limit).await {
                due.push((found, Arc::clone(&self.servables)));
            }
        }
        let loads: Vec<_> = due
            .into_iter()
            .map(|(due, servables)| async move {
                let loaded = load(&due, servables, is_silent, limit).await;
                (due, loaded)
            })
            .collect();
        // One that takes its time does not hold up the others.
        let mut loads = futures::stream::iter(loads).buffer_unordered(AT_ONCE);
        while let Some((due, loaded)) = loads.next().await {
            self.settle(due, loaded, &mut outcome);
        }
        outcome
    }

    /// Retires what is not listed any more.
    fn retire(&mut self, listed: &[GraphConfig], outcome: &mut PassOutcome) {
        let listed: BTreeSet<&str> = listed.iter().map(|graph| graph.name.as_str()).collect();
        for (name, known) in &mut self.known {
            if known.config.is_some() && !listed.contains(name.as_str()) {
                known.graph.handle(PhaseEvent::Retire);
                known.config = None;
                known.files = None;
                outcome.changed = true;
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
    fn settle(
        &mut self,
        due: Due,
        loaded: Result<Arc<GraphDefinition>, LoadError>,
        outcome: &mut PassOutcome,
    ) {
        let name = &due.config.name;
        let Some(known) = self.known.get_mut(name) else {
            return;
        };
        outcome.changed |= due.changes || loaded.is_ok();
        known.graph.comes_from(source(&due.config));
        match loaded {
            Ok(definition) => {
                known.files = Some(definition.fingerprint().clone());
                known.graph.install(definition);
                tracing::info!("Loading mediapipe graph definition: {name} succeeded");
            }
            Err(error) => {
                for line in &error.log {
                    tracing::error!("{line}");
                }
                if error.log.is_empty() {
                    tracing::error!("graph {name}: {error}");
                }
                known.files = None;
                known.graph.fail(error.reported(self.is_silent));
                outcome.errors.push(ReloadError::Graph {
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
        if !is_new && !is_another && !recovers {
            if !looks {
                return None;
            }
            // What has failed is tried again whenever it is looked at.
            let source = source(&config);
            let read = task::blocking("read graph", move || Fingerprint::read(&source));
            let now = timeout(limit, read).await.ok();
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
        let loading = Arc::new(());
        let due = Due {
            config,
            graph: Arc::clone(&self.graph),
            changes: is_new || is_another || self.files.is_some(),
            loading: match self.loading.upgrade() {
                Some(still) => still,
                None => Arc::clone(&loading),
            },
        };
        self.loading = Arc::downgrade(&due.loading);
        Some(due)
    }
}

fn source(config: &GraphConfig) -> GraphSource {
    GraphSource {
        name: config.name.clone(),
        base_path: config.base_path.clone(),
        graph_path: config.graph_path.clone(),
    }
}

/// Loads a graph, which may run code of its nodes: not on an async worker, and not for ever.
async fn load(
    due: &Due,
    servables: Arc<dyn Servables>,
    is_silent: bool,
    limit: Duration,
) -> Result<Arc<GraphDefinition>, LoadError> {
    let name = &due.config.name;
    let error = |text: String| LoadError {
        status: "Failed to initialize mediapipe graph".to_owned(),
        log: vec![format!(
            "Mediapipe graph: {name} initialization failed with message: {text}"
        )],
    };
    // Whoever else has it is a load.
    if Arc::strong_count(&due.loading) > 1 {
        return Err(error(
            "its last load has not come to an end yet; see what its nodes do when they begin, or \
             start the server anew"
                .to_owned(),
        ));
    }
    let (reply, answer) = oneshot::channel();
    let (source, reporter) = (source(&due.config), Arc::clone(due.graph.reporter()));
    let loading = Arc::clone(&due.loading);
    let work = async move {
        let load = task::blocking("load graph", move || {
            let loaded = GraphDefinition::load(&source, is_silent, &servables, &reporter);
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
        Ok(_) => Err(error("a panic, which is a bug of this server".to_owned())),
        Err(_) => Err(error(format!(
            "it took longer than {limit:?}; see what its nodes do when they begin, or raise \
             --graph_load_seconds"
        ))),
    }
}
