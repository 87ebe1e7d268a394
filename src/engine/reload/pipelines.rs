//! The pipelines of a configuration file, and what it takes to bring them up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use super::{
    checked::{Checked, Finds, check, report},
    code::{Code, Libraries, drop_elsewhere},
    done::Done,
    facts::{Facts, Kept},
    loads::{Loads, end_load, end_of_wait},
    pass::{PassReason, are_same},
    served::Trigger,
    serving::{Basis, Before, Left},
};
use crate::{
    config::{EntryError, FileConfig, ModelEntry, NodeKind, PipelineConfig},
    engine::{registry::Registry, servable::Servable},
    metrics::Metrics,
    model::{Model, Phase, PhaseEvent},
    pipeline::{self, Pipeline, PipelineDefinition, PipelineLimits},
    python::HandlerLoad,
};

/// State of all pipelines.
pub(super) struct Pipelines {
    limits: PipelineLimits,
    known: BTreeMap<String, Known>,
    libraries: Libraries,
    /// Hides errors of Python nodes from clients.
    is_silent: bool,
    pub(super) checks: Loads<PipelineCheck>,
}

/// End of a check.
pub(super) struct PipelineCheck(Due, Checked, Left);

/// A pipeline as it is served.
struct Known {
    pipeline: Arc<Pipeline>,
    /// Basis of the last check; `None` once the pipeline is not configured any more.
    basis: Option<Basis>,
    /// The libraries that it has found.
    libraries: Vec<Weak<Code>>,
    /// Its custom nodes, by the names of the nodes.
    custom: BTreeMap<String, Kept>,
    /// Definition that serves; not the configured one, where that was refused.
    serving: Option<Basis>,
    /// Alive until the end of the last check.
    checking: Weak<HandlerLoad>,
}

/// A pipeline that is to be checked.
struct Due {
    basis: Basis,
    /// Indicates a change of the configuration.
    changes: bool,
    /// Indicates a change of the code of a custom node, such as that of a handler.
    is_other_code: bool,
    /// Marks a failed check that is repeated on request.
    is_asked: bool,
    /// Identity of this check.
    number: Arc<HandlerLoad>,
}

impl Pipelines {
    pub(super) fn new(limits: PipelineLimits, is_silent: bool) -> Self {
        Self {
            limits,
            known: BTreeMap::new(),
            libraries: Libraries::default(),
            is_silent,
            checks: Loads::new(),
        }
    }

    /// Returns whether there is, or was, a pipeline of the name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns the configuration of a pipeline that serves.
    pub(super) fn serving(&self, name: &str) -> Option<&PipelineConfig> {
        let known = self.known.get(name)?;
        known.basis.as_ref()?;
        known.serving.as_ref().map(|basis| &basis.config)
    }

    /// Finds a pipeline that uses a model, and is to go on doing so.
    pub(super) fn user_of(&self, model: &str, config: &FileConfig) -> Option<&str> {
        let uses =
            |pipeline: &PipelineConfig| pipeline.nodes.iter().any(|node| uses(&node.kind, model));
        let goes_on = |name: &str| {
            let mut listed = config.pipelines.iter();
            listed.any(|pipeline| pipeline.name == name && uses(pipeline))
        };
        let is_user = |known: &Known| {
            let mut all = known.basis.iter().chain(&known.serving);
            all.any(|basis| uses(&basis.config))
        };
        let mut known = self.known.iter();
        known
            .find(|(name, known)| is_user(known) && goes_on(name))
            .map(|(name, _)| name.as_str())
    }

    /// Makes new names known, so that requests for them wait for their load.
    pub(super) fn announce(
        &mut self,
        config: &FileConfig,
        metrics: &Metrics,
        names: &mut Registry,
    ) {
        for listed in &config.pipelines {
            if names.get(&listed.name).is_none() && !self.has(&listed.name) {
                let reporter = metrics.reporter(&listed.name, pipeline::VERSION);
                let known = Known {
                    pipeline: Pipeline::new(&listed.name, reporter, self.limits.clone()),
                    basis: None,
                    libraries: Vec::new(),
                    custom: BTreeMap::new(),
                    serving: None,
                    checking: Weak::new(),
                };
                self.known.insert(listed.name.clone(), known);
            }
        }
        for known in self.known.values() {
            names.add(Servable::Pipeline(Arc::clone(&known.pipeline)));
        }
    }

