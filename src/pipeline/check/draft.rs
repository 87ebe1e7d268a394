//! A pipeline while it is being checked.

use std::collections::HashMap;

use crate::{
    config::{
        Connection, FilePosition, FilePositions, NodeConfig, NodeKind, PipelineConfig, Warning,
    },
    error::nearest,
    pipeline::{
        check::Unchecked,
        error::{PipelineError, PipelineRule},
        plan::Count,
        sources::{CustomError, CustomFacts, MissingModel, ModelFacts, Sources, TensorSource},
    },
};

/// The name of the entry.
pub(super) const REQUEST: &str = "request";

/// The name of the exit.
pub(super) const RESPONSE: &str = "response";

/// A pipeline while it is being checked.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) config: &'a PipelineConfig,
    /// The entry, the nodes of the file, the exit.
    pub(super) nodes: Vec<DraftNode<'a>>,
    /// The first node of each name; entry and exit go before others.
    pub(super) names: HashMap<&'a str, usize>,
    pub(super) errors: Vec<PipelineError>,
    pub(super) warnings: Vec<Warning>,
    pub(super) unchecked: Vec<Unchecked>,
}

/// A node while it is being checked.
#[derive(Debug)]
pub(super) struct DraftNode<'a> {
    pub(super) name: &'a str,
    /// `None` for entry and exit.
    pub(super) config: Option<&'a NodeConfig>,
    pub(super) connections: &'a [Connection],
    places: &'a FilePositions,
    pub(super) count: Option<Count>,
    pub(super) gathers: Gathers,
    /// Inputs and outputs, if known; the entry and the exit have none.
    pub(super) facts: Option<CustomFacts>,
    /// Why it is not known.
    pub(super) failure: Option<Failure>,
    /// Whether the model is stateful, which is not allowed in a pipeline.
    pub(super) stateful: bool,
    pub(super) auto: bool,
    /// Where its inputs come from, for those connections of which the source is there.
    pub(super) links: Vec<Link>,
}

/// Node that is gathered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathers {
    Nothing,
    /// A demultiplexer.
    From(usize),
    /// Node that cannot be gathered from.
    Error,
}

/// Why a node's inputs and outputs are not known.
#[derive(Debug)]
pub(super) enum Failure {
    Model(MissingModel),
    Custom(CustomError),
}

/// A connection of which the source is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Which of the node's connections.
    pub(super) connection: usize,
    /// The source.
    pub(super) source: usize,
    /// Which of the node's facts' inputs, if it is there.
    pub(super) input: Option<usize>,
    /// Which of the source's facts' outputs, or which input of the pipeline, if it is there. Of a
    /// source that is open, which of the outputs in the configuration.
    pub(super) output: Option<usize>,
}

