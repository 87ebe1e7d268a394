//! A pipeline that can run: the plan with the custom nodes that were made for it, and how each of its
//! models takes tensors.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::sync::Semaphore;

use super::{plan::PipelinePlan, python::PythonNode, sources::TensorSource};
use crate::{
    budget::Budget,
    config::NodeKind,
    custom_node::Node,
    error::{Error, ErrorKind, Result},
    metrics::{NodeTimes, Reporter},
    model::{Loaded, Served, Version},
    python::WorkerGroup,
    servable::TensorInfo,
    task,
    tensor::images::PixelLimit,
};

/// Interval between checks for the end of the last request.
const LOOK: Duration = Duration::from_millis(10);

/// Limits of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineLimits {
    /// Requests in flight.
    pub requests: usize,
    /// Runs of one custom node.
    pub custom_runs: usize,
    /// Time limit for libraries of custom nodes to open, and for nodes to be made and described.
    pub custom_load: Duration,
    /// Pixels of an encoded image that an input takes.
    pub image_pixels: PixelLimit,
    /// Budget of requests and responses.
    pub budget: Budget,
}

/// A version of a model, and what is loaded of it.
pub(super) type LoadedVersion = (Arc<Version>, Arc<Loaded>);

/// A pipeline that can run. Requests hold it, so that what takes its place does not disturb them.
pub struct PipelineDefinition {
    /// The plan.
    pub plan: Arc<PipelinePlan>,
    pub(super) works: Vec<Work>,
    pub(super) times: Vec<Arc<NodeTimes>>,
}

/// The nodes of a pipeline that may run in the task of a connection: with models of microseconds they
/// take as long as a few requests to one of them.
const MAX_INLINE_NODES: usize = 10;

/// Work of a node.
pub(super) enum Work {
    /// No work.
    End,
    /// A model, and how it takes tensors as far as it was asked.
    Model(ArcSwapOption<Bound>),
    /// A custom node, what bounds its runs, and the most of a request at once.
    Custom(Arc<Node>, Arc<Semaphore>, usize),
    /// A Python node, and the most runs of a request at once.
    Python(Arc<PythonNode>, usize),
}

/// Custom node of a library or a handler.
#[derive(Clone)]
pub enum CustomNode {
    /// A node of a shared library, and what bounds its runs.
    Native(Arc<Node>, Arc<Semaphore>),
    /// A Python node.
    Python(Arc<PythonNode>),
}

/// Ports of a loaded model for the tensors of a node.
pub(super) struct Bound {
    loaded: Weak<Loaded>,
    /// The port and the tensor of each input of the node.
    pub(super) inputs: Vec<(usize, TensorSource)>,
    /// The port of each output of the node.
    pub(super) outputs: Vec<usize>,
}

/// The models of one request, by node: a request stays on the versions that it found.
pub(super) struct Used {
    pub(super) models: Vec<Option<Model>>,
    /// Maximum number of runs in flight, and a node that runs the model if it is one, by pool.
    pub(super) pools: Vec<(usize, Option<usize>)>,
    /// The pool of each node.
    pub(super) pool_of: Vec<usize>,
}

/// A model that a node runs.
pub(super) struct Model {
    pub(super) version: Arc<Version>,
    pub(super) loaded: Arc<Loaded>,
    pub(super) bound: Arc<Bound>,
}

impl PipelineDefinition {
    /// Makes the definition of a plan. `custom` gives the custom node of each node that has one.
    pub fn new(
        plan: PipelinePlan,
        mut custom: impl FnMut(&str) -> Option<CustomNode>,
        limits: PipelineLimits,
        reporter: &Reporter,
    ) -> Self {
        let works = plan.nodes.iter().map(|node| match &node.kind {
            None => Work::End,
            Some(NodeKind::Model { .. }) => Work::Model(ArcSwapOption::empty()),
            Some(NodeKind::Custom { .. }) => match custom(&node.name) {
                None => Work::End,
                Some(CustomNode::Native(node, gate)) => {
                    Work::Custom(node, gate, limits.custom_runs)
                }
                Some(CustomNode::Python(node)) => {
                    node.joins();
                    // One after another, if they have a state in common.
                    let most = if node.is_stateful() {
                        1
                    } else {
                        limits.custom_runs
                    };
                    Work::Python(node, most)
                }
            },
        });
        Self {
            works: works.collect(),
            times: plan
                .nodes
                .iter()
                .map(|node| match node.kind {
                    None => Arc::default(),
                    Some(_) => reporter.node(&node.name),
                })
                .collect(),
            plan: Arc::new(plan),
        }
    }

    /// Returns true if a request may run in the task of its connection, as far as its models allow it:
    /// a few models one after another, and nothing that splits tensors or runs code of others.
    pub(crate) fn is_inline(&self) -> bool {
        let is_model = |work: &Work| matches!(work, Work::End | Work::Model(_));
        self.plan.levels.is_empty()
            && self.works.len() <= MAX_INLINE_NODES
            && self.works.iter().all(is_model)
    }