    /// Brings everything up to date with the file and with the models, which are so already. The watcher does not wait
    /// for a check that takes long.
    pub(super) async fn bring(
        &mut self,
        config: &FileConfig,
        models: BTreeMap<String, Arc<Model>>,
        why: PassReason,
        done: &mut Done,
    ) {
        self.retire(config, done);
        let listed = &config.custom_node_libraries;
        self.libraries
            .open(listed, why, self.limits.custom_load)
            .await;
        let models = Arc::new(models);
        let refused = Arc::new(refused(config));
        let limit = self.limits.custom_load;
        let mut new = Vec::new();
        for listed in self.listed(config) {
            let Some((due, facts, before)) = self.due(listed, &models, &refused, why) else {
                continue;
            };
            new.push(Arc::downgrade(&due.number));
            self.checks.begin(async move {
                let checked = check(&due.basis.config, facts, limit).await;
                let left = match &checked {
                    (Ok(_), _) => Left::Nothing,
                    (Err(_), _) => before.left(limit).await,
                };
                PipelineCheck(due, checked, left)
            });
        }
        let end = end_of_wait(why.trigger, limit);
        while !new.is_empty()
            && let Some(check) = self.checks.next_until(end).await
        {
            let number = Arc::downgrade(&check.0.number);
            new.retain(|it| !it.ptr_eq(&number));
            self.settle(check, done);
        }
    }

    /// Retires what is not listed any more.
    fn retire(&mut self, config: &FileConfig, done: &mut Done) {
        let listed = self.listed(config);
        let listed: BTreeSet<&str> = listed.iter().map(|p| p.name.as_str()).collect();
        for (name, known) in &mut self.known {
            if known.basis.is_some() && !listed.contains(name.as_str()) {
                if known.checking.strong_count() > 0 {
                    let reason = "it is not configured any more";
                    end_load(&known.checking, reason);
                    known.checking = Weak::new();
                    // One that is being checked cannot be retired.
                    known.pipeline.fail(reason);
                }
                known.pipeline.handle(PhaseEvent::Retire);
                known.basis = None;
                known.libraries.clear();
                known.serving = None;
                // Those that a request still uses go with it.
                drop_elsewhere(std::mem::take(&mut known.custom).into_values());
                done.changed = true;
            }
        }
    }

    /// Returns the pipelines of the file. One that serves, and of which a new model would have the
    /// name, goes on as it was: the model is not loaded.
    fn listed(&self, config: &FileConfig) -> Vec<PipelineConfig> {
        let clashing = config.refused.iter().filter_map(|refused| {
            let known = self.known.get(&refused.name)?;
            let clashes = refused.reason == EntryError::PipelineName;
            let basis = known.basis.as_ref().filter(|_| clashes)?;
            Some(basis.config.clone())
        });
        config.pipelines.iter().cloned().chain(clashing).collect()
    }

    /// Returns whether a pipeline is to be checked, the facts for its check, and the state of the
    /// definition that serves until then.
    fn due(
        &mut self,
        config: PipelineConfig,
        models: &Arc<BTreeMap<String, Arc<Model>>>,
        refused: &Arc<BTreeMap<String, String>>,
        why: PassReason,
    ) -> Option<(Due, Facts, Before)> {
        let name = config.name.clone();
        let taken = models.contains_key(&name);
        let basis = Basis::new(config, models);
        let libraries = self.libraries.of(&basis.config);
        let number = Arc::new(HandlerLoad::new(Some(self.limits.custom_load)));
        let Some(known) = self.known.get_mut(&name).filter(|_| !taken) else {
            // The name answers for the model.
            if let Some(known) = self.known.get_mut(&name) {
                known.checking = Arc::downgrade(&number);
                known.libraries = libraries;
            }
            let facts = Facts {
                is_taken: true,
                ..Facts::default()
            };
            let due = Due {
                basis,
                changes: false,
                is_other_code: false,
                is_asked: false,
                number,
            };
            let looks = why.renewed || why.trigger != Trigger::Watch;
            return looks.then_some((due, facts, Before::Goes));
        };
        let keeps = known.serving.as_ref().is_none_or(|it| it.has(models));
        let before = known.basis.as_ref();
        let is_other_code = !are_same(&libraries, &known.libraries);
        let is_new = before.is_none();
        let is_another = before.is_none_or(|before| before.config != basis.config);
        let has_same = before.is_none_or(|before| are_same(&basis.models, &before.models));
        let same = keeps && has_same && !is_other_code;
        let phase = known.pipeline.phase();
        let is_checking = known.checking.strong_count() > 0;
        let is_asked =
            (is_checking || known.pipeline.has_failed()) && why.trigger == Trigger::Asked;
        if same && !is_another && !why.renewed && !is_asked {
            return None;
        }
        if is_checking {
            end_load(&known.checking, "another load has taken its place");
        }
        known.checking = Arc::downgrade(&number);
        if !is_new || phase == Phase::Retired {
            let reloads = is_another || why.renewed || same;
            known.pipeline.handle(if reloads {
                PhaseEvent::Reload
            } else {
                PhaseEvent::UsedModelChanged
            });
        }
        let (custom_runs, is_silent) = (self.limits.custom_runs, self.is_silent);
        let custom = &known.custom;
        let reporter = Arc::clone(known.pipeline.reporter());
        let facts = |libraries| Facts {
            models: Arc::clone(models),
            refused: Arc::clone(refused),
            libraries,
            kept: custom.clone(),
            custom_runs,
            is_silent,
            reporter: Arc::clone(&reporter),
            ..Facts::default()
        };
        let all = self.libraries.all();
        let before = match &known.serving {
            None => Before::Goes,
            Some(serving) => serving.before(&basis.config, models, all.clone(), custom, facts),
        };
        let facts = Facts {
            load: (*number).clone(),
            ..facts(all)
        };
        // What is being checked is not to be checked again at the next pass.
        known.basis = Some(basis.clone());
        known.libraries = libraries;
        let due = Due {
            basis,
            changes: is_another,
            is_other_code,
            is_asked,
            number,
        };
        Some((due, facts, before))
    }

