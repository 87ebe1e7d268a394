//! Snapshot of a servable: its kind, state, inputs, and outputs.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use strum::{EnumString, VariantArray};

use super::{
    history::{History, RecentFigures},
    nodes::{NodeView, nodes},
};
use crate::{
    engine::{Servable, ServableFacts, ServableVersion},
    metrics::{Figures, ServableHealth},
    model::{VersionErrorCode, VersionState},
    servable::TensorInfo,
    tensor::PartialShape,
    text::cut_bytes,
};

/// Maximum number of versions of a model that are shown: the newest.
const MAX_VERSIONS: usize = 20;

/// Maximum number of inputs, and of outputs, that are shown.
const MAX_TENSORS: usize = 64;

/// Maximum size of a text about a failure in bytes.
const MAX_FAILURE_LEN: usize = 2048;

/// Maximum size of one at the top of the page in bytes.
pub(super) const MAX_NOTICE_LEN: usize = 300;

/// A servable.
#[derive(Debug, Serialize)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) condition: Condition,
    /// A text that is another one when anything but figures is.
    pub(super) revision: String,
    /// Reason why there are no versions, if there are none.
    pub(super) failure: Option<String>,
    /// The figures of all versions together.
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Figures of the last seconds.
    pub(super) recent: RecentFigures,
    /// Requests that wait for an infer request of a model; those in flight of a pipeline or graph.
    pub(super) queue: usize,
    /// Number of live sequences, if there can be any.
    pub(super) sequences: Option<usize>,
    /// Number of runs and streams of a graph in progress.
    pub(super) streams: Option<usize>,
    /// The nodes of a pipeline or graph, with the times of their runs.
    pub(super) nodes: Vec<NodeView>,
    /// The newest first.
    pub(super) versions: Vec<Version>,
    /// Number of versions left out.
    #[serde(skip)]
    pub(super) more_versions: usize,
    /// Facts about the version that is served by default.
    #[serde(skip)]
    pub(super) loaded: Option<Loaded>,
}

/// Kinds of servables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Kind {
    Model,
    Pipeline,
    Graph,
}

/// Condition of a servable; those that need attention first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, strum::Display, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Condition {
    /// The servable serves, and too many of its recent requests have failed within the server.
    Failing,
    /// The servable does not serve, since something has failed.
    Failed,
    /// The servable serves, and something else of it has failed, or a request lately.
    Warning,
    /// The servable is about to serve.
    Loading,
    /// The servable serves.
    Ready,
    /// The servable serves no more.
    Retired,
}

/// A version of a servable.
#[derive(Debug, Serialize)]
pub(super) struct Version {
    #[serde(rename = "version")]
    pub(super) number: i64,
    pub(super) state: &'static str,
    pub(super) failure: Option<String>,
    /// Error of a request that has failed recently.
    pub(super) last_error: Option<String>,
    /// Indicates that too many requests have failed recently.
    #[serde(skip)]
    pub(super) is_failing: bool,
    #[serde(skip)]
    pub(super) runs: Option<Runs>,
    #[serde(flatten, serialize_with = "counts")]
    figures: Figures,
    /// Number of live sequences, if there can be any.
    sequences: Option<usize>,
}

/// Execution settings of a model's version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Runs {
    pub(super) device: String,
    pub(super) slots: usize,
    pub(super) streams: u32,
    /// Maximum number of sequences, if it is stateful and has one.
    pub(super) sequences: Option<u32>,
}

/// Facts about a loaded servable.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) inputs: Vec<Tensor>,
    pub(super) outputs: Vec<Tensor>,
    /// Number of inputs left out.
    pub(super) more_inputs: usize,
    /// Number of outputs left out.
    pub(super) more_outputs: usize,
    pub(super) is_stateful: bool,
    /// Marks a servable that splits tensors on the way, so that not every request of the right shapes fits.
    pub(super) is_split: bool,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) name: String,
    /// Datatype by its name in KServe; `None` if it may be any.
    pub(super) datatype: Option<&'static str>,
    /// `None` if nothing is known of it.
    pub(super) shape: Option<PartialShape>,
    pub(super) layout: String,
}

impl Condition {
    /// Returns whether somebody should look at it.
    pub(super) const fn needs_somebody(self) -> bool {
        matches!(self, Self::Failed | Self::Failing | Self::Warning)
    }