impl DraftNode<'_> {
    /// Returns the place of a key of the node.
    pub(super) fn place(&self, key: &str) -> &FilePosition {
        self.places.of(key)
    }

    /// Returns an input, if it is known.
    pub(super) fn input(&self, index: usize) -> Option<&TensorSource> {
        self.facts.as_ref()?.inputs.get(index)
    }

    /// Returns an output, if it is known.
    pub(super) fn output(&self, index: usize) -> Option<&TensorSource> {
        self.facts.as_ref()?.outputs.get(index)
    }

    /// Returns whether it takes and gives whatever it is connected with.
    pub(super) fn is_open(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.is_open)
    }

    /// Returns whether it runs a model.
    pub(super) fn is_model(&self) -> bool {
        let kind = self.config.map(|config| &config.kind);
        matches!(kind, Some(NodeKind::Model { .. }))
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(config: &'a PipelineConfig) -> Self {
        let end = |name, connections, count| DraftNode {
            name,
            config: None,
            connections,
            places: &config.places,
            count,
            gathers: Gathers::Nothing,
            facts: None,
            failure: None,
            stateful: false,
            auto: false,
            links: Vec::new(),
        };
        let count = config.demultiply_count.map(Count::new);
        let mut nodes: Vec<DraftNode<'a>> = vec![end(REQUEST, &[], count)];
        nodes.extend(config.nodes.iter().map(|node| DraftNode {
            name: &node.name,
            config: Some(node),
            connections: &node.inputs,
            places: &node.places,
            count: node.demultiply_count.map(Count::new),
            ..end("", &[], None)
        }));
        nodes.push(end(RESPONSE, &config.outputs, None));
        let mut names = HashMap::from([(REQUEST, 0), (RESPONSE, nodes.len() - 1)]);
        for (index, node) in nodes.iter().enumerate() {
            names.entry(node.name).or_insert(index);
        }
        Self {
            config,
            nodes,
            names,
            errors: Vec::new(),
            warnings: Vec::new(),
            unchecked: Vec::new(),
        }
    }

    /// Asks for what each node takes and gives. Rules 2 and 3. What is not known afterwards is
    /// listed as unchecked.
    pub(super) fn describe(&mut self, sources: &impl Sources) {
        for index in 0..self.nodes.len() {
            let Some(config) = self.nodes[index].config else {
                continue;
            };
            let node = &mut self.nodes[index];
            match &config.kind {
                NodeKind::Model {
                    model_name,
                    version,
                } => match sources.model(model_name, *version) {
                    Ok(ModelFacts {
                        info,
                        stateful,
                        auto,
                    }) => {
                        node.facts = Some(CustomFacts {
                            inputs: info.inputs.iter().map(TensorSource::from).collect(),
                            outputs: info.outputs.iter().map(TensorSource::from).collect(),
                            is_open: false,
                        });
                        (node.stateful, node.auto) = (stateful, auto);
                    }
                    Err(MissingModel::NotLooked {
                        reason,
                        stateful,
                        auto,
                    }) => {
                        (node.stateful, node.auto) = (stateful, auto);
                        self.not_looked(index, PipelineRule::MissingModel, "model_name", reason);
                    }
                    Err(missing) => {
                        let key = match &missing {
                            MissingModel::Version(_) => "version",
                            _ => "model_name",
                        };
                        self.behind(index, key);
                        self.nodes[index].failure = Some(Failure::Model(missing));
                    }
                },
                NodeKind::Custom {
                    library_name,
                    params,
                } => match sources.custom(config, library_name, params) {
                    Ok(facts) => node.facts = Some(facts),
                    Err(CustomError::NotLooked(reason)) => {
                        self.not_looked(
                            index,
                            PipelineRule::MissingLibrary,
                            "library_name",
                            reason,
                        );
                    }
                    Err(error) => self.custom_error(index, library_name, error),
                },
            }
        }
    }

    fn custom_error(&mut self, index: usize, name: &str, error: CustomError) {
        self.behind(index, "library_name");
        let (rule, found, expected, next) = match error {
            CustomError::Library(known) => (
                PipelineRule::MissingLibrary,
                format!("the library `{name}`, which is not open"),
                one_of("a library that is", &known),
                or_meant(name, &known, "add it to custom_node_library_config_list"),
            ),
            CustomError::NotOpen(reason) => (
                PipelineRule::MissingLibrary,
                format!("the library `{name}`, which does not open: {reason}"),
                "a library that opens and has all six functions".to_owned(),
                "build it, or correct its base_path".to_owned(),
            ),
            CustomError::Parameter(key) => (
                PipelineRule::Initialize,
                format!("a zero byte in the parameter `{key}`"),
                "texts that C can have".to_owned(),
                "take the zero byte away".to_owned(),
            ),
            CustomError::Initialize(code) => (
                PipelineRule::Initialize,
                format!("{code} from `initialize` of the library `{name}`"),
                "0".to_owned(),
                "see the node's params, and what the library prints".to_owned(),
            ),
            CustomError::Handler(reason) => (
                PipelineRule::Initialize,
                reason,
                "a handler that loads and initializes".to_owned(),
                "correct the handler; the log has where it was raised".to_owned(),
            ),
            // Reported later, in the order of the rules.
            error => {
                self.nodes[index].failure = Some(Failure::Custom(error));
                return;
            }
        };
        self.error(index, rule, "library_name", found, expected, next);
    }

    fn not_looked(&mut self, index: usize, rule: PipelineRule, key: &str, reason: String) {
        self.unchecked(index, Some(rule), key, reason);
    }

    /// Lists a node of which an error keeps what it takes and gives.
    fn behind(&mut self, index: usize, key: &str) {
        let what = match self.nodes[index].is_model() {
            true => "model",
            false => "custom node",
        };
        let reason = format!(
            "its inputs and outputs, and what depends on them, since the {what} cannot be asked"
        );
        self.unchecked(index, None, key, reason);
    }

    fn unchecked(&mut self, index: usize, rule: Option<PipelineRule>, key: &str, reason: String) {
        let node = &self.nodes[index];
        self.unchecked.push(Unchecked {
            node: node.name.to_owned(),
            rule,
            place: node.place(key).clone(),
            reason,
        });
    }

    /// Adds an error at a key of a node.
    pub(super) fn error(
        &mut self,
        node: usize,
        rule: PipelineRule,
        key: &str,
        found: String,
        expected: String,
        next: String,
    ) {
        let place = self.nodes[node].place(key).clone();
        self.error_at(node, rule, place, found, expected, next);
    }

    /// Adds an error of a node.
    pub(super) fn error_at(
        &mut self,
        node: usize,
        rule: PipelineRule,
        place: FilePosition,
        found: String,
        expected: String,
        next: String,
    ) {
        self.errors.push(PipelineError {
            rule,
            node: Some(self.nodes[node].name.to_owned()),
            place,
            found,
            expected,
            next,
        });
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, place: &FilePosition, text: String) {
        self.warnings.push(Warning {
            place: place.clone(),
            text,
        });
    }

    /// Returns the connection that a link was made of.
    pub(super) fn connection(&self, node: usize, link: Link) -> &'a Connection {
        &self.nodes[node].connections[link.connection]
    }
}

/// Writes what there is to choose from.
pub(super) fn one_of<T: AsRef<str>>(what: &str, known: &[T]) -> String {
    if known.is_empty() {
        return format!("{what}, of which there is none");
    }
    /// Maximum number of names that are listed; the nearest is listed besides.
    const MAX: usize = 8;
    let mut names: Vec<&str> = known.iter().map(AsRef::as_ref).take(MAX).collect();
    if known.len() > MAX {
        names.push("…");
    }
    format!("{what}: {}", names.join(", "))
}

/// Asks for the nearest name, or says what else to do.
pub(super) fn or_meant<T: AsRef<str>>(typed: &str, known: &[T], next: &str) -> String {
    match nearest(typed, known.iter().map(AsRef::as_ref)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => next.to_owned(),
    }
}

/// Writes type and shape of a tensor.
pub(super) fn text(tensor: &TensorSource) -> String {
    let precision = tensor
        .dtype
        .map_or("an open type", |dtype| dtype.precision());
    format!("{precision} {}", tensor.shape)
}