    /// Brings what a check has found into effect.
    pub(super) fn settle(&mut self, check: PipelineCheck, done: &mut Done) {
        let PipelineCheck(due, (checked, finds), left) = check;
        let name = &due.basis.config.name;
        let number = Arc::downgrade(&due.number);
        let known = self.known.get(name);
        if known.is_some_and(|known| !known.checking.ptr_eq(&number)) {
            // Another check has taken its place, or nobody wants it any more.
            return drop_elsewhere(finds.made);
        }
        report(name, &checked, done);
        let Some(known) = self.known.get_mut(name) else {
            return;
        };
        let is_renewed = due.is_asked || due.is_other_code;
        done.changed |= due.changes || (is_renewed && checked.is_ok());
        known.pipeline.reporter().count_load(checked.is_ok());
        match checked {
            Ok(checked) => {
                known.install(due.basis.clone(), checked, finds);
                tracing::info!("Loading pipeline definition: {name} succeeded");
            }
            Err(errors) => {
                // What Python has raised may be among the rest.
                let failure = match self.is_silent {
                    true => errors.status().to_owned(),
                    false => errors.to_string(),
                };
                match left {
                    Left::Same => known.pipeline.fail(&failure),
                    Left::Sound(sound) => {
                        let (serving, checked, finds) = *sound;
                        known.install(serving, checked, finds);
                        known.pipeline.fail(&failure);
                    }
                    Left::Nothing => {
                        if let Some(diagram) = finds.diagram {
                            known.pipeline.set_diagram(diagram);
                        }
                        known.pipeline.refuse(failure);
                        known.serving = None;
                        drop_elsewhere(std::mem::take(&mut known.custom));
                    }
                }
                drop_elsewhere(finds.made);
            }
        }
        known.basis = Some(due.basis);
    }
}

impl Known {
    /// Puts a definition that has passed its check into service.
    fn install(&mut self, serving: Basis, checked: pipeline::CheckedPipeline, finds: Finds) {
        let Finds { mut made, diagram } = finds;
        if let Some(diagram) = diagram {
            self.pipeline.set_diagram(diagram);
        }
        let kept = made.iter().map(|(name, made)| (name.clone(), made.keep()));
        let old = std::mem::replace(&mut self.custom, kept.collect());
        let handle = |name: &str| made.remove(name).map(|made| made.node);
        let pipeline = &self.pipeline;
        let limits = pipeline.limits().clone();
        let definition = PipelineDefinition::new(checked.plan, handle, limits, pipeline.reporter());
        pipeline.install(Arc::new(definition));
        drop_elsewhere(made);
        drop_elsewhere(old);
        self.serving = Some(serving);
    }
}

/// Returns the reasons why models of a file are refused, by name.
fn refused(config: &FileConfig) -> BTreeMap<String, String> {
    let entries = config.models.iter().filter_map(|entry| match entry {
        ModelEntry::Refused(refused) => Some((refused.name.clone(), refused.reason.to_string())),
        ModelEntry::Model(_) => None,
    });
    entries.collect()
}

/// Returns whether a node runs a model.
fn uses(kind: &NodeKind, model: &str) -> bool {
    matches!(kind, NodeKind::Model { model_name, .. } if model_name == model)
}