    /// Finds out where a servable stands.
    pub(super) fn of(servable: &Servable) -> Self {
        let parts = servable.parts();
        if parts.is_empty() {
            let survey = servable.model().and_then(|model| model.survey());
            return match survey.as_deref() {
                None => Self::Loading,
                Some(Ok(())) => Self::Retired,
                Some(Err(_)) => Self::Failed,
            };
        }
        let (mut serves, mut fails, mut loads) = (false, false, false);
        for part in &parts {
            let status = part.status();
            let is_serving = status.state == VersionState::Available;
            serves |= is_serving;
            fails |= status.code != VersionErrorCode::Ok;
            loads |= status.state <= VersionState::Loading;
            match part.reporter().health() {
                ServableHealth::Failing(_) if is_serving => return Self::Failing,
                ServableHealth::Unsteady(_) if is_serving => fails = true,
                _ => {}
            }
        }
        match (serves, fails, loads) {
            (true, true, _) => Self::Warning,
            (true, false, _) => Self::Ready,
            (false, true, _) => Self::Failed,
            (false, false, true) => Self::Loading,
            (false, false, false) => Self::Retired,
        }
    }
}

/// Returns how many requests wait for an infer request of a version of a model, or are in flight of a pipeline
/// or graph.
pub(super) fn in_flight(part: &ServableVersion) -> usize {
    match part {
        ServableVersion::Version(version) => version.loaded().map_or(0, |it| it.in_queue()),
        ServableVersion::Pipeline(pipeline) => pipeline.in_flight(),
        ServableVersion::Graph(graph) => graph.in_flight(),
    }
}

/// Returns how many sequences of a version live, if there can be any.
pub(super) fn live_sequences(part: &ServableVersion) -> Option<usize> {
    let ServableVersion::Version(version) = part else {
        return None;
    };
    // Those of a version that is retired go on.
    let live = version.sequences().len();
    let has_any = live > 0 || version.loaded().is_ok_and(|it| it.is_stateful());
    has_any.then_some(live)
}

/// Returns why the last request of a servable failed, if it is [failing](Condition::Failing).
pub(super) fn last_error(servable: &Servable) -> Option<String> {
    let parts = servable.parts();
    let mut serving = parts
        .iter()
        .filter(|part| part.status().state == VersionState::Available);
    serving.find_map(|part| match part.reporter().health() {
        ServableHealth::Failing(text) => Some(cut_bytes(&text, MAX_NOTICE_LEN)),
        ServableHealth::Good | ServableHealth::Unsteady(_) => None,
    })
}

impl View {
    /// Looks at a servable.
    pub(super) fn of(servable: &Servable, history: &History) -> Self {
        let parts = servable.parts();
        let versions = parts.iter().rev().take(MAX_VERSIONS).map(Version::of);
        let versions: Vec<Version> = versions.collect();
        let mut figures = Figures::default();
        for version in &versions {
            figures.add(&version.figures);
        }
        let sequences = versions.iter().filter_map(|it| it.sequences);
        let (kind, drawing) = match servable {
            Servable::Model(_) => (Kind::Model, 0),
            Servable::Pipeline(pipeline) => {
                let diagram = pipeline.diagram();
                let place = diagram.map_or(0, |it| Arc::as_ptr(&it) as usize);
                (Kind::Pipeline, place)
            }
            Servable::Graph(graph) => {
                let definition = graph.definition();
                let place = definition.map_or(0, |it| Arc::as_ptr(&it) as usize);
                (Kind::Graph, place)
            }
        };
        let survey = servable.model().and_then(|model| model.survey());
        let failure = survey.and_then(|it| {
            it.as_ref()
                .as_ref()
                .err()
                .map(|it| cut_bytes(it, MAX_FAILURE_LEN))
        });
        let loaded = servable.part(None).and_then(|part| part.loaded());
        let mut view = Self {
            name: servable.name().to_owned(),
            kind,
            condition: Condition::of(servable),
            revision: String::new(),
            failure: failure.filter(|_| parts.is_empty()),
            figures,
            recent: history.recent(Some(servable.name())),
            queue: parts.iter().map(in_flight).sum(),
            sequences: sequences.reduce(|a, b| a + b),
            streams: matches!(servable, Servable::Graph(_))
                .then(|| parts.iter().map(|it| it.reporter().graph_runs()).sum()),
            nodes: nodes(servable),
            versions,
            more_versions: parts.len().saturating_sub(MAX_VERSIONS),
            loaded: loaded.ok().map(|facts| Loaded::of(&facts)),
        };
        view.revision = view.revision(drawing);
        view
    }

    /// Returns whether there is a diagram of it.
    pub(super) fn is_drawn(&self) -> bool {
        self.kind != Kind::Model
    }

