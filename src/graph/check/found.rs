//! What is found while a graph is judged.

use std::{cell::RefCell, collections::HashSet, sync::Arc};

use super::fault::{GraphErrors, FileFault, FileWarning, GraphRule};
use crate::graph::pbtxt::{Lines, MOST_FAULTS, TextFault};

/// Gathers faults and warnings, with their places in the file.
pub(in crate::graph) struct Found<'a> {
    pub(in crate::graph) lines: Lines<'a>,
    file: Arc<str>,
    kept: RefCell<Kept>,
}

#[derive(Default)]
struct Kept {
    faults: Vec<(usize, FileFault)>,
    warnings: Vec<(usize, FileWarning)>,
    told: HashSet<(usize, String)>,
    /// How many faults there are by the number of the rule, so that many of one hide none of another.
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

    /// Tells whether no more faults of a rule are kept: looking for hints is in vain.
    pub(in crate::graph) fn is_full(&self, rule: GraphRule) -> bool {
        self.kept.borrow().counts[usize::from(rule.number())] >= MOST_FAULTS
    }

    /// Tells whether a rule with a number of its own is broken.
    pub(in crate::graph) fn has(&self, rule: GraphRule) -> bool {
        self.kept.borrow().counts[usize::from(rule.number())] > 0
    }

    /// Adds a fault; not twice.
    pub(in crate::graph) fn add(&self, fault: New) {
        if self.is_full(fault.rule) {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        if !kept.told.insert((fault.at, fault.message.clone())) {
            return;
        }
        kept.counts[usize::from(fault.rule.number())] += 1;
        let place = self.lines.place(fault.at);
        let fault = (
            fault.at,
            FileFault {
                rule: fault.rule,
                file: self.file.clone(),
                place: Some(place),
                node: fault.node,
                subject: fault.subject,
                message: fault.message,
                hint: fault.hint,
            },
        );
        kept.faults.push(fault);
    }

    /// Adds a fault of the text.
    pub(in crate::graph) fn add_text(&self, fault: TextFault) {
        self.add(New {
            at: fault.at,
            rule: GraphRule::Text,
            node: fault.node,
            subject: String::new(),
            message: fault.message,
            hint: fault.hint,
        });
    }

    /// Adds a warning.
    pub(in crate::graph) fn warn(&self, at: usize, node: Option<&str>, message: String) {
        let mut kept = self.kept.borrow_mut();
        if kept.warnings.len() < MOST_FAULTS {
            let warning = FileWarning {
                file: self.file.clone(),
                place: self.lines.place(at),
                node: node.map(ToOwned::to_owned),
                message,
            };
            kept.warnings.push((at, warning));
        }
    }

    /// Returns the faults, in the order of the rules and then of the file, or else the warnings.
    pub(in crate::graph) fn end(self) -> Result<Vec<FileWarning>, GraphErrors> {
        let Kept {
            mut faults,
            mut warnings,
            ..
        } = self.kept.into_inner();
        faults.sort_by_key(|(at, fault)| (fault.rule.number(), *at));
        warnings.sort_by_key(|(at, _)| *at);
        let warnings = warnings.into_iter().map(|(_, warning)| warning).collect();
        if faults.is_empty() {
            return Ok(warnings);
        }
        Err(GraphErrors {
            faults: faults.into_iter().map(|(_, fault)| fault).collect(),
            warnings,
        })
    }
}

/// A fault that is about to be added.
pub(in crate::graph) struct New {
    pub(in crate::graph) at: usize,
    pub(in crate::graph) rule: GraphRule,
    pub(in crate::graph) node: Option<String>,
    pub(in crate::graph) subject: String,
    pub(in crate::graph) message: String,
    pub(in crate::graph) hint: Option<String>,
}

impl New {
    /// Makes a fault of streams, side packets, handlers or contracts.
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
