//! Which boxes stand in one row. Rows of a level have none of other levels between them, so that
//! a frame fits around them.

use super::graph::Graph;

/// Boxes beside each other, all of the same levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The levels, outermost first.
    pub(super) levels: Vec<usize>,
    pub(super) boxes: Vec<usize>,
}

/// Returns the rows from top to bottom. Links that would go up are detached.
pub(super) fn rows(graph: &mut Graph) -> Vec<Row> {
    loop {
        let rows = Ranker::new(graph).level(&[]);
        let mut row_of = vec![0; graph.boxes.len()];
        for (index, row) in rows.iter().enumerate() {
            for &node in &row.boxes {
                row_of[node] = index;
            }
        }
        let mut links = graph.links.iter();
        let up = links.find(|link| row_of[link.from] >= row_of[link.to]);
        // Each turn takes a link away and adds one from a box without any above it.
        match up.copied() {
            Some(link) => graph.detach(link),
            None => return rows,
        }
    }
}

struct Ranker<'a> {
    graph: &'a Graph,
}

impl<'a> Ranker<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self { graph }
    }

    /// Returns the rows of a level: its own boxes, and those of each level in it as one.
    fn level(&self, stack: &[usize]) -> Vec<Row> {
        let graph = self.graph;
        let within = |node: &usize| graph.boxes[*node].levels.starts_with(stack);
        let nodes: Vec<usize> = (0..graph.boxes.len()).filter(within).collect();
        // What stands for a box here: itself, or the level in this one that it belongs to.
        let inner = |node: usize| graph.boxes[node].levels.get(stack.len()).copied();
        let mut items: Vec<(Option<usize>, usize)> = Vec::new();
        let mut item_of = vec![usize::MAX; graph.boxes.len()];
        for &node in &nodes {
            let level = inner(node);
            let known = items
                .iter()
                .position(|item| level.is_some() && item.0 == level);
            item_of[node] = known.unwrap_or_else(|| {
                items.push((level, node));
                items.len() - 1
            });
        }
        let ranks = self.ranks(&nodes, &item_of, items.len());
        let last = ranks.iter().max().copied().unwrap_or(0);
        let mut rows = Vec::new();
        for rank in 0..=last {
            let here = || (0..items.len()).filter(|item| ranks[*item] == rank);
            let boxes = here().filter(|item| items[*item].0.is_none());
            let boxes: Vec<usize> = boxes.map(|item| items[item].1).collect();
            if !boxes.is_empty() {
                rows.push(Row {
                    levels: stack.to_vec(),
                    boxes,
                });
            }
            for level in here().filter_map(|item| items[item].0) {
                rows.extend(self.level(&[stack, &[level]].concat()));
            }
        }
        rows
    }

    /// Returns the rank of each item: one more than the highest of those above it.
    fn ranks(&self, nodes: &[usize], item_of: &[usize], count: usize) -> Vec<usize> {
        let graph = self.graph;
        let mut below = vec![Vec::new(); count];
        let mut waiting = vec![0_usize; count];
        for link in &graph.links {
            let (from, to) = (item_of[link.from], item_of[link.to]);
            if from != usize::MAX && to != usize::MAX && from != to {
                below[from].push(to);
                waiting[to] += 1;
            }
        }
        let mut ranks = vec![0_usize; count];
        let mut ready: Vec<usize> = (0..count).filter(|item| waiting[*item] == 0).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(item) = ready.pop() {
            order.push(item);
            for &to in &below[item] {
                ranks[to] = ranks[to].max(ranks[item] + 1);
                waiting[to] -= 1;
                if waiting[to] == 0 {
                    ready.push(to);
                }
            }
        }
        // What has nothing above it, except the request, stands right above what it is for.
        for &item in order.iter().rev() {
            let is_start = nodes.iter().any(|&node| node == 0 && item_of[node] == item);
            let has_above = below.iter().any(|below| below.contains(&item));
            if !is_start && !has_above {
                let lowest = below[item].iter().map(|to| ranks[*to]).min();
                ranks[item] = lowest.map_or(1, |rank| rank.saturating_sub(1));
            }
        }
        if let Some(exit) = item_of.get(graph.exit).filter(|item| **item != usize::MAX) {
            let deepest = ranks.iter().max().copied().unwrap_or(0);
            let others = (0..count).any(|item| item != *exit && ranks[item] == deepest);
            ranks[*exit] = deepest + usize::from(others);
        }
        ranks
    }
}
