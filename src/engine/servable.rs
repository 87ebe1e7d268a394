//! Servables, as metadata and status calls see them.

use std::sync::Arc;

use crate::{
    error::Result,
    graph::{self, Graph, GraphPort},
    metrics::Reporter,
    model::{Loaded, Model, Served, Status, Version, VersionState, ir::RtInfo},
    openvino::BatchingFacts,
    pipeline::{self, Pipeline, PipelineDefinition},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Layout, PartialShape},
};

/// Servable under a name.
#[derive(Debug, Clone)]
pub enum Servable {
    /// A model with its versions.
    Model(Arc<Model>),
    /// A pipeline. Versions do not matter to it: it has all of them, and says that it is version 1.
    Pipeline(Arc<Pipeline>),
    /// A graph, which is like a pipeline in this.
    Graph(Arc<Graph>),
}

/// A version of what a name stands for.
#[derive(Debug, Clone)]
pub enum ServableVersion {
    /// A version of a model.
    Version(Arc<Version>),
    /// A pipeline.
    Pipeline(Arc<Pipeline>),
    /// A graph.
    Graph(Arc<Graph>),
}

/// Facts about a loaded servable.
pub enum ServableFacts {
    /// A model version.
    Model(Arc<Loaded>),
    /// A pipeline.
    Pipeline(Arc<PipelineDefinition>),
    /// A graph.
    Graph {
        /// Inputs and outputs, which say no more than names.
        info: ServableInfo,
        /// Marks a graph in which a node triggers itself, so that a request may have any number of responses.
        is_decoupled: bool,
    },
}

impl Servable {
    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Model(model) => model.name(),
            Self::Pipeline(pipeline) => pipeline.name(),
            Self::Graph(graph) => graph.name(),
        }
    }

    /// Returns the model, if it is one.
    pub fn model(&self) -> Option<&Arc<Model>> {
        match self {
            Self::Model(model) => Some(model),
            Self::Pipeline(_) | Self::Graph(_) => None,
        }
    }

    /// Returns every version, the lowest first.
    pub fn parts(&self) -> Vec<ServableVersion> {
        match self {
            Self::Model(model) => model
                .versions()
                .into_iter()
                .map(ServableVersion::Version)
                .collect(),
            Self::Pipeline(pipeline) => vec![ServableVersion::Pipeline(Arc::clone(pipeline))],
            Self::Graph(graph) => vec![ServableVersion::Graph(Arc::clone(graph))],
        }
    }

    /// Finds a version by its number; `None` means the default version.
    ///
    /// # Errors
    ///
    /// Fails if there is no such version, or none is available to be the default.
    pub fn part(&self, number: Option<i64>) -> Result<ServableVersion> {
        match self {
            Self::Model(model) => model.version(number).map(ServableVersion::Version),
            Self::Pipeline(pipeline) => Ok(ServableVersion::Pipeline(Arc::clone(pipeline))),
            Self::Graph(graph) => Ok(ServableVersion::Graph(Arc::clone(graph))),
        }
    }

    /// Returns whether the version of a call matters: pipelines and graphs take any, which need be no number.
    pub fn heeds_version(&self) -> bool {
        matches!(self, Self::Model(_))
    }

    /// Returns the versions that serve, the lowest first.
    pub fn available(&self) -> Vec<i64> {
        let parts = self.parts().into_iter();
        parts
            .filter(|part| part.status().state == VersionState::Available)
            .map(|part| part.number())
            .collect()
    }
}

impl ServableVersion {
    /// Returns the name of the servable.
    pub fn name(&self) -> &str {
        match self {
            Self::Version(version) => version.model(),
            Self::Pipeline(pipeline) => pipeline.name(),
            Self::Graph(graph) => graph.name(),
        }
    }

    /// Returns the number of the version.
    pub fn number(&self) -> i64 {
        match self {
            Self::Version(version) => version.number(),
            Self::Pipeline(_) => pipeline::VERSION,
            Self::Graph(_) => graph::VERSION,
        }
    }

