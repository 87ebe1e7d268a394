//! A pipeline while it is being checked.

use std::collections::HashMap;

use super::failure::{self, Failure};
use crate::{
    config::{Connection, FilePositions, NodeConfig, NodeKind, PipelineConfig},
    diagnostic::{
        ConnectionEnds, Diagnostic, Diagnostics, FilePosition, FindingText, Rule, Severity,
    },
    error::nearest,
    pipeline::{
        plan::Count,
        rules,
        sources::{CustomFacts, MissingModel, Sources, TensorSource},
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
    pub(super) found: Diagnostics,
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
    /// Reason why its facts are not known, if that is reported later, in the order of the rules.
    pub(super) failure: Option<Failure>,
    /// Marks a stateful model, which is not allowed in a pipeline.
    pub(super) stateful: bool,
    pub(super) auto: bool,
    /// Connections of its inputs whose sources are there.
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

/// A connection of which the source is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// Index among the node's connections.
    pub(super) connection: usize,
    /// The source.
    pub(super) source: usize,
    /// Index among the inputs of the node's facts, if it is there.
    pub(super) input: Option<usize>,
    /// Index among the outputs of the source's facts, or the inputs of the pipeline, if it is there. Of a
    /// source that is open, index among the outputs in the configuration.
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

    /// Returns the name of the model that it runs.
    pub(super) fn model(&self) -> Option<&String> {
        match &self.config?.kind {
            NodeKind::Model { model_name, .. } => Some(model_name),
            NodeKind::Custom { .. } => None,
        }
    }

    /// Returns whether it runs a model.
    pub(super) fn is_model(&self) -> bool {
        self.model().is_some()
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
            found: Diagnostics::default(),
        }
    }

    /// Asks for what each node takes and gives. Rules 2 and 3. What is not known afterwards is
    /// listed as unchecked.
    pub(super) fn describe(&mut self, sources: &impl Sources) {
        for index in 0..self.nodes.len() {
            let Some(config) = self.nodes[index].config else {
                continue;
            };
            let mut is_again = false;
            let described = match &config.kind {
                NodeKind::Model {
                    model_name,
                    version,
                } => {
                    let (before, rest) = self.nodes.split_at_mut(index);
                    let node = &mut rest[0];
                    match sources.model(model_name, *version) {
                        Ok(facts) => {
                            (node.stateful, node.auto) = (facts.stateful, facts.auto);
                            Ok(CustomFacts::from(&facts.info))
                        }
                        Err(missing) => {
                            is_again = matches!(missing, MissingModel::Unknown(_))
                                && before.iter().any(|it| it.model() == Some(model_name));
                            if let MissingModel::NotLooked { stateful, auto, .. } = missing {
                                (node.stateful, node.auto) = (stateful, auto);
                            }
                            Err(failure::of_model(model_name, *version, missing))
                        }
                    }
                }
                NodeKind::Custom { library_name, .. } => sources
                    .custom(config, library_name)
                    .map_err(|error| failure::of_custom(library_name, error)),
            };
            match described {
                Ok(facts) => self.nodes[index].facts = Some(facts),
                Err(failure) => self.not_known(index, failure, is_again),
            }
        }
    }

    /// Lists a node of which nothing is known. An error of a later rule than these is kept for its turn,
    /// unless it was reported for an earlier node.
    fn not_known(&mut self, index: usize, failure: Result<Failure, String>, is_again: bool) {
        let (what, key, rule) = match self.nodes[index].model() {
            Some(_) => ("model", "model_name", rules::MISSING_MODEL),
            None => ("custom node", "library_name", rules::MISSING_LIBRARY),
        };
        let failure = match failure {
            Ok(failure) => failure,
            Err(reason) => return self.unchecked(index, Some(rule), key, reason),
        };
        let reason = format!(
            "its inputs and outputs, and what depends on them, since the {what} cannot be asked"
        );
        self.unchecked(index, None, failure.key, reason);
        if failure.rule.number <= rules::INITIALIZE.number {
            self.fail(index, failure);
        } else {
            self.nodes[index].failure = Some(failure).filter(|_| !is_again);
        }
    }

    /// Adds the error of what a node runs.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let (message, next) = (failure.message, failure.next);
        if failure.key == failure::ENVIRONMENT {
            let place = self.config.places.of(failure.key).clone();
            let error = Diagnostic::error(failure.rule, message)
                .at(place)
                .hint(next);
            if !self.found.errors.contains(&error) {
                self.found.errors.push(error);
            }
            return;
        }
        self.error(index, failure.rule, failure.key, message, next);
        let error = self.found.errors.last_mut();
        if let (Some(error), Some(raised)) = (error, failure.raised) {
            error.traceback = Some(raised.traceback).filter(|it| !it.is_empty());
            // A place in the handler says more than that of the node.
            if let Some(line) = raised.line {
                error.file = Some(raised.file.into());
                error.place = Some((line, 1).into());
            }
        }
    }

    fn unchecked(&mut self, index: usize, rule: Option<Rule>, key: &str, reason: String) {
        let node = &self.nodes[index];
        self.found.unchecked.push(Diagnostic {
            rule,
            ..Diagnostic::new(Severity::Unchecked, reason)
                .node(node.name)
                .at(node.place(key).clone())
        });
    }

    /// Adds an error at a key of a node.
    pub(super) fn error(
        &mut self,
        node: usize,
        rule: Rule,
        key: &str,
        message: impl Into<FindingText>,
        next: impl Into<String>,
    ) {
        let node = &self.nodes[node];
        let error = Diagnostic::error(rule, message).node(node.name);
        let error = error.at(node.place(key).clone());
        self.found.errors.push(error.hint(next));
    }

    /// Adds an error of a connection of a node.
    pub(super) fn error_at(
        &mut self,
        node: usize,
        rule: Rule,
        connection: &Connection,
        message: impl Into<FindingText>,
        next: impl Into<String>,
    ) {
        let name = self.nodes[node].name;
        let error = Diagnostic::error(rule, message).node(name).hint(next);
        self.found.errors.push(Diagnostic {
            connection: Some(ConnectionEnds {
                from: connection.node_name.clone(),
                data_item: connection.data_item.clone(),
                to: name.to_owned(),
                input: connection.name.clone(),
            }),
            ..error.at(connection.place.clone())
        });
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, place: &FilePosition, text: impl Into<String>) {
        let warning = Diagnostic::new(Severity::Warning, text.into());
        self.found.warnings.push(warning.at(place.clone()));
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
    const MAX_NAMES: usize = 8;
    let mut names: Vec<&str> = known.iter().map(AsRef::as_ref).take(MAX_NAMES).collect();
    if known.len() > MAX_NAMES {
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