    pub(super) fn is_stateful_model(&self) -> bool {
        self.kind == Kind::Model && self.loaded.as_ref().is_some_and(|it| it.is_stateful)
    }

    /// Hashes all but figures; `drawing` changes when what is drawn of it does.
    fn revision(&self, drawing: usize) -> String {
        let mut hasher = DefaultHasher::new();
        // Figures that there are none of are not shown.
        let figures = &self.figures;
        (figures.is_any(), figures.runs > 0).hash(&mut hasher);
        (self.sequences.is_some(), self.more_versions, drawing).hash(&mut hasher);
        self.nodes.len().hash(&mut hasher);
        (&self.name, self.kind, self.condition, &self.failure).hash(&mut hasher);
        for version in &self.versions {
            (version.number, version.state, version.is_failing).hash(&mut hasher);
            (&version.failure, &version.last_error, &version.runs).hash(&mut hasher);
        }
        if let Some(loaded) = &self.loaded {
            for tensor in loaded.inputs.iter().chain(&loaded.outputs) {
                (&tensor.name, tensor.datatype).hash(&mut hasher);
                (tensor.shape_text(), &tensor.layout).hash(&mut hasher);
            }
        }
        format!("{:016x}", hasher.finish())
    }
}

impl Version {
    fn of(part: &ServableVersion) -> Self {
        let status = part.status();
        let (mut runs, mut sequences) = (None, None);
        let is_serving = status.state == VersionState::Available;
        let (error, is_failing) = match part.reporter().health() {
            ServableHealth::Failing(text) if is_serving => (Some(text), true),
            ServableHealth::Unsteady(text) if is_serving => (Some(text), false),
            _ => (None, false),
        };
        if let ServableVersion::Version(version) = part {
            let loaded = version.loaded().ok();
            sequences = live_sequences(part);
            runs = loaded.map(|loaded| Runs {
                device: loaded.spec.options.device.clone(),
                slots: loaded.slots(),
                streams: loaded.streams(),
                sequences: (loaded.spec.stateful.as_ref())
                    .map(|it| it.max_sequence_number)
                    .filter(|most| *most > 0),
            });
        }
        Self {
            number: part.number(),
            state: match status.state {
                VersionState::Start => "START",
                VersionState::Loading => "LOADING",
                VersionState::Available => "AVAILABLE",
                VersionState::Unloading => "UNLOADING",
                VersionState::End => "END",
            },
            failure: (status.code != VersionErrorCode::Ok).then(|| match part.failure() {
                Some(failure) => cut_bytes(&failure, MAX_FAILURE_LEN),
                None => status.message().to_owned(),
            }),
            last_error: error.map(|text| cut_bytes(&text, MAX_FAILURE_LEN)),
            is_failing,
            runs,
            sequences,
            figures: part.reporter().figures(),
        }
    }
}

/// Writes those of the figures that are shown of a version.
fn counts<S: Serializer>(figures: &Figures, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("requests", &(figures.requests + figures.streamed))?;
    map.serialize_entry("failed", &figures.failed)?;
    map.serialize_entry("runs", &figures.runs)?;
    map.end()
}

impl Loaded {
    fn of(facts: &ServableFacts) -> Self {
        let info = facts.info();
        let side = |tensors: &[TensorInfo]| {
            let tensors = tensors.iter().take(MAX_TENSORS);
            let tensors = tensors.map(|tensor| Tensor {
                name: tensor.name.clone(),
                datatype: tensor.decided().map(crate::tensor::DataType::kserve),
                shape: (!facts.is_graph()).then(|| tensor.shape.clone()),
                layout: layout(tensor),
            });
            tensors.collect::<Vec<_>>()
        };
        Self {
            inputs: side(&info.inputs),
            outputs: side(&info.outputs),
            more_inputs: info.inputs.len().saturating_sub(MAX_TENSORS),
            more_outputs: info.outputs.len().saturating_sub(MAX_TENSORS),
            is_stateful: facts.is_stateful(),
            is_split: facts.is_split(),
        }
    }
}

impl Tensor {
    /// Writes the shape as drawings have it: -1 is any.
    pub(super) fn shape_text(&self) -> String {
        let shape = self.shape.as_ref();
        shape.map(ToString::to_string).unwrap_or_default()
    }
}

/// Writes a layout, unless it says nothing.
fn layout(tensor: &TensorInfo) -> String {
    match tensor.layout.as_str() {
        "N..." | "N?..." | "..." => String::new(),
        layout => layout.to_owned(),
    }
}
