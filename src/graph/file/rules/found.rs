//! Collection of the errors found in a graph.

use std::{cell::RefCell, collections::HashSet, sync::Arc};

use super::{TEXT, WIRING};
use crate::{
    diagnostic::{Diagnostic, Diagnostics, FilePosition, FindingText, LineIndex, Rule, Severity},
    graph::file::pbtxt::{MAX_ERRORS, TextError, token_end},
};

/// Collector of errors and warnings, with their positions in the file.
pub(in crate::graph) struct Found<'a> {
    pub(in crate::graph) lines: LineIndex,
    pub(in crate::graph) text: &'a str,
    file: Arc<str>,
    kept: RefCell<Kept>,
}

#[derive(Default)]
struct Kept {
    found: Diagnostics,
    reported: HashSet<((usize, usize), FindingText)>,
    /// Number of errors by rule number, so that many of one rule hide none of another.
    counts: [usize; 16],
}

impl<'a> Found<'a> {
    pub(in crate::graph) fn new(text: &'a str, file: &str) -> Self {
        Self {
            lines: LineIndex::new(text),
            text,
            file: file.into(),
            kept: RefCell::default(),
        }
    }

    /// Returns whether no more errors of a rule are kept, so that hints need not be computed.
    pub(in crate::graph) fn is_full(&self, rule: Rule) -> bool {
        self.kept.borrow().counts[usize::from(rule.number)] >= MAX_ERRORS
    }

    /// Returns whether a rule with a number of its own is broken.
    pub(in crate::graph) fn has(&self, rule: Rule) -> bool {
        self.kept.borrow().counts[usize::from(rule.number)] > 0
    }

    /// Adds an error of streams, side packets, handlers or contracts, of a node or of the graph itself.
    pub(in crate::graph) fn wiring(
        &self,
        node: Option<&str>,
        at: usize,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.add(Diagnostic {
            node: node.map(ToOwned::to_owned),
            ..self.error(WIRING, at, message).may_hint(hint)
        });
    }

    /// Creates an error at a byte of the file.
    pub(in crate::graph) fn error(
        &self,
        rule: Rule,
        at: usize,
        message: impl Into<String>,
    ) -> Diagnostic {
        self.at(at, Diagnostic::error(rule, message.into()))
    }

    /// Returns the position of what begins at a byte of the file, as wide as it is.
    pub(in crate::graph) fn position(&self, at: usize) -> FilePosition {
        let range = (at, token_end(self.text, at));
        self.lines.position(self.text, range)
    }

    fn at(&self, at: usize, found: Diagnostic) -> Diagnostic {
        Diagnostic {
            file: Some(Arc::clone(&self.file)),
            ..found.at(self.position(at))
        }
    }

    /// Adds an error of a rule, unless it is a duplicate.
    pub(in crate::graph) fn add(&self, error: Diagnostic) {
        let Some(rule) = error.rule.filter(|rule| !self.is_full(*rule)) else {
            return;
        };
        let mut kept = self.kept.borrow_mut();
        let key = (error.order(), error.message.clone());
        if kept.reported.insert(key) {
            kept.counts[usize::from(rule.number)] += 1;
            kept.found.errors.push(error);
        }
    }

    /// Adds an error of the text.
    pub(in crate::graph) fn add_text(&self, error: TextError) {
        let found = self.error(TEXT, error.at, error.message);
        self.add(Diagnostic {
            node: error.node,
            ..found.may_hint(error.hint)
        });
    }

    /// Adds a warning.
    pub(in crate::graph) fn warn(&self, at: usize, node: Option<&str>, message: String) {
        let warnings = &mut self.kept.borrow_mut().found.warnings;
        if warnings.len() < MAX_ERRORS {
            let warning = self.at(at, Diagnostic::new(Severity::Warning, message));
            warnings.push(Diagnostic {
                node: node.map(ToOwned::to_owned),
                ..warning
            });
        }
    }

    /// Returns the errors, in the order of the rules and then of the file, or else the warnings.
    pub(in crate::graph) fn end(self) -> Result<Vec<Diagnostic>, Diagnostics> {
        let mut found = self.kept.into_inner().found;
        let number = |error: &Diagnostic| error.rule.map(|rule| rule.number);
        let order = |error: &Diagnostic| (number(error), error.order());
        found.errors.sort_by_key(order);
        found.warnings.sort_by_key(Diagnostic::order);
        match found.errors.is_empty() {
            true => Ok(found.warnings),
            false => Err(found),
        }
    }
}

/// Returns the status text of a graph with errors, with the reason.
pub(in crate::graph) fn status(errors: &Diagnostics) -> String {
    let (status, first) = (errors.status(), errors.errors.first());
    first.map_or_else(String::new, |error| match &error.node {
        Some(node) => format!("{status} - node `{node}`: {}", error.message),
        None => format!("{status} - {}", error.message),
    })
}
