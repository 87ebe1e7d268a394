//! Batches of any size on the way to a node that takes one size.

use std::collections::HashMap;

use super::draft::{Draft, Gathers, Link};
use crate::{pipeline::dims::common, tensor::Dim};

impl Draft<'_> {
    /// Warns of connections from a model with an open first dimension to an input that takes less of it. Requests of
    /// the right size run, so that it is no error.
    pub(super) fn rows(&mut self, order: &[usize]) {
        if !self.found.errors.is_empty() {
            return;
        }
        // What reaches a node in front of its open inputs.
        let mut reaching: HashMap<usize, Dim> = HashMap::new();
        let mut warnings = Vec::new();
        for &node in order {
            for link in &self.nodes[node].links {
                let Some(taken) = self.rows_taken(node, *link) else {
                    continue;
                };
                let Some(given) = self.rows_given(*link, &reaching) else {
                    continue;
                };
                if is_open(taken) {
                    let before = reaching.get(&node).copied().unwrap_or(Dim::Any);
                    reaching.insert(node, common(before, given).unwrap_or(before));
                }
                let source = &self.nodes[link.source];
                if source.is_model() && is_open(given) && common(taken, given) != Some(given) {
                    warnings.push((node, *link, taken));
                }
            }
        }
        for (node, link, taken) in warnings {
            let connection = self.connection(node, link);
            let source = &self.nodes[link.source];
            let output = link.output.and_then(|output| source.output(output));
            let Some(output) = output else { continue };
            let text = format!(
                "requests fail unless `{}` gives {taken} in front, which the input `{}` takes: its output `{}` is {}; \
                 give both models the same batch_size, or split with demultiply_count",
                source.name, connection.name, output.name, output.shape
            );
            self.warn(&connection.place, text);
        }
    }

    /// Returns the first dimension of an input, unless something else than a batch is put there.
    fn rows_taken(&self, node: usize, link: Link) -> Option<Dim> {
        let reader = &self.nodes[node];
        if reader.gathers != Gathers::Nothing || self.connection(node, link).convert {
            return None;
        }
        reader.input(link.input?)?.shape.0.first().copied()
    }

    /// Returns the first dimension of what a connection gives, if it is known; `reaching` has what the nodes before it
    /// are given.
    fn rows_given(&self, link: Link, reaching: &HashMap<usize, Dim>) -> Option<Dim> {
        let source = &self.nodes[link.source];
        if source.count.is_some() {
            return None;
        }
        let output = link.output?;
        if link.source == 0 {
            return self.rows_asked(output);
        }
        let first = source.output(output)?.shape.0.first().copied()?;
        // A model gives as many rows as it is given.
        match reaching.get(&link.source) {
            Some(reaching) if is_open(first) => common(first, *reaching).or(Some(first)),
            _ => Some(first),
        }
    }

    /// Returns the first dimension that an input of the pipeline has, by all who read it.
    fn rows_asked(&self, input: usize) -> Option<Dim> {
        let nodes = self.nodes.iter().enumerate();
        let links = nodes.flat_map(|(node, it)| it.links.iter().map(move |link| (node, *link)));
        let readers = links.filter(|(_, link)| link.source == 0 && link.output == Some(input));
        let taken = readers.filter_map(|(node, link)| self.rows_taken(node, link));
        taken.reduce(|one, other| common(one, other).unwrap_or(one))
    }
}

/// Returns whether a dimension has several lengths.
fn is_open(dim: Dim) -> bool {
    matches!(dim, Dim::Any | Dim::Range(..))
}