    /// Returns the longest time of a call of its Python nodes if it does not count here.
    pub fn waived_timeout(&self) -> Option<Duration> {
        self.workers()?.waived_timeout()
    }

    /// Returns the workers of its Python nodes, if it has any.
    pub(super) fn workers(&self) -> Option<&WorkerGroup> {
        self.works.iter().find_map(|work| match work {
            Work::Python(node, _) => Some(&**node.workers()),
            _ => None,
        })
    }

    /// Finds the models of a request.
    pub(super) fn used(
        &self,
        models: impl Fn(&str, Option<i64>) -> Result<LoadedVersion>,
    ) -> Result<Used> {
        let nodes = &self.plan.nodes;
        let mut used = Used {
            models: Vec::with_capacity(nodes.len()),
            pools: Vec::new(),
            pool_of: Vec::with_capacity(nodes.len()),
        };
        for (node, work) in nodes.iter().zip(&self.works) {
            let (
                Some(NodeKind::Model {
                    model_name,
                    version,
                }),
                Work::Model(bound),
            ) = (&node.kind, work)
            else {
                used.models.push(None);
                used.pool_of.push(used.pools.len());
                let most = match work {
                    Work::Custom(_, _, most) | Work::Python(_, most) => *most,
                    _ => 1,
                };
                used.pools.push((most, None));
                continue;
            };
            let (version, loaded) = models(model_name, *version).map_err(|gone| {
                // Its check is about to find out.
                let text = format!("{NOT_LOADED} - Node: {}; {}", node.name, gone.message());
                Error::new(ErrorKind::NotLoaded, text)
            })?;
            let bound = match bound.load_full() {
                Some(known) if std::ptr::eq(known.loaded.as_ptr(), Arc::as_ptr(&loaded)) => known,
                _ => {
                    let made = Arc::new(Bound::new(node, &loaded)?);
                    bound.store(Some(Arc::clone(&made)));
                    made
                }
            };
            // Nodes that run the same model share what it can do at once.
            let same = |other: &Option<Model>| {
                other
                    .as_ref()
                    .is_some_and(|other| Arc::ptr_eq(&other.loaded, &loaded))
            };
            used.pool_of.push(match used.models.iter().position(same) {
                Some(before) => used.pool_of[before],
                None => {
                    // As many more as run together wherever one does.
                    let rows = loaded.batching().and_then(|it| it.sizes.last().copied());
                    let most = loaded.slots() * rows.unwrap_or(1);
                    used.pools.push((most, Some(used.models.len())));
                    used.pools.len() - 1
                }
            });
            used.models.push(Some(Model {
                version,
                loaded,
                bound,
            }));
        }
        Ok(used)
    }
}

impl Served for PipelineDefinition {
    const KNOWN: &'static str = "Pipeline";
    const PLAIN: &'static str = "pipeline";

    fn obstacle(&self) -> Option<String> {
        self.workers()?.obstacle()
    }

    /// Waits until the last request has left, and lets go of the custom nodes off the async workers,
    /// since that runs code of theirs. Python nodes that nothing else has are finalized by then.
    async fn drain(self: Arc<Self>) {
        // Nobody can find it any more, so the count only falls.
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(LOOK).await;
        }
        task::blocking("drop pipeline", move || {
            let python = self.works.iter().filter_map(|work| match work {
                Work::Python(node, _) => Some(Arc::clone(node)),
                _ => None,
            });
            let python: Vec<Arc<PythonNode>> = python.collect();
            drop(self);
            for node in python {
                node.leaves();
            }
        })
        .await;
    }
}

/// Text of the error while a pipeline cannot serve.
pub(super) const NOT_LOADED: &str = "Pipeline is not loaded yet";

impl Bound {
    fn new(node: &super::PipelinePlanNode, loaded: &Arc<Loaded>) -> Result<Self> {
        let another = |what: &str, name: &str| {
            Error::new(
                ErrorKind::NotLoaded,
                format!(
                    "{NOT_LOADED} - Node: {}; the model has no {what} {name} any more",
                    node.name
                ),
            )
        };
        let port = |tensors: &[TensorInfo], what, name: &str| {
            let found = tensors.iter().find(|tensor| tensor.name == name);
            found.cloned().ok_or_else(|| another(what, name))
        };
        let inputs = node.inputs.iter().map(|input| {
            let info = port(&loaded.info.inputs, "input", &input.name)?;
            Ok((info.port, TensorSource::from(&info)))
        });
        let outputs = node.outputs.iter().map(|output| {
            let info = port(&loaded.info.outputs, "output", &output.name)?;
            Ok(info.port)
        });
        Ok(Self {
            loaded: Arc::downgrade(loaded),
            inputs: inputs.collect::<Result<_>>()?,
            outputs: outputs.collect::<Result<_>>()?,
        })
    }
}
