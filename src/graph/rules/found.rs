//! Collection of the errors found in a graph.

use std::{cell::RefCell, collections::HashSet, sync::Arc};

use super::error::{FileWarning, GraphErrors, GraphFileError, GraphRule};
use crate::graph::pbtxt::{Lines, MAX_ERRORS, TextError};

/// Collector of errors and warnings, with their positions in the file.
pub(in crate::graph) struct Found<'a> {
    pub(in crate::graph) lines: Lines<'a>,
    file: Arc<str>,
    kept: RefCell<Kept>,
}

#[derive(Default)]
struct Kept {
    errors: Vec<(usize, GraphFileError)>,
    warnings: Vec<(usize, FileWarning)>,
    reported: HashSet<(usize, String)>,
    /// Number of errors by rule number, so that many of one rule hide none of another.
    counts: [usize; 16],
}

impl<'a> Found<'a> {
    pub(in crate::graph) fn new(text: &'a str, file: &str) -> Self {
        Self {
            lines: Lines::new(text),
            file: file.into(),
            kept: RefCell::default(),
        }
    }

    /// Returns whether no more errors of a rule are kept, so that hints need not be computed.
    pub(in crate::graph) fn is_full(&self, rule: GraphRule) -> bool {
        self.kept.borrow().counts[usize::from(rule.number())] >= MAX_ERRORS
    }

    /// Returns whether a rule with a number of its own is broken.
    pub(in crate::graph) fn has(&self, rule: GraphRule) -> bool {
        self.kept.borrow().counts[usize::from(rule.number())] > 0
    }

    /// Adds an error, unless it is a duplicate.
    pub(in crate::graph) fn add(&self, error: New) {
        if self.is_full(error.rule) {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        if !kept.reported.insert((error.at, error.message.clone())) {
            return;
        }
        kept.counts[usize::from(error.rule.number())] += 1;
        let place = self.lines.place(error.at);
        let error = (
            error.at,
            GraphFileError {
                rule: error.rule,
                file: self.file.clone(),
                place: Some(place),
                node: error.node,
                subject: error.subject,
                message: error.message,
                hint: error.hint,
            },
        );
        kept.errors.push(error);
    }

    /// Adds an error of the text.
    pub(in crate::graph) fn add_text(&self, error: TextError) {
        self.add(New {
            at: error.at,
            rule: GraphRule::Text,
            node: error.node,
            subject: String::new(),
            message: error.message,
            hint: error.hint,
        });
    }

    /// Adds a warning.
    pub(in crate::graph) fn warn(&self, at: usize, node: Option<&str>, message: String) {
        let mut kept = self.kept.borrow_mut();
        if kept.warnings.len() < MAX_ERRORS {
            let warning = FileWarning {
                file: self.file.clone(),
                place: self.lines.place(at),
                node: node.map(ToOwned::to_owned),
                message,
            };
            kept.warnings.push((at, warning));
        }
    }

    /// Returns the errors, in the order of the rules and then of the file, or else the warnings.
    pub(in crate::graph) fn end(self) -> Result<Vec<FileWarning>, GraphErrors> {
        let Kept {
            mut errors,
            mut warnings,
            ..
        } = self.kept.into_inner();
        errors.sort_by_key(|(at, error)| (error.rule.number(), *at));
        warnings.sort_by_key(|(at, _)| *at);
        let warnings = warnings.into_iter().map(|(_, warning)| warning).collect();
        if errors.is_empty() {
            return Ok(warnings);
        }
        Err(GraphErrors {
            errors: errors.into_iter().map(|(_, error)| error).collect(),
            warnings,
        })
    }
}

/// Error to be added.
pub(in crate::graph) struct New {
    pub(in crate::graph) at: usize,
    pub(in crate::graph) rule: GraphRule,
    pub(in crate::graph) node: Option<String>,
    pub(in crate::graph) subject: String,
    pub(in crate::graph) message: String,
    pub(in crate::graph) hint: Option<String>,
}

impl New {
    /// Creates an error of streams, side packets, handlers or contracts.
    pub(in crate::graph) fn wiring(at: usize, message: impl Into<String>) -> Self {
        Self::of(GraphRule::Wiring, at, message)
    }

    pub(in crate::graph) fn of(rule: GraphRule, at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            rule,
            node: None,
            subject: String::new(),
            message: message.into(),
            hint: None,
        }
    }

    pub(in crate::graph) fn node(self, node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..self
        }
    }

    pub(in crate::graph) fn about(self, subject: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            ..self
        }
    }

    pub(in crate::graph) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub(in crate::graph) fn may_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}