    /// Returns state and outcome at this moment.
    pub fn status(&self) -> Status {
        match self {
            Self::Version(version) => version.status(),
            Self::Pipeline(pipeline) => pipeline.status(),
            Self::Graph(graph) => graph.status(),
        }
    }

    /// Returns why its last load or check failed, if it did. Paths of this machine may be in it.
    pub fn failure(&self) -> Option<Arc<String>> {
        match self {
            Self::Version(version) => version.failure(),
            Self::Pipeline(pipeline) => pipeline.failure(),
            Self::Graph(graph) => graph.failure(),
        }
    }

    /// Returns the figures.
    pub fn reporter(&self) -> &Arc<Reporter> {
        match self {
            Self::Version(version) => version.reporter(),
            Self::Pipeline(pipeline) => pipeline.reporter(),
            Self::Graph(graph) => graph.reporter(),
        }
    }

    /// Checks that requests can be served at the moment, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if nothing is loaded, or something is in its way.
    pub fn ready(&self) -> Result<()> {
        match self {
            Self::Version(version) => version.loaded().map(drop),
            Self::Pipeline(pipeline) => pipeline.definition()?.ready(),
            Self::Graph(graph) => graph.definition()?.ready(),
        }
    }

    /// Returns what is loaded, without waiting.
    ///
    /// # Errors
    ///
    /// Fails if nothing is, or not any more.
    pub fn loaded(&self) -> Result<ServableFacts> {
        match self {
            Self::Version(version) => version.loaded().map(ServableFacts::Model),
            Self::Pipeline(pipeline) => pipeline.definition().map(ServableFacts::Pipeline),
            Self::Graph(graph) => graph.definition().map(|it| ServableFacts::Graph {
                info: info_of(it.plan()),
                is_decoupled: it.plan().loops().next().is_some(),
            }),
        }
    }
}

impl ServableFacts {
    /// Returns inputs and outputs.
    pub fn info(&self) -> &ServableInfo {
        match self {
            Self::Model(loaded) => &loaded.info,
            Self::Pipeline(definition) => &definition.plan.info,
            Self::Graph { info, .. } => info,
        }
    }

    /// Returns whether it is a graph, whose inputs and outputs have no types.
    pub fn is_graph(&self) -> bool {
        matches!(self, Self::Graph { .. })
    }

    /// Returns whether a request may have any number of responses.
    pub fn is_decoupled(&self) -> bool {
        matches!(
            self,
            Self::Graph {
                is_decoupled: true,
                ..
            }
        )
    }

    /// Returns whether requests belong to sequences.
    pub fn is_stateful(&self) -> bool {
        matches!(self, Self::Model(loaded) if loaded.is_stateful())
    }

    /// Describes the batches of requests that wait, if the settings ask for any; those of steps of sequences are none.
    #[must_use]
    pub fn batching(&self) -> Option<BatchingFacts> {
        match self {
            Self::Model(loaded) if !loaded.is_stateful() => loaded.batching(),
            _ => None,
        }
    }

    /// Returns true if it is a pipeline that splits tensors: how many parts a request has to have, and
    /// what is in them, its inputs do not say.
    pub fn is_split(&self) -> bool {
        matches!(self, Self::Pipeline(definition) if !definition.plan.levels.is_empty())
    }

    /// Returns the `model_info` that the file of a model carries, if any.
    pub fn rt_info(&self) -> Option<&RtInfo> {
        match self {
            Self::Model(loaded) => loaded.rt_info.as_ref(),
            Self::Pipeline(_) | Self::Graph { .. } => None,
        }
    }
}

/// Returns the inputs and outputs of a graph, in the order of its file: names, and no more.
pub(super) fn info_of(plan: &graph::GraphPlan) -> ServableInfo {
    let named = |(place, port): (usize, &GraphPort)| TensorInfo {
        name: port.port.name.clone(),
        dtype: DataType::U8,
        is_open: true,
        shape: PartialShape(Vec::new()),
        layout: Layout::unspecified(0),
        port: place,
    };
    ServableInfo {
        inputs: plan.inputs.iter().enumerate().map(named).collect(),
        outputs: plan.outputs.iter().enumerate().map(named).collect(),
    }
}
